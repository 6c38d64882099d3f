"""Functions of expressions: selection, extremes, rounding, the elementary functions, and what is composed of them.

Those of float16 and bfloat16 operands are float32. Sines and cosines of float64 numbers are computed for |x| < 2⁵⁰ and are NaN beyond;
those of float32 are right for all."""

from __future__ import annotations

from collections.abc import Callable

from .checks.misuse import number
from .dtypes import index
from .errors import KernelError
from .literals import matched
from .node import Expr, Node, as_node, const, install
from .node_text import show
from .operators import arith, cast, divide, integer, logical, of_floats, unary, where

MOST = 64
"""The largest exponent that is multiplied out."""


def pow_operator(a: Expr, b: Expr) -> Node:
    """aᵇ. Whole exponents up to 64 are products (each rounded once, at most 2·log2(b) of them), those below 0 one over
    that; of a half or a quarter more, they are times a square root, or times one of a square root (so powers of −∞ are NaN, and
    those of −0 may be −0). Everything else is C's pow (`power`), of floats only."""
    if not isinstance(b, Node):
        exponent, base = number(b), as_node(a)
        if float(exponent).is_integer() and abs(exponent) <= MOST:
            return _integer_power(base, int(exponent))
        if base.dtype.is_float and float(4 * exponent).is_integer() and abs(exponent) <= MOST:
            found = _quarters(base, int(4 * abs(exponent)))
            return found if exponent > 0 else arith("div", 1.0, found)
        b = const(exponent, base.dtype.compute) if base.dtype.is_float else b
    return power(a, b)


def _integer_power(base: Node, exponent: int) -> Node:
    if exponent < 0:
        if not base.dtype.is_float:
            raise KernelError(f"{base!r} ** {exponent} of {base.dtype}: cast it to a float type")
        return arith("div", 1.0, _integer_power(base, -exponent))
    if exponent == 0:
        return const(1, base.dtype.compute)
    base = base if base.dtype is index else cast(base, base.dtype.compute)
    out, square = None, base
    while True:
        if exponent & 1:
            out = square if out is None else out * square
        exponent >>= 1
        if not exponent:
            assert out is not None
            return out
        square = square * square


def _quarters(base: Node, many: int) -> Node:
    """The power of a quarter so many times, which is no whole one."""
    base = cast(base, base.dtype.compute)
    whole, rest = divmod(many, 4)
    root = unary("sqrt", base)
    part = root if rest == 2 else unary("sqrt", root) if rest == 1 else root * unary("sqrt", root)
    return _integer_power(base, whole) * part if whole else part


def power(x: Expr, y: Expr) -> Node:
    """xʸ as C's pow has it, zeros, infinities and NaN included: NaN of a negative x and a y that is not whole.

    Within one unit in the last place, exact where the power is a number of the type. Raises KernelError for what is no float."""
    if not isinstance(x, Node) and isinstance(y, Node):
        x = const(number(x), y.dtype.compute if y.dtype.is_float else None)
    if not isinstance(y, Node) and isinstance(x, Node):
        y = const(number(y), x.dtype.compute if x.dtype.is_float else None)
    if isinstance(x, Node) and isinstance(y, Node):
        x, y = matched(x, y)
    return of_floats("pow", floating(x, "power"), floating(y, "power"))


def sign_bit(a: Node) -> Node:
    """Whether a number is negative, −0 included; of NaN always false."""
    if not a.dtype.is_float:
        return a < 0
    a = cast(a, a.dtype.compute)
    return (a < 0.0) | (a.eq(0.0) & (1.0 / a < 0.0))


def floating(x: Expr, name: str) -> Node:
    """An operand in the type that it is computed in; KernelError for what is no float."""
    node = as_node(x)
    if not node.dtype.is_float:
        raise KernelError(f"{name} of {node.dtype}: cast it to a float type")
    return cast(node, node.dtype.compute)


__all__ = [
    "absolute", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clip", "copysign", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "floor", "isfinite", "isinf", "isnan", "leading_zeros", "log", "log10", "log1p", "log2", "maximum", "minimum", "popcount", "power", "round_even", "rsqrt",
    "sigmoid", "sign", "sign_bit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "where",
]  # fmt: skip
_INF, _PI, _LN2 = float("inf"), 3.141592653589793, 0.6931471805599453
SINE_END = 2.0**50
"""From here on the sine and cosine of float64 numbers are NaN: a unit in the last place is a sizeable part of a turn."""

FAR, FAR_LOG = 40.0, 1e9
"""Ends of what hyperbolic functions and their inverses compute in the ordinary way. (Lowering computes the other way only where some
element needs it.)"""


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
expm1, log1p, sin, cos, atan, trunc = (_fn(o) for o in ("expm1", "log1p", "sin", "cos", "atan", "trunc"))


def popcount(a: Node) -> Node:
    """How many bits of an integer are set, in its type; of a negative number those of its two's complement."""
    return unary("popcount", a)


def leading_zeros(a: Node) -> Node:
    """How many bits of an integer, in the width of its type, lie above the highest one that is set: all of them for 0, none for
    negative numbers. (The power of two in x > 0 is the width − 1 − leading_zeros(x).)"""
    return unary("clz", a)


def round_even(a: Node) -> Node:
    """Round to the nearest whole number; halves go to the even one."""
    return unary("round", a)


def rsqrt(a: Node) -> Node:
    """1 / √a, each rounded once."""
    return 1.0 / sqrt(floating(a, "rsqrt"))


