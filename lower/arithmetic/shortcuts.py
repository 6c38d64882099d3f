"""Expressions that are better computed in another way than they are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, reduce

import numpy as np

from ...ir import functions
from ...ir.dtypes import bool_, float32, float64
from ...ir.functions import FAR, FAR_LOG
from ...ir.node import FUNCTIONS, Node, const, walk
from ...ir.operators import cast
from ...program.builder import Builder
from ...program.program import Val
from . import minimax, trigonometric
from .float_emitter import FloatEmitter
from .nan_extremes import network
from .reciprocal_root import at_least, over_root

# choices ----------------------------------------------------------------------------------------------------
# What is computed of a choice between numbers that all lanes have in common: the numbers are computed with, and then
# chosen between.
#
# A mask times 1/n in bfloat16, or the gradient of a hinge, is one of two or three numbers: no lane needs a product or a
# rounding of its own.


MOST = 4
"""Numbers between which is chosen at most."""
OPS = ("cast", "mul", "neg")


def of_choice(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """Operations on a choice and constants; None where that is not what `node` is, or lanes choose between numbers of their own. `value`
    evaluates operands."""
    steps, choice = [node], _operand(node)
    while choice is not None and choice.op in OPS and not _is_choice(choice):
        steps.append(choice)
        choice = _operand(choice)
    if choice is None or not _is_choice(choice):
        return None
    cases = list(_cases(choice))
    if len(cases) > MOST or value(_condition(choice)).lanes == 1 or any(value(c).lanes > 1 for c in cases):
        return None
    if choice.op == "cast" and all(step.op == "cast" and step.dtype.is_int for step in steps):
        return b.op("cast", value(_condition(choice)), dtype=node.dtype)

    def apply(case: Node) -> Val:
        known: Node | None = case
        for step in reversed(steps):
            known = _folded(step, known)
        if known is not None:
            return b.const(known.arg, known.dtype)
        x = value(case)
        for step in reversed(steps):
            x = b.op(step.op, *(value(s) if s.op == "const" else x for s in step.src), dtype=step.dtype)
        return x

    def chosen(n: Node) -> Val:
        if not _is_choice(n):
            return apply(n)
        yes, no = (chosen(n.src[1]), chosen(n.src[2])) if n.op == "where" else map(apply, _cases(n))
        return b.op("select", value(_condition(n)), yes, no, dtype=node.dtype)

    return chosen(choice)


def _operand(n: Node) -> Node | None:
    """The only operand that is no constant."""
    found = [s for s in n.src if s.op != "const"]
    return found[0] if len(found) == 1 else None


def _is_choice(n: Node) -> bool:
    return n.op == "where" or (n.op == "cast" and n.src[0].dtype is bool_)


def _condition(n: Node) -> Node:
    return n.src[0]


def _cases(n: Node) -> Iterator[Node]:
    """What is chosen between."""
    if not _is_choice(n):
        yield n
    elif n.op == "where":
        yield from _cases(n.src[1])
        yield from _cases(n.src[2])
    else:
        yield from (const(1, n.dtype), const(0, n.dtype))


def _folded(step: Node, x: Node | None) -> Node | None:
    """A step of a constant, rounded as its type is; None of others."""
    if x is None or x.op != "const":
        return None
    if step.op == "cast":
        return cast(x, step.dtype) if step.dtype.is_float or x.dtype.is_int else None
    if step.dtype not in (float32, float64):
        return None
    with np.errstate(all="ignore"):
        numbers = [step.dtype.np.type((x if s.op != "const" else s).arg) for s in step.src]
        return const(float(-numbers[0] if step.op == "neg" else numbers[0] * numbers[1]), step.dtype)


# arcs -------------------------------------------------------------------------------------------------------
# Inverse sines and cosines, and angles of points, where arguments are ordinary: one root, one polynomial, no division;
# or one division.
#
# Written out, asin is atan(x / √((1 − x)(1 + x))), and atan2 an atan of a quotient: a root and two divisions, and two
# divisions. Up to ½ asin is a polynomial of odd powers; beyond, asin(x) = π/2 − 2 asin(√((1 − x) / 2)) (W. J. Cody and
# W. Waite, 1980).


def asin(e: FloatEmitter, x: Val) -> Val | None:
    """NaN where x is not from −1 to 1; None where it is better written out."""
    if not e.speculates:
        return None
    small, p = _arc(e, x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    turned = e.op("add", e.fma(p, e.num(-2.0), e.num(turn)), e.num(low))
    return e.with_sign(e.op("select", small, p, turned), x)


def half_acos(e: FloatEmitter, x: Val) -> Val | None:
    """acos(x) / 2; NaN where x is not from −1 to 1; None where it is better written out."""
    if not e.speculates:
        return None
    small, p = _arc(e, x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    middle = e.op("add", e.fma(e.with_sign(p, x), e.num(-0.5), e.num(turn / 2)), e.num(low / 2))
    far = e.op("add", e.op("sub", e.num(turn), p), e.num(low))
    return e.op("select", small, middle, e.op("select", e.op("lt", x, e.num(0.0)), far, p))


def _arc(e: FloatEmitter, x: Val) -> tuple[Val, Val]:
    """(whether |x| < ½, asin(|x|) there, else asin(√((1 − |x|) / 2)))."""
    a = e.op("abs", x)
    half = e.num(0.5)
    small = e.op("lt", a, half)
    square = e.op("select", small, e.op("mul", x, x), e.fma(a, e.num(-0.5), half))
    root = e.op("select", small, a, e.op("sqrt", square))
    return small, e.fma(e.op("mul", root, square), e.poly(minimax.ASIN[e.dtype.name], square), root)


def angle(e: FloatEmitter, y: Val, x: Val) -> tuple[Val, list[Val]]:
    """The angle of the point (x, y), and what says that its coordinates are neither tiny nor huge, without which it is not right."""
    over, under = e.op("abs", y), e.op("abs", x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    first, ordinary = _steep32(e, over, under) if e.dtype is float32 else _steep64(e, over, under)
    behind = e.op("add", e.op("sub", e.num(2 * turn), first), e.num(2 * low))
    left = e.op("lt", e.b.op("bitcast", x, dtype=e.f.signed), e.b.const(0, e.f.signed))
    return e.with_sign(e.op("select", left, behind, first), y), ordinary


def _steep32(e: FloatEmitter, over: Val, under: Val) -> tuple[Val, list[Val]]:
    """atan(over / under) by one polynomial to 45 degrees."""
    less = e.op("lt", over, under)
    small, large = e.op("select", less, over, under), e.op("select", less, under, over)
    t = e.op("div", small, large)
    square = e.op("mul", t, t)
    y = e.fma(e.op("mul", t, square), e.horner(minimax.ATAN_WHOLE32, square), t)
    turn, low = minimax.RIGHT_ANGLE["float32"]
    found = e.op("select", less, y, e.op("add", e.op("sub", e.num(turn), y), e.num(low)))
    return found, _far_from_limits(e, small, large)


def _steep64(e: FloatEmitter, over: Val, under: Val) -> tuple[Val, list[Val]]:
    """atan(over / under), turned by π/2 beyond 3π/8 and by π/4 beyond π/8, before the division."""
    large, middle = (e.op("lt", e.op("mul", under, e.num(math.tan(n * math.pi / 8))), over) for n in (3, 1))
    top = e.op("select", large, e.op("neg", under), e.op("select", middle, e.op("sub", over, under), over))
    bottom = e.op("select", large, over, e.op("select", middle, e.op("add", over, under), under))
    t = e.op("div", top, bottom)
    square = e.op("mul", t, t)
    y = e.op("mul", e.op("mul", t, square), e.poly(minimax.ATAN["float64"], square))
    whole, rest = (
        e.op("select", large, e.num(p), e.op("select", middle, e.num(p / 2), e.num(0.0))) for p in minimax.RIGHT_ANGLE["float64"]
    )
    high, lost = e.sum(whole, t)
    found = e.op("add", high, e.op("add", y, e.op("add", lost, rest)))
    return found, _far_from_limits(e, over, over) + _far_from_limits(e, under, under)


def _far_from_limits(e: FloatEmitter, small: Val, large: Val) -> list[Val]:
    """Whether numbers, of which these are the least and the largest, are far from both ends of the exponents."""
    return [e.op("lt", e.num(2.0 ** (3 - e.f.bias)), small), e.op("lt", large, e.num(2.0 ** (e.f.bias - 3)))]


# quotients --------------------------------------------------------------------------------------------------
# Quotients by a number that stays the same in a loop, as a row's sum or a column's deviation does.
#
# Such a quotient is x times the inverse, which is computed once, and then corrected by what is left of x (P. W.
# Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990): as near to x / s as a
# division, exact where that is exact. It takes eight instructions, of which a processor begins two in a cycle, where a
# division of a long vector keeps the divider for eight to sixteen cycles. What is left is scaled up, so that it keeps
# its digits for the smallest x.


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
    if not e.speculative():
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


def quotient(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The quotient `node`; None where it is best divided. `value` evaluates operands."""
    over, under = node.src
    if over.op == "sin" and under.op == "cos" and over.src[0] is under.src[0]:
        x = value(over.src[0])
        return trigonometric.tan(FloatEmitter(b, x), x)
    found = over_root(b, node, value)
    return by_constant(b, node, value) if found is None else found


