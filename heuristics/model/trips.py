"""How often loops run."""

from __future__ import annotations

from collections.abc import Iterable

from ...opts.axis_plan import Part


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
