"""The transposes of index maps and sums: what reaches an element of the source, from all the places that read it.

A map is solved for the result's axes, dimension by dimension of the source. Each one determines an axis (slices, steps, flips,
padding, permutations), or says where elements are at all (a selected place, a diagonal). Axes that are left over were broadcast or are
a window's: they are summed. So the transpose of a movement is a movement and a sum, which fuse like any other, and a convolution's is a
contraction again. Maps without such a solution scatter.

Factors that do not vary leave a sum, sums of sums are one, and movement goes inside. What a backward pass sums are then products of
what is in memory, which the partition recognises as contractions, and a number that scales them is multiplied once for each element of
the result."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...ir import index as ix
from ...ir.dtypes import bool_
from ...ir.node import Node, axes_of, const
from ...ir.operators import logical, substitute
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap, Indices, Shape
from ..graph.nodes import Scattered, TensorNode, constant_of
from ..graph.primitives import const as constant
from ..graph.primitives import elementwise, reduce, reshape, scatter, view
from ..graph.symbolic_sizes import axis, size_of, symbolic
from ..partition.heads import is_contraction, varies

DEPTH = 16
"""Products of products that are looked into."""


def summed(x: TensorNode, over: Iterable[int], alone: bool = False) -> TensorNode:
    """Σ of `x` over dimensions, which leave the shape. A contraction that others read as well is summed where it is stored;
    `alone` says that nobody does: then both sums are one."""
    dims = tuple(sorted(over))
    if not dims:
        return x
    if x.op == "reduce" and x.arg[0] == "add" and (alone or not is_contraction(x)):
        kept = [d for d in range(len(x.src[0].shape)) if d not in x.arg[1]]
        return summed(x.src[0], (*x.arg[1], *(kept[d] for d in dims)), alone)
    inside: list[TensorNode] = []
    outside: list[tuple[str, TensorNode]] = []
    scale = 1.0
    changing = frozenset(d for d in dims if x.shape[d] != 1)
    for op, f in _factors(x, DEPTH):
        rest, c = without_scale(f)
        if op == "mul" and c != 1:
            f, scale = rest, scale * c
        if varies(f) & changing:
            inside.append(f if op == "mul" else 1.0 / f)
        else:
            outside.append((op, f))
    if not outside and scale == 1:
        return reduce("add", x, dims)
    total = None
    for f in inside:
        total = f if total is None else total * f
    out = None if total is None else reduce("add", total, dims)
    if out is None:
        count = prod(x.shape[d] for d in dims)
        if symbolic((count,)):  # no number to scale by: it is counted
            return reduce("add", x, dims)
        scale *= count
    for op, f in outside:
        f = without(f, dims)
        out = (f if op == "mul" else 1.0 / f) if out is None else elementwise(op, out, f)
    assert out is not None
    return scaled(out, scale)


def scaled(x: TensorNode, scale: float) -> TensorNode:
    """`x` times a number, which is no user's: it has the digits of the type that this is computed in."""
    return x if scale == 1 else -x if scale == -1 else x * scale


def without_scale(x: TensorNode) -> tuple[TensorNode, float]:
    """(y, c) with x = c · y, c the product of the numbers that `x` is multiplied by, through movement."""
    if x.op == "elementwise" and x.arg == "neg":
        y, c = without_scale(x.src[0])
        return y, -c
    if x.op == "elementwise" and x.arg == "mul" and x.dtype.is_float:
        for a, b in (x.src, x.src[::-1]):
            known = constant_of(b)
            if known is not None and known == known and abs(known) != float("inf"):
                y, c = without_scale(a)
                return y, c * known
    if x.op == "view":
        y, c = without_scale(x.src[0])
        return (x, 1.0) if c == 1 else (view(y, x.arg), c)
    return x, 1.0


def _factors(x: TensorNode, depth: int) -> list[tuple[str, TensorNode]]:
    """The factors of a product, and "div" with what it is divided by."""
    if depth and x.op == "elementwise" and x.dtype.is_float:
        if x.arg == "mul":
            return [*_factors(x.src[0], depth - 1), *_factors(x.src[1], depth - 1)]
        if x.arg == "div":
            return [*_factors(x.src[0], depth - 1), ("div", x.src[1])]
        if x.arg == "neg":
            y, c = without_scale(x)
            if c == -1:
                found = _factors(y, depth - 1)
                return [("mul", -found[0][1]), *found[1:]] if found[0][0] == "mul" else [("mul", x)]
    return [("mul", x)]


