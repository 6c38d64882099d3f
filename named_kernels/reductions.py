"""Sums, prefix sums, and the place of the largest element; int8 sums in int32."""

from __future__ import annotations

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int32
from ..ir.functions import maximum, minimum, where
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.operators import cast
from .definition import FLOATS, Shape, definition, span, sum_type

MATRIX, ODD = {"m": 4096, "n": 4096}, {"m": 31, "n": 67}
NO_INDEX = 2**31 - 1
"""The index of no element: it loses against every real one."""


@definition("y = x.sum(axis=1)", MATRIX, ODD, (*FLOATS, "int8"))
def sum_rows(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("sum_rows")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    total = kb.sum("total", (i,), j, x[i, j])
    kb.store("y", sum_type(dtype), (m,), (i,), total[i])
    return kb.build()


@definition("y = x.sum(axis=0)", MATRIX, ODD, (*FLOATS, "int8"))
def sum_cols(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("sum_cols")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    total = kb.sum("total", (j,), i, x[i, j])
    kb.store("y", sum_type(dtype), (n,), (j,), total[j])
    return kb.build()


@definition("y = x.sum()", {"n": 1 << 26}, {"n": 1009}, (*FLOATS, "int8"))
def sum_all(s: Shape, dtype: DType) -> Kernel:
    """x (n) → y ()."""
    n = s["n"]
    kb = KernelBuilder("sum_all")
    j = kb.axis("n", n)
    x = kb.input("x", (n,), dtype, range=span(dtype))
    total = kb.sum("total", (), j, x[j])
    kb.store("y", sum_type(dtype), (), (), total[()])
    return kb.build()


@definition("y = x.cumsum(axis=1)", MATRIX, {"m": 11, "n": 103}, (*FLOATS, "int8"))
def cumsum(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n), y[m, n] = Σ_{t ≤ n} x[m, t]."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("cumsum")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    prefix = kb.scan("add", "prefix", (i, j), j, x[i, j])
    kb.store("y", sum_type(dtype), (m, n), (i, j), prefix[i, j])
    return kb.build()


@definition("y = x.argmax(axis=1), the first on a tie", MATRIX, {"m": 11, "n": 103})
def argmax(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m) int32: a fold of (value, index) with the index as tie-break. The first NaN of a row counts as its largest
    element, as in NumPy."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("argmax")
    i, j_top, j_at = kb.axis("m", m), kb.axis("n@top", n), kb.axis("n@at", n)
    x = kb.input("x", (m, n), dtype)
    top = kb.block_reduce("max", "top", (i,), j_top, x[i, j_top])

    def among(value: Node, largest: Node) -> Node:
        """Whether it is the largest, or NaN (which makes the largest NaN)."""
        return value.eq(largest) | value.ne(value)

    at = kb.block_reduce("min", "at", (i,), j_at, where(among(x[i, j_at], top[i]), cast(j_at, int32), NO_INDEX))
    best = maximum(kb.lhs(top), kb.rhs(top))
    first = minimum(where(among(kb.lhs(top), best), kb.lhs(at), NO_INDEX), where(among(kb.rhs(top), best), kb.rhs(at), NO_INDEX))
    kb.fold("best", kb.axis("n", n), (top, at), (top, at), (float("-inf"), NO_INDEX), (best, first))
    kb.store("y", int32, (m,), (i,), at[i])
    return kb.build()
