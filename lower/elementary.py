"""exp, log, tanh and erf as straight-line vector arithmetic: no calls, no branches, exact special values, no flush to zero.

The method is the usual one (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980): reduce the argument with
a constant split in two parts, evaluate a minimax polynomial (`lower.minimax`), scale back. erf of float32 takes one quotient of two
polynomials over its whole range instead: half the instructions. Bounds, with fma, over the whole range including subnormal results:
float32 at most 2 ulp (erf and tanh 3), float64 at most 4 ulp; the tests hold them. Targets without fma round the products too, and
stay within 1 ulp more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.dtypes import DType, float32, float64, uint32, uint64
from ..ir.errors import KernelError
from ..program.builder import Builder
from ..program.program import Val
from . import minimax


@dataclass(frozen=True)
class _Format:
    """A float type: its bits as an unsigned type, mantissa bits, exponent bias, ln 2 in two parts (the first has so
    few bits that its product with an exponent is exact), and the arguments beyond which exp is inf or 0 and tanh or
    erf is 1. For exp to be 0 there are two: the last lies where both powers of two that scale the result are 0, since
    a product that is merely tiny is computed with microcode's help on many processors, and masked scores are all like
    that."""

    bits: DType
    mantissa: int
    bias: int
    ln2: tuple[float, float]
    exp: tuple[float, float, float]
    tanh: float
    erf: float


_FORMATS = {
    "float32": _Format(uint32, 23, 127, (0.693359375, float.fromhex("-0x1.bd0106p-13")), (-176.0, -104.0, 89.0), 10.0, 3.85),
    "float64": _Format(
        uint64, 52, 1023, (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")), (-1418.0, -746.0, 710.0), 20.0, 6.0
    ),
}


class _Emit:
    """Builder operations on values shaped like `x`."""

    def __init__(self, b: Builder, x: Val) -> None:
        self.b, self.f, self.dtype, self.lanes = b, _FORMATS[x.dtype.name], x.dtype, x.lanes

    def num(self, value: float) -> Val:
        return self.b.const(value, self.dtype, self.lanes)

    def whole(self, value: int) -> Val:
        return self.b.const(value, self.f.bits, self.lanes)

    def op(self, name: str, *args: Val) -> Val:
        return self.b.op(name, *args)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        return self.b.op("fma", a, b, c)

    def bits(self, x: Val) -> Val:
        return self.b.op("bitcast", x, dtype=self.f.bits)

    def number(self, x: Val) -> Val:
        return self.b.op("bitcast", x, dtype=self.dtype)

    def at_most(self, x: Val, top: float) -> Val:
        """min(x, top); NaN stays, since it is not above `top`."""
        limit = self.num(top)
        return self.op("select", self.op("lt", limit, x), limit, x)

    def poly(self, coefficients: tuple[float, ...], x: Val) -> Val:
        """By pairs, so that the chain is half as long as Horner's (G. Estrin, 1960): processors wait for it more than
        for the extra square."""
        pairs = [self.fma(self.num(high), x, self.num(low)) for low, high in zip(coefficients[::2], coefficients[1::2])]
        acc = self.num(coefficients[-1]) if len(coefficients) % 2 else pairs.pop()
        square = self.op("mul", x, x)
        for pair in reversed(pairs):
            acc = self.fma(acc, square, pair)
        return acc

    def reduce(self, x: Val, bias: int) -> tuple[Val, Val, Val]:
        """(a float whose bits' low end is n + bias, n, r) with x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 ·
        2^mantissa rounds to a whole number and leaves it in the low bits, with zeros above as far as any shift here
        looks."""
        magic = self.num(1.5 * 2.0**self.f.mantissa + bias)
        shifted = self.fma(x, self.num(1 / math.log(2)), magic)
        n = self.op("sub", shifted, magic)
        high, low = self.f.ln2
        r = self.fma(n, self.num(-low), self.fma(n, self.num(-high), x))
        return shifted, n, r

    def power(self, biased: Val) -> Val:
        """2^n of the biased exponent in the low bits of an integer."""
        return self.number(self.op("shl", biased, self.whole(self.f.mantissa)))

    def with_sign(self, magnitude: Val, x: Val) -> Val:
        sign = self.op("and", self.bits(x), self.whole(1 << (8 * self.dtype.size - 1)))
        return self.number(self.op("or", self.bits(magnitude), sign))


def _exp(e: _Emit, x: Val) -> Val:
    tiny, low, top = e.f.exp
    if "avx512" in e.b.features:
        # one instruction scales by any power and rounds once: the same bits. Zero is scaled where the result is zero, see `_Format`
        _, n, r = e.reduce(e.at_most(x, top), 0)
        zero = e.op("lt", x, e.num(low))
        return e.op("scale2", e.op("select", zero, e.num(0.0), _exp_poly(e, r)), n)
    x = e.at_most(x, top)
    x = e.op("select", e.op("lt", x, e.num(tiny)), e.num(tiny), x)
    # 2^n as a product of two powers: n itself passes the exponent range where the result is subnormal or the largest
    shifted, _, r = e.reduce(x, 2 * e.f.bias)
    biased = e.bits(shifted)
    half = e.op("shr", biased, e.whole(1))
    first, second = e.power(half), e.power(e.op("sub", biased, half))
    return e.op("mul", e.op("mul", _exp_poly(e, r), first), second)


def _exp_poly(e: _Emit, r: Val) -> Val:
    one = e.num(1.0)
    return e.fma(e.fma(e.poly(minimax.EXP[e.dtype.name], r), r, one), r, one)


def _log(e: _Emit, x: Val) -> Val:
    f = e.f
    tiny = e.op("lt", x, e.num(2.0 ** (1 - f.bias)))
    scaled = e.op("select", tiny, e.op("mul", x, e.num(2.0**f.mantissa)), x)
    # x = 2^k m with m in [sqrt(1/2), sqrt(2)): the offset moves the exponent's step to sqrt(1/2)
    root = 0x3F3504F3 if e.dtype is float32 else 0x3FE6A09E667F3BCD
    one = f.bias << f.mantissa
    moved = e.op("add", e.bits(scaled), e.whole(one - root))
    biased = _whole(e, e.op("shr", moved, e.whole(f.mantissa)))
    k = e.op("sub", biased, e.op("select", tiny, e.num(f.bias + f.mantissa), e.num(f.bias)))
    m = e.number(e.op("add", e.op("and", moved, e.whole((1 << f.mantissa) - 1)), e.whole(root)))
    y = _log_sum(e, e.op("sub", m, e.num(1.0)), k)
    # inf and NaN are not below inf and give themselves; zero gives -inf, less than zero NaN
    y = e.op("select", e.op("lt", x, e.num(math.inf)), y, x)
    bad = e.op("select", e.op("lt", x, e.num(0.0)), e.num(math.nan), e.num(-math.inf))
    return e.op("select", e.op("le", x, e.num(0.0)), bad, y)


def _whole(e: _Emit, n: Val) -> Val:
    """A small non-negative integer as a float: put under the exponent of 2^mantissa, since 64-bit conversions are slow on AVX2."""
    base = 2.0**e.f.mantissa
    above = e.op("or", n, e.whole((e.f.bias + e.f.mantissa) << e.f.mantissa))
    return e.op("sub", e.number(above), e.num(base))


def _log_sum(e: _Emit, f: Val, k: Val) -> Val:
    """log(1 + f) + k ln 2."""
    high, low = (e.num(part) for part in e.f.ln2)
    square = e.op("mul", f, f)
    if e.dtype is float32:
        tail = e.fma(e.op("mul", f, e.poly(minimax.LOG32, f)), square, e.op("mul", k, low))
        return e.fma(k, high, e.op("add", f, e.fma(square, e.num(-0.5), tail)))
    s = e.op("div", f, e.op("add", f, e.num(2.0)))
    z, half = e.op("mul", s, s), e.op("mul", square, e.num(0.5))
    rest = e.fma(z, e.poly(minimax.LOG64, z), half)
    tail = e.op("sub", half, e.fma(s, rest, e.op("mul", k, low)))
    return e.fma(k, high, e.op("sub", f, tail))


def _tanh(e: _Emit, x: Val) -> Val:
    # tanh|x| = d / (d + 2) with d = exp(2|x|) - 1 = 2^n q + (2^n - 1), q = exp(r) - 1: no cancellation near zero
    a = e.at_most(e.op("abs", x), e.f.tanh)
    shifted, _, r = e.reduce(e.op("add", a, a), e.f.bias)
    scale = e.power(e.bits(shifted))
    q = e.fma(e.op("mul", r, r), e.poly(minimax.EXP[e.dtype.name], r), r)
    d = e.fma(q, scale, e.op("sub", scale, e.num(1.0)))
    return e.with_sign(e.op("div", d, e.op("add", d, e.num(2.0))), x)


def _erf(e: _Emit, x: Val) -> Val:
    one, a = e.num(1.0), e.at_most(e.op("abs", x), e.f.erf)
    square = e.op("mul", a, a)
    if e.dtype is float32:
        over, under = (e.poly(part, square) for part in minimax.ERF32)
        y = e.fma(a, e.op("div", over, under), e.op("mul", a, e.num(minimax.ERF32_SLOPE)))
        return e.with_sign(e.at_most(y, 1.0), x)  # roundings near the end of the range may pass 1
    small = e.fma(e.poly(minimax.ERF_SMALL64, square), a, a)
    # erf = 1 - exp(log(erfc)): the exponent's error counts only as much as erfc does
    shifted, _, r = e.reduce(e.poly(minimax.ERF_LARGE64, a), e.f.bias)
    large = e.op("sub", one, e.op("mul", _exp_poly(e, r), e.power(e.bits(shifted))))
    return e.with_sign(e.op("select", e.op("lt", a, one), small, large), x)


_EXPANSIONS = {"exp": _exp, "log": _log, "tanh": _tanh, "erf": _erf}
NAMES = frozenset(_EXPANSIONS)
EXPENSIVE = NAMES | {"div", "sqrt"}
"""What takes so long that computing it again, or letting memory wait meanwhile, is worth avoiding."""


def expand(b: Builder, op: str, x: Val) -> Val:
    """`op` (exp, log, tanh or erf) of the float32 or float64 value `x`, scalar or vector, built from simpler operations."""
    if op not in _EXPANSIONS or x.dtype not in (float32, float64):
        raise KernelError(f"{op} of {x.dtype} has no expansion: use {', '.join(sorted(NAMES))} of float32 or float64")
    return _EXPANSIONS[op](_Emit(b, x), x)
