"""sin, cos, tan and atan as straight-line vector arithmetic.

For ordinary angles whole half turns are taken away, and one polynomial is evaluated on what is left, r in [-π/2, π/2].
With fma that is exact in parts of full width: x - n·π₁ has no more bits than a number holds (W. J. Cody and W. Waite,
1980; P. W. Markstein's way with fma), the next part rounds once, and the third matters only where next to nothing is
left. Without fma the first parts have so few bits that their products with a count are exact.

For other angles, sin and cos take away whole quarter turns and evaluate a polynomial on what is left, r in [-π/4, π/4].
float32 is right for every argument: the turns are counted in float64, where the products of the 24 bits of a float32
number with 29-bit parts of 2/π are exact, and powers of two that leave whole turns are taken from a table (M. Payne and
R. Hanek, SIGNUM Newsletter 18, 1983). Targets without float64 do the same in integers of 64 bits. float64 takes n·π/2 away in three parts of 53 bits, with the roundings kept
(T. J. Dekker, 1971), for |x| < 2^50, which is about 1.1e15; beyond that, where one unit in the last place is a sizeable
part of a turn, the result is NaN."""

from __future__ import annotations

import math

from ...ir.dtypes import float32, float64, int64, uint32, uint64
from ...ir.functions import SINE_END
from ...program.program import Val
from . import minimax
from .float_emitter import FloatEmitter

NEAR = 2.0**16
"""What is below counts for an ordinary angle."""
NEAR32 = 2.0**13
"""The same of float32 without fma: counts have 12 bits, and so have the parts of π."""
_STEP = 26
"""Bits by which an argument of SINE_END or beyond is shifted, until it is below."""


def sin(e: FloatEmitter, x: Val) -> Val:
    """Correct sign of 0; NaN for infinities."""
    sign, a = e.op("and", e.bits(x), e.whole(e.sign)), e.op("abs", x)
    if e.speculates:
        shifted, n = _half_turns(e, a, 0.0)
        near = _arc(e, a, n, shifted)
        if e.speculative():
            e.suppose(_ordinary(e, a))
            return e.number(e.op("xor", near, sign))
    r, low, turns = _reduced(e, a)
    found = e.bits(_wave(e, r, low, turns))
    if e.speculates:
        found = e.op("select", _ordinary(e, a), near, found)
    return e.number(e.op("xor", found, sign))


def cos(e: FloatEmitter, x: Val) -> Val:
    """NaN for infinities."""
    a = e.op("abs", x)
    if e.speculates:
        # the cosine of n - 1/2 half turns and r is the sine of n half turns and r
        shifted, n = _half_turns(e, a, 0.5)
        near = e.number(_arc(e, a, e.op("sub", n, e.num(0.5)), shifted))
        if e.speculative():
            e.suppose(_ordinary(e, a))
            return near
    r, low, turns = _reduced(e, a)
    found = _wave(e, r, low, e.op("add", turns, e.whole(1)))
    return e.op("select", _ordinary(e, a), near, found) if e.speculates else found


def tan(e: FloatEmitter, x: Val) -> Val | None:
    """sin(x) / cos(x), of ordinary angles by one quotient of polynomials; None where it is better written out."""
    if not e.speculates:
        return None
    sign, a, name = e.op("and", e.bits(x), e.whole(e.sign)), e.op("abs", x), e.dtype.name
    magic = e.num(1.5 * 2.0**e.f.mantissa)
    shifted = e.fma(a, e.num(2 / math.pi), magic)
    r = _remainder(e, a, e.op("sub", shifted, magic), 0.5)
    square = e.op("mul", r, r)
    over, under = (e.horner(part, square) for part in minimax.TAN[name])
    over, under = e.fma(e.op("mul", r, square), over, r), e.fma(square, under, e.num(1.0))
    # a quarter turn further it is -1 / tan
    turn = e.op("shl", e.bits(shifted), e.whole(8 * e.dtype.size - 1))
    odd = e.op("lt", e.b.op("bitcast", turn, dtype=e.f.signed), e.b.const(0, e.f.signed, e.lanes))
    y = e.op("div", e.op("select", odd, under, over), e.op("select", odd, over, under))
    near = e.op("xor", e.bits(y), turn)
    if e.speculative():
        e.suppose(_ordinary(e, a))
        return e.number(e.op("xor", near, sign))
    r, low, turns = _reduced(e, a)
    far = e.op("div", _wave(e, r, low, turns), _wave(e, r, low, e.op("add", turns, e.whole(1))))
    return e.number(e.op("xor", e.op("select", _ordinary(e, a), near, e.bits(far)), sign))


