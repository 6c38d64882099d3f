"""The groups of one cluster, run side by side: who may go on, boxes on their way, and what the groups' memories know of each other.

A group, and each of its roles, is a coroutine that gives a `Waiting` where it has to wait. One after another runs as far as it can. A
box lands when nobody else can go on, so that whoever does not wait for it comes too early."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np

from ..ir.dtypes import DType
from ..ir.errors import VerifyError
from ..program.hopper import WARPGROUP
from ..program.listing import locate
from ..program.program import Instr, Program
from .ops import Array


@dataclass(slots=True)
class MBarrierState:
    """One mbarrier. `phase` is the number of the phase that is not over yet; `actor` writes what TMA brings by it; `made`: who set it up,
    and when by its own time."""

    arrivals: int
    actor: int
    made: tuple[int, int]
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    told: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    """What arrivals of this phase knew."""
    over: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    """What arrivals of the phases that are over knew."""

    def begin(self, actors: int) -> None:
        """Phase 0."""
        self.pending = self.arrivals
        self.told, self.over = np.zeros(actors, np.int32), np.zeros(actors, np.int32)

    def arrive(self, count: int, told: Array) -> bool:
        """Let so many threads arrive; whether they were expected."""
        if count > self.pending:
            return False
        self.pending -= count
        self.told = np.maximum(self.told, told)
        self.settle()
        return True

    def settle(self) -> None:
        """End the phase if nothing is missing."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.arrivals
            self.over = np.maximum(self.over, self.told)

    def passed(self, parity: int) -> bool:
        """Whether the latest phase of this parity is over."""
        return self.phase & 1 != parity

    def __str__(self) -> str:
        return f"phase {self.phase}, {self.pending} of {self.arrivals} arrivals and {self.bytes} bytes missing"


# clocks -----------------------------------------------------------------------------------------------------
# Who knows of what: vector clocks of the threads of a cluster and of what runs beside them.
#
# An *actor* is a thread, a barrier by which TMA's bytes arrive, or the tensor cores of a warpgroup. Each actor counts
# its own time; row t of `seen` says how far actor t knows the others' times. What an actor did at a time is known to
# all that have seen that time. (As in race detectors: L. Lamport, CACM 1978; C. Flanagan and S. N. Freund, FastTrack,
# PLDI 2009.)


class VectorClocks:
    """The times of `count` actors."""

    def __init__(self, count: int) -> None:
        self.seen = np.zeros((count, count), np.int32)
        self.seen[np.arange(count), np.arange(count)] = 1

    def now(self, who: Array) -> Array:
        """The own time of each."""
        found: Array = self.seen[who, who]
        return found

    def tick(self, who: Array) -> None:
        """What these do from now on happens later than what they have told."""
        self.seen[who, who] += 1

    def join(self, who: Array) -> None:
        """These meet: each knows what any of them knew."""
        self.seen[who] = self.seen[who].max(0)
        self.tick(who)

    def told(self, who: Array) -> Array:
        """What these know together, told to somebody; they go on at a later time."""
        found: Array = self.seen[who].max(0)
        self.tick(who)
        return found

    def learn(self, who: Array, what: Array) -> None:
        """These learn what was told."""
        self.seen[who] = np.maximum(self.seen[who], what)


# shared bytes -----------------------------------------------------------------------------------------------
# A group's shared memory in a phase with asynchronous copies: bytes, each with who wrote and read it, and what is under
# way.
#
# Any access must know of the accesses that it could disturb, by vector clocks. A box that TMA brings is under way from
# the time it is asked for until it lands: to touch it is a finding. What TMA or a wgmma reads is held until the wait
# for it: to write it is a finding. What threads stored must be fenced (proxy_fence) before TMA or wgmma may read it. In
# the twin a float is one 32-bit number, kept at the address of its first byte.


NOBODY = -1


class Reporter(Protocol):
    """Who words a finding."""

    def actor(self, who: int) -> str:
        """`thread 3 of item 1`."""
        ...

    def wrong(self, message: str, who: int) -> None:
        """Raise VerifyError about what an actor did."""
        ...


