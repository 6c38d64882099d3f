"""`tilewright.tune`: find the fastest schedule of a kernel on a device, within a budget, and remember it."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..cache.objectives import TIME
from ..cache.ranking import Standing
from ..ir import given
from ..ir.errors import CacheMiss, OptError, UsageError
from ..log import logger
from ..opts.opt import parse
from . import objective as aims
from . import strategy as strategies
from .budget import Budget, Meter
from .interrupts import Deadline, SignalWatch, late_s, release
from .machine_limits import DoubtedLimits
from .progress import Progress, shown
from .result import INTERRUPTED, Job, Result
from .space import OptEngine, Space
from .task import Measuring, TuningTask, begin_helpers, measurer_of, recorder_of
from .tuning_run import TuningRun
from .warm_start import GLANCE, Effort, answer, front_of, known, starts_of

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..devices import Device
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..ir.kernel import Kernel
    from ..plan import Plan
    from .strategies.optuna_study import StudyKeeper


# garbage ----------------------------------------------------------------------------------------------------
# Python looks through all young objects for cycles after every 700 new ones, and now and then through all objects. A
# search makes many that stay (states, schedules) and hardly a cycle: a tenth of its own time went into that.


OBJECTS = 50_000
"""New objects after which the youngest are looked through."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Inside, cycles are looked for less often, unless whoever runs this process said that they never are, or even less often."""
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


# api --------------------------------------------------------------------------------------------------------
log = logger("search")

Mode = Literal["use", "require", "record", "tune", "refresh"]
MODES: tuple[str, ...] = get_args(Mode)
_PREPARING = "the search was being prepared"
OnInterrupt = Literal["raise", "return"]


def tune(
    kernel: str | Kernel,
    shape: Mapping[str, Extent] | None = None,
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    budget: str | float | Budget | None = None,
    trials: int | None = None,
    threads: int | None = None,
    strategy: str | None = None,
    start: str = "auto",
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    mode: Mode = "use",
    retune: bool = False,
    progress: Progress | None = None,
    *,
    stop_at: float | None = None,
    patience: int | None = None,
    vars: Mapping[str, int] | None = None,
    study: str | None = None,
    interrupt: OnInterrupt = "raise",
    allow: Iterable[str] = (),
    objective: str | Sequence[str] = TIME,
    measuring: Measuring | None = None,
    since: float | None = None,
) -> Result:
    """Search for the fastest schedule of `kernel` and record every measurement in `cache`.

    `kernel`: a name (`tune kernels`), `my.py:function`, or a Kernel. `shape` and `dtype` complete a name; a size may be a symbol.
    `budget`: seconds or text such as "30s" (the default unless `trials`, the number of measurements, is given), everything included,
    counted from `since` (on `time.monotonic`; default: now) and kept to within a tenth or 2 s: what hangs is ended. `stop_at`: fraction
    of the roofline that is good enough; `patience`: batches without a gain. `start`: "auto" begins with the start schedules, "none" from
    the empty one, and a schedule (in short form or JSON) is tried beside the start schedules. `vars`: value at which a symbolic extent is tuned
    (default: the middle of its range). `cache`: path or URL (default: TILEWRIGHT_CACHE, else the user's). `study`: an Optuna storage
    (sqlite:///study.db, a journal file's path, …) where an `optuna:` strategy keeps and resumes its trials.

    `allow`: effects that are refused otherwise, such as "downconvert" (`cache.keys.EFFECTS`): schedules may then compute in lower
    precision, are held to the wider error bound that follows, and have cache entries of their own. `measuring`: what makes the
    measurer, where that is not one of `device` here (`fleet.batches.fleet_measurer`). `objective`: what is made small, of
    `cache.objectives.OBJECTIVES`, or two such as "time,scratch", whose front is the answer; each has cache entries of its own.

    `mode`: "use" and "tune" answer from the cache when it has this key and the search behind the answer was as thorough as `budget` and
    `trials` ask, else they search, going on from all that was measured; an answer that was measured elsewhere, or never checked twice,
    is checked and timed here first. "require" answers from the cache or raises CacheMiss; "record" measures only the start schedules;
    "refresh", like `retune=True`, searches again, from the best schedules stored. Raises UsageError, KernelError, DeviceError, CacheError,
    MeasureError; `Result.exit_code` is 4 when nothing valid was found and 6 when there was no time to measure anything. After Ctrl-C the
    best so far is kept and Interrupted, a KeyboardInterrupt with the `result`, is raised; with `interrupt="return"` it is returned."""
    given.check_all("tune", locals(), mode=MODES, interrupt=get_args(OnInterrupt))
    started = time.monotonic() if since is None else since
    limit, strategy = Budget.make(budget, trials, stop_at, patience), _checked(mode, start, retune, strategy, study)
    aims.check(objective, strategy, study, limit)
    (show := shown(progress)).phase("preparing")
    with Deadline(limit.seconds, started, _PREPARING), SignalWatch((signal.SIGINT,)) as watch, _opened(cache) as store, seldom_collected():
        task = TuningTask(kernel, shape, dtype, device, threads, vars, allow, objective)
        release()
        asked = None if not limit.wish else limit if budget is not None or trials is not None else GLANCE
        result = _tune(
            task, store, limit, strategy, start, random_seed, mode, retune or mode == "refresh", show, started, study, asked, measuring
        )
    if interrupt == "raise" and (result.exit_code == INTERRUPTED or watch.number):
        raise Interrupted(result)
    return result


