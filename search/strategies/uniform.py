"""Legal instances of templates, drawn evenly: what every search among choices begins with, and its baseline."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar

from ..choices.points import ChoicePoint, ChoicePoints
from ..strategy import Measured, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space

REPEATS = 200
"""Draws that were all asked for before, after which the templates count as exhausted."""


class UniformChoices(Strategy):
    """Each schedule is an instance of a template drawn evenly, with choices drawn evenly, never the same twice."""

    name: ClassVar[str] = "uniform"

    def __init__(
        self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), points: ChoicePoints | None = None, spread: int = 1
    ) -> None:
        """`spread`: how many are drawn for each that is asked for, which is the one least like those before."""
        super().__init__(space, seed=seed, start=start)
        self._spread, self._drawn = spread, list[ChoicePoint]()
        self._rng = Random(f"uniform {seed}")
        self._points = points if points is not None else ChoicePoints(space)
        self._asked: set[str] = set()
        self._dry = 0

    def ask(self, n: int) -> list[Schedule]:
        out: list[Schedule] = []
        while len(out) < n and not self.done:
            point = self._points.apart(self._rng, self._drawn, self._spread)
            state = None if point is None else self._points.state(point)
            if state is None or state.hash in self._asked:
                self._dry += 1 if state is not None else REPEATS
                continue
            self._dry = 0
            if point is not None and self._spread > 1:
                self._drawn.append(point)
            self._asked.add(state.hash)
            out.append(state.opts)
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is not None:
            self._asked.add(state.hash)

    @property
    def done(self) -> bool:
        """Nothing new in many draws."""
        return not self._points or self._dry >= REPEATS
