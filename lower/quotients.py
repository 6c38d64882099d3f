"""Quotients that are better computed in another way than by dividing."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.node import Node
from ..program.builder import Builder
from ..program.program import Val
from . import trigonometric
from .float_emitter import FloatEmitter
from .reciprocal_root import over_root


def known(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The quotient `node`; None where it is best divided. `value` evaluates operands."""
    over, under = node.src
    if over.op == "sin" and under.op == "cos" and over.src[0] is under.src[0]:
        x = value(over.src[0])
        return trigonometric.tan(FloatEmitter(b, x), x)
    return over_root(b, node, value)
