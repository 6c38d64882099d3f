"""Evaluates scans of tuples: step after step, and, where errors or doubts are kept, in another order too."""

from __future__ import annotations

from math import isqrt
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


LONG = 256
"""Steps up to which a scan is evaluated one after the other."""


def scanned(env: Env, v: Value, spans: tuple[Span, ...], position: int) -> Quantity:
    """The picked component of a scan of tuples over `spans`; `position` is that of the scanned axis."""
    scan = tuple_scan(v.body)
    key = (scan.elements, scan.identity, scan.merge, v.axes)
    if env.scanned is None or env.scanned[0] != key:
        env.scanned = (key, {})
    pieces = env.scanned[1]
    if spans not in pieces:
        pieces[spans] = _components(env, v, spans, position, scan)
    elements, ordered, doubled = pieces[spans]
    found = ordered[scan.pick]
    if doubled is None:
        return found
    return _either_order(found, doubled[scan.pick], [env.algebra.array(e) for e in elements], position)


Scanned = tuple[list["Quantity"], list["Quantity"], "list[Quantity] | None"]


def _components(env: Env, v: Value, spans: tuple[Span, ...], position: int, scan: TupleScan) -> Scanned:
    """(elements, what all components are step after step, and in another order where errors or doubts are kept): values that differ by the
    component they pick have it in common."""
    c = DenseContext(env, v.axes, spans)
    elements = [env.algebra.map(c.eval(e), lambda x: np.array(np.broadcast_to(x, c.shape))) for e in scan.elements]
    run = _ScanRun(env, v, spans, position, scan)
    ordered = run.in_order(elements)
    return elements, ordered, run.by_doubling(elements) if isinstance(ordered[0], (Pair, Kind)) else None


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

    def _joined(self, pieces: list[Quantity], woven: bool = False) -> Quantity:
        """Pieces one after the other along the scanned axis; `woven`: in turns, the first place of each before the second of any."""
        first = pieces[0]
        if isinstance(first, Kind):
            masks = [
                None
                if all(m is None for m in found)
                else self._joined([self._mask(m, k) for m, k in zip(found, pieces, strict=True)], woven)
                for found in ([k.loose for k in pieces], [k.unsure for k in pieces])
            ]
            return Kind(self._joined([k.pair for k in pieces], woven), masks[0], masks[1])
        if isinstance(first, Pair):
            error = None
            if any(q.error is not None for q in pieces):
                error = self._joined([np.zeros(q.value.shape) if q.error is None else q.error for q in pieces], woven)
            return Pair(self._joined([q.value for q in pieces], woven), error)
        if not woven:
            return np.concatenate(pieces, self.p)
        shape = list(first.shape)
        shape[self.p] *= len(pieces)
        return np.stack(pieces, self.p + 1).reshape(shape)

    def _mask(self, m: Any, k: Kind) -> Array:
        return np.zeros(k.pair.value.shape, bool) if m is None else np.asarray(np.broadcast_to(m, k.pair.value.shape))

    def in_order(self, elements: list[Quantity]) -> list[Quantity]:
        """All components. One step after the other; of a long scan in about √n blocks at once, which then follow each other. (The errors of n steps, of
        random signs, are about as large as √n of one sign.)"""
        if not self.length:
            return [self._cut(e, 0, 0) for e in elements]
        block = self.length if self.length <= LONG else isqrt(self.length)
        count = -(-self.length // block)
        if extra := count * block - self.length:
            elements = [self._joined([e, s]) for e, s in zip(elements, self._start(extra), strict=True)]
        state, steps = self._start(count), []
        for t in range(block):
            state = self._merged(state, [self._every(e, t, block) for e in elements], count)
            steps.append(state)
        if count == 1:
            return [self._joined([s[c] for s in steps]) for c in range(len(elements))]
        local = [self._joined([s[c] for s in steps], woven=True) for c in range(len(elements))]
        before, carried = self._start(1), []
        for b in range(count):
            carried.append(before)
            before = self._merged(before, [self._cut(s, b, b + 1) for s in state], 1)
        first = [self._joined([c[i] for c in carried]) for i in range(len(elements))]
        wide = [self.env.algebra.map(q, lambda x: np.repeat(x, block, axis=self.p)) for q in first]
        return [self._cut(q, 0, self.length) for q in self._merged(wide, local, count * block)]

    def _every(self, q: Quantity, first: int, step: int) -> Quantity:
        at = (slice(None),) * self.p + (slice(first, None, step),)
        return self.env.algebra.map(q, lambda x: np.asarray(x)[at])

    def by_doubling(self, elements: list[Quantity]) -> list[Quantity]:
        """All components. Neighbours first, then pairs of pairs (W. D. Hillis and G. L. Steele, "Data parallel algorithms", 1986)."""
        state, distance = elements, 1
        while distance < self.length:
            left = [self._joined([s, self._cut(e, 0, self.length - distance)]) for s, e in zip(self._start(distance), state, strict=True)]
            state, distance = self._merged(left, state, self.length), 2 * distance
        return state


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
