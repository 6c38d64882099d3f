"""What measures the candidates of one kernel on several equal devices of a fleet, as `Measurer` does on one device here, and `tune(..., measurer=...)` put together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...cache import Cache
from ...cache import open as opened
from ...ir.errors import FleetError, MeasureError
from ...log import logger
from ...measure.outcome import Duel, DuelError, Measurement, Outcome
from ...search import tune
from ...search.candidate_measurer import CandidateMeasurer
from ..engine import FleetEngine, FleetJob, FleetSlot, Running, SlotLost
from . import messages
from .build_queue import BuildQueue, TravellingBuilds
from .dispatch import Dispatcher
from .equal_devices import PATIENCE_S, PROBES, EqualDevices
from .messages import DescribedDevice, DeviceFacts, subject

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...search.kernel_task import KernelTask
    from ...search.result import Result
    from ...search.task import TuneRequest


log = logger("fleet")

FACTS_S = 120.0
"""Seconds that a worker may take to say what its device is, once it is asked; it may have to measure its limits first."""
WARM_S = 15.0
"""Seconds after the first candidate in which all devices should have made inputs and reference. One that has not joins when it has."""
GOODBYE_S = 2.0
"""Seconds in which workers let go of a kernel, where they answer."""


def described_device(engine: FleetEngine, slot: FleetSlot, probe: bool = True) -> DescribedDevice:
    """The device of a slot, by its own facts. `probe`: measure its limits if nobody did. Raises FleetError."""
    job = FleetJob("batch", {"ask": "facts", "probe": probe}, "facts of the device")
    try:
        answer = engine.submit(slot, job).result(FACTS_S)
        return DescribedDevice(DeviceFacts.from_json(messages.facts(answer)["device"]))
    except TimeoutError:
        raise FleetError(f"the worker on {slot.host or slot.address} did not say what its device is within {FACTS_S:.0f} s") from None
    except KeyError:
        raise FleetError(
            f"the worker on {slot.host or slot.address} says nothing of its device; install the client's version there"
        ) from None


class FleetMeasurer(CandidateMeasurer):
    """A `search.candidate_measurer.CandidateMeasurer`. A context manager: at its end the workers are told to let go of the kernel.

    `base`: what every payload carries: `kernel` (see `subject`), `threads`, `seed`, `deadline_s`, `hashed`. `facts`: those of the device,
    for machines that only build. At first one device measures. When three candidates were right there and the others have
    their inputs, these are timed on all, and those that are equal measure from then on; duels, the second check and the last timing stay with one."""

    def __init__(self, engine: FleetEngine, devices: EqualDevices, base: Mapping[str, Any], facts: DeviceFacts, title: str = "") -> None:
        self._engine, self._devices = engine, devices
        there = devices.equal or devices.start()
        hosts = [s.host for s in there if s.host]
        base = {**base, "shared": len(set(hosts)) < len(hosts) or bool(base.get("shared"))}
        self._base, self._title = base, title or str(base["kernel"]["kernel"])
        self._queue = BuildQueue(engine, {"kernel": base["kernel"], "device": facts.to_json()}, self._title, devices.clock)
        self._dispatch = Dispatcher(engine, devices, self._queue, base, self._title)
        self._numbers: dict[tuple[Opt, ...], int] = {}
        self._count = itertools.count()
        self.surveyed = len(there) == 1 and devices.wanted == 1
        """Whether it is known which devices are equal."""
        self._warm_until: float | None = None
        self._listener: Callable[[Measurement], None] = lambda m: None
        self._dispatch.warm(there[:1] if base["shared"] else there)

    # life -----------------------------------------------------------------------------------------------------------
    def __enter__(self) -> FleetMeasurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop what is under way, and let the workers end the processes that they keep for this kernel. One that does not answer at once
        ends them by itself, when nobody has asked for anything for a while."""
        self._queue.close()
        self._dispatch.close()
        left: list[Running] = []
        for slot in list(self._devices.visited.values()):
            try:
                left.append(self._engine.submit(slot, FleetJob("batch", {"ask": "release"}, f"{self._title}: let go")))
            except FleetError as e:
                log.info("%s was not told to let go of the kernel: %s", slot.host or slot.address, e)
        wait(left, GOODBYE_S)

    # what a search asks ---------------------------------------------------------------------------------------------
    @property
    def width(self) -> int:
        """Devices that candidates are timed on at once."""
        return max(1, len(self._devices.equal)) if self.surveyed else 1

    @property
    def prepared_s(self) -> tuple[float, float] | None:
        """Processor seconds that inputs and references took on a worker, and copies of operands, once that is known."""
        return self._dispatch.prepared_s

    @property
    def lost(self) -> int:
        """Workers that were lost over candidates."""
        return self._dispatch.rule.lost

    @property
    def left_out(self) -> Mapping[str, str]:
        """Devices that were there and are not used, by address, and why."""
        return self._devices.out

    def listen(self, told: Callable[[Measurement], None]) -> bool:
        """As `Measurer.listen`. Where a device was lost that times must be compared with, a candidate has another result later."""
        self._listener = told
        return True

    def build(self, schedules: Sequence[tuple[Opt, ...]]) -> TravellingBuilds:
        """Queue schedules with builders, as `Measurer.build` does."""
        return TravellingBuilds(self._queue, schedules)

    def measure(self, built: Sequence[messages.TravellingBuild], incumbent_s: float | None = None) -> list[Measurement]:
        """One Measurement for each, in order. Raises MeasureError where no device of the fleet is left."""
        self._dispatch.arrived = self._listener
        try:
            out = self._measured(built, incumbent_s, judge=not self.surveyed)
        finally:
            self._dispatch.arrived = lambda m: None
        if not self.surveyed:
            self._choose_probes(built, out)
        return out

    def again(self, built: Sequence[messages.TravellingBuild]) -> list[Measurement]:
        """As `measure`, all on one device, so that times may be compared with each other."""
        return self._measured(built, None, judge=True)

    def _measured(self, built: Sequence[messages.TravellingBuild], incumbent_s: float | None, judge: bool) -> list[Measurement]:
        numbers = [self._number(b) for b in built]
        with _measuring():
            got = self._dispatch.measure(dict(zip(numbers, built)), incumbent_s, judge)
        return [got[n] for n in numbers]

    def _number(self, b: messages.TravellingBuild) -> int:
        """The same for the same schedule, whatever call it is in."""
        if b.opts not in self._numbers:
            self._numbers[b.opts] = next(self._count)
        return self._numbers[b.opts]

    def _choose_probes(self, built: Sequence[messages.TravellingBuild], measured: Sequence[Measurement]) -> None:
        """The first three that are right are the schedules that devices are compared by."""
        probes = self._dispatch.probes
        for b, m in zip(built, measured):
            if m.ok and not m.cleared and len(probes) < PROBES:
                probes[self._number(b)] = b
        if self._warm_until is None:
            self._warm_until = self._devices.clock() + WARM_S
            self._dispatch.warm(self._devices.equal[1:])
        if len(probes) == PROBES and (self._dispatch.warmed or self._devices.clock() > self._warm_until):
            with _measuring():
                self._dispatch.survey()
            self.surveyed = True

    def confirm(self, built: messages.TravellingBuild) -> Measurement:
        """The second check, as `Measurer.confirm`. One that loses two workers is a crash."""
        known = self._dispatch.guilty.get(self._number(built))
        if known is not None:
            return known
        try:
            with _measuring():
                return messages.measurement(self._dispatch.ask("confirm", [built])["row"], built.opts)
        except SlotLost as e:
            crash = Measurement(built.opts, Outcome.crash, detail=str(e), sha=built.sha)
            self._dispatch.guilty[self._number(built)] = crash
            return crash

    def duel(self, a: messages.TravellingBuild, b: messages.TravellingBuild, rounds: int = 8, energy: bool = False) -> Duel:
        """Time two against each other, as `Measurer.duel`. Raises DuelError, MeasureError."""
        assert not energy, "energy is measured on this machine's own devices only (`search.objective.measurable`)"
        with _measuring():
            try:
                answer = self._dispatch.ask("duel", [a, b], rounds=rounds)
            except SlotLost as e:
                raise MeasureError(f"the comparison could not be made: {e}") from e
            if "error" not in answer:
                return messages.read(Duel, answer["duel"], "a comparison")
        raise DuelError(str(answer["error"]), answer.get("culprit"))


