"""Rewrites of elementwise nodes as they are made: constants, identities that hold for every value, NaN included."""

from __future__ import annotations

from math import copysign

from ...ir.dtypes import bool_
from .node import TensorNode, constant_of

_NEUTRAL = {"mul": 1, "div": 1, "pow": 1}
_NEUTRAL_INTS = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0}
_COMMUTE = frozenset({"add", "mul", "or", "xor", "and"})


def simplified(op: str, src: tuple[TensorNode, ...]) -> TensorNode | None:
    """A node that is already there and equal to `op` of `src`, or None."""
    if op == "where":
        cond, a, b = src
        known = constant_of(cond)
        if known is None and a.dtype is bool_ and constant_of(a) is True and constant_of(b) is False:
            return cond
        return (a if known else b) if known is not None else a if a is b else None
    if len(src) != 2:
        x = src[0]
        return x.src[0] if op in ("not", "neg") and x.op == "elementwise" and x.arg == op else None
    a, b = src
    if op in ("and", "or") and a is b:
        return a
    return _neutral(op, a, b, constant_of(b)) or (_neutral(op, b, a, constant_of(a)) if op in _COMMUTE else None)


def _neutral(op: str, x: TensorNode, other: TensorNode, value: bool | int | float | None) -> TensorNode | None:
    """`x op value` where that is `x` or `value` whatever `x` is. (x + 0.0 is not x: −0.0 + 0.0 is 0.0.)"""
    if value is None:
        return None
    if x.dtype.is_float and value == 0 and op in ("add", "sub"):
        negative = copysign(1.0, value) < 0
        if negative is (op == "add") or (op == "add" and _sum_from_zero(x)):  # x + −0.0 and x − 0.0 are x, −0.0 included
            return x
    if x.dtype is bool_:
        if op in ("and", "or"):
            return (x if value else other) if op == "and" else (other if value else x)
        return None
    neutral = _NEUTRAL.get(op)
    if neutral is None and x.dtype.is_int:
        neutral = _NEUTRAL_INTS.get(op)
    return x if neutral is not None and value == neutral and (op != "and") else None


def _sum_from_zero(x: TensorNode) -> bool:
    """Whether a node was added up from 0.0, so that it is never −0.0."""
    return x.op == "scatter" and x.arg.combine == "add"
