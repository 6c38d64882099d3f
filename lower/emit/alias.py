"""The output itself as the place of a reduction's or scan's value."""

from __future__ import annotations

from ...ir.node import const
from ...opts.nests import Nest
from ..lowering import Lowering
from ..storage import Array


def alias(low: Lowering, n: Nest) -> Array | None:
    """The output that takes a reduction's or scan's value, where it stores exactly this value and its type needs no rounding."""
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
    if set(store.indices) != set(n.axes) or len(store.indices) != len(n.axes):
        return None
    low.storage.aliased.add(store.name)
    strides = dict(zip(store.indices, low.ctx.strides[store.store.buffer.name]))
    return Array(low.param(store.store.buffer.name), n.axes, tuple(const(0) for _ in n.axes), tuple(strides[a] for a in n.axes), param=True)
