"""Which tiles of a cut fold run, and with which of the block's conditions known to hold.

A condition that is linear in the folded axis holds from some place on, or up to some place. Over the register copies and loops inside a tile that gives a range of
tiles in which it holds throughout, and a range in which it holds somewhere. Tiles outside the latter are skipped where the block is then idle (`ir.idle`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.idle import conditions, idle, threshold
from ..ir.kernel import Fold
from ..ir.node import Node, axes_of, const
from ..opts.plan_axis import Part

if TYPE_CHECKING:
    from .lowering import Lowering


@dataclass(frozen=True, slots=True)
class Range:
    """Tiles [lo, hi) of a fold, in which the conditions `holds` (as they are written at their sites) are true."""

    lo: Node
    hi: Node
    holds: frozenset[Node] = frozenset()


def ranges(low: Lowering, f: Fold, cut: Part) -> list[Range]:
    """The tiles to run, in order."""
    tiles = cut.size if isinstance(cut.size, Node) else const(cut.size)
    first, last = const(0), tiles
    begin, end = const(0), tiles
    holds: set[Node] = set()
    may_skip = idle(f)
    for c, sites in conditions(f).items():
        found = threshold(c, f.axis)
        if found is None:
            continue
        k, rest = found
        fixed, least, most = _spread(low, rest)
        step, reach = abs(k) * cut.stride, k * (cut.stride - 1)
        throughout, somewhere = ix.add(fixed, const(least + min(0, reach))), ix.add(fixed, const(most + max(0, reach)))
        if k < 0:
            end = ix.minmax("min", end, ix.add(ix.floordiv(throughout, step), const(1)))
            last = ix.minmax("min", last, ix.add(ix.floordiv(somewhere, step), const(1))) if c in may_skip else last
        else:
            begin = ix.minmax("max", begin, ix.ceildiv(ix.mul(throughout, const(-1)), step))
            first = ix.minmax("max", first, ix.ceildiv(ix.mul(somewhere, const(-1)), step)) if c in may_skip else first
        holds.update(sites)
    if not holds:
        return [Range(first, last)]
    begin = ix.minmax("min", ix.minmax("max", begin, first), last)
    end = ix.minmax("min", ix.minmax("max", end, begin), last)
    found_ranges = (Range(first, begin), Range(begin, end, frozenset(holds)), Range(end, last))
    return [r for r in found_ranges if ix.compare("lt", r.lo, r.hi) is not const(False) and r.lo is not r.hi]


def _spread(low: Lowering, rest: Node) -> tuple[Node, int, int]:
    """An index over axes as (what the open loops fix, least and most of what is left)."""
    terms, c = ix.parts(low.sched.at_parts(rest))
    opened = {p.var for p in low.opened.values()}
    fixed: dict[Node, int] = {}
    least = most = 0
    for t, k in terms.items():
        if axes_of(t) <= opened:
            fixed[t] = k
        else:
            lo, hi = ix.bounds(t)
            least, most = least + min(k * lo, k * hi), most + max(k * lo, k * hi)
    return ix.linear(fixed, c), least, most


@contextmanager
def run(low: Lowering, cut: Part, r: Range) -> Iterator[None]:
    """Inside: the loop over a range of tiles."""
    some = ix.compare("lt", r.lo, r.hi)
    before, low.holds = low.holds, low.holds | r.holds
    if some.op == "const":
        with low.open(cut, between=(r.lo, r.hi)):
            yield
    else:
        with low.b.when(low.b.op("lt", low.scalar(r.lo), low.scalar(r.hi))), low.open(cut, between=(r.lo, r.hi)):
            yield
    low.holds = before
