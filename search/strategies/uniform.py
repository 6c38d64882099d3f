"""Instances of templates drawn evenly: what every search among choices begins with, and its baseline. And every schedule, nearest to the empty
one first: for small spaces, for recording a space, and to know the true optimum."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from ..strategy import Measured, Strategy
from .points import ChoicePoint, ChoicePoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space, TemplateLike


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
            point = self._points.spread(self._rng, self._drawn, self._spread)
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


class Exhaustive(Strategy):
    """All template instances, then the action space breadth first to `depth` actions, each structural hash once."""

    name: ClassVar[str] = "exhaustive"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), depth: int = 12) -> None:
        super().__init__(space, seed=seed, start=start)
        self._depth = depth
        self._seen: set[str] = set()
        self._walk = self._all()
        self._done = False

    def ask(self, n: int) -> list[Schedule]:
        out: list[Schedule] = []
        for opts in self._walk:
            out.append(opts)
            if len(out) == n:
                return out
        self._done = True
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        """Nothing to learn: the order is fixed."""

    @property
    def done(self) -> bool:
        return self._done

    def _all(self) -> Iterator[Schedule]:
        queue: deque[tuple[Schedule, int]] = deque()
        for opts in ((), *self.start):
            if self._new(opts):
                yield opts
            queue.append((opts, 0))
        for t in self.space.templates():
            names, lattice = list(t.params), getattr(t, "lattice", None)
            every = product(*(t.params[k] for k in names)) if lattice is None else _of(t, lattice)
            for values in every:
                made = self.space.instance(t, dict(zip(names, values)))
                if made is not None and self._new(made):
                    yield made
        expanded: set[str] = set()
        while queue:
            opts, depth = queue.popleft()
            state = self.space.state(opts)
            if state is None or depth >= self._depth or state.hash in expanded:
                continue
            expanded.add(state.hash)
            for nxt in self.space.successors(state):
                if self._new(nxt.opts):
                    yield nxt.opts
                queue.append((nxt.opts, depth + 1))

    def _new(self, opts: Schedule) -> bool:
        state = self.space.state(opts)
        if state is None or state.hash in self._seen:
            return False
        self._seen.add(state.hash)
        return True


def _of(template: TemplateLike, lattice: Iterable[tuple[int, ...]]) -> Iterator[tuple[Any, ...]]:
    """The choices of every point of a lattice, those that are refused anyway left out."""
    values = list(template.params.values())
    return (tuple(v[i] for v, i in zip(values, at, strict=True)) for at in lattice)
