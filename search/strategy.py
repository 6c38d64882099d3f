"""The seam between a search and everything else: ask for schedules, tell what became of them.

A strategy never measures. It may be asked again before earlier answers were told (the build of the next batch
overlaps the timing of the present one) and it is told of schedules that it did not ask for (start schedules, and those of other
strategies in a portfolio), which it may learn from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..ir.errors import UsageError

if TYPE_CHECKING:
    from .space import Schedule, Space


class Measured(Protocol):
    """What a strategy reads of a measurement: the outcome's name and the best time in seconds (None unless it is ok or slow)."""

    @property
    def outcome(self) -> str: ...

    @property
    def t_min(self) -> float | None: ...


def seconds(m: Measured) -> float:
    """The time of a right result (that of a slow one is rough, but tells a strategy more than a failure would), or the score
    that stands for it (see `objective`); infinity for every other outcome."""
    if m.outcome not in ("ok", "slow") or m.t_min is None:
        return math.inf
    score: float | None = getattr(m, "score", None)  # a recorded measurement has none
    return m.t_min if score is None else score


def batch(trials: float, most: int = 12) -> int:
    """How many schedules to ask for in one go in a search of `trials` measurements: a strategy learns from nothing
    that is still under way, so a short search asks often."""
    return max(1, int(min(most, trials / 50)))


BUSY = 4
"""Schedules that are under way at least, where builders work beside what is measured."""


def asker(strategy: Strategy | None, opts: Schedule) -> str:
    """The name of the strategy that asked for a schedule: of a portfolio, the one in it; '' of none."""
    owner = getattr(strategy, "owner", None)
    name = owner(opts) if owner is not None else ""
    return name or (strategy.name if strategy is not None else "")


def ask(strategy: Strategy, most: int, least: int) -> list[Schedule]:
    """Up to `most` schedules. A strategy that asks for little while it knows little is asked again until `least` are
    there, so that no builder waits for it."""
    out = strategy.ask(most)
    while out and len(out) < min(most, least) and (more := strategy.ask(min(most, least) - len(out))):
        out = [*out, *more]
    return out


class Strategy(ABC):
    """One way of choosing what to measure next. The same seed and the same tells give the same asks."""

    name: ClassVar[str]

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = ()) -> None:
        """`start`: schedules measured before the first ask (start schedules, stored winners); it may be empty."""
        self.space = space
        self.seed = seed
        self.start = [tuple(s) for s in start]

    @abstractmethod
    def ask(self, n: int) -> list[Schedule]:
        """Up to `n` schedules to measure; fewer, or none, when it has no better idea at present."""

    @abstractmethod
    def tell(self, opts: Schedule, measurement: Measured) -> None:
        """The result of a schedule, asked for by anyone, exactly once each."""

    @property
    def done(self) -> bool:
        """True when it will never ask again."""
        return False

    def expect(self, trials: float) -> None:  # noqa: B027  (most do not plan)
        """About how many measurements the whole search will make, told before the first ask and whenever that changes."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """The search is over: write what is unwritten, let go of files."""


_BUILTIN = {
    "portfolio": "strategies.portfolio:Portfolio",
    "beam": "strategies.beam:Beam",
    "random": "strategies.walks:RandomWalk",
    "evolve": "strategies.walks:Evolve",
    "choices": "strategies.bayesian:ModelledChoices",
    "anneal": "strategies.point_search:Anneal",
    "genetic": "strategies.point_search:Genetic",
    "uniform": "strategies.uniform:UniformChoices",
    "exhaustive": "strategies.uniform:Exhaustive",
    "optuna:tpe": "strategies.optuna_search:Tpe",
    "optuna:gp": "strategies.optuna_search:Gp",
    "optuna:cmaes": "strategies.optuna_search:CmaEs",
    "optuna:nsga2": "strategies.optuna_search:Nsga2",
    "optuna:qmc": "strategies.optuna_search:Qmc",
    "optuna:random": "strategies.optuna_search:Uniform",
}
_ALIASES = {"optuna": "optuna:tpe"}
DEFAULT = "portfolio"
_registered: dict[str, Callable[..., Strategy]] = {}


def names() -> tuple[str, ...]:
    """Every strategy's name, the default first. Imports none of them."""
    return (*_BUILTIN, *_registered)


def register(name: str, factory: Callable[..., Strategy]) -> None:
    """Make `factory(space, seed=, start=)` available under a name; an existing name is replaced."""
    _registered[name] = factory


def check(name: str | None) -> str:
    """The full name (None: the default's; `optuna`: `optuna:tpe`) when there is such a strategy and what it needs is
    installed. Raises UsageError, which suggests the nearest name."""
    name = DEFAULT if name is None else name
    name = _ALIASES.get(name, name)
    if name.startswith("optuna:"):
        from .strategies.optuna_samplers import kind

        kind(name.removeprefix("optuna:"))
    if name not in names():
        from difflib import get_close_matches

        near = get_close_matches(name, names(), 1) or get_close_matches(f"optuna:{name}", names(), 1, 0.9)
        raise UsageError(f"unknown strategy {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} Use one of {', '.join(names())}.")
    return name


def create(name: str | None, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), **more: Any) -> Strategy:
    """The strategy of that name (None: the default); `more` goes to it. Raises UsageError as `check` does."""
    name = check(name)
    if name in _registered:
        return _registered[name](space, seed=seed, start=start, **more)
    module, attribute = _BUILTIN[name].split(":")
    factory: Callable[..., Strategy] = getattr(import_module(f".{module}", __package__), attribute)
    return factory(space, seed=seed, start=start, **more)
