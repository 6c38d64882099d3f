"""Which tiles of a cut fold run, and with which of the block's conditions known to hold.

A condition that is linear in the folded axis holds from some place on, or up to some place. Over the register copies
and loops inside a tile that gives a range of tiles in which it holds throughout, and a range in which it holds
somewhere. Tiles outside the latter are skipped where the block's state is then the identity (`ir.skipped_tiles`). Limits may
be numbers from memory, such as the lengths of padded rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ..ir import index as ix
from ..ir.body import Fold
from ..ir.node import Node, axes_of, const, walk
from ..ir.operators import substitute
from ..ir.skipped_tiles import conditions, skip_conditions, threshold
from .axis_plan import Part
from .nests import FoldItem
from .schedule import Scheduled

MOST_SAMPLED = 4096


@dataclass(frozen=True, slots=True)
class Range:
    """Tiles [lo, hi) of a fold, in which the conditions `holds` (over the folded axis) are true, wherever in the block they stand."""

    lo: Node
    hi: Node
    holds: frozenset[Node] = frozenset()


def ranges(s: Scheduled, f: Fold, cut: Part, opened: Collection[Node]) -> list[Range]:
    """The tiles to run, in order, as indices over the variables of the loops around the fold (`opened`)."""
    tiles = cut.size if isinstance(cut.size, Node) else const(cut.size)
    first, last = const(0), tiles
    begin, end = const(0), tiles
    holds: set[Node] = set()
    may_skip = skip_conditions(f)
    for c in conditions(f):
        found = threshold(c, f.axis)
        if found is None:
            continue
        k, rest = found
        fixed, least, most = _spread(s, rest, opened)
        step, reach = abs(k) * cut.stride, k * (cut.stride - 1)
        throughout, somewhere = ix.add(fixed, const(least + min(0, reach))), ix.add(fixed, const(most + max(0, reach)))
        if k < 0:
            end = ix.minmax("min", end, ix.add(ix.floordiv(throughout, step), const(1)))
            last = ix.minmax("min", last, ix.add(ix.floordiv(somewhere, step), const(1))) if c in may_skip else last
        else:
            begin = ix.minmax("max", begin, ix.ceildiv(ix.mul(throughout, const(-1)), step))
            first = ix.minmax("max", first, ix.ceildiv(ix.mul(somewhere, const(-1)), step)) if c in may_skip else first
        holds.add(c)
    if not holds:
        return [Range(first, last)]
    begin = ix.minmax("min", ix.minmax("max", begin, first), last)
    end = ix.minmax("min", ix.minmax("max", end, begin), last)
    found_ranges = (Range(first, begin), Range(begin, end, frozenset(holds)), Range(end, last))
    return [r for r in found_ranges if ix.compare("lt", r.lo, r.hi) is not const(False) and r.lo is not r.hi]


def _spread(s: Scheduled, rest: Node, opened: Collection[Node]) -> tuple[Node, int, int]:
    """An index over axes as (what the open loops fix, least and most of what is left)."""
    terms, c = ix.parts(rest)
    loaded = {t: k for t, k in terms.items() if t.op == "cast"}
    terms, c = ix.parts(s.at_parts(ix.add(rest, ix.linear(loaded, 0), -1)))
    fixed: dict[Node, int] = {}
    least = most = 0
    for t, k in (*terms.items(), *loaded.items()):
        if axes_of(s.at_parts(t)) <= set(opened):
            fixed[t] = k
        else:
            lo, hi = ix.bounds(t)
            least, most = least + min(k * lo, k * hi), most + max(k * lo, k * hi)
    return ix.linear(fixed, c), least, most


def loaded_limits(found: Collection[Range]) -> list[Node]:
    """The numbers from memory, over axes, that the limits of some ranges have as terms."""
    return list(dict.fromkeys(n for r in found for n in walk(r.lo, r.hi) if n.op == "cast"))


def _typical(n: Node, most: int) -> Node:
    """A limit with a number for each one that is read: the middle of what it may be."""
    table = {}
    for x in walk(n):
        if x.op == "cast":
            lo, hi = ix.bounds(x)
            table[x] = const((max(lo, 0) + min(hi, most)) // 2)
    return substitute(n, table)


def share(s: Scheduled, item: FoldItem) -> float:
    """The part of a cut fold's tiles that is run, over all iterations of the loops around it; 1 where it cannot be told."""
    cut = next((s.plans[a].fold for n in item.nests for a in n.all_axes if s.plans[a].fold), None)
    if cut is None or not isinstance(cut.size, int) or not skip_conditions(item.fold):
        return 1.0
    loops = [p for p in s.loops(item.nests[0]) if s.position[p.name] < s.position[cut.name]]
    most = cut.size * cut.stride
    run = [Range(_typical(r.lo, most), _typical(r.hi, most)) for r in ranges(s, item.fold, cut, {p.var for p in loops})]
    used = [p for p in loops if any(p.var in axes_of(r.lo, r.hi) for r in run)]
    trips = 1
    for p in used:
        trips *= p.trips
    if any(not isinstance(p.size, int) for p in used) or trips > MOST_SAMPLED:
        return 1.0
    return _counted(tuple((r.lo, r.hi) for r in run), tuple((p.var, p.trips) for p in used)) / (trips * cut.size)


@lru_cache(maxsize=256)
def _counted(run: tuple[tuple[Node, Node], ...], loops: tuple[tuple[Node, int], ...]) -> int:
    """Tiles in the ranges `run`, over all iterations of `loops`."""
    points = list(product(*(range(trips) for _, trips in loops)))
    known = {var: [at[i] for at in points] for i, (var, _) in enumerate(loops)}
    bounds = [[_column(n, known, len(points)) for n in r] for r in run]
    return sum(max(0, hi - lo) for lows, highs in bounds for lo, hi in zip(lows, highs, strict=True))


def _column(n: Node, known: dict[Node, list[int]], points: int) -> list[int]:
    """An index at all points; `known`: those of its parts that were asked before."""
    found = known.get(n)
    if found is None:
        src = [_column(s, known, points) for s in n.src]
        if n.op == "sum":
            coeffs, c = n.arg
            found = [c] * points
            for k, column in zip(coeffs, src, strict=True):
                found = [a + k * x for a, x in zip(found, column, strict=True)]
        elif n.op in ("min", "max"):
            found = list(map(min if n.op == "min" else max, *src))
        elif n.op == "div":
            found = [x // n.arg for x in src[0]]
        else:
            found = [ix.evaluate(n, dict(zip(n.src, at, strict=True))) for at in zip(*src)] if src else [ix.evaluate(n, {})] * points
        known[n] = found
    return found
