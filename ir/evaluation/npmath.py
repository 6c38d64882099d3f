"""Functions of float64 arrays that NumPy lacks."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..dtypes import DType

Array = np.ndarray[Any, Any]
_STEP = 16
"""Taylor centres per unit."""
_TERMS = 11
_END = 6
"""erf(x) rounds to ±1 beyond."""
_BLOCK = 1 << 15
"""Elements at a time: what lies between two steps stays in a cache."""


@cache
def _table() -> Array:
    """(centre, term): Taylor coefficients of erf about i/_STEP. With g = exp(−x²): (n+1)·g[n+1] = −2·x0·g[n] − 2·g[n−1]."""
    table = np.empty((_END * _STEP + 1, _TERMS))
    for i in range(len(table)):
        x0 = i / _STEP
        g = [math.exp(-x0 * x0)]
        for n in range(_TERMS - 2):
            g.append((-2 * x0 * g[n] - 2 * (g[n - 1] if n else 0.0)) / (n + 1))
        table[i, 0] = math.erf(x0)
        table[i, 1:] = [2 / math.sqrt(math.pi) * c / (n + 1) for n, c in enumerate(g)]
    return np.ascontiguousarray(table.T)


def erf(x: Array) -> Array:
    """The error function, within a few units in the last place of float64."""
    x = np.asarray(x, np.float64)
    out = np.empty(x.shape)
    flat, found = x.reshape(-1), out.reshape(-1)
    for lo in range(0, flat.size, _BLOCK):
        found[lo : lo + _BLOCK] = _erf(flat[lo : lo + _BLOCK])
    return out


def _erf(x: Array) -> Array:
    magnitude = np.minimum(np.abs(x), _END)
    centre = np.nan_to_num(np.rint(magnitude * _STEP)).astype(np.int64)
    d = magnitude - centre / _STEP
    table = _table()
    out = np.take(table[-1], centre)
    for row in table[-2::-1]:
        out = out * d + np.take(row, centre)
    return np.asarray(np.copysign(out, x))


def narrowed(x: Array, to: DType) -> Array:
    """Numbers of float64 rounded once to a narrower float type, in float64 again."""
    # (ml_dtypes rounds to float32 on the way: done to odd, that changes nothing)
    return np.asarray((odd32(x) if to.foreign else x).astype(to.np).astype(np.float64))


def odd32(a: Any) -> Any:
    """float64 as float32, rounded to odd (S. Boldo and G. Melquiond, IEEE Trans. Computers 57, 2008): rounding it again is then exact."""
    with np.errstate(over="ignore"):
        near = np.asarray(a, np.float64).astype(np.float32)
    back, bits = near.astype(np.float64), np.atleast_1d(near).view(np.uint32)
    wrong = np.atleast_1d((back < a) | (back > a))
    bits = np.where(wrong, (bits - np.atleast_1d(np.abs(back) > np.abs(a)).astype(np.uint32)) | np.uint32(1), bits)
    return bits.astype(np.uint32).view(np.float32).reshape(np.shape(near))[()]


def exp_error(v: Array, e: Array) -> Array:
    """At least v·(exp(e) − 1) for v = exp(x), cheaply where e is small; 0 where v is 0."""
    out = 1.0 + e
    out *= e
    out *= v
    if e.size and e.max() > 1.0:
        large = e > 1.0
        at = np.broadcast_to(v, e.shape)[large]
        out[large] = np.where(at == 0.0, 0.0, at * np.expm1(e[large]))
    return np.asarray(out)


def floor_quotient(x: Any, y: Any) -> Any:
    """⌊x / y⌋ with the special values of the array API standard: an infinite dividend gives an infinity, an infinite divisor a zero. NumPy
    pairs both with its remainder, and gives NaN and −1."""
    found = np.floor_divide(x, y)
    if not np.issubdtype(np.result_type(x, y), np.floating):
        return found
    return np.where(np.isinf(x) | np.isinf(y), np.floor(np.true_divide(x, y)), found)
