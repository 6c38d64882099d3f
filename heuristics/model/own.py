"""What a scatter into owned blocks costs in the analytic model: every item looks at every index, and one of the items
does the work of a point."""

from __future__ import annotations

from math import prod

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import axes_of, walk
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Caches


def owned_work(s: Scheduled, nest: Nest, compute: float, dram: float, costs: Caches) -> tuple[float, float]:
    """(cycles of arithmetic, cycles of traffic) over all items, from the `compute` that every item would have if it
    did all points. `dram`: bytes a cycle from memory."""
    assert nest.store is not None and nest.store.own is not None and nest.mask is not None
    axis, d, rows = nest.store.own
    shape = [ix.upper(size) for size in nest.store.buffer.shape]
    blocks = axis.arg.extent
    outside = prod(p.trips for p in s.loops(nest) if p.axis in axes_of(nest.mask))
    read = 0.0
    for n in walk(*nest.roots):
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            whole = prod(ix.upper(size) for size in buffer.shape) * buffer.dtype.size
            everyone = axes_of(*indices) <= axes_of(nest.mask)  # what decides; the rest is read by the item that adds it
            read += whole * (blocks if everyone else 1) / (costs.l3 if whole < s.target.l2 else dram)
    size = nest.store.buffer.dtype.size
    moved = float(costs.written) * size * prod(ix.upper(a.arg.extent) for a in nest.axes if a is not axis)
    near = costs.written * size * rows * prod(shape) // shape[d] <= s.target.l2 and nest.store.buffer.name not in s.nt
    return compute / blocks + costs.owned * outside, read + moved / (costs.l3 if near else dram)
