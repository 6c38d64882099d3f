"""What a tile function writes with: arrays, the grid, loops over blocks, accumulators, and operations of whole tiles."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from ..ir import builder_arguments as given
from ..ir.buffer import Buffer
from ..ir.dtypes import DType, DTypeLike, float32
from ..ir.errors import KernelError
from ..ir.integer_ranges import value_range
from ..ir.node import Node, axes_of, const, ref, walk
from ..ir.operators import cast, where
from .absent_elements import identity_of, vanished
from .array_refs import Ref, as_place, places
from .solve import solve_loop
from .trace import Carried, LoopTrace, Step, Trace, step_axis
from .value import Tile, TileDim, aligned, as_tile, both, new_lane, relaned

# accumulator ------------------------------------------------------------------------------------------------
# What changes while a cell runs: tiles that are assigned to.


class Accumulator(Tile):
    """A tile that `acc += x`, `acc *= x` and `acc[...] = x` change, in loops too. It keeps its shape and type."""

    __slots__ = ("_carried", "_first", "_over", "_trace")

    def __init__(self, first: Tile) -> None:
        own = relaned(Tile([TileDim(d.size, new_lane(d.size) if d.lane is None else d.lane, d.inside) for d in first.dims], first.node))
        super().__init__(own.dims, own.node)
        self._carried: list[tuple[Carried, tuple[TileDim, ...]]] = []
        self._over = ""

    @property
    def dims(self) -> tuple[TileDim, ...]:
        """The dimensions as they are now."""
        self._check()
        return self._dims

    @property
    def node(self) -> Node:
        """The element as it is now."""
        self._check()
        return self._node

    def _check(self) -> None:
        if self._over:
            raise KernelError(
                f"an accumulator that was made inside the loop over {self._over} is used after it: each step has its own. Make it before the loop"
            )

    # changes ----------------------------------------------------------------------------------------------------------
    def __setitem__(self, what: Any, value: Any) -> None:
        if what is not Ellipsis and what != slice(None):
            raise KernelError("an accumulator is assigned as a whole, acc[...] = x; where() keeps elements as they are")
        self._set(value)

    def _set(self, value: Any) -> None:
        new = as_tile(value)
        lanes = tuple(d.lane for d in self.dims)
        if new.ndim > self.ndim or any(n not in (1, m) for n, m in zip(new.shape[::-1], self.shape[::-1], strict=False)):
            raise KernelError(f"an accumulator of shape {list(self.shape)} cannot hold {new!r}")
        dims, (_, node) = aligned([Tile([TileDim(d.size, d.lane) for d in self.dims], self._node), new])
        if tuple(d.lane for d in dims) != lanes:
            raise KernelError(f"an accumulator of shape {list(self.shape)} cannot hold {new!r}")
        if node.dtype is not self._node.dtype:
            if isinstance(value, Tile):
                raise KernelError(
                    f"an accumulator of {self._node.dtype} cannot hold {node.dtype}; cast it, or make the accumulator with dtype"
                )
            node = as_tile(value).cast(self._node.dtype).node
        self._dims, self._node = dims, node

    def __iadd__(self, other: Any) -> Accumulator:
        self._set(self + other)
        return self

    def __isub__(self, other: Any) -> Accumulator:
        self._set(self - other)
        return self

    def __imul__(self, other: Any) -> Accumulator:
        self._set(self * other)
        return self

    def __itruediv__(self, other: Any) -> Accumulator:
        self._set(self / other)
        return self

    # loops ------------------------------------------------------------------------------------------------------------
    def enter(self, trace: Trace, loop: LoopTrace) -> None:
        """At the beginning of a step it is what the last step left."""
        lanes = tuple(d.lane for d in self._dims if d.lane is not None)
        c = Carried(lanes, self._dims, self._node, trace.fresh("\0b"), trace.fresh("\0e"))
        loop.carried.append(c)
        self._carried.append((c, self._dims))
        self._node = ref(c.before, lanes, self._node.dtype)

    def leave(self, trace: Trace, loop: LoopTrace) -> None:
        """Leave the loop: afterwards the tile is what the last step left."""
        c, dims = self._carried.pop()
        before = ref(c.before, c.lanes, self._node.dtype)
        trace.gone[c.before] = loop.step.name
        if self._node is before:
            loop.carried.remove(c)
            trace.aliases[c.before] = (c.lanes, c.init)
            self._dims, self._node = dims, c.init
            return
        loops = {x.step.axis for x in trace.open} | {loop.step.axis}
        after: list[TileDim] = []
        for old, new in zip(dims, self._dims, strict=True):
            if new.inside is not None and axes_of(new.inside) & loops:
                # in a step some elements do not exist: they stay what they were
                self._node = where(new.inside, self._node, before)
                after.append(TileDim(old.size, old.lane, old.inside))
            else:
                after.append(TileDim(old.size, old.lane, both(old.inside, new.inside)))
        c.update = self._node
        self._dims, self._node = tuple(after), ref(c.after, c.lanes, self._node.dtype)

    def end(self, loop: str) -> None:
        """The loop in which it was made is over."""
        self._over = loop


# rebound ----------------------------------------------------------------------------------------------------
# Python names that a loop's body reads and then binds anew. The body runs once, for all steps of the loop, so what it
# binds would be handed on to no next step: the kernel would mean something else than the same lines in Python.


_NOWHERE = object()


class Rebound:
    """The names that the `for` statement which runs in a frame would hand from one step to the next, and what they are before it."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._before = {name: self._now(name) for name in _read_and_bound(frame)}

    def _now(self, name: str) -> Any:
        return self._frame.f_locals.get(name, self._frame.f_globals.get(name, _NOWHERE))

    def check(self, loop: str) -> None:
        """KernelError where one of them is another object now. (An accumulator stays what it is, whatever it holds.)"""
        changed = [name for name, value in self._before.items() if value is not _NOWHERE and self._now(name) is not value]
        if changed:
            name = changed[0]
            raise KernelError(
                f"the loop over {loop}: {name} is bound anew in its body, which runs once for all steps, and only accumulators outlive a "
                f"loop: let {name} be one (t.zeros, t.full or t.accumulator before the loop), and change it by {name} += … or "
                f"{name}[...] = …"
            )


