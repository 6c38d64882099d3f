"""A third algebra: every float carries a bound of the error that a correct computation in its own type may have.

Errors are absolute, in units where a computed value differs from the true one by at most `slack` times the error. One
operation adds eps·|value|; a sum of K terms adds eps·√K·(|Σx| + √Σx²), the size of K random roundings of partial sums that
drift towards the sum and wander like a random walk. That holds for any order of summation of terms in no special order,
and by Cauchy and Schwarz √K·√Σx² >= Σ|x|, so it also covers the rounding of each term. Errors already in the terms add up.
Infinite values carry no error; an integer has one only where rounded floats could fall either way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..dtypes import FORMATS, HALF_SUBNORMAL, OVERFLOW, DType, bool_
from ..node import PAIRED
from .algebra import BINARY, UNARY, Algebra, Array, narrows
from .array_math import COUNTS, INTEGER, ProductLayout, exp_error

SMALLEST = HALF_SUBNORMAL | {name: FORMATS[name].least for name in ("float64", "float32")}
"""The absolute rounding of subnormal results."""
_LEAST = SMALLEST["float32"]
"""What a divisor is kept above."""

# formulas ---------------------------------------------------------------------------------------------------------
# What operations make of the errors of their operands (None: exact), over arrays here and over expressions of a kernel in `bounded`: `m` has
# the functions of either. `slack` is what the bound will be multiplied by.


def _by_largest(e: Array, small: Callable[[], Array], large: Callable[[], Array]) -> Array:
    return small() if e.max(initial=0.0) < 1.0 else large()


ARRAYS = SimpleNamespace(
    maximum=np.maximum, minimum=np.minimum, absolute=np.abs, sqrt=np.sqrt, exp=np.exp, tanh=np.tanh, where=np.where,
    exp_error=exp_error, by_size=_by_largest,
)  # fmt: skip
"""Functions of arrays. `exp_error(v, e)`: at least v·(exp(e) − 1). `by_size(e, small, large)`: one formula for errors below 1, and one for
others; of an array the largest error decides for all."""


def or_zero(e: Any) -> Any:
    """An error as a number."""
    return 0.0 if e is None else e


def total(*errors: Any) -> Any:
    """The sum of errors; None where all are exact."""
    known = [e for e in errors if e is not None]
    return reduce(operator.add, known) if known else None


def extreme_error(m: Any, ex: Any, ey: Any) -> Any:
    """That of max(x, y) and min(x, y)."""
    return None if ex is None and ey is None else m.maximum(or_zero(ex), or_zero(ey))


def chosen_error(m: Any, condition: Any, ex: Any, ey: Any) -> Any:
    """That of x where a condition holds, else y."""
    return None if ex is None and ey is None else m.where(condition, or_zero(ex), or_zero(ey))


def product_error(m: Any, x: Any, y: Any, ex: Any, ey: Any) -> Any:
    """That of x · y, before it is rounded."""
    return total(None if ex is None else ex * (m.absolute(y) + or_zero(ey)), None if ey is None else ey * m.absolute(x))


def quotient_error(m: Any, v: Any, y: Any, ex: Any, ey: Any) -> Any:
    """That of v = x / y, before it is rounded; y may come as near to zero as its error says."""
    if ex is None and ey is None:
        return None
    e = or_zero(ex) if ey is None else m.absolute(v) * ey + or_zero(ex)
    return e * (1.0 / m.maximum(m.absolute(y) - or_zero(ey), _LEAST))


def sum_error(m: Any, s: Any, squares: Any, terms: Any, count: int, eps: float, dtype: DType) -> Any:
    """That of the sum s of `count` terms, whose `squares` and errors (`terms`) add up to those."""
    grown = (m.sqrt(squares) + m.absolute(s)) * (eps * count**0.5) + count * SMALLEST[dtype.name]
    return grown if terms is None else grown + terms


def function_error(m: Any, op: str, x: Any, v: Any, e: Any, slack: float) -> Any:
    """What v = op(x) inherits of an x that is off by `e`: by the function's slope, where that is steepest."""
    if op in ("exp", "expm1"):
        return m.exp_error(v if op == "exp" else v + 1.0, e)
    if op in ("log", "log1p"):
        return e / m.maximum((m.absolute(x) if op == "log" else 1.0 + x) - e, _LEAST)
    if op == "sqrt":
        return m.minimum(e / m.maximum(v, _LEAST), m.sqrt(e))
    if op in ("sin", "cos"):
        return m.minimum(e, 2.0)
    # the smallest magnitude that a computed x may have, where functions that end flat are steepest
    least = m.maximum(0.0, m.absolute(x) - slack * e)
    if op == "atan":
        return e / (1.0 + least * least)
    if op == "tanh":
        return m.by_size(e, lambda: e * m.minimum(1.0, 1.0 - v * v + e), lambda: e * (1.0 - m.tanh(least) * m.tanh(least)))
    return m.by_size(e, lambda: e * m.minimum(1.1284, 1.1284 * m.exp(-x * x) + e), lambda: e * (1.1284 * m.exp(-(least * least))))


