"""a / sqrt(x), and a / (x sqrt(x)), in lanes without a root or a division, where x is known to be a positive normal number.

A vector takes up to twenty cycles for a division and as many for a root, and that unit does nothing else meanwhile.
x86-64 has an instruction that guesses 1 / sqrt(x) in float32 to twelve bits (`root_guess`); one step of third order
(1 − e)^(−1/2) = 1 + e/2 + 3e²/8 + … leaves less than a rounding. In float64 the bits of x give a first guess within
3.5 % (C. Lomont, "Fast inverse square root", 2003); two such steps and one of Newton's follow. The result is within
2 ulp. Zero and subnormal numbers would need more, so x must be a sum of what is not negative and of a positive constant
(softened distances, variances with an epsilon); or the step is one that is computed for ordinary arguments first
(`emit.fast_path`), as it is in float64 on processors with fma."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.dtypes import float32
from ...ir.node import Node
from ...program.builder import Builder
from ...program.program import Val
from .float_emitter import FloatEmitter

GUESS64 = 0x5FE6EB50C7B537A9
LARGEST = 0x7F7FFFFF
"""The bits of the largest number of float32."""
NORMAL = 2.0**-126
"""The least normal number."""
_FACTORS = 3
"""Factors of a divisor."""
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
    if node.op == "div":  # (a divisor that may be -0.0 has quotients of either sign)
        a, b = node.src
        return 0.0 if at_least(a, depth - 1) >= 0.0 and at_least(b, depth - 1) > 0.0 else -math.inf
    return -math.inf


def powers(node: Node) -> tuple[Node, int] | None:
    """(x, n) of a quotient a / x^(n/2) whose divisor is a product of roots of x and at most a few x, n odd; None for others."""
    if node.op != "div" or node.dtype is not float32:
        return None
    factors, last = [node.src[1]], 0
    while last < len(factors) <= _FACTORS:
        if factors[last].op == "mul":
            factors[last : last + 1] = factors[last].src
        else:
            last += 1
    root = next((f.src[0] for f in factors if f.op == "sqrt"), None)
    if root is None or len(factors) > _FACTORS or not all(f is root or (f.op == "sqrt" and f.src[0] is root) for f in factors):
        return None
    n = sum(2 if f is root else 1 for f in factors)
    return (root, n) if n % 2 and at_least(root) >= NORMAL else None


def over_root(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """A quotient by a root, or by an odd power of one, as a product, where that is quicker; None where it is not. `value` evaluates
    operands."""
    inverse = _inverse(b, node, value)
    if inverse is None or node.src[0].arg == 1.0:
        return inverse
    return b.op("mul", value(node.src[0]), inverse)


def factors(b: Builder, node: Node, value: Callable[[Node], Val]) -> tuple[Val, Val] | None:
    """The two factors of such a product, for who adds it to something; None where there are none."""
    inverse = None if node.op != "div" or node.src[0].arg == 1.0 or not b.expand else _inverse(b, node, value)
    return None if inverse is None else (value(node.src[0]), inverse)


def _inverse(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    if b.fixed:
        return None
    found = powers(node) if "sse41" in b.features else None
    if found is not None and (square := value(found[0])).lanes > 1:
        root: Val | None = reciprocal_root(b, square)
        times = found[1]
    elif node.src[1].op == "sqrt":
        root, times = ordinary_root(b, value(node.src[1].src[0])), 1
    else:
        return None
    if root is None:
        return None
    out = root
    for _ in range(times - 1):
        out = b.op("mul", out, root)
    return out


def ordinary_root(b: Builder, x: Val) -> Val | None:
    """1 / sqrt(x) of ordinary numbers; None where others are not looked after, or it is better divided."""
    e = FloatEmitter(b, x)
    if not e.speculative() or (e.dtype is not float32 and "fma" not in b.features):
        return None
    e.suppose(e.normal(x))
    if e.dtype is float32:
        return _refined(e, x, e.op("root_guess", x))
    y = e.number(e.op("sub", e.whole(GUESS64), e.op("shr", e.bits(x), e.whole(1))))
    y = _refined(e, x, _refined(e, x, y))
    rest = e.fma(e.op("neg", e.op("mul", x, y)), y, e.num(1.0))
    return e.fma(e.op("mul", y, rest), e.num(0.5), y)


def reciprocal_root(b: Builder, x: Val) -> Val:
    """1 / sqrt(x) of a vector of float32 that are normal and positive, infinite (then 0) or NaN."""
    e = FloatEmitter(b, x)
    # of infinity the guess is 0, and stays that if it is multiplied by a number; a comparison of bits is one instruction
    finite = e.number(e.op("min", e.bits(x), e.whole(LARGEST)))
    return _refined(e, finite, e.op("root_guess", x))


def _refined(e: FloatEmitter, x: Val, y: Val) -> Val:
    """A guess of 1 / sqrt(x) after a step of third order: three times as many bits."""
    rest = e.fma(e.op("neg", e.op("mul", x, y)), y, e.num(1.0))
    return e.fma(e.op("mul", y, rest), e.fma(rest, e.num(0.375), e.num(0.5)), y)
