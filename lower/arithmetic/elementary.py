"""exp, log, tanh, erf, expm1 and log1p as straight-line vector arithmetic: no calls, no branches, exact special values, no flush to zero.

The method is the usual one (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980): reduce the argument with
a constant split in two parts, evaluate a minimax polynomial (`lower.arithmetic.minimax`), scale back. erf of float32 takes one quotient of two
polynomials over its whole range instead: half the instructions. Bounds, with fma, over the whole range including subnormal results:
What depends on ordinary arguments alone is computed first for steps of stores (`emit.fast_path`): then special values, subnormal numbers
and ends of ranges need no instructions but a test. float32 at most 2 ulp (erf and tanh 3; exp on NVIDIA GPUs 4, by their own 2^x), float64 at most 4 ulp; the tests hold them. Targets without fma round the products too, and
stay within 1 ulp more."""

from __future__ import annotations

import math

from ...ir.dtypes import float32, float64
from ...ir.errors import KernelError
from ...ir.node import COSTLY_FLOATS
from ...program.builder import Builder
from ...program.program import Val
from . import minimax, trigonometric
from .float_emitter import FloatEmitter

_ROOT = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""
LOG2E = float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0cp-26")
"""1 / ln 2 in float32, and what is missing."""


def _exp(e: FloatEmitter, x: Val) -> Val:
    tiny, low, top = e.f.exp
    if "sm80" in e.b.features and e.dtype is float32:
        return _exp_by_exp2(e, x)
    if "avx512" in e.b.features:
        # one instruction scales by any power and rounds once: the same bits. Zero is scaled where the result is zero, see `Format`
        _, n, r = e.reduce(e.at_most(x, top), 0)
        zero = e.op("lt", x, e.num(low))
        return e.op("scale2", e.op("select", zero, e.num(0.0), _exp_poly(e, r)), n)
    if e.speculative():
        # the result is far from both ends: its exponent is added to
        e.suppose(e.op("lt", e.op("abs", x), e.num(top - 3)))
        shifted, _, r = e.reduce(x, 0)
        return e.number(e.op("add", e.bits(_exp_poly(e, r)), e.op("shl", e.bits(shifted), e.whole(e.f.mantissa))))
    x = e.at_most(x, top)
    x = e.op("select", e.op("lt", x, e.num(tiny)), e.num(tiny), x)
    # 2^n as a product of two powers: n itself passes the exponent range where the result is subnormal or the largest
    shifted, _, r = e.reduce(x, 2 * e.f.bias)
    biased = e.bits(shifted)
    half = e.op("shr", biased, e.whole(1))
    first, second = e.power(half), e.power(e.op("sub", biased, half))
    return e.op("mul", e.op("mul", _exp_poly(e, r), first), second)


def _exp_by_exp2(e: FloatEmitter, x: Val) -> Val:
    """2^(x log₂e), times what the rounding of the product lost. Beyond the clamps the result is 0 or infinity, and stays so."""
    _, _, top = e.f.exp
    x = e.op("max", e.op("min", x, e.num(top)), e.num(-110.0))
    high, low = LOG2E
    t = e.op("mul", x, e.num(high))
    lost = e.fma(x, e.num(low), e.fma(x, e.num(high), e.op("neg", t)))
    return e.op("mul", e.op("exp2", t), e.fma(lost, e.num(math.log(2)), e.num(1.0)))


def _exp_poly(e: FloatEmitter, r: Val) -> Val:
    one = e.num(1.0)
    return e.fma(e.fma(e.poly(minimax.EXP[e.dtype.name], r), r, one), r, one)


