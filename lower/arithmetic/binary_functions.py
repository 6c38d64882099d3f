"""Functions of two floats: powers within one unit in the last place, floor division and its remainder.

A power of float32 is 2^(y log₂ x) in float64, where the target has that. Ordinary arguments need 26 bits of the result, and so 33 of the logarithm, whose
product with y is up to 128: few terms and no division. Within 0.7 ulp.

Any other power counts an error of the logarithm |y log x| times, up to 745. So log x = k ln 2 + 2 artanh((m − 1)/(m + 1)) is a sum
of two numbers, with the quotient, its square's third and all sums in twice the precision (T. J. Dekker, 1971; D. E. Knuth, 1969).
What the product with y loses goes into the exponential's argument, and the exponential is rounded once, when its leading terms are
added. Within 0.8 ulp, and exact where the power is a number of float64. Ends of the range, and what C says of zeros, infinities, NaN
and negative numbers, are chosen at the end."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.dtypes import float32, float64
from ...ir.errors import KernelError
from ...program.builder import Builder
from ...program.program import Val
from . import minimax
from .elementary import expand, split, split_normal
from .float_emitter import FloatEmitter

FAR = 1000.0
"""Powers of two that are far from the ends of float64, and beyond those of float32."""
_END = {"float32": 110.0, "float64": 800.0}
"""Beyond e to the power of this (and its inverse) there are no numbers."""
_THIRD = {
    "float32": (float.fromhex("0x1.5555560000000p-2"), float.fromhex("-0x1.5555560000000p-27")),
    "float64": (1 / 3, float.fromhex("0x1.5555555555555p-56")),
}
"""1/3, and what is missing."""
_REST = tuple(1.0 / n for n in range(5, 27, 2))
"""artanh(s)/s − 1 − s²/3 by powers of s², from s⁴ on; s² is at most 0.0295."""


def power(b: Builder, x: Val, y: Val) -> Val:
    """xʸ as C's pow has it."""
    e = FloatEmitter(b, x)
    if x.dtype is float32:
        if not e.speculative():
            return _chosen(e, x, y, _single if b.float64 else _pairs)
        found, ordinary = _short(e, x, y)
        for condition in ordinary:
            e.suppose(condition)
        return found
    return _chosen(e, x, y, _pairs)


def _short(e: FloatEmitter, x: Val, y: Val) -> tuple[Val, tuple[Val, Val]]:
    """The power of ordinary float32 numbers, and what says that they are: of x, and of both."""
    b = e.b
    k, m = (b.op("cast", v, dtype=float64) for v in split_normal(e, x))
    d = FloatEmitter(b, m)
    f = d.op("sub", m, d.num(1.0))
    t = d.op("mul", b.op("cast", y, dtype=float64), d.fma(f, d.poly(minimax.LOG2_SHORT, f), k))
    near = d.op("lt", d.op("abs", t), d.num(FAR))
    magic = d.num(1.5 * 2.0**d.f.mantissa)
    shifted = d.op("add", t, magic)
    r = d.op("sub", t, d.op("sub", shifted, magic))
    p = d.fma(d.poly(minimax.EXP2_SHORT, r), r, d.num(1.0))
    scaled = d.op("add", d.bits(p), d.op("shl", d.bits(shifted), d.whole(d.f.mantissa)))
    return b.op("cast", d.number(scaled), dtype=float32), (e.normal(x), near)


