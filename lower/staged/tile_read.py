"""Reads staged tiles in shared memory: in vectors where neighbours lie together, and where a swizzle has put them."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.node import Node, const
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..access.memory_access import MemoryAccess
from ..lowering import Lowering
from ..storage import Assignment

# swizzles -------------------------------------------------------------------------------------------------------------
# Where elements of a tile lie whose rows are swizzled: in row r, chunk c goes to c XOR ((r // every) % swizzle).
#
# That is the layout that libraries of GPU templates call a swizzle: it spreads over the banks what a warp reads of
# one column, or, with `every`, what it writes of rows that one thread's elements are turned into. Slots of a ring are
# swizzled each by itself.


def swizzled_place(b: Builder, s: StagePlan, at: Val) -> Val:
    """Where element `at` of a tile lies, counted from the beginning of its slot."""
    if not s.swizzle:
        return at
    return b.op("xor", at, b.op("mul", _key(b, s, b.op("idiv", at, attr=s.pitch)), b.const(s.vector)))


def _key(b: Builder, s: StagePlan, row: Val) -> Val:
    """What the chunks of a row are XORed with."""
    return b.op("imod", b.op("idiv", row, attr=s.every) if s.every > 1 else row, attr=s.swizzle)


def swizzled(low: Lowering, plan: StagePlan, base: Node, c: int) -> tuple[Val, int]:
    """(element index, constant to add) of an element base + c of a tile, its slot included. In a swizzled one the row is looked for among
    the terms, so that what it gives is the same for all elements of a row, and in all slots."""
    if not plan.swizzle:
        return low.scalar(base), c
    terms, fixed = ix.parts(ix.add(base, const(c)))
    begin = ix.mul(plan.slot, const(terms.pop(plan.slot, 0))) if plan.depth > 1 else const(0)
    pitch, period = plan.pitch, plan.pitch * plan.swizzle * plan.every
    whole, inside = divmod(fixed, pitch)
    rows = ix.linear({t: k // pitch for t, k in terms.items() if k % pitch == 0}, 0)
    along = ix.linear({t: k for t, k in terms.items() if k % pitch}, inside)
    lo, hi = ix.bounds(along)
    b = low.b
    if lo < 0 or hi >= pitch:
        return _begun(low, swizzled_place(b, plan, low.scalar(ix.linear(terms, fixed))), begin), 0
    far, near = divmod(whole * pitch, period)
    rows = ix.add(rows, const(near // pitch))
    turned = b.op("xor", low.scalar(along), b.op("mul", _key(b, plan, low.scalar(rows)), b.const(plan.vector)))
    return _begun(low, b.op("add", low.scalar(ix.mul(rows, const(pitch))), turned), begin), far * period


def _begun(low: Lowering, at: Val, begin: Node) -> Val:
    return at if begin.op == "const" else low.b.op("add", at, low.scalar(begin))


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
        return ev.low.load(mem, base, c, lanes) if copies > 1 else ev.read(mem, address, asg)
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
    spots = swizzled_place(ev.b, plan, ev.join(ev.low.scalar(ix.linear(terms, fixed)), lane, vec))
    if slot:
        spots = ev.b.op("add", spots, ev.low.scalar(ix.mul(plan.slot, const(slot))))
    return ev.b.gather(mem, spots)
