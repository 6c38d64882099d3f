"""Asks for the lines of an output that a later nest stores (FETCH), a step of the reduction before it at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..opts.nests import Nest
from .loops import address
from .program import Mem

if TYPE_CHECKING:
    from .expr import NestEval
    from .lowering import Lowering
    from .storage import Assignment

LINE = 64
"""Bytes that one request fetches."""


def fetch(low: Lowering, n: Nest, ev: NestEval, assignments: list[Assignment]) -> None:
    """The lines that the store will write at the points of these assignments. Past the end of a row they are the next row's, or
    nobody's: a request never faults. Nothing where the reduction has no lanes along its axis: a request an element costs more than it gives."""
    store = low.sched.fetches.get(n.name)
    (axis,) = n.reduce_axes if store is not None else (None,)
    if store is None or store.store is None or ev.lane is None or ev.lane.axis is not axis:
        return
    at = address(low, store.store.buffer.name, (*store.indices[:-1], axis))
    mem, asked = low.param(store.store.buffer.name), set()
    for asg in assignments:
        base, offset, lane, rest = ev.split(at, asg)
        if lane != 1 or rest is not None:
            continue
        size = mem.dtype.size
        for byte in range(offset * size, (offset + ev.width) * size, LINE):
            if (base, byte // LINE) not in asked:
                asked.add((base, byte // LINE))
                low.b.prefetch(Mem(mem.space, mem.base, mem.dtype, byte // size), low.scalar(base))
