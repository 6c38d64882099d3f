"""Indices followed back from a kernel's axes to what it reads. None: places that are not known, as of padded reads."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.node import Node, const
from ...ir.operators import substitute
from ..graph.maps import Indices, Shape
from ..graph.node import Gathered, Loaded, TensorNode
from ..graph.symbols import axis, extent, most

ZERO = const(0)


def through(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a view's source; None where the view pads."""
    if at is None:
        return None
    to, mask = n.arg(at)
    return to if mask is None else None


def spread(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a reduction's source: the reduced dimensions get axes named by the node."""
    if at is None:
        return None
    rest = iter(at)
    return tuple((axis(f"k{id(n)}_{d}", e) if e != 1 else ZERO) if d in n.arg[1] else next(rest) for d, e in enumerate(n.src[0].shape))


def gathered(n: TensorNode, at: Indices | None) -> Indices | None:
    """The index of a gather's source: loaded places are no axes. A row's result is read at the row all the same."""
    if at is None:
        return None
    by: Gathered = n.arg
    table = {a: i for a, i in zip(by.axes, at) if a.op == "axis"}
    loaded = (ix.add(axis(f"g{id(n)}_{d}", max(2, most(e))), const(1)) for d, e in enumerate(n.src[0].shape))
    return tuple(place if isinstance(i, Loaded) else substitute(i, table) for i, place in zip(by.indices, loaded))


def units(at: Indices | None) -> Indices | None:
    """An index without unit dimensions."""
    return None if at is None else tuple(i for i in at if i is not ZERO)


def plain(at: Indices | None) -> bool:
    """Whether an index is axes and zeros only."""
    return at is not None and all(i.op == "axis" or i is ZERO for i in at)


def whole(at: Indices | None, shape: Shape) -> bool:
    """Whether an index runs over every element of `shape`: axes as long as its dimensions, and zeros."""
    return plain(at) and all(i.arg.extent == extent(n) if i.op == "axis" else n == 1 for i, n in zip(at or (), shape, strict=True))


def axes_in(at: Indices | None) -> frozenset[Node]:
    """The axes that are indices themselves."""
    return frozenset(i for i in at or () if i.op == "axis")