def _expm1(e: FloatEmitter, x: Val) -> Val:
    # 2^n q + (2^n - 1) with q = exp(r) - 1, as first · (second q + second - 1 / first) with 2^n = first · second: n itself may be too large
    _, _, top = e.f.exp
    if e.speculative():
        # one power of two is enough far from the ends; the sign of 0 is that of x, as of every other result
        e.suppose(e.op("lt", e.op("abs", x), e.num(top - 3)))
        shifted, _, r = e.reduce(x, e.f.bias)
        scale = e.power(e.bits(shifted))
        q = e.fma(e.op("mul", r, r), e.poly(minimax.EXP[e.dtype.name], r), r)
        y = e.fma(q, scale, e.op("sub", scale, e.num(1.0)))
        return e.number(e.op("or", e.bits(y), e.op("and", e.bits(x), e.whole(e.sign))))
    low = e.num(-e.f.expm1)
    a = e.at_most(x, top)
    a = e.op("select", e.op("lt", a, low), low, a)
    shifted, _, r = e.reduce(a, 2 * e.f.bias)
    biased = e.bits(shifted)
    half = e.op("shr", biased, e.whole(1))
    other = e.op("sub", biased, half)
    first, second = e.power(half), e.power(other)
    inverse = e.power(e.op("sub", e.whole(2 * e.f.bias), half))
    q = e.fma(e.op("mul", r, r), e.poly(minimax.EXP[e.dtype.name], r), r)
    y = e.op("mul", e.fma(q, second, e.op("sub", second, inverse)), first)
    return e.op("select", e.op("eq", x, e.num(0.0)), x, y)  # keeps the sign of 0


def _log(e: FloatEmitter, x: Val) -> Val:
    if e.speculative():
        e.suppose(e.normal(x))
        k, m = split_normal(e, x)
        return _log_sum(e, e.op("sub", m, e.num(1.0)), k)
    k, m = split(e, x)
    return _log_ends(e, x, _log_sum(e, e.op("sub", m, e.num(1.0)), k))


def _log1p(e: FloatEmitter, x: Val) -> Val:
    one = e.num(1.0)
    u = e.op("add", x, one)
    f, k = _scaled(e, x, u)
    if e.speculative():
        e.suppose(e.op("and", e.op("lt", e.num(-1.0), x), e.op("lt", x, e.num(2.0 ** (e.f.bias - 2)))))
        y = _log_sum(e, f, k)
    else:
        # of huge x the scale is too small for a number; f is m - 1 long before, to the bit
        k, m = split_normal(e, u)
        f = e.op("select", e.op("lt", x, e.num(2.0**64)), f, e.op("sub", m, one))
        y = _log_ends(e, u, _log_sum(e, f, k))
    return e.op("select", e.op("eq", x, e.num(0.0)), x, y)  # keeps the sign of 0


def split(e: FloatEmitter, x: Val) -> tuple[Val, Val]:
    """(k, m) with x = 2^k m and m in [sqrt(1/2), sqrt(2)), for finite x > 0."""
    f = e.f
    tiny = e.op("lt", x, e.num(2.0 ** (1 - f.bias)))
    scaled = e.op("select", tiny, e.op("mul", x, e.num(2.0**f.mantissa)), x)
    # the offset moves the exponent's step to sqrt(1/2)
    root = _ROOT[e.dtype.name]
    one = f.bias << f.mantissa
    moved = e.op("add", e.bits(scaled), e.whole(one - root))
    biased = _int_as_float(e, e.op("shr", moved, e.whole(f.mantissa)))
    k = e.op("sub", biased, e.op("select", tiny, e.num(f.bias + f.mantissa), e.num(f.bias)))
    m = e.number(e.op("add", e.op("and", moved, e.whole((1 << f.mantissa) - 1)), e.whole(root)))
    return k, m


def split_normal(e: FloatEmitter, x: Val) -> tuple[Val, Val]:
    """`split` for normal numbers."""
    root = _ROOT[e.dtype.name]
    moved = e.op("add", e.bits(x), e.whole((e.f.bias << e.f.mantissa) - root))
    m = e.number(e.op("add", e.op("and", moved, e.whole((1 << e.f.mantissa) - 1)), e.whole(root)))
    return e.op("sub", _above(e, e.op("shr", moved, e.whole(e.f.mantissa))), e.num(2.0**e.f.mantissa + e.f.bias)), m


