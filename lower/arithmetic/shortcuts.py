"""Expressions that are better computed in another way than they are written."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import functions
from ...ir.dtypes import bool_, float32, float64
from ...ir.functions import FAR, FAR_LOG
from ...ir.node import Node, walk
from ...ir.op_names import FUNCTIONS
from ...program.builder import Builder
from ...program.program import Val
from . import arcs, trigonometric
from .choices import of_choice
from .float_emitter import FloatEmitter
from .networks import network
from .quotients import by_constant
from .reciprocal_root import over_root


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
    if b.ordinary is None:
        return None
    if x.op == "div" and functions.asin(x.src[0]) is node:
        inner = value(x.src[0])
        return arcs.asin(FloatEmitter(b, inner), inner)
    if x.op == "sqrt" and x.src[0].op == "div" and x.src[0].src[1].op == "add":
        found = next((n for n in x.src[0].src[1].src if n.op != "const" and node in functions.acos(n).src), None)
        if found is None:
            return None
        inner = value(found)
        return arcs.half_acos(FloatEmitter(b, inner), inner)
    return None


def point(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The `where` that begins the angle of a point; None for others."""
    both = node.src[1]
    if b.ordinary is None or both.op != "add" or not both.dtype.is_float:
        return None
    for x, y in (both.src, both.src[::-1]):
        if functions.atan2(y, x) is node:
            over, under = value(y), value(x)
            lanes = max(over.lanes, under.lanes)
            return arcs.angle(FloatEmitter(b, b.splat(over, lanes)), b.splat(over, lanes), b.splat(under, lanes))
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
