"""sin, cos and atan as straight-line vector arithmetic.

sin and cos take away whole quarter turns and evaluate a polynomial on what is left, r in [-π/4, π/4]. float32 is right for every
argument: the turns are counted in float64, where the products of the 24 bits of a float32 number with 29-bit parts of 2/π are exact,
and powers of two that leave whole turns are taken from a table (M. Payne and R. Hanek, SIGNUM Newsletter 18, 1983). float64 takes
n·π/2 away in three parts of 53 bits, with the roundings kept (W. J. Cody and W. Waite, 1980; T. J. Dekker, 1971), for |x| < 2^50,
which is about 1.1e15; beyond that, where one unit in the last place is a sizeable part of a turn, the result is NaN."""

from __future__ import annotations

import math

from ..ir.dtypes import float32, float64
from ..ir.functions import SINE_END
from ..program.program import Val
from . import minimax
from .float_emitter import FloatEmitter

NEAR = 2.0**20
"""What is below counts for an ordinary angle."""
_FIRST = math.floor(minimax.HALF_PI[0] * 2**32) / 2**32
_SECOND = math.floor((minimax.HALF_PI[0] - _FIRST + minimax.HALF_PI[1]) * 2**66) / 2**66
_SHORT_HALF_PI = _FIRST, _SECOND, minimax.HALF_PI[0] - _FIRST - _SECOND + minimax.HALF_PI[1] + minimax.HALF_PI[2]
"""π/2 in parts of 33, 32 and 53 bits."""
_STEP = 26
"""Bits by which an argument of SINE_END or beyond is shifted, until it is below."""


def sin(e: FloatEmitter, x: Val) -> Val:
    """Correct sign of 0; NaN for infinities."""
    r, low, turns = _reduced(e, e.op("abs", x))
    sign = e.op("and", e.bits(x), e.whole(1 << (8 * e.dtype.size - 1)))
    return e.number(e.op("xor", e.bits(_wave(e, r, low, turns)), sign))


def cos(e: FloatEmitter, x: Val) -> Val:
    """NaN for infinities."""
    r, low, turns = _reduced(e, e.op("abs", x))
    return _wave(e, r, low, e.op("add", turns, e.whole(1)))


def _wave(e: FloatEmitter, r: Val, low: Val | None, turns: Val) -> Val:
    """The sine of `turns` quarter turns and r + low."""
    square, one, name = e.op("mul", r, r), e.num(1.0), e.dtype.name
    half = e.op("mul", square, e.num(0.5))
    sine = e.op("mul", e.op("mul", r, square), e.poly(minimax.SIN[name], square))
    cosine = e.op("mul", e.op("mul", square, square), e.poly(minimax.COS[name], square))
    whole = e.op("sub", one, half)
    rest = e.op("sub", e.op("sub", one, whole), half)  # what 1 - r²/2 lost to rounding
    if low is not None:
        sine = e.op("add", sine, e.op("mul", low, whole))
        rest = e.op("sub", rest, e.op("mul", r, low))
    sine, cosine = e.op("add", r, sine), e.op("add", whole, e.op("add", rest, cosine))
    odd = e.op("eq", e.op("and", turns, e.whole(1)), e.whole(1))
    found = e.op("select", odd, cosine, sine)
    flip = e.op("shl", e.op("and", turns, e.whole(2)), e.whole(8 * e.dtype.size - 2))
    return e.number(e.op("xor", e.bits(found), flip))