def arc(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The atan `node` where it is part of an inverse sine or cosine; None elsewhere."""
    x = node.src[0]
    if x.op == "div" and functions.asin(x.src[0]) is node:
        inner = value(x.src[0])
        return asin(FloatEmitter(b, inner), inner)
    if x.op == "sqrt" and x.src[0].op == "div" and x.src[0].src[1].op == "add":
        found = next((n for n in x.src[0].src[1].src if n.op != "const" and node in functions.acos(n).src), None)
        if found is None:
            return None
        inner = value(found)
        return half_acos(FloatEmitter(b, inner), inner)
    return None


def point(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The `where` that begins the angle of a point; None for others."""
    both = node.src[1]
    if both.op != "add" or both.dtype not in (float32, float64) or "sse41" not in b.features:
        return None
    for x, y in (both.src, both.src[::-1]):
        if functions.atan2(y, x) is node:
            over, under = value(y), value(x)
            lanes = max(over.lanes, under.lanes)
            e = FloatEmitter(b, b.splat(over, lanes))
            found, ordinary = angle(e, b.splat(over, lanes), b.splat(under, lanes))
            if e.speculative():
                for condition in ordinary:
                    e.suppose(condition)
                return found
            written = b.op("select", *map(value, node.src), dtype=node.dtype)
            return e.op("select", reduce(partial(e.op, "and"), ordinary), found, written)
    return None


def sign(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """Whether the sign of a float is negative, which expressions can only ask by a division: a test of its bits; None for other nodes."""
    first = node.src[0]
    if node.dtype is not bool_ or first.op != "lt" or first.src[0].dtype not in (float32, float64):
        return None
    if functions.sign_bit(first.src[0]) is not node:
        return None
    x = value(first.src[0])
    e = FloatEmitter(b, x)
    negative = e.op("lt", b.op("bitcast", x, dtype=e.f.signed), b.const(0, e.f.signed))
    return e.op("and", negative, e.op("eq", x, x))


def ordinary_case(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The first case of a `where` that hyperbolic functions leave for huge arguments alone, supposing that there are none; None where
    both cases are wanted."""
    if b.ordinary is None or not b.expand or "sse41" not in b.features:
        return None
    condition, usual, other = node.src
    if condition.op != "lt" or condition.src[1].op != "const" or condition.src[1].arg not in (FAR, FAR_LOG):
        return None
    if not any(n.op in FUNCTIONS for n in walk(other)):
        return None
    holds = value(condition)
    if holds.lanes == 1:
        return None
    b.ordinary.append(holds)
    return value(usual)


KINDS = {
    "div": quotient,
    "atan": arc,
    "or": sign,
    "where": point,
    "cast": of_choice,
    "mul": of_choice,
    "neg": of_choice,
    "max": network,
    "min": network,
}
"""What may know a better way for an operator."""
