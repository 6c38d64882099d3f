"""Staged boxes of a single worker: rows of a buffer, copied in whole vectors, and 0 where the box reaches outside the buffer.

How much of a row lies inside is known before it is copied: the last block of a reduction is shorter, a window begins before the first
element. So its vectors need no masks. The last one ends where the row does, and writes again what the one before it wrote. Only rows shorter
than a vector are masked: bytes have no masks below AVX-512, and one by one they take as long as the products that they are for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.node import Node, const
from ...ir.node import axis as make_axis
from ...opts.plans import StagePlan
from ...program.program import Mem, Val
from ..emit.dot import kept
from ..lowering import Lowering
from ..part_index import as_node, linear_index, narrowed

VECTOR = 16
"""Elements of a vector that is copied at most: rows have room for the last one."""


@dataclass(frozen=True, slots=True)
class _BoxSide:
    """A dimension of a box: the place along it, how many elements it has, and the first and the end of those inside the buffer."""

    place: Node
    size: int
    first: Node
    end: Node


class BoxOfRows:
    """The copy of one box into `mem`."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem) -> None:
        self.low, self.s, self.mem = low, s, mem
        wide = low.sched.target.vector_bytes // s.dtype.size
        self.width = low.ctx.width if low.ctx.width == 1 else max(low.ctx.width, min(VECTOR, wide))
        self.sides = [self._side(d, low.known(base), size) for d, base, size, _ in s.box]
        places = [side.place for side in self.sides]
        index_ = list(s.index)
        for (d, base, *_), place in zip(s.box, places, strict=True):
            index_[d] = ix.add(base, place)
        self.address = linear_index(places, (stride for *_, stride in s.box))
        self.source = linear_index(index_, low.ctx.strides[s.buffer.name])

    def emit(self) -> None:
        """Emit the copy at the current position."""
        self._inside(self.sides)

    def _side(self, d: int, base: Node, size: int) -> _BoxSide:
        ranges = self.low.scope.ranges
        first = ix.minmax("min", const(size), ix.minmax("max", const(0), ix.mul(base, const(-1))))
        left = ix.add(as_node(self.s.buffer.shape[d]), base, -1)
        end = ix.minmax("max", first, ix.minmax("min", const(size), left))
        return _BoxSide(make_axis(f"{self.s.buffer.name}.box{d}", size), size, narrowed(first, ranges), narrowed(end, ranges))

    def _inside(self, sides: Sequence[_BoxSide]) -> None:
        """What lies inside the buffer along the sides that are open."""
        side, *inner = sides
        if not inner:
            self._row(side)
            return
        self._over(side, const(0), side.first, lambda: self._zeros(inner))
        self._over(side, side.first, side.end, lambda: self._inside(inner))
        self._over(side, side.end, const(side.size), lambda: self._zeros(inner))

    def _row(self, side: _BoxSide) -> None:
        """The elements of a row that lie inside, and zeros around them."""
        b, inside = self.low.b, ix.add(side.end, side.first, -1)
        long = narrowed(ix.compare("le", const(self.width), inside), self.low.scope.ranges)
        if inside is const(0):
            self._zeros([side])
        elif long is const(True):
            self._apart(side, inside)
        elif long is const(False):
            self._masked(side)
        else:
            with b.when(self.low.scalar(long)):
                self._apart(side, inside)
            with b.when(b.op("not", self.low.scalar(long))):
                self._masked(side)

    def _apart(self, side: _BoxSide, inside: Node) -> None:
        """Zeros, then the vectors inside, of which there is one at least; the last one ends where the row does."""
        width = self.width
        if side.first is not const(0):
            self._vectors(side, const(0), ix.ceildiv(side.first, width), self._zero)
        if side.end is not const(side.size):
            self._vectors(side, ix.floordiv(side.end, width), const(-(-side.size // width)), self._zero)
        self._vectors(side, const(0), ix.floordiv(inside, width), self._copy, side.first)
        if ix.mod(inside, width) is not const(0):
            self._at(side, ix.add(side.end, const(-width)), self._copy)

    def _masked(self, side: _BoxSide) -> None:
        """Vectors of which each lane is looked at."""
        self._vectors(side, const(0), const(-(-side.size // self.width)), lambda: self._copy(self._mask(side)))

    def _zeros(self, sides: Sequence[_BoxSide]) -> None:
        """Rows outside the buffer."""
        side, *inner = sides
        if inner:
            self._over(side, const(0), const(side.size), lambda: self._zeros(inner))
        else:
            self._vectors(side, const(0), const(-(-side.size // self.width)), self._zero)

    def _over(self, side: _BoxSide, lo: Node, hi: Node, body: Callable[[], None], step: int = 1, first: Node = const(0)) -> None:  # noqa: B008
        """The places from `first` + `lo` · `step` on, one `step` after the other, before that of `hi`."""
        low, b = self.low, self.low.b
        trips = ix.add(hi, lo, -1)
        if trips is const(0):
            return
        if trips is const(1):
            self._at(side, ix.add(first, lo, step), body)
            return
        with b.loop(side.place.arg.name, low.scalar(lo), low.scalar(hi), maybe=trips.op != "const") as loop:
            place = loop.var if step == 1 else b.op("mul", loop.var, b.const(step))
            place = place if first is const(0) else b.op("add", place, low.scalar(first))
            with low.scalars.bind(side.place, place):
                body()

    def _at(self, side: _BoxSide, place: Node, body: Callable[[], None]) -> None:
        """One place."""
        with self.low.within(fixed={**self.low.scope.fixed, side.place: place}):
            body()

    def _vectors(self, side: _BoxSide, lo: Node, hi: Node, body: Callable[[], None], first: Node = const(0)) -> None:  # noqa: B008
        """The vectors `lo` to `hi` of a row, the first of which begins at `first`."""
        self._over(side, lo, hi, body, self.width, first)

    def _copy(self, mask: Val | None = None) -> None:
        low = self.low
        value = low.b.load(low.param(self.s.buffer.name), low.scalar(self.source), self.width, mask)
        low.b.store(self.mem, low.scalar(self.address), kept(low.b, self.s, value))

    def _zero(self) -> None:
        b = self.low.b
        nothing = b.splat(b.const(0, self.s.buffer.dtype), self.width)
        b.store(self.mem, self.low.scalar(self.address), kept(b, self.s, nothing))

    def _mask(self, side: _BoxSide) -> Val | None:
        """Which lanes of the vector at the place of a row lie inside."""
        b, width, mask = self.low.b, self.width, None
        place = self.low.scalar(side.place)
        if width > 1:
            place = b.op("add", place, b.multiples(1, width))
        for op, at in (("le", side.first), ("lt", side.end)):
            limit = b.splat(self.low.scalar(at), place.lanes)
            mask = b.both(mask, b.op(op, *((limit, place) if op == "le" else (place, limit))))
        return mask
