"""The default: several strategies take turns, those that yield more get more turns.

No single strategy is good everywhere (a beam is the best or the worst one, depending on the space; TPE and evolution are rarely either), so
each batch is dealt out by a bandit over what the arms brought lately, after OpenTuner (Ansel et al., PACT 2014).
"""

from __future__ import annotations

import functools
import math
from collections import deque
from random import Random
from typing import TYPE_CHECKING, ClassVar

from ..strategy import Measured, Strategy, seconds
from .bayesian import ModelledChoices
from .beam import Beam
from .optuna_search import Tpe
from .point_search import SPREAD, Genetic, PointSearch, at_once, first
from .points import ChoicePoints
from .walks import Evolve, RandomWalk, UniformChoices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space


class ScreenedWalk(RandomWalk):
    """Random walks, the best of three by the model."""

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = ()) -> None:
        super().__init__(space, seed=seed, start=start, screen=3)


ARMS: tuple[type[Strategy], ...] = (Beam, Tpe, Evolve, ScreenedWalk)
"""With start schedules."""
FROM_NOTHING: tuple[type[Strategy], ...] = (ModelledChoices, Genetic, Beam, Evolve, Tpe, ScreenedWalk)
PRIOR = {"beam": 0.5, "optuna:tpe": 0.5, "evolve": 0.3, "random": 0.05}
PRIOR_FROM_NOTHING = {"choices": 0.7, "genetic": 0.4, "beam": 0.2, "optuna:tpe": 0.2, "evolve": 0.1, "random": 0.02}
PRIOR_INFORMED = {"choices": 0.5, "genetic": 0.2, "beam": 0.6, "optuna:tpe": 0.2, "evolve": 0.3, "random": 0.05}
"""From nothing, where the model tells schedules apart, which is what a beam lives on."""
"""Yield assumed of an arm before it has shown any, worth three measurements."""


MODELLED = 0.6
"""Share of the places that the model of the templates' choices gets at least, from nothing and where nothing else tells
schedules apart. It is the best arm by itself there, and yield alone starves it: an arm that stays near the best yields
steadily, one that looks elsewhere does not until it finds something."""


