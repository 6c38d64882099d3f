"""Random legal walks through the action space: the baseline every other strategy has to beat, and the portfolio's source of surprise."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar

from ..strategy import Measured, Strategy

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
