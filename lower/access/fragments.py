"""Operands of tensor cores' instructions: any expression of the sum's nest, at the places where the instruction wants it.

The nest is looked at with other plans of its axes (`operand_plans`), since the threads of a unit hold other elements of m, n and k
than those of the accumulators. What is staged or kept and which loops are open is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of, axis, const
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ...opts.analysis.boxes import in_registers
from ...opts.axis_plan import AxisPlan, Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.plans import StagePlan, TensorPlan
from ...opts.tensor_cores import Factors, factors, operand_plans
from ...program import hopper_calls as hc
from ...program.hopper import WarpgroupProduct
from ...program.program import Mem, Val
from ..emit.accumulators import Accumulators
from ..expr import NestEval
from ..lowering import Lowering
from ..staged.tile_read import swizzled
from ..staged.warp_roles import operand
from ..storage import Assignment, Key

# reads by ldmatrix ----------------------------------------------------------------------------------------------------
# Reads fragments of a staged tile by `ldmatrix`, where rows of 16 bytes lie along k, or (16-bit types) across it.
#
# A fragment of so many 32-bit words is as many 8×8 matrices: thread l of the warp gets word l % 4 of row l // 4 of
# each, which is how the instructions of tensor cores deal out m (or n) and k (PTX ISA, "Matrix Fragments for
# mma.m16n8k16" and "ldmatrix"). Lane l names where row l % 8 of matrix l // 8 begins.


ROW = 16
"""Bytes of a row of a matrix."""
MOST = 4
"""Matrices that one instruction reads."""


class Pairs(dict[tuple[str, Key], Val]):
    """What was read for two neighbouring fragments at once, by the part along which they are neighbours and the assignment."""


@dataclass(frozen=True, slots=True)
class _Matrices:
    """How the 8×8 matrices of a fragment lie in a tile: the element (over parts that are left) where the row of a lane begins, and whether
    rows lie across k."""

    address: Node
    count: int
    across: bool


def read_fragment(ev: NestEval, load: Node, parts: Sequence[tuple[Part, str]], asg: Assignment, pairs: Pairs) -> Val | None:
    """The fragment of the load of a staged tile whose axes are dealt out as `parts` say; None where it does not lie so."""
    mem, address, mask, _ = ev.locate(load)
    staged = ev.low.staged(load_parts(load)[0].name, ev.nest)
    if staged is None or mask is not None or mem.space != "shared":
        return None
    count = 1
    for p, kind in parts:
        count *= p.trips if kind == "copy" else 1
    elements = count * 4 // mem.dtype.size
    neighbour = _neighbour_part(ev, address, parts, asg) if 2 * count <= MOST else None
    if neighbour is None:
        return _load(ev, staged[0], mem, address, list(parts), asg, elements)
    first = {**asg, neighbour.name: asg[neighbour.name] // 2 * 2}
    key = (neighbour.name, tuple(sorted(first.items())))
    if key not in pairs:
        pair = Part(neighbour.name, neighbour.axis, "upcast", 2, neighbour.stride, False, neighbour.var)
        found = _load(ev, staged[0], mem, address, [(pair, "copy"), *parts], first, 2 * elements)
        if found is None:
            return None
        pairs[key] = found
    at = asg[neighbour.name] % 2 * elements
    return ev.b.shuffle(pairs[key], pairs[key], tuple(range(at, at + elements)))


def _neighbour_part(ev: NestEval, address: Node, parts: Sequence[tuple[Part, str]], asg: Assignment) -> Part | None:
    """A register part outside the fragment along which two fragments can be read at once."""
    terms = ix.parts(address)[0]
    inside = {p.name for p, _ in parts}
    found = [p for p in ev.regs if p.name in asg and p.name not in inside and p.trips % 2 == 0 and p.var in terms]
    return max(found, key=lambda p: p.kind == "upcast", default=None)


def _load(
    ev: NestEval, plan: StagePlan, mem: Mem, address: Node, parts: list[tuple[Part, str]], asg: Assignment, elements: int
) -> Val | None:
    found = _rows(ev.low, address, parts, mem.dtype.size, asg)
    if found is None:
        return None
    base, c, lane, vec = ev.split(found.address, asg)
    row = ROW // mem.dtype.size
    if lane or vec is not None or ev.low.at(mem, base, c, row).align < ROW:
        return None
    at, offset = swizzled(ev.low, plan, base, c)
    return ev.b.ldmatrix(Mem(mem.space, mem.base, mem.dtype, offset, ROW), at, elements, found.across)


def _rows(low: Lowering, address: Node, parts: Sequence[tuple[Part, str]], size: int, asg: Assignment) -> _Matrices | None:
    """Where the row begins that a lane names, if the matrices lie in rows."""
    terms, c = ix.parts(address)
    variables = {p.var for p, _ in parts}
    if any(t not in variables and variables & axes_of(t) for t in terms):
        return None
    word = 4 // size
    threads = [p for p, kind in parts if kind == "thread"]
    if len(threads) != 2 or sorted(p.trips for p in threads) != [4, 8]:
        return None
    rows, inner = sorted(threads, key=lambda p: -p.trips)
    lane = next((p for p, kind in parts if kind == "lane"), None)
    along, step = terms.get(rows.var, 0), terms.get(inner.var, 0)
    if step % word or (lane is not None and terms.get(lane.var, 0) * word != step):
        return None
    across = along == 1 and size == 2
    if not across and step != word:
        return None
    place = step // word if across else along
    copies = [p for p, kind in parts if kind == "copy"]
    rest = {t: k for t, k in terms.items() if t not in variables or (t in {p.var for p in copies if p.name in asg})}
    out = ix.add(ix.linear(rest, c), _of_lane(low, 1, 8), place)
    count = 1
    for p in reversed(copies):
        out = ix.add(out, _of_lane(low, 8 * count, p.trips), terms.get(p.var, 0))
        count *= p.trips
    return _Matrices(out, count, across)


def _of_lane(low: Lowering, divisor: int, count: int) -> Node:
    """lane // divisor % count as an index, where lanes are those of a warp."""
    var = axis(f"lane.{divisor}.{count}", count)
    if var not in low.scalars.bound:
        at = low.thread if divisor == 1 else low.b.op("idiv", low.thread, attr=divisor)
        low.scalars.bound[var] = low.b.op("imod", at, attr=count)
    return var


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
        self.pairs = Pairs()

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
            out = read_fragment(self.ev, self.expr, self.parts, asg, self.pairs)
        if out is None:
            out = joined(self.ev, [self._cast(b.splat(self.ev.value(self.expr, at), self.ev.width)) for at in each])
        bounds = [c for c in self.conds if not self._zero_unless(c)]
        if self.view.masked(self.t.k) and not self._zero_outside():
            bounds.append(self.ev.low.bound(self.t.k))
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


