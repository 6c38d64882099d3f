"""The phase that packs a constant input: it runs before the first call with these contents, and what it makes is kept in the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.node import const
from ...opts.plans import StagePlan
from ...program.program import Phase
from ..scalars import Scalars
from ..staged import copy
from ..storage import Arena

if TYPE_CHECKING:
    from ..lowering import Lowering


def pack(low: Lowering, s: StagePlan, room: Arena) -> Phase:
    """Fill the panel `s` in `room`, the work items going over its outermost loop. `low` knows the panel afterwards, and makes nothing else."""
    low.arena = room
    nest = s.nests[0]
    dot = low.sched.dots.get(nest.name)
    # sums of the panel's columns are made by one item each
    summed = set(nest.reduce_axes) if dot is not None and dot.shift else set()
    outer = next((p for p, _ in s.parts if p.loop and p.axis not in summed), None)
    with low.b.phase(const(1 if outer is None else outer.trips), low.symbols, 1) as phase:
        low.scalars = Scalars(low.b, dict(zip(low.symbols, phase.vars)))
        if outer is not None:
            low.scalars.bound[outer.var] = phase.item
            low.opened[outer.name] = outer
        copy.fill(low, s)
    return phase