def _chosen(e: FloatEmitter, x: Val, y: Val, size_of: Callable[[FloatEmitter, Val, Val], Val]) -> Val:
    """The power with its sign, and what is no number or 1 whatever the other operand is. `size_of`: |x|ʸ, of a positive finite x and a
    finite y at least."""
    zero, one, infinite = e.num(0.0), e.num(1.0), e.num(math.inf)
    size, top = e.op("abs", x), e.op("abs", y)
    whole = e.op("eq", e.op("floor", y), y)
    half = e.op("mul", y, e.num(0.5))
    odd = e.op("and", whole, e.op("ne", e.op("floor", half), half))
    # 0, infinity, and infinite exponents: the result is 0 or infinite
    end = e.op("or", e.op("or", e.op("eq", size, zero), e.op("eq", size, infinite)), e.op("eq", top, infinite))
    grows = e.op("eq", e.op("lt", one, size), e.op("lt", zero, y))
    out = e.op("select", end, e.op("select", grows, infinite, zero), size_of(e, size, y))
    negative = e.op("lt", e.b.op("bitcast", x, dtype=e.f.signed), e.b.const(0, e.f.signed, e.lanes))
    out = e.op("select", e.op("and", negative, odd), e.op("neg", out), out)
    no_number = e.op("and", e.op("and", e.op("lt", x, zero), e.op("not", whole)), e.op("lt", size, infinite))
    nan = e.op("or", no_number, e.op("or", e.op("ne", x, x), e.op("ne", y, y)))
    out = e.op("select", nan, e.num(math.nan), out)
    same = e.op("and", e.op("eq", x, e.num(-1.0)), e.op("eq", top, infinite))
    return e.op("select", e.op("or", e.op("or", e.op("eq", y, zero), e.op("eq", x, one)), same), one, out)


def _single(e: FloatEmitter, size: Val, y: Val) -> Val:
    wide, exponent = (e.b.op("cast", v, dtype=float64) for v in (size, y))
    found = expand(e.b, "exp", e.b.op("mul", exponent, expand(e.b, "log", wide)))
    found = e.b.op("cast", found, dtype=float32)
    if not e.speculates:
        return found
    short, (normal, near) = _short(e, size, y)
    return e.op("select", e.op("and", normal, near), short, found)


def _pairs(e: FloatEmitter, size: Val, y: Val) -> Val:
    high, low = _log(e, size)
    t, lost = e.product(y, high)
    rest = e.fma(y, low, lost)
    end = _END[e.dtype.name]
    t = e.op("select", e.op("lt", t, e.num(-end)), e.num(-end), e.at_most(t, end))
    return _exp(e, t, e.op("select", e.op("lt", e.op("abs", t), e.num(end)), rest, e.num(0.0)))


def _log(e: FloatEmitter, x: Val) -> tuple[Val, Val]:
    """The logarithm of a positive finite number, and what is missing of it."""
    one, two = e.num(1.0), e.num(2.0)
    k, m = split(e, x)
    f = e.op("sub", m, one)
    under, under_low = e.sum(m, one)
    inverse = e.op("div", one, under)
    s = e.op("mul", f, inverse)
    product, lost = e.product(s, under)
    left = e.op("sub", e.op("sub", e.op("sub", f, product), lost), e.op("mul", s, under_low))
    s_low = e.op("mul", left, inverse)
    z, z_low = e.product(s, s)
    z_low = e.fma(e.op("mul", two, s), s_low, z_low)
    a_third, missing = (e.num(part) for part in _THIRD[e.dtype.name])
    third, third_low = e.product(z, a_third)
    third_low = e.op("add", third_low, e.fma(z, missing, e.op("mul", z_low, a_third)))
    a, a_low = e.ordered_sum(third, e.op("mul", e.op("mul", z, z), e.poly(_REST, z)))
    a_low = e.op("add", a_low, third_low)
    double, double_low = e.op("mul", two, s), e.op("mul", two, s_low)
    p, p_low = e.product(double, a)
    p_low = e.op("add", p_low, e.fma(double, a_low, e.op("mul", double_low, a)))
    h, h_low = e.ordered_sum(double, p)
    h_low = e.op("add", h_low, e.op("add", double_low, p_low))
    ln2, ln2_low = (e.num(part) for part in e.f.ln2)
    total, total_low = e.ordered_sum(e.op("mul", k, ln2), h)
    return e.ordered_sum(total, e.op("add", total_low, e.fma(k, ln2_low, h_low)))


