"""Where a loop is cut so that places decide little inside its pieces: index-set splitting.

A clamp `max(i − 1, 0)`, a wrap `(i + 1) mod n`, a mask `i − k >= 0` or a selection `i < 3` compares places. Along vector lanes each
costs a gather or a mask for every vector, though all but those at a border know the answer. So the loops of an axis are cut where
an answer begins to be known for a whole step, whatever the other loops do: intervals of all other variables say where. Each piece
then simplifies its indices by its own range (`narrow`), so a cut at a wrong place costs code and never correctness.

Clamps of an axis without lanes are scalars, which are computed once for a row, and cut nothing. Comparisons there do cut, where the code
is short: they are masks of whole vectors, or choose what is computed at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..ir import index as ix
from ..ir.buffer import load_parts
from ..ir.dtypes import index
from ..ir.node import COMPARE, Node, axes_of
from ..ir.operators import substitute
from ..opts.axis_plan import Part
from ..opts.interior import interior, quotients
from ..opts.nests import Nest
from ..opts.schedule import Scheduled
from .narrow import Ranges, bounds
from .part_index import reads_memory

PIECES = 4
"""Pieces of one loop at most."""
SHORT = 160
"""Operations of a step of all nests in a loop, up to which comparisons cut the loops of axes without lanes."""
LONG = 4000
"""From here on nothing is cut: the code would take longer to build than the borders cost."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Something that is known where `place` <= `low`, and where `place` >= `high`: an index over axes, as it is away from other
    borders. `compares`: a comparison, and no clamp."""

    place: Node
    low: int
    high: int
    compares: bool


def cut_points(sched: Scheduled, ranges: Ranges, nests: Sequence[Nest], part: Part, last: int) -> list[int]:
    """Iterations of the loop `part`, between the first and `last`, at which a new piece is to begin, in order."""
    found: set[int] = set()
    if sched.target.kind == "gpu" or sched.group > 1 or last < 2:
        return []
    mine = [(n, t) for n in nests for t in thresholds(sched, n) if part.axis in axes_of(t.place)]
    if not mine:
        return []
    work = sum(_operations(sched, n) for n in nests)
    for n, t in mine:
        lane = sched.lanes(n).lane
        along = lane is not None and lane.axis in axes_of(t.place)
        if work <= (LONG if along else SHORT if t.compares else 0):
            found |= {p for p in _begins(sched, ranges, part, t) if 0 < p < last}
    return _fewer(sorted(found), last)


def thresholds(sched: Scheduled, nest: Nest) -> tuple[Threshold, ...]:
    """What places decide in a nest."""
    if nest.kind == "reduce" and (nest.name in sched.dots or nest.name in sched.tensors):
        return ()  # (matrix instructions mask their operands)
    if any(sched.plans[a].fold is not None for a in nest.all_axes):
        return ()  # (the tiles of a fold are done in ranges of their own)
    staged = frozenset(s.buffer.name for s in sched.stages.values() if any(n is nest for n in s.nests))
    return _thresholds(nest, staged)


@lru_cache(maxsize=512)
def _thresholds(nest: Nest, staged: frozenset[str]) -> tuple[Threshold, ...]:
    return tuple(dict.fromkeys(t for n in _evaluated(nest, staged) for t in _of(n)))


def _evaluated(nest: Nest, staged: frozenset[str]) -> Iterator[Node]:
    """The distinct nodes that a nest computes: not the indices of what lies in a staged tile, nor where it stores, which branches
    see to."""
    seen: set[Node] = set()
    stack = [nest.expr, *nest.filled.values()]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        yield n
        if n.op != "load" or load_parts(n)[0].name not in staged:
            stack.extend(n.src)


def _of(n: Node) -> Iterator[Threshold]:
    """What the node itself decides by a place."""
    if not n.src or n.src[0].dtype is not index or (n.op in ("min", "max") and n.dtype is not index):
        return
    if n.op in ("div", "mod") and n.dtype is index:
        found = quotients(n.src[0], n.arg)
        for q in found[1:] if found is not None else ():
            yield Threshold(interior(n.src[0]), q * n.arg - 1, q * n.arg, False)
        return
    ends = {"min": (0, 0), "max": (0, 0), "lt": (-1, 0), "le": (0, 1), "eq": (-1, 1), "ne": (-1, 1)}.get(n.op)
    if ends is not None:
        place = interior(ix.add(n.src[0], n.src[1], -1))
        if not reads_memory(place):
            yield Threshold(place, *ends, n.op in COMPARE)


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


def _operations(sched: Scheduled, nest: Nest) -> int:
    """About how many instructions a step of a nest is, places left out."""
    lanes = sched.lanes(nest)
    copies = prod(p.trips for p in lanes.regs) // lanes.width
    return copies * sum(n.dtype is not index and n.op not in ("const", "ref") for n in nest.all_nodes)
