"""Gradients of gathers and scatters: each other's, and comparisons where a place is read once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...ir.node import Node
from ...ir.operators import logical
from ..graph import maps
from ..graph.maps import IndexMap
from ..graph.node import Gathered, Loaded, Scattered, TensorNode
from ..graph.primitives import cast, const, gather, iota, scatter, view
from ..graph.symbols import extent
from ..ops import elementwise as E
from .elementwise import mul
from .views import condition


def gathered(n: TensorNode, dy: TensorNode) -> TensorNode:
    """The gradient of a gather's source: `dy` added at the places that were read (a place outside of the source, which
    reads the nearest element, gives it nothing).

    Where every element of a row picks one place of it (a label's logit), that is `dy` where the place is the label's:
    a comparison, which becomes part of any kernel that reads it."""
    by: Gathered = n.arg
    source = n.src[0]
    once = _compared(n, by, dy)
    if once is not None:
        return once
    return scatter(dy, Scattered("add", by.axes, by.indices), n.src[1:], source.shape)


def _compared(n: TensorNode, by: Gathered, dy: TensorNode) -> TensorNode | None:
    """Where the result's dimensions are dimensions of the source, each once, and the rest of them is loaded."""
    source = n.src[0]
    places = {a: d for d, a in enumerate(by.axes) if a.op == "axis"}
    loaded = [d for d, i in enumerate(by.indices) if isinstance(i, Loaded)]
    plain = {d: places.get(i) for d, i in enumerate(by.indices) if not isinstance(i, Loaded) and source.shape[d] != 1}
    used = list(plain.values())
    rest = prod(e for d, e in enumerate(n.shape) if d not in used)
    if None in used or len(set(used)) < len(used) or rest != 1 or not loaded:
        return None
    if any(source.shape[d] != n.shape[p] for d, p in plain.items() if p is not None):
        return None
    holes = maps.holes(source.shape)
    back = {p: holes[d] for d, p in plain.items() if p is not None}
    rows = IndexMap(source.shape, n.shape, holes, tuple(back.get(d, maps.holes((1,))[0]) for d in range(len(n.shape))))
    here = None
    for d in loaded:
        index = n.src[1 + by.indices[d].place]  # type: ignore[union-attr]
        along = view(cast(iota(source.shape[d]), index.dtype), IndexMap(source.shape, (source.shape[d],), holes, (holes[d],)))
        same = E.binary("eq", along, view(index, rows))
        here = same if here is None else E.binary("and", here, same)
    assert here is not None
    return E.where(here, view(dy, rows), const(0, dy.dtype))


def scattered(n: TensorNode, dy: TensorNode, value: Callable[[TensorNode], TensorNode]) -> TensorNode:
    """The gradient of a scatter's values: `dy` where each went. Of a maximum or minimum, equal values share it."""
    to: Scattered = n.arg
    x, index = value(n.src[0]), n.src[1:]

    def read(a: TensorNode) -> TensorNode:
        return gather(a, Gathered(to.axes, to.indices), index, x.shape)

    inside = None
    for i, size in zip(to.indices, n.shape):
        ok = _inside(index[i.place] if isinstance(i, Loaded) else i, size, to, x.shape)
        if ok is not None:
            inside = ok if inside is None else E.binary("and", inside, ok)
    if to.combine == "add":
        out = read(dy)
    elif to.combine == "mul":
        zero = cast(E.binary("eq", x, 0.0), x.dtype)
        others = scatter(E.where(E.binary("eq", x, 0.0), 1.0, x), to, index, n.shape)
        zeros = sub_of(read(scatter(zero, Scattered("add", to.axes, to.indices), index, n.shape)), zero)
        product = E.binary("div", read(others), E.where(E.binary("eq", x, 0.0), 1.0, x))
        out = mul(read(dy), E.where(E.binary("eq", zeros, 0.0), product, 0.0))
    else:
        here = cast(E.binary("eq", x, read(value(n))), x.dtype)
        count = scatter(here, Scattered("add", to.axes, to.indices), index, n.shape)
        out = mul(E.binary("div", read(dy), E.binary("max", read(count), 1.0)), here)
    return out if inside is None else E.where(inside, out, const(0, dy.dtype))


def _inside(place: TensorNode | Node, size: int, to: Scattered, shape: maps.Shape) -> TensorNode | None:
    """Whether a place of a scatter is one of `size`; None where all certainly are."""
    if isinstance(place, TensorNode):
        return E.binary("and", E.binary("le", 0, place), E.binary("lt", place, size))
    mask = logical("and", place >= 0, place < extent(size))
    return None if mask.op == "const" and mask.arg else condition(shape, to.axes, mask)


def sub_of(a: TensorNode, b: TensorNode) -> TensorNode:
    """a − b."""
    return E.binary("sub", a, b)