def _exp(e: FloatEmitter, t: Val, low: Val) -> Val:
    """e to the power of t + low, at most _END in size, of which low is no more than the last places."""
    one = e.num(1.0)
    magic = e.num(1.5 * 2.0**e.f.mantissa + 2 * e.f.bias)
    shifted = e.op("add", e.op("mul", t, e.num(1 / math.log(2))), magic)
    n = e.op("sub", shifted, magic)
    first = e.op("sub", t, e.op("mul", n, e.num(e.f.ln2[0])))
    r, r_low = e.ordered_sum(first, e.op("mul", n, e.num(-e.f.ln2[1])))
    r_low = e.op("add", r_low, low)
    rest = e.op("mul", e.op("mul", r, r), e.poly(minimax.EXP[e.dtype.name], r))
    s, s_low = e.ordered_sum(one, r)
    value = e.op("add", s, e.op("add", rest, e.fma(r_low, e.op("add", s, rest), s_low)))
    biased = e.bits(shifted)
    half = e.op("shr", biased, e.whole(1))
    scaled = e.op("mul", value, e.power(half))
    return e.op("mul", scaled, e.power(e.op("sub", biased, half)))


# float division -------------------------------------------------------------------------------------------------------
# ⌊x / y⌋ and x − y·⌊x / y⌋ have the results of the array API standard for zeros, infinities and NaN. The quotient is
# computed in float64, and the remainder is exact, since the product of quotient and divisor is a sum of two numbers.
# The remainder's sign shows what rounding carried over a whole number. That holds while |x / y| < 2⁵³; beyond, the
# remainder is not a number, but where it happens to be less than the divisor, and so is exact.


def divide(b: Builder, op: str, x: Val, y: Val) -> Val:
    """`floor_div` or `floor_mod` of two values of one type."""
    dtype = x.dtype
    if not b.float64:
        raise KernelError(f"{op} of {dtype} is computed in float64, which this device does not have: use integers, or a division and floor")
    x, y = (v if v.dtype is float64 else b.op("cast", v, dtype=float64) for v in (x, y))
    e = FloatEmitter(b, x)
    zero, one = e.num(0.0), e.num(1.0)
    exact = e.op("div", x, y)
    quotient = e.op("floor", exact)
    high, low = e.product(quotient, y)
    rest = e.op("sub", e.op("sub", x, high), low)
    # a quotient of 0 leaves x, also where y is infinite
    rest = e.op("select", e.op("eq", quotient, zero), x, rest)
    below = e.op("lt", y, zero)
    past = e.op("select", below, e.op("lt", zero, rest), e.op("lt", rest, zero))
    if op == "floor_div":
        found = e.op("select", past, e.op("sub", quotient, one), quotient)
        found = e.op("select", e.op("eq", e.op("abs", y), e.num(math.inf)), quotient, found)
    else:
        nothing = e.op("select", below, e.num(-0.0), zero)
        found = e.op("select", e.op("eq", rest, zero), nothing, e.op("select", past, e.op("add", rest, y), rest))
        most = e.op("select", e.op("lt", e.op("abs", exact), e.num(2.0**53)), e.num(math.inf), e.op("abs", y))
        found = e.op("select", e.op("lt", e.op("abs", rest), most), found, e.num(math.nan))
    return found if dtype is float64 else b.op("cast", found, dtype=dtype)


def expand_binary(b: Builder, op: str, x: Val, y: Val) -> Val:
    """`op` (one of `ir.node.PAIRED`) of two values of float32 or float64, each a scalar or a vector; in the twin what stands for it."""
    if x.dtype not in (float32, float64) or y.dtype is not x.dtype:
        raise KernelError(f"{op} of {x.dtype} and {y.dtype} has no expansion: use two values of float32 or float64")
    lanes = max(x.lanes, y.lanes)
    x, y = b.splat(x, lanes), b.splat(y, lanes)
    if b.expand:
        return power(b, x, y) if op == "pow" else divide(b, op, x, y)
    if op == "pow":
        return b.op("exp", b.op("mul", x, y))
    quotient = b.op("floor", b.op("div", x, y))
    return quotient if op == "floor_div" else b.op("sub", x, b.op("mul", y, quotient))
