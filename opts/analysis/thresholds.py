"""What places decide in a nest, and for which of that its loops are cut at borders (`lower/pieces.py` says where).

Along vector lanes a clamp, a wrap or a mask costs a gather or a masked access for every vector, so there all loops are cut. Without
lanes a clamp is a scalar, which is computed once for a row, and cuts nothing. A comparison does cut there, where the code is short: it is
a mask of whole vectors, or chooses what is computed at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import bool_, index
from ...ir.node import COMPARE, Node, axes_of, reachable, walk
from ...ir.skipped_tiles import conjuncts
from ..nests import Nest
from ..schedule import Scheduled
from .extremes import fully_unrolled
from .interior import interior, likely, quotients

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
    return tuple(dict.fromkeys(t for n in _evaluated(nest, staged) for t in _decided(n)))


def _evaluated(nest: Nest, staged: frozenset[str]) -> Iterator[Node]:
    """The distinct nodes that a nest computes: not the indices of what lies in a staged tile, nor where it stores, which branches
    see to."""
    return reachable((nest.expr, *nest.filled.values()), lambda n: () if n.op == "load" and load_parts(n)[0].name in staged else n.src)


@lru_cache(maxsize=8192)
def _decided(n: Node) -> tuple[Threshold, ...]:
    """What the node itself decides by a place (the model asks it of every mask, for every schedule)."""
    return tuple(_of(n))


def _of(n: Node) -> Iterator[Threshold]:
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
        if not any(x.op in ("load", "ref") for x in walk(place)):
            yield Threshold(place, *ends, n.op in COMPARE)


def cut_for(sched: Scheduled, nest: Nest, threshold: Threshold, work: int) -> bool:
    """Whether loops of `work` operations are cut for what a place decides in one of their nests."""
    lane = sched.lanes(nest).lane
    along = lane is not None and lane.axis in axes_of(threshold.place)
    return work <= (LONG if along else SHORT if threshold.compares else 0)


def cuttable(sched: Scheduled) -> bool:
    """Whether loops are cut at all: where a single thread goes through them."""
    return sched.target.kind != "gpu" and sched.group == 1


def holds_inside(sched: Scheduled, nest: Nest, cond: Node) -> bool:
    """Whether a condition is known to hold away from borders, so that it costs nothing there."""
    if not cuttable(sched):
        return False
    work, known = operations(sched, nest), thresholds(sched, nest)
    for c in conjuncts(cond):
        mine = [t for t in _decided(c) if t in known] if c.op in COMPARE else []
        if not likely(c) or not any(cut_for(sched, nest, t, work) for t in mine):
            return False
    return True


def operations(sched: Scheduled, nest: Nest) -> int:
    """About how many instructions a step of a nest is, places left out."""
    lanes = sched.lanes(nest)
    return prod(p.trips for p in lanes.regs) // lanes.width * _operations(nest, fully_unrolled(sched, nest))


@lru_cache(maxsize=512)
def _operations(nest: Nest, window: bool) -> int:
    """Operations of one point; of a `window` without a loop, whose steps share most of them, without those that cutting saves."""
    return sum(
        n.dtype is not index and n.op not in ("const", "ref") and not (window and (n.dtype is bool_ or n.op == "where"))
        for n in nest.all_nodes
    )
