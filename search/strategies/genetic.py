"""A genetic search among the choices of templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..choices.moves import cross, step
from .over_choices import OverChoices

if TYPE_CHECKING:
    from ..choices.points import ChoicePoint
    from ..space import Schedule

POPULATION = 12


class Genetic(OverChoices):
    """Steady state: the fastest `POPULATION` points are the parents. A child takes each value from one of two winners of
    tournaments, and is moved on a step half of the time; one that exists already always is."""

    name: ClassVar[str] = "genetic"

    def _next(self, n: int, out: list[Schedule]) -> None:
        parents = self._ranked()[:POPULATION]
        for _ in range(6 * n):
            if len(out) == n:
                return
            if len(parents) < 2:
                self._take(self._points.uniform(self._rng), out)
                continue
            child = cross(self._points, self._parent(parents), self._parent(parents), self._rng)
            if not self._new(child) or self._points.illegal(child) or self._rng.random() < 0.5:
                moved = step(self._points, child if not self._points.illegal(child) else self._parent(parents), self._rng, self._new)
                self._take(moved, out)
            else:
                self._take(child, out)

    def _parent(self, parents: list[ChoicePoint]) -> ChoicePoint:
        """The fastest of three drawn at random; parents are in order."""
        return parents[min(self._rng.randrange(len(parents)) for _ in range(3))]
