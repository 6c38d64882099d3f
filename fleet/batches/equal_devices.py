"""The devices that work for one kernel: which are there, which were lost, which are equal, and which is asked next.

Devices are equal where times of the same schedules are within 5 % of each other: then times of different devices may be compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty

from ...ir.errors import FleetError, MeasureError
from ...log import logger
from ...measure.timing import median
from ..engine import FleetEngine, FleetSlot, Running
from .jobs_in_flight import ask_to_stop

EQUAL_WITHIN = 1.05
"""Devices whose times differ by more are not the same thing."""
PROBES = 3
"""Schedules that are timed on every device."""
LOOKS = 3
"""Times that a device which seems to differ is timed: the shortest time of each schedule counts, as other work only ever adds to it."""

Times = Mapping[str, float]
"""Seconds of each schedule, by its name."""


def times_factor(times: Times, others: Sequence[Times]) -> float | None:
    """How slow a device is: its time over the shortest of all, the median over the schedules that every one of them has. None where
    there is none."""
    common = [name for name in times if times[name] > 0 and all(o.get(name, 0.0) > 0 for o in others)]
    ratios = [times[name] / min([times[name], *(o[name] for o in others)]) for name in common]
    return median(ratios) if ratios else None


def groups_of_equal(by_device: Mapping[str, Times]) -> list[list[str]]:
    """Devices that are equal to each other, the largest group first, and of two that are as large the faster one. A device on which no
    schedule could be timed is in none."""
    able = {d: t for d, t in by_device.items() if t}
    slow = {d: f for d, t in able.items() if (f := times_factor(t, [o for e, o in able.items() if e != d])) is not None}
    out: list[list[str]] = []
    for d in sorted(slow, key=lambda d: slow[d]):
        if out and slow[d] <= EQUAL_WITHIN * slow[out[-1][0]]:
            out[-1].append(d)
        else:
            out.append([d])
    return sorted(out, key=lambda g: (-len(g), slow[g[0]]))


def distance_to_nearest(times: Times, known: Sequence[Times]) -> float | None:
    """A device's time over that of those whose times are `known`, the median over the schedules; None where they have none in common."""
    ratios = [t / median(seen) for name, t in times.items() if (seen := [k[name] for k in known if name in k])]
    return median(ratios) if ratios else None


def is_equal(times: Times, known: Sequence[Times]) -> bool:
    """Whether a device that comes later is equal to those whose times are `known`: neither slower nor faster by more than 5 %."""
    ratio = distance_to_nearest(times, known)
    return ratio is not None and 1 / EQUAL_WITHIN <= ratio <= EQUAL_WITHIN


log = logger("fleet")

LOOK_S = 0.5
"""Seconds between two looks for devices that came, where none is there; four times as long where others work."""
PATIENCE_S = 120.0
"""Without any device, a run waits so long for one to come back, unless it is told otherwise: a machine that a candidate took down may
start again."""


