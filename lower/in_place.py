"""Keeps a value that takes long to compute in the rows of an output until the output itself is written there: one
array fewer to hold in the caches, and the memory that the output will need is fetched while the value is computed
instead of while it is stored. (Values that take no time hide no fetch, and an array that stays in the nearest cache
serves them better.)"""

from __future__ import annotations

from ..ir.body import Value
from ..ir.buffer import loads
from ..ir.node import Node, axes_of, const, walk
from ..opts.nests import Nest
from .elementary import EXPENSIVE
from .lowering import Lowering
from .storage import Array


def in_output(low: Lowering, value: Value, axes: tuple[Node, ...]) -> Array | None:
    """The output whose elements are the last to read the value, each the one at its own place; None if there is none,
    or where an element could be written before it is read for the last time: by another thread, another round of an
    open loop, or a loop shared with a reader."""
    if not any(e.op in EXPENSIVE and axes_of(e) >= set(value.axes) for e in walk(value.body)):
        return None
    order = [i for i in low.sched.items if isinstance(i, Nest)]
    readers = [(n, src) for n, src in low.ctx.reads.get(value.name, ()) if value.name not in n.fills]
    makers = [n for n in order if value.name in n.made]
    if low.sched.group > 1 or not readers or len(makers) != 1 or any(n not in order for n, _ in readers) or value.name in low.ctx.merged:
        return None
    last = max((n for n, _ in readers), key=order.index)
    if not _stores_all(low, last, value, axes) or order.index(makers[0]) >= order.index(last):
        return None
    # whoever is around the room, or shares a loop with the store, works on other elements in every round
    places = set(zip(axes, last.indices))
    if any((p.axis, p.axis) not in places for p in low.scope.opened.values()) or any(
        low.sched.plans[a].fold for a in (*axes, *last.indices)
    ):
        return None
    for n, src in (*readers, (makers[0], axes)):
        at = set(zip(src, last.indices))
        if (src != last.indices) if n is last else any((a, a) not in at for a in n.all_axes if a in last.all_axes):
            return None
    assert last.store is not None
    name = last.store.buffer.name
    low.storage.lent.add(name)
    return Array(low.param(name), axes, tuple(const(0) for _ in axes), low.ctx.strides[name], param=True)


def _stores_all(low: Lowering, n: Nest, value: Value, axes: tuple[Node, ...]) -> bool:
    """Whether a nest is the only one to write its output, of the value's type and shape, one element a point, through the caches."""
    if (
        n.kind != "store"
        or n.store is None
        or n.store.combine
        or n.mask is not None
        or n.name in low.sched.held
        or n.name in low.storage.aliased
    ):
        return False
    out = n.store.buffer
    if out.alias:  # the input that lies there is still needed
        return False
    if out.dtype is not value.dtype or out.name in low.sched.nt or out.name in low.storage.lent or out.name not in low.ctx.params:
        return False
    if any(m is not n and m.store is not None and m.store.buffer == out for m in low.sched.nests):
        return False
    if any(b == out for m in low.sched.nests for b, *_ in loads(*m.evaluated)):
        return False
    same = len(axes) == len(n.indices) and set(n.indices) == set(n.axes) and len(set(n.indices)) == len(n.indices)
    return same and all(a.arg.extent == d and i.arg.extent == d for a, i, d in zip(axes, n.indices, out.shape))
