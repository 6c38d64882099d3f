"""The accumulators of a reduction: in registers, one for each spatial assignment and each independent partial."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod

from ...ir import index as ix
from ...ir.body import identity
from ...ir.buffer import load_parts
from ...ir.dtypes import bool_
from ...ir.node import Node, axes_of, const, sym
from ...ir.operators import substitute
from ...opts.addition_order import order_of
from ...opts.analysis.extremes import by_bits
from ...opts.analysis.ragged import DIAGONALS, conditions, entries_of_a_row, length_of_a_row, regular, rest_alone, sides
from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...opts.options.cache import Prefetch, prefetches
from ...program.program import Mem, Number, Val
from ..access.memory_access import write_all
from ..arithmetic.nan_extremes import NumbersOnly, bits_of
from ..arithmetic.reciprocal_root import factors
from ..expr import NestEval
from ..lowering import Lowering
from ..pieces import Piece
from ..storage import Array, Assignment, Key
from .addition_chains import ShortChains
from .dot import Dot
from .early_exit import unless_final, unless_skipped
from .fast_path import all_lanes
from .nest_loops import alone, carry, loaded_limit
from .partial_results import across

# equal rows -----------------------------------------------------------------------------------------------------------
#
# Rows side by side that are all as long as the mean one: their entries lie at places that are known but for where the
# first row begins.
#
# Lanes along rows read each entry of each row at an address of its own, under a loop whose end data says. In most
# groups of regular rows, such as those of a stencil's matrix, all rows have one length. There every step is written
# out, and reads entries at constant distances.


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Rows along the lanes. `data`: their lengths, each the end of a row less its beginning, which is the end of the row before; `length`: of
    most of them."""

    data: Node
    begin: Node
    end: Node
    length: int

    def hold(self, low: Lowering, ev: NestEval) -> Val:
        """Whether all rows of the register copies have that length."""
        b, lengths = low.b, [ev.value(self.data, {**asg, **low.scope.copies}) for asg in ev.assignments(ev.regs)]
        return all_lanes(b, [b.op("eq", v, b.const(self.length, v.dtype)) for v in lengths])

    def steps(self, low: Lowering, nest: Nest, ev: NestEval) -> list[Nest]:
        """The nest in each step of such rows, its entries counted from the first one of the first row."""
        assert ev.lane is not None
        first = low.b.extract(ev.value(self.begin, dict.fromkeys((p.name for p in ev.regs), 0)), 0)
        start = sym(f"entry {first.id}", 0, ix.bounds(self.begin)[1])
        low.scalars.bound[start] = first
        begin = ix.add(start, ev.lane.var, self.length)
        rows = {self.begin: begin, self.end: ix.add(begin, const(self.length))}
        return [replace(nest, expr=substitute(nest.expr, {**rows, nest.reduce_axes[0]: const(k)})) for k in range(self.length)]


def equal_rows(low: Lowering, nest: Nest, ev: NestEval, part: Part) -> EqualRows | None:
    """The rows whose entries a loop over `part` adds up, where most have one length, and few entries; None where nothing says so."""
    conds, lane = conditions(nest), ev.lane
    found = sides(conds[0]) if len(conds) == 1 else None
    if found is None or lane is None or low.masked(lane.axis) or low.sched.target.kind != "cpu":
        return None
    place, data, _ = found
    terms, _ = ix.parts(data)
    ends = {k: t for t, k in terms.items()}
    if place is not part.axis or part.stride != 1 or part.trips != part.axis.arg.extent or not length_of_a_row(data) or not regular(data):
        return None
    begin, end = ends[-1], ends[1]
    (*_, at), (*_, after) = (load_parts(n.src[0] if n.op == "cast" else n)[1] for n in (begin, end))
    mean = entries_of_a_row(data, part.axis.arg.extent)
    beside = [p for p in ev.regs if p.axis in axes_of(data)] == [lane] == [*ev.regs] and lane.stride == 1
    if mean is None or not beside or at is not lane.axis or ix.add(after, at, -1) is not const(1) or not 1 <= round(mean) <= DIAGONALS:
        return None
    return EqualRows(data, begin, end, round(mean))


# accumulators ---------------------------------------------------------------------------------------------------------

LINE = 64
"""Bytes that one request fetches."""


