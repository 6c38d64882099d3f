"""Tiles that are staged: the loops around the place where one is filled, and what of it some loops touch."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ...ir import index as ix
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled


def loops_around(s: Scheduled, plan: StagePlan) -> list[Part]:
    """The loops around the place where a tile is filled."""
    loops = s.loops(plan.nests[0])
    names = [p.name for p in loops]
    return loops[: names.index(plan.at.name) + 1] if plan.at.kind != "grid" else [p for p in loops if p.kind == "grid"]


def bytes_inside(stage: StagePlan, inner: Collection[str]) -> float:
    """Bytes of a staged tile that the loops inside `inner` touch."""
    if stage.order == "panel":
        return float(prod(p.trips for p, _ in stage.parts if p.name in inner) * stage.buffer.dtype.size)
    size = float(stage.buffer.dtype.size)
    for d, _, extent, _ in stage.box:
        terms, _ = ix.parts(stage.index[d])
        reach = 1 + sum(
            abs(k) * (t.arg.extent - 1)
            for t, k in terms.items()
            if t.op == "axis" and t.arg.name in inner and isinstance(t.arg.extent, int)
        )
        size *= min(extent, reach)
    return size
