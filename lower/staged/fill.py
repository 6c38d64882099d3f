"""Fills a staged tile: threads of a group share the copy, a single worker makes it alone."""

from __future__ import annotations

from ...opts.plans import StagePlan
from ..lowering import Lowering
from . import copy, tile


def fill(low: Lowering, s: StagePlan) -> None:
    """Emit the copy of `s` at the current position."""
    (tile.fill if low.sched.group > 1 else copy.fill)(low, s)