def last_place(to: DType, slack: float, units: float = 1.0) -> tuple[float, float]:
    """(relative, absolute) error of units in the last place of a type, which `slack` must not multiply."""
    return units * to.eps / slack, 2 * units * SMALLEST[to.name] / slack


# functions of two -------------------------------------------------------------------------------------------------
LARGEST_QUOTIENT = 2.0**53
"""From here on a quotient that is rounded down, and what it leaves, are not computed exactly."""
Steps = Callable[[Array, Array, Callable[[Array], Array]], Array]


def error_of_two(op: str, v: Array, values: tuple[Array, Array], errors: tuple[Any, Any], steps: Steps) -> Array:
    """The error that `v`, a power or a quotient rounded down of two values with errors, inherits. `steps`: how far a step function can
    move."""
    (x, y), (ex, ey) = values, errors
    if op == "pow":
        base = np.maximum(np.abs(x) - ex, _LEAST)
        slope = np.abs(np.log(np.maximum(np.abs(x), _LEAST))) * ey + np.abs(y) * ex / base
        return exp_error(np.abs(v), np.array(np.broadcast_to(slope, v.shape)))
    quotient = x / y
    moved = steps(quotient, np.asarray((np.abs(quotient) * ey + ex) / np.maximum(np.abs(y) - ey, _LEAST)), np.floor)
    return np.asarray(moved if op == "floor_div" else ex + np.abs(quotient) * ey + np.abs(y) * moved)


def beyond(op: str, x: Array, y: Array) -> Array | None:
    """Where a quotient is too large to be rounded down exactly; None for a power."""
    return None if op == "pow" else np.asarray(np.abs(x / y) >= LARGEST_QUOTIENT)


# the algebra ------------------------------------------------------------------------------------------------------
_COMPARE = ("lt", "le", "eq", "ne")
MANTISSA = {8: 53, 4: 24, 2: 8, 1: 3}
"""Bits of whole numbers that every float of so many bytes holds."""
FUNCTION_ULP = 2.0
"""Roundings that one elementary function counts as."""
_STEPS: dict[str, Callable[[Array], Array]] = {"floor": np.floor, "round": np.rint, "trunc": np.trunc}


@dataclass(frozen=True, slots=True)
class Pair:
    """A value and its error (None: exact), of one shape. A bool's error marks where it could be the other."""

    value: Array
    error: Array | None


