"""The seam between a search and everything else: ask for schedules, tell what became of them.

A strategy never measures. It may be asked again before earlier answers were told (the build of the next batch
overlaps the timing of the present one) and it is told of schedules that it did not ask for (start schedules, and those of other
strategies in a portfolio), which it may learn from."""

from __future__ import annotations

import math
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..files.plugins import entry_points, imported, is_path
from ..ir.errors import TilewrightError, UsageError
from ..opts.opt import Opt

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
    "uniform": "strategies.walks:UniformChoices",
    "exhaustive": "strategies.walks:Exhaustive",
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


GROUP = "tilewright.strategies"
"""Entry points of packages that bring strategies."""


def names() -> tuple[str, ...]:
    """Every strategy's name, the default first. Imports none of them."""
    return tuple(dict.fromkeys([*_BUILTIN, *_registered, *entry_points(GROUP)]))


def register(name: str, factory: Callable[..., Strategy]) -> None:
    """Make `factory(space, seed=, start=)` available under a name; an existing name is replaced."""
    _registered[name] = factory


def check(name: str | None) -> str:
    """The full name (None: the default's; `optuna`: `optuna:tpe`; an import path, such as `my.py:Neighbours`) when there is such a strategy
    and what it needs is installed. Raises UsageError, which suggests the nearest name."""
    name = DEFAULT if name is None else name
    name = _ALIASES.get(name, name)
    if name.startswith("optuna:"):
        from .strategies.optuna_samplers import kind

        kind(name.removeprefix("optuna:"))
    if name in _BUILTIN or name in _registered:
        return name
    if name in entry_points(GROUP) or is_path(name):
        _imported(name)
        return name
    if name not in names():
        from difflib import get_close_matches

        near = get_close_matches(name, names(), 1) or get_close_matches(f"optuna:{name}", names(), 1, 0.9)
        raise UsageError(
            f"unknown strategy {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} Use one of {', '.join(names())}, module:Class or file.py:Class."
        )
    return name


def create(name: str | None, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), **more: Any) -> Strategy:
    """The strategy of that name (None: the default); `more` goes to it. Raises UsageError as `check` does."""
    name = check(name)
    if name in _BUILTIN and name not in _registered:
        module, attribute = _BUILTIN[name].split(":")
        factory: Callable[..., Strategy] = getattr(import_module(f".{module}", __package__), attribute)
        return factory(space, seed=seed, start=start, **more)
    try:
        made = (_registered.get(name) or _imported(name))(space, seed=seed, start=start, **more)
    except TilewrightError:
        raise
    except Exception as e:  # somebody else's code
        raise UsageError(f"strategy {name!r} cannot be made: {type(e).__name__}: {e}; it takes (space, seed=, start=)") from e
    if not isinstance(made, Strategy):
        raise UsageError(f"strategy {name!r}: it made a {type(made).__name__}, which is no tilewright.search.Strategy")
    return GuardedStrategy(made, space, name)


def _imported(name: str) -> Callable[..., Any]:
    """What makes a strategy of an entry point or an import path. Raises UsageError."""
    path = entry_points(GROUP).get(name, name)
    try:
        factory: Callable[..., Any] = imported(path)
    except Exception as e:  # somebody else's code
        raise UsageError(f"strategy {name!r} is declared as {path} but cannot be imported: {type(e).__name__}: {e}") from e
    return factory


class GuardedStrategy(Strategy):
    """Somebody else's strategy. If it raises, or asks for what is no schedule, it is not asked again: a warning says why and where, and the
    search ends with what it has."""

    def __init__(self, inner: Strategy, space: Space, called: str) -> None:
        super().__init__(space)
        self.inner, self._called, self._failed = inner, called, False
        self.name = getattr(inner, "name", called)  # type: ignore[misc]  # a class's, and this class has one for each

    def ask(self, n: int) -> list[Schedule]:
        asked: list[Schedule] = self._made(lambda: list(self.inner.ask(n)), [])
        if all(isinstance(opts, tuple) and all(isinstance(o, Opt) for o in opts) for opts in asked):
            return asked
        self._fails("it asked for what is no schedule, a tuple of tilewright.Opt", None)
        return []

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        self._made(self.inner.tell, None, opts, measurement)

    @property
    def done(self) -> bool:
        return self._failed or bool(self._made(lambda: self.inner.done, True))

    def expect(self, trials: float) -> None:
        self._made(self.inner.expect, None, trials)

    def close(self) -> None:
        self._made(self.inner.close, None)

    def _made(self, call: Callable[..., Any], otherwise: Any, *args: Any) -> Any:
        if self._failed and call != self.inner.close:
            return otherwise
        try:
            return call(*args)
        except TilewrightError:
            raise
        except (Exception, SystemExit) as e:
            self._fails(f"{type(e).__name__}: {e}", e)
            return otherwise

    def _fails(self, why: str, error: BaseException | None) -> None:
        last = None if error is None else traceback.extract_tb(error.__traceback__)[-1]
        place = "" if last is None else f" at {last.filename}:{last.lineno}"
        if not self._failed:
            warnings.warn(f"strategy {self._called!r} failed, and the search ends with what it has: {why}{place}", stacklevel=2)
        self._failed = True
