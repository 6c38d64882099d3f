"""Evaluates whole values: pointwise, reductions, scans and folds, in pieces small enough for the caches."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np

from .. import index as ix
from ..body import Fold, Reduce, Scan, TupleScan, Value, identity, in_steps, names, tuple_scan
from ..buffer import load_parts
from ..dtypes import DType, index
from ..node import Node, axes_of, walk
from ..skipped_tiles import conjuncts
from .algebra import Array, Quantity
from .array_math import ProductLayout
from .certain_results import Kind, either
from .dense import DenseContext, Env, Span, Stored
from .error_bound import Pair

# reduced part ---------------------------------------------------------------------------------------------------------
#
# The part of a reduction's axes beyond which its element is neutral for all of a piece: rows whose ends are read from
# memory are evaluated in the time of their entries, not of all entries for each.


@dataclass(frozen=True, slots=True)
class _Limit:
    """`sign` · place + `rest` < 0, of the reduced axis at `place`, or nothing is combined."""

    place: int
    sign: int
    rest: Node


class ReducedPart:
    """What comparisons with data say of the axes of a reduction."""

    def __init__(self, v: Value) -> None:
        self.axes = v.axes
        self.found: list[_Limit] = [] if not isinstance(v.expr, Reduce) else [x for c in _conditions(v.expr) for x in _limits(v, c)]

    def within(self, env: Env, spans: tuple[Span, ...], over: tuple[Span, ...]) -> tuple[Span, ...]:
        """`over` without what is neutral for every point of `spans`."""
        out = list(over)
        for limit in self.found:
            numbers = env.algebra.array(DenseContext(env, self.axes, spans).eval(limit.rest))
            if not numbers.size:
                continue
            rest, (lo, hi) = int(np.min(numbers)), out[limit.place]
            if limit.sign > 0:
                hi = max(lo, min(hi, -rest))
            else:
                lo = min(hi, max(lo, rest + 1))
            out[limit.place] = lo, hi
        return tuple(out)


def _conditions(r: Reduce) -> list[Node]:
    """Comparisons without which the element is neutral."""
    e = r.expr
    while r.combine == "add" and e.op == "cast" and e.dtype.kind != "b":
        e = e.src[0]
    if e.op == "where" and e.src[2] is identity(r.combine, e.dtype):
        return list(conjuncts(e.src[0]))
    if e.op == "load" and r.combine == "add" and (mask := load_parts(e)[2]) is not None:
        return list(conjuncts(mask))
    return []


def _limits(v: Value, cond: Node) -> list[_Limit]:
    """A comparison of one reduced axis with data, as a limit of that axis."""
    if cond.op not in ("lt", "le") or cond.src[0].dtype is not index or not any(n.op == "load" for n in walk(cond)):
        return []
    terms, c = ix.parts(ix.add(cond.src[0], cond.src[1], -1))
    mine = [a for a in v.reduce_axes if a in terms]
    if len(mine) != 1 or abs(sign := terms.pop(mine[0])) != 1 or set(v.reduce_axes) & {a for t in terms for a in axes_of(t)}:
        return []
    return [_Limit(v.reduce_axes.index(mine[0]), sign, ix.linear(terms, c - (cond.op == "le")))]


# values ---------------------------------------------------------------------------------------------------------------

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
    return elements, ordered, run.by_doubling(elements) if isinstance(ordered[0], (Pair, Kind)) and not in_steps(v) else None


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
        block = self.length if self.length <= LONG or in_steps(self.v) else isqrt(self.length)
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


PIECE = 1 << 17
"""Elements of the largest intermediate array of a pointwise or reduced piece: one megabyte, so that it stays in a core's cache."""
OPERAND = 1 << 24
"""Elements of the largest operand of a matrix product."""

IN_ORDER = 1 << 23
"""Points of a product of several factors up to which they are multiplied in the order that is written: half a second."""
HALVES = 8
"""Pieces at a time where data says what is left of each."""
Spans = dict[Node, Span]


def spans_of(env: Env, axes: tuple[Node, ...], ranges: dict[str, Span]) -> tuple[Span, ...]:
    """The span of each axis: its family's in `ranges`, else all of it."""
    return tuple(ranges.get(a.arg.family) or (0, env.extent(a)) for a in axes)


def compute(env: Env, v: Value, ranges: dict[str, Span]) -> Stored:
    """The value over its axes; families in `ranges` are restricted to that span (reduce axes too)."""
    spans = spans_of(env, v.axes, ranges)
    over = spans_of(env, v.reduce_axes, ranges)
    shape = [hi - lo for lo, hi in spans]
    out: Quantity = None
    body = _Body(env, v)
    for piece, left in _small_pieces(body, spans, over):
        q = body.finished(piece, left)
        if piece == spans:
            return Stored(v.axes, spans, _broadcast(env, q, spans))
        if out is None:
            out = env.algebra.blank(shape, v.dtype)
        env.algebra.assign(out, tuple(slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(piece, spans, strict=True)), q)
    return Stored(v.axes, spans, out)


