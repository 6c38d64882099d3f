"""Functions of two floats, written out as simpler operations."""

from __future__ import annotations

from ...ir.dtypes import float32, float64
from ...ir.errors import KernelError
from ...program.builder import Builder
from ...program.program import Val
from .float_division import divide
from .powers import power


def expand(b: Builder, op: str, x: Val, y: Val) -> Val:
    """`op` (one of `ir.op_names.PAIRED`) of two values of float32 or float64, each a scalar or a vector; in the twin what stands for it."""
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
