"""What a tile function writes with: arrays, the grid, loops over blocks, accumulators, and operations of whole tiles."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..ir import arguments as given
from ..ir.buffer import Buffer
from ..ir.dtypes import DType, DTypeLike, float32
from ..ir.errors import KernelError
from ..ir.node import Node, const
from ..ir.operators import cast, where
from .accumulator import Accumulator
from .ends import check_end
from .rebound import Rebound
from .refs import Ref, as_place, places
from .solve import solve_loop
from .trace import LoopTrace, Step, Trace, step_axis
from .value import Tile, TileDim, both, new_lane
from .vanish import identity_of, vanished


class BlockSize(int):
    """A block size that a search chooses; while the kernel is written it is one of the values."""

    param: str = ""


class BlockPlaces(Tile):
    """The places of one block: a tile of one dimension. `start` is the first of them, `size` how many there are."""

    __slots__ = ("_start",)

    def __init__(self, start: Node, size: int, end: Node | None) -> None:
        lane = new_lane(size)
        inside = None if end is None else (start + lane) < end
        super().__init__([TileDim(size, lane, None if inside is None or inside.op == "const" else inside)], start + lane)
        self._start = start

    @property
    def start(self) -> Tile:
        """The first place."""
        return Tile((), self._start)

    @property
    def size(self) -> int:
        """Elements of the block."""
        return self.shape[0]


class TileBuilder:
    """The first argument of a tile function. See docs/tiles.md."""

    def __init__(self, name: str, sizes: dict[str, int] | None = None) -> None:
        self.trace = Trace(given.name("a kernel", name))
        self.sizes = dict(sizes or {})
        self.params: dict[str, tuple[int, ...]] = {}
        self.limits: list[Callable[..., bool]] = []
        self.aliases: dict[str, str] = {}
        self._states: list[Accumulator] = []
        self._gridded = False

    # arrays -------------------------------------------------------------------------------------------------------------
    def input(self, name: str, shape: Sequence[int], dtype: DTypeLike = float32, *, constant: bool = False, range: Any = None) -> Ref:
        """An array that the kernel reads (row-major). `constant`: it keeps its contents from call to call. `range`: the least and
        largest element it ever has; indices that are read from it are proved by that, and calls check it then."""
        of = given.element_type(self.trace.claim(name, "an input"), dtype)
        buffer = Buffer(name, of, _shape(name, shape), "in", constant, given.limits(name, of, range))
        self.trace.buffers.append(buffer)
        return Ref(self.trace, buffer)

    def output(self, name: str, shape: Sequence[int], dtype: DTypeLike = float32, *, in_place: Ref | None = None) -> Ref:
        """An array that the kernel writes. `in_place`: an input whose memory it may lie in; each element of that is then read for its
        own place only."""
        of = given.element_type(self.trace.claim(name, "an output"), dtype)
        buffer = Buffer(name, of, _shape(name, shape), "out")
        self.trace.buffers.append(buffer)
        if in_place is not None:
            self.aliases[name] = in_place.buffer.name
        return Ref(self.trace, buffer)

    # block sizes --------------------------------------------------------------------------------------------------------
    def block(self, name: str, sizes: Sequence[int]) -> BlockSize:
        """A block size that is tuned: one of `sizes`. It stands for a number, and the kernel must compute the same whichever it is."""
        values = tuple(dict.fromkeys(int(n) for n in sizes))
        if not values or min(values) < 1:
            raise KernelError(f"block {name}: its sizes are {tuple(sizes)!r}; give at least one number, each at least 1")
        self.params[self.trace.claim(name, "a block size")] = values
        found = BlockSize(self.sizes.get(name, values[0]))
        found.param = name
        return found

    def limit(self, allowed: Callable[..., bool]) -> None:
        """Only those block sizes for which `allowed` holds; its arguments are called as the block sizes are."""
        unknown = [p for p in inspect.signature(allowed).parameters if p not in self.params]
        if unknown:
            raise KernelError(
                f"t.limit: {unknown[0]} is no block size (they are {', '.join(self.params) or 'none'}); make it first, t.block(...)"
            )
        self.limits.append(allowed)

    # the grid -----------------------------------------------------------------------------------------------------------
    def grid(self, *counts: int, **axes: int | tuple[int, int]) -> Any:
        """The cells: one for each block of each axis, `m=(512, bm)`, or for each number below a count, `b=8`. Returns this cell's
        block (a `BlockPlaces`) or number for each axis, in order; just the one where there is one axis."""
        if self._gridded:
            raise KernelError("t.grid is called twice; a kernel has one grid: give all its axes at once")
        self._gridded = True
        named: dict[str, int | tuple[int, int]] = {f"g{n}": c for n, c in enumerate(counts)}
        out = [self._step(name, what, None, grid=True)[1] for name, what in (named | axes).items()]
        if not out:
            raise KernelError("t.grid() has no axis; leave it out where there is only one cell")
        return out[0] if len(out) == 1 else tuple(out)

    def _step(self, name: str, what: Any, upto: Any, grid: bool) -> tuple[Step, Tile]:
        self.trace.claim(name, "an axis")
        extent, block = what if isinstance(what, tuple) else (what, None)
        where_ = f"axis {name} of the grid" if grid else f"the loop over {name}"
        for n, of in ((extent, "extent"), (block, "block size")):
            if isinstance(n, (Tile, Node)) or (n is not None and not isinstance(n, int)):
                raise KernelError(
                    f"{where_}: its {of} is {n!r}, which is not known before the kernel runs. Go through as many as there may be, and mask "
                    "what is not wanted" + ("" if grid else " (t.loop(..., upto=...) does)")
                )
        if extent < 1 or (block is not None and block < 1):
            raise KernelError(
                f"{where_}: {extent} elements{'' if block is None else f' in blocks of {block}'}; there is nothing to compute"
            )
        param = block.param if isinstance(block, BlockSize) else ""
        if block is not None and block > extent and not param:
            raise KernelError(f"{where_}: a block of {block} is larger than its {extent} elements; give at most {extent}, or t.block(...)")
        size = 1 if block is None else int(block)
        axis = step_axis(self.trace, name, -(-extent // size))
        end = None if upto is None else as_place(upto, f"the end of {where_}")
        if end is not None and end.ndim:
            raise KernelError(f"{where_}: it goes up to {end!r}; give one place")
        if end is not None:
            check_end(where_, end.node, extent)
        step = Step(name, axis, None if block is None else size, extent, param, grid, None if end is None else end.node)
        self.trace.steps[axis] = step
        if block is None:
            return step, Tile((), axis)
        ends = [const(extent)] if extent % size else []
        ends += [] if end is None else [end.node]
        span = BlockPlaces(axis * size, size, None)
        inside: Node | None = None
        for e in ends:
            inside = both(inside, span.node < e)
        span._dims = (TileDim(size, span.dims[0].lane, None if inside is None or inside.op == "const" else inside),)
        return step, span

    def span(self, name: str, extent: int) -> BlockPlaces:
        """All places of a dimension, as one block: `x[rows, cols]` with `cols = t.span("n", n)`."""
        if not isinstance(extent, int) or extent < 1:
            raise KernelError(f"t.span({name!r}): its extent is {extent!r}; give a number that is at least 1")
        found = BlockPlaces(const(0), extent, None)
        lane = found.dims[0].lane
        assert lane is not None
        self.trace.lanes[lane] = name
        return found

    def arange(self, size: int) -> Tile:
        """The places 0 … size − 1."""
        return places(0, size)

    def ds(self, start: Any, size: int) -> Tile:
        """The `size` places from `start` on: a slice whose start the cell computes, or reads from memory."""
        return places(start, size)

    # loops --------------------------------------------------------------------------------------------------------------
    def loop(self, name: str, extent: int, block: int | None = None, *, upto: Any = None) -> Iterator[Any]:
        """`for ks in t.loop("k", k, bk)`: the blocks of an axis, one after the other; without a block size, the numbers below `extent`.
        `upto`: a place of the cell; elements at or past it do not exist. One that is read from memory must be at most `extent`, by the
        range that its input states (calls check it): KernelError otherwise."""
        if upto is not None and block is None:
            raise KernelError(f"the loop over {name}: `upto` is for loops over blocks; mask what is not wanted here")
        step, at = self._step(name, extent if block is None else (extent, block), upto, grid=False)
        loop, rebound = LoopTrace(step), Rebound(sys._getframe(1))
        outer = list(self._states)
        self.trace.block.append(loop)
        self.trace.open.append(loop)
        for s in outer:
            s.enter(self.trace, loop)
        yield at
        if self.trace.open[-1:] != [loop]:
            raise KernelError(
                f"the loop over {name}: a loop inside it was left by break; its steps cannot be known. Mask what is not wanted"
            )
        self.trace.open.pop()
        rebound.check(name)
        for s in self._states[len(outer) :]:
            s.end(name)
        del self._states[len(outer) :]
        for s in outer:
            s.leave(self.trace, loop)
        solve_loop(self.trace, loop)

    # accumulators -------------------------------------------------------------------------------------------------------
    def zeros(self, shape: Sequence[int] | int, dtype: DTypeLike = float32) -> Accumulator:
        """An accumulator of zeros."""
        return self.full(shape, 0, dtype)

    def full(self, shape: Sequence[int] | int, value: float, dtype: DTypeLike = float32) -> Accumulator:
        """An accumulator that holds one number: `acc += x` and `acc[...] = x` change it, in loops too."""
        of = given.element_type("an accumulator", dtype)
        return self.accumulator(Tile([_dim(int(n)) for n in ([shape] if isinstance(shape, int) else shape)], const(value, of)))

    def accumulator(self, first: Tile) -> Accumulator:
        """An accumulator that begins as a tile."""
        found = Accumulator(first)
        self._states.append(found)
        return found

    # whole tiles --------------------------------------------------------------------------------------------------------
    def dot(self, a: Tile, b: Tile, dtype: DTypeLike | None = None) -> Tile:
        """The matrix product of tiles (m, k) and (k, n), or with vectors (k): summed in `dtype` (default: what a sum of such products
        is accumulated in)."""
        if not (isinstance(a, Tile) and isinstance(b, Tile)) or not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2):
            raise KernelError(f"t.dot of {a!r} and {b!r}: give tiles of one or two dimensions")
        if a.shape[-1] != b.shape[0]:
            raise KernelError(f"t.dot of tiles {list(a.shape)} and {list(b.shape)}: {a.shape[-1]} columns meet {b.shape[0]} rows")
        of = _common(a.dtype, b.dtype) if dtype is None else given.element_type("t.dot", dtype)
        a, b = a.cast(of), b.cast(of)
        left = a[:, :, None] if a.ndim == 2 and b.ndim == 2 else a
        right = b if a.ndim == 1 or b.ndim == 1 else b[None, :, :]
        if a.ndim == 1 and b.ndim == 2:
            left = a[:, None]
        product = left * right
        return self._reduced("add", product, (1 if a.ndim == 2 else 0,), of, "dot")

    def sum(self, x: Tile, axis: int | Sequence[int] | None = None) -> Tile:
        """Σ over dimensions (None: all). Elements past an axis's end do not count."""
        return self._reduced("add", x, _axes(x, axis), x.dtype.acc, "total")

    def max(self, x: Tile, axis: int | Sequence[int] | None = None) -> Tile:
        """The largest over dimensions."""
        return self._reduced("max", x, _axes(x, axis), x.dtype.compute, "top")

    def min(self, x: Tile, axis: int | Sequence[int] | None = None) -> Tile:
        """The smallest over dimensions."""
        return self._reduced("min", x, _axes(x, axis), x.dtype.compute, "low")

    def _reduced(self, combine: str, x: Tile, axes: tuple[int, ...], dtype: DType, hint: str) -> Tile:
        over = [x.dims[d] for d in axes]
        body = cast(x.node, dtype)
        for d in over:
            if d.inside is not None:
                idle = identity_of(combine, body)
                gone = vanished(self.trace.full(body), {d.inside: const(False)}, lambda r: None)
                body = body if gone is idle else where(d.inside, body, idle)
        lanes = tuple(d.lane if d.lane is not None else new_lane(d.size) for d in over)
        node = self.trace.reduce(combine, body, lanes, dtype, hint)
        return Tile([d for n, d in enumerate(x.dims) if n not in axes], node)


def _dim(n: int) -> TileDim:
    if n < 1:
        raise KernelError(f"an accumulator with a dimension of {n} elements; a tile has at least one")
    return TileDim(n, new_lane(n))


def _shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    extents = given.shape(name, shape)
    found = tuple(n for n in extents if isinstance(n, int))
    if len(found) < len(extents):
        raise KernelError(f"{name} has a symbolic size in {extents!r}: a tile kernel is written for sizes that are numbers")
    if 0 in found:
        raise KernelError(f"{name} has no element, its shape is {list(found)}: there is nothing to compute")
    return found


def _axes(x: Tile, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    if not isinstance(x, Tile):
        raise KernelError(f"{x!r} is no tile")
    chosen = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    found = tuple(a + x.ndim if a < 0 else a for a in chosen)
    if len(set(found)) != len(found) or any(not 0 <= a < x.ndim for a in found):
        raise KernelError(f"{x!r} has no dimension {axis!r}")
    return found


def _common(a: DType, b: DType) -> DType:
    """What products of two types are summed in."""
    if a.acc is b.acc or a.acc.is_float == b.acc.is_float:
        return max(a.acc, b.acc, key=lambda t: t.size)
    raise KernelError(f"t.dot of {a} and {b}: cast one of them")
