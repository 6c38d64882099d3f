"""Evaluates stores into whole outputs: plain, masked, and combining (scatter)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..body import Fold, Scan, Store, Value
from ..kernel import Kernel
from ..node import Node, axes_of, walk
from .algebra import Quantity
from .dense import DenseContext, Env, Span, flat_positions
from .values import PIECE, extents, spans_of


class Output:
    """One output buffer while stores run over it."""

    def __init__(self, env: Env, store: Store) -> None:
        self.shape = extents(env, store.buffer.shape)
        self.dtype, self.combine = store.buffer.dtype, store.combine
        size = prod(self.shape)
        algebra = env.algebra
        self.state: Any = algebra.accumulator(size, self.combine, self.dtype) if self.combine else algebra.blank((size,), self.dtype)

    def result(self, env: Env) -> Quantity:
        """The finished elements in the buffer's shape."""
        q = env.algebra.scattered(self.state, self.combine, self.dtype) if self.combine else self.state
        return env.algebra.map(q, lambda x: x.reshape(self.shape))


def unrounded(e: Node) -> Node:
    """A stored expression without its final rounding to another float type (the verifier rounds)."""
    return e.src[0] if e.op == "cast" and e.dtype.is_float and e.src[0].dtype.is_float else e


def run(env: Env, store: Store, out: Output, ranges: dict[str, Span]) -> None:
    """Write a store's elements over the axes' ranges into `out`, in axis order."""
    spans = spans_of(env, store.axes, ranges)
    total = prod(hi - lo for lo, hi in spans)
    if not total:
        return
    _store_in_pieces(env, store, out, spans, total)


