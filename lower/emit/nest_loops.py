"""The loops of a nest: their pieces, the iterations that are left out, and what they carry.

A sum over pairs i < j is written as one over all pairs, of 0 elsewhere: `where(i < j, f, 0)`. For each i, the loop over j begins at i
+ 1. Iterations that are right for all register copies of i need no mask, and have code of their own. Other combines have their own
neutral element, and a scatter leaves out iterations that combine nothing.

Data may be the limit: `where(k < many[i], f, 0)` needs the first many[i] elements of a padded row. The number is read before the loop
and is kept inside the extent: a negative one leaves no iteration, one past the extent leaves all. Several register copies use the
largest of their numbers, and up to the smallest one no copy needs a mask. In `where((i < many) & (k < many), f, 0)`, the loop over k
has all of its iterations or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.index import Interval
from ...ir.integer_ranges import value_range
from ...ir.node import Node, axes_of, const, sym, walk
from ...ir.node_text import order_key
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ...opts.analysis.ragged import LEAST, conditions, known_before, length_of_a_row, one_step, scatters, separate_rows, sides, worth
from ...opts.analysis.ragged import LONG as WRITTEN
from ...opts.analysis.thresholds import cuttable, operations
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ...program.program import Val
from ..expr import NestEval
from ..lowering import Lowering
from ..pieces import Piece, trips
from .addition_chains import ShortChains
from .partial_results import across


@dataclass(frozen=True, slots=True)
class LoopLimit:
    """Where a condition holds at all, iterations [lo, hi), and where for all register copies: from `sure` on, or up to there.

    `begins`: it holds at the end of the loop, so that the limits are those of its beginning. `between`: the most iterations between the two,
    where that is known; `first`: the condition holds in the first register copy of those."""

    cond: Node
    begins: bool
    some: Node
    sure: Node
    between: int | None = None
    first: bool = False


def solved(cond: Node, k: int, rest: tuple[Node, Node], least: int, most: int) -> LoopLimit:
    """The limit of k·p + rest + r < 0 (or <= 0) for iteration p, with r anywhere in [least, most]; `rest` is its smallest and its largest
    value for any of the register copies."""
    strict, (low, high) = int(cond.op == "lt"), rest
    if k < 0:
        some, sure = (ix.floordiv(ix.add(x, const(r - 1 + strict)), -k) for x, r in ((low, least), (high, most)))
    else:
        some, sure = (ix.floordiv(ix.add(ix.mul(x, const(-1)), const(-r - strict)), k) for x, r in ((low, least), (high, most)))
    between = -(-(most - least) // abs(k)) if low is high else None
    return LoopLimit(cond, k < 0, ix.add(some, const(1)), ix.add(sure, const(1)), between)


def loaded_limit(low: Lowering, part: Part, cond: Node, always: bool = False) -> LoopLimit | None:
    """What a comparison of places with data says of a loop; None where it says nothing, or the data is not the same for all of it, or,
    unless `always`, where the limit is not worth its branch."""
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
    if not always and not worth(low.sched, low.scope.nests, part):
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
    found = solved(cond, k, (ix.add(around, large, -1), ix.add(around, small, -1)), least, most)
    if k > 0 and one_step(low.sched, nest, part, data):  # (its first step is taken even if no entry is there: nothing to foresee)
        return replace(found, some=ix.minmax("max", found.some, const(1)), sure=const(0), between=None)
    return replace(found, first=small is large and k > 0 and c == least and not any(x < 0 for x in terms.values()))


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
    each = list(dict.fromkeys(ev.value(data, {**asg, **low.scope.copies}) for asg in ev.assignments(mine)))
    known = value_range(data)
    known = (0, known[1]) if length_of_a_row(data) else known
    return _number(low, each, "min", span, known), _number(low, each, "max", span, known)


def _number(low: Lowering, each: Sequence[Val], pick: str, span: Interval, known: Interval) -> Node:
    """The smallest or largest of some integers, of which an interval is known, as an index within a span."""
    b, dtype = low.b, each[0].dtype
    one = reduce(lambda x, y: b.op(pick, x, y), each)
    if one.lanes > 1:
        (one,) = across(b, [one], pick)
    lo, hi = known
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


def trimmed(low: Lowering, part: Part, found: Sequence[Piece]) -> list[Piece]:
    """The pieces `found` of a loop over `part` of the reductions that are being opened, without iterations that reduce nothing."""
    if not _triangular(low, part):
        return list(found)
    kept = [set(conditions(n)) for n in low.scope.nests]
    common = sorted(set.intersection(*kept), key=order_key)
    limits = [t for c in common for t in (_limit(low, part, c) or loaded_limit(low, part, c),) if t is not None]
    out = list(found)
    if limits and len(out) == 2 and out[1].partial and all(_covered(n, part.axis) for n in low.scope.nests):
        assert out[0].between is not None and out[1].between is not None
        out = [replace(out[0], between=(out[0].between[0], out[1].between[1]))]  # (the last step is masked by the data as others are)
    for limit in limits:
        out = [p for piece in out for p in _within(low, part, piece, limit)]
    return out


def _covered(nest: Nest, axis: Node) -> bool:
    """Whether data never goes past the extent of an axis, and nothing is read along it but up to there."""
    extent = axis.arg.extent
    if not isinstance(extent, int):
        return False
    read = [load_parts(n)[2] for n in walk(nest.expr) if n.op == "load" and axis in axes_of(n)]
    masks = [set(conjuncts(m)) if m is not None else set() for m in read]
    for c in conditions(nest):
        split = sides(c)
        if split is not None and split[0] is axis and not split[2] and all(c in m for m in masks):
            return value_range(split[1])[1] + (c.op == "le") <= extent
    return False


def alone(low: Lowering, nest: Nest, loops: Sequence[Part]) -> tuple[Part, ...]:
    """The register copies of a reduction that each have `loops` of their own."""
    own = bool(loops) and loops[0].axis in nest.reduce_axes and _triangular(low, loops[0])
    return separate_rows(low.sched, nest) if own else ()


def pieces_of_any(low: Lowering, part: Part) -> list[Piece]:
    """The pieces of a loop around anything: trimmed where there are scatters alone. (What a reduction adds up in memory is cleared in the
    first iteration of its outer loops.)"""
    found = low.pieces(part)
    return trimmed(low, part, found) if all(map(scatters, low.scope.nests)) else found


def _triangular(low: Lowering, part: Part) -> bool:
    """Whether the reductions that are being opened may leave out iterations of a loop."""
    s, nests = low.sched, low.scope.nests
    if not nests or not cuttable(s) or part.kind == "fold" or low.scope.closing or not _is_unshared(s, part):
        return False
    return part.kind != "grid" and all(part.axis in (n.axes if scatters(n) else _reduced(s, n)) for n in nests)


def _reduced(s: Scheduled, n: Nest) -> tuple[Node, ...]:
    """The axes of a reduction that leaves out iterations; none where it is no such."""
    special = (s.dots, s.tensors, s.places)
    return n.reduce_axes if n.kind == "reduce" and not n.filled and not any(n.name in x for x in special) else ()


def _is_unshared(s: Scheduled, part: Part) -> bool:
    """Whether nothing but the nest itself counts on the loop: no ring, no staged tile."""
    return not s.rings and all(p.at.name != part.name for p in s.stages.values())


def _limit(low: Lowering, part: Part, cond: Node) -> LoopLimit | None:
    """What a comparison says of a loop; None where it says nothing, or the same to all iterations of the loops around it."""
    plans = low.sched.plans
    if cond.src[0].dtype is not index:
        return None
    place = ix.add(cond.src[0], cond.src[1], -1)
    if part.axis not in axes_of(place):
        return None
    terms, c = ix.parts(substitute(place, {a: plans[a].index for a in axes_of(place)}))
    k = terms.pop(part.var, 0)
    if not k or any(t.op != "axis" for t in terms):
        return None
    open_vars = {p.var for p in low.scope.opened.values()}
    around = {t: x for t, x in terms.items() if t in open_vars}
    if not around:
        return None  # (constant limits are `cuts`)
    least, most = ix.bounds(ix.linear({t: x for t, x in terms.items() if t not in open_vars}, c))
    rest = ix.linear(around, 0)
    found = solved(cond, k, (rest, rest), least, most)
    if sum(operations(low.sched, n) for n in low.scope.nests) > WRITTEN:  # (one piece of code, with its masks)
        found = replace(found, sure=const(part.trips if found.begins else 0))
    return found if _varies(part, found.some) else None


def _varies(part: Part, limit: Node) -> bool:
    """Whether a limit goes through most of a loop that is not short. (Else it is that of a window at a border, see `cuts`.)"""
    lo, hi = ix.bounds(limit)
    return part.trips >= LEAST and 2 * (min(hi, part.trips) - max(lo, 0)) >= part.trips


def _within(low: Lowering, part: Part, piece: Piece, limit: LoopLimit) -> Iterator[Piece]:
    """The iterations of a piece that a limit leaves, those first or last for which it holds throughout."""
    if piece.at is not None:
        yield piece
        return
    lo, hi = piece.between or (const(0), trips(low.sched, low.scope, part))

    def inside(at: Node) -> Node:
        return ix.minmax("max", lo, ix.minmax("min", hi, at))

    some, sure = inside(limit.some), inside(limit.sure)
    held = piece.holds | {(limit.cond, part.axis)}
    most = piece.most if limit.between is None else limit.between
    begun = piece.begun | {limit.cond} if limit.first else piece.begun
    every, some_of = replace(piece, holds=held, maybe=True), replace(piece, begun=begun, maybe=True, most=most)
    ends = [(some, sure, some_of), (sure, hi, every)] if limit.begins else [(lo, sure, every), (sure, some, some_of)]
    for first, end, part_of in ends:
        if first is not end:
            yield replace(part_of, between=(first, end))


def through(low: Lowering, loops: Sequence[Part], body: Callable[[], object]) -> None:
    """Run `body` inside loops over `loops`."""
    if not loops:
        body()
        return
    for piece in low.versions(pieces_of_any(low, loops[0])):
        with low.open(loops[0], piece=piece):
            through(low, loops[1:], body)


def wide(ev: NestEval, v: Val) -> Val:
    """`v` in every lane, where the nest has lanes."""
    return ev.b.splat(v, ev.width) if ev.lane is not None else v


def carry(
    low: Lowering,
    loops: Sequence[Part],
    accs: list[Val],
    body: Callable[[list[Val]], list[Val]],
    chains: ShortChains | None = None,
    rest: Callable[[Piece, list[Val]], list[Val]] | None = None,
) -> list[Val]:
    """Run `body` inside loops over `loops`, each carrying `accs`; what the last iteration yields. `chains`: how sums among them are cut;
    `rest`: what is done instead in the last piece of a loop, whose step is not whole."""
    if not loops:
        return body(accs)

    def inside(carried: list[Val]) -> list[Val]:
        return carry(low, loops[1:], carried, body, chains)

    found = trimmed(low, loops[0], low.pieces(loops[0]))
    if chains is not None and chains.fixed:
        return chains.whole(loops, found, accs, inside)
    for piece in found:
        if rest is not None and piece is not found[0]:
            accs = rest(piece, accs)
            continue
        if chains is not None:
            accs = chains.carry(loops, piece, accs, inside)
            continue
        with low.open(loops[0], accs, piece) as loop:
            loop.yields = inside(loop.carried)
        accs = loop.results
    return accs
