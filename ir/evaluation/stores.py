"""Evaluates stores into whole outputs: plain, masked, and combining (scatter)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..body import Store
from ..node import Node
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
    _cut(env, store, out, spans, total)


def _cut(env: Env, store: Store, out: Output, spans: tuple[Span, ...], total: int) -> None:
    if total > PIECE:
        for i, (lo, hi) in enumerate(spans):
            if hi - lo > 1:
                step = max(1, (hi - lo) * PIECE // total)
                for a in range(lo, hi, step):
                    s = (a, min(a + step, hi))
                    _cut(env, store, out, (*spans[:i], s, *spans[i + 1 :]), total // (hi - lo) * (s[1] - s[0]))
                return
    _piece(env, store, out, spans)


def _piece(env: Env, store: Store, out: Output, spans: tuple[Span, ...]) -> None:
    c = DenseContext(env, store.axes, spans)
    algebra = env.algebra
    q = c.eval(unrounded(store.expr))
    source = unrounded(store.expr).dtype
    if source is not out.dtype and not (source.is_float and out.dtype.is_float):
        q = algebra.cast(q, source, out.dtype)
    if apart(store):
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


def apart(store: Store) -> bool:
    """Whether every point writes an element of its own, the one at its axes in some order."""
    if store.mask is not None or store.combine is not None:
        return False
    return len(set(store.indices)) == len(store.indices) == len(store.axes) and set(store.indices) == set(store.axes)
