"""The part of a reduction's axes beyond which its element is neutral for all of a piece: rows whose ends are read from memory are evaluated
in the time of their entries, not of all entries for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import index as ix
from ..body import Reduce, Value, identity
from ..buffer import load_parts
from ..dtypes import index
from ..node import Node, axes_of, walk
from ..skipped_tiles import conjuncts
from .dense import DenseContext, Env, Span


@dataclass(frozen=True, slots=True)
class _Limit:
    """`sign` · place + `rest` < 0, of the reduced axis at `place`, or nothing is combined."""

    place: int
    sign: int
    rest: Node


class ReducedPart:
    """What comparisons with data say of the axes of a reduction."""

    def __init__(self, v: Value) -> None:
        self.axes = v.axes
        self.found: list[_Limit] = [] if not isinstance(v.expr, Reduce) else [x for c in _conditions(v.expr) for x in _limits(v, c)]

    def within(self, env: Env, spans: tuple[Span, ...], over: tuple[Span, ...]) -> tuple[Span, ...]:
        """`over` without what is neutral for every point of `spans`."""
        out = list(over)
        for limit in self.found:
            numbers = env.algebra.array(DenseContext(env, self.axes, spans).eval(limit.rest))
            if not numbers.size:
                continue
            rest, (lo, hi) = int(np.min(numbers)), out[limit.place]
            if limit.sign > 0:
                hi = max(lo, min(hi, -rest))
            else:
                lo = min(hi, max(lo, rest + 1))
            out[limit.place] = lo, hi
        return tuple(out)


def _conditions(r: Reduce) -> list[Node]:
    """Comparisons without which the element is neutral."""
    e = r.expr
    while r.combine == "add" and e.op == "cast" and e.dtype.kind != "b":
        e = e.src[0]
    if e.op == "where" and e.src[2] is identity(r.combine, e.dtype):
        return list(conjuncts(e.src[0]))
    if e.op == "load" and r.combine == "add" and (mask := load_parts(e)[2]) is not None:
        return list(conjuncts(mask))
    return []


def _limits(v: Value, cond: Node) -> list[_Limit]:
    """A comparison of one reduced axis with data, as a limit of that axis."""
    if cond.op not in ("lt", "le") or cond.src[0].dtype is not index or not any(n.op == "load" for n in walk(cond)):
        return []
    terms, c = ix.parts(ix.add(cond.src[0], cond.src[1], -1))
    mine = [a for a in v.reduce_axes if a in terms]
    if len(mine) != 1 or abs(sign := terms.pop(mine[0])) != 1 or set(v.reduce_axes) & {a for t in terms for a in axes_of(t)}:
        return []
    return [_Limit(v.reduce_axes.index(mine[0]), sign, ix.linear(terms, c - (cond.op == "le")))]
