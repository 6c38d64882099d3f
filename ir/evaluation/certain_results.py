"""Results that are certain: which are known to the bit, and which are of a certain kind (finite, zero, infinite, NaN).

A sum, a difference or a product of numbers that are known is rounded once, in every schedule (docs/decisions/0047): so is everything
that is made of inputs by these. Thus a difference of equal products is 0, and its root too, where an error bound alone would leave open
whether there is one. Sums over axes, quotients and functions are not of that sort. A product may still be a term of a sum that is
accumulated, where it isn't rounded by itself: it keeps its value and error for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..dtypes import OVERFLOW, DType, bool_
from ..functions import SINE_END
from ..node import PAIRED
from .algebra import Algebra, Array, narrows
from .array_math import ProductLayout, contract, narrowed
from .error_bound import Errors, Pair, beyond, or_zero

Mask = Array | None
"""Booleans of the value's shape; None: false everywhere."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A value with its error, and in which elements what about it is in doubt. `made`: what every schedule computes, where that is
    certain to the bit: sums, differences and products of such values, each rounded once. (A product may still be part of a sum that is
    accumulated, which is why it has a value and an error beside.)"""

    pair: Pair
    loose: Mask = None
    unsure: Mask = None
    made: Array | None = None

    @property
    def settled(self) -> Kind:
        """The value as it is computed, for whoever reads that and nothing else."""
        return self if self.made is None else Kind(Pair(self.made, None), self.loose, None, self.made)


_ROUNDED = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def made(op: str, a: Kind, b: Kind, dtype: DType) -> Array | None:
    """What `op` of two values is that are certain to the bit; None for other values and operators."""
    if a.made is None or b.made is None or op not in _ROUNDED:
        return None
    kind = dtype.compute.np
    return np.asarray(_ROUNDED[op](a.made.astype(kind), b.made.astype(kind)).astype(np.float64))


def either(*masks: Any) -> Mask:
    """Where any of them holds; None where none does anywhere."""
    out: Mask = None
    for m in masks:
        if m is not None and np.any(m):
            out = np.asarray(m) if out is None else out | m
    return out


def less(mask: Mask, but: Mask) -> Mask:
    """`mask` without `but`."""
    return mask if mask is None or but is None else either(mask & ~but)


def chosen(cond: Array, a: Mask, b: Mask) -> Mask:
    """`a` where `cond`, else `b`."""
    return None if a is None and b is None else either(np.where(cond, False if a is None else a, False if b is None else b))


def full(mask: Mask, like: Array) -> Array:
    """A mask as an array of the shape of `like`."""
    return np.broadcast_to(False if mask is None else mask, like.shape)


def both(a: Any, b: Any) -> Mask:
    """Where both hold."""
    return None if a is None or b is None else either(a & b)


def any_of(mask: Mask, axes: tuple[int, ...]) -> Mask:
    """Where a mask holds anywhere along some axes."""
    return None if mask is None else either(mask.any(axis=axes))


def small(value: Array, error: Mask, slack: float, top: float) -> bool:
    """Nothing is near overflow, or not finite: soon seen, and the rule."""
    if not max(value.max(), -value.min()) < 0.5 * top:
        return False
    return error is None or bool(error.max() * slack < 0.25 * top)


# certainty --------------------------------------------------------------------------------------------------
# A fourth algebra: which elements of a result are certain in kind, on inputs with zeros, subnormals, infinities, NaN
# and the largest numbers.
#
# On such inputs two right schedules may differ in more than rounding. A sum of large terms is infinite in one order and
# finite in another; a product is rounded before it is added to, or not; a weight is tiny or 0, and 0 times an infinity
# is NaN. So beside its value and error an element says whether it is *loose*, which means that any result is right;
# and, where it is 0, whether the sign of that is *unsure*. What is neither is right only with NaN where the reference
# has NaN, an infinity of the same sign, a finite number within the bound, and a zero of the same sign.
#
# Doubt is never dropped but by a NaN that is sure to come, so a right schedule is never blamed; what is loose goes
# unchecked.


_DISTINCT = ("exp", "expm1", "div", "cast")
"""Operators that are never fused with what follows: where they overflow they are infinite, in every schedule."""


class Kinds(Algebra):
    """float64 with a running error and doubts. `skips`: a product with a factor that is known to be 0 may be left out (`ir.skipped_tiles`)."""

    in_order = True

    def __init__(self, slack: float, skips: bool = False) -> None:
        self.slack, self.skips = slack, skips
        self.errors = Errors(slack)

    # what is known of an operand ----------------------------------------------------------------------------------
    def _reach(self, p: Pair) -> Array:
        """The largest magnitude that a computed value may have."""
        return np.asarray(np.abs(p.value) + self.slack * or_zero(p.error), np.float64)

    def _finite_reach(self, p: Pair) -> Array:
        return np.where(np.isfinite(p.value), self._reach(p), 0.0)

    def or_zero(self, k: Kind) -> Mask:
        """Where it is exactly 0, its sign known."""
        return less(either(k.pair.value == 0), k.unsure)

    def _near(self, k: Kind) -> Mask:
        """Where it may be 0 or of either sign, and that it is one of these is not known."""
        value, e = k.pair.value, k.pair.error
        near = np.zeros(value.shape, bool) if e is None else (np.abs(value) <= self.slack * e) & (e > 0)
        return less(either(near, None if k.unsure is None else k.unsure & (value == 0)), self.or_zero(k))

    def _exact(self, k: Kind) -> Array:
        return np.isfinite(k.pair.value) if k.pair.error is None else np.isfinite(k.pair.value) & (k.pair.error == 0)

    def _made(self, pair: Pair, loose: Mask, unsure: Mask, dtype: DType, distinct: bool | Array = False, rounding: float = 0.0) -> Kind:
        """A result of type `dtype`: what may overflow is loose, or infinite where it must (`distinct`: and cannot be
        fused with what follows). `rounding`: how much of its relative error is the result's own rounding, which does
        not make it overflow."""
        value, error = np.asarray(pair.value), pair.error
        if dtype.is_float and value.size and not small(value, error, self.slack, OVERFLOW[dtype.compute.name]):
            top = OVERFLOW[dtype.compute.name] if dtype.compute.size < 8 else np.inf  # (the largest float64 is one)
            own = rounding * self.slack * np.where(np.isfinite(value), np.abs(value), 0.0)
            over = np.isfinite(value) & ~(self._reach(pair) - own < top)
            if over.any():
                sure = over & distinct & (np.abs(value) - (0.0 if error is None else self.slack * error) >= top)
                value = np.where(sure, np.copysign(np.inf, value), value)
                error = None if error is None else np.where(over, 0.0, error)
                loose = either(loose, over & ~sure)
        shape = value.shape
        wide = [
            None if m is None else np.broadcast_to(m, shape) for m in (loose, None if unsure is None else either(unsure & (value == 0)))
        ]
        return Kind(Pair(value, None if error is None else np.broadcast_to(error, shape)), wide[0], wide[1])

    # leaves -------------------------------------------------------------------------------------------------------
    def leaf(self, raw: Array, dtype: DType) -> Kind:
        return Kind(self.errors.leaf(raw, dtype))

    def number(self, value: Any, dtype: DType) -> Kind:
        return Kind(self.errors.number(value, dtype))

    def wrap(self, array: Array) -> Kind:
        return Kind(Pair(array, None))

    def array(self, q: Kind) -> Array:
        return q.pair.value

    def map(self, q: Kind, f: Callable[[Array], Array]) -> Kind:
        return Kind(self.errors.map(q.pair, f), *(None if m is None else f(m) for m in (q.loose, q.unsure)))

    # operators ----------------------------------------------------------------------------------------------------
    def unary(self, op: str, a: Kind, dtype: DType) -> Kind:
        pair = self.errors.unary(op, a.pair, dtype)
        if op in ("not", "popcount", "clz"):
            return Kind(pair)
        loose, unsure, x = a.loose, a.unsure, a.pair.value
        nil = either(pair.value == 0)
        if op in ("log", "log1p", "sqrt"):
            loose = either(loose, np.abs(x + 1.0) <= self.slack * or_zero(a.pair.error) if op == "log1p" else self._near(a))
        if op in ("sin", "cos") and dtype.size == 8:
            loose = either(loose, np.isfinite(x) & (np.abs(x) >= SINE_END))
        if op in ("exp", "expm1"):
            loose = either(loose, np.isinf(pair.value) & np.isfinite(x) & ~self._exact(a))
        if op in ("abs", "exp"):
            unsure = None
        elif op == "log":
            unsure = nil
        elif op != "neg":
            unsure = less(nil, self.or_zero(a))  # only 0 itself gives a 0 whose sign is sure
        return self._made(pair, less(loose, either(np.isnan(x) & ~full(a.loose, x))), unsure, dtype, op in _DISTINCT)

    def binary(self, op: str, a: Kind, b: Kind, dtype: DType) -> Kind:
        pair = self.errors.binary(op, a.pair, b.pair, dtype)
        loose = either(a.loose, b.loose)
        if pair.value.dtype == np.bool_:
            return Kind(pair if loose is None else Pair(pair.value, full(either(loose, pair.error), pair.value)))
        if not dtype.is_float:
            return Kind(pair, None if loose is None else np.broadcast_to(loose, pair.value.shape))
        rule = {"mul": self._mul, "div": self._div, "max": self._extreme, "min": self._extreme, **dict.fromkeys(PAIRED, self._of_two)}
        doubt, unsure, distinct = rule.get(op, self._add)(pair.value, a, b)
        x, y = a.pair.value, b.pair.value
        doubt = either(doubt, beyond(op, x, y) if op in PAIRED else None)
        if np.isinf(pair.value).any():  # float64's own overflow: nothing shows any more by how much
            grown = np.isinf(pair.value) & np.isfinite(x) & np.isfinite(y) & ((y != 0) | (op != "div"))
            doubt = either(doubt, grown & ~(self._exact(a) & self._exact(b) & (distinct if op != "mul" else False)))
        surely_nan = either(np.isnan(x) & ~full(a.loose, x), np.isnan(y) & ~full(b.loose, y))
        if op == "pow" or (op == "mul" and self.skips):
            surely_nan = None
        return self._made(pair, less(either(loose, doubt), surely_nan), unsure, dtype, distinct, 0.0 if op in ("max", "min") else dtype.eps)

    def _add(self, value: Array, a: Kind, b: Kind) -> tuple[Mask, Mask, Any]:
        """(loose, unsure, distinct) of a sum or difference. Its overflow is sure where both operands are exact, since
        then neither is a product that it could be fused with."""
        exact = self._exact(a) & self._exact(b)
        signed = less(less(exact, a.unsure), b.unsure)  # (of an exact 0 the sign may be unsure all the same: that of an extreme)
        sure = either(signed, None if (x := self.or_zero(a)) is None or (y := self.or_zero(b)) is None else x & y)
        return None, less(either(value == 0), sure), exact

    def _mul(self, value: Array, a: Kind, b: Kind) -> tuple[Mask, Mask, Any]:
        loose: Mask = None
        for x, y in ((a, b), (b, a)):
            wild = either(~np.isfinite(y.pair.value))
            if wild is not None:
                zero = self.or_zero(x) if self.skips else None
                loose = either(loose, both(self._near(x), wild), both(zero, wild))
        zeros = [both(self.or_zero(x), ~full(self._near(y), y.pair.value)) for x, y in ((a, b), (b, a))]
        return loose, less(either(value == 0), either(*zeros)), False

    def _div(self, value: Array, a: Kind, b: Kind) -> tuple[Mask, Mask, Any]:
        near = self._near(b)
        # 0/0, or something that is nearly 0
        nearly = both(self._near(a), either(b.pair.value == 0))
        known = ~full(self._near(a), a.pair.value) & (full(self.or_zero(a), a.pair.value) | np.isinf(b.pair.value))
        return either(near, nearly), less(either(value == 0), either(known)), True

    def _of_two(self, value: Array, a: Kind, b: Kind) -> tuple[Mask, Mask, Any]:
        sure = (self._exact(a) | ~np.isfinite(a.pair.value)) & (self._exact(b) | ~np.isfinite(b.pair.value))
        loose, unsure = doubt_of_two(value, sure, full(self._near(a), value) | full(self._near(b), value))
        return either(loose), either(unsure), True

    def _extreme(self, value: Array, a: Kind, b: Kind) -> tuple[Mask, Mask, Any]:
        """Which of two zeros of different signs is the larger is not defined."""
        x, y = a.pair.value, b.pair.value
        mixed = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
        return None, either((value == 0) & mixed, both(either(self._near(a), self._near(b)), either(value == 0))), True

    def where(self, cond: Kind, a: Kind, b: Kind, dtype: DType) -> Kind:
        pair, c = self.errors.where(cond.pair, a.pair, b.pair, dtype), cond.pair.value
        loose, unsure = chosen(c, a.loose, b.loose), chosen(c, a.unsure, b.unsure)
        if cond.pair.error is not None and dtype.is_float:
            wild = either(a.loose, b.loose, ~np.isfinite(a.pair.value), ~np.isfinite(b.pair.value))
            loose, unsure = either(loose, both(wild, cond.pair.error)), either(unsure, cond.pair.error)
        return self._made(pair, loose, unsure, dtype)

    def cast(self, a: Kind, source: DType, to: DType) -> Kind:
        pair = self.errors.cast(a.pair, source, to)
        if to is bool_:
            return Kind(pair if a.loose is None else Pair(pair.value, either(a.loose, pair.error)))
        if not to.is_float:  # what is not finite has no integer
            return Kind(pair, either(a.loose, ~np.isfinite(a.pair.value) if source.is_float else None))
        loose, unsure = a.loose, a.unsure
        if source.is_float and to.size < source.size and a.pair.error is not None:
            x, reach = np.abs(a.pair.value), self.slack * a.pair.error
            loose = either(loose, np.isfinite(x) & (x + reach >= OVERFLOW[to.name]) & ~(x - reach >= OVERFLOW[to.name]))
            unsure = either(unsure, (pair.value == 0) & (x <= reach) & (reach > 0))
        return self._made(pair, loose, unsure, to, True)

    def mask(self, keep: Array, a: Kind) -> Kind:
        return Kind(self.errors.mask(keep, a.pair), *(None if m is None else either(m & keep) for m in (a.loose, a.unsure)))

    # reductions: the state of Errors, Σ|x| of what is finite (or a bound of all partial products), loose, and whether
    # there were zeros of either sign
    def partial(self, combine: str, a: Kind, axes: tuple[int, ...], dtype: DType) -> Any:
        x = a.pair.value
        state = self.errors.partial(combine, a.pair, axes, dtype)
        if not dtype.is_float:
            return state, None, any_of(a.loose, axes), None, None
        reach = self._finite_reach(a.pair)
        if combine == "add":
            return state, reach.sum(axis=axes), any_of(a.loose, axes), None, None
        if combine == "mul":
            least = np.where((x == 0) | ~np.isfinite(x), 1.0, np.minimum(np.abs(x), 1.0)).prod(axis=axes)
            return state, np.maximum(reach, 1.0).prod(axis=axes), any_of(either(a.loose, ~np.isfinite(x)), axes), least, None
        zero, doubt = x == 0, self._near(a)
        return state, None, any_of(a.loose, axes), *(any_of(either(zero & sign, doubt), axes) for sign in (np.signbit(x), ~np.signbit(x)))

    def join(self, combine: str, a: Any, b: Any) -> Any:
        bound = None if a[1] is None else a[1] * b[1] if combine == "mul" else a[1] + b[1]
        if combine == "mul":  # (of integers there is none)
            return self.errors.join(combine, a[0], b[0]), bound, either(a[2], b[2]), None if a[3] is None else a[3] * b[3], None
        return self.errors.join(combine, a[0], b[0]), bound, *(either(x, y) for x, y in zip(a[2:], b[2:], strict=True))

    def finish(self, combine: str, state: Any, count: int, dtype: DType, eps: float) -> Kind:
        inner, bound, loose, negative, positive = state
        pair = self.errors.finish(combine, inner, count, dtype, eps)
        if not dtype.is_float:
            return Kind(pair, None if loose is None else np.broadcast_to(loose, pair.value.shape))
        if bound is not None:
            loose = either(loose, ~(bound < OVERFLOW[dtype.compute.name]))
        if combine == "mul":  # what is subnormal on the way depends on the order
            loose = either(loose, negative < 4.0 / OVERFLOW[dtype.compute.name])
        if combine in ("add", "mul"):  # squares of the largest numbers are beyond float64: then there is no bound
            loose = either(loose, np.isfinite(pair.value) & ~np.isfinite(inner[1]))
        unsure = both(negative, positive) if combine in ("max", "min") else either(pair.value == 0)
        return self._made(pair, loose, unsure, dtype)

    def product(self, x: Kind, y: Kind, layout: ProductLayout, dtype: DType) -> Any:
        state = self.errors.product(x.pair, y.pair, layout, dtype)
        if not dtype.is_float:
            return state, None, None, None, None
        reach = [self._finite_reach(k.pair) for k in (x, y)]
        count = float(np.prod(layout.shape[layout.spatial :]))
        top = [float(r.max(initial=0.0)) for r in reach]
        bound = contract(reach[0], reach[1], layout) if not top[0] * top[1] * count < OVERFLOW[dtype.compute.name] else np.array(0.0)
        loose: Mask = None
        for p, q, swap in ((x, y, False), (y, x, True)):
            wild = either(~np.isfinite(q.pair.value))
            met = [(p.loose, np.ones(q.pair.value.shape, bool)), (self._near(p), wild), (self.or_zero(p) if self.skips else None, wild)]
            for m, n in met:
                if m is not None and n is not None:
                    pair = (n, m) if swap else (m, n)
                    loose = either(loose, contract(pair[0].astype(np.float64), pair[1].astype(np.float64), layout) > 0)
        return state, bound, loose, None, None

    def scan(self, combine: str, a: Kind, position: int, dtype: DType) -> Kind:
        pair, x = self.errors.scan(combine, a.pair, position, dtype), a.pair.value
        loose = None if a.loose is None else np.logical_or.accumulate(a.loose, axis=position)
        if not dtype.is_float:
            return Kind(pair, loose)
        if combine in ("max", "min"):
            seen = [
                np.logical_or.accumulate((x == 0) & sign | full(self._near(a), x), axis=position)
                for sign in (np.signbit(x), ~np.signbit(x))
            ]
            return self._made(pair, loose, either(seen[0] & seen[1]), dtype)
        reach = self._finite_reach(a.pair)
        grown = np.cumsum(reach, axis=position) if combine == "add" else np.cumprod(np.maximum(reach, 1.0), axis=position)
        wild = None if combine == "add" else np.logical_or.accumulate(~np.isfinite(x), axis=position)
        return self._made(pair, either(loose, wild, ~(grown < OVERFLOW[dtype.compute.name])), either(pair.value == 0), dtype)

    # memory -------------------------------------------------------------------------------------------------------
    def blank(self, shape: Sequence[int], dtype: DType) -> Kind:
        return Kind(self.errors.blank(shape, dtype), np.zeros(shape, bool), np.zeros(shape, bool))

    def assign(self, out: Kind, key: Any, q: Kind) -> None:
        self.errors.assign(out.pair, key, q.pair)
        for mask, new in ((out.loose, q.loose), (out.unsure, q.unsure)):
            assert mask is not None
            mask[key] = False if new is None else new

    def accumulator(self, size: int, combine: str, dtype: DType) -> Any:
        return self.errors.accumulator(size, combine, dtype), np.full(size, float(combine == "mul")), np.zeros(size, bool)

    def scatter(self, state: Any, combine: str, at: Array, q: Kind) -> None:
        inner, bound, loose = state
        self.errors.scatter(inner, combine, at, q.pair)
        reach = self._finite_reach(q.pair)
        if combine == "mul":
            np.multiply.at(bound, at, np.maximum(reach, 1.0))
            np.logical_or.at(loose, at, ~np.isfinite(q.pair.value))
        else:
            np.add.at(bound, at, reach)
        if q.loose is not None:
            np.logical_or.at(loose, at, q.loose)

    def scattered(self, state: Any, combine: str, dtype: DType) -> Kind:
        """Sums may be rounded to the output's own type on the way, and overflow there."""
        inner, bound, loose = state
        pair = self.errors.scattered(inner, combine, dtype)
        if not dtype.is_float:
            return Kind(pair, either(loose))
        wide = ~(bound < OVERFLOW[dtype.name]) if combine in ("add", "mul") else None
        return self._made(pair, either(loose, wide), either(pair.value == 0), dtype)