def _checked(mode: str, start: str, retune: bool, strategy: str | None, study: str | None) -> str:
    """The strategy's full name; UsageError where what was asked for makes no sense."""
    if start not in ("auto", "none"):
        _read(start)  # whether it applies is told when the kernel is known
    if mode == "require" and retune:
        raise UsageError("require answers from the cache and retune searches again: use one of them")
    name = strategies.check(strategy if strategy is not None or study is None else "optuna:tpe")
    if study and not name.startswith("optuna:"):
        raise UsageError(f"a study is kept for Optuna's strategies (optuna:tpe and others), not for {name!r}")
    return name


def _read(start: str) -> None:
    """UsageError where what a search begins with is no schedule."""
    try:
        parse(start)
    except OptError as e:
        raise UsageError(f"start must be auto, none or a schedule: {e}") from e


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a search; `result` is the best so far, which is in the cache."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.summary())
        self.result = result


def cached(
    kernel: str | Kernel,
    shape: Mapping[str, int] | None,
    dtype: DTypeLike | str | None,
    device: str | Device,
    threads: int | None,
    cache: Cache,
    asked: Budget | None,
    objective: str = TIME,
) -> Result | None:
    """The cache's answer where it will do without a search: verified here, and by a search as thorough as `asked`
    (see `Effort.covers`). Raises what `tune` does."""
    started = time.monotonic()
    task = TuningTask(kernel, shape, dtype, device, threads, objective=objective)
    found = _look(task, cache)
    if found is None or found.standing is not Standing.verified or not covered(found.row, asked):
        return None
    return answer(task.job("", "auto", 0, Budget()), found, time.monotonic() - started, front_of(task, cache))


