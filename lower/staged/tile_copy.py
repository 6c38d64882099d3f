"""One tile's copy into shared memory: its elements in the buffer's order, as pieces of consecutive ones, dealt to the threads in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, const
from ...ir.node import axis as make_axis
from ...opts import ring
from ...opts.plans import StagePlan
from ...program.program import AsyncCopy, Mem, Val
from ..lowering import Lowering
from ..storage import linear_index
from .swizzle import place

_BLOCK = (8, 4)
"""Elements along the buffer's last dimension (a sector of 32 bytes) and across it that a warp copies where they are turned."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """0 <= or < an index: what keeps a piece inside its buffer. `each`: its elements may differ, else the first speaks for all."""

    op: str
    index: Node
    each: bool


@dataclass(frozen=True, slots=True)
class LoadedPiece:
    """A piece on its way: the condition under which there is one, where it goes in its slot and where that begins, and what it holds."""

    guard: Val | None
    at: Val
    slot: Val | None
    value: Val


class TileCopy:
    """Emits the copy of a tile in pieces of `width` elements; the slot, if there are several, is the one that is bound."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem, width: int) -> None:
        self.low, self.s, self.mem, self.width = low, s, mem, width
        dims = sorted(s.box)
        self.sizes = [extent for _, _, extent, _ in dims]
        if dims:
            self.sizes[-1] //= width
        self.count = ring.pieces(s, width)
        self.steps = ring.steps(s, width, low.sched.group)
        name = s.buffer.name
        self.axes = [make_axis(f"{name}.box{d}", n) for d, n in enumerate(self.sizes)]
        coords: list[Node] = list(self.axes)
        if coords:
            coords[-1] = ix.mul(coords[-1], const(width))
        self.target = const(0)
        self.stride = dims[-1][3] if dims else 1
        self.bounds: list[_Bound] = []
        whole = ring.uniform(s, width)
        at = list(s.index)
        for (d, base, _, stride), c in zip(dims, coords):
            at[d] = ix.add(base, c)
            self.target = ix.add(self.target, c, stride)
            size = s.buffer.shape[d]
            top = size if isinstance(size, Node) else const(size)
            # the last of a vector's lanes decides whether a bound can be left out
            end = ix.add(at[d], const(width - 1 if c is coords[-1] else 0))
            each = c is coords[-1] and not whole
            if not _holds(ix.compare("le", const(0), at[d])):
                self.bounds.append(_Bound("le", at[d], each))
            if not _holds(ix.compare("lt", end, top)):
                self.bounds.append(_Bound("lt", ix.add(top, at[d], -1), each))
        self.source = linear_index(at, low.ctx.strides[name])

    @property
    def words(self) -> int:
        """Registers that a thread needs to hold its pieces."""
        return self.steps * -(-self.width * self.mem.dtype.size // 4)

    def starts(self, first: int, last: int) -> list[Val]:
        """Where steps begin, in pieces."""
        return [self.low.b.const(i * self.low.sched.group) for i in range(first, last)]

    # through registers ------------------------------------------------------------------------------------------------
    def load(self, starts: Sequence[Val], more: Val | None = None, always: bool = False) -> list[LoadedPiece]:
        """Load the pieces `start + thread`, where `more` holds. `always`: any of the starts may be one past the tile."""
        out, param = [], self.low.param(self.s.buffer.name)
        for i, start in enumerate(starts):
            with self._piece(start, always or i == len(starts) - 1) as guard:
                mask = self._mask(guard if more is None else more if guard is None else self.low.b.op("and", guard, more))
                mask = None if mask is None else self.low.b.splat(mask, self.width)
                mem = self.low.at(param, self.source, 0, self.width)
                value = self.low.b.load(mem, self.low.scalar(self.source), self.width, mask, invariant=True)
                out.append(LoadedPiece(guard, self.low.scalar(self.target), self._slot(), value))
        return out

    def store(self, loaded: Sequence[LoadedPiece]) -> None:
        """Store what was loaded."""
        for x in loaded:
            if x.guard is None:
                self._store(x)
            else:
                with self.low.b.when(x.guard):
                    self._store(x)

    def _store(self, x: LoadedPiece) -> None:
        b, s, mem = self.low.b, self.s, self.mem
        if self.stride == 1:
            aligned = (s.pitch % self.width == 0 or len(self.sizes) == 1) and all(
                stride % self.width == 0 for _, _, _, stride in s.box[:-1]
            )
            size = mem.dtype.size * (self.width if aligned else 1)
            b.store(Mem(mem.space, mem.base, mem.dtype, 0, size), self._at(x.at, x.slot), x.value)
            return
        for i in range(self.width):
            spot = b.op("add", x.at, b.const(i * self.stride)) if i else x.at
            b.store(mem, self._at(spot, x.slot), b.extract(x.value, i))

    # beside the threads -----------------------------------------------------------------------------------------------
    def begin(self, starts: Sequence[Val], always: bool = False) -> None:
        """Begin asynchronous copies of the pieces `start + thread`; outside the buffer there are zeros."""
        low, size = self.low, self.width * self.mem.dtype.size
        to = Mem(self.mem.space, self.mem.base, self.mem.dtype, 0, size)
        for i, start in enumerate(starts):
            with self._piece(start, always or i == len(starts) - 1) as guard:
                copy = AsyncCopy(to, low.at(low.param(self.s.buffer.name), self.source, 0, self.width), self.width)
                args = (copy, self._at(low.scalar(self.target), self._slot()), low.scalar(self.source), self._mask(None))
                if guard is None:
                    low.b.copy_async(*args)
                else:
                    with low.b.when(guard):
                        low.b.copy_async(*args)

    # where ------------------------------------------------------------------------------------------------------------
    @contextmanager
    def _piece(self, start: Val, last: bool) -> Iterator[Val | None]:
        """Inside, the coordinates of this thread's piece are bound; gives the condition under which there is one."""
        low, b = self.low, self.low.b
        chunk = b.op("add", low.thread, start)
        guard = b.op("lt", chunk, b.const(self.count)) if last and self.count % low.sched.group != 0 else None
        with ExitStack() as bound:
            for axis, v in zip(self.axes, self._coordinates(chunk)):
                bound.enter_context(low.scalars.bind(axis, v))
            yield guard

    def _coordinates(self, chunk: Val) -> list[Val]:
        """Of a piece, by its number. Neighbours go along the buffer's last dimension; single elements that are turned go in blocks, so
        that a warp writes some columns of some rows, which lie in different banks, and still reads whole sectors."""
        b, rest = self.low.b, chunk
        along, across = _BLOCK
        if self.stride != 1 and self.width == 1 and self.sizes[1:] and not (self.sizes[-1] % along or self.sizes[-2] % across):
            near = [b.op("imod", rest, attr=along), b.op("imod", b.op("idiv", rest, attr=along), attr=across)]
            far = self._dealt(
                b.op("idiv", rest, attr=along * across), [*self.sizes[:-2], self.sizes[-2] // across, self.sizes[-1] // along]
            )
            far[-1] = b.op("add", b.op("mul", far[-1], b.const(along)), near[0])
            far[-2] = b.op("add", b.op("mul", far[-2], b.const(across)), near[1])
            return far
        return self._dealt(rest, self.sizes)

    def _dealt(self, rest: Val, sizes: Sequence[int]) -> list[Val]:
        """Coordinates, the last varying fastest."""
        b, out = self.low.b, list[Val]()
        for n in reversed(sizes[1:]):
            out.append(b.op("imod", rest, attr=n) if n > 1 else b.const(0))
            rest = b.op("idiv", rest, attr=n) if n > 1 else rest
        return [rest, *reversed(out)] if sizes else []

    def _mask(self, guard: Val | None) -> Val | None:
        low, b, mask = self.low, self.low.b, guard
        wide = any(x.each for x in self.bounds) and self.width > 1
        for x in self.bounds:
            v = low.scalar(x.index)
            step = ix.parts(x.index)[0].get(self.axes[-1], 0) // self.width
            if x.each and step and self.width > 1:
                v = b.op("add", v, b.const(tuple(step * i for i in range(self.width)), index, self.width))
            holds = b.op(x.op, b.const(0), v)
            if wide:
                holds, mask = b.splat(holds, self.width), mask if mask is None else b.splat(mask, self.width)
            mask = holds if mask is None else b.op("and", mask, holds)
        return mask

    def _slot(self) -> Val | None:
        return self.low.scalar(self.s.offset) if self.s.depth > 1 else None

    def _at(self, at: Val, slot: Val | None) -> Val:
        """Where an element of the tile lies."""
        found = place(self.low.b, self.s, at)
        return found if slot is None else self.low.b.op("add", slot, found)


def _holds(condition: Node) -> bool:
    return condition.op == "const" and bool(condition.arg)
