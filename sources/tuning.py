"""`tilewright.tune_source`: find the fastest configuration of a source on a device, within a budget, and remember it."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from ..cache.keys import DEFAULT_POLICY, Key
from ..ir.errors import CacheMiss, UsageError
from ..log import logger
from ..measure.bench import Data
from ..measure.measurer import Measurer
from ..measure.processes import process
from ..measure.processes.protocol import Closed
from ..search import strategy as strategies
from ..search.api import Interrupted, OnInterrupt
from ..search.budget import Budget, Meter
from ..search.interrupts import Deadline, SignalWatch, late_s, release
from ..search.progress import Progress, shown
from ..search.result import INTERRUPTED, Result
from ..search.run_state import Start
from ..search.space import Space
from ..search.task import build_deadline_s
from ..search.tuning_run import TuningRun
from ..search.warm_start import GLANCE, Effort, known, stored
from ..targets.free_memory import require_room
from . import building
from . import reference as preparing
from .building import SourceTask
from .configurations import ParameterEngine, ParameterNames, schedule
from .parameters import text_of
from .reference import MODULE, ReferenceRequest
from .resolving import SourceJob, SourceRecorder, SourceRun, SourceSettings, answered, opened, resolved
from .source_device import SourceDevice
from .spec import SourceSpec

if TYPE_CHECKING:
    from ..cache import Cache
    from ..ir.kernel import Kernel
    from ..ir.normal_form import Canonical
    from ..search.strategy import Strategy


# references -------------------------------------------------------------------------------------------------
# The reference of a source: computed before a search, in a process of its own, with a limit on its time.


LIMIT_S = 300.0
"""Seconds that a reference may take where nobody says another limit."""


def compute(task: SourceTask, device: SourceDevice, threads: int, seeds: tuple[int, ...], limit_s: float = LIMIT_S) -> None:
    """Write what every output must hold, for the inputs of each seed. Raises UsageError where the reference fails, hangs, or
    disagrees with itself."""
    if not any(a.written for a in task.spec.arrays):
        raise UsageError(
            f'{task.spec.function} writes no argument, so nothing can be checked: give the arrays that it writes role = "out" or "inout"'
        )
    started, channel = process.start(MODULE, ReferenceRequest(task, device, threads, seeds))
    what = (
        f"the reference {task.spec.check.reference}" if task.spec.check.reference else "the untuned configuration, which is the reference,"
    )
    began = time.monotonic()
    try:
        while True:
            try:
                kind, payload = channel.receive(min(1.0, max(0.01, began + limit_s - time.monotonic())))
                break
            except TimeoutError:
                if time.monotonic() - began > limit_s:
                    raise UsageError(
                        f"{what} did not end within {limit_s:.3g} s: give smaller sizes, another reference, or more time"
                    ) from None
    except Closed:
        how = process.how_it_ended(started.wait())
        raise UsageError(f"{what} ended its process ({how}){_hint(how)}") from None
    finally:
        process.stop(started, channel)
    if kind == "error":
        raise UsageError(str(payload))


def _hint(how: str) -> str:
    """What a signal usually means."""
    if "SIGSEGV" in how or "SIGBUS" in how:
        return ': it reads or writes outside an array, or writes one whose role is "in"; check shapes, roles and sizes'
    return ""


# measuring --------------------------------------------------------------------------------------------------
# The measurer of a source's configurations: builders, runner and checks are those of kernels.


LEAST_S, MOST_S = 2.0, 10.0
"""Seconds that a call may take, at least and at most."""


class SourceMeasurer(Measurer):
    """Builds, verifies and times configurations of a `SourceTask`."""

    def __init__(self, task: building.SourceTask, what: Any, budget: Budget, seed: int, hashed: bool = False) -> None:
        """`what` has the `device` (a SourceDevice) and the `threads`. One endless loop must not cost the whole budget."""
        deadline = MOST_S if budget.seconds is None else min(MOST_S, max(LEAST_S, budget.seconds / 6))
        # to a measurer its kernel is opaque: `build` and `prepare` alone look inside
        kernel = cast("Kernel", task)
        told: dict[str, Any] = {"compile": building.build, "prepare": preparing.prepare, "hash_outputs": hashed}
        told["build_deadline_s"] = build_deadline_s(budget)
        super().__init__(kernel, what.device, what.threads, seed=seed, deadline_s=deadline, **told)

    def _second_data(self, flushes: bool, regroups: bool) -> list[Data]:
        """Other inputs of the kinds that the user chose, and many runs that must give the same bits."""
        return [Data(self.seed + 1, preparing.AGAIN)]


# tuning -----------------------------------------------------------------------------------------------------
log = logger("sources")

SMALL = 64
"""Configurations that are all measured where no strategy is asked for."""
WITHOUT_CHOICES = ("beam", "evolve", "random")
"""Strategies that append options of kernels, which a source has none of."""


def tune_source(
    source: str | Path | SourceSpec,
    function: str = "",
    *,
    progress: Progress | None = None,
    interrupt: OnInterrupt = "raise",
    command: str = "",
    **settings: Unpack[SourceSettings],
) -> Result:
    """Search for the fastest configuration of `function` in the file `source`, and record every measurement.

    The settings are those of `SpecSettings` (args, params, flag_params, restrict, sizes, check, flags, block, grid and so on) and
    `SearchSettings` (device, budget, trials, threads, strategy, random_seed, cache, retune, study, mode, first). A configuration's whole
    output is checked before it counts. The answer must beat the untuned configuration by more than the noise of paired runs,
    and is checked again with other inputs. `threads` (default 1) is for OpenMP. `mode` is "use" (from the cache where that
    will do), "refresh" (search again) or "require" (from the cache, or CacheMiss).

    Returns a Result whose `opts` are the values (`tilewright.sources.values_of` makes a dictionary of them). Raises UsageError,
    DeviceError, CacheError; Interrupted, a KeyboardInterrupt, after Ctrl-C unless `interrupt` is "return"."""
    started = time.monotonic()
    show = shown(progress)
    asked = settings.get("budget"), settings.get("trials")
    budget = Budget.make(*asked)
    mode = settings.get("mode", "use")
    if mode not in ("use", "refresh", "require"):
        raise UsageError(f"mode is use, refresh or require, not {mode!r}")
    show.phase("preparing")
    with Deadline(budget.seconds, started), SignalWatch((signal.SIGINT,)) as watch, opened(settings.get("cache")) as store:
        Deadline.doing = "the source was being read"
        what = resolved(source, function, settings)
        name = _strategy_name(what.spec, settings.get("strategy"), settings.get("study"), budget.trials)
        job = what.job(name, settings.get("random_seed", 0), budget, command)
        release()
        again = mode == "refresh" or settings.get("retune", False)
        wish = None if not budget.wish else budget if any(a is not None for a in asked) else GLANCE
        found = None if again else _answer(what, store, job, None if mode == "require" else wish, started)
        log.info("%s: %s", what.spec.function, "answered by the cache" if found is not None else "the cache's answer will not do")
        if found is None and mode == "require":
            raise CacheMiss(f"the cache holds no answer for {what.spec.function} ({what.key}); run it once without --mode require")
        if found is None:
            found = _searched(what, store, job, (budget, started), show, settings)
        else:
            show.done(found)
    if interrupt == "raise" and (found.exit_code == INTERRUPTED or watch.number):
        raise Interrupted(found)
    return found


def _strategy_name(spec: SourceSpec, asked: str | None, study: str | None, trials: int | None) -> str:
    """The strategy: all configurations where they are few, and may all be measured, else the portfolio of those over choices."""
    if asked is None and not study:
        few = spec.lattice.size <= SMALL and (trials is None or trials >= spec.lattice.size)
        return "exhaustive" if few else strategies.DEFAULT
    name = strategies.check(asked or "optuna:tpe")
    if name in WITHOUT_CHOICES:
        raise UsageError(
            f"{name} appends options of kernels, and a source has none: use choices, anneal, genetic, uniform, exhaustive or optuna:tpe"
        )
    if study and not name.startswith("optuna:"):
        raise UsageError(f"a study is kept for Optuna's strategies (optuna:tpe and others), not for {name!r}")
    return name


def _searched(
    what: SourceRun, store: Cache, job: SourceJob, limit: tuple[Budget, float], show: Progress, settings: Mapping[str, Any]
) -> Result:
    """The search itself."""
    spec, (budget, started) = what.spec, limit
    space = Space(ParameterEngine(spec), frozenset({DEFAULT_POLICY, "NONDET"}))
    require_room(spec.nbytes, f"{spec.function} with its reference", "give smaller sizes")
    store.ensure_writable()
    with tempfile.TemporaryDirectory(prefix="tilewright-references-") as folder:
        task = building.SourceTask(spec, Path(folder))
        show.phase("computing the reference")
        Deadline.doing = "the reference was being computed"
        left = LIMIT_S if budget.seconds is None else started + budget.seconds - time.monotonic()
        compute(task, what.device, what.threads, (job.random_seed, job.random_seed + 1), min(LIMIT_S, max(0.0, left)))
        log.debug("%s: preparing and the reference took %.3f s", spec.function, time.monotonic() - started)
        meter = Meter(budget, started)
        with SourceMeasurer(task, what, budget, job.random_seed, bool(settings.get("study"))) as measurer:
            names = cast("Canonical", ParameterNames())
            recorder = SourceRecorder(
                store,
                what.key,
                names,
                {},
                job,
                effects=lambda o: frozenset(),
                provenance={"machine": what.device.fingerprint(), "seed": job.random_seed},
                earlier={row.schedule for row in store.answers(what.key)},
            )
            recorder.spec = spec
            recorder.last_s = min(recorder.last_s, late_s(budget.seconds))
            earlier = next((e for r in store.answers(what.key)[:1] if (e := Effort.of(r)) is not None), None)
            starts = _starts(spec, space, store, what.key, settings.get("first", ()))
            chosen = _strategy(job.strategy, space, starts, what, settings) if spec.parameters else None
            try:
                before = known(store, what.key, names)
                run = TuningRun(space, measurer, chosen, starts, job, meter, show, recorder, known=before, earlier=earlier)
                found = run.run()
            finally:
                if chosen is not None:
                    chosen.close()
    # a start schedule is what a kernel has without tuning
    said = found.message.replace("the start schedule", "the untuned configuration").replace("candidate / start", "candidate / untuned")
    return dataclasses.replace(found, seconds=time.monotonic() - started, message=said)


def _starts(spec: SourceSpec, space: Space, store: Cache, key: Key, first: Sequence[Mapping[str, Any]]) -> list[Start]:
    """The untuned configuration, then what is remembered and what the user names."""
    found = {schedule(spec, spec.untuned): Start(schedule(spec, spec.untuned))}
    given = [schedule(spec, spec.at({n: text_of(v) for n, v in f.items()})) for f in first]
    for opts in (*given, *stored(store, key, cast("Canonical", ParameterNames()), space)):
        found.setdefault(opts, Start(opts, "stored"))
    return list(found.values())


def _strategy(name: str, space: Space, starts: Sequence[Start], what: SourceRun, settings: Mapping[str, Any]) -> Strategy:
    """The strategy over the parameters' choices."""
    if name == "portfolio":
        from ..search.strategies.bayesian import ModelledChoices
        from ..search.strategies.optuna_search import Tpe
        from ..search.strategies.point_search import Genetic

        return strategies.create(name, space, seed=settings.get("random_seed", 0), arms=(ModelledChoices, Genetic, Tpe))
    more: dict[str, Any] = {}
    if settings.get("study"):
        from ..search.strategies.optuna_study import StudyKeeper

        job = what.job(name, 0, Budget())
        about = {"kernel": job.kernel, "device": job.device, "threads": job.threads, "compiler": what.key.compiler, "flops": job.flops}
        more["study"] = StudyKeeper(settings["study"], f"{job.kernel} {job.device} {what.key.hash[:8]}", space.templates(), about)
        more["study"].last_s = min(more["study"].last_s, late_s(Budget.make(settings.get("budget"), settings.get("trials")).seconds))
    return strategies.create(name, space, seed=settings.get("random_seed", 0), start=[s.opts for s in starts], **more)


def _answer(what: SourceRun, store: Cache, job: SourceJob, asked: Budget | None, started: float) -> Result | None:
    """The cache's answer where it was found here by a search as thorough as is asked."""
    row = store.best(what.key)
    if row is None or row.imported or not row.facts.get("confirmed"):
        return None
    effort = Effort.of(row)
    if effort is not None and not effort.covers(asked):
        return None
    return answered(row, job, time.monotonic() - started)
