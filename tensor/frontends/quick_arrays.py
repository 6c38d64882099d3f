"""Functions of arrays that give what NumPy's give, in less time: results in memory that was used before (new pages of the system take longer
than arithmetic), and reductions of short rows as few operations on long ones. Only the order of sums differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..running.pools import POOLED_FROM, host_array, release

Array = np.ndarray[Any, Any]

LONG_ROW = 256
"""Elements of a row from which NumPy's reductions take no more time than those here."""
SHORT_ROW = 32
"""Elements of a row of floats up to which one operation for each of them, on all rows, may take less time than NumPy's reduction of each row."""
MANY_ROWS = 256
"""Rows from which reducing several at a time pays for the second reduction."""
CACHED = 1 << 22
"""Bytes that are read once for each element of a row without waiting for memory."""
FROM = 4096
"""Elements of an array from which the way matters."""


@cache
def _kind(function: Any, kind: Any) -> Any:
    """The type of a universal function's results for operands of a type."""
    one = np.ones(1, kind)
    return function(*[one] * function.nin).dtype


def room(shape: tuple[int, ...], kind: np.dtype[Any], count: int) -> Array | None:
    """Memory for a result of so many elements; None where it is so small that NumPy's own is as good."""
    size = count * kind.itemsize
    return host_array(shape, kind, size) if size >= POOLED_FROM else None


def _by_rows(x: Array) -> bool:
    """Whether NumPy's results have the elements of `x` row by row, as `room` has them."""
    return x.flags.c_contiguous or all(a >= b for a, b in pairwise(x.strides))


def unary(function: Any, x: Array) -> Any:
    """A universal function of an array."""
    if x.size < FROM or not _by_rows(x):
        return function(x)
    return function(x, out=room(x.shape, _kind(function, x.dtype), x.size))


def binary(function: Any, a: Any, b: Any, kind: np.dtype[Any]) -> Any:
    """A universal function of operands, arrays or numbers, that is computed in a type."""
    whole, other = (a, b) if isinstance(a, np.ndarray) and (not isinstance(b, np.ndarray) or b.size <= a.size) else (b, a)
    if not isinstance(whole, np.ndarray) or whole.size < FROM or not _by_rows(whole):
        return function(a, b)
    shape, count = whole.shape, whole.size
    if isinstance(other, np.ndarray) and other.shape != shape:
        both = np.broadcast(whole, other)
        shape, count = both.shape, both.size
    return function(a, b, out=room(shape, _kind(function, kind), count))


def converted(x: Array, kind: np.dtype[Any]) -> Array:
    """An array in a type: itself, where it has it."""
    out = room(x.shape, kind, x.size) if x.dtype is not kind and x.flags.c_contiguous else None
    if out is None:
        return x.astype(kind, copy=False)
    np.copyto(out, x, casting="unsafe")
    return out


def power(x: Array, n: int) -> Any:
    """xⁿ by squaring, 0 < n."""
    if n == 2:
        return unary(np.square, x)
    out: Any = None
    base: Any = x
    while True:
        if n & 1:
            out = base if out is None else _product(out, base, x)
        n >>= 1
        if not n:
            return x.copy() if out is x else out
        base = binary(np.multiply, base, base, x.dtype) if base is x or base is out else _product(base, base, x)


def _product(a: Any, b: Any, x: Array) -> Any:
    """a · b, where a is; unless that is `x`. (b is squared after this.)"""
    return np.multiply(a, b, out=a) if isinstance(a, np.ndarray) and a is not x else binary(np.multiply, a, b, x.dtype)


