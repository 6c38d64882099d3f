"""Sums of products that have a scale for each group, which is applied to the sum of a group: weights of few bits by activations.

Of bytes, the products are added in fours by one instruction, in whole numbers. So a group of 32 takes the dot product, a conversion and one
multiply-add, where products in floats take these for every vector of each operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd

from ...ir.buffer import load_parts
from ...ir.dtypes import float32, index, int32, uint8
from ...ir.node import Node, axes_of, walk
from ...opts.analysis.dot_instructions import GROUP, same_in_groups, scheduled_dot, scheduled_sum
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..passes.distribution import ROWS
from ..storage import Assignment
from .accumulators import Accumulators, fetch
from .dot import flipped


def found(low: Lowering, n: Nest) -> type[Accumulators] | None:
    """What adds up a sum whose groups have scales; None where it is no such sum. (The twin has numbers that fit no byte.)"""
    if not low.b.expand or low.sched.group > 1 or n.fills or any(low.masked(a) for a in n.reduce_axes):
        return None
    lanes = low.sched.lanes(n)
    if scheduled_dot(low.sched, n, lanes.lane) is not None:
        return ScaledDots
    return ScaledSums if scheduled_sum(low.sched, n, lanes.lane, lanes.width) is not None else None


class _Scaled(Accumulators):
    """Accumulators of sums that have `scales` for each `size` neighbours along the lanes: what a subclass adds up of a group is multiplied
    once. `lanes`: of a vector of sums; `piece`: how many neighbours are computed in one way."""

    def __init__(
        self, low: Lowering, n: Nest, ev: NestEval, combine: str, *, size: int, scales: Sequence[Node], lanes: int, piece: int
    ) -> None:
        assert ev.lane is not None
        super().__init__(low, n, NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, size)), combine)
        self.axis, self.size, self.scales, self.lanes = ev.lane, size, scales, lanes
        self.together = self._together()
        self.pieces = NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, piece))

    def identity(self) -> Val:
        """The starting value of an accumulator."""
        return self.low.b.const(0.0, float32, self.lanes)

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        super().begin(carried)
        self.together.reset()
        self.pieces.reset()

    def fetch(self, assignments: Sequence[Assignment]) -> None:
        """Ask for the lines that will be read where these groups are now."""
        fetch(self.low, self.n, self.pieces, [piece for asg in assignments for piece in self.in_pieces(asg)])

    def in_pieces(self, asg: Assignment) -> list[Assignment]:
        """The pieces of a group."""
        count = self.size // self.pieces.width
        return [{**asg, self.axis.name: asg[self.axis.name] * count + i} for i in range(count)]

    def step(self, acc: Val, asg: Assignment) -> Val:
        """`acc` plus the products of a group."""
        b, v = self.low.b, self.group(asg)
        return b.op("fma", v, self.scale(asg), acc) if self.scales else b.op("add", acc, v)

    def group(self, asg: Assignment) -> Val:
        """The sum of a group before it is scaled, in vectors of `lanes`."""
        raise NotImplementedError

    def _together(self) -> NestEval:
        """What evaluates scales: of several groups at once, where these are copies in the code and arrays hold what varies with them."""
        low, n, ev, axis = self.low, self.n, self.ev, self.axis.axis
        reads = [x for s in self.scales for x in walk(s) if x.op in ("load", "ref") and axis in axes_of(*x.src)]
        apart = any(x.op == "ref" or low.staged(load_parts(x)[0].name, n) is not None for x in reads)
        copies = next((p for p in ev.regs if p.kind == "unroll" and p.axis is axis and p.stride == self.axis.trips == self.size), None)
        if apart or copies is None:
            return ev
        return NestEval(low, n, vectors=Vectors(ev.regs, copies, copies.trips & -copies.trips))

    def block(self, asg: Assignment) -> tuple[int, Assignment]:
        """Which of the groups whose scales are computed at once a group is, and where these are."""
        ev = self.together
        if ev is self.ev:
            return 0, asg
        assert ev.lane is not None
        return asg[ev.lane.name] % ev.width, {**asg, ev.lane.name: asg[ev.lane.name] // ev.width}

    def products(self, asg: Assignment) -> Val:
        """The scales of a block of groups."""
        b, ev = self.low.b, self.together
        each = [ev.value(x, asg) for x in self.scales]
        each = [b.extract(v, 0) for v in each] if ev is self.ev else each
        wide = max(v.lanes for v in each)
        return reduce(lambda x, y: b.op("mul", x, y), (b.splat(v, wide) for v in each))

    def scale(self, asg: Assignment) -> Val:
        """The scale of a group, in every lane."""
        b, (at, where) = self.low.b, self.block(asg)
        v = self.products(where)
        return b.shuffle(v, v, (at,) * self.lanes) if v.lanes == self.lanes > 1 else b.splat(b.extract(v, at), self.lanes)


class ScaledSums(_Scaled):
    """Products of floats, one of them a whole number of few bits: a group's are added up before they are scaled."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        plan = scheduled_sum(low.sched, n, ev.lane, ev.width)
        assert plan is not None
        super().__init__(low, n, ev, combine, size=plan.size, scales=plan.scales, lanes=ev.width, piece=ev.width)
        self.plan = plan

    def group(self, asg: Assignment) -> Val:
        """The sum of a group before it is scaled, in vectors."""
        b = self.low.b
        total: Val | None = None
        for here in self.in_pieces(asg):
            *rest, last = (b.splat(self.pieces.value(x, here), self.lanes) for x in self.plan.factors)
            first = reduce(lambda x, y: b.op("mul", x, y), rest)
            total = b.op("mul", first, last) if total is None else b.op("fma", first, last, total)
        assert total is not None
        return total


