"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions and their inverses.

Kernels know exp, expm1, log, log1p, sqrt, sin, cos, tanh and erf; the others are composed of them, so that they fuse."""

from __future__ import annotations

from math import log as _log
from math import pi, sqrt

from ..node import TensorNode
from ..primitives import cast, elementwise
from ..promotion import to_float
from .arithmetic import signbit, with_sign
from .elementwise import Operand, choose, floating, floats, like

INF, NAN = float("inf"), float("nan")


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
    same = elementwise("and", elementwise("eq", x, y), elementwise("eq", elementwise("abs", x), like(x, INF)))
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


# trigonometric ----------------------------------------------------------------------------------------------------
def sin(x: TensorNode, /) -> TensorNode:
    """The sine of an angle in radians."""
    return floating("sin", x)


def cos(x: TensorNode, /) -> TensorNode:
    """The cosine of an angle in radians."""
    return floating("cos", x)


def tan(x: TensorNode, /) -> TensorNode:
    """The tangent of an angle in radians."""
    return elementwise("div", sin(x), cos(x))


def asin(x: TensorNode, /) -> TensorNode:
    """The angle in [−π/2, π/2] whose sine is x."""
    x = _float(x)
    one = like(x, 1.0)
    root = elementwise("sqrt", elementwise("mul", elementwise("sub", one, x), elementwise("add", one, x)))
    return times(_atan(elementwise("div", x, elementwise("add", one, root))), 2.0)


def acos(x: TensorNode, /) -> TensorNode:
    """The angle in [0, π] whose cosine is x."""
    x = _float(x)
    one = like(x, 1.0)
    return times(_atan(elementwise("sqrt", elementwise("div", elementwise("sub", one, x), elementwise("add", one, x)))), 2.0)


def atan(x: TensorNode, /) -> TensorNode:
    """The angle in [−π/2, π/2] whose tangent is x."""
    return _atan(_float(x))


def atan2(x1: Operand, x2: Operand, /) -> TensorNode:
    """The angle of the point (x2, x1), in [−π, π]."""
    y, x = floats("atan2", x1, x2)
    above, beside = elementwise("abs", y), elementwise("abs", x)
    large, small = elementwise("max", above, beside), elementwise("min", above, beside)
    ratio = elementwise("div", small, large)
    ratio = choose(elementwise("eq", large, like(x, 0)), 0.0, choose(elementwise("eq", small, like(x, INF)), 1.0, ratio))
    angle = _atan(ratio)
    angle = choose(elementwise("lt", beside, above), elementwise("sub", like(x, pi / 2), angle), angle)
    angle = choose(signbit(x), elementwise("sub", like(x, pi), angle), angle)
    return with_sign(angle, y)


_P = (-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1, -1.228866684490136173410e2, -6.485021904942025371773e1)
_Q = (1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2, 4.853903996359136964868e2, 1.945506571482613964425e2)


def _atan(x: TensorNode) -> TensorNode:
    """After Cephes' atan.c (S. Moshier, "Methods and Programs for Mathematical Functions", 1989): three intervals, one
    rational function."""
    size = elementwise("abs", x)
    one = like(x, 1.0)
    large, middle = elementwise("lt", like(x, 1 + sqrt(2.0)), size), elementwise("lt", like(x, 0.66), size)
    turned = elementwise("div", elementwise("sub", size, one), elementwise("add", size, one))
    t = choose(large, elementwise("div", like(x, -1.0), size), choose(middle, turned, size))
    begin = choose(large, like(x, pi / 2), choose(middle, like(x, pi / 4), like(x, 0.0)))
    z = elementwise("mul", t, t)
    ratio = elementwise("div", elementwise("mul", z, polynomial(z, _P)), polynomial(z, _Q))
    out = elementwise("add", begin, elementwise("add", t, elementwise("mul", t, ratio)))
    return with_sign(out, x)


def polynomial(x: TensorNode, coefficients: tuple[float, ...]) -> TensorNode:
    """Σ cᵢ·xⁿ⁻ⁱ by Horner's rule, the highest power first."""
    out = like(x, coefficients[0])
    for c in coefficients[1:]:
        out = elementwise("add", elementwise("mul", out, x), like(x, c))
    return out


# hyperbolic -------------------------------------------------------------------------------------------------------
_FAR = 20.0
"""Where e⁻²ˣ is below what float64 can hold beside 1."""


def sinh(x: TensorNode, /) -> TensorNode:
    """(eˣ − e⁻ˣ) / 2."""
    x = _float(x)
    size = elementwise("abs", x)
    t = elementwise("expm1", size)
    near = times(elementwise("add", t, elementwise("div", t, elementwise("add", t, like(x, 1.0)))), 0.5)
    return with_sign(choose(elementwise("lt", size, like(x, _FAR)), near, _half_exp(size)), x)


def cosh(x: TensorNode, /) -> TensorNode:
    """(eˣ + e⁻ˣ) / 2."""
    x = _float(x)
    size = elementwise("abs", x)
    e = elementwise("exp", size)
    near = times(elementwise("add", e, elementwise("div", like(x, 1.0), e)), 0.5)
    return choose(elementwise("lt", size, like(x, _FAR)), near, _half_exp(size))


def _half_exp(x: TensorNode) -> TensorNode:
    """eˣ / 2, which is finite a little longer than eˣ."""
    half = elementwise("exp", times(x, 0.5))
    return elementwise("mul", times(half, 0.5), half)


def tanh(x: TensorNode, /) -> TensorNode:
    """The hyperbolic tangent."""
    return floating("tanh", x)


def asinh(x: TensorNode, /) -> TensorNode:
    """The number whose sinh is x."""
    x = _float(x)
    size, one = elementwise("abs", x), like(x, 1.0)
    square = elementwise("mul", size, size)
    root = elementwise("sqrt", elementwise("add", square, one))
    near = elementwise("log1p", elementwise("add", size, elementwise("div", square, elementwise("add", one, root))))
    far = elementwise("add", elementwise("log", size), like(x, _log(2.0)))
    return with_sign(choose(elementwise("lt", size, like(x, 1e9)), near, far), x)


def acosh(x: TensorNode, /) -> TensorNode:
    """The number above 0 whose cosh is x; NaN below 1."""
    x = _float(x)
    t = elementwise("sub", x, like(x, 1.0))
    root = elementwise("sqrt", elementwise("mul", t, elementwise("add", t, like(x, 2.0))))
    far = elementwise("add", elementwise("log", x), like(x, _log(2.0)))
    out = choose(elementwise("lt", x, like(x, 1e9)), elementwise("log1p", elementwise("add", t, root)), far)
    return choose(elementwise("lt", x, like(x, 1.0)), NAN, out)


def atanh(x: TensorNode, /) -> TensorNode:
    """The number whose tanh is x; NaN outside of [−1, 1]."""
    x = _float(x)
    size = elementwise("abs", x)
    ratio = elementwise("div", times(size, 2.0), elementwise("sub", like(x, 1.0), size))
    return with_sign(times(elementwise("log1p", ratio), 0.5), x)


def times(x: TensorNode, factor: float) -> TensorNode:
    """x times a number."""
    return elementwise("mul", x, like(x, factor))


def _float(x: TensorNode) -> TensorNode:
    return cast(x, to_float(x.dtype))
