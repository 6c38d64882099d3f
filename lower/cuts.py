"""Where a loop is cut so that places decide little inside its pieces: index-set splitting.

A clamp `max(i − 1, 0)`, a wrap `(i + 1) mod n`, a mask `i − k >= 0` or a selection `i < 3` compares places, though all points but those
at a border know the answer (`opts/analysis/thresholds.py` says which of them count). So the loops of an axis are cut where an answer begins to be
known for a whole step, whatever the other loops do: intervals of all other variables say where. Each piece then simplifies its indices
by its own range (`narrow`), so a cut at a wrong place costs code and never correctness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir import index as ix
from ..ir.node import axes_of
from ..ir.operators import substitute
from ..opts.analysis.thresholds import Threshold, cut_for, cuttable, operations, thresholds
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..opts.schedule import Scheduled
from .narrow import Ranges, bounds

PIECES = 4
"""Pieces of one loop at most."""


def cut_points(sched: Scheduled, ranges: Ranges, nests: Sequence[Nest], part: Part, last: int) -> list[int]:
    """Iterations of the loop `part`, between the first and `last`, at which a new piece is to begin, in order."""
    found: set[int] = set()
    if not cuttable(sched) or last < 2:
        return []
    mine = [(n, t) for n in nests for t in thresholds(sched, n) if part.axis in axes_of(t.place)]
    if not mine:
        return []
    work = sum(operations(sched, n) for n in nests)
    for n, t in mine:
        if cut_for(sched, n, t, work):
            found |= {p for p in _begins(sched, ranges, part, t) if 0 < p < last}
    return _fewer(sorted(found), last)


def _begins(sched: Scheduled, ranges: Ranges, part: Part, t: Threshold) -> Iterator[int]:
    """The first iterations at which something is not yet, or no longer, open."""
    place = substitute(t.place, {a: sched.plans[a].index for a in axes_of(t.place)})
    terms, c = ix.parts(place)
    k = terms.pop(part.var, 0)
    if not k or any(part.var in axes_of(x) for x in terms):
        return
    rest = ix.linear(terms, c)
    lo, hi = bounds(rest, ranges)
    low, high = t.low, t.high
    if k < 0:
        k, lo, hi, low, high = -k, -hi, -lo, -high, -low
    # k·p + rest <= low for all of rest up to some iteration, and >= high from some iteration on
    if max(abs(lo), abs(hi)) < ix.BIG:
        yield (low - hi) // k + 1
        yield -((lo - high) // k)


def _fewer(cuts: list[int], last: int) -> list[int]:
    """As many cuts as there may be: the shortest neighbours stay together."""
    while len(cuts) >= PIECES:
        ends = [0, *cuts, last]
        least = min(range(1, len(ends) - 1), key=lambda i: ends[i + 1] - ends[i - 1])
        del cuts[least - 1]
    return cuts
