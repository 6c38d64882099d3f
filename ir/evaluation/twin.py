"""The integer twin: every float value becomes a uint32, and arithmetic is chosen so that algebra which reassociates,
tiles or merges leaves the bits alone.

add, sub, mul and fma are mod 2³², max and min are unsigned, exp is 3ˣ mod 2³² (so exp(a + b) = exp(a)·exp(b), which is
what the rescaling of an online softmax needs). The rest are fixed hash functions of the bits with odd results; div(x, y)
is x times such a hash of y. Two schedules of one kernel must agree bit for bit; a dropped or doubled element does not.
All functions take and return uint32 arrays (or NumPy scalars) of any shape.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..dtypes import DType

U32 = np.uint32
Bits = Any
"""A uint32 array or NumPy scalar."""

_SALTS = {
    "div": 0x9E3779B9,
    "sqrt": 0x85EBCA6B,
    "log": 0xC2B2AE35,
    "tanh": 0x27D4EB2F,
    "erf": 0x165667B1,
    "floor": 0xD3A2646D,
    "abs": 0xFD7046C5,
    "round": 0xB55A4F09,
    "trunc": 0x1B873593,
    "expm1": 0x9E3779B1,
    "log1p": 0x5BD1E995,
    "sin": 0x94D049BB,
    "cos": 0xBF58476D,
    "atan": 0x632BE5AB,
}


def _scramble(bits: int) -> int:
    """A 32-bit finaliser (murmur3's) on a Python int."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def const(value: float) -> np.uint32:
    """The twin of a float constant: integers are themselves mod 2³², −inf is 0 (the identity of max), +inf is 2³²−1 (of
    min); anything else is an odd hash of the value rounded to float32."""
    if math.isinf(value):
        return U32(0 if value < 0 else 0xFFFFFFFF)
    if math.isnan(value):
        return U32(_scramble(0x7FC00000) | 1)
    if value == int(value):
        return U32(int(value) & 0xFFFFFFFF)
    return U32(_scramble(int(np.float32(value).view(U32))) | 1)


def hashed(op: str, x: Bits) -> Bits:
    """The odd hash that stands for `op`: any function of one operand but neg and exp, and (of the divisor) div."""
    with np.errstate(over="ignore"):
        h = np.asarray(x, U32) ^ U32(_SALTS[op])
        h = (h ^ (h >> U32(16))) * U32(0x85EBCA6B)
        h = (h ^ (h >> U32(13))) * U32(0xC2B2AE35)
        return ((h ^ (h >> U32(16))) | U32(1))[()]


@cache
def _powers() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """3^i for the low and the high 16 bits of the exponent."""
    low = np.empty(1 << 16, U32)
    high = np.empty(1 << 16, U32)
    step = pow(3, 1 << 16, 1 << 32)
    p = q = 1
    for i in range(1 << 16):
        low[i], high[i] = p, q
        p, q = p * 3 & 0xFFFFFFFF, q * step & 0xFFFFFFFF
    return low, high


def exp(x: Bits) -> Bits:
    """3ˣ mod 2³²."""
    low, high = _powers()
    with np.errstate(over="ignore"):
        return low[x & U32(0xFFFF)] * high[x >> U32(16)]


def unary(op: str, x: Bits) -> Bits:
    """neg, exp, or a hash."""
    if op == "exp":
        return exp(x)
    if op == "neg":
        with np.errstate(over="ignore"):
            return U32(0) - x
    return hashed(op, x)


def binary(op: str, a: Bits, b: Bits) -> Bits:
    """add, sub, mul, max, min, div and the comparisons (unsigned)."""
    with np.errstate(over="ignore"):
        return _BINARY[op](a, b)


_BINARY: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a * hashed("div", b),
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "pow": lambda a, b: exp(a * b),
    "floor_div": lambda a, b: hashed("floor", a * hashed("div", b)),
    "floor_mod": lambda a, b: a - b * hashed("floor", a * hashed("div", b)),
}


def to_int(x: Bits, dtype: DType) -> Any:
    """Float → integer: the low bits, sign-extended where `dtype` is wider than 32 bits."""
    return np.asarray(x, U32).astype(np.int32).astype(dtype.np)[()]


def from_int(x: Any) -> Bits:
    """Integer or bool → float: the value mod 2³²."""
    return np.asarray(x).astype(np.int64).astype(U32)[()]


def draw(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Uniform random bits: the twin's input for a float buffer of this shape."""
    return np.random.default_rng(seed).integers(0, 1 << 32, shape, dtype=U32)