def reduced(function: Any, x: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Any:
    """`function.reduce`: np.add, np.maximum …"""
    if x.size >= FROM and type(axis) is int and x.ndim > 1 and -x.ndim <= axis < x.ndim:
        out = None
        if x.flags.c_contiguous:
            out = _of_rows(function, x, axis % x.ndim)
        elif x.ndim == 2 and x.flags.f_contiguous:
            out = _of_rows(function, x.T, 1 - axis % 2)
        if out is not None:
            shape = list(x.shape)
            shape[axis : axis + 1 or None] = [1] if keepdims else []
            return out.reshape(shape)
    return function.reduce(x, axis=axis, keepdims=keepdims)


def _of_rows(function: Any, x: Array, axis: int) -> Any:
    """The reduction over one dimension of a row-major array, in any shape; None where NumPy's own way is as good."""
    n = x.shape[axis]
    behind = 1
    for size in x.shape[axis + 1 :]:
        behind *= size
    if behind == 1 and 1 < n <= LONG_ROW:
        rows = x.reshape(-1, n)
        if function is np.add and x.dtype.kind == "f":
            return np.matmul(rows, _ones(n, x.dtype)) if n <= 4 * len(rows) else None
        # (operations on what is no float convert it; NumPy takes longer to begin an operation than to begin a row)
        most, each = (SHORT_ROW, 1) if x.dtype.kind == "f" else (8, 4)
        if n > most or n * n * each > len(rows) or (n > 8 and x.nbytes > CACHED):
            return None
        kind = function.reduce(rows[:1], axis=1).dtype  # (small integers are added as large ones)
        out = function(rows[:, 0], rows[:, 1]) if kind.kind == "b" else function(rows[:, 0], rows[:, 1], dtype=kind)
        for j in range(2, n):
            function(out, rows[:, j], out=out)
        return out
    if axis == 0 and 1 < behind < LONG_ROW and n >= MANY_ROWS:
        several = LONG_ROW * 4 // behind
        lines = n // several
        if lines < 4:
            return None
        first = function.reduce(x.reshape(n, behind)[: lines * several].reshape(lines, -1), axis=0).reshape(several, behind)
        out = function.reduce(first, axis=0)
        rest = x[lines * several :]
        return out if not len(rest) else function(out, function.reduce(rest.reshape(-1, behind), axis=0))
    return None


@cache
def _ones(n: int, kind: Any) -> Array:
    return np.ones(n, kind)


def variance(x: Array, axis: int | tuple[int, ...] | None, correction: float, keepdims: bool) -> Any:
    """The mean square of distances from the mean, over count - correction."""
    mean = np.asarray(reduced(np.add, x, axis, True))
    count = x.size // mean.size if mean.size else 0
    if not count:
        return None
    mean = np.true_divide(mean, count)
    away = np.asarray(binary(np.subtract, x, mean, x.dtype))
    total = reduced(np.add, np.multiply(away, away, out=away), axis, keepdims)
    release(away, away.nbytes)
    return np.true_divide(total, count - correction if count > correction else 0)


def joined(function: Callable[..., Array], arrays: Sequence[Array], axis: int | None, shape: tuple[int, ...] | None) -> Array:
    """np.concatenate or np.stack of arrays of one type."""
    count = sum(a.size for a in arrays)
    kind = arrays[0].dtype
    if shape is None or count * kind.itemsize < POOLED_FROM:
        return function(arrays, axis=axis)
    return function(arrays, axis=axis, out=room(shape, kind, count))


def squares(x: Array, axis: int | tuple[int, ...] | None, keepdims: bool) -> Any:
    """The sum of squares."""
    squared = np.asarray(unary(np.square, x))
    total = reduced(np.add, squared, axis, keepdims)
    release(squared, squared.nbytes)
    return total


def _filled(out: Array, values: Array) -> Array:
    np.copyto(out, values)
    return out


def filled(shape: tuple[int, ...], value: float, kind: np.dtype[Any]) -> Array:
    """np.full."""
    out = room(shape, kind, prod(shape))
    if out is None:
        return np.full(shape, value, kind) if value else np.zeros(shape, kind)
    out.fill(value)
    return out


def clipped(x: Array, low: float, high: float) -> Any:
    """x kept between two numbers."""
    return np.clip(x, low, high, out=room(x.shape, x.dtype, x.size) if x.flags.c_contiguous else None)


def selected(x: Array, mask: Array) -> Array:
    """x[mask], of a mask of rows: where it changes often, the places of what it selects are found first."""
    n = mask.size
    if mask.ndim == 1 and x.size >= FROM and len(x) == n:
        count = int(np.count_nonzero(mask))
        if count == n:
            return x.copy() if (out := room(x.shape, x.dtype, x.size)) is None else _filled(out, x)
        if n < 64 * count < 63 * n:
            shape = (count, *x.shape[1:])
            return x.take(mask.nonzero()[0], axis=0, out=room(shape, x.dtype, count * (x.size // n)), mode="clip")
    return x[mask]


def store(x: Array, mask: Array, value: Any) -> None:
    """x[mask] = value, likewise."""
    n = mask.size
    if mask.ndim != 1 or n < FROM or len(x) != n:
        x[mask] = value
        return
    count = int(np.count_nonzero(mask))
    if count == n:
        x[...] = value
    elif n < 64 * count < 63 * n:
        x[mask.nonzero()[0]] = value
    else:
        x[mask] = value


def unique(x: Array) -> Array:
    """np.unique, with every NaN; of integers that lie close together, those that were seen."""
    if x.dtype.kind in "iu" and x.size >= FROM:
        low, high = int(x.min()), int(x.max())
        if high - low < 4 * x.size:
            seen = np.zeros(high - low + 1, bool)
            seen[np.subtract(x, low, dtype=np.int64, casting="unsafe") if high < 1 << 62 else x - x.dtype.type(low)] = True
            return (np.flatnonzero(seen) + low).astype(x.dtype)
    return np.unique(x, equal_nan=False)
