"""a / sqrt(x) in lanes without a root or a division, where x is known to be a positive normal number.

A vector of AVX-512 takes about twenty cycles for a division and as many for a root, and that unit does nothing else
meanwhile; thirteen other instructions take seven. (With shorter vectors and half the registers both take as long, and
the root stays.) Here the bits of x give a first guess within 3.5 % (C. Lomont, "Fast inverse square root", 2003), one step of third
order (1 − e)^(−1/2) = 1 + e/2 + 3e²/8 + … leaves 2^-13, and one of Newton's less than a rounding. The result is within
2 ulp. Zero and subnormal numbers would need more, so x must be a sum of what is not negative and of a positive constant
(softened distances, variances with an epsilon)."""

from __future__ import annotations

import math

from ..ir.dtypes import float32
from ..ir.node import Node
from ..program.builder import Builder
from ..program.program import Val
from .float_emitter import FloatEmitter

GUESS = 0x5F3759DF
NORMAL = 2.0**-126
"""The least normal number."""
_DEPTH = 64
"""Operators that are looked through."""


def at_least(node: Node, depth: int = _DEPTH) -> float:
    """A bound that a float is never below (it may be NaN), as far as its expression shows; -inf where nothing is known."""
    if node.op == "const":
        return float(node.arg) if not math.isnan(node.arg) else -math.inf
    if depth == 0:
        return -math.inf
    if node.op == "add":
        return sum(at_least(s, depth - 1) for s in node.src)
    if node.op == "max":
        return max(at_least(s, depth - 1) for s in node.src)
    if node.op in ("exp", "abs", "sqrt"):
        return 0.0
    if node.op == "mul":
        a, b = node.src
        return 0.0 if a is b or min(at_least(a, depth - 1), at_least(b, depth - 1)) >= 0.0 else -math.inf
    return -math.inf


def applies(node: Node) -> bool:
    """Whether a quotient is of the form above."""
    return node.op == "div" and node.dtype is float32 and node.src[1].op == "sqrt" and at_least(node.src[1].src[0]) >= NORMAL


def reciprocal_root(b: Builder, x: Val) -> Val:
    """1 / sqrt(x) of a vector of float32 that are normal and positive, infinite (then 0) or NaN."""
    e = FloatEmitter(b, x)
    y = e.number(e.op("sub", e.whole(GUESS), e.op("shr", e.bits(x), e.whole(1))))
    rest = e.fma(e.op("neg", e.op("mul", x, y)), y, e.num(1.0))
    y = e.fma(e.op("mul", y, rest), e.fma(rest, e.num(0.375), e.num(0.5)), y)
    rest = e.fma(e.op("neg", e.op("mul", x, y)), y, e.num(1.0))
    y = e.fma(e.op("mul", y, rest), e.num(0.5), y)
    return e.op("select", e.op("eq", x, e.num(math.inf)), e.num(0.0), y)
