"""What a sum over pairs in some order leaves out: `where(k < i, f, 0)` goes through a part of the pairs only, and most steps of it need no
mask (`lower/emit/nest_loops.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.node import Node, axes_of, const, ordered_axes, walk
from ...ir.operators import substitute
from ..nests import Nest
from ..schedule import Scheduled
from .places import combine_of
from .ragged import LONG, conditions, left_out, selected
from .thresholds import cuttable, operations

SAMPLES = 16
"""Places of each axis that are looked at."""
LEAST = 8
"""Iterations from which on a loop is worth limits of its own."""


def triangles(s: Scheduled, nest: Nest) -> tuple[Node, ...]:
    """The conditions of a reduction that limit one of its loops by where others are."""
    if nest.kind != "reduce" or not cuttable(s) or nest.filled or any(nest.name in x for x in (s.dots, s.tensors, s.places)):
        return ()
    return tuple(c for c in conditions(nest) if c.src[0].dtype is index and any(_limits(s, nest, c)))


def share(s: Scheduled, nest: Nest) -> float:
    """The part of a reduction's steps that is taken because of such conditions: of what they leave, and half a step of each loop more."""
    found = triangles(s, nest)
    if not found:
        return 1.0
    axes = dict.fromkeys(a for c in found for a in ordered_axes(c))
    return min(1.0, _left(found) + sum(s.plans[a].block / (2 * max(1, ix.upper(a.arg.extent))) for a in axes))


@lru_cache(maxsize=256)
def _left(found: tuple[Node, ...]) -> float:
    """The part of all places at which some conditions hold."""
    axes = sorted({a for c in found for a in axes_of(c)}, key=lambda a: str(a.arg.name))
    places = [[(2 * i + 1) * ix.upper(a.arg.extent) // (2 * SAMPLES) for i in range(SAMPLES)] for a in axes]
    held = [all(_holds(c, dict(zip(axes, at, strict=True))) for c in found) for at in product(*places)]
    return sum(held) / len(held)


def masks(s: Scheduled, nest: Nest) -> frozenset[Node]:
    """What steps do not compute where they are taken for all register copies: the conditions, the selection by them, and the product
    that it selects, which is part of the sum then. Where data leaves out whole steps (`ragged.left_out`), the selection."""
    found = triangles(s, nest)
    if not found and nest.kind == "reduce" and left_out(s, nest):
        return frozenset(n for n in (selected(nest),) if n is not None)
    if not found or operations(s, nest) > LONG:
        return frozenset()
    where, out = selected(nest), {n for c in found for n in walk(c)}
    if where is not None and where.op == "where" and set(conditions(nest)) == set(found):
        out.add(where)
        if where is nest.expr and where.dtype.is_float and combine_of(nest) == "add":
            out |= {n for n in where.src[1:2] if n.op == "mul"}
    return frozenset(out)


def _limits(s: Scheduled, nest: Nest, cond: Node) -> Iterator[bool]:
    """For each axis of a reduction, whether a condition limits a loop over it."""
    mine = axes_of(cond)
    plain = not s.rings and all(x.op in ("axis", "const", "sum", "prod") for side in cond.src for x in walk(side))
    around: set[Node] = set()
    for p in (q for q in s.loops(nest) if q.loop or q.kind == "grid"):
        staged = any(t.at.name == p.name for t in s.stages.values())
        yield plain and p.axis in nest.reduce_axes and p.axis in mine and bool(around & mine) and p.trips >= LEAST and not staged
        around.add(p.axis)


def _holds(cond: Node, at: dict[Node, int]) -> bool:
    """Whether a comparison holds at a place."""
    a, b = (ix.bounds(substitute(side, {x: const(n) for x, n in at.items()}))[0] for side in cond.src)
    return a < b if cond.op == "lt" else a <= b
