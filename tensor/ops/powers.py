"""Powers: by squaring where the exponent is a small whole number, by NumPy for integer exponents in a tensor, else by exp and log."""

from __future__ import annotations

from ...ir.dtypes import bool_, float64, int8
from ...ir.errors import UsageError
from ..node import HostCall, TensorNode, constant_of
from ..primitives import cast, elementwise, host
from .arithmetic import signbit
from .elementwise import Operand, choose, like, together

SQUARED = 64
"""Whole exponents up to which products are used."""


def power(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 to the power of x2. Whole exponents of floats that are Python numbers are products. Integers need exponents of at
    least 0."""
    if isinstance(x1, TensorNode) and isinstance(x2, float) and x1.dtype.is_float:
        if x2 == int(x2 if abs(x2) < 2**53 else 0) and abs(x2) <= SQUARED:
            x2 = int(x2)
        elif x2 == 0.5:
            return _root(x1)
    if isinstance(x1, TensorNode) and type(x2) is int and abs(x2) <= SQUARED and x1.dtype is not bool_:
        return _whole(x1, x2)
    x, y = together("pow", x1, x2)
    if x.dtype is bool_:
        x, y = cast(x, int8), cast(y, int8)
    return _integers(x, y) if x.dtype.is_int else _floats(x, y)


def _root(x: TensorNode) -> TensorNode:
    """x^0.5, which differs from √x at −∞ (∞) and −0.0 (0.0)."""
    root = elementwise("sqrt", x)
    infinite = elementwise("eq", x, like(x, float("-inf")))
    return choose(infinite, float("inf"), choose(elementwise("eq", x, like(x, 0)), 0.0, root))


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
    from .hosted import integer_power

    known = constant_of(y)
    if known is not None and 0 <= known <= SQUARED:
        return _whole(x, int(known))
    return host(HostCall("pow", integer_power), (x, y), x.shape, x.dtype)


def _floats(x: TensorNode, y: TensorNode) -> TensorNode:
    """e^(y·ln|x|) with the special values of IEEE 754's pow. Narrow types are computed in float64: the product's rounding
    would be multiplied by e's exponent."""
    kind = x.dtype
    x, y = cast(x, float64), cast(y, float64)
    size, one, inf = elementwise("abs", x), like(x, 1.0), like(x, float("inf"))
    r = elementwise("exp", elementwise("mul", y, elementwise("log", size)))
    half = elementwise("mul", y, like(y, 0.5))
    finite = elementwise("lt", elementwise("abs", y), inf)
    whole = elementwise("and", elementwise("eq", y, elementwise("floor", y)), finite)
    odd = elementwise("and", whole, elementwise("ne", half, elementwise("floor", half)))
    r = choose(elementwise("and", odd, signbit(x)), elementwise("neg", r), r)
    below = elementwise("and", elementwise("lt", x, like(x, 0)), elementwise("lt", size, inf))
    broken = elementwise("and", elementwise("and", below, finite), elementwise("not", whole))
    r = choose(broken, float("nan"), r)
    unit = elementwise("and", elementwise("eq", size, one), elementwise("not", finite))
    unit = elementwise("and", unit, elementwise("eq", y, y))
    is_one = elementwise("or", elementwise("eq", x, one), elementwise("eq", y, like(y, 0)))
    return cast(choose(elementwise("or", is_one, unit), 1.0, r), kind)
