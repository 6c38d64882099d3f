"""Simulated annealing among the choices of templates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ..choices.moves import step
from ..choices.points import ChoicePoint
from .over_choices import OverChoices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..choices.points import ChoicePoints
    from ..space import Schedule, Space

HOT, COLD = 0.3, 0.005
"""Temperatures: a move to a schedule slower by this share is taken with probability 1/e."""
STUCK = 12
"""Moves in a row that were not taken, after which the walk goes back to the best."""


class Anneal(OverChoices):
    """Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing" (Science 1983), from the best of the first
    points, on relative times, cooling evenly in the logarithm over the search's expected length."""

    name: ClassVar[str] = "anneal"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), points: ChoicePoints | None = None) -> None:
        super().__init__(space, seed=seed, start=start, points=points)
        self._trials = 150.0
        self._here: ChoicePoint | None = None
        self._idle = 0

    def expect(self, trials: float) -> None:
        super().expect(trials)
        self._trials = max(1.0, min(trials, 1000.0))

    def _told(self, point: ChoicePoint, t: float) -> None:
        here = math.inf if self._here is None else self._times[self._here]
        worse = t / here - 1 if here < math.inf else -1.0
        if t < math.inf and (worse <= 0 or (self._walking and self._rng.random() < math.exp(-worse / self._temperature))):
            self._here, self._idle = point, 0
            return
        self._idle += 1
        if self._idle >= STUCK:
            self._here, self._idle = next(iter(self._ranked()), None), 0

    def _next(self, n: int, out: list[Schedule]) -> None:
        for _ in range(4 * n):
            if len(out) == n:
                return
            here = self._here if self._here is not None else self._points.uniform(self._rng)
            self._take(None if here is None else step(self._points, here, self._rng, self._new), out)

    @property
    def _walking(self) -> bool:
        """Whether the first points are all told; until then the best of them is kept."""
        return len(self._times) > self._first

    @property
    def _temperature(self) -> float:
        return HOT * math.exp(math.log(COLD / HOT) * min(1.0, len(self._times) / self._trials))
