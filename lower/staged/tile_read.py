"""Reads staged tiles in shared memory: in vectors where neighbours lie together, and where a swizzle has put them."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.program import Mem, Val
from ..access.memory_access import MemoryAccess
from ..storage import Assignment
from .swizzle import place, swizzled


def neighbours(ev: MemoryAccess, plan: StagePlan, mem: Mem, address: Node, asg: Assignment) -> Part | None:
    """The register part along which this read, the same in all lanes, is consecutive and aligned for a whole vector."""
    terms = ix.parts(address)[0]
    for p in ev.regs if ev.low.sched.target.kind == "gpu" else ():
        if p.kind == "upcast" and p is not ev.lane and terms.get(p.var) == 1 and p.trips & (p.trips - 1) == 0 and p.trips <= plan.vector:
            base, c, lane, vec = ev.split(address, {**asg, p.name: 0})
            if not lane and vec is None and ev.low.at(mem, base, c, p.trips).align >= p.trips * mem.dtype.size:
                return p
    return None


def read(ev: MemoryAccess, plan: StagePlan, mem: Mem, address: Node, asg: Assignment, copies: int = 1) -> Val:
    """Load from shared memory: along the lanes, or `copies` consecutive elements of a read that is the same in all of them. In
    a swizzled tile chunks have changed places along a row; a load inside one stays whole."""
    base, c, lane, vec = ev.split(address, asg)
    lanes = copies if copies > 1 else ev.width if lane else 1
    if not plan.swizzle:
        return ev.b.load(ev.low.at(mem, base, c, lanes), ev.low.scalar(base), lanes) if copies > 1 else ev.read(mem, address, asg)
    if (
        vec is None
        and lane in (0, 1)
        and lanes <= plan.vector
        and (lanes == 1 or ev.low.at(mem, base, c, lanes).align >= lanes * mem.dtype.size)
    ):
        at, offset = swizzled(ev.low, plan, base, c)
        return ev.b.load(Mem(mem.space, mem.base, mem.dtype, offset, lanes * mem.dtype.size), at, lanes)
    terms, fixed = ix.parts(ix.add(base, const(c)))
    slot = terms.pop(plan.slot, 0) if plan.depth > 1 else 0
    spots = place(ev.b, plan, ev.join(ev.low.scalar(ix.linear(terms, fixed)), lane, vec))
    if slot:
        spots = ev.b.op("add", spots, ev.low.scalar(ix.mul(plan.slot, const(slot))))
    return ev.b.gather(mem, spots)
