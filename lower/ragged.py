"""Limits of loops that data says: `where(k < many[i], f, 0)` in a sum over k needs the first many[i] of a padded row only.

The number is read before the loop and kept within the places that it is compared with, whatever it is: a negative one leaves no
iteration, one past the extent all of them. Of several register copies the largest number counts, and up to the smallest one no copy needs
a mask. Where it says how far a loop around goes, in `where((i < many) & (k < many), f, 0)`, the one over k has all iterations or none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ..ir import index as ix
from ..ir.dtypes import index
from ..ir.integer_ranges import whole
from ..ir.node import Node, axes_of, const, sym
from ..ir.operators import substitute
from ..opts.analysis.ragged import known_before, sides, worth
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..program.program import Val
from .emit.across import across
from .expr import NestEval
from .limits import LoopLimit, solved
from .lowering import Lowering


def limit(low: Lowering, part: Part, cond: Node) -> LoopLimit | None:
    """What a comparison of places with data says of a loop; None where it says nothing, or the data is not the same for all of it."""
    nest, plans = low.scope.nests[0], low.sched.plans
    split = sides(cond)
    if split is None:
        return None
    place, data, left = split
    terms, c = ix.parts(substitute(place, {a: plans[a].index for a in axes_of(place)}))
    span = ix.bounds(ix.linear(terms, c))
    k = terms.pop(part.var, 0)
    if not (k or _first(low, nest)) or any(t.op != "axis" for t in terms) or not _ready(low, part, nest, data):
        return None
    if not worth(low.sched, low.scope.nests, part):
        return None
    open_vars = {p.var for p in low.scope.opened.values()}
    around = ix.linear({t: x for t, x in terms.items() if t in open_vars}, 0)
    least, most = ix.bounds(ix.linear({t: x for t, x in terms.items() if t not in open_vars}, c))
    # one more than the last place, or one less than the first, is as good as anything beyond
    down = left == (cond.op == "lt")
    small, large = _numbers(low, nest, data, (span[0] - down, span[1] + 1 - down))
    if not k:
        past = ix.add(ix.add(around, const(most)), small, -1) if left else ix.add(ix.add(large, around, -1), const(-least))
        return _all_or_none(cond, part, past)
    if left:
        return solved(cond, -k, (ix.add(small, around, -1), ix.add(large, around, -1)), -most, -least)
    return solved(cond, k, (ix.add(around, large, -1), ix.add(around, small, -1)), least, most)


def _first(low: Lowering, nest: Nest) -> bool:
    """Whether no loop of a reduction is open yet: what does not vary along it is asked once."""
    return nest.kind == "reduce" and not any(p.name in low.scope.opened for a in nest.reduce_axes for p in low.sched.plans[a].parts)


def _all_or_none(cond: Node, part: Part, past: Node) -> LoopLimit:
    """The limit of a condition that is the same for all iterations: it holds for some register copy where `past` is above 0, or 0."""
    holds = ix.minmax("max", const(0), ix.minmax("min", const(1), ix.add(past, const(int(cond.op == "le")))))
    return LoopLimit(cond, False, ix.mul(holds, const(part.trips)), const(0))


def _ready(low: Lowering, part: Part, nest: Nest, data: Node) -> bool:
    """Whether data is known before a loop: what it varies with are open loops, and register copies."""
    axes = axes_of(data)
    if not known_before(low.sched, nest, part, data):
        return False
    regs = {p.name for p in low.sched.lanes(nest).regs}
    return all(p.name in low.scope.opened or p.name in regs for a in axes for p in low.sched.plans[a].parts)


def _numbers(low: Lowering, nest: Nest, data: Node, span: tuple[int, int]) -> tuple[Node, Node]:
    """The smallest and the largest of some data among register copies, both within a span, as indices."""
    ev = NestEval(low, nest)
    mine = [p for p in ev.regs if p.axis in axes_of(data)]
    each = list(dict.fromkeys(ev.value(data, asg) for asg in ev.assignments(mine)))
    return _number(low, each, "min", span), _number(low, each, "max", span)


def _number(low: Lowering, each: Sequence[Val], pick: str, span: tuple[int, int]) -> Node:
    """The smallest or largest of some integers as an index within a span."""
    b, dtype = low.b, each[0].dtype
    one = reduce(lambda x, y: b.op(pick, x, y), each)
    if one.lanes > 1:
        (one,) = across(b, [one], pick)
    lo, hi = whole(dtype)
    if hi > span[1]:
        one = b.op("min", one, b.const(span[1], dtype))
    if lo < span[0]:
        one = b.op("max", one, b.const(span[0], dtype))
    found = one if dtype is index else b.op("cast", one, dtype=index)
    counted = b.op("add", found, b.const(-span[0])) if span[0] < 0 else found
    first = min(span[0], 0)
    node = sym(f"number {counted.id}", max(span[0], 0), span[1] - first)
    low.scalars.bound[node] = counted
    return ix.add(node, const(first))
