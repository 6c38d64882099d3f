"""Borders written as a choice: `where(i == 0, n − 1, i − 1)` is `(i − 1) mod n`, `where(i == 0, 0, i − 1)` is `max(i − 1, 0)`, and
`where(i == 0, 1, i − 1)` is `max(i − 1, 1 − i)`. Blocks, loops and estimates know remainders and extremes (`opts/analysis`)."""

from __future__ import annotations

from collections.abc import Iterator

from . import index as ix
from .dtypes import index
from .index import Interval
from .node import Node, const
from .op_names import COMPARE

Line = tuple[int, int]
"""(slope, value where the place is 0)."""


def as_border(cond: Node, a: Node, b: Node) -> Node | None:
    """`a` where `cond` compares places and holds, else `b`, as the remainder, the minimum or the maximum that this is; None where it is
    none of them.

    Both have to be numbers or to move with the place, which is the difference of what is compared. Then either is a line over an interval of
    places, and ends of intervals say all. A number that is chosen at one place is on lines of any slope."""
    sets = _chosen(cond)
    if sets is None:
        return None
    place = ix.add(cond.src[0], cond.src[1], -1)
    for first in _lines(a, place, sets[0]):
        for second in _lines(b, place, sets[1]):
            n = abs(first[1] - second[1])
            if first[0] == second[0] and n and all(0 <= v < n for line, at in zip((first, second), sets) for v in _values(line, at)):
                return ix.mod(_written(first, place), n)
            above = [v - w for line, other, at in ((first, second, sets[0]), (second, first, sets[1])) for v, w in _both(line, other, at)]
            if all(v >= 0 for v in above) or all(v <= 0 for v in above):
                return ix.minmax("max" if max(above) > 0 else "min", _written(first, place), _written(second, place))
    return None


def _chosen(cond: Node) -> tuple[Interval, Interval] | None:
    """The intervals of places for which a comparison holds, and does not; None where one of them is none, or not known."""
    if cond.op not in COMPARE or cond.src[0].dtype is not index:
        return None
    lo, hi = ix.bounds(ix.add(cond.src[0], cond.src[1], -1))
    if lo <= -ix.BIG or hi >= ix.BIG:
        return None
    if cond.op in ("lt", "le"):
        last = -1 if cond.op == "lt" else 0
        return (lo, last), (last + 1, hi)
    if lo != 0 and hi != 0:
        return None
    sets = (0, 0), ((1, hi) if lo == 0 else (lo, -1))
    return sets if cond.op == "eq" else (sets[1], sets[0])


def _lines(x: Node, place: Node, at: Interval) -> Iterator[Line]:
    """The lines on which an index is for all places of an interval."""
    for slope in (0, 1, -1):
        terms, c = ix.parts(ix.add(x, place, -slope))
        if not terms:
            yield slope, c
        elif slope and x.op == "const" and at[0] == at[1]:
            yield slope, x.arg - slope * at[0]


def _values(line: Line, at: Interval) -> Iterator[int]:
    """The least and the largest of a line, in some order."""
    return (line[0] * d + line[1] for d in at)


def _both(line: Line, other: Line, at: Interval) -> Iterator[tuple[int, int]]:
    return zip(_values(line, at), _values(other, at), strict=True)


def _written(line: Line, place: Node) -> Node:
    return ix.add(ix.mul(place, const(line[0])), const(line[1]))
