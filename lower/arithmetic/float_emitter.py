"""What the expansions of elementary functions are written with: float types bit by bit, and builder operations on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.dtypes import DType, int32, int64, uint32, uint64
from ...program.builder import Builder
from ...program.program import Val


@dataclass(frozen=True)
class Format:
    """A float type: its bits as an unsigned type, and as a signed one, mantissa bits, exponent bias, ln 2 in two parts (the first has so
    few bits that its product with an exponent is exact), and the arguments beyond which exp is inf or 0, tanh or
    erf is 1, and expm1 is -1. For exp to be 0 there are two: the last lies where both powers of two that scale the result are 0, since
    a product that is merely tiny is computed with microcode's help on many processors, and masked scores are all like
    that."""

    bits: DType
    signed: DType
    mantissa: int
    bias: int
    ln2: tuple[float, float]
    exp: tuple[float, float, float]
    tanh: float
    erf: float
    expm1: float


FORMATS = {
    "float32": Format(uint32, int32, 23, 127, (0.693359375, float.fromhex("-0x1.bd0106p-13")), (-176.0, -104.0, 89.0), 10.0, 3.85, 20.0),
    "float64": Format(
        uint64,
        int64,
        52,
        1023,
        (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")),
        (-1418.0, -746.0, 710.0),
        20.0,
        6.0,
        40.0,
    ),
}


class FloatEmitter:
    """Builder operations on values shaped like `x`, and the steps that the elementary functions share."""

    def __init__(self, b: Builder, x: Val) -> None:
        self.b, self.f, self.dtype, self.lanes = b, FORMATS[x.dtype.name], x.dtype, x.lanes
        self.sign = 1 << (8 * x.dtype.size - 1)
        """The bit of the sign."""

    def num(self, value: float) -> Val:
        """A constant of the type."""
        return self.b.const(value, self.dtype, self.lanes)

    def whole(self, value: int) -> Val:
        """A constant of the bits' type."""
        return self.b.const(value, self.f.bits, self.lanes)

    def op(self, name: str, *args: Val) -> Val:
        """An operation of the builder."""
        return self.b.op(name, *args)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a·b + c."""
        return self.b.op("fma", a, b, c)

    def bits(self, x: Val) -> Val:
        """The bits of a float."""
        return self.b.op("bitcast", x, dtype=self.f.bits)

    def number(self, x: Val) -> Val:
        """The float of bits."""
        return self.b.op("bitcast", x, dtype=self.dtype)

    def at_most(self, x: Val, top: float) -> Val:
        """min(x, top); NaN stays, since it is not above `top`."""
        limit = self.num(top)
        return self.op("select", self.op("lt", limit, x), limit, x)

    def poly(self, coefficients: tuple[float, ...], x: Val) -> Val:
        """A polynomial by pairs, so that the chain is half as long as Horner's (G. Estrin, 1960): processors wait for it more than
        for the extra square."""
        pairs = [self.fma(self.num(high), x, self.num(low)) for low, high in zip(coefficients[::2], coefficients[1::2])]
        acc = self.num(coefficients[-1]) if len(coefficients) % 2 else pairs.pop()
        square = self.op("mul", x, x)
        for pair in reversed(pairs):
            acc = self.fma(acc, square, pair)
        return acc

    def horner(self, coefficients: tuple[float, ...], x: Val) -> Val:
        """One after the other: with one operation less, one rounding of the largest term, and two registers."""
        acc = self.num(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            acc = self.fma(acc, x, self.num(c))
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

    @property
    def speculates(self) -> bool:
        """Whether kernels of this target compute what holds for ordinary arguments first: it pays where a test of all lanes is an
        instruction or two. One value has one rounding: code for all arguments gives ordinary ones the same bits then."""
        return "sse41" in self.b.features

    def speculative(self) -> bool:
        """Whether what holds for ordinary arguments is enough here (`Builder.ordinary`)."""
        return self.b.ordinary is not None and self.lanes > 1 and self.speculates

    def suppose(self, ordinary: Val) -> None:
        """Note in which lanes an argument is ordinary; what is computed of others will be computed again."""
        assert self.b.ordinary is not None
        self.b.ordinary.append(ordinary)

    def normal(self, x: Val) -> Val:
        """Whether x is a normal number above 0."""
        least, one = 1 << self.f.mantissa, self.f.bias << self.f.mantissa
        return self.op("lt", self.op("sub", self.bits(x), self.whole(least)), self.whole(2 * one))

    def sum(self, a: Val, b: Val) -> tuple[Val, Val]:
        """(a + b rounded, what the rounding lost), whichever is the larger (D. E. Knuth, 1969)."""
        total = self.op("add", a, b)
        other = self.op("sub", total, a)
        return total, self.op("add", self.op("sub", a, self.op("sub", total, other)), self.op("sub", b, other))

    def ordered_sum(self, a: Val, b: Val) -> tuple[Val, Val]:
        """The same where |a| ≥ |b|, or a is 0 (T. J. Dekker, 1971)."""
        total = self.op("add", a, b)
        return total, self.op("add", self.op("sub", a, total), b)

    def product(self, a: Val, b: Val) -> tuple[Val, Val]:
        """(a · b rounded, what the rounding lost); without fma by halves (T. J. Dekker, 1971)."""
        total = self.op("mul", a, b)
        if "fma" in self.b.features:
            return total, self.fma(a, b, self.op("neg", total))
        (high, low), (top, rest) = self._halves(a), self._halves(b)
        lost = self.op("add", self.op("sub", self.op("mul", high, top), total), self.op("mul", high, rest))
        return total, self.op("add", self.op("add", lost, self.op("mul", low, top)), self.op("mul", low, rest))

    def _halves(self, a: Val) -> tuple[Val, Val]:
        """A number as a sum of two that have half of its bits each."""
        wide = self.op("mul", a, self.num(2.0 ** (self.f.mantissa // 2 + 1) + 1))
        high = self.op("sub", wide, self.op("sub", wide, a))
        return high, self.op("sub", a, high)

    def with_sign(self, magnitude: Val, x: Val) -> Val:
        """`magnitude` with the sign of `x`."""
        sign = self.op("and", self.bits(x), self.whole(self.sign))
        return self.number(self.op("or", self.bits(magnitude), sign))
