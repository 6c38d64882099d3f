"""Arithmetic: sums, products, quotients, signs, rounding and bounds, with NumPy's results for special values."""

from __future__ import annotations

from ...ir.dtypes import bool_, int8
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.numbers import whole
from ..graph.primitives import as_typed, cast, elementwise, rounded, with_gradient
from ..graph.promotion import Scalar
from .elementwise import Operand, binary, choose, divide, floats, like, together


def add(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 + x2; of bools it is their `or`."""
    return binary("add", x1, x2)


def subtract(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 − x2. Raises UsageError for bools (use logical_xor)."""
    x, y = together("subtract", x1, x2)
    if x.dtype is bool_:
        raise UsageError("subtract of bools: use logical_xor, or cast them to an integer type")
    return elementwise("sub", x, y)


def multiply(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 · x2; of bools it is their `and`."""
    return binary("mul", x1, x2)


def floor_divide(x1: Operand, x2: Operand, /) -> TensorNode:
    """⌊x1 / x2⌋; integers by 0 give 0, as in NumPy."""
    return elementwise("floordiv", *_numbers("floor_divide", x1, x2))


def remainder(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 − x2·⌊x1 / x2⌋, with the sign of x2; integers by 0 give 0, as in NumPy."""
    return elementwise("remainder", *_numbers("remainder", x1, x2))


def _numbers(name: str, *operands: Operand) -> list[TensorNode]:
    nodes = together(name, *operands)
    return [cast(n, int8) if n.dtype is bool_ else as_typed(n) for n in nodes]


def negative(x: TensorNode, /) -> TensorNode:
    """−x."""
    if x.dtype is bool_:
        raise UsageError("negative of bools: use logical_not, or cast them to an integer type")
    return elementwise("neg", x)


def positive(x: TensorNode, /) -> TensorNode:
    """x itself."""
    return x


def absolute(x: TensorNode, /) -> TensorNode:
    """|x|."""
    return x if x.dtype.kind in "bu" else elementwise("abs", x)


def square(x: TensorNode, /) -> TensorNode:
    """x²."""
    return elementwise("mul", x, x)


def reciprocal(x: TensorNode, /) -> TensorNode:
    """1 / x."""
    return divide(1.0, x)


def sign(x: TensorNode, /) -> TensorNode:
    """−1, 0 or 1; NaN of NaN."""
    if x.dtype is bool_:
        return x
    x = as_typed(x)
    zero, one = like(x, 0), like(x, 1)
    if x.dtype.kind == "u":
        return choose(elementwise("ne", x, zero), one, zero)
    out = choose(elementwise("lt", zero, x), one, choose(elementwise("lt", x, zero), like(x, -1), zero))
    return choose(elementwise("ne", x, x), x, out) if x.dtype.is_float else out


def maximum(x1: Operand, x2: Operand, /) -> TensorNode:
    """The larger of both; NaN where either is."""
    return binary("max", x1, x2)


def minimum(x1: Operand, x2: Operand, /) -> TensorNode:
    """The smaller of both; NaN where either is."""
    return binary("min", x1, x2)


def clip(x: TensorNode, /, min: Operand | None = None, max: Operand | None = None) -> TensorNode:
    """`x` kept in [min, max], in the type of `x`. Where min > max it is max, as in NumPy."""
    limits = [rounded(b, x.dtype) if isinstance(b, TensorNode) else None if b is None else _bound(x, b) for b in (min, max)]
    x, *given = together("clip", x, *(b for b in limits if b is not None), dtype=x.dtype)
    low, high = (given.pop(0) if b is not None else None for b in limits)
    out = x
    for op, limit in (("max", low), ("min", high)):
        if limit is not None:
            out = elementwise(op, out, limit)
    if low is None and high is None:
        return x
    rule = _clip_gradient if low is not None and high is not None else _floor_gradient if low is not None else _roof_gradient
    return with_gradient(out, (x, *(b for b in (low, high) if b is not None)), rule)


def _clip_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, low: TensorNode, high: TensorNode) -> tuple[TensorNode, ...]:
    over = elementwise("lt", high, elementwise("max", x, low))
    inside = elementwise("and", elementwise("le", low, x), elementwise("le", x, high))
    under = elementwise("and", elementwise("lt", x, low), elementwise("le", low, high))
    return choose(inside, dy, 0.0), choose(under, dy, 0.0), choose(over, dy, 0.0)


def _floor_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, low: TensorNode) -> tuple[TensorNode, ...]:
    return choose(elementwise("le", low, x), dy, 0.0), choose(elementwise("lt", x, low), dy, 0.0)


def _roof_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, high: TensorNode) -> tuple[TensorNode, ...]:
    return choose(elementwise("le", x, high), dy, 0.0), choose(elementwise("lt", high, x), dy, 0.0)


def _bound(x: TensorNode, bound: Scalar) -> Scalar:
    """A Python number as a bound, brought into the range of an integer type."""
    if not x.dtype.is_int:
        return bound
    lo, hi = x.dtype.limits
    if isinstance(bound, float):
        if bound != bound:
            raise UsageError(f"clip of {x.dtype}: the bound is NaN")
        near = max(min(bound, 2.0**70), -(2.0**70))
        if near % 1 != 0:
            raise UsageError(f"clip of {x.dtype}: the bound {bound} is no whole number")
        found: int = whole(near)
        bound = found
    kept: int = max(lo, min(bound, hi))
    return kept


# rounding ---------------------------------------------------------------------------------------------------------
def floor(x: TensorNode, /) -> TensorNode:
    """The next whole number below or at x."""
    return elementwise("floor", as_typed(x)) if x.dtype.is_float else x


def ceil(x: TensorNode, /) -> TensorNode:
    """The next whole number above or at x."""
    return negative(floor(negative(x))) if x.dtype.is_float else x


def trunc(x: TensorNode, /) -> TensorNode:
    """The next whole number towards 0."""
    return elementwise("trunc", as_typed(x)) if x.dtype.is_float else x


def round(x: TensorNode, /) -> TensorNode:
    """The nearest whole number, halves to the even one."""
    return elementwise("round", as_typed(x)) if x.dtype.is_float else x


# signs ------------------------------------------------------------------------------------------------------------
def signbit(x: TensorNode, /) -> TensorNode:
    """Whether x is negative or −0.0. A NaN counts as positive whatever its sign bit is."""
    x = as_typed(x)
    zero = like(x, 0)
    below = elementwise("lt", x, zero)
    if not x.dtype.is_float:
        return below
    inverse = elementwise("lt", elementwise("div", like(x, 1.0), x), zero)
    return elementwise("or", below, elementwise("and", elementwise("eq", x, zero), inverse))


def copysign(x1: Operand, x2: Operand, /) -> TensorNode:
    """|x1| with the sign of x2 (NaN counts as positive)."""
    return elementwise("copysign", *floats("copysign", x1, x2))


def hypot(x1: Operand, x2: Operand, /) -> TensorNode:
    """√(x1² + x2²), without overflow on the way."""
    x, y = (elementwise("abs", n) for n in floats("hypot", x1, x2))
    large, small = elementwise("max", x, y), elementwise("min", x, y)
    ratio = choose(elementwise("eq", large, like(x, 0)), 0.0, elementwise("div", small, large))
    out = elementwise("mul", large, elementwise("sqrt", elementwise("add", like(x, 1.0), elementwise("mul", ratio, ratio))))
    infinite = elementwise("or", elementwise("eq", x, like(x, float("inf"))), elementwise("eq", y, like(x, float("inf"))))
    return choose(infinite, float("inf"), out)
