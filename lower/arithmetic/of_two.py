"""Functions of two floats, written out as simpler operations."""

from __future__ import annotations

import math

from ...ir.dtypes import float32, float64
from ...ir.errors import KernelError
from ...program.builder import Builder
from ...program.program import Val
from .float_emitter import FloatEmitter
from .powers import power

# float division ---------------------------------------------------------------------------------------------
# ⌊x / y⌋ and x − y·⌊x / y⌋ of floats, with the results of the array API standard for zeros, infinities and NaN.
#
# The quotient is computed in float64, and what is left is exact: the product of quotient and divisor is a sum of two
# numbers. What rounding carried over a whole number shows in the remainder's sign. All that holds while |x / y| < 2⁵³;
# beyond, the remainder is no number that means anything.


def divide(b: Builder, op: str, x: Val, y: Val) -> Val:
    """`floor_div` or `floor_mod` of two values of one type."""
    dtype = x.dtype
    x, y = (v if v.dtype is float64 else b.op("cast", v, dtype=float64) for v in (x, y))
    e = FloatEmitter(b, x)
    zero, one = e.num(0.0), e.num(1.0)
    exact = e.op("div", x, y)
    quotient = e.op("floor", exact)
    high, low = e.product(quotient, y)
    rest = e.op("sub", e.op("sub", x, high), low)
    # a quotient of 0 leaves x, also where y is infinite
    rest = e.op("select", e.op("eq", quotient, zero), x, rest)
    below = e.op("lt", y, zero)
    past = e.op("select", below, e.op("lt", zero, rest), e.op("lt", rest, zero))
    if op == "floor_div":
        found = e.op("select", past, e.op("sub", quotient, one), quotient)
        found = e.op("select", e.op("eq", e.op("abs", y), e.num(math.inf)), quotient, found)
    else:
        nothing = e.op("select", below, e.num(-0.0), zero)
        found = e.op("select", e.op("eq", rest, zero), nothing, e.op("select", past, e.op("add", rest, y), rest))
    return found if dtype is float64 else b.op("cast", found, dtype=dtype)


# of two -----------------------------------------------------------------------------------------------------
def expand(b: Builder, op: str, x: Val, y: Val) -> Val:
    """`op` (one of `ir.node.PAIRED`) of two values of float32 or float64, each a scalar or a vector; in the twin what stands for it."""
    if x.dtype not in (float32, float64) or y.dtype is not x.dtype:
        raise KernelError(f"{op} of {x.dtype} and {y.dtype} has no expansion: use two values of float32 or float64")
    lanes = max(x.lanes, y.lanes)
    x, y = b.splat(x, lanes), b.splat(y, lanes)
    if b.expand:
        return power(b, x, y) if op == "pow" else divide(b, op, x, y)
    if op == "pow":
        return b.op("exp", b.op("mul", x, y))
    quotient = b.op("floor", b.op("div", x, y))
    return quotient if op == "floor_div" else b.op("sub", x, b.op("mul", y, quotient))
