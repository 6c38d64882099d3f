"""Reductions whose result is known before all elements are: the first place where something holds, whether anything does."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.body import Reduce
from ...ir.dtypes import DType, bool_
from ...ir.node import Node, const
from ..nests import Nest


@dataclass(frozen=True, slots=True)
class Saturation:
    """An accumulator is final when it compares so (`lt` or `eq`) with a constant."""

    op: str
    bound: Node


def saturation(nest: Nest) -> Saturation | None:
    """When the accumulators of a reduction are final; None where each element may change them. Elements come in order."""
    if nest.value is None or not isinstance(nest.value.expr, Reduce) or len(nest.reduce_axes) != 1 or not nest.expr.dtype.is_int:
        return None
    e, combine = nest.expr, nest.value.expr.combine
    if combine == "min" and (limit := _place(e, nest.reduce_axes[0])) is not None:
        return Saturation("lt", limit)
    both = _two(e)
    if both is None or combine not in _LAST:
        return None
    last = next((x for x in both if _LAST[combine](int(x.arg), sorted(int(y.arg) for y in both))), None)
    return None if last is None else Saturation("eq", last)


_LAST = {
    "max": lambda x, both: x == both[-1],
    "min": lambda x, both: x == both[0],
    "or": lambda x, both: x == -1 or (x == both[-1] and both[0] == 0),
    "and": lambda x, both: x == 0,
}
"""Whether an element of two is what nothing changes any more."""


def _place(e: Node, axis: Node) -> Node | None:
    """The constant of `where(condition, place along the axis, constant)`, if it is no smaller than any place."""
    if e.op != "where":
        return None
    extent = axis.arg.extent
    for at, limit in (e.src[1:], e.src[:0:-1]):
        while at.op == "cast" and isinstance(extent, int) and holds(at.dtype, extent - 1):
            at = at.src[0]
        if at is axis and limit.op == "const" and isinstance(extent, int) and limit.arg >= extent - 1:
            return limit
    return None


def holds(dtype: DType, number: int) -> bool:
    """Whether a type of whole numbers has one that is not negative."""
    return dtype.is_int and number < 1 << (8 * dtype.size - (dtype.kind == "i"))


def _two(e: Node) -> tuple[Node, Node] | None:
    """The constants between which a condition chooses."""
    if e.op == "where" and all(x.op == "const" for x in e.src[1:]):
        return e.src[1], e.src[2]
    if e.op == "cast" and e.src[0].dtype is bool_:
        return const(1, e.dtype), const(0, e.dtype)
    return None
