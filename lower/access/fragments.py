"""Operands of matrix instructions of tensor cores: any expression of the sum's nest, at the places where the instruction wants it.

The nest is looked at with other plans of its axes (`operand_plans`): where the threads of a unit hold other elements of m, n and k than
those of the accumulators. Everything else, what is staged or kept and which loops are open, is the same."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace

from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of
from ...ir.skippable import conjuncts
from ...opts.axis_plan import AxisPlan, Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.plans import TensorPlan
from ...opts.tensor_cores import Factors, operand_plans
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..staged import fragment_read
from ..storage import Assignment, Key


def own_parts(plans: Mapping[Node, AxisPlan], t: TensorPlan, operand: str) -> list[Part]:
    """The parts of 'a', 'b' or 'c' that a thread holds all of, in the order in which its elements count them."""
    return [p for p, kind in dealt_parts(plans, t, operand) if kind != "thread"]


def dealt_parts(plans: Mapping[Node, AxisPlan], t: TensorPlan, operand: str) -> list[tuple[Part, str]]:
    """The parts of 'a', 'b' or 'c' of the instruction as those of the axes of the sum, each with its kind ('copy', 'thread', 'lane')."""
    axes = {"m": t.m, "n": t.n, "k": t.k}
    inner = {a: dict(zip(p.unit, p.parts[len(p.parts) - len(p.unit) :], strict=True)) for a, p in plans.items() if p.unit}
    return [(inner[axes[x.axis]][x], x.kind) for x in t.row.parts(operand)]


class Fragments:
    """The fragments of operand 'a' or 'b': emitted once for each assignment of the register parts they vary with."""

    def __init__(self, low: Lowering, nest: Nest, t: TensorPlan, operand: str, found: Factors) -> None:
        self.low, self.t = low, t
        self.expr, self.dtype = (found.a, t.row.a) if operand == "a" else (found.b, t.row.b)
        self.conds = found.conds
        sched = replace(low.sched, plans={**low.sched.plans, **operand_plans(low.sched, t, operand)})
        self.view = copy(low)
        self.view.sched, self.view.ctx = sched, replace(low.ctx, sched=sched)
        self.parts = dealt_parts(sched.plans, t, operand)
        lane = next((p for p, kind in self.parts if kind == "lane"), None)
        axes = {*axes_of(self.expr, *self.conds), t.k}
        regs = [p for p in sched.registers(nest) if p.axis in axes]
        self.ev = NestEval(self.view, nest, vectors=Vectors(regs, lane, 1 if lane is None else lane.trips))
        self.copies = [p for p, kind in self.parts if kind == "copy"]
        mine = {p.name for p, _ in self.parts}
        self.names = [p.name for p in regs if p.name not in mine]
        self._memo: dict[Key, Val] = {}
        self.pairs = fragment_read.Pairs()

    def reset(self) -> None:
        """Forget what was emitted: the enclosing blocks have changed."""
        self.view.scope, self.view.scalars = self.low.scope, self.low.scalars
        self.ev.reset()
        self._memo.clear()
        self.pairs.clear()

    def get(self, asg: Assignment) -> Val:
        """The fragment of a tile: the row's elements of this thread."""
        key = tuple((n, asg[n]) for n in self.names)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._get(dict(key))
        return found

    def _get(self, asg: Assignment) -> Val:
        b = self.low.b
        first = {} if self.ev.lane is None else {self.ev.lane.name: 0}
        each = [{**asg, **at, **first} for at in self.ev.assignments(self.copies)]
        out = None
        if self.expr.op == "load" and self.expr.dtype is self.dtype:
            out = fragment_read.read(self.ev, self.expr, self.parts, asg, self.pairs)
        if out is None:
            out = joined(self.ev, [self._cast(b.splat(self.ev.value(self.expr, at), self.ev.width)) for at in each])
        bounds = [c for c in self.conds if not self._zero_unless(c)]
        if self.view.masked(self.t.k) and not self._zero_outside():
            bounds.append(self.ev.bound(self.t.k))
        for c in bounds:
            there = joined(self.ev, [b.splat(self.ev.value(c, at), self.ev.width) for at in each])
            if b.truth(there) is not True:
                out = b.op("select", there, out, b.const(0, self.dtype, out.lanes), dtype=self.dtype)
        return out

    def _cast(self, v: Val) -> Val:
        return v if v.dtype is self.dtype else self.low.b.op("cast", v, dtype=self.dtype)

    def _zero_unless(self, cond: Node) -> bool:
        """Whether the operand is a load that gives zero anyway where a condition does not hold."""
        mask = load_parts(self.expr)[2] if self.expr.op == "load" else None
        return mask is not None and any(c is cond for c in conjuncts(mask))

    def _zero_outside(self) -> bool:
        """Whether past the end of k there are zeros anyway, as there must be in both operands: 0 times infinity is no zero."""
        if self.expr.op != "load":
            return False
        buffer, indices, _ = load_parts(self.expr)
        if self.low.staged(buffer.name, self.ev.nest) is None:
            return self.ev.lane_masked is self.t.k
        # outside the input a tile holds zeros
        return any(i is self.t.k and size == self.t.k.arg.extent for i, size in zip(indices, buffer.shape, strict=True))


def joined(ev: NestEval, vals: list[Val]) -> Val:
    """The lanes of several values of one type as one value."""
    while len(vals) > 1:
        pairs = zip(vals[::2], vals[1::2])
        vals = [ev.b.shuffle(x, y, tuple(range(x.lanes + y.lanes))) for x, y in pairs] + vals[len(vals) // 2 * 2 :]
    return vals[0]
