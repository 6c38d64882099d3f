"""Outputs as storage.

A value that takes long to compute is kept in the rows of an output until the output itself is written there. That is one array fewer
in the caches, and the memory of the output is fetched while the value is computed. (A value that is computed at once hides no fetch,
and an array in the nearest cache serves it better.) A reduction or a scan whose value is stored as it is computes it in the output."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.body import Value
from ...ir.buffer import loads
from ...ir.node import Node, axes_of, const, walk
from ...opts.nests import Nest
from ..arithmetic.elementary import EXPENSIVE
from ..lowering import Lowering
from ..storage import Array


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
    there = next(src for n, src in readers if n is last)  # its indices, as the value has its axes: not always as the output has them
    if not _stores_all(low, last, value, axes, there) or order.index(makers[0]) >= order.index(last):
        return None
    # whoever is around the room, or shares a loop with the store, works on other elements in every round
    places = set(zip(axes, there))
    if any((p.axis, p.axis) not in places for p in low.scope.opened.values()) or any(low.sched.plans[a].fold for a in (*axes, *there)):
        return None
    for n, src in (*readers, (makers[0], axes)):
        at = set(zip(src, there))
        if (src != there) if n is last else any((a, a) not in at for a in n.all_axes if a in last.all_axes):
            return None
    assert last.store is not None
    name = last.store.buffer.name
    low.storage.lent.add(name)
    strides = tuple(low.ctx.strides[name][last.indices.index(i)] for i in there)
    return Array(low.param(name), axes, tuple(const(0) for _ in axes), strides, param=True)


def _stores_all(low: Lowering, n: Nest, value: Value, axes: tuple[Node, ...], there: tuple[Node, ...]) -> bool:
    """Whether a nest is the only one to write its output, of the value's type and shape, one element a point, through the caches. `there`:
    where it reads the value."""
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
    same = len(axes) == len(there) == len(n.indices) == len(set(n.indices)) and set(there) == set(n.indices) == set(n.axes)
    return same and all(a.arg.extent == i.arg.extent == out.shape[n.indices.index(i)] for a, i in zip(axes, there))


def alias(low: Lowering, n: Nest, reversed_axis: Node | None = None) -> Array | None:
    """The output that takes a reduction's or scan's value, where it stores exactly this value and its type needs no rounding. `reversed_axis`: an
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
        if reversed_axis is not None and terms == {reversed_axis: -1}:
            places[d], bases[reversed_axis] = reversed_axis, const(c)
    if set(places) != set(n.axes) or len(places) != len(n.axes):
        return None
    low.storage.aliased.add(store.name)
    found = {p: (s, p is i) for p, i, s in zip(places, store.indices, low.ctx.strides[store.store.buffer.name], strict=True)}
    strides = tuple(s if ahead else (-s if isinstance(s, int) else ix.mul(s, const(-1))) for s, ahead in (found[a] for a in n.axes))
    return Array(low.param(store.store.buffer.name), n.axes, tuple(bases[a] for a in n.axes), strides, param=True)


def prepare_fills(low: Lowering, n: Nest) -> None:
    """Give every value that `n` fills an array, where it has none yet."""
    storage = low.storage
    for name, by in n.fills.items():
        if name not in storage.values:
            value = low.sched.kept[name]
            storage.values[name] = storage.reserved.get(name) or in_output(low, value, by) or low.array(value, by)