def fetch(low: Lowering, n: Nest, ev: NestEval, assignments: Sequence[Assignment]) -> None:
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
    return None if not step else ix.add(at, const(step * max(1, -(-f.ahead // (step * f.buffer.dtype.size)))))


PASSES = 32
"""How often a block of a panel is passed over at most, where the next block is fetched meanwhile: above that, what one pass waits is little."""
NEXT = 16 << 10
"""Bytes of a block that its own first lines do not hide."""


def fetch_next_block(low: Lowering, n: Nest) -> None:
    """Of a panel that was packed once, which other calls drove out of the caches, the lines of the block that comes next: the passes over this
    one share them evenly. Past the last block they are nobody's."""
    for s, mem in low.scope.tiles.values():
        if not s.once or not any(m is n for m in s.nests):
            continue
        strides, loops = {p.name: stride for p, stride in s.parts}, low.sched.loops(n)
        cut = [i for i, p in enumerate(loops) if p.name in strides and p.axis not in n.reduce_axes and p.trips > 1]
        if not cut:
            continue
        outside, inside, size = loops[: cut[-1] + 1], loops[cut[-1] + 1 :], s.dtype.size
        passes, block = prod(p.trips for p in inside if p.name not in strides), strides[outside[-1].name]
        if not 2 <= passes <= PASSES or block * size < NEXT:
            continue
        step = -(-block // prod(p.trips for p in inside))
        at, radix = const(block), 1
        for p in reversed(inside):
            at, radix = ix.add(at, p.var, step * radix), radix * p.trips
        for p in outside:
            at = ix.add(at, p.var, strides.get(p.name, 0))
        for byte in range(0, step * size, LINE):
            low.b.prefetch(Mem(mem.space, mem.base, mem.dtype, mem.offset + byte // size), low.scalar(at))


# steps under masks ----------------------------------------------------------------------------------------------------
# With AVX-512 an instruction leaves lanes as they are, at no cost. There, the accumulator is combined under the mask.
# Elsewhere an element that does not count becomes the identity before it is combined.


_WHOLE = 64
"""Bytes of the vectors that have no other comparisons than those into masks."""


def masked(ev: NestEval, expr: Node, combine: str) -> tuple[Node | None, Node]:
    """(the condition under which an element changes the accumulator, what it is there), or None and `expr` where there is none, or no
    instruction for it."""
    # (shorter vectors compare into vectors, which more units can do)
    if "avx512" not in ev.b.features or ev.lane is None or not ev.b.expand or ev.width * expr.dtype.size < _WHOLE:
        return None, expr
    truth = expr
    while truth.op == "cast" and truth.dtype.is_int:
        truth = truth.src[0]
    if truth.dtype is bool_ and truth is not expr and combine == "add":
        return truth, const(1, expr.dtype)
    if expr.op == "where" and not ev.fills_in(expr) and expr.src[2] is identity(combine, expr.dtype):
        return expr.src[0], expr.src[1]
    return None, expr


class Accumulators:
    """The accumulators of a reduce nest: one for each spatial assignment and each independent partial."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        self.low, self.n, self.ev, self.combine = low, n, ev, combine
        self.space = [p for p in ev.regs if p.axis in n.axes]
        self.copies = [p for p in ev.regs if p.axis not in n.axes and p.kind == "upcast"]
        self.unrolled = [p for p in ev.regs if p.axis not in n.axes and p.kind == "unroll"]
        self.lane = ev.lane if ev.lane in self.space else None
        # lanes innermost: what is the same in all of them is loaded once, and needs a register only as long as it is used
        self.spatial = ev.assignments(sorted(self.space, key=lambda p: p is ev.lane))
        self.partials = ev.assignments(self.copies)
        self.partial = bool(self.copies)
        there = ev.conditions()
        self.live = [s for s in self.spatial if not ev.nowhere(there, s)]
        self.keys = [(s, p) for s in self.live for p in self.partials]
        self.dtype = n.expr.dtype
        self.order = order_of(n)
        dot = low.sched.dots.get(n.name)
        self.dot = Dot(low, n, ev, dot) if dot is not None else None
        self.masks: list[Node] = []
        self.chains: ShortChains | None = None
        """How the loops are cut, where its chains of additions may not be longer than some length."""
        self.final: list[Val] = []
        """What the loops ended with, where several reductions share them."""
        self.numbers: NumbersOnly | None = None
        self.sizes = self.dot is None and ev.lane is not None and by_bits(n, low.sched.target, combine)
        """Whether whole numbers compare the bits of what is reduced."""

    def identity(self) -> Val:
        """The starting value of an accumulator."""
        return self.low.b.const(self.none(), self.dtype, self.ev.width if self.ev.lane is not None else 1)

    def run(self, loops: Sequence[Part], accs: list[Val], empty: bool) -> list[Val]:
        """Accumulate through the reduce loops."""
        if empty:
            return accs
        apart = alone(self.low, self.n, loops) if self.dot is None and not self.low.scope.copies else ()
        if apart:
            return self._run_rows(apart, loops, accs)
        equal = equal_rows(self.low, self.n, self.ev, loops[0]) if len(loops) == 1 and self.dot is None and self.order is None else None
        return self._run_loops(loops, accs) if equal is None else self._run_equal(equal, loops, accs)

    def _run_loops(self, loops: Sequence[Part], accs: list[Val]) -> list[Val]:
        if self.chains is not None:
            self.chains = replace(self.chains, starts=self.begun(), combines=[self.combine] * len(self.keys))
        rest = partial(self._rest, loops[0]) if len(loops) == 1 and self.dot is None and rest_alone(self.low.sched, self.n) else None
        return self.ended(carry(self.low, loops, [*accs, *self.more_carried(loops)], self._steps, self.chains, rest))

    def _run_equal(self, rows: EqualRows, loops: Sequence[Part], accs: list[Val]) -> list[Val]:
        """Accumulate rows of one length step by step, and others through the reduce loops."""
        b = self.low.b
        equal = rows.hold(self.low, self.ev)
        with b.branch(equal, accs) as loop:
            own, carried = copy(self), [*loop.carried, *self.more_carried(loops)]
            for own.n in rows.steps(self.low, self.n, self.ev):
                own.ev = NestEval(self.low, own.n, vectors=Vectors(self.ev.regs, self.ev.lane, self.ev.width))
                carried = own._steps(carried)
            loop.yields = self.ended(carried)
        self.ev.reset()
        with b.branch(b.op("not", equal), loop.results) as other:
            other.yields = self._run_loops(loops, other.carried)
        self.ev.reset()
        return other.results

    def _rest(self, part: Part, piece: Piece, accs: list[Val]) -> list[Val]:
        """Accumulate the elements that fill no vector in a loop over them: `piece` is the step of the loop over `part` that they are in."""
        low, lane, regs = self.low, self.ev.lane, self.ev.regs
        assert lane is not None and piece.between is not None
        own, (cond,) = copy(self), conditions(self.n)
        own.ev = NestEval(low, self.n, vectors=Vectors([p for p in regs if p is not lane]))
        own.chains, own.keys, own.partials = None, [(s, {}) for s, _ in self.keys], [{}]
        opened = {**low.scope.opened, part.name: part}
        with low.within(opened=opened), low.scalars.bind(part.var, low.scalar(piece.between[0])):
            limit = loaded_limit(low, lane, cond, always=True)
            assert limit is not None
            each = Piece((const(0), limit.some), frozenset({part.axis}), holds=frozenset({(cond, part.axis)}), maybe=True)
            with low.open(lane, [own.identity() for _ in accs], each) as loop:
                loop.yields = own._steps(loop.carried)
        b, none = low.b, self.identity()
        return [b.op(self.combine, acc, b.insert(none, one, 0)) for acc, one in zip(accs, loop.results, strict=True)]

    def _run_rows(self, rows: Sequence[Part], loops: Sequence[Part], accs: Sequence[Val]) -> list[Val]:
        """Accumulate through the reduce loops of one row after the other."""
        final = dict(enumerate(accs))
        for copies in self.ev.assignments(rows):
            own = copy(self)
            at = [i for i, (s, _) in enumerate(self.keys) if copies.items() <= s.items()]
            own.keys = [self.keys[i] for i in at]
            own.live = [s for s in self.live if copies.items() <= s.items()]
            with self.low.within(copies=copies):
                final |= zip(at, own.run(loops, [accs[i] for i in at], False), strict=True)
        return list(final.values())

    def begun(self) -> list[Val | None]:
        """What each accumulator's chain of additions begins with; None where it is none."""
        return [None if self.chains is None else self.identity() for _ in self.keys]

    def more_carried(self, loops: Sequence[Part]) -> list[Val]:
        """What is carried through the reduce loops beside the accumulators."""
        self.numbers = None
        steps = len(self.partials) * len(self.ev.assignments(self.unrolled))
        b, target, ev = self.low.b, self.low.sched.target, self.ev
        extreme = self.combine in ("max", "min") and self.dtype.is_float and self.dot is None and ev.lane is not None
        if not extreme or self.sizes or target.keeps_nan or not b.expand or not (loops or steps > 2):
            return []
        self.numbers = NumbersOnly(b, target, self.combine, self.dtype, len(self.live), ev.width)
        return self.numbers.start()

    def ended(self, carried: Sequence[Val]) -> list[Val]:
        """The accumulators after the reduce loops, of what these carried."""
        accs, noted = list(carried[: len(self.keys)]), carried[len(self.keys) :]
        return accs if self.numbers is None else self.numbers.finish(accs, noted, len(self.partials))

    def _steps(self, carried: list[Val]) -> list[Val]:
        """One step of the innermost loop for every accumulator."""
        self.begin(carried)
        copies = len(self.partials)
        each = [carried[i : i + copies] for i in range(0, len(self.keys), copies)]
        left = unless_final(self.low, self.n, self.ev, each, self._all_steps)
        return self.noted(self._all_steps(carried) if left is None else left)

    def _all_steps(self, carried: list[Val]) -> list[Val]:
        """Every accumulator after the elements of an iteration."""
        steps = self.ev.assignments(self.unrolled)
        return self._some_steps(steps, carried) if self.chains is None else self.chains.in_groups(steps, carried, self._some_steps)

    def _some_steps(self, steps: Sequence[Assignment], carried: list[Val]) -> list[Val]:
        """Every accumulator after some of the elements of an iteration."""
        accs = list(carried)
        for u in steps:
            step = partial(self._step_all, u)
            skips = self.dot is None and not self.masks and self.numbers is None
            accs = unless_skipped(self.low, self.n, self.ev, u, accs, step) if skips else step(accs)
        return accs

    def _step_all(self, u: Assignment, carried: list[Val]) -> list[Val]:
        """Every accumulator after one more element each."""
        accs = list(carried)
        for i, (s, p) in enumerate(self.keys):
            accs[i] = self.step(accs[i], {**s, **p, **u})
        return accs

    def noted(self, carried: list[Val]) -> list[Val]:
        """What is carried on after the steps of an iteration, of what they left and what was carried beside the accumulators."""
        if self.numbers is None:
            return carried
        return carried[: len(self.keys)] + self.numbers.carried()

    def begin(self, carried: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried: nothing else is known of the ones before."""
        self.ev.reset()
        if self.numbers is not None:
            self.numbers.begin(carried[len(self.keys) :])
        # operands of a matrix instruction are 0 past the extent
        self.masks = [self.ev.low.bound(a) for a in self.n.reduce_axes if self.low.masked(a)] if self.dot is None else []
        if self.dot is not None:
            self.dot.reset()
        self.fetch([{**s, **p, **u} for u in self.ev.assignments(self.unrolled) for s, p in self.keys])
        if self.dot is None:
            fetch_next_block(self.low, self.n)

    def fetch(self, assignments: Sequence[Assignment]) -> None:
        """Ask for the lines that will be read where these elements are now."""
        fetch(self.low, self.n, self.ev, assignments)

    def step(self, acc: Val, asg: Assignment) -> Val:
        """An accumulator after one more element."""
        ev, b, expr = self.ev, self.low.b, self.ev.selected(self.n.expr)
        if self.dot is not None:
            return self.dot.step(acc, asg)
        masks = [m for m in (ev.value(m, asg) for m in self.masks) if b.truth(m) is not True]
        if any(b.truth(m) is False for m in masks) and not self.n.fills:
            return acc
        some, expr = masked(ev, expr, self.combine) if self.numbers is None and not self.sizes else (None, expr)
        if some is None:
            return self._combined(acc, expr, asg, masks)
        where = reduce(lambda x, y: b.op("and", x, y), masks, ev.value(some, asg))
        if b.truth(where) is False:
            return acc
        return b.op("select", where, self._combined(acc, expr, asg, []), acc, dtype=self.dtype)

    def _combined(self, acc: Val, expr: Node, asg: Assignment, masks: Sequence[Val]) -> Val:
        """An accumulator and an element, which is the identity where one of the masks does not hold."""
        ev, b = self.ev, self.low.b
        if self.order is not None:
            return self._in_order(acc, expr, asg, masks)
        if self.combine == "add" and expr.op == "mul" and not masks:
            x, y = (ev.value(s, asg) for s in expr.src)
            if b.zero(x) and b.zero(y):  # both are masked here: a sum that began at 0 is never -0, so it stays what it is
                return acc
            if expr.dtype.is_float:
                return b.op("fma", x, y, acc)
        split = factors(b, expr, lambda n: ev.value(n, asg)) if self.combine == "add" and expr.dtype.is_float and not masks else None
        if split is not None:
            return b.op("fma", *split, acc)
        x = ev.value(expr, asg)
        for m in masks:
            x = b.op("select", m, x, b.const(identity(self.combine, self.dtype).arg, self.dtype), dtype=self.dtype)
        if self.numbers is not None:
            return self.numbers.step(self.live.index({p.name: asg[p.name] for p in self.space}), acc, x)
        if self.sizes:
            return b.op("bitcast", b.op("max", bits_of(b, acc), bits_of(b, x)), dtype=self.dtype)
        return b.op(self.combine, acc, x)

    def _in_order(self, acc: Val, expr: Node, asg: Assignment, masks: Sequence[Val]) -> Val:
        """The same where every schedule is to have the same bits: a product is joined where the sum itself is written of one, masked or not."""
        ev, b, value = self.ev, self.low.b, self.n.value
        assert value is not None
        if self.combine == "add" and expr.op == "mul" and value.body.op == "mul":
            x, y = (ev.value(s, asg) for s in expr.src)
            if b.zero(x) and b.zero(y):
                return acc
            new = b.op("fma", x, y, acc)
        else:
            new = b.op(self.combine, acc, ev.value(expr, asg))
        return b.op("select", reduce(lambda x, y: b.op("and", x, y), masks), new, acc, dtype=self.dtype) if masks else new

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """Partials combined pairwise, then lanes along a reduce axis folded."""
        b = self.low.b
        out: dict[Key, Val] = {}
        n = len(self.partials)
        found: list[Val] = []
        accs = [bits_of(b, v) for v in accs] if self.sizes else accs
        for i in range(len(self.live)):
            vals = accs[i * n : (i + 1) * n]
            while len(vals) > 1:
                half = (len(vals) + 1) // 2
                vals = [b.op(self.combine, vals[j], vals[j + half]) if j + half < len(vals) else vals[j] for j in range(half)]
            found.append(vals[0])
        if self.ev.lane is not None and self.lane is None and found:
            found = across(b, found, self.combine)
        for v, s in zip(found, self.live):
            if self.sizes:
                v = b.op("bitcast", v, dtype=self.dtype)
            if self.dot is not None:
                v = self.dot.corrected(v, s)
            out[tuple((p.name, s[p.name]) for p in self.space)] = v
        # copies past the extent are not summed: whoever reads them stores nothing
        for s in self.spatial:
            nothing = b.const(identity(self.combine, self.dtype).arg, self.dtype, self.ev.width if self.lane is not None else 1)
            out.setdefault(tuple((p.name, s[p.name]) for p in self.space), nothing)
        return out

    def none(self) -> Number:
        """What an accumulator begins with."""
        start = identity(self.combine, self.dtype).arg
        assert isinstance(start, int | float)
        return start

    def old(self, array: Array, key: Assignment | Key, straddled: Sequence[Part]) -> Val:
        """The accumulator kept in memory; the identity in the first block of the loops `straddled`."""
        b, ev = self.low.b, self.ev
        asg: Assignment = dict(key)
        mask = later = None
        for p in straddled:
            c = b.op("ne", self.low.scalar(p.var), b.const(0))
            later = c if later is None else b.op("or", later, c)
        for cond in (later, *(ev.value(c, asg) for c in (ev.conditions() if array.param else []))):
            mask = b.both(mask, cond)
        wide = self.lane is not None
        if wide and mask is not None:
            mask = b.splat(mask, ev.width)
        old = ev.read(array.mem, array.address(self.low.point(array)), asg, mask)
        if later is None:
            return old
        start = b.const(self.none(), self.dtype)
        return b.op("select", b.splat(later, ev.width) if wide else later, old, start, dtype=self.dtype)

    def write(self, array: Array, results: dict[Key, Val]) -> None:
        """Store finished (or partly summed) accumulators."""
        ev = self.ev
        copies = [(dict(key), v) for key, v in results.items()]
        write_all(ev, array.mem, array.address(self.low.point(array)), copies, ev.guards(array, self.n.axes))