def _tune(
    task: TuningTask,
    cache: Cache,
    budget: Budget,
    strategy: str,
    start: str,
    random_seed: int,
    mode: str,
    again: bool,
    show: Progress,
    started: float,
    study: str | None,
    asked: Budget | None,
    measuring: Measuring | None,
) -> Result:
    if mode == "require":
        from ..plan import resolve

        about: dict[str, Any] = {"policy": task.key.policy, "objective": task.key.objective}
        known_ = resolve(task.kernel, task.device, task.threads, cache, exact_only=True, own_only=True, **about)
        found = answer(task.job(strategy, start, random_seed, budget), known_, time.monotonic() - started, front_of(task, cache))
        show.done(found)
        return found
    plan = _look(task, cache)
    enough = plan is not None and not again and (mode == "record" or covered(plan.row, asked))
    log.info(
        "%s: %s",
        task.name,
        "not in the cache" if plan is None else f"cached, {plan.standing}, {'will do' if enough else 'and searched again'}",
    )
    known_here = plan is not None and enough and plan.standing is Standing.verified
    fresh = not known_here and measuring is None and begin_helpers()
    job = task.job(strategy, start, random_seed, budget)
    if plan is not None and known_here:
        found = answer(job, plan, time.monotonic() - started, front_of(task, cache))
        show.done(found)
        return found
    aim = aims.measurable(job.objective, task.device, measuring is not None)
    kept: dict[str, Any] = {"study": _study(task, job, study, budget)} if study and mode != "record" else {}
    space = Space(OptEngine(task.kernel, task.device.target, task.threads, task.device.limits(), task.effects), task.effects)
    if fresh and start != "none":
        space.starts()  # while the process that makes the measurer's does its imports
    # then the measurer, so that its processes start while the rest is prepared
    with (measuring or measurer_of)(task, budget, random_seed, bool(kept)) as measurer:
        cache.ensure_writable()
        recorder = recorder_of(task, cache, space, job, last_s=late_s(budget.seconds))
        earlier = None if plan is None or plan.row is None else Effort.of(plan.row)
        starts = starts_of(task, space, cache, recorder.loose, job, start)
        chosen = None
        if mode != "record" and not enough:  # else the answer is only checked and timed here, beside the start schedules
            kept |= {"values": aim.logs} if aim.front and strategy.startswith("optuna:") else {}
            chosen = strategies.create(strategy, space, seed=random_seed, start=[s.opts for s in starts] if start != "none" else [], **kept)
        try:
            more: dict[str, Any] = {"known": known(cache, task.key, task.canonical), "earlier": earlier}
            more["doubted"] = DoubtedLimits(task, recorder, measurer, budget) if measuring is None else None
            return TuningRun(space, measurer, chosen, starts, job, Meter(budget, started), show, recorder, **more).run()
        finally:
            if chosen is not None:
                chosen.close()


def _look(task: TuningTask, cache: Cache) -> Plan | None:
    """The cache's own answer, if its options still mean what was measured."""
    cache.will_write = True
    from ..plan import resolve

    about: dict[str, Any] = {"policy": task.key.policy, "objective": task.key.objective}
    try:  # without an answer no start schedule is wanted yet: helpers can start while start schedules are made
        return resolve(task.kernel, task.device, task.threads, cache, exact_only=True, own_only=True, **about)
    except CacheMiss:
        return None


def covered(row: Row | None, asked: Budget | None) -> bool:
    """Whether the search behind a row was as thorough as `asked`. One that says nothing of it counts as thorough."""
    effort = None if row is None else Effort.of(row)
    return effort is None or effort.covers(asked)


def _study(task: TuningTask, job: Job, url: str, budget: Budget) -> StudyKeeper:
    """The study of this kernel on this device, open."""
    from ..heuristics import templates
    from ..kernels import short_name
    from .strategies.optuna_study import StudyKeeper

    shape = ",".join(f"{k}={v}" for k, v in job.shape.items())
    name = " ".join(filter(None, (short_name(job.kernel), shape, job.dtype, job.device, f"{job.threads} threads", task.key.hash[:8])))
    about = {
        "kernel": job.kernel,
        "shape": shape,
        "dtype": job.dtype,
        "device": job.device,
        "threads": job.threads,
        "target": task.key.target,
    }
    keeper = StudyKeeper(
        url,
        name,
        templates(task.kernel, task.device.target, task.threads, task.effects),
        {**about, "compiler": task.key.compiler, "flops": job.flops},
    )
    keeper.last_s = min(keeper.last_s, late_s(budget.seconds))
    return keeper


def _opened(cache: str | os.PathLike[str] | Cache | None) -> AbstractContextManager[Cache]:
    """A cache that was given open stays open."""
    from contextlib import nullcontext

    from .. import cache as caches

    return nullcontext(cache) if isinstance(cache, caches.Cache) else caches.open(cache)
