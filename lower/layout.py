"""Which axis of a kept value is consecutive in its array: the one that gets the lanes of the nest that makes it.

Decided before anything is emitted, since arrays are given out before their nests are; a value whose lanes run along its last axis, or that has none, is laid
out row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.node import Node, axes_of, load_parts, walk
from ..opts.nests import Nest
from ..opts.plan_axis import Part
from .lanes import access, push, stride_score, width
from .parts import over_parts

if TYPE_CHECKING:
    from .lowering import Lowering


def inner_dimensions(low: Lowering) -> dict[str, int]:
    """For each value that is made by a nest, the position of its consecutive axis, where that is not the last one."""
    found: dict[str, int] = {}
    for nest in low.sched.nests:
        lane = _lane(low, nest, found)
        for name, axes in nest.made.items():
            if lane is not None and lane.axis in axes:
                found[name] = axes.index(lane.axis)
    return found


def _lane(low: Lowering, nest: Nest, found: dict[str, int]) -> Part | None:
    best, score = None, 0.0
    for p in low.sched.registers(nest):
        if p.kind != "upcast" or width(low, p) < 2:
            continue
        s = push(low, nest, p)
        for n in walk(*nest.evaluated):
            if n.op == "load":
                s += access(low, nest, p, load_parts(n)[0].name, load_parts(n)[1])
            elif n.op == "ref" and n.arg not in nest.fills:
                s += _ref(low, p, n, found)
        if nest.store is not None:
            s += 2 * stride_score(low, p, nest.indices, low.strides[nest.store.buffer.name])
        if s > score or (s == score and best is not None and (width(low, p), p.trips) > (width(low, best), best.trips)):
            best, score = p, s
    return best


def _ref(low: Lowering, part: Part, node: Node, found: dict[str, int]) -> float:
    inner = found.get(node.arg, len(node.src) - 1)
    out = 0.0
    for d, i in enumerate(node.src):
        if part.axis in axes_of(i):
            near = d == inner and ix.parts(over_parts(i, low.axis_index))[0].get(part.var) == 1
            out = 1.0 if near and out == 0.0 else -1.0
    return out
