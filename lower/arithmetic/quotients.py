"""Quotients by a number that stays the same in a loop, as a row's sum or a column's deviation does.

Such a quotient is x times the inverse, which is computed once, and then corrected by what is left of x (P. W. Markstein, "Computation of
elementary functions on the IBM RISC System/6000 processor", 1990): as near to x / s as a division, exact where that is exact. It takes
eight instructions, of which a processor begins two in a cycle, where a division of a long vector keeps the divider for eight to sixteen
cycles. What is left is scaled up, so that it keeps its digits for the smallest x."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import float32, float64
from ...ir.node import Node
from ...program.builder import Builder
from ...program.program import Val
from .float_emitter import FloatEmitter
from .reciprocal_root import at_least

_LONG = 64
"""Bytes of a vector of float32 from which dividing takes so long."""
_LEAST, _MOST, _LARGEST, _SCALE = (
    {float32: 2.0**-30, float64: 2.0**-300},
    {float32: 2.0**60, float64: 2.0**300},
    {float32: 2.0**90, float64: 2.0**600},
    {float32: 2.0**30, float64: 2.0**60},
)
"""The divisors that are ordinary lie between the first two; the dividends are below the third; what is left is scaled by the fourth."""


def by_constant(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The quotient `node` of ordinary numbers, in vectors, by a scalar that was known before the loop; None where others are not looked
    after, or it is better divided. `value` evaluates operands."""
    if b.ordinary is None or node.dtype not in (float32, float64) or not {"fma", "sse41"} <= b.features:
        return None
    x, s = value(node.src[0]), value(node.src[1])
    if x.lanes == 1 or s.lanes > 1 or s.depth >= x.depth or (node.dtype is float32 and x.lanes * 4 < _LONG):
        return None
    e, dtype = FloatEmitter(b, x), node.dtype
    if not e.quick():
        return None

    def number(v: float) -> Val:
        return b.const(v, dtype)

    positive = at_least(node.src[1]) >= 0.0
    size = s if positive else b.op("abs", s)
    e.suppose(b.op("and", b.op("lt", number(_LEAST[dtype]), size), b.op("lt", size, number(_MOST[dtype]))))
    e.suppose(e.op("lt", e.op("abs", x), e.num(_LARGEST[dtype])))
    inverse = b.op("div", number(1.0), size)
    larger, smaller = b.op("mul", size, number(_SCALE[dtype])), b.op("mul", inverse, number(-1.0 / _SCALE[dtype]))
    q = e.op("mul", x, b.splat(inverse, x.lanes))
    # (of this sign, what is left of a zero leaves the quotient its sign)
    rest = e.fma(q, b.splat(larger, x.lanes), e.op("mul", x, e.num(-_SCALE[dtype])))
    q = e.fma(rest, b.splat(smaller, x.lanes), q)
    if positive:
        return q
    sign = b.op("and", b.op("bitcast", s, dtype=e.f.bits), b.const(e.sign, e.f.bits))
    return e.number(e.op("xor", e.bits(q), b.splat(sign, x.lanes)))
