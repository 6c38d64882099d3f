"""Every strategy on every space, several times: the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ...ir.errors import UsageError
from .. import strategy as strategies
from .methodology import SHARE, Yardstick, interval
from .recording import Recording
from .simulation import simulate

MOST = 4
"""Evaluations of a run at most, as a multiple of what the baseline's mean cost allows: failures may be cheap."""


@dataclass(frozen=True)
class StrategyScores:
    """A strategy's `runs` by space: a score for each repeat. `think_s`: what the strategy itself took an evaluation, in seconds, no part of
    the score."""

    strategy: str
    runs: Mapping[str, tuple[float, ...]]
    think_s: float

    @property
    def interval(self) -> tuple[float, float, float]:
        """(mean over spaces, low, high): a 95 % interval over repeats."""
        return interval(list(self.runs.values()))

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        mean, low, high = self.interval
        spaces = {n: dict(zip(("score", "low", "high"), map(_short, interval([r])))) for n, r in self.runs.items()}
        return {
            "strategy": self.strategy,
            "score": _short(mean),
            "low": _short(low),
            "high": _short(high),
            "ms_an_evaluation": round(1e3 * self.think_s, 2),
            "spaces": spaces,
        }


def available() -> list[str]:
    """The strategies whose packages are installed, but for `exhaustive`, whose order is no search."""
    out = []
    for name in strategies.names():
        try:
            strategies.check(name)
        except UsageError:
            continue
        if name != "exhaustive":
            out.append(name)
    return out


def run_once(yardstick: Yardstick, strategy: str, seed: int) -> tuple[float, float]:
    """(score, seconds that the strategy took an evaluation) of one search from nothing."""
    trials, batch = MOST * yardstick.evaluations, strategies.batch(yardstick.evaluations)
    r = simulate(yardstick.recording, strategy, trials, seed, "none", batch, limit_s=yardstick.budget)
    return yardstick.score(r.curve, r.clock), r.thought_s / max(1, len(r.curve))


def score_all(
    spaces: Mapping[str, Recording],
    names: Sequence[str],
    repeats: int,
    share: float = SHARE,
    told: Callable[[str, str], None] = lambda strategy, space: None,
) -> list[StrategyScores]:
    """Score `names` on `spaces` with seeds 0 to `repeats` - 1, best first; `told` hears what is next. `share`: how far
    random search comes within the budget. Raises UsageError for an unknown strategy and for a space that cannot be scored."""
    names = [strategies.check(n) for n in names]
    sticks = {}
    for space, recording in spaces.items():
        sticks[space] = Yardstick(recording, share)
        try:
            sticks[space].budget  # noqa: B018  (says now what is wrong)
        except UsageError as e:
            raise UsageError(f"{space}: {e}") from None
    out = []
    for name in names:
        runs: dict[str, tuple[float, ...]] = {}
        spent: list[float] = []
        for space, stick in sticks.items():
            told(name, space)
            got = [run_once(stick, name, seed) for seed in range(repeats)]
            runs[space] = tuple(score for score, _ in got)
            spent += [s for _, s in got]
        out.append(StrategyScores(name, runs, fmean(spent)))
    return sorted(out, key=lambda s: -s.interval[0])


def _short(x: float) -> float:
    return round(x, 4)
