"""Every strategy on every space, several times: the scores."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from statistics import fmean, median
from typing import Any

from ...ir.errors import UsageError
from .. import strategy as strategies
from ..strategy import seconds
from .recording import Recording
from .simulation import simulate

# methodology ------------------------------------------------------------------------------------------------
# The score of a search on a recorded space, after Willemsen, Schoonhoven, Filipovič, Tørring, van Nieuwpoort and van
# Werkhoven, "A Methodology for Comparing Optimization Algorithms for Auto-Tuning" (Future Generation Computer Systems,
# 2024).
#
# The baseline is calculated: random search without repetition has, after M draws of N configurations, the one of rank
# (N + 1) / (M + 1) from the best. The paper takes the time at that rank; here it is the expectation of the best time, so
# that draws at random score 0 in the mean also where a space is small or its times are far apart. The budget is the time that it needs to cover a share (95 %) of the way from the median
# to the optimum. At equidistant times within it, a search's best lies somewhere between the baseline (0) and the
# optimum (1), or below; the score is the mean.
#
# Failures: the baseline meets them as often as they are, and pays for them. As long as a search has found nothing valid
# it stands where the baseline begins, at the median.


SHARE = 0.95
"""Share of the way from the median to the optimum that the baseline goes within the budget."""
SAMPLES = 200
"""Times at which a search is looked at."""


@dataclass(frozen=True)
class Yardstick:
    """What a recorded space is measured by. Raises UsageError where the valid times are not worth a search."""

    recording: Recording
    share: float = SHARE
    _expected: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def times(self) -> list[float]:
        """Valid times in seconds, fastest first."""
        found = sorted(t for e in self.recording.entries if (t := seconds(e)) < math.inf)
        if len(found) < 2 or found[0] == found[-1]:
            raise UsageError("a space needs at least two valid configurations with different times to score a search on")
        return found

    @property
    def optimum(self) -> float:
        """Seconds."""
        return self.times[0]

    @cached_property
    def middle(self) -> float:
        """The median of the valid times, in seconds."""
        return median(self.times)

    @cached_property
    def cost(self) -> float:
        """Mean seconds that an evaluation costs, a failed one included; one where no cost was recorded."""
        return fmean(e.cost_s for e in self.recording.entries) or 1.0

    @cached_property
    def valid(self) -> float:
        """Share of configurations that are valid."""
        return len(self.times) / len(self.recording.entries)

    @cached_property
    def evaluations(self) -> int:
        """What random search needs to cover `share` of the way from the median to the optimum."""
        target = self.optimum + (self.middle - self.optimum) * (1 - self.share)
        good = bisect_right(self.times, target)
        draws = (len(self.times) - good) / (good + 1)
        return max(1, math.ceil(draws / self.valid))

    @cached_property
    def budget(self) -> float:
        """Seconds of the search that is scored."""
        return self.evaluations * self.cost

    def baseline(self, elapsed: float) -> float:
        """Seconds of the best that random search has after `elapsed` seconds of searching."""
        draws = max(1, round(elapsed / self.cost * self.valid))
        if draws not in self._expected:
            self._expected[draws] = expected_best(self.times, draws)
        return self._expected[draws]

    @cached_property
    def samples(self) -> list[tuple[float, float]]:
        """(time, baseline's best) at equidistant times up to the budget, without those where the
        baseline is twice as near to the optimum as the share says (few configurations leave steps), which would divide by next to nothing."""
        at = [self.budget * (i + 1) / SAMPLES for i in range(SAMPLES)]
        least = 0.5 * (1 - self.share) * (self.middle - self.optimum)
        return [(t, b) for t in at if (b := self.baseline(t)) - self.optimum > least]

    def score(self, curve: Sequence[float], clock: Sequence[float]) -> float:
        """A run's score: `curve[i]` is the best in seconds and `clock[i]` the time spent after i + 1 evaluations."""
        gains = []
        for t, base in self.samples:
            i = bisect_right(clock, t) - 1
            best = curve[i] if i >= 0 and curve[i] < math.inf else self.middle
            gains.append((base - best) / (base - self.optimum))
        return fmean(gains) if gains else 0.0


def expected_best(times: Sequence[float], draws: int) -> float:
    """The expected least of `draws` of the times (fastest first), drawn without repetition."""
    n = len(times)
    if draws >= n:
        return times[0]
    # the chance that the i-th fastest is the best drawn: C(n - i - 1, draws - 1) / C(n, draws)
    chance, total, told = draws / n, 0.0, 0.0
    for i, t in enumerate(times):
        total += chance * t
        told += chance
        if told > 1 - 1e-9 or i + 1 == n:
            break
        chance *= max(0, n - i - draws) / (n - i - 1)
    return total / told


def interval(runs: Sequence[Sequence[float]], level: float = 0.95, draws: int = 1000) -> tuple[float, float, float]:
    """(mean, low, high) of a strategy's score over spaces, `runs[s]` being its scores in repeats on space s. The
    interval is that of another set of repeats on the same spaces, by bootstrap."""
    rng = Random(0)
    means = sorted(fmean(fmean(rng.choices(r, k=len(r))) for r in runs) for _ in range(draws))
    edge = (1 - level) / 2
    return fmean(fmean(r) for r in runs), means[int(edge * draws)], means[min(draws - 1, int((1 - edge) * draws))]


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
