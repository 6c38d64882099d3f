"""The accumulators of a reduction: in registers, one for each spatial assignment and each independent partial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from ...ir.dtypes import DType, bool_, float32, index, int32, int64, uint32
from ...ir.node import Node, walk
from ...opts.analysis.ragged import left_out
from ...opts.analysis.sizes import by_bits
from ...opts.axis_plan import Part
from ...opts.nests import Nest, identity
from ...program.builder import Builder
from ...program.program import Number, Val
from ...targets import Target
from ..arithmetic.networks import unless
from ..arithmetic.reciprocal_root import factors
from ..expr import NestEval
from ..lowering import Lowering
from ..storage import Array, Assignment, Key
from .across import across
from .dot import Dot
from .early_exit import unless_final
from .loops import carry
from .masked_steps import masked
from .prefetch import fetch

# numbers only -----------------------------------------------------------------------------------------------
# The largest or the smallest elements of processors whose instruction for that does not hand on what is no number.
#
# `max` of a Program is NaN where an operand is. x86's instruction gives its second operand there, so each step needs a
# test and a selection more, on the chain of the accumulator. Here an accumulator takes an element only where that
# compares as better, which is the one instruction. What is no number never does; it is noted beside, and put into the
# accumulator after the loops:
#
# * two elements by one test, and what was found is joined by a logical operation, which has more units than a comparison;
# * or, where comparisons keep busy the units that add (`Target.compares_in_adders`), in float32 by whole numbers: the largest of the
#   elements' bits without their signs says it in the end, since what is no number has larger ones than all that are.
#
# The largest of sizes (|x|) of float32 needs no notes: whole numbers compare their bits, which are in the same order,
# those of what is no number above all, and those of -inf, with which an accumulator begins, below.


_INFINITE = 0xFF000000
"""The bits of an infinite float32 without its sign, shifted to the left."""


def bits_of(b: Builder, v: Val) -> Val:
    """A float32's bits as a whole number."""
    return b.op("bitcast", v, dtype=int32)


class NumbersOnly:
    """What is noted for the results of a reduction. `results`: how many there are, each with an accumulator for each partial result;
    `width`: elements in a vector, or 1."""

    def __init__(self, b: Builder, target: Target, combine: str, dtype: DType, results: int, width: int) -> None:
        self.b, self.combine, self.dtype, self.results, self.width = b, combine, dtype, results, width
        # truths of vectors have registers of their own with AVX-512; elsewhere they are vectors as wide as the elements
        self.masks = "avx512" in target.features and target.lang == "llvm"
        self.whole = not self.masks and dtype is float32 and target.compares_in_adders
        self._bits = uint32 if self.whole else int64 if dtype.size == 8 else int32
        self._seen: list[Val | None] = []
        self._noted: list[Val] = []

    def begin(self, noted: Sequence[Val]) -> None:
        """Before the steps of an iteration, to which that was carried."""
        self._seen, self._noted = [None] * self.results, list(noted)

    def start(self) -> list[Val]:
        """What is carried beside the accumulators, before the loops: all were numbers."""
        first = self.b.const(True, bool_, self.width) if self.masks else self.b.const(0, self._bits, self.width)
        return [first] * self.results

    def step(self, result: int, acc: Val, x: Val) -> Val:
        """The accumulator of one of the results after an element."""
        b, waiting = self.b, self._seen[result]
        if self.whole:
            shifted = b.op("add", *[b.op("bitcast", x, dtype=uint32)] * 2)  # the sign is gone
            self._noted[result] = b.op("max", self._noted[result], shifted)
        elif waiting is None:
            self._seen[result] = x
        else:
            self._pair(result, waiting, x)
        better = b.op("lt", acc, x) if self.combine == "max" else b.op("lt", x, acc)
        return b.op("select", better, x, acc, dtype=self.dtype)

    def _pair(self, result: int, first: Val, second: Val) -> None:
        """Note two elements by one test."""
        b, before = self.b, self._noted[result]
        self._seen[result] = None
        if self.masks:
            both = b.op("and", b.op("eq", first, first), b.op("eq", second, second))
            self._noted[result] = b.op("and", before, both)
            return
        alone = first is second  # (all ones are no number either: one test does for it and for those before)
        two = b.op("bitcast", before, dtype=self.dtype) if alone else second
        other = b.op("or", b.op("ne", first, first), b.op("ne", two, two))
        ones = b.op("select", other, b.const(-1, self._bits), b.const(0, self._bits), dtype=self._bits)
        self._noted[result] = ones if alone else b.op("or", before, ones)

    def carried(self) -> list[Val]:
        """What is carried beside the accumulators, after the steps of an iteration."""
        for result, waiting in enumerate(self._seen):
            if waiting is not None:
                self._pair(result, waiting, waiting)
        return self._noted

    def finish(self, accs: Sequence[Val], noted: Sequence[Val], partials: int) -> list[Val]:
        """The accumulators after the loops: the first partial result of a result is NaN where any of its elements was."""
        b, out = self.b, list(accs)
        for i, flag in enumerate(noted):
            if self.masks:
                other = b.op("not", flag)
            elif self.whole:
                other = b.op("lt", b.const(_INFINITE, uint32), flag)
            else:
                other = b.op("ne", flag, b.const(0, self._bits))
            out[i * partials] = unless(b, other, out[i * partials])
        return out


