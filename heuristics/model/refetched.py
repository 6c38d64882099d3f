"""Rows whose lines meet in a set of the first cache, those that a nest stores among them."""

from __future__ import annotations

from collections.abc import Sequence

from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import MachineModel
from ..sets import SetUse
from .trips import trips


def refetched(s: Scheduled, nest: Nest, accesses: Sequence[tuple[SetUse, bool]], machine: MachineModel) -> float:
    """Cycles to fetch again what one pass through a nest's registers reads and, where it is said so, stores, if these are more lines of
    one set than the first cache has ways. (Arrays begin at the same place in a page, as large ones do.)"""
    caches = machine.caches
    lines = met = 0.0
    rows = False
    for use, stored in accesses:
        rows |= use.lines > use.places
        met += use.lines / use.places
        lines += use.lines * (caches.written if stored else 1)
    if not rows or met <= s.target.l1 // machine.core.set_span:
        return 0.0
    return lines * caches.line / caches.l2 * trips(s.loops(nest))
