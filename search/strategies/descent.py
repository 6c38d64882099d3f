"""Walks downhill that begin away from the best: how a search that is sure of one valley finds out about the others.

A space has few valleys, and a walk to the bottom of one costs a few dozen measurements, or fewer with a model that says
which neighbour to try. So a search that has found nothing better for a while spends part of its measurements on other
valleys, one after another (restarts as in Eriksson et al., "Scalable Global Optimization via Local Bayesian
Optimization", NeurIPS 2019), each compared with itself and not with the best there is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from ..choices.points import ChoicePoint, ChoicePoints

PATIENCE = 8
"""Neighbours in a row that were no better, after which a walk has arrived."""
APART = 3
"""Values in which a beginning differs at least from the best and from where earlier walks ended."""
DRAWN = 20
"""Points drawn to find a beginning."""
HELD, FRESH = 0.5, 0.25
"""How often a walk keeps a value that the best has not got, and how often it begins at a new point."""


class Descent:
    """One walk at a time, over points whose times are told by whoever measured them."""

    def __init__(self, points: ChoicePoints, rng: Random) -> None:
        self._points, self._rng = points, rng
        self._ends: list[ChoicePoint] = []
        self.here: ChoicePoint | None = None
        self.held: tuple[int, int] | None = None
        """A parameter and the value of it that the walk keeps."""
        self._seconds = math.inf
        self._asked: set[ChoicePoint] = set()
        """What is being measured for the walk."""
        self._misses = 0

    @property
    def seconds(self) -> float:
        """The time where the walk is, in seconds; infinity before it has one."""
        return self._seconds

    @property
    def waits(self) -> bool:
        """Whether its beginning is being measured: until then there is nothing to ask for."""
        return self.here is None and bool(self._asked)

    def begin(self, times: Mapping[ChoicePoint, float], best: ChoicePoint) -> ChoicePoint | None:
        """Begin a walk: the point to measure, or None where it begins at a measured one or nowhere."""
        self.here, self._seconds, self._misses, self.held = None, math.inf, 0, None
        how = self._rng.random()
        if how < HELD:
            self.held = self._other_value(best)
        elif how < HELD + FRESH:
            return self._drawn(times, best)
        far = [p for p, t in times.items() if t < math.inf and self._open(p, best)]
        if not far:
            self.held = None
            return self._drawn(times, best)
        self.here = min(far, key=lambda p: times[p])
        self._seconds = times[self.here]
        return None

    def holds(self, point: ChoicePoint) -> bool:
        """Whether a point has the value that the walk keeps."""
        return self.held is None or point.at[self.held[0]] == self.held[1]

    def _other_value(self, best: ChoicePoint) -> tuple[int, int] | None:
        """A parameter and a value that it has not got at the best point."""
        sizes = [len(v) for v in self._points.family(best).values]
        free = [p for p, n in enumerate(sizes) if n > 1]
        if not free:
            return None
        p = self._rng.choice(free)
        return p, self._rng.choice([i for i in range(sizes[p]) if i != best.at[p]])

    def _open(self, point: ChoicePoint, best: ChoicePoint) -> bool:
        """Whether a walk may begin at a measured point."""
        if self.held is not None:
            return point.template == best.template and self.holds(point) and point not in self._ends
        return all(_apart(point, e) >= APART for e in (best, *self._ends[-20:]))

    def _drawn(self, times: Mapping[ChoicePoint, float], best: ChoicePoint) -> ChoicePoint | None:
        drawn = [p for p in (self._points.uniform(self._rng) for _ in range(DRAWN)) if p is not None and p not in times]
        drawn.sort(key=lambda p: -min(APART, *(_apart(p, e) for e in (best, *self._ends[-20:]))))
        return drawn[0] if drawn else None

    def asked(self, point: ChoicePoint) -> None:
        """This is being measured for the walk."""
        self._asked.add(point)

    def told(self, point: ChoicePoint, t: float, best: bool) -> None:
        """A result, asked for by anybody; `best`: it is the best there is, which needs no walk of its own."""
        mine = point in self._asked
        self._asked.discard(point)
        better = t < self._seconds and (mine or (self.here is not None and _apart(point, self.here) == 1 and self.holds(point)))
        if better:
            self.here, self._seconds, self._misses = point, t, 0
        elif mine:
            self._misses += 1
        if (better and best) or self._misses >= PATIENCE or (mine and self.here is None and not self._asked):
            self.end()

    def end(self) -> None:
        """The walk is over."""
        if self.here is not None:
            self._ends.append(self.here)
        self.here, self._seconds, self._misses = None, math.inf, 0
        self._asked.clear()


def _apart(a: ChoicePoint, b: ChoicePoint) -> int:
    """In how many values two points differ; points of two templates are as far apart as can be."""
    return sum(x != y for x, y in zip(a.at, b.at)) if a.template == b.template else len(a.at) + len(b.at)
