"""Random walks through the action space, and evolution over option lists.

Walks are the baseline every other strategy has to beat, and the portfolio's source of surprise. Evolution mutates and crosses option lists,
re-applies them for legality, and lets the model screen them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from ..space import mutate
from ..strategy import Measured, Strategy, seconds
from .points import ChoicePoint, ChoicePoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space, State, TemplateLike


class RandomWalk(Strategy):
    """Each schedule is a walk of 1 to `longest` legal actions, from the empty schedule or, half of the time, from a start schedule.

    With `screen` over 1 that many walks compete for each place and the model decides: no longer the plain baseline,
    but a better use of time.

    A step picks the kind of option first and one of its actions second, so that an option with many amounts is not picked more often."""

    name: ClassVar[str] = "random"

    def __init__(
        self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), longest: int = 8, tries: int = 50, screen: int = 1
    ) -> None:
        super().__init__(space, seed=seed, start=start)
        self._rng = Random(f"walk {seed}")
        self._longest, self._tries, self._screen = longest, tries, screen
        self._asked: set[str] = set()
        self._dry = 0

    def ask(self, n: int) -> list[Schedule]:
        found: dict[str, State] = {}
        while len(found) < n * self._screen and not self.done:
            state = self.walk()
            if state is None or state.hash in self._asked or state.hash in found:
                self._dry += 1
                if self._dry % self._tries == 0:
                    break
                continue
            self._dry = 0
            found[state.hash] = state
        chosen = list(found.values()) if self._screen == 1 else sorted(found.values(), key=lambda s: s.estimate)[:n]
        self._asked.update(s.hash for s in chosen)
        return [s.opts for s in chosen]

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is not None:
            self._asked.add(state.hash)

    @property
    def done(self) -> bool:
        """Nothing new in ten rounds of tries: the space is as good as exhausted."""
        return self._dry >= 10 * self._tries

    def walk(self) -> State | None:
        """The end of one walk."""
        rng = self._rng
        origin = rng.choice(self.start) if self.start and rng.random() < 0.5 else ()
        state = self.space.state(origin)
        for _ in range(rng.randint(1, self._longest)):
            if state is None:
                return None
            kinds: dict[tuple[str, str], list[Schedule]] = {}
            for a in self.space.actions(state):
                kinds.setdefault((a[0].op, str(a[0].on)), []).append(a)
            if not kinds:
                return state
            nxt = self.space.state(state.opts + rng.choice(kinds[rng.choice(list(kinds))]))
            state = nxt if nxt is not None else state
        return state


class Evolve(Strategy):
    """Steady state: every told schedule joins, the best `population` survive. A child is a mutation or a crossover of
    tournament winners; of `screen` children for every place in a batch, those with the best estimates are asked for,
    after MetaSchedule (Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022), whose
    validator re-applies traces in the same way. A tenth are random walks."""

    name: ClassVar[str] = "evolve"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), population: int = 24, screen: int = 2) -> None:
        super().__init__(space, seed=seed, start=start)
        self._rng = Random(f"evolve {seed}")
        self._fresh = RandomWalk(space, seed=seed, start=start)
        self._size, self._screen = population, screen
        self._population: list[tuple[float, int, State]] = []
        self._asked: set[str] = set()
        self._told = 0
        self._dry = 0

    def ask(self, n: int) -> list[Schedule]:
        found: dict[str, State] = {}
        for _ in range(n * self._screen * 2):
            if len(found) >= n * self._screen:
                break
            child = self._child()
            if child is not None and child.hash not in self._asked and child.hash not in found:
                found[child.hash] = child
        # the model chooses, with noise, so that what it misjudges still gets a turn
        chosen = sorted(found.values(), key=lambda s: s.estimate * math.exp(self._rng.gauss(0.0, 0.3)))[:n]
        self._asked.update(s.hash for s in chosen)
        self._dry = 0 if chosen else self._dry + 1
        return [s.opts for s in chosen]

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is None:
            return
        self._asked.add(state.hash)
        self._told += 1
        t = seconds(measurement)
        if t < math.inf:
            self._population.append((t, self._told, state))
            self._population.sort(key=lambda p: p[:2])
            del self._population[self._size :]

    @property
    def done(self) -> bool:
        """Nothing new came of ten batches."""
        return self._dry >= 10

    def _child(self) -> State | None:
        rng = self._rng
        if len(self._population) < 2 or rng.random() < 0.1:
            return self._fresh.walk()
        a = self._parent()
        if rng.random() < 0.6:
            return mutate(self.space, a, rng)
        child = crossover(self.space, a, self._parent(), rng)
        return mutate(self.space, child, rng) if child is not None and rng.random() < 0.3 else child

    def _parent(self) -> State:
        """The faster of three drawn at random."""
        return min((self._rng.choice(self._population) for _ in range(3)), key=lambda p: p[:2])[2]


def crossover(space: Space, a: State, b: State, rng: Random) -> State | None:
    """A prefix of one list and the rest of the other, without what the prefix already does to the same axis or tensor; illegal options are
    dropped one by one."""
    head = a.opts[: rng.randint(0, len(a.opts))]
    has = {(o.op, o.on) for o in head}
    tail = tuple(o for o in b.opts[rng.randint(0, len(b.opts)) :] if (o.op, o.on) not in has)
    return space.legalise(head + tail)


# uniform ----------------------------------------------------------------------------------------------------
# Instances of templates drawn evenly: what every search among choices begins with, and its baseline. And every schedule, nearest to the empty
# one first: for small spaces, for recording a space, and to know the true optimum.


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
