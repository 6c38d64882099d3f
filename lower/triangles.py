"""Loops of a reduction that begin and end where something is reduced, and those of a scatter where something is combined.

A sum over pairs i < j is written as one over all of them, of what is 0 elsewhere: `where(i < j, f, 0)`. For every i the loop over j needs to
go through what is right of it only, as in a triangle. What is right of all register copies of i needs no mask either, and has code of its
own. Of a combine other than a sum its own neutral element counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..ir import index as ix
from ..ir.dtypes import index
from ..ir.node import Node, axes_of, const
from ..ir.operators import substitute
from ..ir.text import order_key
from ..opts.analysis.ragged import LONG as WRITTEN
from ..opts.analysis.ragged import conditions, scatters
from ..opts.analysis.thresholds import cuttable, operations
from ..opts.analysis.triangles import LEAST
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..opts.schedule import Scheduled
from . import ragged
from .limits import LoopLimit, solved
from .lowering import Lowering
from .pieces import Piece, trips


def trimmed(low: Lowering, part: Part, found: Sequence[Piece]) -> list[Piece]:
    """The pieces `found` of a loop over `part` of the reductions that are being opened, without iterations that reduce nothing."""
    if not _triangular(low, part):
        return list(found)
    kept = [set(conditions(n)) for n in low.scope.nests]
    common = sorted(set.intersection(*kept), key=order_key)
    limits = [t for c in common for t in (_limit(low, part, c) or ragged.limit(low, part, c),) if t is not None]
    out = list(found)
    for limit in limits:
        out = [p for piece in out for p in _within(low, part, piece, limit)]
    return out


def begun(low: Lowering, part: Part) -> list[Piece]:
    """The pieces of a loop around anything: trimmed where there are scatters alone. (What a reduction adds up in memory is cleared in the
    first iteration of its outer loops.)"""
    found = low.pieces(part)
    return trimmed(low, part, found) if all(map(scatters, low.scope.nests)) else found


def _triangular(low: Lowering, part: Part) -> bool:
    """Whether the reductions that are being opened may leave out iterations of a loop."""
    s, nests = low.sched, low.scope.nests
    if not nests or not cuttable(s) or part.kind == "fold" or low.scope.closing or not _plain(s, part):
        return False
    return part.kind != "grid" and all(part.axis in (n.axes if scatters(n) else _reduced(s, n)) for n in nests)


def _reduced(s: Scheduled, n: Nest) -> tuple[Node, ...]:
    """The axes of a reduction that leaves out iterations; none where it is no such."""
    special = (s.dots, s.tensors, s.places)
    return n.reduce_axes if n.kind == "reduce" and not n.filled and not any(n.name in x for x in special) else ()


def _plain(s: Scheduled, part: Part) -> bool:
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
    ends = [(some, sure, piece.holds), (sure, hi, held)] if limit.begins else [(lo, sure, held), (sure, some, piece.holds)]
    for first, end, holds in ends:
        if first is not end:
            yield replace(piece, between=(first, end), holds=holds, maybe=True)
