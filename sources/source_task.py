"""A source on a device as what a search is about: its settings and keys, its reference, measurer and recorder."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ..cache.keys import DEFAULT_POLICY, Key
from ..devices.opencl import oclgrind
from ..files.strict import canon
from ..ir.errors import CacheMiss, UsageError
from ..measure.bench import Data
from ..measure.checking.sanitise import MOST_BYTES
from ..measure.measurer import Measurer
from ..measure.processes import process
from ..measure.processes.protocol import Closed
from ..opts import parse
from ..search import strategy as strategies
from ..search.budget import Budget, written
from ..search.cache_recorder import CacheRecorder
from ..search.interrupts import Deadline
from ..search.result import Job, Result
from ..search.run_state import Start
from ..search.space import Space
from ..search.task import CachedAnswer, TuneRequest
from ..search.warm_start import answer, stored
from ..targets.free_memory import require_room
from . import building
from .building import CheckedSource, ParameterEngine, ParameterNames, flags_of, plain_text, point, schedule, texts
from .parameters import text_of
from .reading import SpecSettings, spec_of
from .source_device import SourceDevice
from .source_reference import AGAIN, MODULE, ReferenceRequest, beginning, prepare
from .source_spec import DEVICES, SourceSignature, SourceSpec

if TYPE_CHECKING:
    import os

    from ..cache import Cache
    from ..ir.kernel import Kernel
    from ..ir.normal_form import Canonical
    from ..measure import Measurement
    from ..measure.processes.buildpool import Builds
    from ..opts.opt import Opt
    from ..plan import Built


class SearchSettings(TypedDict, total=False):
    """How a source is searched: as the arguments of `tune` of the same names. `first`: configurations to begin with."""

    device: str
    budget: str | float | Budget | None
    trials: int | None
    threads: int | None
    strategy: str | None
    random_seed: int
    cache: str | os.PathLike[str] | Cache | None
    retune: bool
    study: str | None
    mode: Literal["use", "refresh", "require"]
    first: Sequence[Mapping[str, Any]]


class SourceSettings(SpecSettings, SearchSettings, total=False):
    """Everything that `tune_source` takes by name."""


@dataclass(frozen=True, slots=True)
class SourceJob(Job):
    """What is tuned, and how, with the command that a user gave."""

    command: str = ""

    def reproduce(self) -> str:
        """The command that runs this search again."""
        return self.command


# references -------------------------------------------------------------------------------------------------
# The reference of a source: computed while the first configuration is being built, in a process of its own, with a limit on its time.


LIMIT_S = 300.0
"""Seconds that a reference may take where nobody says another limit."""


class PendingReference:
    """What every output must hold, for the inputs of each seed, being computed in a process of its own."""

    def __init__(self, task: CheckedSource, device: SourceDevice, threads: int, seeds: tuple[int, ...], limit_s: float = LIMIT_S) -> None:
        """Raises UsageError where nothing can be checked."""
        spec = task.spec
        if not any(a.written for a in spec.arrays):
            raise UsageError(
                f'{spec.function} writes no argument, so nothing can be checked: give the arrays that it writes role = "out" or "inout"'
            )
        self._what = (
            f"the reference {spec.check.reference}" if spec.check.reference else "the untuned configuration, which is the reference,"
        )
        self._process, self._channel = process.start(MODULE, ReferenceRequest(task, device, threads, seeds))
        self._limit_s, self._until = limit_s, time.monotonic() + limit_s
        self._open = True

    def wait(self) -> None:
        """Until it is written. Raises UsageError where the reference fails, hangs, or disagrees with itself."""
        try:
            while self._open:
                with contextlib.suppress(TimeoutError):
                    kind, payload = self._channel.receive(min(1.0, max(0.01, self._until - time.monotonic())))
                    break
                if time.monotonic() > self._until:
                    raise UsageError(
                        f"{self._what} did not end within {self._limit_s:.3g} s: give smaller sizes, another reference, or more time"
                    )
            else:
                return
        except Closed:
            how = process.how_it_ended(self._process.wait())
            raise UsageError(f"{self._what} ended its process ({how}){_hint(how)}") from None
        finally:
            self.stop()
        if kind == "error":
            raise UsageError(str(payload))

    def stop(self) -> None:
        """End it now; safe to call twice."""
        if self._open:
            self._open = False
            process.stop(self._process, self._channel)


def _hint(how: str) -> str:
    """What a signal usually means."""
    if "SIGSEGV" in how or "SIGBUS" in how:
        return ': it reads or writes outside an array, or writes one whose role is "in"; check shapes, roles and sizes'
    return ""


# measuring --------------------------------------------------------------------------------------------------
# The measurer of a source's configurations: builders, runner and checks are those of kernels.


class SourceMeasurer(Measurer):
    """Builds, verifies and times configurations of a `CheckedSource`."""

    def __init__(
        self, checked: CheckedSource, reference: PendingReference, device: SourceDevice, threads: int, request: TuneRequest, hashed: bool
    ) -> None:
        self._reference = reference
        # to a measurer its kernel is opaque: `build` and `prepare` alone look inside
        kernel = cast("Kernel", checked)
        told: dict[str, Any] = {"compile": building.build, "prepare": prepare, "hash_outputs": hashed}
        told |= {"deadline_s": request.deadline_s, "build_deadline_s": request.build_deadline_s, "building": 1}
        super().__init__(kernel, device, threads, seed=request.random_seed, **told)

    def _prepare(self) -> None:
        """The runner needs the reference, which builders need not wait for."""

    def build(self, schedules: Sequence[tuple[Opt, ...]]) -> Builds:
        builds = super().build(schedules)
        if self._runner is None:
            doing, Deadline.doing = Deadline.doing, "the reference was being computed"
            self._reference.wait()
            super()._prepare()
            Deadline.doing = doing
        return builds

    def close(self) -> None:
        self._reference.stop()
        super().close()

    def _fault(self, built: Built) -> str | None:
        task = cast(CheckedSource, self.kernel)
        if task.spec.language != "opencl" or task.spec.nbytes > MOST_BYTES:
            return None
        from .on_opencl import fault

        if not oclgrind.here():
            return None
        begin = [beginning(task.spec, a, self.seed) for a in task.spec.arrays]
        return fault(built.source.text, cast(SourceSignature, built.source.signature), begin, self.deadline_s)

    def _second_data(self, flushes: bool, regroups: bool) -> list[Data]:
        """Other inputs of the kinds that the user chose, and many runs that must give the same bits."""
        return [Data(self.seed + 1, AGAIN)]


class SourceRecorder(CacheRecorder):
    """Rows of a source: how long each build took, and with the winner the source itself, so that it can be shown, and the command that
    found it, so that others know its arguments."""

    spec: SourceSpec

    def _row(self, m: Measurement, strategy: str, verified: bool, start_s: float | None, more: Mapping[str, Any]) -> Any:
        about: dict[str, Any] = {"build_s": round(m.build_s, 6)} if m.build_s else {}
        if verified:
            given = texts(m.opts)
            about["source"] = {
                "file": Path(self.spec.file).name,
                "language": self.spec.language,
                "flags": list(flags_of(self.spec, given)),
                "text": plain_text(self.spec, given)[: 1 << 16],
                "command": self.job.reproduce(),
            }
        return super()._row(m, strategy, verified, start_s, {**about, **more})


# the task ---------------------------------------------------------------------------------------------------
SMALL = 64
"""Configurations that are all measured where no strategy is asked for."""
WITHOUT_CHOICES = ("beam", "evolve", "random")
"""Strategies that append options of kernels, which a source has none of."""


@dataclass(frozen=True)
class SourceTask:
    """A spec on a device, resolved: the `Task` of `tune_source`. `first`: configurations to begin with."""

    spec: SourceSpec
    device: SourceDevice
    threads: int
    first: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return self.spec.function

    @property
    def flops(self) -> int:
        """Operations of a call; 0 where the spec does not say."""
        spec = self.spec
        return spec.flops.whole(spec.sizes, "flops") if spec.flops is not None else 0

    @property
    def key(self) -> Key:
        """The strict key: everything that a time depends on but the machine's moods."""
        about = hashlib.sha256(canon(self.spec.identity()).encode()).hexdigest()
        policy = DEFAULT_POLICY if self.spec.check.deterministic else f"NONDET+{DEFAULT_POLICY}"
        return Key(f"source-{about}", self.device.target.key, self.threads, self.device.compiler_id(), policy)

    @property
    def canonical(self) -> Canonical:
        return cast("Canonical", ParameterNames())

    def strategy(self, request: TuneRequest) -> str:
        """All configurations where they are few and may all be measured, else the portfolio of those over choices."""
        name, size = request.strategy, self.spec.lattice.size
        if not name:
            few = size <= SMALL and (request.budget.trials is None or request.budget.trials >= size)
            return "exhaustive" if few else strategies.DEFAULT
        if name in WITHOUT_CHOICES:
            raise UsageError(
                f"{name} appends options of kernels, and a source has none: use choices, anneal, genetic, uniform, exhaustive or optuna:tpe"
            )
        return name

    def job(self, strategy: str, request: TuneRequest) -> SourceJob:
        spec, budget = self.spec, request.budget
        return SourceJob(
            kernel=spec.function,
            shape=dict(spec.sizes),
            dtype=spec.arrays[0].dtype.name if spec.arrays else "",
            device=self.device.name,
            threads=self.threads,
            strategy=strategy,
            flops=self.flops,
            bytes=spec.bytes(),
            random_seed=request.random_seed,
            budget="" if budget.seconds is None else written(budget.seconds),
            trials=budget.trials,
            command=request.command,
        )

    def look(self, cache: Cache, required: bool = False) -> CachedAnswer | None:
        """The cache's answer. It is usable where it was found and checked twice here."""
        row = cache.best(self.key)
        usable = row is not None and not row.imported and bool(row.facts.get("confirmed"))
        if row is not None:
            found = CachedAnswer(row, lambda job, seconds: answer(job, row, parse(row.opts), seconds), usable)
            if found.covers(None) or not required:
                return found
        if required:
            raise CacheMiss(f"the cache holds no answer for {self.name} ({self.key}); run it once without --mode require")
        return None

    def fit(self, opts: Sequence[Opt]) -> None:
        """Raise OptError where a parameter or a value is missing, or a restriction refuses it."""
        point(self.spec, opts)

    def check(self, request: TuneRequest) -> None:
        require_room(self.spec.nbytes, f"{self.name} with its reference", "give smaller sizes")

    def roofline(self) -> None:
        """Not known of a source."""

    def space(self) -> Space:
        return Space(ParameterEngine(self.spec), frozenset({DEFAULT_POLICY, "NONDET"}))

    @contextmanager
    def measurer(self, request: TuneRequest, hashed: bool = False) -> Iterator[Measurer]:
        """Computes the reference while builders begin, then measures."""
        seconds = request.budget.seconds
        with tempfile.TemporaryDirectory(prefix="tilewright-references-") as folder:
            checked = CheckedSource(self.spec, Path(folder))
            request.progress.phase("computing the reference")
            Deadline.doing = "the reference was being computed"
            left = LIMIT_S if seconds is None else max(0.0, seconds - request.seconds)
            seeds = (request.random_seed, request.random_seed + 1)
            reference = PendingReference(checked, self.device, self.threads, seeds, min(LIMIT_S, left))
            try:
                with SourceMeasurer(checked, reference, self.device, self.threads, request, hashed) as made:
                    yield made
            finally:
                reference.stop()

    def recorder(self, cache: Cache, space: Space, job: Job) -> SourceRecorder:
        made = SourceRecorder(
            cache,
            self.key,
            self.canonical,
            {},
            job,
            effects=lambda o: frozenset(),
            provenance={"machine": self.device.fingerprint(), "seed": job.random_seed},
            earlier={row.opts for row in cache.answers(self.key)},
        )
        made.spec = self.spec
        return made

    def starts(self, cache: Cache, space: Space, job: Job) -> list[Start]:
        """The untuned configuration, then what the user names and what the cache remembers."""
        spec = self.spec
        untuned = schedule(spec, spec.untuned)
        found = {untuned: Start(untuned)}
        named = [schedule(spec, spec.at({n: text_of(v) for n, v in f.items()})) for f in self.first]
        for opts in (*named, *stored(cache, self.key, self.canonical, space)):
            found.setdefault(opts, Start(opts, "stored"))
        return list(found.values())

    def searcher(self, strategy: str) -> Mapping[str, Any] | None:
        if not self.spec.parameters:
            return None
        if strategy != "portfolio":
            return {}
        from ..search.strategies.bayesian import ModelledChoices
        from ..search.strategies.optuna_search import Tpe
        from ..search.strategies.point_search import Genetic

        return {"arms": (ModelledChoices, Genetic, Tpe), "start": ()}

    def study_of(self, job: Job) -> tuple[str, Mapping[str, Any]]:
        about = {"kernel": job.kernel, "device": job.device, "threads": job.threads, "compiler": self.key.compiler, "flops": job.flops}
        return f"{job.kernel} {job.device} {self.key.hash[:8]}", about

    def worded(self, result: Result) -> Result:
        """A start schedule is what a kernel has without tuning."""
        said = result.message.replace("the start schedule", "the untuned configuration").replace("candidate / start", "candidate / untuned")
        return dataclasses.replace(result, message=said)


def resolved(source: str | Path | SourceSpec, function: str, settings: Mapping[str, Any]) -> SourceTask:
    """What `source` and the settings name, on its device. Raises UsageError, DeviceError."""
    about = {k: v for k, v in settings.items() if k not in SearchSettings.__annotations__}
    if isinstance(source, SourceSpec):
        if about or function:
            raise UsageError(f"a SourceSpec is complete: {next(iter(about), 'function')} goes to spec_of")
        spec = source
    else:
        spec = spec_of(source, function, **about)
    device = SourceDevice(settings.get("device") or DEVICES[spec.language], spec.language)
    device.check()
    device.check_timing()
    threads = settings.get("threads") or (1 if device.family_name == "cpu" else device.threads)
    device.check_threads(threads)
    return SourceTask(spec, device, threads, tuple(settings.get("first", ())))