class ScaledDots(_Scaled):
    """Products of bytes: an accumulator has a lane for each four of a group. `joined`: what `less` takes off several groups is one product."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        plan = scheduled_dot(low.sched, n, ev.lane)
        assert plan is not None and ev.lane is not None
        piece = _alike(plan.a, ev.lane.axis)
        super().__init__(low, n, ev, combine, size=GROUP, scales=plan.scales, lanes=plan.row.n, piece=piece)
        self.plan = plan
        several = self.together is not self.ev and 1 < self.together.width <= plan.row.n
        self.joined = bool(several and plan.less and plan.scales and _has_rows(low, n, plan.b))
        self._memo: dict[tuple[int, ...], Val] = {}
        self._sums: dict[tuple[tuple[str, int], ...], Val] = {}

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        super().begin(carried)
        self._memo.clear()
        self._sums.clear()

    def step(self, acc: Val, asg: Assignment) -> Val:
        """`acc` plus the products of a group; where several have their scales at once, plus those of all after the last: so what an iteration
        waits for of the one before is one addition."""
        if not self.joined:
            return super().step(acc, asg)
        b, (at, where) = self.low.b, self.block(asg)
        key = tuple(sorted(where.items()))
        if at == 0:
            scales, less = self.products(where), self._less(where)
            spread = tuple(i * scales.lanes // less.lanes for i in range(less.lanes))
            self._sums[key] = b.op("mul", scales if scales.lanes == less.lanes else b.shuffle(scales, scales, spread), less)
        self._sums[key] = b.op("fma", self.group(asg), self.scale(asg), self._sums[key])
        return b.op("add", acc, self._sums[key]) if at == self.together.width - 1 else acc

    def _less(self, where: Assignment) -> Val:
        """What `less` takes off each of a block of groups, in as many lanes a group as a row has for it."""
        b, plan, lane = self.low.b, self.plan, self.together.lane
        assert lane is not None
        at = [{**where, lane.name: where[lane.name] * self.together.width + i} for i in range(self.together.width)]
        each = [self._taken(self.ev.value(plan.b, a)) for a in at]
        half = plan.row.n // 2
        while len(each) > 1:
            pairs = list(zip(each[::2], each[1::2]))
            n, count = each[0].lanes, plan.row.n // half // 2
            first = [i for g in range(count) for i in range(2 * half * g, 2 * half * g + half)]
            second = [i + half for i in first]
            each = [
                b.op("add", b.shuffle(x, y, (*first, *(n + i for i in first))), b.shuffle(x, y, (*second, *(n + i for i in second))))
                for x, y in pairs
            ]
            half //= 2
        return b.op("cast", each[0], dtype=float32)

    def _taken(self, right: Val) -> Val:
        """What `less` takes off a group, in a lane for each four."""
        b, plan = self.low.b, self.plan
        start = b.const(0, int32, plan.row.n)
        return b.op("sub", start, b.dot(plan.row.name, start, b.splat(b.const(plan.less, uint8), GROUP), right))

    def group(self, asg: Assignment) -> Val:
        """The sum of a group before it is scaled, converted."""
        b, plan = self.low.b, self.plan
        right = self.ev.value(plan.b, asg)
        start = b.const(0, int32, plan.row.n)
        if plan.less and not self.joined:  # a less than its byte: what that adds is the same for all rows of `a`
            start = self._taken(right)
        return b.op("cast", b.dot(plan.row.name, start, self._left(asg), right), dtype=float32)

    def _left(self, asg: Assignment) -> Val:
        """The bytes of a group of `a`."""
        key = tuple(asg[name] for name in self.ev.depends(self.plan.a))
        out = self._memo.get(key)
        if out is None:
            each = [self._bytes(self.plan.a, piece) for piece in self.in_pieces(asg)]
            while len(each) > 1:
                each = [self.low.b.shuffle(x, y, tuple(range(2 * x.lanes))) for x, y in zip(each[::2], each[1::2])]
            out = self._memo[key] = each[0]
        return out

    def _bytes(self, x: Node, asg: Assignment) -> Val:
        """Some of them: `a` computed in bytes, which hold all that it comes by."""
        b = self.low.b
        if x.op == "cast":
            v = b.splat(self.pieces.value(x.src[0], asg), self.pieces.width)
            return v if v.dtype is uint8 else flipped(b, v, uint8)
        if x.op == "const":
            return b.const(x.arg, uint8, self.pieces.width)
        first = self._bytes(x.src[0], asg)
        if x.op == "shr":
            count = self.pieces.value(x.src[1], asg)
            if same_in_groups(x.src[1], self.axis.axis, self.pieces.width):
                count = b.extract(count, 0)
            return b.op("shr", first, b.splat(b.op("cast", count, dtype=uint8), self.pieces.width))
        return b.op(x.op, first, self._bytes(x.src[1], asg))


def _has_rows(low: Lowering, n: Nest, shared: Node) -> bool:
    """Whether a loop around the sum, of known length and in one work item, goes over rows that share an operand: what depends on it alone
    is computed in a loop before them then."""
    rows = [p for p in low.sched.loops(n) if p.axis in n.axes and p.kind != "grid"][-1:]
    return any(isinstance(p.trips, int) and p.trips >= ROWS and p.axis not in axes_of(shared) and not low.masked(p.axis) for p in rows)


def _alike(a: Node, axis: Node) -> int:
    """How many neighbours along an axis are computed in one way, with memory side by side: what divides all that their place is divided by."""
    indices = [i for x in walk(a) if x.op == "load" for i in load_parts(x)[1]]
    places = walk(*indices, *(s for x in walk(a) if x.dtype is not index and x.op != "load" for s in x.src if s.dtype is index))
    return gcd(GROUP, *(int(x.arg) for x in places if x.op in ("div", "mod") and axis in walk(*x.src)))
