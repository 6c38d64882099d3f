"""Functions of expressions: selection, extremes and the elementary functions."""

from __future__ import annotations

from collections.abc import Callable

from .node import Expr, Node
from .operators import arith, unary, where

__all__ = ["absolute", "erf", "exp", "floor", "log", "maximum", "minimum", "sqrt", "tanh", "where"]


def maximum(a: Expr, b: Expr) -> Node:
    """The larger (NaN propagates for floats)."""
    return arith("max", a, b)


def minimum(a: Expr, b: Expr) -> Node:
    """The smaller (NaN propagates for floats)."""
    return arith("min", a, b)


def _fn(op: str) -> Callable[[Node], Node]:
    def apply(a: Node) -> Node:
        return unary(op, a)

    apply.__name__ = op
    apply.__doc__ = f"Elementwise {op} in the compute type of its operand."
    return apply


exp, log, sqrt, tanh, erf, absolute, floor = (_fn(o) for o in ("exp", "log", "sqrt", "tanh", "erf", "abs", "floor"))
