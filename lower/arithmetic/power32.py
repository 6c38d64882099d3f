"""Powers of float32, where arguments are ordinary, by as much of float64 as they need.

Written out (`ir.powers.general_power`), a power is an exponential and a logarithm of float64, right to its last place, and a choice
among special cases. A result of float32 needs 2^(y log₂ x) to 26 bits, and so the logarithm, whose product with y is up to 128, to 33:
fewer terms, no division (P. T. P. Tang's and others' tables take gathers). Within 0.7 ulp."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import float32, float64
from ...ir.node import Node, const, walk
from ...ir.powers import general_power
from ...program.builder import Builder
from ...program.program import Val
from . import minimax
from .elementary import split_normal
from .float_emitter import FloatEmitter

FAR = 1000.0
"""Powers of two that are far from the ends of float64, and beyond those of float32."""


def power(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """The float32 power whose last step the cast `node` is; None for other casts, and where no others look after what is special."""
    if b.ordinary is None or node.dtype is not float32 or node.src[0].op != "where" or node.src[0].dtype is not float64:
        return None
    found = _operands(node)
    if found is None:
        return None
    x, y = (value(n) for n in found)
    lanes = max(x.lanes, y.lanes)
    e = FloatEmitter(b, b.splat(x, lanes))
    return _power(e, b.splat(x, lanes), b.splat(y, lanes)) if e.quick() else None


def _operands(node: Node) -> tuple[Node, Node] | None:
    """x and y, which is of float64, of x to the power of y."""
    for product in (n.src[0] for n in walk(node) if n.op == "exp" and n.src[0].op == "mul"):
        for y, log in (product.src, product.src[::-1]):
            if log.op != "log" or log.src[0].op != "abs" or log.src[0].src[0].op != "cast":
                continue
            x = log.src[0].src[0].src[0]
            exponent = const(y.arg, float32) if y.op == "const" else y.src[0] if y.op == "cast" else None
            if exponent is not None and exponent.dtype is float32 and x.dtype is float32 and general_power(x, exponent) is node:
                return x, y
    return None


def _power(e: FloatEmitter, x: Val, y: Val) -> Val:
    b = e.b
    e.suppose(e.normal(x))
    k, m = (b.op("cast", v, dtype=float64) for v in split_normal(e, x))
    d = FloatEmitter(b, m)
    f = d.op("sub", m, d.num(1.0))
    t = d.op("mul", y, d.fma(f, d.poly(minimax.LOG2_SHORT, f), k))
    near = d.op("lt", d.op("abs", t), d.num(FAR))
    e.suppose(near)
    magic = d.num(1.5 * 2.0**d.f.mantissa)
    shifted = d.op("add", t, magic)
    r = d.op("sub", t, d.op("sub", shifted, magic))
    p = d.fma(d.poly(minimax.EXP2_SHORT, r), r, d.num(1.0))
    scaled = d.op("add", d.bits(p), d.op("shl", d.bits(shifted), d.whole(d.f.mantissa)))
    return b.op("cast", d.number(scaled), dtype=float32)
