"""Reductions to the largest size |x|, whose bits are in order as whole numbers."""

from __future__ import annotations

from ...ir.body import Combine
from ...targets import Target
from ..nests import Nest


def by_bits(n: Nest, target: Target, combine: Combine | str) -> bool:
    """Whether a reduction takes the largest of float32 sizes on a target whose instruction for the larger of two floats drops what is no
    number: that for whole numbers does not."""
    expr = n.expr
    known = combine == "max" and expr.op == "abs" and expr.dtype.is_float and expr.dtype.size == 4
    return known and not target.keeps_nan and "sse41" in target.features
