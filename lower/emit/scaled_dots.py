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
from ..storage import Assignment
from .accumulators import Accumulators, fetch
from .dot import flipped


def accumulators_of(low: Lowering, n: Nest) -> type[Accumulators] | None:
    """What adds up a sum whose groups have scales; None where it is no such sum. (The twin has numbers that fit no byte.)"""
    if not low.b.expand or low.sched.group > 1 or n.fills or any(low.masked(a) for a in n.reduce_axes):
        return None
    lanes = low.sched.lanes(n)
    if scheduled_dot(low.sched, n, lanes.lane) is not None:
        return ScaledDots
    return ScaledSums if scheduled_sum(low.sched, n, lanes.lane, lanes.width) is not None else None


class _Scaled(Accumulators):
    """Accumulators of sums that have `scales` for each `size` neighbours along the lanes: what a subclass adds up of a group is multiplied
    once. `lanes`: of a vector of sums; `piece`: how many neighbours are computed in one way; `woven`: groups that share a vector of sums."""

    def __init__(
        self, low: Lowering, n: Nest, ev: NestEval, combine: str, *, size: int, scales: Sequence[Node], lanes: int, piece: int
    ) -> None:
        assert ev.lane is not None
        super().__init__(low, n, NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, size)), combine)
        self.axis, self.size, self.scales, self.lanes = ev.lane, size, scales, lanes
        self.together, self.woven = self._together(), 1
        self._sums: dict[tuple[tuple[str, int], ...], Val] = {}
        self.pieces = NestEval(low, n, vectors=Vectors(ev.regs, ev.lane, piece))

    def identity(self) -> Val:
        """The starting value of an accumulator."""
        return self.low.b.const(0.0, float32, self.lanes)

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        super().begin(carried)
        self.together.reset()
        self.pieces.reset()
        self._sums.clear()

    def fetch(self, assignments: Sequence[Assignment]) -> None:
        """Ask for the lines that will be read where these groups are now."""
        fetch(self.low, self.n, self.pieces, [piece for asg in assignments for piece in self.in_pieces(asg)])

    def in_pieces(self, asg: Assignment) -> list[Assignment]:
        """The pieces of a group."""
        count = self.size // self.pieces.width
        return [{**asg, self.axis.name: asg[self.axis.name] * count + i} for i in range(count)]

    def step(self, acc: Val, asg: Assignment) -> Val:
        """`acc` plus the products of a group; where several have their scales at once, plus those of all after the last: so what an iteration
        waits for of the one before is one addition."""
        b, (at, where) = self.low.b, self.block(asg)
        if not self.scales:
            return b.op("add", acc, self.group([asg]))
        if self.together is self.ev:
            return b.op("fma", self.group([asg]), self.scale(where, 0), acc)
        if (at + 1) % self.woven:
            return acc
        key, first = tuple(sorted(where.items())), at + 1 - self.woven
        sums, scale = self.group([self._group_at(where, first + i) for i in range(self.woven)]), self.scale(where, first)
        before = self._sums.get(key)
        self._sums[key] = b.op("mul", sums, scale) if before is None else b.op("fma", sums, scale, before)
        return b.op("add", acc, self._sums[key]) if at == self.together.width - 1 else acc

    def _group_at(self, where: Assignment, at: int) -> Assignment:
        """A group of a block."""
        lane = self.together.lane
        assert lane is not None
        return {**where, lane.name: where[lane.name] * self.together.width + at}

    def group(self, groups: Sequence[Assignment]) -> Val:
        """The sum of a group before it is scaled, or those of woven ones, in vectors of `lanes`."""
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

    def scale(self, where: Assignment, first: int) -> Val:
        """The scales of woven groups of a block, from one on, each in their lanes."""
        b, v, each = self.low.b, self.products(where), self.lanes // self.woven
        if self.woven == 1 and v.lanes != self.lanes:
            return b.splat(b.extract(v, first), self.lanes)
        return b.shuffle(v, v, tuple(first + i // each for i in range(self.lanes)))


class ScaledSums(_Scaled):
    """Products of floats, one of them a whole number of few bits: a group's are added up before they are scaled."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        plan = scheduled_sum(low.sched, n, ev.lane, ev.width)
        assert plan is not None
        super().__init__(low, n, ev, combine, size=plan.size, scales=plan.scales, lanes=ev.width, piece=ev.width)
        self.plan = plan

    def group(self, groups: Sequence[Assignment]) -> Val:
        """The sum of a group before it is scaled, in vectors."""
        b = self.low.b
        total: Val | None = None
        for here in self.in_pieces(*groups):
            *rest, last = (b.splat(self.pieces.value(x, here), self.lanes) for x in self.plan.factors)
            first = reduce(lambda x, y: b.op("mul", x, y), rest)
            total = b.op("mul", first, last) if total is None else b.op("fma", first, last, total)
        assert total is not None
        return total


class ScaledDots(_Scaled):
    """Products of bytes: an accumulator has a lane for each four of a group. Where a group is several pieces that are computed in different ways
    (the low halves of bytes, then the high ones), an instruction takes a piece of each of as many neighbouring groups, whose bytes mostly lie
    side by side: `woven` groups share their accumulator's lanes, which hold as many fours of each."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        plan = scheduled_dot(low.sched, n, ev.lane)
        assert plan is not None and ev.lane is not None
        piece = _alike(plan.a, ev.lane.axis)
        super().__init__(low, n, ev, combine, size=GROUP, scales=plan.scales, lanes=plan.row.n, piece=piece)
        self.plan = plan
        fits = self.together is not self.ev and GROUP // piece <= self.together.width and plan.row.n * piece >= GROUP
        self.woven = GROUP // piece if fits and plan.scales else 1
        self._memo: dict[tuple[int, ...], list[Val]] = {}

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        super().begin(carried)
        self._memo.clear()

    def group(self, groups: Sequence[Assignment]) -> Val:
        """The sums of woven groups before they are scaled, converted."""
        b, plan, name = self.low.b, self.plan, self.plan.row.name
        right = self._pieces([self.ev.value(plan.b, g) for g in groups])
        start = zero = b.const(0, int32, plan.row.n)
        if plan.less:  # (a less than its byte: what that adds is the same for all rows of `a`)
            for r in right:
                start = b.dot(name, start, b.splat(b.const(plan.less, uint8), GROUP), r)
            start = b.op("sub", zero, start)
        for left, r in zip(self._left(groups), right, strict=True):
            start = b.dot(name, start, left, r)
        return b.op("cast", start, dtype=float32)

    def _pieces(self, groups: list[Val], span: int = GROUP) -> list[Val]:
        """The bytes of groups by pieces: the first of each, then the second of each, and so on. `span`: of neighbours that stay together."""
        half, found = len(groups) // 2, []
        for first in (0, span // 2) if half else ():
            picks = tuple(i for at in range(first, 2 * GROUP, span) for i in range(at, at + span // 2))
            order = sorted(range(GROUP), key=lambda k: (picks[k] % GROUP // span, picks[k] // GROUP, k))
            each = [self.low.b.shuffle(x, y, tuple(picks[k] for k in order)) for x, y in zip(groups[:half], groups[half:])]
            found += self._pieces(each, span // 2)
        return found or groups

    def _left(self, groups: Sequence[Assignment]) -> list[Val]:
        """The bytes of `a` in woven groups, a vector for each piece; of one group they are one vector."""
        key = tuple(g[name] for g in groups for name in self.ev.depends(self.plan.a))
        out = self._memo.get(key)
        if out is None:
            each = [self._bytes(self.plan.a, at) for at in zip(*(self.in_pieces(g) for g in groups))]
            out = self._memo[key] = each if len(groups) > 1 else [self._joined(each)]
        return out

    def _joined(self, parts: Sequence[Val]) -> Val:
        """Vectors one behind the other."""
        each = list(parts)
        while len(each) > 1:
            each = [self.low.b.shuffle(x, y, tuple(range(2 * x.lanes))) for x, y in zip(each[::2], each[1::2])]
        return each[0]

    def _bytes(self, x: Node, places: Sequence[Assignment]) -> Val:
        """`a` in a piece of each of some groups, computed in bytes, which hold all that it comes by."""
        b, lanes = self.low.b, self.pieces.width * len(places)
        if x.op == "cast":
            v = self._read(x.src[0], places)
            return v if v.dtype is uint8 else flipped(b, v, uint8)
        if x.op == "const":
            return b.const(x.arg, uint8, lanes)
        first = self._bytes(x.src[0], places)
        if x.op != "shr":
            return b.op(x.op, first, self._bytes(x.src[1], places))
        counts = [b.op("cast", self.pieces.value(x.src[1], at), dtype=uint8) for at in places]
        if same_in_groups(x.src[1], self.axis.axis, self.pieces.width):
            counts = [b.extract(v, 0) for v in counts]
            if len({*counts}) == 1:
                return b.op("shr", first, b.splat(counts[0], lanes))
        return b.op("shr", first, self._joined([b.splat(v, self.pieces.width) for v in counts]))

    def _read(self, load: Node, places: Sequence[Assignment]) -> Val:
        """Pieces of memory: by one load where they lie side by side."""
        ev, width = self.pieces, self.pieces.width
        if len(places) > 1 and self.low.staged(load_parts(load)[0].name, self.n) is None:
            mem, address, _, invariant = ev.locate(load)
            at = [ev.placed(address, place) for place in places]
            base, first, _, _ = at[0]
            if all((node, c, lane, left) == (base, first + i * width, 1, []) for i, (node, c, lane, left) in enumerate(at)):
                return self.low.load(mem, base, first, width * len(places), None, invariant)
        return self._joined([self.low.b.splat(ev.value(load, place), width) for place in places])


def _alike(a: Node, axis: Node) -> int:
    """How many neighbours along an axis are computed in one way, with memory side by side: what divides all that their place is divided by."""
    indices = [i for x in walk(a) if x.op == "load" for i in load_parts(x)[1]]
    places = walk(*indices, *(s for x in walk(a) if x.dtype is not index and x.op != "load" for s in x.src if s.dtype is index))
    return gcd(GROUP, *(int(x.arg) for x in places if x.op in ("div", "mod") and axis in walk(*x.src)))
