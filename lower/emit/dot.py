"""The steps of a sum that a matrix instruction does: operands read in groups of k elements, and what a shift added taken off again."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import DType
from ...ir.node import Node, const
from ...opts.analysis.dot_instructions import inner_loops
from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.plans import DotPlan, StagePlan
from ...opts.schedule import Scheduled
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..expr import NestEval
from ..lowering import Lowering
from ..part_index import parts_index
from ..storage import Assignment


class GroupEval(NestEval):
    """Reads operand `a`: its lanes are the elements that one instruction takes along the reduce axis."""

    def __init__(self, low: Lowering, nest: Nest) -> None:
        regs = low.sched.registers(nest)
        lane = next(p for p in regs if p.kind == "dot")
        super().__init__(low, nest, vectors=Vectors(regs, lane, lane.trips))


class Dot:
    """One instruction for each accumulator and assignment of the reduce axes' copies. `ev` has its lanes along the row's n."""

    def __init__(self, low: Lowering, nest: Nest, ev: NestEval, plan: DotPlan) -> None:
        self.low, self.ev, self.plan = low, ev, plan
        self.groups = GroupEval(low, nest)
        assert self.groups.lane is not None
        self._first = {self.groups.lane.name: 0}
        self._memo: dict[tuple[int, ...], Val] = {}
        self._stage = low.sched.stages[load_parts(plan.b)[0].name]
        self._names = [p.name for p, _ in self._stage.parts if p.register and p.kind != "dot"]

    def reset(self) -> None:
        """Forget emitted values."""
        self.groups.reset()
        self._memo.clear()

    def step(self, acc: Val, asg: Assignment) -> Val:
        """`acc` plus the products of one instruction."""
        a = self.groups.value(self.plan.a, {**asg, **self._first})
        if a.dtype is not self.plan.row.a:
            a = flipped(self.low.b, a, self.plan.row.a)
        return self.low.b.dot(self.plan.row.name, acc, a, self._panel(asg))

    def _panel(self, asg: Assignment) -> Val:
        key = tuple(asg[n] for n in self._names)
        found = self._memo.get(key)
        if found is None:
            staged = self.low.staged(self._stage.buffer.name, self.ev.nest)
            assert staged is not None
            found = self._memo[key] = panel(self.ev, self.plan, *staged, asg)
        return found

    def corrected(self, v: Val, asg: Assignment) -> Val:
        """A finished sum without what the shift added to it."""
        if not self.plan.shift:
            return v
        _, address, _ = sums_of(self.low.sched, self._stage, self.ev.nest)
        return self.low.b.op("sub", v, self.ev.read(self.low.storage.panels[f"{self._stage.buffer.name}.sums"], address, asg))


def sums_of(sched: Scheduled, s: StagePlan, nest: Nest) -> tuple[list[Part], Node, int]:
    """How the sums of a panel's columns lie: the parts they vary with (all but the reduce loops inside the spatial ones), the element
    index over those, and the number of elements."""
    inner = {p.name for p in inner_loops(sched, nest)}
    parts = [p for p, _ in s.parts if p.axis not in nest.reduce_axes or not (p.register or p.name in inner)]
    address, size = const(0), 1
    for p in reversed(parts):
        address = ix.add(address, p.var, size)
        size *= p.trips
    return parts, address, size


def panel(ev: NestEval, plan: DotPlan, s: StagePlan, mem: Mem, asg: Assignment) -> Val:
    """The elements of `b` that one instruction takes: a group for every lane of `ev`, as they lie in the panel."""
    base, c, _, _ = ev.split(parts_index(s.parts), {**asg, s.parts[-1][0].name: 0})
    lanes = plan.row.n * plan.row.k
    return ev.low.load(mem, base, c, lanes)


def flipped(b: Builder, v: Val, to: DType) -> Val:
    """Signed v + 2^(bits-1) as the unsigned type `to`."""
    return b.op("bitcast", b.op("xor", v, b.const(-(1 << (8 * to.size - 1)), v.dtype)), dtype=to)


def kept(b: Builder, s: StagePlan, v: Val) -> Val:
    """`v` in the type the tile is kept in: signed bytes with half their range added are their bits with the highest one flipped."""
    return v if v.dtype is s.dtype else flipped(b, v, s.dtype)
