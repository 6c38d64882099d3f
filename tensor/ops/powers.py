"""Powers: by squaring where the exponent is a small whole number, by NumPy for integer exponents in a tensor, else the operator pow."""

from __future__ import annotations

from ...ir.dtypes import bool_, int8
from ...ir.errors import UsageError
from ..graph.node import HostCall, TensorNode, constant_of
from ..graph.numbers import whole
from ..graph.primitives import cast, elementwise, host, with_gradient
from .elementwise import Operand, choose, like, together
from .hosted import integer_power

SQUARED = 64
"""Whole exponents up to which products are used."""


def power(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 to the power of x2. Whole exponents of floats that are Python numbers are products. Integers need exponents of at
    least 0."""
    if isinstance(x1, TensorNode) and isinstance(x2, float) and x1.dtype.is_float:
        if abs(x2) <= SQUARED and x2 % 1 == 0:
            x2 = whole(x2)
        elif x2 == 0.5:
            return _root(x1)
    if isinstance(x1, TensorNode) and x1.dtype is not bool_ and isinstance(x2, int) and not isinstance(x2, bool) and abs(x2) <= SQUARED:
        return _whole(x1, x2)
    x, y = together("pow", x1, x2)
    if x.dtype is bool_:
        x, y = cast(x, int8), cast(y, int8)
    return _integers(x, y) if x.dtype.is_int else elementwise("pow", x, y)


def _root(x: TensorNode) -> TensorNode:
    """x^0.5, which differs from √x at −∞ (∞) and −0.0 (0.0)."""
    root = elementwise("sqrt", x)
    infinite = elementwise("eq", x, like(x, float("-inf")))
    out = choose(infinite, float("inf"), choose(elementwise("eq", x, like(x, 0)), 0.0, root))
    return with_gradient(out, (x,), _root_gradient)


def _root_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (elementwise("div", elementwise("mul", dy, like(y, 0.5)), y),)


def _whole(x: TensorNode, n: int) -> TensorNode:
    if n < 0:
        if x.dtype.is_int:
            raise UsageError(f"pow of {x.dtype} by {n}: integers have no negative powers; cast to a float type")
        return elementwise("div", like(x, 1.0), _whole(x, -n))
    out, base = None, x
    while n:
        if n & 1:
            out = base if out is None else elementwise("mul", out, base)
        n >>= 1
        if n:
            base = elementwise("mul", base, base)
    return like(x, 1) if out is None else out


def _integers(x: TensorNode, y: TensorNode) -> TensorNode:
    known = constant_of(y)
    if known is not None and 0 <= known <= SQUARED:
        return _whole(x, int(known))
    return host(HostCall("pow", integer_power), (x, y), x.shape, x.dtype)
