"""Gradients of the elementwise operators: a row an operator, a function an operand.

Each function takes the gradient `dy` of the result, the result `y` and the operands, all nodes of one shape, and returns
the gradient of its operand. docs/gradients.md says what they are at kinks and poles."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from ..graph.node import TensorNode, constant_of
from ..graph.primitives import as_typed, cast, elementwise
from ..ops import elementwise as E

Part = Callable[..., TensorNode]
"""(dy, y, *operands) → the gradient of one operand."""


def own(op: str, a: E.Operand, b: E.Operand) -> TensorNode:
    """An operator whose numbers are a rule's, not a user's: they have the digits of the type that this is computed in."""
    if isinstance(a, TensorNode) and isinstance(b, TensorNode):
        return E.binary(op, a, b)
    model = a if isinstance(a, TensorNode) else b
    assert isinstance(model, TensorNode)
    x, y = (o if isinstance(o, TensorNode) else E.like(model, o) for o in (a, b))
    return elementwise(op, x, y)


def mul(a: E.Operand, b: E.Operand) -> TensorNode:
    """a · b."""
    return own("mul", a, b)


def add(a: E.Operand, b: E.Operand) -> TensorNode:
    """a + b."""
    return own("add", a, b)


def sub(a: E.Operand, b: E.Operand) -> TensorNode:
    """a − b."""
    return own("sub", a, b)


def neg(a: TensorNode) -> TensorNode:
    """−a."""
    return E.floating("neg", a)


def _extreme(sign: str) -> tuple[Part, Part]:
    """max (sign "lt": where the other one is less) and min ("gt")."""

    def part(dy: TensorNode, mine: TensorNode, other: TensorNode) -> TensorNode:
        mine, other = as_typed(mine), as_typed(other)
        wins = E.binary("lt", other, mine) if sign == "lt" else E.binary("lt", mine, other)
        return E.where(wins, dy, E.where(E.binary("eq", mine, other), mul(dy, 0.5), 0.0))

    return (lambda dy, y, a, b: part(dy, a, b)), (lambda dy, y, a, b: part(dy, b, a))


def _power_base(dy: TensorNode, y: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    known = constant_of(b)
    if known is not None:
        return mul(dy, mul(own("pow", a, known - 1), known)) if known else mul(dy, 0.0)
    return mul(dy, E.where(E.binary("eq", b, 0.0), 0.0, mul(b, E.binary("pow", a, sub(b, 1.0)))))


def _power_exponent(dy: TensorNode, y: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    flat = E.binary("and", E.binary("eq", a, 0.0), E.binary("le", 0.0, b))  # 0 to a power of 0 and more
    return mul(dy, E.where(flat, 0.0, mul(y, E.floating("log", a))))


def _sign(x: TensorNode) -> TensorNode:
    return E.where(E.binary("lt", x, 0.0), E.together("sign", -1.0, dtype=x.dtype)[0], E.where(E.binary("lt", 0.0, x), _one(x), 0.0))


def _one(x: TensorNode) -> TensorNode:
    return E.together("sign", 1.0, dtype=x.dtype)[0]


def _quotient_floor(a: TensorNode, b: TensorNode) -> TensorNode:
    return E.floating("floor", E.binary("div", a, b))


def _angle(dy: TensorNode, side: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    """Of atan2 to one side, by the other one; 0 where both are 0."""
    square = add(mul(a, a), mul(b, b))
    return E.where(E.binary("eq", square, 0.0), 0.0, E.binary("div", mul(dy, side), square))


ELEMENTWISE: dict[str, tuple[Part | None, ...]] = {
    "add": (lambda dy, y, a, b: dy, lambda dy, y, a, b: dy),
    "sub": (lambda dy, y, a, b: dy, lambda dy, y, a, b: neg(dy)),
    "mul": (lambda dy, y, a, b: mul(dy, b), lambda dy, y, a, b: mul(dy, a)),
    "div": (lambda dy, y, a, b: E.binary("div", dy, b), lambda dy, y, a, b: neg(E.binary("div", mul(dy, y), b))),
    "max": _extreme("lt"),
    "min": _extreme("gt"),
    "pow": (_power_base, _power_exponent),
    "remainder": (lambda dy, y, a, b: dy, lambda dy, y, a, b: neg(mul(dy, _quotient_floor(a, b)))),
    "where": (
        None,
        lambda dy, y, c, a, b: E.where(c, dy, 0.0),
        lambda dy, y, c, a, b: E.where(c, 0.0, dy),
    ),
    "neg": (lambda dy, y, x: neg(dy),),
    "rounded": (lambda dy, y, x: cast(dy, x.dtype),),
    "abs": (lambda dy, y, x: mul(dy, _sign(x)),),
    "exp": (lambda dy, y, x: mul(dy, y),),
    "expm1": (lambda dy, y, x: mul(dy, add(y, 1.0)),),
    "log": (lambda dy, y, x: E.binary("div", dy, x),),
    "log1p": (lambda dy, y, x: E.binary("div", dy, add(x, 1.0)),),
    "sqrt": (lambda dy, y, x: E.binary("div", mul(dy, 0.5), y),),
    "tanh": (lambda dy, y, x: mul(dy, sub(1.0, mul(y, y))),),
    "erf": (lambda dy, y, x: mul(dy, mul(E.floating("exp", neg(mul(x, x))), 2 / sqrt(pi))),),
    "sin": (lambda dy, y, x: mul(dy, E.floating("cos", x)),),
    "cos": (lambda dy, y, x: neg(mul(dy, E.floating("sin", x))),),
    "tan": (lambda dy, y, x: mul(dy, add(mul(y, y), 1.0)),),
    "asin": (lambda dy, y, x: E.binary("div", dy, E.floating("sqrt", sub(1.0, mul(x, x)))),),
    "acos": (lambda dy, y, x: neg(E.binary("div", dy, E.floating("sqrt", sub(1.0, mul(x, x))))),),
    "atan": (lambda dy, y, x: E.binary("div", dy, add(mul(x, x), 1.0)),),
    "atan2": (
        lambda dy, y, a, b: _angle(dy, b, a, b),
        lambda dy, y, a, b: neg(_angle(dy, a, a, b)),
    ),
    "sinh": (lambda dy, y, x: mul(dy, E.floating("cosh", x)),),
    "cosh": (lambda dy, y, x: mul(dy, E.floating("sinh", x)),),
    "asinh": (lambda dy, y, x: E.binary("div", dy, E.floating("sqrt", add(mul(x, x), 1.0))),),
    "acosh": (lambda dy, y, x: E.binary("div", dy, E.floating("sqrt", sub(mul(x, x), 1.0))),),
    "atanh": (lambda dy, y, x: E.binary("div", dy, sub(1.0, mul(x, x))),),
    "copysign": (lambda dy, y, a, b: mul(dy, mul(_sign(a), _sign(y))), None),
    **dict.fromkeys(("floor", "round", "trunc", "ceil", "sign"), (None,)),
    "floordiv": (None, None),
}  # fmt: skip
"""By operator, for each operand how its gradient follows; None: it has none (steps, conditions)."""
