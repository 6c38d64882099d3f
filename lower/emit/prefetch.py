"""Asks for lines of a buffer that will be used soon (CACHE with prefetch), a step of a reduction at a time."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.nests import Nest
from ...opts.options.cache import Prefetch, prefetches
from ...program.program import Mem
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment

LINE = 64
"""Bytes that one request fetches."""


def fetch(low: Lowering, n: Nest, ev: NestEval, assignments: list[Assignment]) -> None:
    """The lines of these assignments. Past the end of a row they are the next row's, or nobody's: a request never faults. Nothing where the
    reduction has no lanes along its axis: a request an element costs more than it gives."""
    for f in prefetches(low.sched).get(n.name, ()):
        at = _address(low, n, f)
        if at is None or ev.lane is None or ev.lane.axis is not n.reduce_axes[0]:
            continue
        mem, asked, size = low.param(f.buffer.name), set(), f.buffer.dtype.size
        for asg in assignments:
            base, offset, lane, rest = ev.split(at, asg)
            if lane != 1 or rest is not None:
                continue
            for byte in range(offset * size, (offset + ev.width) * size, LINE):
                if (base, byte // LINE) not in asked:
                    asked.add((base, byte // LINE))
                    low.b.prefetch(Mem(mem.space, mem.base, mem.dtype, byte // size), low.scalar(base))


def _address(low: Lowering, n: Nest, f: Prefetch) -> Node | None:
    """The element to ask for; of what is used later, a step of the loop around further on."""
    at = low.ctx.address(f.buffer.name, f.indices)
    if not f.later:
        return at
    around = [p for p in low.sched.loops(n) if p.axis not in n.reduce_axes]
    step = ix.parts(at)[0].get(around[-1].var) if around else None
    return None if step is None else ix.add(at, const(step))
