"""Sums as a gradient makes them: factors that do not vary leave the sum, sums of sums are one, and movement goes inside.

So what a backward pass sums are products of what is in memory, which the partition recognises as contractions, and a
number that scales them is multiplied once for an element of the result."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...ir import index as ix
from ...ir.node import const
from ..graph import maps
from ..graph.maps import IndexMap
from ..graph.node import TensorNode, constant_of
from ..graph.primitives import elementwise, reduce, view
from ..ops import elementwise as E
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
            inside.append(f if op == "mul" else E.binary("div", 1.0, f))
        else:
            outside.append((op, f))
    if not outside and scale == 1:
        return reduce("add", x, dims)
    total = None
    for f in inside:
        total = f if total is None else elementwise("mul", total, f)
    out = None if total is None else reduce("add", total, dims)
    if out is None:
        scale *= prod(x.shape[d] for d in dims)
    for op, f in outside:
        f = without(f, dims)
        out = (f if op == "mul" else E.binary("div", 1.0, f)) if out is None else elementwise(op, out, f)
    assert out is not None
    return scaled(out, scale)


def scaled(x: TensorNode, scale: float) -> TensorNode:
    """`x` times a number, which is no user's: it has the digits of the type that this is computed in."""
    return x if scale == 1 else elementwise("neg", x) if scale == -1 else elementwise("mul", x, E.like(x, scale))


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
                return [("mul", elementwise("neg", found[0][1])), *found[1:]] if found[0][0] == "mul" else [("mul", x)]
    return [("mul", x)]


def without(x: TensorNode, dims: tuple[int, ...]) -> TensorNode:
    """`x`, which does not vary along dimensions `dims`, without them."""
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    holes = iter(maps.holes(shape))
    return view(x, IndexMap(shape, x.shape, maps.holes(shape), tuple(const(0) if d in dims else next(holes) for d in range(len(x.shape)))))


def pushed(x: TensorNode, by: IndexMap) -> TensorNode:
    """`view(x, by)`, where the map goes inside of a sum of products: a window's sum of a contraction is one contraction."""
    if not (x.op == "reduce" and x.arg[0] == "add" and x.src[0].op == "elementwise" and x.src[0].arg == "mul"):
        return view(x, by)
    inner, dims = x.src[0], x.arg[1]
    shape = (*by.shape, *(inner.shape[d] for d in dims))
    holes = maps.holes(shape)
    more, kept = iter(holes[len(by.shape) :]), iter(by.indices)
    indices = tuple(next(more) if d in dims else next(kept) for d in range(len(inner.shape)))
    moved = _moved(inner, IndexMap(shape, inner.shape, holes, indices, by.mask))
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
        out = seen if out is None else elementwise("mul", out, seen)
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
