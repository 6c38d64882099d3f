"""Rows whose lines meet in a set of the first cache, those that a nest stores among them."""

from __future__ import annotations

from collections.abc import Sequence

from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import MachineModel
from ..sets import set_use
from .trips import trips

Steps = Sequence[tuple[float, float]]


def refetched(s: Scheduled, nest: Nest, accesses: Sequence[tuple[Steps, bool]], machine: MachineModel) -> float:
    """Cycles to fetch again what one pass through a nest's registers reads and, where it is said so, stores, if these are more lines of
    one set than the first cache has ways. `accesses`: (stride, trips) in bytes, of each dimension. (Arrays begin at the same place in a
    page, as large ones do.)"""
    core, caches = machine.core, machine.caches
    lines = met = 0.0
    rows = False
    for steps, stored in accesses:
        use = set_use(0.0, steps, caches.line, core.set_span)
        rows |= use.lines > use.places
        met += use.lines / use.places
        lines += use.lines * (caches.written if stored else 1)
    if not rows or met <= s.target.l1 // core.set_span:
        return 0.0
    return lines * caches.line / caches.l2 * trips(s.loops(nest))
