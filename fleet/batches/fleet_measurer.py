"""What measures the candidates of one kernel on several equal devices of a fleet, as `Measurer` does on one device here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...ir.errors import FleetError, MeasureError
from ...log import logger
from ...measure.outcome import Duel, DuelError, Measurement, Outcome
from ...search.candidate_measurer import CandidateMeasurer
from ..seam import FleetEngine, FleetJob, FleetSlot, Running, SlotLost
from . import equality, plain
from .build_queue import BuildQueue, TravellingBuilds
from .crew import Crew
from .described import DescribedDevice, DeviceFacts
from .dispatch import Dispatcher

if TYPE_CHECKING:
    from ...opts.opt import Opt

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
        return DescribedDevice(DeviceFacts.from_json(plain.facts(answer)["device"]))
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

    def __init__(self, engine: FleetEngine, crew: Crew, base: Mapping[str, Any], facts: DeviceFacts, title: str = "") -> None:
        self._engine, self._crew = engine, crew
        there = crew.equal or crew.start()
        hosts = [s.host for s in there if s.host]
        base = {**base, "shared": len(set(hosts)) < len(hosts) or bool(base.get("shared"))}
        self._base, self._title = base, title or str(base["kernel"]["kernel"])
        self._queue = BuildQueue(engine, {"kernel": base["kernel"], "device": facts.to_json()}, self._title, crew.clock)
        self._dispatch = Dispatcher(engine, crew, self._queue, base, self._title)
        self._numbers: dict[tuple[Opt, ...], int] = {}
        self._count = itertools.count()
        self.surveyed = len(there) == 1 and crew.wanted == 1
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
        for slot in list(self._crew.visited.values()):
            try:
                left.append(self._engine.submit(slot, FleetJob("batch", {"ask": "release"}, f"{self._title}: let go")))
            except FleetError as e:
                log.info("%s was not told to let go of the kernel: %s", slot.host or slot.address, e)
        wait(left, GOODBYE_S)

    # what a search asks ---------------------------------------------------------------------------------------------
    @property
    def width(self) -> int:
        """Devices that candidates are timed on at once."""
        return max(1, len(self._crew.equal)) if self.surveyed else 1

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
        return self._crew.out

    def listen(self, told: Callable[[Measurement], None]) -> bool:
        """As `Measurer.listen`. Where a device was lost that times must be compared with, a candidate has another result later."""
        self._listener = told
        return True

    def build(self, schedules: Sequence[tuple[Opt, ...]]) -> TravellingBuilds:
        """Queue schedules with builders, as `Measurer.build` does."""
        return TravellingBuilds(self._queue, schedules)

    def measure(self, built: Sequence[plain.TravellingBuild], incumbent_s: float | None = None) -> list[Measurement]:
        """One Measurement for each, in order. Raises MeasureError where no device of the fleet is left."""
        self._dispatch.arrived = self._listener
        try:
            out = self._measured(built, incumbent_s, judge=not self.surveyed)
        finally:
            self._dispatch.arrived = lambda m: None
        if not self.surveyed:
            self._choose_probes(built, out)
        return out

    def again(self, built: Sequence[plain.TravellingBuild]) -> list[Measurement]:
        """As `measure`, all on one device, so that times may be compared with each other."""
        return self._measured(built, None, judge=True)

    def _measured(self, built: Sequence[plain.TravellingBuild], incumbent_s: float | None, judge: bool) -> list[Measurement]:
        numbers = [self._number(b) for b in built]
        with _measuring():
            got = self._dispatch.measure(dict(zip(numbers, built)), incumbent_s, judge)
        return [got[n] for n in numbers]

    def _number(self, b: plain.TravellingBuild) -> int:
        """The same for the same schedule, whatever call it is in."""
        if b.opts not in self._numbers:
            self._numbers[b.opts] = next(self._count)
        return self._numbers[b.opts]

    def _choose_probes(self, built: Sequence[plain.TravellingBuild], measured: Sequence[Measurement]) -> None:
        """The first three that are right are the schedules that devices are compared by."""
        probes = self._dispatch.probes
        for b, m in zip(built, measured):
            if m.ok and not m.cleared and len(probes) < equality.PROBES:
                probes[self._number(b)] = b
        if self._warm_until is None:
            self._warm_until = self._crew.clock() + WARM_S
            self._dispatch.warm(self._crew.equal[1:])
        if len(probes) == equality.PROBES and (self._dispatch.warmed or self._crew.clock() > self._warm_until):
            with _measuring():
                self._dispatch.survey()
            self.surveyed = True

    def confirm(self, built: plain.TravellingBuild) -> Measurement:
        """The second check, as `Measurer.confirm`. One that loses two workers is a crash."""
        known = self._dispatch.guilty.get(self._number(built))
        if known is not None:
            return known
        try:
            with _measuring():
                return plain.measurement(self._dispatch.ask("confirm", [built])["row"], built.opts)
        except SlotLost as e:
            crash = Measurement(built.opts, Outcome.crash, detail=str(e), sha=built.sha)
            self._dispatch.guilty[self._number(built)] = crash
            return crash

    def duel(self, a: plain.TravellingBuild, b: plain.TravellingBuild, rounds: int = 8, energy: bool = False) -> Duel:
        """Time two against each other, as `Measurer.duel`. Raises DuelError, MeasureError."""
        assert not energy, "energy is measured on this machine's own devices only (`search.objective.measurable`)"
        with _measuring():
            try:
                answer = self._dispatch.ask("duel", [a, b], rounds=rounds)
            except SlotLost as e:
                raise MeasureError(f"the comparison could not be made: {e}") from e
            if "error" not in answer:
                return plain.read(Duel, answer["duel"], "a comparison")
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
