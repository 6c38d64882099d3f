"""Where operands that TMA copies lie in shared memory, and what says that they are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.node import axis
from ..opts.analysis.boxes import BoxPlan
from ..program.hopper import MBar

DONE = axis("iterations.done", 1)
"""The index that stands for how many iterations a group has done in earlier work items."""


@dataclass(frozen=True, slots=True)
class BoxRoom:
    """The operands as boxes, by input; the place of each one's map in the Program; and the barriers of slots that are full and empty.
    `groups`: of a cluster; `shared`: operands of which each of them brings a part for all."""

    boxes: Mapping[str, BoxPlan]
    maps: Mapping[str, int]
    full: MBar
    empty: MBar
    groups: int = 1
    shared: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """Slots."""
        return self.full.count
