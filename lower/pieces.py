"""What holds where code is emitted (`Scope`), and loops in pieces.

The last step of a loop may reach past its axis' extent. Whole steps need no masks and are nearly all of the loop, so they have code
of their own. The last step has a known place: its masks are constants. While the last step of an axis' innermost loop is open, other
axes are not split, since the corner is small and would have four versions. Borders are pieces too (`cuts`); while a short piece is
open, other axes are not cut. Extents that are symbols, and languages with groups of threads, keep their masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from ..ir import index as ix
from ..ir.index import Interval
from ..ir.node import Node, axes_of, const
from ..ir.operators import substitute
from ..opts.analysis.thresholds import Threshold, cut_for, cuttable, operations, thresholds
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..opts.plans import StagePlan
from ..opts.schedule import Scheduled
from ..program.program import Mem
from .part_index import Ranges, as_node, bounds


class Closing(Protocol):
    """Takes over the accumulators of the reduction that ends a fold's block."""

    def close(self, n: Nest) -> Callable[[], None] | None:
        """What merges the accumulators of one point; None where that cannot be done here."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of the code that is emitted next.

    `opened`: loops that are open, outer to inner. `nests`: the nests whose loops are being opened, which decides what is staged.
    `tiles`: staged tiles that are filled. `holds`: conditions known to hold, each with the folded axis it is written over; `begun`: those that hold in the first register copy. `whole`:
    axes along which no point past the extent is reached. `fixed`: loop variables whose value is known. `ranges`: of loop variables,
    the first and last iteration of the piece that is open. `border`: the axis of which a short piece is open. `ragged`: axes whose last,
    partial step is open. `streaming`: the outputs that are stored to past the caches. `closing`: by name of a reduction, who takes
    its accumulators. `copies`: which register copy of some parts the code is for, where it is not for all."""

    opened: Mapping[str, Part] = field(default_factory=dict)
    nests: tuple[Nest, ...] = ()
    tiles: Mapping[str, tuple[StagePlan, Mem]] = field(default_factory=dict)
    holds: frozenset[tuple[Node, Node]] = frozenset()
    begun: frozenset[Node] = frozenset()
    whole: frozenset[Node] = frozenset()
    fixed: Mapping[Node, Node] = field(default_factory=dict)
    ranges: Mapping[Node, Interval] = field(default_factory=dict)
    border: Node | None = None
    ragged: frozenset[Node] = frozenset()
    streaming: frozenset[str] = frozenset()
    closing: Mapping[str, Closing] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)


# cuts -----------------------------------------------------------------------------------------------------------------
# Index-set splitting: a clamp `max(i − 1, 0)`, a wrap `(i + 1) mod n`, a mask `i − k >= 0` or a selection `i < 3`
# compares places, though all points but those at a border know the answer (`opts/analysis/thresholds.py` says which
# of them count). A loop is cut where an answer begins to be known for a whole step, whatever the other loops do. Each
# piece then simplifies its indices by its own range, so a cut at a wrong place costs code and never correctness.


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


BORDER = 8
"""A piece that is so many times shorter than the longest is a border."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Iterations `between` two of a loop, all of them if that is None. `whole`: axes of which they reach no point past the extent.
    `at`: their only number, where it is known. `partial`: the last step, which is not whole. `border`: few of the loop's iterations.
    `holds`: conditions that hold in all of them, each with the axis of the loop; `begun`: those that hold in the first of
    their register copies. `maybe`: there may be no iteration `between` the
    two; `most`: how many there are at most, where that is known."""

    between: tuple[Node, Node] | None = None
    whole: frozenset[Node] = frozenset()
    at: int | None = None
    partial: bool = False
    border: bool = False
    holds: frozenset[tuple[Node, Node]] = frozenset()
    begun: frozenset[Node] = frozenset()
    maybe: bool = False
    most: int | None = None


ALL = Piece()


def masked(sched: Scheduled, scope: Scope, axis: Node) -> bool:
    """Whether register copies along an axis can reach past its extent here."""
    return axis not in scope.whole and sched.plans[axis].masked


