"""The output itself as the place of a reduction's or scan's value."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.nests import Nest
from ..lowering import Lowering
from ..storage import Array


def alias(low: Lowering, n: Nest, turned: Node | None = None) -> Array | None:
    """The output that takes a reduction's or scan's value, where it stores exactly this value and its type needs no rounding. `turned`: an
    axis along which it may be stored from the end."""
    readers = low.ctx.reads.get(n.name, [])
    if len(readers) != 1 or n.name in low.ctx.merged:
        return None
    store = readers[0][0]
    if low.sched.group > 1 or store.store is None or store.name in low.sched.held or store.store.combine or store.mask is not None:
        return None
    if store.store.buffer.alias:  # partial results must not be where an input may still be needed
        return None
    if store.expr.op != "ref" or store.expr.dtype is not store.store.buffer.dtype or store.expr.src != n.axes:
        return None
    places, bases = list(store.indices), dict.fromkeys(n.axes, const(0))
    for d, i in enumerate(places):
        terms, c = ix.parts(i)
        if turned is not None and terms == {turned: -1}:
            places[d], bases[turned] = turned, const(c)
    if set(places) != set(n.axes) or len(places) != len(n.axes):
        return None
    low.storage.aliased.add(store.name)
    found = {p: (s, p is i) for p, i, s in zip(places, store.indices, low.ctx.strides[store.store.buffer.name], strict=True)}
    strides = tuple(s if ahead else _back(s) for s, ahead in (found[a] for a in n.axes))
    return Array(low.param(store.store.buffer.name), n.axes, tuple(bases[a] for a in n.axes), strides, param=True)


def _back(stride: int | Node) -> int | Node:
    """The stride of steps towards the beginning."""
    return -stride if isinstance(stride, int) else ix.mul(stride, const(-1))
