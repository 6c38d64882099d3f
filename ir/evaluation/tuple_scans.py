"""Evaluates scans of tuples: step after step, and, where errors or doubts are kept, in another order too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..body import Value
from ..tuple_scan import TupleScan, names, tuple_scan
from .dense import DenseContext, Env, Span, Stored
from .error_bound import Pair
from .kinds import Kind, either

if TYPE_CHECKING:
    from .algebra import Quantity

    Array = np.ndarray[Any, Any]


def scanned(env: Env, v: Value, spans: tuple[Span, ...], position: int) -> Quantity:
    """The picked component of a scan of tuples over `spans`; `position` is that of the scanned axis."""
    scan = tuple_scan(v.body)
    c = DenseContext(env, v.axes, spans)
    elements = [env.algebra.map(c.eval(e), lambda x: np.array(np.broadcast_to(x, c.shape))) for e in scan.elements]
    run = _ScanRun(env, v, spans, position, scan)
    ordered = run.in_order(elements)
    if not isinstance(ordered, (Pair, Kind)):
        return ordered
    return _either_order(ordered, run.by_doubling(elements), [env.algebra.array(e) for e in elements], position)


class _ScanRun:
    """One scan over whole arrays."""

    def __init__(self, env: Env, v: Value, spans: tuple[Span, ...], position: int, scan: TupleScan) -> None:
        self.env, self.v, self.spans, self.p, self.scan = env, v, spans, position, scan
        self.length = spans[position][1] - spans[position][0]

    def _cut(self, q: Quantity, lo: int, hi: int) -> Quantity:
        at = (slice(None),) * self.p + (slice(lo, hi),)
        return self.env.algebra.map(q, lambda x: np.asarray(x)[at])

    def _merged(self, left: list[Quantity], right: list[Quantity], count: int) -> list[Quantity]:
        """The rule at `count` places of the scanned axis."""
        env, (lo, _) = self.env, self.spans[self.p]
        spans = (*self.spans[: self.p], (lo, lo + count), *self.spans[self.p + 1 :])
        before = env.placeholders
        given = {**names("a", left), **names("b", right)}
        env.placeholders = {name: Stored(self.v.axes, spans, q) for name, q in given.items()}
        c = DenseContext(env, self.v.axes, spans)
        out = [env.algebra.map(c.eval(m), lambda x: np.broadcast_to(x, c.shape)) for m in self.scan.merge]
        env.placeholders = before
        return out

    def _start(self, count: int) -> list[Quantity]:
        shape = [hi - lo for lo, hi in self.spans]
        shape[self.p] = count
        algebra = self.env.algebra
        return [algebra.map(algebra.number(n.arg, n.dtype), lambda x: np.broadcast_to(x, shape)) for n in self.scan.identity]

    def _joined(self, pieces: list[Quantity]) -> Quantity:
        first = pieces[0]
        if isinstance(first, Kind):
            masks = [
                None
                if all(m is None for m in found)
                else np.concatenate([self._mask(m, k) for m, k in zip(found, pieces, strict=True)], self.p)
                for found in ([k.loose for k in pieces], [k.unsure for k in pieces])
            ]
            return Kind(self._joined([k.pair for k in pieces]), masks[0], masks[1])
        if isinstance(first, Pair):
            error = None
            if any(q.error is not None for q in pieces):
                error = np.concatenate([np.zeros(q.value.shape) if q.error is None else q.error for q in pieces], self.p)
            return Pair(np.concatenate([q.value for q in pieces], self.p), error)
        return np.concatenate(pieces, self.p)

    def _mask(self, m: Any, k: Kind) -> Array:
        return np.zeros(k.pair.value.shape, bool) if m is None else np.asarray(np.broadcast_to(m, k.pair.value.shape))

    def in_order(self, elements: list[Quantity]) -> Quantity:
        """One step after the other."""
        state, pieces = self._start(1), []
        for t in range(self.length):
            state = self._merged(state, [self._cut(e, t, t + 1) for e in elements], 1)
            pieces.append(state[self.scan.pick])
        return self._joined(pieces) if pieces else self._cut(elements[self.scan.pick], 0, 0)

    def by_doubling(self, elements: list[Quantity]) -> Quantity:
        """Neighbours first, then pairs of pairs (W. D. Hillis and G. L. Steele, "Data parallel algorithms", 1986)."""
        state, distance = elements, 1
        while distance < self.length:
            left = [self._joined([s, self._cut(e, 0, self.length - distance)]) for s, e in zip(self._start(distance), state, strict=True)]
            state, distance = self._merged(left, state, self.length), 2 * distance
        return state[self.scan.pick]


def _either_order(a: Quantity, b: Quantity, elements: list[Array], position: int) -> Quantity:
    """What any order may give, of what two orders give."""
    if isinstance(a, Pair):
        errors = [e for e in (a.error, b.error) if e is not None]
        with np.errstate(all="ignore"):
            apart = np.abs(np.subtract(a.value, b.value, dtype=np.float64))
        total = sum(errors, np.where(np.isfinite(apart), apart, 0.0)) if errors else None
        return Pair(a.value, total)
    v, w = a.pair.value, b.pair.value
    differs = (np.isfinite(v) != np.isfinite(w)) | (np.isnan(v) != np.isnan(w)) | (np.isinf(v) & np.isinf(w) & (v != w))
    odd = np.zeros(v.shape, bool)
    for e in elements:
        if e.dtype.kind == "f":
            odd |= np.logical_or.accumulate(~np.isfinite(e), axis=position)
    return Kind(
        _either_order(a.pair, b.pair, elements, position), either(a.loose, b.loose, differs, odd), either(a.unsure, b.unsure, v == 0)
    )
