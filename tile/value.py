"""Tiles: arrays of a known shape inside one cell of the grid, as expressions of one element.

A dimension of a tile has a *lane*, an axis that stands for the place in it; the tile's `node` is the element there, an expression of
`ir`. So a tile's operations are those of expressions, after the lanes of its operands are made the same (NumPy's broadcasting). A
dimension knows where its elements exist (`inside`): the last block of an axis may stick out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Union

from ..ir.checks.misuse import NoValue
from ..ir.dtypes import DType, DTypeLike, index
from ..ir.errors import KernelError
from ..ir.functions import power
from ..ir.node import Node, as_node, axis, const
from ..ir.operators import arith, cast, divide, integer, logical, substitute, unary, where

_LANES: Iterator[int] = count()


@dataclass(frozen=True, slots=True)
class TileDim:
    """One dimension of a tile: its number of elements, the axis that stands for the place in it (None: one element, which is
    stretched as NumPy does), and the condition under which an element exists (None: all do)."""

    size: int
    lane: Node | None
    inside: Node | None = None


def new_lane(size: int) -> Node:
    """An axis that no other dimension has."""
    return axis(f"\0l{next(_LANES)}", size)


class Tile(NoValue):
    """A tile of a cell: `dims`, and the element as an expression over the dimensions' lanes. `shape`, `dtype`, `ndim` are NumPy's. Tiles are
    combined by operators and functions of `tilewright.tile`; the builder's `t.sum`, `t.max`, `t.min`, `t.dot` reduce and multiply them."""

    __slots__ = ("_dims", "_node")
    _functions = "tilewright.tile"

    def __init__(self, dims: Sequence[TileDim], node: Node) -> None:
        self._dims, self._node = tuple(dims), node

    @property
    def dims(self) -> tuple[TileDim, ...]:
        """The dimensions."""
        return self._dims

    @property
    def node(self) -> Node:
        """The element, over the dimensions' lanes."""
        return self._node

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(d.size for d in self.dims)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.dtype

    def __repr__(self) -> str:
        return f"tile of {self.dtype}{list(self.shape)}"

    # shape ------------------------------------------------------------------------------------------------------------
    def __getitem__(self, what: Any) -> Tile:
        """`x[:, None]`: new dimensions of one element. (A part of a tile is loaded from a Ref, not cut out of a tile.)"""
        items = list(what) if isinstance(what, tuple) else [what]
        if any(i is not None and i != slice(None) and i is not Ellipsis for i in items):
            raise KernelError(f"{self!r}[{what!r}]: of a tile only new dimensions can be taken, x[:, None]; load the part that is wanted")
        if Ellipsis in items:
            at = items.index(Ellipsis)
            items[at : at + 1] = [slice(None)] * (self.ndim - sum(i == slice(None) for i in items))
        items += [slice(None)] * (self.ndim - sum(i is not None for i in items))
        left = list(self.dims)
        if sum(i is not None for i in items) != len(left):
            raise KernelError(f"{self!r} has {self.ndim} dimensions and was indexed with {what!r}")
        return Tile([TileDim(1, None) if i is None else left.pop(0) for i in items], self.node)

    def __getattr__(self, name: str) -> Any:
        said = {"dot": "t.dot(a, b)", "astype": "x.cast('float32')", "to": "x.cast('float32')"}
        if name in (*said, "sum", "max", "min"):
            raise KernelError(f"a tile has no method {name}: write {said.get(name, f't.{name}(x, axis=1)')}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __matmul__(self, other: Any) -> Tile:
        raise KernelError("a @ b of tiles: write t.dot(a, b)")

    def __len__(self) -> int:
        raise KernelError(f"{self!r}: use .shape")

    def permuted(self, *order: int) -> Tile:
        """The dimensions in another order."""
        if sorted(order) != list(range(self.ndim)):
            raise KernelError(f"{self!r}: {order} is no order of its {self.ndim} dimensions")
        return Tile([self.dims[d] for d in order], self.node)

    @property
    def T(self) -> Tile:
        """The dimensions in reverse order."""
        return self.permuted(*reversed(range(self.ndim)))

    def cast(self, to: DTypeLike) -> Tile:
        """Converted to another element type."""
        return apply(lambda x: cast(x, to), self)

    def eq(self, other: Any) -> Tile:
        """Elementwise equality (`==` compares objects)."""
        return _arith("eq", self, other)

    def ne(self, other: Any) -> Tile:
        """Elementwise inequality."""
        return _arith("ne", self, other)

    # operators --------------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Tile:
        return _arith("add", self, other)

    def __radd__(self, other: Any) -> Tile:
        return _arith("add", other, self)

    def __sub__(self, other: Any) -> Tile:
        return _arith("sub", self, other)

    def __rsub__(self, other: Any) -> Tile:
        return _arith("sub", other, self)

    def __mul__(self, other: Any) -> Tile:
        return _arith("mul", self, other)

    def __rmul__(self, other: Any) -> Tile:
        return _arith("mul", other, self)

    def __truediv__(self, other: Any) -> Tile:
        return _arith("div", self, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return _arith("div", other, self)

    def __floordiv__(self, other: Any) -> Tile:
        return apply(lambda a, b: divide("floordiv", a, b), self, other)

    def __rfloordiv__(self, other: Any) -> Tile:
        return apply(lambda a, b: divide("floordiv", a, b), other, self)

    def __mod__(self, other: Any) -> Tile:
        return apply(lambda a, b: divide("remainder", a, b), self, other)

    def __rmod__(self, other: Any) -> Tile:
        return apply(lambda a, b: divide("remainder", a, b), other, self)

    def __pow__(self, other: Any) -> Tile:
        return apply(power, self, other)

    def __rpow__(self, other: Any) -> Tile:
        return apply(power, other, self)

    def __neg__(self) -> Tile:
        return apply(lambda a: -a, self)

    def __abs__(self) -> Tile:
        return apply(lambda a: unary("abs", a), self)

    def __invert__(self) -> Tile:
        return apply(lambda a: unary("not", a), self)

    def __lt__(self, other: Any) -> Tile:
        return _arith("lt", self, other)

    def __le__(self, other: Any) -> Tile:
        return _arith("le", self, other)

    def __gt__(self, other: Any) -> Tile:
        return _arith("lt", other, self)

    def __ge__(self, other: Any) -> Tile:
        return _arith("le", other, self)

    def __and__(self, other: Any) -> Tile:
        return apply(lambda a, b: logical("and", a, b), self, other)

    def __rand__(self, other: Any) -> Tile:
        return apply(lambda a, b: logical("and", a, b), other, self)

    def __or__(self, other: Any) -> Tile:
        return apply(lambda a, b: logical("or", a, b), self, other)

    def __ror__(self, other: Any) -> Tile:
        return apply(lambda a, b: logical("or", a, b), other, self)

    def __xor__(self, other: Any) -> Tile:
        return apply(lambda a, b: integer("xor", a, b), self, other)

    def __lshift__(self, other: Any) -> Tile:
        return apply(lambda a, b: integer("shl", a, b), self, other)

    def __rshift__(self, other: Any) -> Tile:
        return apply(lambda a, b: integer("shr", a, b), self, other)


Operand = Union[Tile, Node, int, float, bool]


def aligned(tiles: Sequence[Tile]) -> tuple[tuple[TileDim, ...], list[Node]]:
    """The common dimensions of tiles by NumPy's broadcasting, and their elements over the lanes of these. KernelError where shapes
    do not fit."""
    rank = max((t.ndim for t in tiles), default=0)
    lanes: list[Node | None] = []
    sizes: list[int] = []
    for d in range(rank):
        here = [t.dims[d - rank + t.ndim] for t in tiles if d - rank + t.ndim >= 0]
        found = {x.size for x in here if x.size != 1} or {1}
        if len(found) > 1:
            shapes = " and ".join(str(list(t.shape)) for t in tiles)
            raise KernelError(
                f"tiles of shapes {shapes} do not fit together: dimension {d} has {' and '.join(map(str, sorted(found)))} elements"
            )
        size = found.pop()
        lane = next((x.lane for x in here if x.lane is not None and x.size == size), None)
        lanes.append(new_lane(size) if lane is not None and lane in lanes else lane)
        sizes.append(size)
    inside: list[Node | None] = [None] * rank
    nodes = []
    for t in tiles:
        table = renaming(t, lanes[rank - t.ndim :])
        nodes.append(substitute(t.node, table) if table else t.node)
        for d, x in enumerate(t.dims, rank - t.ndim):
            if x.inside is not None and x.size == sizes[d]:
                inside[d] = both(inside[d], substitute(x.inside, table))
    return tuple(TileDim(n, lane, i) for n, lane, i in zip(sizes, lanes, inside, strict=True)), nodes


def renaming(t: Tile, lanes: Sequence[Node | None]) -> dict[Node, Node]:
    """From a tile's lanes to others, where they differ; what is stretched stays at its one element."""
    table: dict[Node, Node] = {}
    for x, lane in zip(t.dims, lanes, strict=True):
        if x.lane is not None and lane is not x.lane:
            table[x.lane] = const(0) if lane is None or (x.size == 1 and lane.arg.extent != 1) else lane
    return table


def relaned(t: Tile) -> Tile:
    """The same tile over lanes of its own."""
    table = {d.lane: new_lane(d.size) for d in t.dims if d.lane is not None}

    def dim(d: TileDim) -> TileDim:
        lane = None if d.lane is None else table[d.lane]
        return TileDim(d.size, lane, None if d.inside is None else substitute(d.inside, table))

    dims = [dim(d) for d in t.dims]
    return Tile(dims, substitute(t.node, table))


def both(a: Node | None, b: Node | None) -> Node | None:
    """Two conditions, each of which may be missing."""
    return b if a is None else a if b is None or a is b else logical("and", a, b)


def as_tile(x: Any) -> Tile:
    """A tile of no dimensions for a number or an expression."""
    if isinstance(x, Tile):
        return x
    return Tile((), as_node(x))


def apply(function: Callable[..., Node], *operands: Any) -> Tile:
    """A function of expressions, element by element; numbers are handed on as they are (they take the other's type)."""
    tiles = [x for x in operands if isinstance(x, Tile)]
    dims, nodes = aligned(tiles)
    left = iter(nodes)
    given = [next(left) if isinstance(x, Tile) else x for x in operands]
    return Tile(dims, function(*_one_index_type(given)))


def _one_index_type(given: list[Any]) -> list[Any]:
    """Loaded integers beside a place are places."""
    if len(given) == 2 and any(isinstance(x, Node) and x.dtype is index for x in given):
        return [cast(x, index) if isinstance(x, Node) and x.dtype.is_int else x for x in given]
    return given


def _arith(op: str, a: Any, b: Any) -> Tile:
    return apply(lambda x, y: arith(op, x, y), a, b)


def choose(cond: Any, a: Any, b: Any) -> Tile:
    """`a` where the condition holds, else `b`."""
    return apply(where, cond, a, b)