@contextmanager
def _measuring() -> Iterator[None]:
    """What is wrong with a fleet is told as what is wrong with a measurer: a search then ends with the best that it has."""
    try:
        yield
    except SlotLost:
        raise
    except FleetError as e:
        raise MeasureError(str(e)) from e


ROWS_S = 0.25
"""Seconds that rows wait before they are written: what is lost where this process is killed."""


class FleetTuning:
    """One run of `tune` on the slots of `engine` that are for the device `spec` (what `devices.get` takes there), at most `wanted` of them
    (None: all that are alike). `said`: what a user should know in the end. Raises FleetError where there is no such slot."""

    def __init__(self, engine: FleetEngine, spec: str, wanted: int | None = None) -> None:
        self._engine = engine
        first = chosen(engine.slots(), spec)
        self._devices = EqualDevices(engine, first[0].name, wanted or len(first))
        self.device: DescribedDevice = described_device(engine, self._devices.start()[0])
        self.measurer: FleetMeasurer | None = None

    def tune(self, kernel: str, **asked: Any) -> Result:
        """As `search.tune`, with the same arguments but `device` and `measuring`; rows go into the cache of this machine. Raises what it
        does, and FleetError."""
        threads = asked.pop("threads", None) or self.device.threads
        cache = asked.pop("cache", None)
        told = {name: asked.get(name) for name in ("shape", "dtype", "vars", "allow")} | {"kernel": kernel}
        with nullcontext(cache) if isinstance(cache, Cache) else opened(cache) as store:
            store.rows_wait_s = min(store.rows_wait_s, ROWS_S)
            return tune(kernel, device=self.device, threads=threads, measuring=self._measuring(told), cache=store, **asked)

    def _measuring(self, told: Mapping[str, Any]) -> Any:
        def made(task: KernelTask, request: TuneRequest, hashed: bool) -> AbstractContextManager[CandidateMeasurer]:
            base = {
                "kernel": subject(task, told),
                "threads": task.threads,
                "seed": request.random_seed,
                "deadline_s": request.deadline_s,
                "hashed": hashed,
            }
            # a fleet that is gone for good must not keep a run of seconds for minutes
            self._devices.patience_s = PATIENCE_S if request.budget.seconds is None else min(PATIENCE_S, max(15.0, request.budget.seconds))
            self.measurer = FleetMeasurer(self._engine, self._devices, base, self.device.facts, task.name)
            return self.measurer

        return made

    @property
    def said(self) -> list[str]:
        """What a user should know of the devices, a line each."""
        out = [] if self.measurer is None else [f"timed on {self.measurer.width} device{'s' * (self.measurer.width > 1)} of the fleet"]
        if self.measurer is not None and self.measurer.lost:
            lost = self.measurer.lost
            out.append(f"{lost} worker{'s were' if lost > 1 else ' was'} lost over candidates, and replaced")
        return out + list(self._devices.out.values())


def chosen(slots: list[FleetSlot], spec: str) -> list[FleetSlot]:
    """The slots for a device: of several kinds, the kind that there is most of. Raises FleetError, which says what there is."""
    mine = [s for s in slots if s.device is not None and spec in (s.device.spec, s.device.target, s.name)]
    able = [s for s in mine if not s.refused]
    if able:
        names = [s.name for s in able]
        most = max(names, key=lambda name: (names.count(name), name))
        return [s for s in able if s.name == most]
    if mine:
        raise FleetError("; ".join(dict.fromkeys(f"{s.host or s.address}: {s.refused}" for s in mine)))
    there = sorted({s.device.spec for s in slots if s.device is not None})
    raise FleetError(
        f"the fleet has no device {spec!r} now; {'it has ' + ', '.join(there) if there else 'start one with tune fleet worker URL'}"
    )