def _reduced(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
    """(r, what r lost to rounding, quarter turns modulo 4 as an integer) of a >= 0; r is NaN where a is not finite."""
    return _reduced32(e, a) if e.dtype is float32 else _reduced64(e, a)


def _reduced32_near(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
    """The same below NEAR: float64 has the bits to take all turns away at once."""
    e.suppose(e.op("lt", a, e.num(NEAR)))
    wide = e.b.op("cast", a, dtype=float64)
    d = FloatEmitter(e.b, wide)
    magic = d.num(1.5 * 2.0**d.f.mantissa)
    count = d.op("sub", d.fma(wide, d.num(2 / math.pi), magic), magic)
    first, second, _ = _SHORT_HALF_PI
    high = d.op("sub", wide, d.op("mul", count, d.num(first)))  # both are exact
    r = d.fma(count, d.num(-second), high)
    narrow, turns = (e.b.op("cast", v, dtype=float32) for v in (r, count))
    return narrow, None, e.bits(e.op("add", turns, e.num(1.5 * 2.0**e.f.mantissa)))


def _reduced32(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
    if e.quick():
        return _reduced32_near(e, a)
    b = e.b
    d = FloatEmitter(b, b.op("cast", a, dtype=float64))
    wide = b.op("cast", a, dtype=float64)
    parts, scale = [d.num(part) for part in minimax.TURNS[0]], d.num(1.0)
    for step, more in enumerate(minimax.TURNS[1:]):
        far = d.op("le", d.num(SINE_END * 2.0 ** (_STEP * step)), wide)
        parts = [d.op("select", far, d.num(part), old) for part, old in zip(more, parts, strict=True)]
        scale = d.op("select", far, d.num(2.0 ** (-_STEP * (step + 1))), scale)
    products = [d.op("mul", d.op("mul", wide, scale), part) for part in parts]  # the first three are exact
    counts = [d.op("round", p) for p in products[:2]]
    high, lost = d.sum(*(d.op("sub", p, n) for p, n in zip(products, counts)))
    high, more_lost = d.sum(high, products[2])
    last = d.op("round", high)
    r = d.op("add", d.op("sub", high, last), d.op("add", d.op("add", lost, more_lost), products[3]))
    count = d.op("add", d.op("add", *counts), last)
    count = d.op("sub", count, d.op("mul", d.op("floor", d.op("mul", count, d.num(0.25))), d.num(4.0)))
    narrow = [b.op("cast", v, dtype=float32) for v in (d.op("mul", r, d.num(math.pi / 2)), count)]
    return narrow[0], None, e.bits(e.op("add", narrow[1], e.num(1.5 * 2.0**e.f.mantissa)))


def _reduced64(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
    if e.quick():
        return _reduced64_near(e, a)
    magic = e.num(1.5 * 2.0**e.f.mantissa)
    a = e.op("select", e.op("lt", a, e.num(SINE_END)), a, e.num(math.nan))
    # adding the magic number rounds, and leaves the count in the low bits
    shifted = e.op("add", e.op("mul", a, e.num(2 / math.pi)), magic)
    n = e.op("sub", shifted, magic)
    high, low = e.product(n, minimax.HALF_PI[0])
    second, second_low = e.product(n, minimax.HALF_PI[1])
    r, lost = e.sum(e.op("sub", a, high), e.op("neg", low))
    r, more_lost = e.sum(r, e.op("neg", second))
    rest = e.op("add", second_low, e.op("mul", n, e.num(minimax.HALF_PI[2])))
    rest = e.op("sub", e.op("add", lost, more_lost), rest)
    out = e.op("add", r, rest)
    return out, e.op("sub", rest, e.op("sub", out, r)), e.bits(shifted)


def _reduced64_near(e: FloatEmitter, a: Val) -> tuple[Val, Val, Val]:
    """The same below NEAR, where the products of a count with 33 bits of a turn are exact."""
    e.suppose(e.op("lt", a, e.num(NEAR)))
    magic = e.num(1.5 * 2.0**e.f.mantissa)
    shifted = e.fma(a, e.num(2 / math.pi), magic)
    n = e.op("sub", shifted, magic)
    first, second, third = _SHORT_HALF_PI
    high = e.op("sub", a, e.op("mul", n, e.num(first)))
    r, lost = e.sum(high, e.op("neg", e.op("mul", n, e.num(second))))
    rest = e.fma(n, e.num(-third), lost)
    out = e.op("add", r, rest)
    return out, e.op("sub", rest, e.op("sub", out, r)), e.bits(shifted)


def atan(e: FloatEmitter, x: Val) -> Val:
    """±π/2 for infinities; the sign of 0 stays. |x| > tan(3π/8) is turned by π/2, > tan(π/8) by π/4 (S. L. Moshier's Cephes cuts there)."""
    a, one, zero = e.op("abs", x), e.num(1.0), e.num(0.0)
    large, middle = e.op("lt", e.num(math.tan(3 * math.pi / 8)), a), e.op("lt", e.num(math.tan(math.pi / 8)), a)
    over = e.op("select", large, e.num(-1.0), e.op("select", middle, e.op("sub", a, one), a))
    under = e.op("select", large, a, e.op("select", middle, e.op("add", a, one), one))
    t = e.op("div", over, under)
    square = e.op("mul", t, t)
    y = e.op("mul", e.op("mul", t, square), e.poly(minimax.ATAN[e.dtype.name], square))
    turn, low = (
        e.op("select", large, e.num(part), e.op("select", middle, e.num(part / 2), zero)) for part in minimax.RIGHT_ANGLE[e.dtype.name]
    )
    # turn + t is exact enough with the small terms added to what it loses
    high, lost = e.sum(turn, t)
    return e.with_sign(e.op("add", high, e.op("add", y, e.op("add", lost, low))), x)
