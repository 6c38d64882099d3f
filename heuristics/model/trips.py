"""How often loops run, and what steps cost that data may leave out."""

from __future__ import annotations

from collections.abc import Iterable

from ...opts.analysis.ragged import left_out
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Core


def trips(parts: Iterable[Part]) -> float:
    """Iterations of nested loops, 1 at least; a block loop that stops at the axis's end counts with its mean length."""
    out = 1.0
    for p in parts:
        extent = p.axis.arg.extent
        if p.clip and isinstance(p.size, int) and isinstance(extent, int) and extent:
            blocks = extent / (p.stride * p.size)
            out *= p.size * blocks / max(1.0, -(-extent // (p.stride * p.size)))
        else:
            out *= p.trips
    return max(out, 1.0)


def unforeseen(s: Scheduled, nest: Nest, core: Core) -> float:
    """Cycles a step that are lost by guessing wrongly whether data leaves it out."""
    return core.mispredicted * core.unforeseen if left_out(s, nest) else 0.0