def _ordinary(e: FloatEmitter, a: Val) -> Val:
    """Whether `a` is an ordinary angle."""
    return e.op("lt", a, e.num(NEAR if e.dtype is not float32 or "fma" in e.b.features else NEAR32))


def _half_turns(e: FloatEmitter, a: Val, more: float) -> tuple[Val, Val]:
    """(a number whose bits' low end is n, n): the half turns in a, and so many more, as a whole number."""
    magic, rate = e.num(1.5 * 2.0**e.f.mantissa), e.num(1 / math.pi)
    shifted = e.op("add", e.fma(a, rate, e.num(more)), magic) if more else e.fma(a, rate, magic)
    return shifted, e.op("sub", shifted, magic)


def _remainder(e: FloatEmitter, a: Val, n: Val, unit: float) -> Val:
    """What is left of an ordinary angle after n times `unit` half turns."""
    fused = "fma" in e.b.features
    for part in (minimax.PI if fused else minimax.PI_SHORT)[e.dtype.name]:
        a = e.fma(n, e.num(-part * unit), a)
    return a


def _arc(e: FloatEmitter, a: Val, n: Val, shifted: Val) -> Val:
    """The bits of the sine of what is left of `a` after n half turns, with the sign that a whole number of them (the low bits of
    `shifted`) gives it."""
    r = _remainder(e, a, n, 1.0)
    square = e.op("mul", r, r)
    y = e.fma(e.op("mul", r, square), e.horner(minimax.ARC[e.dtype.name], square), r)
    return e.op("xor", e.bits(y), e.op("shl", e.bits(shifted), e.whole(8 * e.dtype.size - 1)))


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
    if e.dtype is float32:
        return _reduced32(e, a) if e.b.float64 else _reduced_whole(e, a)
    return _reduced64(e, a)


