"""Conditions without which a fold's tile can be skipped: where one is false throughout a tile, the tile's state is
the identity and merging it changes nothing.

Attention's causal mask is one: a tile of keys that all come after the queries has maxima −∞, weights 0 and sums 0.
Such tiles need not run. A product with a factor that is known to be 0 counts as 0, so what is infinite or NaN among
elements that only such a product reads may or may not show (`evaluation.certain_results` calls those results loose).
Weights that are 0 because their score is −∞ get a mask of their own in the normal form (`masked_weights`), so that
they are seen here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from . import index as ix
from .body import Fold, Reduce
from .dtypes import index
from .node import Node, axes_of, const, ordered_axes, walk
from .operators import cast, substitute


def conjuncts(cond: Node, by: str = "and") -> Iterator[Node]:
    """The conditions that `and` joins, or `or`."""
    if cond.op == by:
        for s in cond.src:
            yield from conjuncts(s, by)
    else:
        yield cond


@lru_cache(maxsize=64)
def conditions(fold: Fold) -> dict[Node, tuple[Node, ...]]:
    """Every comparison of indices with the folded axis that selects something in the block: over `fold.axis`, and as
    it is written at each site."""
    found: dict[Node, dict[Node, None]] = {}
    for v in fold.block:
        for n in walk(v.body):
            if n.op == "where":
                for c in conjuncts(n.src[0]):
                    if c.op in ("lt", "le") and len(_sites(fold, c)) == 1:
                        found.setdefault(substitute(c, dict.fromkeys(_sites(fold, c), fold.axis)), {})[c] = None
    return {c: tuple(sites) for c, sites in found.items()}


@lru_cache(maxsize=64)
def skip_conditions(fold: Fold) -> tuple[Node, ...]:
    """Those of `conditions` (over `fold.axis`) without which the block's state is the identity: a tile in which one
    holds nowhere need not run."""
    return tuple(c for c, sites in conditions(fold).items() if _is_identity(fold, dict.fromkeys(sites, const(False))))


def threshold(cond: Node, axis: Node) -> tuple[int, Node] | None:
    """(k, rest) such that `cond` holds where k·axis + rest >= 0; None where it is not linear in the axis. In `rest` may be whole
    numbers that are read from memory, such as the length of a row, each as a conversion to an index."""
    low, high = _place(cond.src[0]), _place(cond.src[1])
    if low is None or high is None:
        return None
    terms, c = ix.parts(ix.add(high, low, -1))
    k = terms.pop(axis, 0)
    if not k or any(axis in axes_of(t) for t in terms):
        return None
    return k, ix.linear(terms, c - (cond.op == "lt"))


def _place(n: Node) -> Node | None:
    """A whole number as an index of the same value; None for what is no whole number or depends on other values."""
    if n.dtype is index:
        return n
    if not n.dtype.is_int or (n.dtype.kind == "u" and n.dtype.size == index.size):
        return None
    if n.op == "const":
        return const(n.arg)
    inner = n.src[0] if n.op == "cast" else n
    if inner.dtype is index:
        lo, hi = ix.bounds(inner)
        least, most = (0, 1 << 8 * n.dtype.size) if n.dtype.kind == "u" else (-1 << 8 * n.dtype.size - 1, 1 << 8 * n.dtype.size - 1)
        return inner if least <= lo and hi < most else None
    return None if any(x.op == "ref" for x in walk(n)) else cast(n, index)


def _sites(fold: Fold, node: Node) -> list[Node]:
    return [a for a in ordered_axes(node) if a.arg.family == fold.axis.arg.family]


def _is_identity(fold: Fold, false: dict[Node, Node]) -> bool:
    known: dict[str, Node] = {}
    for v in fold.block:
        body = _folded(substitute(v.body, false), known)
        if isinstance(v.expr, Reduce):
            # sums and maxima of what does not change them
            keeps = (
                {"add": (0.0, 0), "max": (float("-inf"),), "min": (float("inf"),)}[v.expr.combine]
                if v.expr.combine in ("add", "max", "min")
                else ()
            )
            if body.op == "const" and body.arg in keeps:
                known[v.name] = body
        elif body.op == "const":
            known[v.name] = body
    return all(c in known and known[c].arg == i.arg for c, i in zip(fold.components, fold.monoid.identity))


def _folded(node: Node, known: dict[str, Node]) -> Node:
    """`node` with values that are known, and 0 for a product with 0."""
    table: dict[Node, Node] = {}
    for n in walk(node):
        new = substitute(n, {s: table[s] for s in n.src if s in table}) if n.src else n
        if new.op == "ref" and new.arg in known:
            new = known[new.arg]
        elif new.op == "mul" and any(s.op == "const" and s.arg == 0 for s in new.src):
            new = const(0, new.dtype)
        if new is not n:
            table[n] = new
    return table.get(node, node)


@lru_cache(maxsize=256)
def kept_share(masks: frozenset[Node], axes: frozenset[Node]) -> float:
    """The share of the points of some axes, of extents that are numbers, at which all of the masks hold that are over these axes alone."""
    share = 1.0
    for of in sorted({frozenset(axes_of(c)) for c in masks if axes_of(c) and axes_of(c) <= axes}, key=str):
        mine = [c for c in masks if axes_of(c) == of]
        points = [dict(zip(of, map(const, at))) for at in product(*(range(a.arg.extent) for a in of))]
        share *= sum(all(substitute(c, p) is const(True) for c in mine) for p in points) / len(points)
    return share
