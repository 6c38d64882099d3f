"""Tiles in slots that are filled ahead of their use (STAGE with depth d): iteration i of the loop uses slot i % d.

Where copies go on beside the threads: d − 1 tiles are begun before the loop; each iteration waits for its own, begins that of iteration
i + d − 1 (into the slot that iteration i − 1 has read) and commits, whether there was one or not, so that groups are counted by
iterations. The barrier between the wait and both is found by the pass that places barriers. (As in CUTLASS' multistage pipelines.)
Where they go through registers, d is 2: a thread loads its part of the next tile before it computes, and stores it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...ir.node import Node
from ...opts import ring
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.program import Val
from ..lowering import Lowering
from .tile import UNROLLED, room
from .tile_copy import CopySteps, LoadedPiece, TileCopy


class TileSlots:
    """The slots of the tiles of one loop: which of them an iteration uses. What fills and awaits them is another's business."""

    def __init__(self, low: Lowering, part: Part, bounds: tuple[Node, Node], plan: StagePlan) -> None:
        self.low, self.part, self.slot, self.depth = low, part, plan.slot, plan.depth
        self.first, self.end = low.scalar(bounds[0]), low.scalar(bounds[1])
        self._known = [int(n.arg) if n.op == "const" else None for n in bounds]

    def number(self, var: Val, ahead: int = 0) -> Val:
        """The slot of the iteration `ahead` of the one with this loop variable."""
        b = self.low.b
        since = var if self._known[0] == 0 else b.op("sub", var, self.first)
        return b.op("imod", b.op("add", since, b.const(ahead)) if ahead else since, attr=self.depth)

    @contextmanager
    def at(self, var: Val, slot: Val) -> Iterator[None]:
        """Inside, indices are those of an iteration, and addresses in tiles those of a slot."""
        with self.low.scalars.bind(self.part.var, var), self.low.scalars.bind(self.slot, slot):
            yield

    def before(self, fill: Callable[[], None], after: Callable[[], None], count: int) -> None:
        """Fill the slots of the first `count` iterations, as far as the loop has them; `after` each, in any case."""
        b, (lo, hi) = self.low.b, self._known
        for j in range(count):
            var = self.first if not j else b.op("add", self.first, b.const(j)) if lo is None else b.const(lo + j)
            with self.at(var, b.const(j)):
                if j == 0 or (lo is not None and hi is not None and lo + j < hi):  # a loop has at least one iteration
                    fill()
                elif lo is None or hi is None:
                    with b.when(b.op("lt", var, self.end)):
                        fill()
            after()

    def ahead(self, var: Val, by: int, fill: Callable[[], None]) -> None:
        """Fill the slot of a later iteration, if there is one."""
        b = self.low.b
        later = b.op("add", var, b.const(by))
        with b.when(b.op("lt", later, self.end)), self.at(later, self.number(var, by)):
            fill()


class Ring:
    """The tiles that are staged at one loop with slots of one number; made where the loop is about to be opened."""

    def __init__(self, low: Lowering, part: Part, bounds: tuple[Node, Node], plans: Sequence[StagePlan]) -> None:
        self.low, self.slots, self.depth = low, TileSlots(low, part, bounds, plans[0]), plans[0].depth
        self.beside = [TileCopy(low, s, room(low, s), s.chunk) for s in plans if s.chunk]
        self.held = [TileCopy(low, s, room(low, s), ring.tile_width(s, low.sched)) for s in plans if not s.chunk]
        if self.beside:
            self.slots.before(self._begin, low.b.commit, self.depth - 1)
        if self.held:
            self.slots.before(lambda: self._store(self._load(None)), lambda: None, 1)

    @contextmanager
    def iteration(self, var: Val) -> Iterator[None]:
        """Inside an iteration of the loop."""
        b, slots = self.low.b, self.slots
        if self.beside:
            b.wait(self.depth - 2)
            slots.ahead(var, self.depth - 1, self._begin)
            b.commit()
        loaded: list[list[LoadedPiece]] = []
        if self.held:
            later = b.op("add", var, b.const(1))
            with slots.at(later, slots.number(var, 1)):
                loaded = self._load(b.op("lt", later, slots.end))
        with self.low.scalars.bind(slots.slot, slots.number(var)):
            yield
        self._store(loaded)

    def _begin(self) -> None:
        for c in self.beside:
            if c.steps <= UNROLLED:
                c.begin(c.all_steps)
            else:
                b = self.low.b
                with b.loop(f"{c.s.buffer.name}.copy", b.const(0), b.const(c.steps)) as loop:
                    c.begin(CopySteps(1, b.op("mul", loop.var, b.const(self.low.sched.group)), any_last=True))

    def _load(self, more: Val | None) -> list[list[LoadedPiece]]:
        return [c.load(c.all_steps, more) for c in self.held]

    def _store(self, loaded: Sequence[Sequence[LoadedPiece]]) -> None:
        for c, some in zip(self.held, loaded):
            c.store(some)
