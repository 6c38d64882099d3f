"""What single Program operations mean on NumPy values: correctly rounded fma, conversions, constants."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from struct import pack, unpack
from typing import Any

import numpy as np

from ..ir.dtypes import DType, bool_, index
from ..ir.evaluation import twin
from ..ir.evaluation.array_math import clz as clz
from ..ir.evaluation.array_math import erf, odd32
from ..ir.evaluation.array_math import popcount as popcount
from ..targets.instructions import BY_NAME
from ..targets.tensor_rows import exp2 as exp2

Array = np.ndarray[Any, Any]
U32, I64, U64, F32, F64 = np.uint32, np.int64, np.uint64, np.float32, np.float64
_TIE, _LOW, _ONE = I64(1 << 28), I64((1 << 29) - 1), I64(1)
"""The bits float32 drops from a float64: half way, and all of them."""
_SUBNORMAL = U64(F64(2.0**-126).view(U64) * 2 - 1)
_SPLIT = 134217729.0
"""2²⁷ + 1: Dekker's constant."""


def constant(value: Any, dtype: DType, lanes: int, as_twin: bool) -> Any:
    """The run-time form of a `const`: an int64 scalar is a Python int, other scalars are NumPy's, vectors are arrays."""
    values = list(value) if isinstance(value, tuple) else [value] * lanes
    if dtype.is_float and as_twin:
        out = np.array([twin.const(float(v)) for v in values], U32)
    elif dtype.is_int:
        bits = 8 * dtype.size
        out = np.array([int(v) & ((1 << bits) - 1) for v in values], np.uint64).astype(f"uint{bits}").view(dtype.np)
    else:
        out = np.array(values).astype(dtype.np)
    if lanes > 1:
        return out
    return int(out[0]) if dtype is index else out[0]


def zero(dtype: DType, lanes: int, as_twin: bool) -> Any:
    """What a masked lane reads."""
    return constant(0, dtype, lanes, as_twin)


# fma --------------------------------------------------------------------------------------------------------------
def fma32(a: Array, b: Array, c: Array) -> Array:
    """a·b + c of float32 vectors with one rounding. The product is exact in float64, and the sum rounded there is right
    unless it lands half way between two float32 numbers (or is subnormal): then it is redone with rounding to odd."""
    p = a.astype(F64) * b
    s = p + c
    bits = s.view(I64)
    if b"\1" in (bits & _LOW == _TIE).tobytes() or b"\1" in (((bits << _ONE) - _ONE).view(U64) < _SUBNORMAL).tobytes():
        s = _odd_sum(p, c.astype(F64), s)
    return s.astype(F32)


def fma32_scalar(a: Any, b: Any, c: Any) -> Any:
    """The same for one number."""
    x, y, z = float(a), float(b), float(c)
    s = x * y + z
    if unpack("<q", pack("<d", s))[0] & 0x1FFFFFFF == 0x10000000 or -1.2e-38 < s < 1.2e-38:
        return F32(_odd_sum(F64(x * y), F64(z), F64(s)))
    return F32(s)


def _odd_sum(p: Any, c: Any, s: Any) -> Any:
    """p + c rounded to odd (S. Boldo and G. Melquiond, IEEE Trans. Computers 57, 2008): rounding it again is then exact."""
    t = s - p
    e = (p - (s - t)) + (c - t)
    bits = np.atleast_1d(np.asarray(s, F64).copy()).view(I64)
    s1, e1 = np.atleast_1d(s), np.atleast_1d(e)
    move = np.isfinite(s1) & (e1 != 0) & ((bits & 1) == 0)
    bits += np.where(move, np.where((e1 > 0) == (s1 > 0), 1, -1), 0)
    return bits.view(F64).reshape(np.shape(s))


def fma64(a: Any, b: Any, c: Any) -> Any:
    """a·b + c in float64 with one rounding (the same paper's algorithm; plain where an intermediate overflows)."""
    ah, bh = _high(a), _high(b)
    al, bl = a - ah, b - bh
    uh = a * b
    ul = ((ah * bh - uh) + ah * bl + al * bh) + al * bl
    th, tl = _two_sum(c, ul)
    vh, vl = _two_sum(uh, th)
    rest = _odd_sum(tl, vl, np.asarray(tl + vl))
    out = vh + rest
    return np.where(np.isfinite(out), out, uh + c)[()]


def fma64_scalar(a: Any, b: Any, c: Any) -> Any:
    """The same for one number."""
    return F64(_fma64(float(a), float(b), float(c)))


def fma64_lanes(a: Array, b: Array, c: Array) -> Array:
    """The same for a vector of a few lanes."""
    return np.array([_fma64(x, y, z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)])


def _fma64(x: float, y: float, z: float) -> float:
    """The same steps on Python's floats, which take a hundredth of the time of NumPy's for one number."""
    xh, yh = _high(x), _high(y)
    xl, yl = x - xh, y - yh
    uh = x * y
    ul = ((xh * yh - uh) + xh * yl + xl * yh) + xl * yl
    th, tl = _two_sum(z, ul)
    vh, vl = _two_sum(uh, th)
    rest, lost = _two_sum(tl, vl)
    if lost and isfinite(rest) and not (bits := unpack("<q", pack("<d", rest))[0]) & 1:
        rest = unpack("<d", pack("<q", bits + (1 if (lost > 0) == (rest > 0) else -1)))[0]
    out = vh + rest
    return out if isfinite(out) else uh + z


