"""The transposes of index maps: what reaches an element of the source, from all the places that read it.

A map is solved for the result's axes, dimension by dimension of the source: every one determines an axis (slices,
steps, flips, padding, permutations), or says where elements are at all (a selected place, a diagonal). Axes that are
left over were broadcast or are a window's: they are summed. So the transpose of a movement is a movement and a sum, which
fuse like any other, and a convolution's is a contraction again. Only maps that no such solution is found for scatter."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.node import Node, axes_of, const
from ...ir.operators import logical, substitute
from ..graph import maps
from ..graph.maps import IndexMap, Indices, Shape
from ..graph.node import Scattered, TensorNode
from ..graph.primitives import const as constant
from ..graph.primitives import elementwise, reshape, scatter, view
from ..graph.symbols import axis, size_of
from .sums import pushed, summed

_ZERO = const(0)


def transposed(by: IndexMap, dy: TensorNode, alone: bool = True) -> TensorNode:
    """Σ of `dy` (of shape `by.shape`) over the places that read each element of the source; of shape `by.source`. `alone`:
    nothing else reads `dy`, so that a contraction behind it may be made in another order, or as part of the sum."""
    if prod(by.shape) == 0 or prod(by.source) == 0:
        return constant(0, dy.dtype, by.source)
    if by.reshape and by.mask is None:
        return reshape(dy, by.source)
    unread = [d for d, n in enumerate(by.shape) if n != 1 and d not in by.varies]
    dy = summed(dy, unread)
    kept = [d for d in range(len(by.shape)) if d not in unread]
    names = {a: axis(f"t{d}", by.shape[d]) for d, a in enumerate(by.axes) if a.op == "axis"}
    axes = tuple(substitute(by.axes[d], names) for d in kept)
    mask = None if by.mask is None else substitute(by.mask, names)
    found = _Solution(by.source, axes, tuple(substitute(i, names) for i in by.indices), mask)
    if not found.solved:
        return _scattered(by, kept, dy)
    extra = tuple(range(len(by.source), len(found.map.shape)))
    inside = alone and (extra or found.map.permutes)
    return summed(pushed(dy, found.map) if inside else view(dy, found.map), extra, alone=bool(inside))


class _Solution:
    """The axes of a result by those of its source. `map`: from (source, axes left over) to the result's index."""

    map: IndexMap

    def __init__(self, source: Shape, axes: tuple[Node, ...], indices: tuple[Node, ...], mask: Node | None) -> None:
        self.found: dict[Node, Node] = {}
        self.conditions: list[Node] = []
        places = maps.holes(source)
        pairs = sorted(zip(indices, places), key=lambda p: len(axes_of(p[0])))
        self.solved = all(self._solve(index, place) for index, place in pairs)
        if not self.solved:
            return
        left = [a for a in axes if a.op == "axis" and a not in self.found]
        shape = (*source, *(size_of(a.arg.extent) for a in left))
        holes = maps.holes(shape)
        more = dict(zip(left, holes[len(source) :]))
        to = tuple(substitute(self.found.get(a, a), more) for a in axes)
        if mask is not None:
            self.conditions.append(substitute(mask, self.found))
        both: Node = const(True)
        for c in self.conditions:
            both = logical("and", both, substitute(c, more))
        extents = tuple(1 if a.op != "axis" else size_of(a.arg.extent) for a in axes)
        self.map = IndexMap(shape, extents, holes, to, None if both.op == "const" and both.arg else both)

    def _solve(self, index: Node, place: Node) -> bool:
        """Solve `index == place` for the widest axis that is still free; False where that is not possible."""
        index = substitute(index, self.found)
        terms, constant_part = ix.parts(index)
        free = {t: k for t, k in terms.items() if t.op == "axis" and str(t.arg.name).startswith("t")}
        rest = {t: k for t, k in terms.items() if t not in free}
        if any(str(a.arg.name).startswith("t") for t in rest for a in axes_of(t)):
            return False
        if not free:
            self._holds(ix.add(index, place, -1).eq(_ZERO))
            return True
        pivot = max(free, key=lambda t: (ix.upper(t.arg.extent), -abs(free[t])))
        k = free.pop(pivot)
        others = ix.linear({**free, **rest}, constant_part)
        value = ix.add(place, others, -1)
        if k < 0:
            value, k = ix.mul(value, const(-1)), -k
        if k != 1:
            self._holds(ix.mod(value, k).eq(_ZERO))
            value = ix.floordiv(value, k)
        self._holds(value >= 0)
        self._holds(value < pivot.arg.extent)
        self.found = {a: substitute(e, {pivot: value}) for a, e in self.found.items()}
        self.found[pivot] = value
        return True

    def _holds(self, condition: Node) -> None:
        self.conditions.append(condition)


def _scattered(by: IndexMap, kept: Iterable[int], dy: TensorNode) -> TensorNode:
    """The general case: every element is added where its map says."""
    names = {by.axes[d]: a for d, a in zip(kept, maps.holes(dy.shape)) if a.op == "axis"}
    indices = tuple(substitute(i, names) for i in by.indices)
    if by.mask is not None:
        inside = condition(dy.shape, maps.holes(dy.shape), substitute(by.mask, names))
        dy = elementwise("where", inside, dy, constant(0, dy.dtype, dy.shape))
    return scatter(dy, Scattered("add", maps.holes(dy.shape), indices), (), by.source)


def condition(shape: Shape, axes: Indices, mask: Node) -> TensorNode:
    """A condition on the indices `axes` of `shape`, as a node of bools."""
    return view(constant(True, bool_), IndexMap(shape, (), axes, (), mask))


def spread(dy: TensorNode, shape: Shape, over: Iterable[int]) -> TensorNode:
    """The transpose of a sum: `dy` repeated along dimensions `over` of `shape`."""
    holes = maps.holes(shape)
    gone = set(over)
    return view(dy, IndexMap(shape, dy.shape, holes, tuple(a for d, a in enumerate(holes) if d not in gone)))