def sigmoid(a: Node) -> Node:
    """1 / (1 + e⁻ᵃ)."""
    return 1.0 / (1.0 + exp(-floating(a, "sigmoid")))


def ceil(a: Node) -> Node:
    """The least whole number that is not below (−0 for what lies in (−1, 0))."""
    return -floor(-floating(a, "ceil"))


# kinds of numbers -------------------------------------------------------------------------------------------------
def isfinite(a: Node) -> Node:
    """Neither infinite nor NaN (true of every integer)."""
    return absolute(a) < _INF if a.dtype.is_float else const(True)


def isinf(a: Node) -> Node:
    """Infinite, of either sign."""
    return absolute(a).eq(_INF) if a.dtype.is_float else const(False)


def isnan(a: Node) -> Node:
    """Not a number."""
    return ~(absolute(a) <= _INF) if a.dtype.is_float else const(False)


def copysign(size: Node, sign: Node) -> Node:
    """|size| with the sign of `sign` (NaN counts as positive)."""
    size = absolute(floating(size, "copysign"))
    return where(sign_bit(sign), -size, size)


def sign(x: Node) -> Node:
    """−1, 0 or 1, in the compute type of `x`; NaN of NaN."""
    out = where(x > 0, const(1, x.dtype.compute), const(0, x.dtype.compute))
    if x.dtype.kind != "u":
        out = where(x < 0, const(-1, x.dtype.compute), out)
    return where(isnan(x), cast(x, x.dtype.compute), out) if x.dtype.is_float else out


# compositions -----------------------------------------------------------------------------------------------------
def clip(x: Expr, low: Expr, high: Expr) -> Node:
    """`x` kept in [low, high]; where low > high it is high. NaN stays."""
    return minimum(maximum(x, low), high)


def exp2(x: Node) -> Node:
    """2ˣ, as e to the power of x · ln 2, whose rounding counts |x| times."""
    return exp(floating(x, "exp2") * _LN2)


def log2(x: Node) -> Node:
    """The logarithm to base 2, within 2 units in the last place."""
    return log(floating(x, "log2")) * (1.0 / _LN2)


def log10(x: Node) -> Node:
    """The logarithm to base 10, within 2 units in the last place."""
    return log(floating(x, "log10")) * 0.4342944819032518


def tan(x: Node) -> Node:
    """sin(x) / cos(x), within 3 units in the last place."""
    return sin(x) / cos(x)


def asin(x: Node) -> Node:
    """atan(x / √((1 − x)(1 + x))); NaN beyond ±1."""
    x = floating(x, "asin")
    return atan(x / sqrt((1.0 - x) * (1.0 + x)))


def acos(x: Node) -> Node:
    """2·atan(√((1 − x) / (1 + x))), which loses nothing near 1; NaN beyond ±1."""
    x = floating(x, "acos")
    return 2.0 * atan(sqrt((1.0 - x) / (1.0 + x)))


def atan2(y: Node, x: Node) -> Node:
    """The angle of the point (x, y) in [−π, π], by the signs of both, zeros and infinities included."""
    y, x = floating(y, "atan2"), floating(x, "atan2")
    size_y, size_x = absolute(y), absolute(x)
    same = size_y.eq(size_x) & (size_y.eq(0.0) | size_y.eq(_INF))
    # 0/0 is no angle and inf/inf is half a right one
    ratio = where(same, where(size_y.eq(0.0), size_y, const(1.0, y.dtype)), size_y / size_x)
    angle = atan(ratio)
    angle = where(sign_bit(x), _PI - angle, angle)
    return where(isnan(x) | isnan(y), x + y, copysign(angle, y))


def sinh(x: Node) -> Node:
    """sinh by expm1, so that nothing is lost near 0; by halves of the exponent where exp would overflow first."""
    x = floating(x, "sinh")
    a = absolute(x)
    e = expm1(a)
    half = exp(0.5 * a)
    return copysign(where(a < FAR, 0.5 * (e + e / (e + 1.0)), (0.5 * half) * half), x)


def cosh(x: Node) -> Node:
    """(eˣ + e⁻ˣ) / 2; by halves of the exponent where exp would overflow first."""
    a = absolute(floating(x, "cosh"))
    e, half = exp(a), exp(0.5 * a)
    return where(a < FAR, 0.5 * (e + 1.0 / e), (0.5 * half) * half)


def asinh(x: Node) -> Node:
    """log(|x| + √(x² + 1)) with the sign of x, by log1p near 0."""
    x = floating(x, "asinh")
    a = absolute(x)
    near = log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)))
    return copysign(where(a < FAR_LOG, near, log(a) + _LN2), x)


def acosh(x: Node) -> Node:
    """log(x + √(x² − 1)), by log1p near 1; NaN below 1."""
    x = floating(x, "acosh")
    t = x - 1.0
    return where(x < FAR_LOG, log1p(t + sqrt(t) * sqrt(t + 2.0)), log(x) + _LN2)


def atanh(x: Node) -> Node:
    """log((1 + x) / (1 − x)) / 2, by log1p; NaN beyond ±1."""
    x = floating(x, "atanh")
    a = absolute(x)
    return copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x)


class _Rules:
    """The operators of nodes, as `ir.operators` and `ir.functions` have them."""

    arith = staticmethod(arith)
    logical = staticmethod(logical)
    unary = staticmethod(unary)
    cast = staticmethod(cast)
    integer = staticmethod(integer)
    divide = staticmethod(divide)
    power = staticmethod(pow_operator)
    text = staticmethod(show)


OPERATORS = _Rules()
"""What nodes have been given."""
install(OPERATORS)
