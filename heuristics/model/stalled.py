"""What reads cost of vectors that were stored a moment ago, at other places: a load gets its bytes from one store that is on its way, or waits
until all of them are in the first cache."""

from __future__ import annotations

from math import prod

from ...ir.node import Node, axes_of
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Core
from .trips import trips


def stalled(s: Scheduled, nest: Nest, core: Core) -> float:
    """Cycles, over all its iterations, that a nest waits for short rows which another one has just kept for it, and which it reads shifted."""
    lane = s.lanes(nest).lane
    makers = {n.name: n for n in s.nests}
    shifted = {r.arg for r in nest.refs if r.src and lane is not None and _beside(r.src[-1], lane.axis)}
    out = 0.0
    for maker in (makers[name] for name in sorted(shifted) if name in makers and name not in s.tree.registers):
        mine, its = s.loops(nest), s.loops(maker)
        shared = next((d for d, (a, b) in enumerate(zip(mine, its, strict=False)) if a is not b), min(len(mine), len(its)))
        inside = trips(its[shared:]) * prod(p.trips for p in s.registers(maker)) / max(1, s.lanes(maker).width)
        if shared and inside <= core.on_their_way:
            out += core.stalled * trips(mine[:shared])
    return out


def _beside(i: Node, axis: Node) -> bool:
    """Whether an index goes along an axis, but not just where the axis goes."""
    return i is not axis and axis in axes_of(i)
