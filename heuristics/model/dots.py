"""What matrix instructions cost in the analytic model: their operands, their rate, and panels filled in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of
from ...opts.nests import Nest
from ...opts.plans import DotPlan, StagePlan

if TYPE_CHECKING:
    from ...opts.schedule import Scheduled


def dot_work(s: Scheduled, nest: Nest, dot: DotPlan, copies: Mapping[str, int]) -> tuple[float, float]:
    """(arithmetic instructions but for the accumulating ones, loads) of the innermost body. `copies`: of each register part."""
    words, vectors = (_times(s, nest, x, copies) for x in (dot.a, dot.b))
    buffer, indices, _ = load_parts(dot.a)
    staged = s.stages.get(buffer.name)
    each = 1.0
    if not _grouped(s, staged, indices, dot.k):
        each = 2.0 * dot.row.k  # elements are put together one by one
    elif staged is None and s.plans[dot.k].masked:
        each = 2.5
    # measured: a broadcast takes from the products as much as 0.4 of them
    return words * (2.4 if dot.shift and staged is None else 0.4), words * each + vectors


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
    steps = [ix.parts(s.at_parts(i))[0].get(part.var, 0) for i in indices]
    return steps[-1] == 1 and not any(steps[:-1])


def weave(s: Scheduled, plan: StagePlan) -> float | None:
    """Cycles an element to fill a panel whose elements lie in groups; None for other tiles."""
    if plan.order != "panel" or not plan.parts or plan.parts[-1][0].kind != "dot":
        return None
    dot = plan.parts[-1][0]
    last = ix.parts(plan.index[-1])[0]
    if last.get(dot.var) == 1:
        return 2.0 / dot.trips  # a group is loaded and stored at once
    outside = next((p for p, _ in reversed(plan.parts) if p.register and p is not dot), None)
    if outside is not None and last.get(outside.var) == 1:
        return 0.2  # rows are loaded as vectors and woven
    return 1.6
