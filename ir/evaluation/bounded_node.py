"""A float expression in float64 beside the error that a correct result may have, and what arithmetic makes of both.

The formulas are those of `error_bound`, as expressions of a kernel instead of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ..dtypes import OVERFLOW, DType, float64
from ..functions import absolute, erf, exp, expm1, log, maximum, minimum, sqrt, tanh
from ..node import Node, const
from ..operators import where
from .error_bound import FUNCTION_ULP, SMALLEST
from .reference import SLACK


@dataclass(frozen=True, slots=True)
class BoundedNode:
    """A value in float64 and its error (None: exact), as expressions."""

    value: Node
    error: Node | None


class UnknownError(Exception):
    """No formula here for the error of this."""


FUNCTIONS = {"exp": exp, "tanh": tanh, "erf": erf, "sqrt": sqrt, "log": log}


def unary(op: str, a: BoundedNode, of: DType) -> BoundedNode:
    """Functions whose error grows by their slope. Where `error_bound` chooses a formula by the largest error of all, this does so for each
    element: what is above 1 has the formula for large errors."""
    x, e = a.value, a.error
    if op in ("neg", "abs"):
        return BoundedNode(-x if op == "neg" else absolute(x), e)
    if op not in FUNCTIONS:
        raise UnknownError
    v = FUNCTIONS[op](x)
    if e is not None:
        least = maximum(0.0, absolute(x) - SLACK * e)
        if op == "log":
            e = e / maximum(absolute(x) - e, SMALLEST["float32"])
        elif op == "sqrt":
            e = minimum(e / maximum(v, SMALLEST["float32"]), sqrt(e))
        elif op == "exp":
            e = where(e > 1.0, where(v.eq(0.0), 0.0, v * expm1(e)), (1.0 + e) * e * v)
        elif op == "tanh":
            e = where(e < 1.0, e * minimum(1.0, 1.0 - v * v + e), e * (1.0 - tanh(least) * tanh(least)))
        else:
            e = where(e < 1.0, e * minimum(1.1284, 1.1284 * exp(-x * x) + e), e * (1.1284 * exp(-(least * least))))
    made = paired(v, e, (1.0 if op == "sqrt" else FUNCTION_ULP) * of.eps, SMALLEST.get(of.name, 0.0))
    return _open(made, of) if op == "exp" else made


def _open(a: BoundedNode, of: DType) -> BoundedNode:
    """An error without end where a value that float64 holds overflows its own type: what follows from it has no formula here."""
    if of.compute.size == 8 or a.error is None:
        return a
    size = absolute(a.value)
    over = (size >= OVERFLOW[of.compute.name]) & (size < inf)
    return BoundedNode(a.value, where(over, number(inf), a.error))


def quotient(a: BoundedNode, b: BoundedNode, of: DType) -> BoundedNode:
    """A division, whose divisor may come as near to zero as its error says."""
    v, ey = a.value / b.value, b.error
    if a.error is None and ey is None:
        return rounded(v, None, of)
    e = or_zero(a.error) if ey is None else absolute(v) * ey + or_zero(a.error)
    return _open(rounded(v, e * (1.0 / maximum(absolute(b.value) - or_zero(ey), SMALLEST["float32"])), of), of)


def number(x: float) -> Node:
    """A constant in float64."""
    return const(x, float64)


def or_zero(e: Node | None) -> Node:
    """The error, as an expression."""
    return number(0.0) if e is None else e


def total(*errors: Node | None) -> Node | None:
    """The sum of errors, or None where all are exact."""
    known = [e for e in errors if e is not None]
    out = known[0] if known else None
    for e in known[1:]:
        assert out is not None
        out = out + e
    return out


def paired(value: Node, error: Node | None, eps: float, smallest: float) -> BoundedNode:
    """A value with one more rounding, of relative size `eps` and at least `smallest`."""
    fresh = absolute(value) * eps + smallest
    return BoundedNode(value, fresh if error is None else fresh + error)


def rounded(value: Node, error: Node | None, of: DType) -> BoundedNode:
    """A value that was rounded once in type `of`."""
    return paired(value, error, of.eps, SMALLEST.get(of.name, 0.0))
