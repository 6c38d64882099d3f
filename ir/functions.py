"""Functions of expressions: selection, extremes and the elementary functions."""

from __future__ import annotations

from collections.abc import Callable

from .errors import KernelError
from .node import Expr, Node, arith, as_node, cast, make, unary


def where(cond: Node, a: Expr, b: Expr) -> Node:
    """`a` where `cond` holds, else `b`; both sides are defined everywhere."""
    like = a if isinstance(a, Node) else b if isinstance(b, Node) else None
    dtype = like.dtype.compute if like is not None else None
    x, y = as_node(a, dtype), as_node(b, dtype)
    x, y = cast(x, x.dtype.compute), cast(y, y.dtype.compute)
    if x.dtype is not y.dtype:
        raise KernelError(f"where() of {x.dtype} and {y.dtype}: cast one of them")
    if cond.op == "const":
        return x if cond.arg else y
    return x if x is y else make("where", x.dtype, (cond, x, y))


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