class Portfolio(Strategy):
    """Arms share all results. An arm's yield is the mean over its last `window` results of: 1 for a new best, the closer to the best the
    nearer to 0.5 otherwise. Places go to the arm with the highest upper confidence bound.

    The first to be asked for depend on nothing that was measured, so that two searches of one kernel have them in common. With start schedules they are
    the beam's draft. Without, they are instances of templates, drawn evenly: whatever comes next learns from them, and
    walks from the empty schedule alone do worse than that."""

    name: ClassVar[str] = "portfolio"

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        start: Sequence[Schedule] = (),
        arms: Sequence[type[Strategy]] | None = None,
        window: int = 40,
        explore: float = 0.15,
    ) -> None:
        super().__init__(space, seed=seed, start=start)
        nothing = not any(self.start)
        self._points = points = ChoicePoints(space) if nothing else None
        self._first: Strategy | None = UniformChoices(space, seed=seed, points=points, spread=SPREAD) if points else None
        self._left = first(math.inf) if points else 0
        self._arms: dict[str, Strategy] = {}
        for i, arm in enumerate(arms if arms is not None else FROM_NOTHING if nothing else ARMS):
            more = {"points": points} if points is not None and issubclass(arm, PointSearch) else {}
            self._arms[arm.name] = arm(space, seed=seed + i, start=start, **more)
        self._prior = PRIOR if not nothing else PRIOR_INFORMED if self._informed else PRIOR_FROM_NOTHING
        self._least = MODELLED if nothing and not self._informed else 0.0
        self._window, self._explore = window, explore
        self._yield: dict[str, deque[float]] = {name: deque(maxlen=window) for name in self._arms}
        self._turns: dict[str, int] = dict.fromkeys(self._arms, 0)
        self._owner: dict[str, str] = {}
        self._best = math.inf
        self._told = 0

    def expect(self, trials: float) -> None:
        if self._first is not None and not self._owner:
            self._left = first(trials)
        for arm in self._arms.values():
            arm.expect(trials)

    def ask(self, n: int) -> list[Schedule]:
        begun = self._near_starts(n) if any(self.start) else self._begin(n) if self._left > 0 else []
        if begun:
            return begun
        if self._first is not None:
            n = min(n, at_once(self._told))
        out: list[Schedule] = []
        asleep: set[str] = set()
        while len(out) < n:
            shares = self._deal(n - len(out), asleep)
            if not shares:
                break
            for name, share in shares.items():
                offered = self._arms[name].ask(share)
                if len(offered) < share:
                    asleep.add(name)
                for opts in offered:
                    state = self.space.state(opts)
                    if state is None or state.hash not in self._owner:
                        out.append(opts)
                        if state is not None:
                            self._owner[state.hash] = name
        return out

    def _near_starts(self, n: int) -> list[Schedule]:
        """The beam's draft."""
        beam = self._arms.get("beam")
        out = self._owned(beam.drafts(n)) if isinstance(beam, Beam) else []
        if out:
            self._turns["beam"] += len(out)
        return out

    def _begin(self, n: int) -> list[Schedule]:
        """Points drawn evenly, in turn with the beam's ideas where the model tells schedules apart."""
        assert self._first is not None
        n = min(n, self._left)
        # one at a time: every other one
        few = (n + self._left % 2) // 2 if self._informed else 0
        ideas = self._owned(self._arms["beam"].ask(few)) if few and "beam" in self._arms else []
        out = [*ideas, *self._first.ask(n - len(ideas))]
        self._left = self._left - len(out) if out else 0
        return out

    def _owned(self, asked: list[Schedule]) -> list[Schedule]:
        """What the beam asks for."""
        for opts in asked:
            if (state := self.space.state(opts)) is not None:
                self._owner.setdefault(state.hash, "beam")
        return asked

    @functools.cached_property
    def _informed(self) -> bool:
        """Whether the model tells points apart that were drawn evenly."""
        if not self._points:
            return True
        rng = Random(f"portfolio {self.seed}")
        drawn = [p for p in (self._points.uniform(rng) for _ in range(4)) if p is not None]
        return len({s.estimate for p in drawn if (s := self._points.state(p)) is not None}) > 1

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        t = seconds(measurement)
        state = self.space.state(opts)
        owner = None if state is None else self._owner.get(state.hash)
        if owner is not None:
            closeness = 0.0 if t == math.inf else min(1.0, self._best / t)
            # a candidate at half the best's speed is worth nothing, one level with it half of a gain
            self._yield[owner].append(1.0 if t < 0.995 * self._best else max(0.0, closeness - 0.5))
        self._best = min(self._best, t)
        self._told += 1
        if self._first is not None:
            self._first.tell(opts, measurement)
        for arm in self._arms.values():
            arm.tell(opts, measurement)

    @property
    def done(self) -> bool:
        return all(a.done for a in self._arms.values())

    def close(self) -> None:
        for arm in self._arms.values():
            arm.close()

    def owner(self, opts: Schedule) -> str:
        """The arm that asked for a schedule, '' when none did."""
        state = self.space.state(opts)
        return "" if state is None else self._owner.get(state.hash, "")

    def _deal(self, places: int, asleep: set[str]) -> dict[str, int]:
        """How many of the places each arm gets."""
        awake = [n for n, a in self._arms.items() if n not in asleep and not a.done]
        shares: dict[str, int] = {}
        for _ in range(places if awake else 0):
            total = sum(self._turns.values()) + 1
            modelled = self._least > 0 and "choices" in awake and self._turns["choices"] < self._least * total
            best = "choices" if modelled else max(awake, key=lambda n: self._bound(n, total))
            self._turns[best] += 1
            shares[best] = shares.get(best, 0) + 1
        return shares

    def _bound(self, name: str, total: int) -> float:
        got = self._yield[name]
        mean = (sum(got) + 3 * self._prior.get(name, 0.3)) / (len(got) + 3)
        return mean + self._explore * math.sqrt(2 * math.log(total + 1) / (self._turns[name] + 1))