def _high(a: Any) -> Any:
    t = a * _SPLIT
    return t - (t - a)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def scale2(a: Any, b: Any) -> Any:
    """a · 2^b with one rounding (C's ldexp rounds once)."""
    none = np.isnan(b)
    far = 4 * np.finfo(np.asarray(a).dtype).maxexp
    return np.where(none, b, np.ldexp(a, np.clip(np.where(none, 0, b), -far, far).astype(np.int32)))[()]


def root_guess(a: Any) -> Any:
    """1/√a with 11 bits after the point, rounded: off by up to a part in 4096, as processors' estimates are."""
    with np.errstate(all="ignore"):
        bits = (1.0 / np.sqrt(np.asarray(a, np.float32))).astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x800)) & np.uint32(0xFFFFF000)).view(np.float32)[()]


# matrix instructions ------------------------------------------------------------------------------------------------
def dotter(name: str, as_twin: bool) -> Callable[[Any, Any, Any], Any]:
    """The function (acc, a, b) of a row of `targets.instructions`; the twin of its floats adds the products mod 2³²."""
    row = BY_NAME[name]

    def dot(acc: Any, a: Any, b: Any) -> Any:
        groups = np.reshape(b, (*np.shape(b)[:-1], -1, row.k))
        a = np.asarray(a)[..., None, :] if np.shape(a)[-1] == row.k else np.reshape(a, (*np.shape(a)[:-1], -1, row.k))
        # of threads side by side, some operands may be the same in all
        shape = np.broadcast_shapes(np.shape(acc), a.shape[:-1], groups.shape[:-1])
        if as_twin and row.c.is_float:
            return acc + (groups * a).sum(-1, dtype=U32)
        columns = [np.broadcast_to(a[..., i], shape) for i in range(row.k)]
        return row.step(np.broadcast_to(acc, shape), columns, [np.broadcast_to(groups[..., i], shape) for i in range(row.k)])

    return dot


# functions and conversions ------------------------------------------------------------------------------------------
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "trunc")},
    "erf": erf,
    "atan": np.arctan,
}


def function(op: str, a: Any, dtype: DType) -> Any:
    """An elementary function: computed in float64, rounded to the type."""
    return np.asarray(_FUNCTIONS[op](np.asarray(a, F64))).astype(dtype.np)[()]


def caster(source: DType, to: DType, lanes: int, as_twin: bool) -> Callable[[Any], Any]:
    """The function that converts values of one type and width."""
    if as_twin and (source.is_float or to.is_float):
        if source.is_float and to.is_float:
            return lambda a: a
        if to.is_float:
            return twin.from_int
        return (lambda a: np.not_equal(a, 0)) if to is bool_ else lambda a: _scalar(twin.to_int(a, to), to)
    small, target = source.narrow, to.np
    number = lanes == 1 and to is index and not source.is_float and source.name != "uint64"  # (of which half wrap)
    twice = to.narrow and source.name == "float64"  # ml_dtypes rounds to float32 on the way

    def convert(a: Any) -> Any:
        x = np.int64(a) if isinstance(a, int) else a.astype(F32) if small else odd32(a) if twice else a
        return int(x) if number else _scalar(x.astype(target), to)

    return (lambda a: a != 0) if to is bool_ else convert


def bitcaster(source: DType, to: DType, lanes: int) -> Callable[[Any], Any]:
    """The function that reads the bits of one type as another."""
    target = to.np
    if lanes > 1:
        return lambda a: a.view(target)
    return lambda a: _scalar((I64(wrap64(a)) if isinstance(a, int) else a).view(target), to)


def _scalar(x: Any, dtype: DType) -> Any:
    return int(x) if dtype is index and np.ndim(x) == 0 else x


def wrap64(x: int) -> int:
    """A Python int as an int64 would hold it."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def splatter(lanes: int, dtype: np.dtype[Any]) -> Callable[[Any], Array]:
    """A function that repeats a scalar."""

    def splat(x: Any) -> Array:
        out: Array = np.empty(lanes, dtype)
        out.fill(x)
        return out

    return splat


def insert(a: Array, x: Any, lane: int) -> Array:
    """`a` with one lane replaced."""
    out = a.copy()
    out[lane] = x
    return out


# threads side by side: scalars are numbers or (threads,), vectors (lanes,) or (threads, lanes) --------------------------
def column(a: Any) -> Any:
    """A scalar, to meet vectors."""
    return a[:, None] if np.ndim(a) else a


def spread(a: Any, lanes: int, dtype: np.dtype[Any]) -> Array:
    """A scalar in every lane."""
    if np.ndim(a) == 0:
        return np.full(lanes, a, dtype)
    return np.repeat(a[:, None], lanes, 1)


def insert_each(a: Array, x: Any, lane: int) -> Array:
    """`a` with one lane replaced."""
    out = np.array(np.broadcast_to(a, (len(x), a.shape[-1]))) if np.ndim(x) and a.ndim == 1 else a.copy()
    out[..., lane] = x
    return out


def joined(a: Any, b: Any, wide_a: bool, wide_b: bool) -> Array:
    """The lanes of a and b in a row."""
    parts = [np.asarray(x) if wide else np.asarray(x)[..., None] for x, wide in ((a, wide_a), (b, wide_b))]
    if parts[0].ndim != parts[1].ndim:
        n = max(parts, key=lambda x: x.ndim).shape[0]
        parts = [np.broadcast_to(x, (n, x.shape[-1])) for x in parts]
    return np.concatenate(parts, -1)


def shl(a: Any, b: Any) -> Any:
    """a << b, wrapping where both are Python's ints."""
    return wrap64(a << b) if isinstance(a, int) and isinstance(b, int) else a << b