def pieces(sched: Scheduled, scope: Scope, nests: Sequence[Nest], part: Part) -> list[Piece]:
    """The pieces of the loop of some nests that is about to be opened, in order."""
    if any(r.blocks is part.axis for r in sched.rings.values()):  # one piece of code, for rings stay where they are
        return [ALL]
    ring = next((r for r in sched.rings.values() if r.along is part.axis), None)
    if ring is not None:  # all of the first block, and what is new of the others
        kept, block = const(ring.kept // part.stride), sched.plans[ring.blocks].index
        return [Piece((ix.minmax("min", ix.mul(block, kept), kept), const(part.trips)))]
    found = _counts(sched, scope, part)
    known = found is not None or (isinstance(part.size, int) and (not part.clip or part.axis in scope.whole))
    full, trips = found or (part.trips, part.trips)
    cuts = cut_points(sched, scope.ranges, nests, part, trips) if known and scope.border in (None, part.axis) else []
    axes = frozenset({part.axis})
    if not cuts:
        return [ALL] if found is None else cut(const(0), const(trips), full, axes)
    ends = sorted({0, *cuts, full, trips})
    longest = max(b - a for a, b in pairwise(ends))
    out = []
    for a, b in pairwise(ends):
        whole = axes if b <= full and found is not None else frozenset()
        at = a if b == a + 1 else None
        out.append(Piece((const(a), const(b)), whole, at, b > full, (b - a) * BORDER <= longest))
    return out


def cut(lo: Node, hi: Node, full: int, axes: frozenset[Node]) -> list[Piece]:
    """Iterations [lo, hi), of which the first `full` of the loop are whole along `axes`, and at most one is not."""
    first = Piece((lo, ix.minmax("min", hi, const(full))), axes)
    last = Piece((ix.minmax("max", lo, const(full)), hi), at=full, partial=True)
    return [p for p in (first, last) if p.between is not None and ix.compare("lt", *p.between) is not const(False)]


def first_split(sched: Scheduled, scope: Scope, part: Part, found: Sequence[Piece]) -> list[Piece]:
    """The pieces of a loop with its first iteration apart, where their numbers are known."""
    lo, hi = found[0].between or (const(0), trips(sched, scope, part))
    if lo is not const(0) or hi.op != "const" or hi.arg <= 1:
        return list(found)
    first = replace(found[0], between=(lo, const(1)), at=0, border=True)
    return [first, replace(found[0], between=(const(1), hi)), *found[1:]]


def splits(sched: Scheduled, scope: Scope, axis: Node) -> bool:
    """Whether loops of an axis are done in pieces here."""
    others = scope.ragged - scope.whole
    known = isinstance(sched.plans[axis].extent, int) and not sched.target.groups
    return masked(sched, scope, axis) and known and (not others or axis in others)


def _counts(sched: Scheduled, scope: Scope, part: Part) -> tuple[int, int] | None:
    """(whole iterations, iterations) of a loop over a masked axis, where they are known."""
    if not splits(sched, scope, part.axis) or not isinstance(part.size, int):
        return None
    plan = sched.plans[part.axis]
    base = const(0)
    for p in (plan.fold, *plan.parts):
        if p is not None and p is not part and p.name in scope.opened:
            base = ix.add(base, scope.fixed.get(p.var, p.var), p.stride)
    if base.op != "const":
        return None
    assert isinstance(plan.extent, int)
    left = plan.extent - int(base.arg)
    return min(part.size, left // part.stride), min(part.size, -(-left // part.stride))


def entered(sched: Scheduled, scope: Scope, part: Part, piece: Piece) -> Scope:
    """The scope inside a piece of a loop."""
    fixed, ragged, ranges = scope.fixed, scope.ragged, scope.ranges
    if piece.between is not None and all(n.op == "const" for n in piece.between):
        ranges = {**ranges, part.var: (piece.between[0].arg, piece.between[1].arg - 1)}
    if piece.at is not None:
        fixed, ranges = {**fixed, part.var: const(piece.at)}, {**ranges, part.var: (piece.at, piece.at)}
    if piece.partial:
        # a last tile may be nearly whole; what is less than a step of the innermost loop is little work
        ragged |= {a for a, p in sched.plans.items() if (p.fold is part or a is part.axis) and p.block == part.stride}
    border = part.axis if piece.border else scope.border
    scope = replace(scope, holds=scope.holds | piece.holds, begun=scope.begun | piece.begun, whole=scope.whole | piece.whole)
    return replace(scope, fixed=fixed, ranges=ranges, border=border, ragged=ragged)


def trips(sched: Scheduled, scope: Scope, part: Part) -> Node:
    """How often a loop runs, no further than its axis' extent."""
    size = as_node(part.size)
    if not part.clip or part.axis in scope.whole:
        return size
    plan = sched.plans[part.axis]
    base = const(0)
    if plan.fold:
        base = ix.add(base, plan.fold.var, plan.fold.stride)
    for p in plan.parts[: [p.name for p in plan.parts].index(part.name)]:
        base = ix.add(base, p.var, p.stride)
    extent = as_node(plan.extent)
    return ix.minmax("min", size, ix.ceildiv(ix.add(extent, base, -1), part.stride))
