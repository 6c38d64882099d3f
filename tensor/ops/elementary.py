"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions and their inverses.

Kernels know them all (`ir.functions`), so they fuse with what is around them."""

from __future__ import annotations

from math import log as _log

from ..graph.node import TensorNode
from ..graph.primitives import cast, elementwise, with_gradient
from ..graph.promotion import to_float
from .elementwise import Operand, choose, floating, floats, like


def exp(x: TensorNode, /) -> TensorNode:
    """e to the power of x."""
    return floating("exp", x)


def exp2(x: TensorNode, /) -> TensorNode:
    """2 to the power of x."""
    x = _float(x)
    return elementwise("exp", times(x, _log(2.0)))


def expm1(x: TensorNode, /) -> TensorNode:
    """eˣ − 1, exact near 0."""
    return floating("expm1", x)


def log(x: TensorNode, /) -> TensorNode:
    """The natural logarithm."""
    return floating("log", x)


def log1p(x: TensorNode, /) -> TensorNode:
    """ln(1 + x), exact near 0."""
    return floating("log1p", x)


def log2(x: TensorNode, /) -> TensorNode:
    """The logarithm to base 2."""
    return times(log(x), 1 / _log(2.0))


def log10(x: TensorNode, /) -> TensorNode:
    """The logarithm to base 10."""
    return times(log(x), 1 / _log(10.0))


def logaddexp(x1: Operand, x2: Operand, /) -> TensorNode:
    """ln(eˣ¹ + eˣ²), without overflow on the way."""
    x, y = floats("logaddexp", x1, x2)
    large = elementwise("max", x, y)
    away = elementwise("neg", elementwise("abs", elementwise("sub", x, y)))
    out = elementwise("add", large, elementwise("log1p", elementwise("exp", away)))
    same = elementwise("and", elementwise("eq", x, y), elementwise("eq", elementwise("abs", x), like(x, float("inf"))))
    return choose(same, x, out)


def sqrt_(x: TensorNode, /) -> TensorNode:
    """The square root."""
    return floating("sqrt", x)


def rsqrt(x: TensorNode, /) -> TensorNode:
    """1 / √x."""
    x = _float(x)
    return elementwise("div", like(x, 1.0), elementwise("sqrt", x))


def erf(x: TensorNode, /) -> TensorNode:
    """The error function."""
    return floating("erf", x)


def length(squares: TensorNode) -> TensorNode:
    """The square root of a sum of squares: where that is 0, so is the gradient."""
    return with_gradient(elementwise("sqrt", squares), (squares,), _length_gradient)


def _length_gradient(dy: TensorNode, y: TensorNode, squares: TensorNode) -> tuple[TensorNode]:
    return (choose(elementwise("eq", y, like(y, 0.0)), 0.0, elementwise("div", times(dy, 0.5), y)),)


# trigonometric ----------------------------------------------------------------------------------------------------
def sin(x: TensorNode, /) -> TensorNode:
    """The sine of an angle in radians."""
    return floating("sin", x)


def cos(x: TensorNode, /) -> TensorNode:
    """The cosine of an angle in radians."""
    return floating("cos", x)


def tan(x: TensorNode, /) -> TensorNode:
    """The tangent of an angle in radians."""
    return floating("tan", x)


def asin(x: TensorNode, /) -> TensorNode:
    """The angle in [−π/2, π/2] whose sine is x."""
    return floating("asin", x)


def acos(x: TensorNode, /) -> TensorNode:
    """The angle in [0, π] whose cosine is x."""
    return floating("acos", x)


def atan(x: TensorNode, /) -> TensorNode:
    """The angle in [−π/2, π/2] whose tangent is x."""
    return floating("atan", x)


def atan2(x1: Operand, x2: Operand, /) -> TensorNode:
    """The angle of the point (x2, x1), in [−π, π]."""
    return elementwise("atan2", *floats("atan2", x1, x2))


# hyperbolic -------------------------------------------------------------------------------------------------------
def sinh(x: TensorNode, /) -> TensorNode:
    """(eˣ − e⁻ˣ) / 2."""
    return floating("sinh", x)


def cosh(x: TensorNode, /) -> TensorNode:
    """(eˣ + e⁻ˣ) / 2."""
    return floating("cosh", x)


def tanh(x: TensorNode, /) -> TensorNode:
    """The hyperbolic tangent."""
    return floating("tanh", x)


def asinh(x: TensorNode, /) -> TensorNode:
    """The number whose sinh is x."""
    return floating("asinh", x)


def acosh(x: TensorNode, /) -> TensorNode:
    """The number above 0 whose cosh is x; NaN below 1."""
    return floating("acosh", x)


def atanh(x: TensorNode, /) -> TensorNode:
    """The number whose tanh is x; NaN outside of [−1, 1]."""
    return floating("atanh", x)


def times(x: TensorNode, factor: float) -> TensorNode:
    """x times a number."""
    return elementwise("mul", x, like(x, factor))


def _float(x: TensorNode) -> TensorNode:
    return cast(x, to_float(x.dtype))
