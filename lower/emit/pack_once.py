"""The phase that packs a constant input: it runs before the first call with these contents, and what it makes is kept in the workspace."""

from __future__ import annotations

from dataclasses import replace

from ...ir.node import const
from ...opts.plans import StagePlan
from ...program.program import Phase
from ..lowering import Lowering
from ..staged import copy
from ..storage import Arena


def pack(low: Lowering, s: StagePlan, room: Arena) -> Phase:
    """Fill the panel `s` in `room`, the work items going over its outermost loop. `low` knows the panel afterwards,
    and makes nothing else."""
    low.storage.scratch = room
    nest = s.nests[0]
    dot = low.sched.dots.get(nest.name)
    # sums of the panel's columns are made by one item each
    summed = set(nest.reduce_axes) if dot is not None and dot.shift else set()
    outer = next((p for p, _ in s.parts if p.loop and p.axis not in summed), None)
    with low.phase(const(1 if outer is None else outer.trips)) as phase:
        if outer is not None:
            low.scalars.bound[outer.var] = phase.item
        with low.within(opened={} if outer is None else {outer.name: outer}):
            copy.fill(low, s)
    low.scope = replace(low.scope, tiles={s.buffer.name: (s, low.storage.panels[s.buffer.name])})
    return phase
