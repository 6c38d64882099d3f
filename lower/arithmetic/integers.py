"""Shifts and divisions of integers by a value, as `ir.operators.integer` defines them, built from operations that Programs have."""

from __future__ import annotations

import struct
from math import floor

from ...ir.dtypes import DType, float32, index, int32, rounded
from ...ir.dtypes import dtype as named
from ...ir.index import Interval
from ...ir.integer_ranges import float_range, value_range
from ...ir.node import Node
from ...program.builder import Builder
from ...program.program import Val
from ...targets import Target

NAMES = frozenset({"shl", "shr", "floordiv", "remainder"})
VECTORS = frozenset({"sse41", "neon"})
"""Processors that turn vectors of 32-bit integers into floats and back, one instruction each way."""
EXACT = 1 << 21
"""Up to here the product with an inverse in float32, of twice 2**-24 of its size too much or too little (three times without fused
products), is nearer to the quotient of x + 1/2 than a whole number can be."""


def expand(b: Builder, op: str, x: Val, y: Val, by: Node, dividend: Interval) -> Val:
    """`op` (one of NAMES) of `x` and `y`, scalars or vectors of one integer type; `by` is the expression that `y` is made of, and
    `dividend` has all values of `x`."""
    lanes = max(x.lanes, y.lanes)
    x, y = b.splat(x, lanes), b.splat(y, lanes)
    if op in ("shl", "shr"):
        return _shift(b, op, x, y, value_range(by))
    known = rounded(by.arg, x.dtype) if by.op == "const" else None
    if known is not None and known > 0:
        return _by_constant(b, op, x, known, dividend)
    return _divide(b, op, x, y)


def _by_constant(b: Builder, op: str, x: Val, by: int, dividend: Interval) -> Val:
    """A quotient or rest of a division by a positive constant: in floats where few values make that exact, since vectors of 32 bits have no
    instruction for the upper half of a product; else without a sign where none is needed, which saves corrections."""
    low, high = dividend
    up = max(0, -(low // by))  # so many times `by` more, and no dividend is negative
    dtype, whole = x.dtype, high + up * by
    plain = not b.expand or by & (by - 1) == 0
    if not plain and b.features & VECTORS and dtype.size == 4 and x.lanes > 1 and max(-low, whole, by) <= EXACT:
        inverse = _single(1.0 / by)
        floats = b.op("cast", b.op("cast", x, dtype=int32), dtype=float32)
        near = b.op("fma", floats, _float(b, inverse, x), _float(b, _single((up * by + 0.5) * inverse), x))
        quotient = b.op("cast", near, dtype=int32)
        quotient = b.op("cast", b.op("sub", quotient, _number(b, up, quotient)) if up else quotient, dtype=dtype)
        return quotient if op == "floordiv" else b.op("sub", x, b.op("mul", quotient, _number(b, by, x)))
    if not plain and dtype.kind == "i" and dtype.size >= 2 and (not up or x.lanes > 1) and whole < 1 << 8 * dtype.size:
        unsigned = named(f"uint{8 * dtype.size}")
        found = b.op("cast", b.op("add", x, _number(b, up * by, x)) if up else x, dtype=unsigned)
        found = b.op("cast", b.op("idiv" if op == "floordiv" else "imod", found, attr=by), dtype=dtype)
        return b.op("sub", found, _number(b, up, found)) if up and op == "floordiv" else found
    return b.op("idiv" if op == "floordiv" else "imod", x, attr=by)


def _single(value: float) -> float:
    """A number as float32 holds it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _float(b: Builder, value: float, like: Val) -> Val:
    return b.const(value, float32, like.lanes)


def _shift(b: Builder, op: str, x: Val, y: Val, amounts: Interval) -> Val:
    bits, dtype = 8 * x.dtype.size, x.dtype
    if amounts[0] >= 0 and amounts[1] < bits:
        return b.op(op, x, y)
    inside = b.op("lt", y, _number(b, bits, x))
    if dtype.kind == "i":
        inside = b.op("and", inside, b.op("le", _number(b, 0, x), y))
    if op == "shr" and dtype.kind == "i":
        return b.op("shr", x, b.op("select", inside, y, _number(b, bits - 1, x)))
    zero = _number(b, 0, x)
    return b.op("select", inside, b.op(op, x, b.op("select", inside, y, zero)), zero)


def _divide(b: Builder, op: str, x: Val, y: Val) -> Val:
    zero = _number(b, 0, x)
    none = b.op("eq", y, zero)
    # a divisor that is never 0, so that the corrections below need not look
    by = b.op("select", none, _number(b, 1, x), y)
    quotient = b.op("quot", x, by)
    if x.dtype.kind == "u":
        out = quotient if op == "floordiv" else b.op("sub", x, b.op("mul", quotient, by))
        return b.op("select", none, zero, out)
    rest = b.op("sub", x, b.op("mul", quotient, by))
    # rounded towards 0: one too large where the remainder has not the divisor's sign
    wrong = b.op("and", b.op("ne", rest, zero), b.op("lt", b.op("xor", rest, by), zero))
    if op == "floordiv":
        out = b.op("sub", quotient, b.op("select", wrong, _number(b, 1, x), zero))
    else:
        out = b.op("add", rest, b.op("select", wrong, by, zero))
    return b.op("select", none, zero, out)


def _number(b: Builder, value: int, like: Val) -> Val:
    dtype: DType = like.dtype
    return b.const(value, dtype, like.lanes)


NEAR = float(1 << 30)
"""Places that int32 holds, with room for what rounding adds."""


def float_places(b: Builder, node: Node, x: Val, target: Target) -> Val | None:
    """The cast `node` of a vector of floats `x` to places, by way of int32, of which processors convert a vector at a time; None where they may
    not fit, or it is something else. (What is no number becomes the least int32, and is brought inside.)"""
    if node.dtype is not index or not x.dtype.is_float or x.lanes == 1 or not b.expand or target.kind == "gpu":
        return None
    low, high = float_range(node.src[0])
    if not -NEAR <= low <= high <= NEAR:
        return None
    return b.op("cast", b.op("max", b.op("cast", x, dtype=int32), b.const(floor(low), int32, x.lanes)), dtype=index)
