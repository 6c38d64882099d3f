"""The groups of one cluster, run side by side: who may go on, boxes on their way, and what the groups' memories know of each other.

A group, and each of its roles, is a coroutine that gives a `Waiting` where it has to wait. One after another runs as far as it can. A
box lands when nobody else can go on, so that whoever does not wait for it comes too early."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from ..ir.errors import VerifyError
from ..program.hopper import WARPGROUP
from ..program.program import Instr, Program
from ..program.text import locate
from .clocks import VectorClocks
from .mbarriers import MBarrierState
from .ops import Array
from .shared_bytes import SharedBytes

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
