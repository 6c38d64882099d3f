"""Steps of a reduction that some lanes leave out: with AVX-512 an instruction leaves lanes as they are, at no cost.

Elsewhere an element that does not count becomes the identity (0, for a sum) before it is combined. With registers of masks the accumulator
is combined under the mask instead: one instruction for a count of conditions, where making numbers of the truths takes another."""

from __future__ import annotations

from ...ir.dtypes import bool_
from ...ir.node import Node, const
from ...opts.nests import identity
from ..expr import NestEval

_WHOLE = 64
"""Bytes of the vectors that have no other comparisons than those into masks."""


def masked(ev: NestEval, expr: Node, combine: str) -> tuple[Node | None, Node]:
    """(the condition under which an element changes the accumulator, what it is there), or None and `expr` where there is none, or no
    instruction for it."""
    # (shorter vectors compare into vectors, which more units can do)
    if "avx512" not in ev.b.features or ev.lane is None or not ev.b.expand or ev.width * expr.dtype.size < _WHOLE:
        return None, expr
    truth = expr
    while truth.op == "cast" and truth.dtype.is_int:
        truth = truth.src[0]
    if truth.dtype is bool_ and truth is not expr and combine == "add":
        return truth, const(1, expr.dtype)
    if expr.op == "where" and not ev.fills_in(expr) and expr.src[2] is identity(combine, expr.dtype):
        return expr.src[0], expr.src[1]
    return None, expr
