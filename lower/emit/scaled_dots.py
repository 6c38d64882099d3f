"""Sums of products of bytes that have a scale for each group: weights of few bits by activations of eight.

A group's products are added in fours by one instruction, in whole numbers, and its scale is applied to the sums. So a group of 32 takes the
dot product, a conversion and one multiply-add, where products in floats take these for every vector of each operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd

from ...ir.buffer import load_parts
from ...ir.dtypes import float32, index, int32, uint8
from ...ir.node import Node, walk
from ...opts.analysis.dot_instructions import GROUP, ScaledDot, scheduled_dot
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Assignment
from .accumulators import Accumulators
from .dot import flipped


def found(low: Lowering, n: Nest) -> ScaledDot | None:
    """How a reduction is such a sum; None where it is not. (The twin has numbers that fit no byte.)"""
    if not low.b.expand or low.sched.group > 1 or n.fills or any(low.masked(a) for a in n.reduce_axes):
        return None
    return scheduled_dot(low.sched, n, low.sched.lanes(n).lane)


class ScaledDots(Accumulators):
    """Accumulators of a lane for each four products of a group. `small`: how many neighbours of `a` are computed in one way."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        plan = found(low, n)
        assert plan is not None and ev.lane is not None
        super().__init__(low, n, NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, GROUP)), combine)
        self.plan, self.axis = plan, ev.lane
        self.small = _alike(plan.a, ev.lane.axis)
        self.parts = NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, self.small))
        self._memo: dict[tuple[int, ...], Val] = {}

    def identity(self) -> Val:
        """The starting value of an accumulator."""
        return self.low.b.const(0.0, float32, self.plan.row.n)

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        super().begin(carried)
        self.parts.reset()
        self._memo.clear()

    def step(self, acc: Val, asg: Assignment) -> Val:
        """`acc` plus the products of a group."""
        b, plan = self.low.b, self.plan
        right = self.ev.value(plan.b, asg)
        start = b.const(0, int32, plan.row.n)
        if plan.less:  # a less than its byte: what that adds is the same for all rows of `a`
            start = b.op("sub", start, b.dot(plan.row.name, start, b.splat(b.const(plan.less, uint8), GROUP), right))
        v = b.op("cast", b.dot(plan.row.name, start, self._left(asg), right), dtype=float32)
        scales = [b.extract(self.ev.value(x, asg), 0) for x in plan.scales]
        if not scales:
            return b.op("add", acc, v)
        return b.op("fma", v, reduce(lambda x, y: b.op("mul", x, y), (b.splat(x, plan.row.n) for x in scales)), acc)

    def _left(self, asg: Assignment) -> Val:
        """The bytes of a group of `a`."""
        key = tuple(asg[name] for name in self.ev.depends(self.plan.a))
        out = self._memo.get(key)
        if out is None:
            b, count = self.low.b, GROUP // self.small
            each = [self._bytes(self.plan.a, {**asg, self.axis.name: asg[self.axis.name] * count + i}) for i in range(count)]
            while len(each) > 1:
                each = [b.shuffle(x, y, tuple(range(2 * x.lanes))) for x, y in zip(each[::2], each[1::2])]
            out = self._memo[key] = each[0]
        return out

    def _bytes(self, x: Node, asg: Assignment) -> Val:
        """Some of them: `a` computed in bytes, which hold all that it comes by."""
        b = self.low.b
        if x.op == "cast":
            v = b.splat(self.parts.value(x.src[0], asg), self.small)
            return v if v.dtype is uint8 else flipped(b, v, uint8)
        if x.op == "const":
            return b.const(x.arg, uint8, self.small)
        first = self._bytes(x.src[0], asg)
        if x.op == "shr":
            count = self.parts.value(x.src[1], asg)
            return b.op("shr", first, b.splat(b.op("cast", b.extract(count, 0), dtype=uint8), self.small))
        return b.op(x.op, first, self._bytes(x.src[1], asg))


def _alike(a: Node, axis: Node) -> int:
    """How many neighbours along an axis are computed in one way, with memory side by side: what divides all that their place is divided by."""
    indices = [i for x in walk(a) if x.op == "load" for i in load_parts(x)[1]]
    places = walk(*indices, *(s for x in walk(a) if x.dtype is not index and x.op != "load" for s in x.src if s.dtype is index))
    return gcd(GROUP, *(int(x.arg) for x in places if x.op in ("div", "mod") and axis in walk(*x.src)))