def _read_and_bound(frame: FrameType) -> list[str]:
    """Names that are read before they are bound in the body of the `for` statement that runs, in the order of its instructions."""
    instructions = list(dis.get_instructions(frame.f_code))
    # (where it has run for a while, Python stands at what belongs to the instruction)
    start = next((i for i, x in reversed(list(enumerate(instructions))) if x.offset <= frame.f_lasti), None)
    if start is None or instructions[start].opname != "FOR_ITER":
        return []
    end = instructions[start].argval
    first: dict[str, str] = {}
    bound = set[str]()
    for x in instructions[start + 1 :]:
        if x.offset >= end:
            break
        names = x.argval if isinstance(x.argval, tuple) else (x.argval,)
        for what, name in zip((word for word in x.opname.split("_") if word in ("LOAD", "STORE")), names):
            if isinstance(name, str) and x.opname.endswith(("FAST", "BORROW", "CHECK", "CLEAR", "DEREF", "CLOSURE", "NAME", "GLOBAL")):
                first.setdefault(name, what)
                if what == "STORE":
                    bound.add(name)
    return [name for name, what in first.items() if what == "LOAD" and name in bound]


# ends -------------------------------------------------------------------------------------------------------
# Where a cell may end a loop.


def check_end(what: str, end: Node, extent: int) -> None:
    """Raise KernelError for an end that is read from memory and may lie past the loop's extent: the elements from there on would be
    left out without a word. (What is computed of places alone may: past the extent there is nothing.)"""
    if not any(n.op in ("load", "ref") for n in walk(end)):
        return
    most = value_range(end)[1]
    if most > extent:
        raise KernelError(
            f"{what}: its end is read from memory, and may be up to {most}, past its {extent} elements. State the range of the input, "
            f"t.input(..., range=(0, {extent})), which calls check; or give tile.minimum(end, {extent}) if the rest is to be left out"
        )


# builder ----------------------------------------------------------------------------------------------------
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
