"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.dtypes import DType
from ..node import TensorNode
from ..primitives import cast, const, elementwise, reduce
from ..promotion import sum_type, to_float
from .movement import dims, kept

Axis = int | Sequence[int] | None


def reduced(combine: str, x: TensorNode, axis: Axis, keepdims: bool, name: str) -> TensorNode:
    """`combine` over dimensions (None: all)."""
    over = dims(x, axis, name)
    out = reduce(combine, x, over)
    return kept(out, x.shape, over) if keepdims else out


def sum(x: TensorNode, axis: Axis = None, keepdims: bool = False, dtype: DType | None = None) -> TensorNode:
    """Σ; small integers and bools are summed as 64-bit ones."""
    return reduced("add", cast(x, dtype or sum_type(x.dtype)), axis, keepdims, "sum")


def max(x: TensorNode, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """The largest; NaN where any is NaN."""
    return reduced("max", x, axis, keepdims, "max")


def mean(x: TensorNode, axis: Axis = None, keepdims: bool = False) -> TensorNode:
    """The average."""
    x = cast(x, to_float(x.dtype))
    over = dims(x, axis, "mean")
    total = reduced("add", x, over, keepdims, "mean")
    count = prod(x.shape[d] for d in over)
    return elementwise("div", total, const(float(count), x.dtype, total.shape))
