"""Does a store write every element of its output? Then nobody can read what was never written.

A store whose points have elements of their own writes as many elements as it has points; where these are as many as the
output has, all are written, since an index never leaves its dimension. Indices that are divided are told apart by digits:
an axis that is cut at c is two axes, and a place that numbers all points is one. What that does not show is decided by trying
every point. Symbolic sizes are put at some of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from math import prod

from .. import index as ix
from ..body import Store
from ..node import Node, as_node, axes_of, axis, const, walk
from ..operators import substitute
from .counterexample import OpenIndexError, value_at
from .written_once import apart_by_steps

CUTS = 64
"""Most times that an axis is cut, or points are numbered anew."""
CHUNK = 1 << 20
"""Points that are tried at once."""


@lru_cache(maxsize=4096)
def writes_whole(store: Store) -> bool:
    """Whether every element of the output gets a value, whatever data is. (What combines starts from its identity.)"""
    return store.combine is not None or all(_whole(s) for s in _sized(store))


def _whole(store: Store) -> bool:
    """The same for a store whose sizes are numbers."""
    shape = [int(ix.evaluate(as_node(n), {})) for n in store.buffer.shape]
    extents = [a.arg.extent for a in store.axes]
    if not prod(shape):
        return True
    if prod(extents) < prod(shape):
        return False
    if store.mask is None and prod(extents) == prod(shape):
        told = _by_digits(store)
        if told is not None and apart_by_steps(told):
            return True
    try:
        return _tried(store, shape)
    except OpenIndexError:
        return False


def _sized(store: Store) -> Iterator[Store]:
    """The store with numbers for its symbols: the least of each, the next ones, and the most."""
    sizes = (*store.buffer.shape, *(a.arg.extent for a in store.axes))
    symbols = sorted({s for n in (*sizes, *store.indices) for s in walk(as_node(n)) if s.op == "sym"}, key=ix.order_key)
    if not symbols:
        yield store
        return
    for values in ([s.arg.lo for s in symbols], [min(s.arg.lo + 1, s.arg.hi) for s in symbols], [s.arg.hi for s in symbols]):
        table: dict[Node, Node] = {s: const(v) for s, v in zip(symbols, values, strict=True)}
        table |= {a: axis(a.arg.name, substitute(as_node(a.arg.extent), table).arg) for a in store.axes}
        shape = tuple(substitute(as_node(n), table).arg for n in store.buffer.shape)
        yield replace(
            store,
            buffer=replace(store.buffer, shape=shape),
            indices=tuple(substitute(i, table) for i in store.indices),
            axes=tuple(table[a] for a in store.axes),
            mask=None if store.mask is None else substitute(store.mask, table),
        )


# digits --------------------------------------------------------------------------------------------------------------
def _by_digits(store: Store) -> Store | None:
    """The store over axes by which no index is divided; None where there are none."""
    indices, axes, fresh = store.indices, set(store.axes), count()
    for _ in range(CUTS):
        whole = next((n.src[0] for i in indices for n in walk(i) if _divides(n) and not any(map(_divides, walk(n.src[0])))), None)
        if whole is None:
            return replace(store, indices=indices, axes=tuple(a for a in store.axes if a in axes) + tuple(axes - {*store.axes}))
        name = f"digit{next(fresh)}"
        if whole.op == "axis":
            size = whole.arg.extent
            cut = min(n.arg for i in indices for n in walk(i) if _divides(n) and n.src[0] is whole)
            if size % cut:
                return None
            new = [axis(name, size // cut), axis(f"{name}_", cut)]
            table, gone = {whole: ix.add(ix.mul(new[0], const(cut)), new[1])}, {whole}
        else:
            gone = set(axes_of(whole))
            if not _numbers(whole, gone):
                return None
            new = [axis(name, prod(a.arg.extent for a in gone))]
            table = {whole: new[0]}
        indices = tuple(substitute(i, table) for i in indices)
        axes = (axes - gone) | {*new}
        if axes_of(*indices) & gone:
            return None
    return None


def _divides(n: Node) -> bool:
    return n.op in ("div", "mod")


def _numbers(place: Node, axes: set[Node]) -> bool:
    """Whether a place numbers the points of axes from 0 on, each once."""
    terms, start = ix.parts(place)
    step = 1
    for a, k in sorted(terms.items(), key=lambda t: t[1]):
        if a not in axes or k != step:
            return False
        step *= a.arg.extent
    return start == 0


# every point -----------------------------------------------------------------------------------------------------------
def _tried(store: Store, shape: Sequence[int]) -> bool:
    """Whether the points of a store reach every element: all of them are tried."""
    import numpy as np

    extents = [a.arg.extent for a in store.axes]
    seen = np.zeros(prod(shape), bool)
    for start in range(0, prod(extents), CHUNK):
        flat = np.arange(start, min(start + CHUNK, prod(extents)), dtype=np.int64)
        at = np.unravel_index(flat, extents) if extents else ()
        points = dict(zip(store.axes, at, strict=True))
        place = np.zeros(len(flat), np.int64)
        for i, n in zip(store.indices, shape, strict=True):
            place = place * n + value_at(i, points)
        seen[place if store.mask is None else place[value_at(store.mask, points)]] = True
    return bool(seen.all())
