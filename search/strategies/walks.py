"""Random walks through the action space, and evolution over option lists.

Walks are the baseline every other strategy has to beat, and the portfolio's source of surprise. Evolution mutates and crosses option lists,
re-applies them for legality, and lets the model screen them."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, ClassVar

from ..space import mutate
from ..strategy import Measured, Strategy, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space, State


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