def without(x: TensorNode, dims: tuple[int, ...]) -> TensorNode:
    """`x`, which does not vary along dimensions `dims`, without them."""
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    placeholders = iter(maps.placeholder_axes(shape))
    return view(
        x,
        IndexMap(
            shape, x.shape, maps.placeholder_axes(shape), tuple(const(0) if d in dims else next(placeholders) for d in range(len(x.shape)))
        ),
    )


def pushed(x: TensorNode, by: IndexMap) -> TensorNode:
    """`view(x, by)`, where the map goes inside of a sum of products: a window's sum of a contraction is one contraction."""
    if not (x.op == "reduce" and x.arg[0] == "add" and x.src[0].op == "elementwise" and x.src[0].arg == "mul"):
        return view(x, by)
    inner, dims = x.src[0], x.arg[1]
    shape = (*by.shape, *(inner.shape[d] for d in dims))
    placeholders = maps.placeholder_axes(shape)
    more, kept = iter(placeholders[len(by.shape) :]), iter(by.indices)
    indices = tuple(next(more) if d in dims else next(kept) for d in range(len(inner.shape)))
    moved = _moved(inner, IndexMap(shape, inner.shape, placeholders, indices, by.mask))
    return reduce("add", moved, range(len(by.shape), len(shape)))


def _moved(x: TensorNode, by: IndexMap) -> TensorNode:
    """A product seen through a map: its factors are. One of them carries the mask, and any that needs it."""
    factors = [f for _, f in _factors(x, DEPTH)] if all(op == "mul" for op, _ in _factors(x, DEPTH)) else [x]
    plain = IndexMap(by.shape, by.source, by.axes, by.indices)
    needs = [by.mask is not None and not _inside(f, by) for f in factors]
    if by.mask is not None and not any(needs):
        needs[0] = True
    out = None
    for f, masked in zip(factors, needs):
        seen = view(f, by if masked else plain)
        out = seen if out is None else out * seen
    assert out is not None
    return out


def _inside(f: TensorNode, by: IndexMap) -> bool:
    """Whether a map's indices stay inside of what it reads of `f` even where its mask does not hold."""
    along = f.arg.varies if f.op == "view" else range(len(f.shape))
    for d in along:
        low, high = ix.bounds(by.indices[d])
        if low < 0 or high >= f.shape[d]:
            return False
    return True


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
        places = maps.placeholder_axes(source)
        pairs = sorted(zip(indices, places), key=lambda p: len(axes_of(p[0])))
        self.solved = all(self._solve(index, place) for index, place in pairs)
        if not self.solved:
            return
        left = [a for a in axes if a.op == "axis" and a not in self.found]
        shape = (*source, *(size_of(a.arg.extent) for a in left))
        placeholders = maps.placeholder_axes(shape)
        more = dict(zip(left, placeholders[len(source) :]))
        to = tuple(substitute(self.found.get(a, a), more) for a in axes)
        if mask is not None:
            self.conditions.append(substitute(mask, self.found))
        both: Node = const(True)
        for c in self.conditions:
            both = logical("and", both, substitute(c, more))
        extents = tuple(1 if a.op != "axis" else size_of(a.arg.extent) for a in axes)
        self.map = IndexMap(shape, extents, placeholders, to, None if both.op == "const" and both.arg else both)

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
    names = {by.axes[d]: a for d, a in zip(kept, maps.placeholder_axes(dy.shape)) if a.op == "axis"}
    indices = tuple(substitute(i, names) for i in by.indices)
    if by.mask is not None:
        inside = condition(dy.shape, maps.placeholder_axes(dy.shape), substitute(by.mask, names))
        dy = elementwise("where", inside, dy, constant(0, dy.dtype, dy.shape))
    return scatter(dy, Scattered("add", maps.placeholder_axes(dy.shape), indices), (), by.source)


def condition(shape: Shape, axes: Indices, mask: Node) -> TensorNode:
    """A condition on the indices `axes` of `shape`, as a node of bools."""
    return view(constant(True, bool_), IndexMap(shape, (), axes, (), mask))


def spread(dy: TensorNode, shape: Shape, over: Iterable[int]) -> TensorNode:
    """The transpose of a sum: `dy` repeated along dimensions `over` of `shape`."""
    placeholders = maps.placeholder_axes(shape)
    gone = set(over)
    return view(dy, IndexMap(shape, dy.shape, placeholders, tuple(a for d, a in enumerate(placeholders) if d not in gone)))
