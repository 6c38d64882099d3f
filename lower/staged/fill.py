"""Fills staged tiles: threads of a group share the copies, a single worker makes them alone."""

from __future__ import annotations

from collections.abc import Sequence

from ...opts.plans import StagePlan
from ..lowering import Lowering
from . import copy, tile


def fill(low: Lowering, plans: Sequence[StagePlan]) -> None:
    """Emit the copies of the tiles that are staged at the current position."""
    if low.sched.group > 1:
        tile.fill(low, plans)
    else:
        for s in plans:
            copy.fill(low, s)
