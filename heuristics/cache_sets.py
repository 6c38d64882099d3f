"""Lines that meet the same set of a cache: rows whose pitch is a multiple of a large power of two leave most of a cache unused.

Sets repeat after `span` bytes, in the first cache by its addresses and in the second, whose pages lie anywhere, by their place in a page. So
of lines at one place of their pages a cache holds its size over `span`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class SetUse:
    """What some pieces of an array take of a cache's sets: `lines` in all, at so many different `places`."""

    lines: float
    places: float

    def crowded(self, capacity: float, span: int) -> bool:
        """Whether more lines meet a set than a cache of `capacity` bytes has ways."""
        return self.lines * span > capacity * self.places


def set_use(run: float, steps: Iterable[tuple[float, float]], line: float, span: int) -> SetUse:
    """The sets of pieces of `run` bytes that are repeated by (stride, trips)."""
    most = max(1.0, span / line)
    lines = places = 0.0
    for stride, trips in sorted(steps):
        if not lines and stride <= max(run, line):
            run += stride * (trips - 1)
            continue
        lines = lines or max(1.0, run / line)
        places = min(places or lines, most)
        lines *= trips
        places = min(most, places * min(trips, span / max(gcd(int(stride), span), int(line))))
    lines = lines or max(1.0, run / line)
    return SetUse(lines, min(places or lines, most))