class SharedBytes:
    """`size` bytes of one group."""

    def __init__(self, size: int, as_twin: bool, clocks: VectorClocks, report: Reporter) -> None:
        self.size, self.as_twin, self.clocks, self.report = size, as_twin, clocks, report
        self.data = np.zeros(size, np.uint8)
        self.words = np.zeros(size if as_twin else 0, np.uint32)
        self.writer, self.reader, self.other = (np.full(size, NOBODY, np.int32) for _ in range(3))
        self.written_at, self.read_at, self.other_at, self.fenced_at = (np.zeros(size, np.int32) for _ in range(4))
        self.flying, self.held = (np.zeros(size, np.int16) for _ in range(2))
        self.barrier = np.zeros(size, bool)
        """Bytes of mbarriers."""

    # values -----------------------------------------------------------------------------------------------------------
    def get(self, at: Array, dtype: DType) -> Array:
        """The elements whose first bytes are at `at` (any shape)."""
        if self.as_twin and dtype.is_float:
            found: Array = self.words[at]
            return found
        raw = self.data[at[..., None] + np.arange(dtype.size)]
        return np.ascontiguousarray(raw).view(dtype.np)[..., 0]

    def put(self, at: Array, values: Array, dtype: DType) -> None:
        """Write elements."""
        if self.as_twin and dtype.is_float:
            self.words[at] = values
            return
        raw = np.ascontiguousarray(np.broadcast_to(values, at.shape).astype(dtype.np, copy=False))
        self.data[at[..., None] + np.arange(dtype.size)] = raw[..., None].view(np.uint8).reshape(*at.shape, dtype.size)

    def bytes_of(self, at: Array, size: int) -> Array:
        """The bytes of elements, flat."""
        return (at.reshape(-1)[:, None] + np.arange(size)).reshape(-1)

    # ordinary accesses ------------------------------------------------------------------------------------------------
    def read(self, at: Array, who: Array) -> None:
        """Threads `who` read bytes `at`, one each."""
        self._present(at, who)
        known = self.clocks.seen[who, self.writer[at]] >= self.written_at[at]
        if not known.all():
            k = int(known.argmin())
            self._fail(at[k], f"is read with no barrier since {self.report.actor(int(self.writer[at[k]]))} wrote it", who[k])
        self._note(at, who, self.clocks.now(who))

    def write(self, at: Array, who: Array) -> None:
        """Threads `who` write bytes `at`, one each."""
        self._free(at, who, "is written")
        self.writer[at], self.written_at[at], self.fenced_at[at] = who, self.clocks.now(who), 0
        self.reader[at] = self.other[at] = NOBODY
        twice = self.writer[at] != who
        if twice.any():
            k = int(twice.argmax())
            self._fail(at[k], f"is written by {self.report.actor(int(self.writer[at[k]]))} at once", who[k])

    def begin_store(self, at: Array, who: Array) -> None:
        """Threads `who` begin copies to bytes `at`, which hold nothing until then."""
        self._free(at, who, "is overwritten by a copy")
        self.flying[at] += 1
        self.writer[at], self.written_at[at], self.fenced_at[at] = who, np.iinfo(np.int32).max, 0
        self.reader[at] = self.other[at] = NOBODY
        self.data[at] = 0xFF

    def end_store(self, at: Array, who: Array) -> None:
        """Their threads have waited for them: they are stores of that time."""
        self.flying[at] -= 1
        self.written_at[at] = self.clocks.now(who)

    def fence(self, who: Array) -> None:
        """What threads `who` stored may be read by TMA and wgmma from now on."""
        own = (self.fenced_at == 0) & (self.flying == 0) & np.isin(self.writer, who)
        self.fenced_at[own] = self.clocks.now(self.writer[own])

    # asynchronous accesses --------------------------------------------------------------------------------------------
    def hold(self, at: Array, by: Array, what: str) -> None:
        """TMA or tensor cores begin to read bytes `at`, asked for by all of `by`."""
        one = np.full(at.shape, by[0])
        self._present(at, one)
        knows = self.clocks.seen[by].min(0)
        unknown = knows[self.writer[at]] < self.written_at[at]
        if unknown.any():
            k = int(unknown.argmax())
            who = int(by[self.clocks.seen[by, self.writer[at[k]]].argmin()])
            self._fail(at[k], f"is read by {what} with no barrier since {self.report.actor(int(self.writer[at[k]]))} wrote it", who)
        fenced = self.fenced_at[at]
        stale = (fenced == 0) | (knows[self.writer[at]] < fenced)
        if stale.any():
            k = int(stale.argmax())
            writer = self.report.actor(int(self.writer[at[k]]))
            self._fail(at[k], f"is read by {what}, and {writer} stored it with no proxy_fence and barrier after it", by[0])
        self.held[at] += 1

    def let_go(self, at: Array, actor: int) -> None:
        """They are done; the reading counts as that of `actor`, at its time."""
        self.held[at] -= 1
        who = np.full(at.shape, actor)
        self._note(at, who, self.clocks.now(who))

    def send_for(self, at: Array, who: int, actor: int) -> None:
        """Thread `who` asks for a box at bytes `at`, which `actor` will write: until then they hold nothing."""
        self._free(at, np.full(at.shape, who), "is overwritten by a box")
        self.flying[at] += 1
        self.writer[at], self.written_at[at] = actor, np.iinfo(np.int32).max
        self.reader[at] = self.other[at] = NOBODY
        self.data[at] = 0xFF

    def land(self, at: Array, actor: int) -> None:
        """The box is there, at the time of `actor`."""
        self.flying[at] -= 1
        time = int(self.clocks.seen[actor, actor])
        self.written_at[at] = self.fenced_at[at] = time

    # rules ------------------------------------------------------------------------------------------------------------
    def _present(self, at: Array, who: Array) -> None:
        for wrong, what in (
            (self.barrier[at], "is part of an mbarrier, and is read"),
            (self.flying[at] > 0, "is read while a box or a copy is on its way to it: wait for it"),
            (self.writer[at] == NOBODY, "is read before it is written"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                self._fail(at[k], what, who[k])

    def _free(self, at: Array, who: Array, what: str) -> None:
        """That nobody else is at it."""
        for wrong, why in (
            (self.barrier[at], "and is part of an mbarrier"),
            (self.flying[at] > 0, "while a box or a copy is on its way to it"),
            (self.held[at] > 0, "while TMA or a wgmma still reads it"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                self._fail(at[k], f"{what} {why}", who[k])
        for actors, times, did in (
            (self.writer, self.written_at, "wrote"),
            (self.reader, self.read_at, "read"),
            (self.other, self.other_at, "read"),
        ):
            actor = actors[at]
            known = (actor == NOBODY) | (self.clocks.seen[who, actor] >= times[at])
            if not known.all():
                k = int(known.argmin())
                self._fail(at[k], f"{what} with no barrier since {self.report.actor(int(actor[k]))} {did} it", who[k])

    def _note(self, at: Array, who: Array, time: Array) -> None:
        """Keep the last reader and another one, unless the last reader has seen that one's reading."""
        before, then = self.reader[at], self.read_at[at]
        keep = (before != NOBODY) & (before != who) & (self.clocks.seen[who, before] < then)
        self.other[at[keep]], self.other_at[at[keep]] = before[keep], then[keep]
        self.reader[at], self.read_at[at] = who, time
        late = (self.reader[at] != who) & (self.clocks.seen[self.reader[at], who] < time)
        self.other[at[late]], self.other_at[at[late]] = who[late], time[late]

    def _fail(self, at: Any, message: str, who: Any) -> None:
        self.report.wrong(f"byte {int(at)} of shared memory {message}", int(who))


# cluster ----------------------------------------------------------------------------------------------------
_SLOTS = 64
"""mbarriers of a group, at most, in the interpreter."""


@dataclass(slots=True)
class Waiting:
    """Why a coroutine does not go on: `ready` says whether it can, `what` is for people."""

    ready: Callable[[], bool]
    what: Callable[[], str]


Agent = Generator[Waiting, None, None]


@dataclass(slots=True)
class Flight:
    """A box on its way: `land` puts it where it goes; `what` is for people."""

    land: Callable[[], None]
    what: str


@dataclass(slots=True)
class _Runner:
    agent: Agent
    name: str
    waits: Waiting | None = None
    ended: bool = False


@dataclass(slots=True)
class Cluster:
    """Groups with these grid indices, of `threads` threads each. `phase` is for people; `backwards`: the last role begins."""

    program: Program
    phase: int
    items: Sequence[int]
    threads: int
    as_twin: bool
    backwards: bool = False
    clocks: VectorClocks = field(init=False)
    memories: list[SharedBytes] = field(init=False)
    barriers: list[dict[int, MBarrierState]] = field(init=False)
    over: list[bool] = field(init=False)
    flights: list[Flight] = field(default_factory=list)
    statement: Instr | None = None
    """What is being run."""
    met: int = 0
    turn: int = 0
    """Groups at the cluster's barrier, and how often all were."""
    _runners: list[_Runner] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.items)
        self.clocks = VectorClocks(n * (self.threads + self._more))
        self.memories = [SharedBytes(self.program.shared, self.as_twin, self.clocks, self) for _ in self.items]
        self.barriers, self.over = [{} for _ in self.items], [False] * n

    @property
    def _more(self) -> int:
        return _SLOTS + -(-self.threads // WARPGROUP)

    # actors -----------------------------------------------------------------------------------------------------------
    def thread(self, rank: int, lanes: Array) -> Array:
        """The actors that threads of a group are."""
        return rank * self.threads + lanes

    def tensor_cores(self, rank: int, warpgroup: int) -> int:
        """The actor that the tensor cores of a warpgroup are."""
        return len(self.items) * self.threads + rank * self._more + _SLOTS + warpgroup

    def slot(self, rank: int) -> int:
        """The actor for the next mbarrier of a group."""
        if len(self.barriers[rank]) >= _SLOTS:
            raise VerifyError(f"a group has more than {_SLOTS} mbarriers, which the interpreter does not know")
        return len(self.items) * self.threads + rank * self._more + len(self.barriers[rank])

    def actor(self, who: int) -> str:
        """`thread 3 of item 1`."""
        every = len(self.items) * self.threads
        if who < every:
            return f"thread {who % self.threads} of item {self.items[who // self.threads]}"
        rank, more = divmod(who - every, self._more)
        if more >= _SLOTS:
            return f"a wgmma of warpgroup {more - _SLOTS} of item {self.items[rank]}"
        at = next((at for at, b in self.barriers[rank].items() if b.actor == who), 0)
        return f"a box by the mbarrier at byte {at} of item {self.items[rank]}"

    def wrong(self, message: str, who: int) -> NoReturn:
        """Raise VerifyError about what an actor did in the statement that runs."""
        where = f", in `{locate(self.program, self.statement)}`" if self.statement is not None else ""
        every = len(self.items) * self.threads
        by = f", item {self.items[who // self.threads]}, thread {who % self.threads}" if who < every else ""
        raise VerifyError(f"{message}{where} (phase {self.phase}{by})")

    # running ----------------------------------------------------------------------------------------------------------
    def add(self, agent: Agent, name: str) -> Callable[[], bool]:
        """Let a coroutine run beside the others; the function says whether it has ended."""
        made = _Runner(agent, name)
        self._runners.append(made)
        return lambda: made.ended

    def run(self) -> None:
        """Until all have ended. Raises VerifyError where they wait for one another."""
        while any(not r.ended for r in self._runners):
            order = list(self._runners)
            went = False
            for r in reversed(order) if self.backwards else order:
                went = self._step(r) or went
            if went:
                continue
            if self.flights:
                self.flights.pop(0 if self.backwards else -1).land()
                continue
            waits = "; ".join(f"{r.name} waits for {r.waits.what()}" for r in self._runners if not r.ended and r.waits is not None)
            raise VerifyError(f"nobody can go on: {waits} (phase {self.phase})")
        if self.flights:
            raise VerifyError(f"the groups end while {self.flights[0].what} is on its way: wait for its mbarrier (phase {self.phase})")

    @staticmethod
    def _step(r: _Runner) -> bool:
        """Whether a coroutine went on."""
        if r.ended or (r.waits is not None and not r.waits.ready()):
            return False
        r.waits = next(r.agent, None)
        r.ended = r.waits is None
        return True

    def meet(self, rank: int, lanes: Array) -> Agent:
        """A group comes to the barrier of the cluster."""
        turn = self.turn
        self.met += 1
        if self.met == len(self.items):
            self.met, self.turn = 0, turn + 1
            self.clocks.join(np.arange(len(self.items) * self.threads))
        while self.turn == turn:
            yield Waiting(lambda: self.turn != turn, lambda: f"{len(self.items) - self.met} groups at the cluster's barrier")