# computed ---------------------------------------------------------------------------------------------------
class Computed(Kinds):
    """Kinds with what is certain to the bit (`Kind.made`)."""

    def leaf(self, raw: Array, dtype: DType) -> Kind:
        return _without_error(super().leaf(raw, dtype), dtype)

    def number(self, value: Any, dtype: DType) -> Kind:
        return _without_error(super().number(value, dtype), dtype)

    def map(self, q: Kind, f: Callable[[Array], Array]) -> Kind:
        return replace(super().map(q, f), made=None if q.made is None else f(q.made))

    def unary(self, op: str, a: Kind, dtype: DType) -> Kind:
        if op in ("neg", "abs") and a.made is not None:
            return replace(super().unary(op, a, dtype), made=np.negative(a.made) if op == "neg" else np.abs(a.made))
        return super().unary(op, a.settled, dtype)

    def binary(self, op: str, a: Kind, b: Kind, dtype: DType) -> Kind:
        known = made(op, a, b, dtype)
        if op == "mul":
            return replace(super().binary(op, a, b, dtype), made=known)
        if known is None:
            return super().binary(op, a.settled, b.settled, dtype)
        sure = either(*(np.isnan(k.made) & ~full(k.loose, k.made) for k in (a, b) if k.made is not None))
        loose = less(either(a.loose, b.loose), sure)
        return Kind(Pair(known, None), None if loose is None else np.broadcast_to(loose, known.shape), None, known)

    def where(self, cond: Kind, a: Kind, b: Kind, dtype: DType) -> Kind:
        known: Array | None = None
        if cond.pair.error is None and a.made is not None and b.made is not None:
            known = np.where(cond.pair.value, a.made, b.made)
        return replace(super().where(cond, a, b, dtype), made=known)

    def cast(self, a: Kind, source: DType, to: DType) -> Kind:
        if a.made is None or not to.is_float:
            return super().cast(a.settled, source, to)
        if narrows(source, to):
            return replace(super().cast(a.settled, source, to), made=narrowed(a.made, to))
        return replace(super().cast(a, source, to), made=a.made)

    def about(self, a: Kind, to: DType, times: int) -> Kind:
        pair = self.errors.about(a.pair, to, times)
        finite = np.where(np.isfinite(pair.value), np.abs(pair.value) + self.slack * (0.0 if pair.error is None else pair.error), 0.0)
        return Kind(pair, either(a.loose, ~(finite < OVERFLOW[to.name])), a.unsure)

    def mask(self, keep: Array, a: Kind) -> Kind:
        return replace(super().mask(keep, a), made=None if a.made is None else np.where(keep, a.made, 0.0))


def _without_error(k: Kind, dtype: DType) -> Kind:
    return replace(k, made=k.pair.value if dtype.is_float else None)


def doubt_of_two(value: Array, exact: Array, near: Array) -> tuple[Array, Array]:
    """(loose, unsure) of a power or a quotient rounded down. What is computed of `exact` operands is sure; special results of others, and
    those of what may be zero (`near`), are not."""
    return (~np.isfinite(value) | near) & ~exact, (value == 0) & ~exact