def _store_in_pieces(env: Env, store: Store, out: Output, spans: tuple[Span, ...], total: int) -> None:
    if total > PIECE:
        for i, (lo, hi) in enumerate(spans):
            if hi - lo > 1:
                step = max(1, (hi - lo) * PIECE // total)
                for a in range(lo, hi, step):
                    s = (a, min(a + step, hi))
                    _store_in_pieces(env, store, out, (*spans[:i], s, *spans[i + 1 :]), total // (hi - lo) * (s[1] - s[0]))
                return
    _store_piece(env, store, out, spans)


def _store_piece(env: Env, store: Store, out: Output, spans: tuple[Span, ...]) -> None:
    c = DenseContext(env, store.axes, spans)
    algebra = env.algebra
    q = c.eval(unrounded(store.expr))
    source = unrounded(store.expr).dtype
    if source is not out.dtype and not (source.is_float and out.dtype.is_float):
        q = algebra.cast(q, source, out.dtype)
    if writes_once(store):
        order, shape = [store.axes.index(i) for i in store.indices], out.shape
        key = tuple(slice(*spans[store.axes.index(i)]) for i in store.indices)
        if all(s.stop <= n for s, n in zip(key, shape, strict=True)):
            full = algebra.map(q, lambda x: np.broadcast_to(x, c.shape).transpose(order))
            algebra.assign(algebra.map(out.state, lambda x: x.reshape(shape)), key, full)
            return
    keep = None if store.mask is None else c.array(store.mask)
    at = flat_positions([c.array(i) for i in store.indices], out.shape, f"store to {store.buffer.name}", keep)
    at = np.broadcast_to(at.reshape((1,) * (len(c.shape) - at.ndim) + at.shape), c.shape)
    full = algebra.map(q, lambda x: np.broadcast_to(x, c.shape))
    if keep is None:
        at, full = at.reshape(-1), algebra.map(full, lambda x: x.reshape(-1))
    else:
        chosen = np.broadcast_to(keep, c.shape)
        at, full = at[chosen], algebra.map(full, lambda x: x[chosen])
    if store.combine:
        algebra.scatter(out.state, store.combine, at, full)
    else:
        algebra.assign(out.state, at, full)


def writes_once(store: Store) -> bool:
    """Whether every point writes an element of its own, the one at its axes in some order."""
    if store.mask is not None or store.combine is not None:
        return False
    return len(set(store.indices)) == len(store.indices) == len(store.axes) and set(store.indices) == set(store.axes)


INDICES = 1 << 16
"""Elements of an index, over the axes that it varies with, from which all places are taken to be read."""
Ranges = dict[str, Span]
"""Spans of families; all of an axis is run over where there is none."""


def families(kernel: Kernel, env: Env) -> list[tuple[str, int]]:
    """(family, extent) of the leading axes that all stores share, where parts of values give whole elements of outputs: in kernels without
    folds that write each element at its own place."""
    if any(isinstance(item, Fold) for item in kernel.body) or any(s.combine is not None for s in kernel.stores):
        return []
    out: list[tuple[str, int]] = []
    bound = [s.axes for s in kernel.stores]
    for p in range(min(map(len, bound))):
        family = bound[0][p].arg.family
        if any(a[p].arg.family != family or sum(x.arg.family == family for x in a) > 1 for a in bound):
            break
        out.append((family, env.extent(bound[0][p])))
    return out


def needed(kernel: Kernel, env: Env, ranges: Ranges) -> dict[str, Ranges]:
    """What each value (by name) must be computed over where stores run over `ranges`. Not for kernels with folds."""
    wanted: dict[str, list[Span]] = {}
    known: dict[tuple[Node, tuple[Span, ...]], Span] = {}

    def reads(roots: Sequence[Node], axes: Sequence[Node], mine: Ranges) -> None:
        spans = {a: mine.get(a.arg.family) or (0, env.extent(a)) for a in axes}
        for n in walk(*roots):
            if n.op == "ref":
                found = [_reach(env, i, a, spans, known) for i, a in zip(n.src, kernel.values[n.arg].axes, strict=True)]
                before = wanted.get(n.arg, found)
                wanted[n.arg] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, found, strict=True)]

    for s in kernel.stores:
        reads([s.expr, *s.indices, *([] if s.mask is None else [s.mask])], s.axes, ranges)
    out: dict[str, Ranges] = {}
    for v in reversed(list(kernel.values.values())):
        mine = out[v.name] = _value_spans(v, env, wanted.get(v.name, ()))
        reads([v.body], (*v.axes, *v.reduce_axes), mine)
    return out


def _value_spans(v: Value, env: Env, wanted: Sequence[Span]) -> Ranges:
    """The spans of a value's families: what is read of it, but all of an axis that is reduced or scanned over."""
    whole = {a.arg.family for a in v.reduce_axes} | ({v.expr.axis.arg.family} if isinstance(v.expr, Scan) else set())
    out: Ranges = {}
    for a, span in zip(v.axes, wanted):
        before = out.get(a.arg.family, span)
        out[a.arg.family] = (min(before[0], span[0]), max(before[1], span[1]))
    some = {a.arg.family for a in v.axes if out.get(a.arg.family, (0, env.extent(a))) != (0, env.extent(a))}
    return {f: span for f, span in out.items() if f in some - whole}


def _reach(env: Env, i: Node, axis: Node, spans: Mapping[Node, Span], known: dict[tuple[Node, tuple[Span, ...]], Span]) -> Span:
    """The places along a value's `axis` at which an index is, with axes that run over `spans`."""
    dims = sorted(axes_of(i), key=lambda a: a.arg.name)
    key = i, tuple(spans[a] for a in dims)
    if key not in known:
        everywhere = 0, env.extent(axis)
        count = prod(hi - lo for lo, hi in key[1])
        if count > INDICES or any(n.op in ("load", "ref") for n in walk(i)):
            known[key] = everywhere
        elif count <= 0:
            known[key] = 0, 0
        else:
            at = DenseContext(env, dims, key[1]).array(i)
            known[key] = max(0, int(at.min())), min(everywhere[1], int(at.max()) + 1)
    return known[key]