# sums in fragments ----------------------------------------------------------------------------------------------------
# Sums of products by tensor cores: accumulators are fragments of matrix instructions.


# warps ----------------------------------------------------------------------------------------------------------------
# An accumulator is a *fragment*: the elements of one tile of the sum that a thread holds, as the instruction deals
# them out. A finished fragment is taken apart into one value for each assignment of the sum's register parts.


class TensorAccumulators(Accumulators):
    """One fragment for each tile that a thread's unit makes."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        super().__init__(low, n, ev, combine)
        self.plan: TensorPlan = low.sched.tensors[n.name]
        self.inside = own_parts(low.sched.plans, self.plan, "c")
        self.live = ev.assignments([p for p in self.space if p not in self.inside])
        self.keys = [(s, {}) for s in self.live]
        self.operands()

    def operands(self) -> None:
        """Find the operands."""
        found = factors(self.n.expr, self.plan)
        self.a, self.b = (Fragments(self.low, self.n, self.plan, x, found) for x in "ab")

    def identity(self) -> Val:
        """A fragment of zeros."""
        return self.low.b.const(0, self.plan.row.c, self.plan.row.elements("c"))

    def _steps(self, accs: list[Val]) -> list[Val]:
        """One step of the innermost loop for every tile: operands are asked for before the instructions that use them."""
        self.a.reset()
        self.b.reset()
        accs, row = list(accs), self.plan.row.name
        for u in self.ev.assignments(self.unrolled):
            pairs = [(self.a.get({**s, **u}), self.b.get({**s, **u})) for s in self.live]
            accs = [self.low.b.mma(row, acc, x, y) for acc, (x, y) in zip(accs, pairs, strict=True)]
        return accs

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """The elements of every fragment, by the assignments of the sum's register parts."""
        b, out = self.low.b, dict[Key, Val]()
        lanes = self.ev.width if self.lane is not None else 1
        for s, v in zip(self.live, accs, strict=True):
            for at, numbers in self._elements(lanes):
                one = b.extract(v, numbers[0]) if lanes == 1 else b.shuffle(v, v, numbers)
                asg = {**s, **at}
                out[tuple((p.name, asg[p.name]) for p in self.space)] = one
        return out

    def _elements(self, lanes: int) -> Sequence[tuple[Assignment, tuple[int, ...]]]:
        """Which elements of a fragment make one value, for each assignment of the parts inside it: it counts those with the last one
        varying fastest."""
        found: dict[Key, list[int]] = {}
        for i, at in enumerate(product(*(range(p.trips) for p in self.inside))):
            key = tuple((p.name, x // lanes if p is self.lane else x) for p, x in zip(self.inside, at, strict=True))
            found.setdefault(key, []).append(i)
        return [(dict(k), tuple(v)) for k, v in found.items()]


class WarpgroupAccumulators(TensorAccumulators):
    """One fragment of 64 rows for each tile that a thread's warpgroup makes."""

    def operands(self) -> None:
        """Find the operands: slots in shared memory, and for the first one perhaps fragments."""
        low, plan, found = self.low, self.plan, factors(self.n.expr, self.plan)
        assert low.boxes is not None
        held = in_registers(low.sched, plan, self.n)
        self.fragments = Fragments(low, self.n, plan, "a", found) if held else None
        sides = [(found.b, plan.n)] if held else [(found.b, plan.n), (found.a, plan.m)]
        boxes = [(low.boxes.boxes[load_parts(x)[0].name], axis) for x, axis in sides]
        self.places = [ix.add(p.stage.offset, p.place(low.sched, plan, axis)) for p, axis in boxes]
        self.product = WarpgroupProduct(plan.row.name, *(operand(p, low.storage.panels[p.stage.buffer.name].base) for p, _ in boxes))

    def _steps(self, accs: list[Val]) -> list[Val]:
        b, accs, steps = self.low.b, list(accs), [{**s, **u} for u in self.ev.assignments(self.unrolled) for s in self.live]
        if self.fragments is not None:  # (registers are ready before the fence)
            self.fragments.reset()
        first = [self._at(self.places[1], s) if self.fragments is None else self.fragments.get(s) for s in steps]
        hc.fence(b)
        for i, (s, a) in enumerate(zip(steps, first, strict=True)):
            at = i % len(self.live)
            accs[at] = hc.product(b, self.product, accs[at], a, self._at(self.places[0], s))
        hc.commit(b)
        hc.finish(b)
        return accs

    def _at(self, place: Node, asg: Assignment) -> Val:
        known = {p.var: const(asg[p.name]) for p in self.ev.regs if p.name in asg}
        return self.low.scalar(substitute(place, known))

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """The elements of every fragment, once the products are done."""
        return super().finish([hc.result(self.low.b, v) for v in accs])