class _Body:
    """How one value's element expression becomes arrays."""

    def __init__(self, env: Env, v: Value) -> None:
        self.env, self.v = env, v
        expr = v.expr
        self.combine = expr.combine if isinstance(expr, (Reduce, Scan)) else ""
        self.dims = (*v.axes, *v.reduce_axes)
        self.fixed = {expr.axis} if isinstance(expr, Scan) else set()
        self.factors = factors_of(v.body, v.dtype) if isinstance(expr, Reduce) and self.combine == "add" else [v.body]
        if len(self.factors) > 2 and env.algebra.in_order:
            self.factors = as_written(v.body, self.factors)
        eps = (
            [v.dtype.eps, *(n.dtype.eps for n in walk(v.body) if n.op == "mul" and n.dtype.is_float)]
            if len(self.factors) > 1
            else [v.dtype.eps]
        )
        self.eps = max(eps)
        self.limits = ReducedPart(v)

    def weight(self, spans: tuple[Span, ...], over: tuple[Span, ...]) -> tuple[int, frozenset[Node]]:
        """(size relative to its limit, the axes worth splitting) of the largest array over these spans."""
        shape = dict(zip(self.dims, (hi - lo for lo, hi in (*spans, *over)), strict=True))
        if len(self.factors) > 1:
            size, axes = max(((prod(shape[a] for a in d), d) for d in map(axes_of, self.factors)), key=lambda sd: sd[0])
            return -(-size // OPERAND), axes
        axes = axes_of(self.v.body) & set(shape)
        return -(-prod(shape[a] for a in axes) // PIECE), axes

    def finished(self, spans: tuple[Span, ...], over: tuple[Span, ...]) -> Quantity:
        """The value over `spans`, reduced over `over` (in parts where it is long)."""
        env, v = self.env, self.v
        if isinstance(v.expr, Scan):
            c = DenseContext(env, self.dims, spans)
            p = c.position[v.expr.axis]
            if v.body.op == "tuple":
                return scanned(env, v, spans, p)
            q = env.algebra.map(
                c.eval(v.body),
                lambda x: np.broadcast_to(x, [s if i == p else n for i, (s, n) in enumerate(zip(c.shape, x.shape, strict=True))]),
            )
            return env.algebra.scan(self.combine, q, p, v.dtype)
        if not isinstance(v.expr, Reduce):
            return DenseContext(env, self.dims, spans).eval(v.body)
        count = prod(hi - lo for lo, hi in over)
        if not count:  # nothing of it is read, not even what is the same for all that there is not
            return env.algebra.finish(self.combine, self._nothing(spans, over), 0, v.dtype, self.eps)
        state: Any = None
        for part in _reduce_parts(self, spans, over):
            s = self._state(DenseContext(env, self.dims, (*spans, *part)))
            state = s if state is None else env.algebra.join(self.combine, state, s)
        return env.algebra.finish(self.combine, state, count, v.dtype, self.eps)

    def _nothing(self, spans: tuple[Span, ...], over: tuple[Span, ...]) -> Any:
        """The state of a reduction over no elements."""
        algebra, dtype, shape = self.env.algebra, self.v.dtype, tuple(hi - lo for lo, hi in (*spans, *over))
        none = algebra.map(algebra.number(0, dtype), lambda x: np.broadcast_to(x, shape))
        return algebra.partial(self.combine, none, tuple(range(len(spans), len(shape))), dtype)

    def _state(self, c: DenseContext) -> Any:
        rank = len(self.v.axes)
        algebra, dtype = self.env.algebra, self.v.dtype
        if len(self.factors) > 1:
            x, y = _two_factors(c, [c.eval(f) for f in self.factors], dtype)
            return algebra.product(x, y, ProductLayout(c.shape, rank), dtype)
        axes = tuple(range(rank, len(self.dims)))
        q = algebra.map(c.eval(self.v.body), lambda x: np.broadcast_to(x, (*x.shape[:rank], *c.shape[rank:])))
        return algebra.partial(self.combine, q, axes, dtype)


def _two_factors(c: DenseContext, qs: list[Quantity], dtype: DType) -> tuple[Quantity, Quantity]:
    """The factors multiplied together pairwise, smallest result first, until two are left."""
    algebra = c.env.algebra
    qs = list(qs)
    while len(qs) > 2:
        pairs = [(i, j) for i in range(len(qs)) for j in range(i)]
        i, j = min(pairs, key=lambda ij: prod(np.broadcast_shapes(algebra.array(qs[ij[0]]).shape, algebra.array(qs[ij[1]]).shape)))
        merged = algebra.binary("mul", qs[i], qs[j], dtype)
        qs = [q for k, q in enumerate(qs) if k not in (i, j)] + [merged]
    return qs[0], qs[1]


def factors_of(expr: Node, acc: DType) -> list[Node]:
    """The factors of a product to be summed in `acc`, or [expr] where a matrix product gains nothing."""
    out: list[Node] = []
    stack = [expr]
    while stack:
        n = stack.pop()
        if n.op == "cast" and n.dtype.is_float and n.src[0].dtype.is_float and n.dtype.eps <= n.src[0].dtype.eps:
            stack.append(n.src[0])
        elif n.op == "mul" and (n.dtype.is_float or n.dtype is acc):
            stack.extend(n.src)
        else:
            out.append(n)
    whole = axes_of(expr)
    return out if len(out) > 1 and any(axes_of(f) != whole for f in out) else [expr]


def as_written(expr: Node, factors: list[Node]) -> list[Node]:
    """The two factors of a product that are multiplied last, or [expr] where one of them has all axes already; but `factors` where
    that takes too many points to be looked at one by one."""
    n = expr
    while n.op == "cast":
        n = n.src[0]
    written = [expr] if any(axes_of(f) == axes_of(expr) for f in n.src) else list(n.src)
    points = max(prod(e for a in axes_of(f) if isinstance(e := a.arg.extent, int)) for f in written)
    return written if points <= IN_ORDER else factors


def _cut(span: Span, parts: int) -> list[Span]:
    lo, hi = span
    step = max(1, -(-(hi - lo) // max(1, parts)))
    return [(a, min(a + step, hi)) for a in range(lo, hi, step)] or [span]


def _small_pieces(body: _Body, spans: tuple[Span, ...], over: tuple[Span, ...]) -> list[tuple[tuple[Span, ...], tuple[Span, ...]]]:
    """`spans` cut along the outermost axes that matter until the arrays are small, each with what is reduced for it."""
    over = body.limits.within(body.env, spans, over)
    parts, axes = body.weight(spans, over)
    if parts <= 1:
        return [(spans, over)]
    for i, a in enumerate(body.v.axes):
        lo, hi = spans[i]
        if a in axes and hi - lo > 1 and a not in body.fixed:
            out = []
            for s in _cut((lo, hi), min(parts, HALVES) if body.limits.found else parts):
                out.extend(_small_pieces(body, (*spans[:i], s, *spans[i + 1 :]), over))
            return out
    return [(spans, over)]


def _reduce_parts(body: _Body, spans: tuple[Span, ...], over: tuple[Span, ...]) -> list[tuple[Span, ...]]:
    """The same along the reduce axes, when no spatial axis was left to cut."""
    parts, axes = body.weight(spans, over)
    if parts <= 1:
        return [over]
    for i, a in enumerate(body.v.reduce_axes):
        lo, hi = over[i]
        if a in axes and hi - lo > 1:
            out = []
            for s in _cut((lo, hi), parts):
                out.extend(_reduce_parts(body, spans, (*over[:i], s, *over[i + 1 :])))
            return out
    return [over]


def fold(env: Env, f: Fold, ranges: dict[str, Span], tile: int | None) -> None:
    """Compute a fold into env.values: uncut, or in tiles whose states are merged from the identity on."""
    family = f.axis.arg.family
    lo, hi = spans_of(env, (f.axis,), ranges)[0]
    if tile is None and hi > lo:
        _block(env, f, ranges)
        return
    states = {c: _identity(env, f, i, ranges) for i, c in enumerate(f.components)}
    step = tile or 1
    for at in range(lo, hi, step):
        _block(env, f, {**ranges, family: (at, min(at + step, hi))})
        env.placeholders = {f"a.{c}": s for c, s in states.items()} | {f"b.{c}": env.values[c] for c in f.components}
        merged = {}
        for c, m in zip(f.components, f.monoid.merge, strict=True):
            v = f.component(c)
            spans = spans_of(env, v.axes, ranges)
            q = DenseContext(env, v.axes, spans).eval(m)
            merged[c] = Stored(v.axes, spans, _broadcast(env, q, spans))
        states = merged
    env.placeholders = {}
    env.values.update(states)


def _block(env: Env, f: Fold, ranges: dict[str, Span]) -> None:
    for v in f.block:
        env.values[v.name] = compute(env, v, ranges)


def _identity(env: Env, f: Fold, i: int, ranges: dict[str, Span]) -> Stored:
    v = f.component(f.components[i])
    spans = spans_of(env, v.axes, ranges)
    return Stored(v.axes, spans, _broadcast(env, DenseContext(env, v.axes, spans).eval(f.monoid.identity[i]), spans))


def _broadcast(env: Env, q: Quantity, spans: tuple[Span, ...]) -> Quantity:
    shape = [hi - lo for lo, hi in spans]
    return env.algebra.map(q, lambda x: np.broadcast_to(x, shape))


def extents(env: Env, shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A buffer's shape with the symbols in place."""
    return tuple(d if isinstance(d, int) else ix.evaluate(d, dict(env.symbols)) for d in shape)


__all__ = ["Array", "compute", "extents", "fold", "spans_of"]
