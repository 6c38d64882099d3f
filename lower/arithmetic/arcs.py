"""Inverse sines and cosines, and angles of points, where arguments are ordinary: one root, one polynomial, no division; or one division.

Written out, asin is atan(x / √((1 − x)(1 + x))), and atan2 an atan of a quotient: a root and two divisions, and two divisions. Up to ½
asin is a polynomial of odd powers; beyond, asin(x) = π/2 − 2 asin(√((1 − x) / 2)) (W. J. Cody and W. Waite, 1980)."""

from __future__ import annotations

import math

from ...ir.dtypes import float32
from ...program.program import Val
from . import minimax
from .float_emitter import FloatEmitter


def asin(e: FloatEmitter, x: Val) -> Val | None:
    """Of ordinary numbers, which are from −1 to 1; None where others are not looked after."""
    if not e.quick():
        return None
    small, p = _arc(e, x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    turned = e.op("add", e.fma(p, e.num(-2.0), e.num(turn)), e.num(low))
    return e.with_sign(e.op("select", small, p, turned), x)


def half_acos(e: FloatEmitter, x: Val) -> Val | None:
    """acos(x) / 2 of ordinary numbers, which are from −1 to 1; None where others are not looked after."""
    if not e.quick():
        return None
    small, p = _arc(e, x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    middle = e.op("add", e.fma(e.with_sign(p, x), e.num(-0.5), e.num(turn / 2)), e.num(low / 2))
    far = e.op("add", e.op("sub", e.num(turn), p), e.num(low))
    return e.op("select", small, middle, e.op("select", e.op("lt", x, e.num(0.0)), far, p))


def _arc(e: FloatEmitter, x: Val) -> tuple[Val, Val]:
    """(whether |x| < ½, asin(|x|) there, else asin(√((1 − |x|) / 2)))."""
    a = e.op("abs", x)
    e.suppose(e.op("le", a, e.num(1.0)))
    half = e.num(0.5)
    small = e.op("lt", a, half)
    square = e.op("select", small, e.op("mul", x, x), e.fma(a, e.num(-0.5), half))
    root = e.op("select", small, a, e.op("sqrt", square))
    return small, e.fma(e.op("mul", root, square), e.poly(minimax.ASIN[e.dtype.name], square), root)


def angle(e: FloatEmitter, y: Val, x: Val) -> Val | None:
    """The angle of the point (x, y), whose coordinates are neither tiny nor huge; None where others are not looked after."""
    if not e.quick():
        return None
    over, under = e.op("abs", y), e.op("abs", x)
    turn, low = minimax.RIGHT_ANGLE[e.dtype.name]
    first = _steep32(e, over, under) if e.dtype is float32 else _steep64(e, over, under)
    behind = e.op("add", e.op("sub", e.num(2 * turn), first), e.num(2 * low))
    left = e.op("lt", e.b.op("bitcast", x, dtype=e.f.signed), e.b.const(0, e.f.signed))
    return e.with_sign(e.op("select", left, behind, first), y)


def _steep32(e: FloatEmitter, over: Val, under: Val) -> Val:
    """atan(over / under) by one polynomial to 45 degrees."""
    less = e.op("lt", over, under)
    small, large = e.op("select", less, over, under), e.op("select", less, under, over)
    _between(e, small, large)
    t = e.op("div", small, large)
    square = e.op("mul", t, t)
    y = e.fma(e.op("mul", t, square), e.horner(minimax.ATAN_WHOLE32, square), t)
    turn, low = minimax.RIGHT_ANGLE["float32"]
    return e.op("select", less, y, e.op("add", e.op("sub", e.num(turn), y), e.num(low)))


def _steep64(e: FloatEmitter, over: Val, under: Val) -> Val:
    """atan(over / under), turned by π/2 beyond 3π/8 and by π/4 beyond π/8, before the division."""
    _between(e, over, over)
    _between(e, under, under)
    large, middle = (e.op("lt", e.op("mul", under, e.num(math.tan(n * math.pi / 8))), over) for n in (3, 1))
    top = e.op("select", large, e.op("neg", under), e.op("select", middle, e.op("sub", over, under), over))
    bottom = e.op("select", large, over, e.op("select", middle, e.op("add", over, under), under))
    t = e.op("div", top, bottom)
    square = e.op("mul", t, t)
    y = e.op("mul", e.op("mul", t, square), e.poly(minimax.ATAN["float64"], square))
    whole, rest = (
        e.op("select", large, e.num(p), e.op("select", middle, e.num(p / 2), e.num(0.0))) for p in minimax.RIGHT_ANGLE["float64"]
    )
    high, lost = e.sum(whole, t)
    return e.op("add", high, e.op("add", y, e.op("add", lost, rest)))


def _between(e: FloatEmitter, small: Val, large: Val) -> None:
    """Suppose that numbers, of which these are the least and the largest, are far from both ends of the exponents."""
    e.suppose(e.op("lt", e.num(2.0 ** (3 - e.f.bias)), small))
    e.suppose(e.op("lt", large, e.num(2.0 ** (e.f.bias - 3))))
