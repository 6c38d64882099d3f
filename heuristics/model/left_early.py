"""The share of a reduction's elements before its results are known (`EXIT`)."""

from __future__ import annotations

from math import log, prod

from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from ..machine import Core


def left_early(s: Scheduled, nest: Nest, core: Core) -> float:
    """The share that is computed: the more results share an iteration, the later the last of them is known (of values that are spread like
    waiting times, by the logarithm of how many there are)."""
    if nest.name not in s.marked("EXIT"):
        return 1.0
    results = prod(p.trips for p in s.registers(nest) if p.axis in nest.axes)
    return min(1.0, core.exited * (1.0 + log(results)))
