"""Evaluates what is copied into a staged panel, with lanes along the panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ..expr import NestEval
from ..lowering import Lowering


class CopyEval(NestEval):
    """A nest whose lanes are given. Its load carries its bounds itself, and is not clamped."""

    def __init__(self, low: Lowering, n: Nest, vectors: Vectors) -> None:
        super().__init__(low, n, vectors=vectors)
        self.lane_masked, self.scalar_masked = None, []
        self._index = low.ctx.axis_index


def along_panel(low: Lowering, regs: Sequence[Part], strides: Mapping[str, int]) -> Vectors:
    """Lanes along the innermost register part of a panel, so that it is written consecutively; `strides`: elements of the panel
    that a step of each part moves by."""
    found = Vectors(regs)
    for p in regs:
        lanes = min(low.ctx.width, p.trips & -p.trips)
        if strides[p.name] == 1 and lanes > 1:
            found = Vectors(regs, p, lanes)
    return found
