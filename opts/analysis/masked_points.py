"""Points of a scatter that data leaves out: each may add what changes nothing, in place of a branch that is guessed wrongly for many."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir import index as ix
from ...ir.dtypes import index
from ...ir.index import Interval
from ...ir.integer_ranges import value_range
from ...ir.node import Node, walk
from ..nests import Nest
from ..schedule import Scheduled
from .thresholds import cuttable


def keeps_old(sched: Scheduled, nest: Nest, conds: Sequence[Node]) -> bool:
    """Whether a point that the conditions leave out may add what changes nothing: its place exists, nobody else writes there meanwhile,
    and all that points add to is near: a branch that is guessed wrongly takes as long as two reads from the second cache. (Of extremes of floats, what is no number would have to be kept.)"""
    s = nest.store
    if s is None or s.combine is None or s.own is not None or nest.kind != "store" or not cuttable(sched):
        return False
    if nest.expr.dtype.is_float and s.combine != "add":
        return False
    if len(conds) != 1 or conds[0] is not nest.mask or not any(n.op == "load" for n in walk(nest.mask)):
        return False
    shape = [d for d in s.buffer.shape if isinstance(d, int)]
    if len(shape) < len(s.buffer.shape) or any(not _inside(i, d) for i, d in zip(nest.indices, shape, strict=True)):
        return False
    return prod(d for i, d in zip(nest.indices, shape, strict=True) if i.op != "axis") * s.buffer.dtype.size <= sched.target.l2 // 2


def _inside(place: Node, extent: int) -> bool:
    """Whether an index stays inside wherever it is computed."""
    low, high = _range(place)
    return low >= 0 and high < extent


def _range(n: Node) -> Interval:
    while n.op == "cast" and n.dtype is index and n.src[0].dtype.is_int:
        n = n.src[0]
    return ix.bounds(n) if n.dtype is index else value_range(n)
