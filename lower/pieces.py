"""Loops whose last step reaches past an axis' extent, in pieces: the whole steps, which need no masks, and the last one.

A mask costs an operation for every vector, and a masked store many cycles where the processor has no mask registers. Whole steps are nearly all of a loop, so
they get code of their own. The last step has a known place: its masks are constants, most of them true or false throughout, so that little of it is left. While
the last step of an axis' innermost loop is open, other axes are not split: the corner in which they meet is small, and there would be four versions of it.
Extents that are symbols, and languages with groups of threads, keep their masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.node import Node, const, substitute
from ..opts.axis_plan import Part
from ..opts.nests import Item, Nest
from ..opts.plans import StagePlan
from ..opts.schedule import Scheduled
from ..program.builder import Builder, Loop
from ..program.program import Val
from .scalars import Scalars
from .storage import Arena, Array, Registers

if TYPE_CHECKING:
    from ..program.program import Mem


@dataclass(frozen=True, slots=True)
class Piece:
    """Iterations `between` two of a loop, all of them if that is None. `whole`: axes of which they reach no point past the extent. `at`: their only number,
    where it is known."""

    between: tuple[Node, Node] | None = None
    whole: frozenset[Node] = frozenset()
    at: int | None = None


ALL = Piece()


class Pieces:
    """The part of a Lowering that knows which points of masked axes exist."""

    sched: Scheduled
    b: Builder
    scalars: Scalars
    opened: dict[str, Part]
    storage: dict[str, Registers | Array]
    forced: dict[str, Array]
    tiles: dict[str, Mem]
    lent: set[str]
    current: tuple[Nest, ...]
    arena: Arena
    shared: Arena
    whole: frozenset[Node]
    fixed: dict[Node, Node]
    ragged: frozenset[Node]

    def stage(self, s: StagePlan) -> None:
        """Copy a staged tile into scratch."""
        raise NotImplementedError

    def emit_items(self, items: list[Item]) -> None:
        """Emit items in order."""
        raise NotImplementedError

    def masked(self, axis: Node) -> bool:
        """Whether register copies along an axis can reach past its extent here."""
        return axis not in self.whole and self.sched.plans[axis].masked

    def pieces(self, part: Part) -> list[Piece]:
        """The pieces of a loop that is about to be opened, in order."""
        found = self._counts(part)
        if found is None:
            return [ALL]
        full, trips = found
        return self.cut(const(0), const(trips), full, frozenset({part.axis}))

    def cut(self, lo: Node, hi: Node, full: int, axes: frozenset[Node]) -> list[Piece]:
        """Iterations [lo, hi), of which the first `full` of the loop are whole along `axes`, and at most one is not."""
        first = Piece((lo, ix.minmax("min", hi, const(full))), axes)
        last = Piece((ix.minmax("max", lo, const(full)), hi), at=full)
        return [p for p in (first, last) if p.between is not None and ix.compare("lt", *p.between) is not const(False)]

    def splits(self, axis: Node) -> bool:
        """Whether loops of an axis are done in pieces here."""
        plan = self.sched.plans[axis]
        others = self.ragged - self.whole
        return self.masked(axis) and isinstance(plan.extent, int) and not self.sched.target.groups and (not others or axis in others)

    def _counts(self, part: Part) -> tuple[int, int] | None:
        """(whole iterations, iterations) of a loop over a masked axis, where they are known."""
        if not self.splits(part.axis) or not isinstance(part.size, int):
            return None
        plan = self.sched.plans[part.axis]
        base = const(0)
        for p in (plan.fold, *plan.parts):
            if p is not None and p is not part and p.name in self.opened:
                base = ix.add(base, self.fixed.get(p.var, p.var), p.stride)
        if base.op != "const":
            return None
        assert isinstance(plan.extent, int)
        left = plan.extent - int(base.arg)
        return min(part.size, left // part.stride), min(part.size, -(-left // part.stride))

    @contextmanager
    def inside(self, part: Part, piece: Piece) -> Iterator[None]:
        """What is emitted inside runs in a piece of a loop only."""
        before = self.whole, self.fixed, self.ragged
        self.whole |= piece.whole
        if piece.at is not None:
            self.fixed = {**self.fixed, part.var: const(piece.at)}
            # a last tile may be nearly whole; what is less than a step of the innermost loop is little work
            self.ragged |= {a for a, p in self.sched.plans.items() if (p.fold is part or a is part.axis) and p.block == part.stride}
        yield
        self.whole, self.fixed, self.ragged = before

    def versions(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """One piece after the other: the code of one knows nothing of what another keeps where, and uses the same room."""
        saved = dict(self.storage), dict(self.tiles), dict(self.forced), set(self.lent)
        mark, current = (self.arena.size, self.shared.size), self.current
        top = mark
        for piece in pieces:
            self.arena.size, self.shared.size = mark
            self.storage, self.tiles, self.forced = dict(saved[0]), dict(saved[1]), dict(saved[2])
            self.lent, self.current = set(saved[3]), current
            yield piece
            top = max(top[0], self.arena.size), max(top[1], self.shared.size)
        self.arena.size, self.shared.size = top

    def known(self, node: Node) -> Node:
        """An index with the loop variables put in whose values are known here."""
        return substitute(node, self.fixed) if self.fixed else node

    def among(self, part: Part, piece: Piece, alone: bool) -> AbstractContextManager[None]:
        """Inside runs where the work item is one of a piece's."""
        if alone or piece.between is None:
            return nullcontext()
        lo, hi = (self.b.const(n.arg) for n in piece.between)
        at = self.scalars.bound[part.var]
        return self.b.when(self.b.op("lt", at, hi) if piece.at is None else self.b.op("le", lo, at))

    @contextmanager
    def iterations(self, part: Part, lo: Node, hi: Node, init: Sequence[Val], at: int | None) -> Iterator[Loop]:
        """The iterations [lo, hi) in the code; a single one whose number is known needs no loop."""
        if at is None:
            with self.b.loop(part.name, self.scalars.get(self.known(lo)), self.scalars.get(self.known(hi)), 1, init) as loop:
                yield loop
        else:
            loop = Loop(self.b.const(at), list(init))
            yield loop
            loop.results = loop.yields

    def work_item(self, grid: Sequence[Part], found: list[Item]) -> None:
        """The work of an item, in versions for whole blocks of the axes on the grid and for the last ones."""
        if grid:
            part = grid[0]
            pieces = self.pieces(part)
            for piece in self.versions(pieces):
                with self.among(part, piece, alone=len(pieces) == 1), self.inside(part, piece):
                    self.work_item(grid[1:], found)
            return
        for s in self.sched.stages.values():
            if s.at.kind == "grid":
                self.stage(s)
        self.emit_items(found)
