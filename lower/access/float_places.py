"""Places that floats say, as a picture that is read between its pixels has them."""

from __future__ import annotations

from math import floor

from ...ir.dtypes import index, int32
from ...ir.integer_ranges import float_range
from ...ir.node import Node
from ...program.builder import Builder
from ...program.program import Val
from ...targets import Target

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
