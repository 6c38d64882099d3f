"""Pieces several kernels share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.buffer import Buffer, Extent
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.functions import erf
from ..ir.node import Node, as_node, const
from ..ir.operators import cast

if TYPE_CHECKING:
    import numpy as np

FLOATS = ("float32", "float16", "bfloat16", "float64")
FP8 = ("float8_e4m3", "float8_e5m2")
SQRT_HALF = 0.7071067811865476


def span(dtype: DType) -> tuple[int, int] | None:
    """The range of an integer input: all of int8; for wider types, narrow enough that sums of 2¹⁰ elements do not wrap."""
    if not dtype.is_int:
        return None
    return (-128, 127) if dtype.size == 1 else (-(1 << 20), 1 << 20)


def ceil_div(kernel: str, name: str, s: Mapping[str, Any], group: str) -> int:
    """⌈size / size⌉ of two sizes by name. KernelError where one is no int."""
    if not isinstance(s[name], int) or not isinstance(s[group], int):
        raise KernelError(f"{kernel}: sizes {name} and {group} must be ints")
    return -(-int(s[name]) // int(s[group]))


def upto(k: int, group: int, b: Buffer, row: Node, element: Node) -> Node:
    """An element of a row, and 0 past the end of k where groups do not come out even."""
    return b[row, element] if k % group == 0 else b.masked(element < k, row, element)


def sum_type(dtype: DType) -> DType:
    """The stored type of a sum or product of `dtype` elements: floats keep their type, small integers widen to int32."""
    return dtype.acc if dtype.is_int else dtype


def as_float(extent: Extent, dtype: DType) -> Node:
    """An extent as a number of the compute type (a constant unless it is symbolic)."""
    return const(float(extent), dtype.compute) if isinstance(extent, int) else cast(as_node(extent), dtype.compute)


def ids_range(extent: Extent) -> tuple[int, int]:
    """The range of indices into a dimension: valid for every value of a symbolic extent."""
    from ..ir.index import bounds

    least = extent if isinstance(extent, int) else bounds(extent)[0]
    return 0, max(0, least - 1)


def gelu(x: Node) -> Node:
    """x·Φ(x), exact by erf: 4 flops and one erf."""
    return x * 0.5 * (erf(x * SQRT_HALF) + 1.0)


def gelu_reference(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """x·Φ(x) in float64."""
    import math

    import numpy as np

    return np.asarray(x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x * SQRT_HALF)))


def f64(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`x` in float64 (bfloat16 included)."""
    import numpy as np

    return x.astype(np.float64)
