"""Sums of products of narrow integers that are made two neighbours at a time (`lower/passes/neighbour_sums.py`): which they are."""

from __future__ import annotations

from ...ir.body import Reduce
from ...ir.buffer import load_parts
from ...ir.dtypes import int8, int16, int32, uint8
from ...ir.node import Node
from ...targets import Target
from ..access import stride
from ..axis_plan import Part
from ..nests import Nest
from ..schedule import Scheduled

NARROW = (int8, uint8, int16)
"""Types whose numbers 16 signed bits hold."""


def factors(nest: Nest, target: Target) -> tuple[Node, Node] | None:
    """The loads of both factors, where a nest sums products of narrow integers in int32 and the target has the instruction."""
    made = nest.value.expr if nest.value is not None else None
    if not target.adds_neighbours or not isinstance(made, Reduce) or made.combine != "add" or made.dtype is not int32:
        return None
    if nest.expr.op != "mul":
        return None
    found = [n.src[0] for n in nest.expr.src if n.op == "cast" and n.src[0].op == "load" and n.src[0].dtype in NARROW]
    return (found[0], found[1]) if len(found) == 2 and all(load_parts(n)[2] is None for n in found) else None


def joined(s: Scheduled, nest: Nest, lane: Part | None, width: int) -> bool:
    """Whether a schedule's vectors of products lie along the reduction, and are joined in twos."""
    if lane is None or lane.axis not in nest.reduce_axes or lane.trips % (2 * width):
        return False
    found = factors(nest, s.target)
    return found is not None and all(_consecutive(s, nest, n, lane) for n in found)


def _consecutive(s: Scheduled, nest: Nest, load: Node, lane: Part) -> bool:
    buffer, indices, _ = load_parts(load)
    return stride(s, nest, buffer.name, indices, buffer.shape, lane) == 1