class Errors(Algebra):
    """float64 with a running error; `slack` is the constant the final bound will be multiplied by."""

    def __init__(self, slack: float) -> None:
        self.slack = slack
        self.exact = Algebra()
        self.overflowed = False
        """Whether some value that float64 holds is too large for its own type, or a sum of it may pass such a one."""

    def _pair(self, value: Array, error: Array | None, eps: float = 0.0, smallest: float = 0.0, of: DType | None = None) -> Pair:
        """The value with `error` and one rounding of relative size eps; `of`: the type that it must not overflow."""
        value = np.asarray(value)
        if eps:
            fresh = np.abs(value)
            fresh *= eps
            fresh += smallest
            if error is not None:
                fresh += error
            error = fresh
        if error is None:
            return Pair(value, None)
        total = np.sum(error)
        if of is not None and not total < 0.25 * of.eps * OVERFLOW[of.name]:  # at least eps of what overflows
            reach = np.abs(value) + self.slack * error
            self.overflowed |= bool(np.any(np.isfinite(value) & ~(reach < OVERFLOW[of.name])))
        if not np.isfinite(total):
            error = np.where(np.isfinite(value) & ~np.isnan(error), error, 0.0)
        return Pair(value, np.broadcast_to(error, value.shape))

    def _rounded(self, value: Array, error: Array | None, dtype: DType, roundings: float = 1.0) -> Pair:
        return self._pair(value, error, roundings * dtype.eps, SMALLEST.get(dtype.name, 0.0), dtype if dtype.is_float else None)

    # leaves -------------------------------------------------------------------------------------------------------
    def leaf(self, raw: Array, dtype: DType) -> Pair:
        return Pair(self.exact.leaf(raw, dtype), None)

    def number(self, value: Any, dtype: DType) -> Pair:
        return Pair(self.exact.number(value, dtype), None)

    def wrap(self, array: Array) -> Pair:
        return Pair(array, None)

    def array(self, q: Pair) -> Array:
        return q.value

    def map(self, q: Pair, f: Callable[[Array], Array]) -> Pair:
        return Pair(f(q.value), None if q.error is None else f(q.error))

    # operators ----------------------------------------------------------------------------------------------------
    def unary(self, op: str, a: Pair, dtype: DType) -> Pair:
        x, e = a.value, a.error
        if op == "not":
            return Pair(np.invert(x), e)
        v = UNARY[op](x)
        if op in ("neg", "abs"):
            return Pair(v, e)
        if op in COUNTS:  # an integer that rounding may have moved can have any bits
            return Pair(v, None if e is None else np.where(e > 0, 8.0 * dtype.size, 0.0))
        if op in _STEPS:
            return Pair(v, None if e is None else self._steps(x, e, _STEPS[op]))
        if e is not None:
            e = function_error(ARRAYS, op, x, v, e, self.slack)
        return self._rounded(v, e, dtype, 1.0 if op == "sqrt" else FUNCTION_ULP)

    def _steps(self, x: Array, e: Array, f: Callable[[Array], Array]) -> Array:
        """How far a step function can move when x moves by its bound."""
        reach = self.slack * e
        return np.asarray(np.maximum(f(x + reach) - f(x), f(x) - f(x - reach)) / self.slack)

    def binary(self, op: str, a: Pair, b: Pair, dtype: DType) -> Pair:
        x, y, ex, ey = a.value, b.value, a.error, b.error
        v = self.exact.binary(op, x, y, dtype)
        known = ex is not None or ey is not None
        if op in _COMPARE:
            return Pair(v, np.abs(x - y) <= 2 * self.slack * (or_zero(ex) + or_zero(ey)) if known else None)
        if op in INTEGER:
            if dtype is bool_:
                return Pair(v, np.broadcast_to(np.logical_or(or_zero(ex), or_zero(ey)), v.shape) if known else None)
            # an integer that rounding may have moved can come out as anything
            return Pair(
                v, np.where(np.broadcast_to(or_zero(ex) + or_zero(ey), v.shape) > 0, 2.0 ** (8 * dtype.size), 0.0) if known else None
            )
        if op in ("max", "min"):
            return self._pair(v, extreme_error(ARRAYS, ex, ey))
        if op in ("add", "sub"):
            return self._rounded(v, total(ex, ey), dtype)
        if op == "mul":
            e = product_error(ARRAYS, x, y, ex, ey)
            made = self._rounded(v, e, dtype)
            # exact zeros are multiplied exactly; the least subnormal number instead takes float64 a hundred cycles wherever it goes
            return (
                made if e is not None or made.error is None or dtype.size < 8 else Pair(v, np.where((x == 0) | (y == 0), 0.0, made.error))
            )
        if op in PAIRED:
            over = beyond(op, x, y)
            self.overflowed |= over is not None and bool(over.any())  # `certain_results` says where
            e = error_of_two(op, v, (x, y), (or_zero(ex), or_zero(ey)), self._steps) if known else None
            return self._rounded(v, e, dtype, FUNCTION_ULP if op == "pow" else 1.0)
        return self._rounded(v, quotient_error(ARRAYS, v, y, ex, ey), dtype)

    def where(self, cond: Pair, a: Pair, b: Pair, dtype: DType) -> Pair:
        v = np.where(cond.value, a.value, b.value)
        e = chosen_error(ARRAYS, cond.value, a.error, b.error)
        if cond.error is not None:
            gap = np.abs(np.subtract(a.value, b.value, dtype=np.float64)) / self.slack + np.maximum(or_zero(a.error), or_zero(b.error))
            e = np.where(cond.error, gap, 0.0 if e is None else e)
        return self._pair(v, e)

    def cast(self, a: Pair, source: DType, to: DType) -> Pair:
        x, e = a.value, a.error
        v = self.exact.cast(x, source, to)
        if to is bool_:
            return Pair(v, None if e is None else np.abs(x) <= self.slack * e)
        if source is bool_ and e is not None:
            e = e / self.slack
        if source.is_float and to.is_int:
            return Pair(v, None if e is None else self._steps(x, e, np.trunc))
        if to.is_float and source.is_float and narrows(source, to):
            self.overflowed |= bool(np.any(np.isfinite(x) & ~np.isfinite(v)))
            if e is None:
                return Pair(v, None)
            # what lies near the middle between two numbers may go to either: one unit in the last place
            made = self._pair(v, e, *last_place(to, self.slack), to)
            assert made.error is not None
            return Pair(v, np.where(np.broadcast_to(e, made.error.shape) > 0, made.error, 0.0))
        if to.is_float and source.is_int and 8 * source.size > MANTISSA[to.size]:
            return self._rounded(v, e, to)
        return self._pair(v, e)

    def about(self, a: Pair, to: DType, times: int) -> Pair:
        # exactly half a unit in the last place each time
        return self._pair(a.value, a.error, *last_place(to, self.slack, times / 2), to)

    def mask(self, keep: Array, a: Pair) -> Pair:
        return self.map(a, lambda x: np.where(keep, x, x.dtype.type(0)))

    # reductions: the state of a sum is (Σx, Σx², Σe), of a product (Πx, Π(|x|+e)), else (extremum, largest e) -------
    def partial(self, combine: str, a: Pair, axes: tuple[int, ...], dtype: DType) -> Any:
        x, e = a.value, a.error
        s = self.exact.partial(combine, x, axes, dtype)
        if combine == "add":
            squares = np.sum(np.square(x, dtype=np.float64), axis=axes) if dtype.is_float else None
            return s, squares, None if e is None else np.sum(e, axis=axes)
        if combine == "mul":
            return s, np.prod(np.abs(x) + or_zero(e), axis=axes), None
        return s, None, None if e is None else np.max(e, axis=axes, initial=0.0)

    def join(self, combine: str, a: Any, b: Any) -> Any:
        s = BINARY[combine](a[0], b[0])
        if combine == "add":
            return s, None if a[1] is None else a[1] + b[1], total(a[2], b[2])
        if combine == "mul":
            return s, a[1] * b[1], None
        return s, None, None if a[2] is None and b[2] is None else np.maximum(or_zero(a[2]), or_zero(b[2]))

    def finish(self, combine: str, state: Any, count: int, dtype: DType, eps: float) -> Pair:
        s, extra, e = state
        if combine == "add" and dtype.is_float:
            return self._pair(s, sum_error(ARRAYS, s, extra, e, count, eps, dtype), of=dtype)
        if combine == "mul" and dtype.is_float:
            return self._pair(s, np.maximum(extra - np.abs(s), 0.0) + count * (eps * np.abs(s) + SMALLEST[dtype.name]), of=dtype)
        return self._pair(s, e)

    def product(self, x: Pair, y: Pair, layout: ProductLayout, dtype: DType) -> Any:
        s = self.exact.product(x.value, y.value, layout, dtype)
        u, v = x.value, y.value
        squares = self.exact.product(u * u, v * v, layout, dtype) if dtype.is_float else None
        e: Array | None = None
        if x.error is not None:
            e = self.exact.product(x.error, np.abs(v) + or_zero(y.error), layout, dtype)
        if y.error is not None:
            e = total(e, self.exact.product(np.abs(u), y.error, layout, dtype))
        return s, squares, e

    def scan(self, combine: str, a: Pair, position: int, dtype: DType) -> Pair:
        x, e = a.value, a.error
        s = self.exact.scan(combine, x, position, dtype)
        if combine in ("max", "min") or not dtype.is_float:
            return self._pair(s, None if e is None else np.maximum.accumulate(e, axis=position))
        count = np.arange(1, x.shape[position] + 1).reshape([-1 if i == position else 1 for i in range(x.ndim)])
        if combine == "add":
            grown = np.sqrt(np.cumsum(s * s, axis=position)) + np.sqrt(count * np.cumsum(x * x, axis=position))
            e = dtype.eps * grown + count * SMALLEST[dtype.name] + (0.0 if e is None else np.cumsum(e, axis=position))
            return self._pair(s, e, of=dtype)
        reach = np.cumprod(np.abs(x) + or_zero(e), axis=position)
        return self._pair(s, np.maximum(reach - np.abs(s), 0.0) + count * (dtype.eps * np.abs(s) + SMALLEST[dtype.name]))

    # memory -------------------------------------------------------------------------------------------------------
    def blank(self, shape: Sequence[int], dtype: DType) -> Pair:
        return Pair(self.exact.blank(shape, dtype), np.zeros(shape))

    def assign(self, out: Pair, key: Any, q: Pair) -> None:
        out.value[key] = q.value
        assert out.error is not None
        out.error[key] = or_zero(q.error)

    def accumulator(self, size: int, combine: str, dtype: DType) -> Any:
        return self.exact.accumulator(size, combine, dtype), np.full(size, float(combine == "mul")), np.zeros(size), np.zeros(size)

    def scatter(self, state: Any, combine: str, at: Array, q: Pair) -> None:
        s, extra, e, count = state
        self.exact.scatter(s, combine, at, q.value)
        np.add.at(count, at, 1.0)
        if combine == "add":
            np.add.at(extra, at, np.square(q.value, dtype=np.float64))
            np.add.at(e, at, or_zero(q.error))
        elif combine == "mul":
            np.multiply.at(extra, at, np.abs(q.value) + or_zero(q.error))
        else:
            np.maximum.at(e, at, or_zero(q.error))

    def scattered(self, state: Any, combine: str, dtype: DType) -> Pair:
        """Elements of a 16-bit output that several writes share may have been rounded to it after each."""
        s, extra, e, count = state
        eps = np.where(count > 1, dtype.eps, 0.0)
        if combine == "add" and dtype.is_float:
            return self._pair(s, eps * np.sqrt(count) * (np.abs(s) + np.sqrt(extra)) + e)
        if combine == "mul" and dtype.is_float:
            return self._pair(s, np.maximum(extra - np.abs(s), 0.0) + eps * count * np.abs(s))
        return self._pair(s, e)
