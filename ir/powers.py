"""Powers: xʸ of any numbers, and of whole exponents by multiplication."""

from __future__ import annotations

from .checks.misuse import number
from .dtypes import index
from .errors import KernelError
from .literals import matched
from .node import Expr, Node, as_node, const
from .operators import arith, cast, of_floats, unary

MOST = 64
"""The largest exponent that is multiplied out."""


def power(a: Expr, b: Expr) -> Node:
    """aᵇ. Whole exponents up to 64 are products (each rounded once, at most 2·log2(b) of them), those below 0 one over
    that; of a half or a quarter more, they are times a square root, or times one of a square root (so powers of −∞ are NaN, and
    those of −0 may be −0). Everything else is C's pow (`general_power`), of floats only."""
    if not isinstance(b, Node):
        exponent, base = number(b), as_node(a)
        if float(exponent).is_integer() and abs(exponent) <= MOST:
            return _whole(base, int(exponent))
        if base.dtype.is_float and float(4 * exponent).is_integer() and abs(exponent) <= MOST:
            found = _quarters(base, int(4 * abs(exponent)))
            return found if exponent > 0 else arith("div", 1.0, found)
        b = const(exponent, base.dtype.compute) if base.dtype.is_float else b
    return general_power(a, b)


def _whole(base: Node, exponent: int) -> Node:
    if exponent < 0:
        if not base.dtype.is_float:
            raise KernelError(f"{base!r} ** {exponent} of {base.dtype}: cast it to a float type")
        return arith("div", 1.0, _whole(base, -exponent))
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
    return _whole(base, whole) * part if whole else part


def general_power(x: Expr, y: Expr) -> Node:
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