def _scaled(e: FloatEmitter, x: Val, u: Val) -> tuple[Val, Val]:
    """(f, k) with 1 + x = 2^k (1 + f), for ordinary x: what the rounding of u = 1 + x lost is not needed, since x and 1 are
    scaled by themselves."""
    one = e.f.bias << e.f.mantissa
    moved = e.op("add", e.bits(u), e.whole(one - _ROOT[e.dtype.name]))
    power = e.op("and", moved, e.whole((2 * e.f.bias + 1) << e.f.mantissa))
    scale = e.number(e.op("sub", e.whole(2 * one), power))
    k = e.op("sub", _above(e, e.op("shr", moved, e.whole(e.f.mantissa))), e.num(2.0**e.f.mantissa + e.f.bias))
    return e.fma(x, scale, e.op("sub", scale, e.num(1.0))), k


def _log_ends(e: FloatEmitter, x: Val, y: Val) -> Val:
    """`y` where log(x) is finite."""
    # inf and NaN are not below inf and give themselves; zero gives -inf, less than zero NaN
    y = e.op("select", e.op("lt", x, e.num(math.inf)), y, x)
    bad = e.op("select", e.op("lt", x, e.num(0.0)), e.num(math.nan), e.num(-math.inf))
    return e.op("select", e.op("le", x, e.num(0.0)), bad, y)


def _int_as_float(e: FloatEmitter, n: Val) -> Val:
    """A small non-negative integer as a float: put under the exponent of 2^mantissa, since 64-bit conversions are slow on AVX2."""
    return e.op("sub", _above(e, n), e.num(2.0**e.f.mantissa))


def _above(e: FloatEmitter, n: Val) -> Val:
    """2^mantissa and a small non-negative integer as a float."""
    return e.number(e.op("or", n, e.whole((e.f.bias + e.f.mantissa) << e.f.mantissa)))


def _log_sum(e: FloatEmitter, f: Val, k: Val) -> Val:
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


def _tanh(e: FloatEmitter, x: Val) -> Val:
    # tanh|x| = d / (d + 2) with d = exp(2|x|) - 1 = 2^n q + (2^n - 1), q = exp(r) - 1: no cancellation near zero
    a = e.at_most(e.op("abs", x), e.f.tanh)
    shifted, _, r = e.reduce(e.op("add", a, a), e.f.bias)
    scale = e.power(e.bits(shifted))
    q = e.fma(e.op("mul", r, r), e.poly(minimax.EXP[e.dtype.name], r), r)
    d = e.fma(q, scale, e.op("sub", scale, e.num(1.0)))
    return e.with_sign(e.op("div", d, e.op("add", d, e.num(2.0))), x)


def _erf(e: FloatEmitter, x: Val) -> Val:
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


def _trunc(e: FloatEmitter, x: Val) -> Val:
    return e.with_sign(e.op("floor", e.op("abs", x)), x)


_EXPANSIONS = {
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "tanh": _tanh,
    "erf": _erf,
    "trunc": _trunc,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "atan": trigonometric.atan,
}
NAMES = frozenset(_EXPANSIONS)
EXPENSIVE = COSTLY_FLOATS
"""What takes so long that computing it again, or letting memory wait meanwhile, is worth avoiding."""


def expand(b: Builder, op: str, x: Val) -> Val:
    """`op` (one of NAMES) of the float32 or float64 value `x`, scalar or vector, built from simpler operations."""
    if op not in _EXPANSIONS or x.dtype not in (float32, float64):
        raise KernelError(f"{op} of {x.dtype} has no expansion: use {', '.join(sorted(NAMES))} of float32 or float64")
    return _EXPANSIONS[op](FloatEmitter(b, x), x)
