"""Expressions that are better computed in another way than they are written."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.functions import FAR, FAR_LOG
from ..ir.node import Node, walk
from ..ir.op_names import FUNCTIONS
from ..program.builder import Builder
from ..program.program import Val
from . import trigonometric
from .float_emitter import FloatEmitter
from .reciprocal_root import over_root


def quotient(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The quotient `node`; None where it is best divided. `value` evaluates operands."""
    over, under = node.src
    if over.op == "sin" and under.op == "cos" and over.src[0] is under.src[0]:
        x = value(over.src[0])
        return trigonometric.tan(FloatEmitter(b, x), x)
    return over_root(b, node, value)


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
