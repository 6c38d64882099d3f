"""Indices as they are away from borders: clamps, reflections, wraps and selections by a place, each decided as it is for most points.

Splitting an index set (M. Wolfe, "Optimizing Supercompilers for Supercomputers", 1989; Halide calls it loop partitioning) gives the
inside of an axis code of its own, in which `max(i − 1, 0)` is `i − 1`. Lanes, strides and estimates look at that code, since nearly all
points run it; `lower/pieces.py` makes it."""

from __future__ import annotations

from functools import lru_cache

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.index import BIG
from ...ir.node import COMPARE, Node, axes_of, const, pending
from ...ir.operators import rebuild

MOST = 4
"""Quotients of a division at most: with more, no part of the axis is most of it."""
_KEPT = 2048
"""Indices whose interiors are kept: every schedule of a kernel asks for the same again and again."""


@lru_cache(maxsize=_KEPT)
def interior(node: Node) -> Node:
    """An index over axes, as it is for most points; `node` where nothing in it is decided by a place."""
    memo: dict[Node, Node] = {}
    for n in pending(node, memo.__contains__):
        whole = not n.src or n.op in ("load", "ref")
        memo[n] = n if whole else _decided(rebuild(n, tuple(memo[s] for s in n.src)))
    return memo[node]


def middle(node: Node) -> int | None:
    """The middle of an index' interval; None where it is not known, or follows from symbols (no loop is cut at a symbol)."""
    lo, hi = ix.bounds(node)
    if lo <= -BIG or hi >= BIG or any(not isinstance(a.arg.extent, int) for a in axes_of(node)):
        return None
    return (lo + hi) // 2


def quotients(node: Node, n: int) -> range | None:
    """⌊node / n⌋, where that is one of a few numbers."""
    lo, hi = ix.bounds(node)
    found = range(lo // n, hi // n + 1) if lo > -BIG and hi < BIG else None
    return found if found is not None and len(found) <= MOST else None


def _decided(n: Node) -> Node:
    if n.dtype is not index:
        return n
    if n.op in ("min", "max"):
        less = _sign(n.src[0], n.src[1])
        return n if less is None else n.src[0] if (less < 0) == (n.op == "min") else n.src[1]
    if n.op in ("mod", "div"):
        at = middle(n.src[0])
        if at is None or quotients(n.src[0], n.arg) is None:
            return n
        q = at // n.arg
        return const(q) if n.op == "div" else ix.add(n.src[0], const(-q * n.arg))
    if n.op == "where":
        holds = likely(n.src[0])
        return n if holds is None else n.src[1] if holds else n.src[2]
    return n


def _sign(a: Node, b: Node) -> int | None:
    """About a − b; None where it may be either for many values of several axes, which no cut of one of them decides."""
    place = ix.add(a, b, -1)
    lo, hi = ix.bounds(place)
    even = min(-lo, hi) * MOST > max(-lo, hi)
    return None if even and len(axes_of(place)) > 1 else middle(place)


def likely(cond: Node) -> bool | None:
    """Whether a condition on places holds for most points."""
    if cond.op in COMPARE and cond.src[0].dtype is index:
        at = _sign(*cond.src)
        return None if at is None else {"lt": at < 0, "le": at <= 0, "eq": False, "ne": True}[cond.op]
    if cond.op in ("and", "or"):
        found = [likely(s) for s in cond.src]
        if None in found:
            return None
        return all(found) if cond.op == "and" else any(found)
    return None