# skips ------------------------------------------------------------------------------------------------------
# Steps of a reduction that are left out where data says that they add nothing: of picked rows of which some are
# missing.
#
# One scalar decides for all register copies, so a branch leaves out what they would read. Where copies differ, or a
# step is short, elements are selected instead.


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """Conditions without which a step of a reduction adds nothing to any of its accumulators."""

    low: Lowering
    ev: NestEval
    axis: Node
    conds: Sequence[Node]

    def skipping(self, u: Assignment, carried: list[Val], step: Callable[[list[Val]], list[Val]]) -> list[Val]:
        """What a step makes of the accumulators, in a branch."""
        b, low, ev = self.low.b, self.low, self.ev
        found = [ev.value(c, u) for c in self.conds]
        if any(v.lanes > 1 or b.truth(v) is not None for v in found):
            return step(carried)
        some = found[0] if len(found) == 1 else b.op("and", *found)
        held = low.scope.holds | {(c, self.axis) for c in self.conds}
        with (
            b.loop("if", b.const(0), b.op("cast", some, dtype=index), 1, carried, maybe=True, once=True) as loop,
            low.within(holds=held),
        ):
            ev.reset()
            loop.yields = step(loop.carried)
        ev.reset()
        return loop.results


def decision(low: Lowering, ev: NestEval, n: Nest) -> SkippedStep | None:
    """What decides about a step of all accumulators; None where nothing does, or nothing that is not known already."""
    conds = [c for c in left_out(low.sched, n) if not ev.holds(c)]
    return SkippedStep(low, ev, n.reduce_axes[0], conds) if any(x.op == "load" for c in conds for x in walk(c)) else None


# accumulators -----------------------------------------------------------------------------------------------
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
        dot = low.sched.dots.get(n.name)
        self.dot = Dot(low, n, ev, dot) if dot is not None else None
        self.masks: list[Node] = []
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
        return self.ended(carry(self.low, loops, [*accs, *self.beside(loops)], self._steps))

    def beside(self, loops: Sequence[Part]) -> list[Val]:
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
        accs = list(carried)
        for u in self.ev.assignments(self.unrolled):
            step = partial(self._step_all, u)
            decided = self._decision()
            accs = step(accs) if decided is None else decided.skipping(u, accs, step)
        return accs

    def _decision(self) -> SkippedStep | None:
        """What may leave out a step of all accumulators."""
        if self.dot is not None or self.masks or self.numbers is not None:
            return None
        return decision(self.low, self.ev, self.n)

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
        self.masks = [self.ev.bound(a) for a in self.n.reduce_axes if self.low.masked(a)] if self.dot is None else []
        if self.dot is not None:
            self.dot.reset()
        fetch(self.low, self.n, self.ev, [{**s, **p, **u} for u in self.ev.assignments(self.unrolled) for s, p in self.keys])

    def step(self, acc: Val, asg: Assignment) -> Val:
        """An accumulator after one more element."""
        ev, b, expr = self.ev, self.low.b, self.ev.chosen(self.n.expr)
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
        if self.combine == "add" and expr.op == "mul" and expr.dtype.is_float and not masks:
            return b.op("fma", ev.value(expr.src[0], asg), ev.value(expr.src[1], asg), acc)
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
            mask = cond if mask is None or cond is None else b.op("and", mask, cond)
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
        conds = ev.guards(array, self.n.axes)
        for key, v in results.items():
            ev.write(array.mem, array.address(self.low.point(array)), dict(key), v, conds)