def _reduced32(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
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


_TURN_BITS = 62
"""Bits of a quarter turn's fraction, in integers of which two more count quarter turns."""
_FROM = 126
"""The biased exponent of 0.5: smaller angles are left as they are."""
_SHORT = 0xFFFFF000
"""The first 12 bits of a float32 number's 24."""
_HALF_PI_SHORT = tuple(float.fromhex(part) for part in ("0x1.9200000000000p+0", "0x1.fb40000000000p-12", "0x1.4442d20000000p-24"))
"""π/2 in parts, of which the first two have 12 bits: products with 12 bits are exact."""


def _reduced_whole(e: FloatEmitter, a: Val) -> tuple[Val, Val, Val]:
    """As `_reduced32`, by integers: a = m · 2^k with 24 bits of m, times those bits of 2/π that count less than four quarter turns then. The
    product has 62 bits of a fraction; an angle of float32 comes no closer to whole quarter turns than 2^-30 of one."""
    b, lanes = e.b, a.lanes

    def long(value: int) -> Val:
        return b.const(value, uint64, lanes)

    bits = e.bits(a)
    m = b.op("cast", e.op("or", e.op("and", bits, e.whole(0x7FFFFF)), e.whole(0x800000)), dtype=uint64)
    small = e.op("lt", a, e.num(0.5))
    first = e.op("select", small, e.whole(0), e.op("sub", e.op("shr", bits, e.whole(e.f.mantissa)), e.whole(_FROM)))
    word, shift = e.op("shr", first, e.whole(5)), b.op("cast", e.op("and", first, e.whole(31)), dtype=uint64)
    parts = []
    for at in range(3):  # words at .. at + 4 of 2/π by the exponent, each with the next one behind it
        part = long(minimax.TWO_OVER_PI[at] << 32 | minimax.TWO_OVER_PI[at + 1])
        for j in range(1, 5):
            other = long(minimax.TWO_OVER_PI[at + j] << 32 | minimax.TWO_OVER_PI[at + j + 1])
            part = e.op("select", e.op("eq", word, e.whole(j)), other, part)
        parts.append(e.op("shl", part, shift))
    thirty_two = long(32)
    high = e.op("or", e.op("and", parts[0], long(0xFFFFFFFF << 32)), e.op("shr", parts[1], thirty_two))
    guard = e.op("shr", e.op("mul", e.op("shr", parts[2], thirty_two), m), thirty_two)
    product = e.op("add", e.op("mul", high, m), guard)  # modulo four quarter turns
    turns = e.op("shr", e.op("add", product, long(1 << (_TURN_BITS - 1))), long(_TURN_BITS))
    left = b.op("bitcast", e.op("sub", product, e.op("shl", turns, long(_TURN_BITS))), dtype=int64)
    near = b.op("cast", left, dtype=float32)
    rest = b.op("cast", e.op("sub", left, b.op("cast", near, dtype=int64)), dtype=float32)
    near, rest = (e.op("mul", v, e.num(2.0**-_TURN_BITS)) for v in (near, rest))
    front = e.number(e.op("and", e.bits(near), e.whole(_SHORT)))
    back = e.op("sub", near, front)
    one, two, three = (e.num(part) for part in _HALF_PI_SHORT)
    middle = e.op("add", e.op("mul", front, two), e.op("mul", back, one))
    end = e.op("add", e.op("mul", back, two), e.op("add", e.op("mul", near, three), e.op("mul", rest, one)))
    r, low = e.ordered_sum(e.op("mul", front, one), e.op("add", middle, end))
    r = e.op("select", small, a, e.op("select", e.op("lt", a, e.num(math.inf)), r, e.num(math.nan)))
    none = e.op("or", small, e.op("ne", r, r))
    return r, e.op("select", none, e.num(0.0), low), e.op("select", none, e.whole(0), b.op("cast", turns, dtype=uint32))


def _reduced64(e: FloatEmitter, a: Val) -> tuple[Val, Val | None, Val]:
    magic = e.num(1.5 * 2.0**e.f.mantissa)
    a = e.op("select", e.op("lt", a, e.num(SINE_END)), a, e.num(math.nan))
    # adding the magic number rounds, and leaves the count in the low bits
    shifted = e.op("add", e.op("mul", a, e.num(2 / math.pi)), magic)
    n = e.op("sub", shifted, magic)
    high, low = e.product(n, e.num(minimax.HALF_PI[0]))
    second, second_low = e.product(n, e.num(minimax.HALF_PI[1]))
    r, lost = e.sum(e.op("sub", a, high), e.op("neg", low))
    r, more_lost = e.sum(r, e.op("neg", second))
    rest = e.op("add", second_low, e.op("mul", n, e.num(minimax.HALF_PI[2])))
    rest = e.op("sub", e.op("add", lost, more_lost), rest)
    out = e.op("add", r, rest)
    return out, e.op("sub", rest, e.op("sub", out, r)), e.bits(shifted)


def atan(e: FloatEmitter, x: Val) -> Val:
    """±π/2 for infinities; the sign of 0 stays. |x| > tan(3π/8) is turned by π/2, > tan(π/8) by π/4 (S. L. Moshier's Cephes cuts there)."""
    if e.dtype is float32:
        return _atan32(e, x)
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


def _atan32(e: FloatEmitter, x: Val) -> Val:
    """One polynomial to 45 degrees: what is larger is turned by a right angle."""
    a, one = e.op("abs", x), e.num(1.0)
    small = e.op("lt", a, one)
    t = e.op("div", e.op("select", small, a, one), e.op("select", small, one, a))  # 1 / NaN stays NaN
    square = e.op("mul", t, t)
    y = e.fma(e.op("mul", t, square), e.horner(minimax.ATAN_WHOLE32, square), t)
    turn, low = minimax.RIGHT_ANGLE["float32"]
    turned = e.op("add", e.op("sub", e.num(turn), y), e.num(low))
    return e.with_sign(e.op("select", small, y, turned), x)
