"""What matrix instructions cost in the analytic model: their operands, their rate, and panels filled in groups."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of
from ...opts.nests import Nest
from ...opts.plans import DotPlan, StagePlan
from ...opts.schedule import Scheduled
from ..machine import Dots


def dot_work(s: Scheduled, nest: Nest, dot: DotPlan, copies: Mapping[str, int], costs: Dots) -> tuple[float, float]:
    """(arithmetic instructions but for the accumulating ones, loads) of the innermost body. `copies`: of each register part."""
    words, vectors = (_times(s, nest, x, copies) for x in (dot.a, dot.b))
    buffer, indices, _ = load_parts(dot.a)
    staged = s.stages.get(buffer.name)
    each = 1.0
    if not _grouped(s, staged, indices, dot.k):
        each = costs.gathered * dot.row.k
    elif staged is None and s.plans[dot.k].masked:
        each = costs.masked
    return words * (costs.shifted if dot.shift and staged is None else costs.broadcast), words * each + vectors


def _times(s: Scheduled, nest: Nest, x: Node, copies: Mapping[str, int]) -> int:
    axes, out = axes_of(*x.src), 1
    for p in s.registers(nest):
        if p.axis in axes and p.kind != "dot":
            out *= copies[p.name]
    return out


def _grouped(s: Scheduled, staged: StagePlan | None, indices: tuple[Node, ...], k: Node) -> bool:
    """Whether neighbours along the reduce axis are neighbours where the operand is read."""
    if staged is not None and staged.order == "panel":
        return True
    part = s.plans[k].parts[-1]
    steps = [s.terms(i).get(part.var, 0) for i in indices]
    return steps[-1] == 1 and not any(steps[:-1])


def weave(s: Scheduled, plan: StagePlan, costs: Dots) -> float | None:
    """Cycles an element to fill a panel whose elements lie in groups; None for other tiles."""
    if plan.order != "panel" or not plan.parts or plan.parts[-1][0].kind != "dot":
        return None
    dot = plan.parts[-1][0]
    last = ix.parts(plan.index[-1])[0]
    if last.get(dot.var) == 1:
        return costs.grouped / dot.trips
    outside = next((p for p, _ in reversed(plan.parts) if p.register and p is not dot), None)
    if outside is not None and last.get(outside.var) == 1:
        return costs.woven
    return costs.single