class EqualDevices:
    """Slots of one name, at most `wanted`. `equal`: those that candidates are timed on, the first of them decides (duels and the second
    check); `times`: seconds of the probes on each, by address."""

    def __init__(self, engine: FleetEngine, name: str, wanted: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self.name, self.wanted, self.clock = engine, name, wanted, clock
        self.patience_s = PATIENCE_S
        self.equal: list[FleetSlot] = []
        self.times: dict[str, dict[int, float]] = {}
        self.looks: dict[str, int] = {}
        self.out: dict[str, str] = {}
        """Slots that are not asked any more, by address, and why."""
        self.visited: dict[str, FleetSlot] = {}
        """Slots that were given work and are not lost, by address: they keep what they made for the kernel."""
        self._busy: dict[str, Running] = {}
        self._looked = -1e9
        self._since: float | None = None
        self._last = ""
        self._waits = False
        """Whether anyone was lost, who may come back."""
        self._doubt = False
        """Whether the scheduler was lost, and nobody was asked since who is still there."""

    @property
    def judge(self) -> FleetSlot:
        """The one that decides. Waits for one. Raises MeasureError."""
        while self._doubt or not self.equal:
            self.look([])
            if not self.equal:
                time.sleep(0.05)
        return self.equal[0]

    def start(self) -> list[FleetSlot]:
        """Those that are there at the beginning. Raises FleetError where there is none."""
        there = [s for s in self._engine.slots() if s.name == self.name and s.device is not None]
        self.equal = [s for s in there if not s.refused][: self.wanted]
        if not self.equal:
            why = "; ".join(f"{s.host or s.address}: {s.refused}" for s in there)
            raise FleetError(f"no device of the fleet can be used for this ({why})" if why else "the fleet has no such device now")
        return self.equal

    def look(self, flying: list[str]) -> list[FleetSlot]:
        """Slots that came and may join, where some are missing; with none left at all, the first that comes is taken as it is, as it has
        to go on somewhere. `flying`: addresses that have a job now, or will join. Raises MeasureError where nobody came for too long."""
        self._forget_lost()
        seldom = 4 * LOOK_S if self.equal else LOOK_S
        if not self._doubt and (len(self.equal) >= self.wanted or self.clock() - self._looked < seldom):
            return []
        self._looked = self.clock()
        try:
            there = {s.address: s for s in self._engine.slots()}
        except FleetError as e:
            raise MeasureError(f"the fleet is gone: {e}") from e
        self._doubt = False
        self.equal = [s for s in self.equal if s.address in there or s.address in flying]
        mine = {s.address for s in self.equal} | self.out.keys() | set(flying)
        new = [s for s in there.values() if s.name == self.name and s.device is not None and not s.refused and s.address not in mine]
        joining = len(set(flying) - {s.address for s in self.equal})
        new = new[: max(0, self.wanted - len(self.equal) - joining)]
        if self.equal or flying:
            self._since = None
        elif new and not self.times:  # nobody was timed yet: they are compared with each other
            self.equal, new, self._since = new, [], None
        elif new:  # nobody is left to compare it with, and it must go on somewhere
            self.equal, new, self._since = new[:1], new[1:], None
        else:
            self._wait()
        return new

    def _forget_lost(self) -> None:
        while True:
            try:
                loss = self._engine.lost.get_nowait()
            except Empty:
                return
            self.lose(loss.slot.address, "its worker was lost")

    def _wait(self) -> None:
        now = self.clock()
        self._since = now if self._since is None else self._since
        if now - self._since > (self.patience_s if self._waits else 0.0):
            why = "; ".join(self.out.values()) or self._last
            raise MeasureError(f"no device of the fleet is left for this kernel{f' ({why})' if why else ''}")

    # who is in ------------------------------------------------------------------------------------------------------
    def lose(self, address: str, why: str, doubt: bool = False) -> None:
        """A slot is gone. It comes back under another address, if at all. `doubt`: so may others be, of which nothing was heard."""
        self._waits, self._doubt = True, self._doubt or doubt
        self._busy.pop(address, None)
        self.visited.pop(address, None)
        self._drop(address, why)

    def _drop(self, address: str, why: str) -> None:
        self._looked = -1e9
        self.equal = [s for s in self.equal if s.address != address]
        self.times.pop(address, None)
        self._last = why

    def rest(self, slot: FleetSlot, joining: bool = False) -> None:
        """A slot stands still: others go on, if there are any or some are `joining`. When it has answered it joins again, as one that came
        later."""
        if joining or len(self.equal) > 1:
            self._drop(slot.address, f"the worker on {slot.host or slot.address} stands still")

    def dismiss(self, slot: FleetSlot, why: str) -> None:
        """A slot is there, and of no use for this kernel."""
        named = f"{slot.host or slot.address}: {why}"
        log.info("a device works no more for this kernel, %s", named)
        self._drop(slot.address, named)
        self.out[slot.address] = named

    def timed(self, address: str, times: dict[int, float]) -> None:
        """Probes were timed on a slot: the shortest times count."""
        before = self.times.setdefault(address, {})
        before.update({i: min(t, before.get(i, t)) for i, t in times.items()})
        self.looks[address] = self.looks.get(address, 0) + 1

    def unequal(self) -> list[FleetSlot]:
        """Slots to be timed once more, as they seem to differ from the others; when they were looked at often enough, they are dismissed,
        and there are none."""
        by = {a: {str(i): t for i, t in ts.items()} for a, ts in self.times.items()}
        ranked = groups_of_equal(by)
        best = set(ranked[0]) if ranked else set()
        apart = [s for s in self.equal if s.address not in best]
        if not apart:
            return []
        if any(self.looks.get(s.address, 0) < LOOKS for s in self.equal):
            return list(self.equal)  # those that agree as well: their times are of the same moments
        for s in apart:
            self.dismiss(s, self._how_far(by.get(s.address, {}), [by[a] for a in best]))
        return []

    @staticmethod
    def _how_far(times: Times, others: list[dict[str, float]]) -> str:
        factor = distance_to_nearest(times, others)
        if factor is None:
            return "the probes could not be timed there"
        return f"its times are {factor:.2f} of the others': it is another kind of device, to be tuned on its own"

    def to_compare(self, join: list[FleetSlot]) -> list[FleetSlot]:
        """Which of the slots that will `join` are to time the probes now. Where nobody has timed them yet to compare others with, the one
        that decides does so first, and newcomers wait for it."""
        if not self.equal or any(s.address in self.times for s in self.equal):
            return list(join)
        if join and not any(s in join for s in self.equal):
            join.insert(0, self.equal[0])
        return [s for s in join if s in self.equal]

    def joins(self, slot: FleetSlot) -> bool | None:
        """Whether a slot that came later, whose probes were timed, is equal; None: it is to be timed once more. Where not, it is
        dismissed."""
        mine = {str(i): t for i, t in self.times.get(slot.address, {}).items()}
        others = [{str(i): t for i, t in ts.items()} for a, ts in self.times.items() if a != slot.address]
        if slot in self.equal:
            return True
        if not self.equal or is_equal(mine, others):
            self.equal.append(slot)
            return True
        if self.looks.get(slot.address, 0) < LOOKS:
            return None
        self.dismiss(slot, self._how_far(mine, others))
        return False

    # who is busy ----------------------------------------------------------------------------------------------------
    def leave(self, running: Running) -> None:
        """A job that nobody waits for any more keeps its slot until it ends."""
        ask_to_stop(running)
        self._busy[running.slot.address] = running

    def free(self, slot: FleetSlot) -> bool:
        """Whether nothing of this client runs there."""
        running = self._busy.get(slot.address)
        if running is not None and running.done():
            del self._busy[slot.address]
            running = None
        return running is None
