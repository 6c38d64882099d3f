"""Arrays in memory as a tile kernel sees them: parts of them are loaded and stored as tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import index as ix
from ..ir.body import BITWISE, COMBINES
from ..ir.buffer import Buffer, load
from ..ir.dtypes import bool_, index
from ..ir.errors import KernelError
from ..ir.node import Node, as_node, const
from ..ir.operators import cast, where
from .trace import TileStore, Trace
from .value import Tile, TileDim, aligned, as_tile, both, new_lane, relaned


def places(start: Any, size: int) -> Tile:
    """The `size` places from `start` on, a number or a place of the cell."""
    if isinstance(size, Tile) or not isinstance(size, int):
        raise KernelError(f"a slice has {size!r} elements: the size of a tile is a number that is known while the kernel is written")
    if size < 1:
        raise KernelError(f"a slice of {size} elements: a tile has at least one")
    lane = new_lane(size)
    at = as_place(start, "the start of a slice")
    return Tile([TileDim(size, lane)], at.node + lane)


def as_place(x: Any, what: str) -> Tile:
    """A place, of any shape, as the type that indices have."""
    found = as_tile(x)
    if not found.dtype.is_int:
        raise KernelError(f"{what} is {found.dtype}; a place is an integer (cast it to int64)")
    return Tile(found.dims, cast(found.node, index))


class Ref:
    """An input or output array. `x[rows, cols]` loads a tile, `y[rows, cols] = tile` stores one. An index is a block of the grid or
    of a loop, a slice (`k0 : k0 + 16`, or `:`), a place, or a tile of places: tiles of one dimension make a dimension each; where one has
    more, all are broadcast as in NumPy."""

    __slots__ = ("_trace", "buffer")

    def __init__(self, trace: Trace, buffer: Buffer) -> None:
        self._trace, self.buffer = trace, buffer

    def __repr__(self) -> str:
        return f"{self.buffer.name}, {self.buffer.dtype}{list(self.buffer.shape)}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(int(n) for n in self.buffer.shape)

    # loads ------------------------------------------------------------------------------------------------------------
    def __getitem__(self, indices: Any) -> Tile:
        return self.load(*(indices if isinstance(indices, tuple) else (indices,)))

    def load(self, *indices: Any, mask: Any = None, other: Any = None) -> Tile:
        """The tile at `indices`. Where `mask` (a tile of conditions) does not hold, no memory is touched, and the element is `other`
        (0 without). `other` without a mask: that is what lies outside of the array."""
        if self.buffer.role == "out":
            raise KernelError(
                f"{self.buffer.name} is an output, and what another cell wrote there may not be there yet: keep what this cell stores in a "
                "variable, and read that; what one kernel is to read of another's output, give it as an input"
            )
        dims, at = self._at(indices)
        outside = self._outside(at) if mask is None and other is not None else None
        if mask is not None:
            dims, at, outside = _with_mask(f"the mask of {self.buffer.name}", dims, at, mask)
        known = outside
        for d in dims:
            known = both(known, d.inside)
        node = load(self.buffer, at, known)
        if other is not None and outside is not None and not (isinstance(other, (int, float)) and other == 0 and str(other)[0] != "-"):
            fill = as_tile(other)
            if fill.ndim:
                raise KernelError(f"{self.buffer.name}: `other` is one number; use where() for a tile")
            node = where(outside, node, other if not isinstance(other, Tile) else other.node)
        self._trace.check_scope(node, f"the load from {self.buffer.name}")
        return Tile(dims, node)

    def _outside(self, at: Sequence[Node]) -> Node | None:
        found: Node | None = None
        for i, size in zip(at, self.shape, strict=True):
            lo, hi = ix.bounds(i)
            found = both(found, i >= 0) if lo < 0 else found
            found = both(found, i < size) if hi >= size else found
        return None if found is not None and found.op == "const" and found.arg else found

    # stores -----------------------------------------------------------------------------------------------------------
    def __setitem__(self, indices: Any, value: Any) -> None:
        self.store(value, *(indices if isinstance(indices, tuple) else (indices,)))

    def store(self, value: Any, *indices: Any, mask: Any = None) -> None:
        """Write a tile at `indices`, converted to the array's type; only where `mask` holds."""
        self._store(value, indices, mask, None)

    def combine(self, how: str, value: Any, *indices: Any, mask: Any = None) -> None:
        """Store, but combined with what other cells (and other points of this tile) write there: 'add', 'mul', 'max' or 'min'.
        The output begins as the combine's neutral element."""
        known = [c for c in COMBINES if c not in BITWISE]
        if how not in known:
            raise KernelError(f"{self.buffer.name}: unknown combine {how!r}; use one of {', '.join(known)}")
        self._store(value, indices, mask, how)

    def add(self, value: Any, *indices: Any, mask: Any = None) -> None:
        """`combine` by adding."""
        self.combine("add", value, *indices, mask=mask)

    def _store(self, value: Any, indices: tuple[Any, ...], mask: Any, combine: str | None) -> None:
        what = f"the store to {self.buffer.name}"
        if self.buffer.role == "in":
            raise KernelError(f"{self.buffer.name} is an input: other cells may still read it. Store to an output, t.output(...)")
        dims, at = self._at(indices)
        shape = [d.size for d in dims]
        held = Tile(dims, const(0))
        tiles = [held, as_tile(value), *([] if mask is None else [as_tile(mask)])]
        if any(t.ndim > len(dims) for t in tiles):
            raise KernelError(f"{what}: {tiles[1]!r} does not fit into its part {shape}")
        common, nodes = aligned([*(Tile(dims, i) for i in at), *tiles])
        if [d.size for d in common] != shape:
            raise KernelError(f"{what}: {tiles[1]!r} does not fit into its part {shape}")
        at, node = tuple(nodes[: len(at)]), nodes[len(at) + 1]
        allowed = None if mask is None else _condition(f"the mask of {self.buffer.name}", nodes[-1])
        for d in common:
            allowed = both(allowed, d.inside)
        if allowed is not None and allowed.op == "const" and allowed.arg:
            allowed = None
        lanes = tuple(d.lane for d in common if d.lane is not None)
        for n in (node, *at, *([] if allowed is None else [allowed])):
            self._trace.check_scope(n, what)
        self._trace.block.append(TileStore(self.buffer, at, cast(node, self.buffer.dtype), lanes, allowed, combine))

    # indices ----------------------------------------------------------------------------------------------------------
    def _at(self, indices: tuple[Any, ...]) -> tuple[tuple[TileDim, ...], tuple[Node, ...]]:
        name, shape = self.buffer.name, self.shape
        given = list(indices)
        if any(i is Ellipsis for i in given):
            at = next(k for k, i in enumerate(given) if i is Ellipsis)
            given[at : at + 1] = [slice(None)] * (len(shape) - len(given) + 1)
        if len(given) != len(shape):
            raise KernelError(f"{name} has {len(shape)} dimensions and was indexed with {len(given)}")
        tiles = [self._index(i, size, d) for d, (i, size) in enumerate(zip(given, shape, strict=True))]
        if any(t.ndim > 1 for t in tiles):
            dims, nodes = aligned(tiles)
            return dims, tuple(nodes)
        kept: list[TileDim] = []
        out: list[Node] = []
        for t in tiles:
            if t.ndim and any(d.lane is not None and d.lane is t.dims[0].lane for d in kept):  # x[rows, rows] is a square
                t = relaned(t)
            kept += t.dims
            out.append(t.node)
        return tuple(kept), tuple(out)

    def _index(self, i: Any, size: int, d: int) -> Tile:
        if isinstance(i, slice):
            return self._slice(i, size, d)
        if isinstance(i, Ref):
            raise KernelError(
                f"{self.buffer.name} is indexed with the whole of {i.buffer.name}: load the places first, {i.buffer.name}[...]"
            )
        if isinstance(i, int) and not isinstance(i, bool) and i < 0:
            i += size
        return as_place(i, f"index {d} of {self.buffer.name}")

    def _slice(self, s: slice, size: int, d: int) -> Tile:
        if s.step not in (None, 1):
            raise KernelError(f"{self.buffer.name}: a slice with step {s.step!r}; index with start + {s.step!r} * t.arange(size)")
        known = _steps(s.start, s.stop)
        start = as_place(0 if s.start is None else s.start, f"the start of slice {d} of {self.buffer.name}")
        if known is not None and start.ndim == 0:
            return places(start, known)
        stop = as_place(size if s.stop is None else s.stop, f"the end of slice {d} of {self.buffer.name}")
        if start.ndim or stop.ndim:
            raise KernelError(f"{self.buffer.name}: slice {d} goes from {start!r} to {stop!r}; index with tiles of places themselves")
        length = ix.add(as_node(stop.node), start.node, -1)
        if length.op != "const":
            raise KernelError(
                f"{self.buffer.name}: the size of slice {d} is not known while the kernel is written: take as many elements as there may be, "
                "and mask those that are not wanted"
            )
        return places(start, int(length.arg))


def _with_mask(
    what: str, dims: tuple[TileDim, ...], at: tuple[Node, ...], mask: Any
) -> tuple[tuple[TileDim, ...], tuple[Node, ...], Node | None]:
    common, nodes = aligned([*(Tile(dims, i) for i in at), as_tile(mask)])
    if [d.size for d in common] != [d.size for d in dims]:
        raise KernelError(f"{what}: its shape {list(as_tile(mask).shape)} does not fit the part {[d.size for d in dims]}")
    return common, tuple(nodes[:-1]), _condition(what, nodes[-1])


def _condition(what: str, n: Node) -> Node | None:
    if n.dtype is not bool_:
        raise KernelError(f"{what} is {n.dtype}, not a condition; write x < n, x.ne(0) or the like")
    return None if n.op == "const" and n.arg else n


def _steps(start: Any, stop: Any) -> int | None:
    """n of a slice from x to x + n, where x was read from memory."""
    if not isinstance(start, Tile) or not isinstance(stop, Tile) or stop.node.op != "add" or start.node not in stop.node.src:
        return None
    other = stop.node.src[1] if stop.node.src[0] is start.node else stop.node.src[0]
    return int(other.arg) if other.op == "const" else None
