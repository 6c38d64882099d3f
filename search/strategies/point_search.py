"""Searches among the points of templates: what they have in common (which points are known, what is asked for first), simulated annealing,
and a genetic search."""

from __future__ import annotations

import math
from abc import abstractmethod
from random import Random
from typing import TYPE_CHECKING, ClassVar

from ..strategy import Measured, Strategy, seconds
from .nearest_instance import Fitter, nearest
from .points import ChoicePoint, ChoicePoints, choices_of, cross, step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space, State


STARTS = 4
"""Start schedules that are looked for among the templates' instances."""
DRY = 200
"""Draws in a row that brought nothing new, after which a search has nothing left to try."""


LEAST_FIRST, MOST_FIRST = 6, 12
"""Points drawn evenly at the beginning."""


def first(trials: float) -> int:
    """How many points to draw evenly in a search of about `trials` measurements: a tenth."""
    return max(LEAST_FIRST, min(MOST_FIRST, int(min(trials, 1000) / 10)))


SPREAD = 4
"""Draws for each point of the beginning."""


def at_once(told: int) -> int:
    """How many schedules to ask for in one go, without start schedules, when so many were told: a tenth, for what is
    asked for with little known is little better than drawn evenly."""
    return max(1, told // 10)


class PointSearch(Strategy):
    """A search whose schedules are instances of templates. The first are drawn evenly (see `first`): a walk or a
    model that starts from one point knows only its surroundings. Start schedules, and the instances nearest to them,
    count among these. After that `_next` says what to ask for.

    A schedule that another search found, and that is better than all before, enters as the point that makes it, or
    the nearest one."""

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), points: ChoicePoints | None = None) -> None:
        """`points`: those of other searches of this space, to share what is known of them."""
        super().__init__(space, seed=seed, start=start)
        self._rng = Random(f"{self.name} {seed}")
        self._points = points if points is not None else ChoicePoints(space)
        self._first = MOST_FIRST
        self._asked: set[str] = set()
        self._pending: dict[str, ChoicePoint] = {}
        """Points that were asked for and not told yet, by the hash of what they make."""
        self._times: dict[ChoicePoint, float] = {}
        """Seconds of every measured point, infinity where it failed."""
        self._best = math.inf
        self._dry = 0
        self._fitters: list[Fitter] | None = None
        self._near: list[ChoicePoint] | None = None

    def expect(self, trials: float) -> None:
        self._first = first(trials)

    def ask(self, n: int) -> list[Schedule]:
        if not self._points:
            return []
        if self._near is None:
            self._near = self._starts()
        out: list[Schedule] = []
        while self._near and len(out) < n:
            self._take(self._near.pop(0), out)
        while len(out) < n and len(self._asked) < self._first and not self.done:
            self._take(self._spread(), out)
        # until the first of them are told there is nothing to go by
        if len(out) < n and not self.done and len(self._asked) >= self._first and self._times:
            self._next(n, out)
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is None:
            return
        self._asked.add(state.hash)
        self._pending.pop(state.hash, None)
        point, t = self._points.of(state), seconds(measurement)
        if point is None and t < self._best and self._near is not None:
            point = self._located(opts, state)
        self._best = min(self._best, t)
        if point is not None:
            self._times[point] = t
            self._told(point, t)

    @property
    def done(self) -> bool:
        """No templates, or nothing new in many draws."""
        return not self._points or self._dry >= DRY

    @abstractmethod
    def _next(self, n: int, out: list[Schedule]) -> None:
        """Fill `out` to `n` schedules by `_take`, or with fewer."""

    def _told(self, point: ChoicePoint, t: float) -> None:
        """A point was measured."""

    def _spread(self) -> ChoicePoint | None:
        """A point drawn evenly, of `SPREAD` the one that shares the fewest values with those that were asked for."""
        return self._points.spread(self._rng, [*self._times, *self._pending.values()], SPREAD)

    def _take(self, point: ChoicePoint | None, out: list[Schedule]) -> State | None:
        """Ask for a point's schedule where it is legal and new; its state then, else None."""
        state = None if point is None else self._points.state(point)
        if state is None or state.hash in self._asked:
            self._dry += 1
            return None
        self._dry = 0
        self._asked.add(state.hash)
        if point is not None:
            self._pending[state.hash] = point
        out.append(state.opts)
        return state

    def _new(self, point: ChoicePoint) -> bool:
        return point not in self._times

    def _starts(self) -> list[ChoicePoint]:
        """The points nearest to the start schedules; what a start schedule itself takes is told anyway."""
        found: dict[ChoicePoint, None] = {}
        for opts in [s for s in self.start if s][:STARTS]:
            point = self._fit(opts)
            if point is not None:
                found.setdefault(point)
        return list(found)

    def _located(self, opts: Schedule, state: State) -> ChoicePoint | None:
        """The point that makes a schedule. Where only a near one is found, that one is queued, and None returned."""
        point = self._fit(opts)
        made = None if point is None else self._points.state(point)
        if point is None or made is None or made.hash == state.hash:
            return point
        if self._near is not None and made.hash not in self._asked:
            self._near.append(point)
        return None

    def _fit(self, opts: Schedule) -> ChoicePoint | None:
        """The legal point nearest to a schedule, None where none is near: the inverse of templates, by search."""
        if self._fitters is None:
            self._fitters = [Fitter(f.template) for f in self._points.families]
        got = nearest(self._fitters, opts)
        if got is None:
            return None
        f = next(f for f in self._points.families if f.template.name == got[0])
        point = choices_of(f, got[1])
        return point if point is not None and self._points.state(point) is not None else None

    def _ranked(self) -> list[ChoicePoint]:
        """Measured points, fastest first, without those that failed."""
        return sorted((p for p, t in self._times.items() if t < math.inf), key=lambda p: self._times[p])


HOT, COLD = 0.3, 0.005
"""Temperatures: a move to a schedule slower by this share is taken with probability 1/e."""
ANNEAL_STUCK = 12
"""Moves in a row that were not taken, after which the walk goes back to the best."""


class Anneal(PointSearch):
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
        if self._idle >= ANNEAL_STUCK:
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


POPULATION = 12


class Genetic(PointSearch):
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
