"""Functions of float64 arrays that NumPy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
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
    if not np.issubdtype(found.dtype, np.floating):
        return found
    x, y = np.asarray(x, found.dtype), np.asarray(y, found.dtype)  # (a Python number may be infinite in the type of the other)
    return np.where(np.isinf(x) | np.isinf(y), np.floor(np.true_divide(x, y)), found)


def power(x: Any, y: Any) -> Any:
    """xʸ as IEEE 754 has it. NumPy makes a root of one exponent ½ for all, whose zero has the sign of x, and which is NaN of −∞."""
    found = np.power(x, y)
    root = np.equal(y, 0.5)
    if not root.any():
        return found
    x = np.asarray(x, found.dtype)
    return np.where(root & ((x == 0) | np.isinf(x)), np.abs(x), found)


def floordiv(a: Any, b: Any) -> Any:
    """⌊a / b⌋; 0 where b is 0, and the least number by −1 is itself."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.floor_divide(a, b)


def remainder(a: Any, b: Any) -> Any:
    """a − b·⌊a / b⌋, which has b's sign; 0 where b is 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.remainder(a, b)


def quotient(a: Any, b: Any) -> Any:
    """a / b rounded towards 0 (the operation `quot` of Programs); 0 where b is 0, and the least number by −1 is itself."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        down = np.floor_divide(a, b)
        rest = a - down * b
        return np.where((b != 0) & (rest != 0) & ((a < 0) != (b < 0)), down + np.ones_like(down), down).astype(down.dtype)[()]


def _unsigned(a: Any) -> Any:
    """The bits of integers as numbers without a sign."""
    a = np.asarray(a)
    return a.view(f"u{a.dtype.itemsize}")


def popcount(a: Any) -> Any:
    """Bits that are set."""
    return np.bitwise_count(_unsigned(a)).astype(np.asarray(a).dtype)[()]


def clz(a: Any) -> Any:
    """Bits above the highest that is set; all of 0."""
    x, kind = _unsigned(a), np.asarray(a).dtype
    for distance in (1, 2, 4, 8, 16, 32)[: kind.itemsize.bit_length() + 2]:  # every bit below the highest is set
        x = x | x >> x.dtype.type(distance)
    return np.bitwise_count(~x).astype(kind)[()]


COUNTS: dict[str, Callable[[Any], Any]] = {"popcount": popcount, "clz": clz}
"""Each takes an array of an integer type."""
INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "floordiv": floordiv,
    "remainder": remainder,
}
"""Each takes two arrays of one integer type; the first three take bools, too."""


_EXACT = 1 << 53
"""float64 holds every whole number below this."""
_CHUNK = 1 << 20
"""Products of 16-bit halves summed before they could pass `_EXACT`."""


@dataclass(frozen=True, slots=True)
class ProductLayout:
    """The extents of the broadcast positions; the first `spatial` of them stay, the rest are summed over."""

    shape: tuple[int, ...]
    spatial: int


def _matrices(x: Array, y: Array, layout: ProductLayout) -> tuple[Array, Array, list[int]]:
    """x as (batch, m, k), y as (batch, k, n), and the spatial positions in the order batch, m, n. k has what both vary along: along
    the rest, one is added up before (Σ x·y over p and q is Σ (Σ x)·y over q, where only x varies along p)."""
    keep, over = range(layout.spatial), range(layout.spatial, len(layout.shape))
    neither = prod(layout.shape[p] for p in over if x.shape[p] == 1 and y.shape[p] == 1)
    x, y = _added_up(x, [p for p in over if y.shape[p] == 1]), _added_up(y, [p for p in over if x.shape[p] == 1])
    if neither != 1:
        x = x * x.dtype.type(neither) if x.dtype.kind == "f" else x.astype(np.int64) * neither
    batch = [p for p in keep if x.shape[p] != 1 and y.shape[p] != 1]
    rows = [p for p in keep if x.shape[p] != 1 and y.shape[p] == 1]
    cols = [p for p in keep if x.shape[p] == 1 and y.shape[p] != 1]
    both = [p for p in over if x.shape[p] != 1]

    def size(places: list[int]) -> int:
        return prod(layout.shape[p] for p in places)

    rest_x = [p for p in range(x.ndim) if p not in batch and p not in rows and p not in both]
    rest_y = [p for p in range(y.ndim) if p not in batch and p not in cols and p not in both]
    left = x.transpose([*rest_x, *batch, *rows, *both]).reshape(size(batch), size(rows), size(both))
    right = y.transpose([*rest_y, *batch, *both, *cols]).reshape(size(batch), size(both), size(cols))
    return left, right, [*batch, *rows, *cols]


def _added_up(x: Array, places: list[int]) -> Array:
    """Sums over positions, which stay, with one element."""
    mine = tuple(p for p in places if x.shape[p] != 1)
    return np.asarray(x.sum(axis=mine, keepdims=True)) if mine else x


def _restore(out: Array, order: list[int], layout: ProductLayout) -> Array:
    out = out.reshape([layout.shape[p] for p in order])
    out = out.transpose([order.index(p) for p in sorted(order)])
    return out.reshape([layout.shape[p] if p in order else 1 for p in range(layout.spatial)])


def contract(x: Array, y: Array, layout: ProductLayout) -> Array:
    """Σ x·y in float64; both arrays have one position per extent (1 where they do not vary). The result has the spatial
    positions only (1 where neither varies)."""
    left, right, order = _matrices(x, y, layout)
    return _restore(np.matmul(left, right), order, layout)


def contract_exact(x: Array, y: Array, layout: ProductLayout, to: np.dtype[Any]) -> Array:
    """The same for integers, wrapping in the integer type `to`: through float64 products where those are exact."""
    left, right, order = _matrices(x, y, layout)
    return _restore(_matmul_exact(left, right, to), order, layout)


def _matmul_exact(a: Array, b: Array, to: np.dtype[Any]) -> Array:
    k = a.shape[2]
    if not a.size or not b.size:
        return np.zeros((a.shape[0], a.shape[1], b.shape[2]), to)
    peak = max(abs(int(a.max())), abs(int(a.min()))) * max(abs(int(b.max())), abs(int(b.min())))
    if peak * k < _EXACT:
        small: Array = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(to)
        return small
    if to.itemsize > 4:
        return np.asarray(np.matmul(a.astype(to), b.astype(to)))
    u, v = a.astype(np.int64).astype(np.uint32), b.astype(np.int64).astype(np.uint32)
    out = np.zeros((a.shape[0], a.shape[1], b.shape[2]), np.uint32)
    for lo in range(0, k, _CHUNK):
        p, q = u[:, :, lo : lo + _CHUNK], v[:, lo : lo + _CHUNK]
        p_low, p_high = (p & np.uint32(0xFFFF)).astype(np.float64), (p >> np.uint32(16)).astype(np.float64)
        q_low, q_high = (q & np.uint32(0xFFFF)).astype(np.float64), (q >> np.uint32(16)).astype(np.float64)
        cross = np.matmul(p_low, q_high) + np.matmul(p_high, q_low)
        out += np.matmul(p_low, q_low).astype(np.uint64).astype(np.uint32)
        out += cross.astype(np.uint64).astype(np.uint32) << np.uint32(16)
    return out.astype(to)
