"""Shifts and divisions of integers by a value, as `ir.operators.integer` defines them, built from operations that Programs have."""

from __future__ import annotations

from ...ir.dtypes import DType
from ...ir.integer_ranges import value_range
from ...ir.intervals import Interval
from ...ir.node import Node
from ...ir.rewrite import rounded
from ...program.builder import Builder
from ...program.program import Val

NAMES = frozenset({"shl", "shr", "floordiv", "remainder"})


def expand(b: Builder, op: str, x: Val, y: Val, by: Node) -> Val:
    """`op` (one of NAMES) of `x` and `y`, scalars or vectors of one integer type; `by` is the expression that `y` is made of."""
    lanes = max(x.lanes, y.lanes)
    x, y = b.splat(x, lanes), b.splat(y, lanes)
    if op in ("shl", "shr"):
        return _shift(b, op, x, y, value_range(by))
    return _divide(b, op, x, y, rounded(by.arg, x.dtype) if by.op == "const" else None)


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


def _divide(b: Builder, op: str, x: Val, y: Val, known: int | None) -> Val:
    if known is not None and known > 0:
        return b.op("idiv" if op == "floordiv" else "imod", x, attr=known)
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
