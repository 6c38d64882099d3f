"""Every strategy on every space, several times: the scores."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...measure.outcome import Measurement
from .. import strategy as strategies
from ..space import Space
from ..strategy import Strategy, seconds
from .recording import RecordedEntry, RecordedTemplate, Recording

if TYPE_CHECKING:
    from ...measure import Measurement
    from ..candidate_measurer import CandidateMeasurer
    from ..space import Schedule


# simulation -----------------------------------------------------------------------------------------------------------
#
# Simulated searches: measure many schedules of a kernel once, keep them as JSON Lines, and run any strategy on that
# recording, without a device and in no time.
#
# The score follows the methodology of the auto-tuning community (Willemsen et al., "A Methodology for Comparing
# Auto-Tuning Optimization Algorithms", 2024): how far a search's best lies between the *calculated* expectation of
# random search and the optimum, averaged over the evaluations.


__all__ = ["RecordedEntry", "RecordedTemplate", "Recording", "SimulatedSearch", "random_expectation", "record", "score", "simulate"]


def record(
    space: Space, measurer: CandidateMeasurer, strategy: Strategy, trials: int, about: Mapping[str, Any], batch: int = 12
) -> Recording:
    """Measure up to `trials` schedules that `strategy` asks for (exhaustive or random, for an honest picture), start schedules
    first, without early rejection."""
    from itertools import product

    made: dict[str, tuple[str, dict[str, Any]]] = {}
    for t in space.templates():
        for values in product(*t.params.values()):
            params = dict(zip(t.params, values))
            opts = space.instance(t, params)
            state = None if opts is None else space.state(opts)
            if state is not None:
                made.setdefault(state.hash, (t.name, params))
    entries: dict[str, RecordedEntry] = {}
    todo = list(space.starts())
    while len(entries) < trials:
        fresh = {s.hash: s for s in map(space.state, todo) if s is not None and s.hash not in entries}
        if not fresh and strategy.done:
            break
        results: list[Measurement] = []
        built: list[Any] = []
        for _, got in measurer.build([s.opts for s in fresh.values()]):
            (results if isinstance(got, Measurement) else built).append(got)
        results += measurer.measure(built) if built else []
        for m in results:
            s = space.state(m.opts)
            assert s is not None
            name, params = made.get(s.hash, (None, {}))
            entries[s.hash] = RecordedEntry(m.opts, s.hash, s.estimate, str(m.outcome.value), m.t_min, m.build_s + m.lower_s, name, params)
            strategy.tell(m.opts, m)
        todo = strategy.ask(min(batch, trials - len(entries)))
        if not todo and not fresh:
            break
    return Recording(about, tuple(space.starts()), tuple(entries.values()))


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    """A search that was run on a recording. `curve[i]`: best seconds after i + 1 evaluations, infinity before the first valid one. `charged_s`: what they
    would have cost, `clock[i]` up to each. `thought_s`: seconds that the strategy itself took."""

    strategy: str
    curve: tuple[float, ...]
    charged_s: float
    wasted: int
    clock: tuple[float, ...] = ()
    thought_s: float = field(default=0.0, compare=False)


def simulate(
    recording: Recording,
    strategy: str | Callable[..., Strategy],
    trials: int = 100,
    seed: int = 0,
    begin: str = "auto",
    batch: int | None = None,
    *,
    limit_s: float = math.inf,
) -> SimulatedSearch:
    """Run a strategy (by name, or a factory such as `random.RandomWalk`) on a recording, until `trials` evaluations
    are made or they would have cost `limit_s` seconds. `batch`: how many are asked for in one go (default: as
    many as suit the number of evaluations, see `strategy.batch`). `wasted` counts what was asked for twice or is not recorded."""
    space = Space(recording)
    start = space.starts() if begin == "auto" else [()]
    began = time.perf_counter()
    given = start if begin == "auto" else []
    make = strategies.create if isinstance(strategy, str) else None
    s = make(strategy, space, seed=seed, start=given) if make else strategy(space, seed=seed, start=given)  # type: ignore[operator, arg-type]
    cost = fmean(e.cost_s for e in recording.entries) if recording.entries else 0.0
    s.expect(min(trials, limit_s / cost if cost else trials))
    seen: dict[str, float] = {}
    curve: list[float] = []
    clock: list[float] = []
    charged, wasted, dry = 0.0, 0, 0
    asked: list[Schedule] = list(start)
    while len(curve) < trials and charged < limit_s and dry < 20:
        new = 0
        for opts in asked:
            state = space.state(opts)
            if state is None or state.hash in seen:
                wasted += 1
                if state is not None:
                    s.tell(opts, recording.apply(opts))
                continue
            if len(curve) == trials or charged >= limit_s:
                break
            entry = recording.apply(opts)
            charged += entry.cost_s
            seen[state.hash] = charged
            curve.append(min(curve[-1] if curve else math.inf, seconds(entry)))
            clock.append(charged)
            s.tell(opts, entry)
            new += 1
        dry = 0 if new else dry + 1
        if s.done:
            break
        asked = s.ask(min(batch or strategies.batch(trials), max(1, trials - len(curve))))
    return SimulatedSearch(s.name, tuple(curve), charged, wasted, tuple(clock), time.perf_counter() - began)


def random_expectation(recording: Recording, trials: int) -> list[float]:
    """Expected best seconds of a random search without repetition after 1 .. `trials` evaluations, calculated. A
    failure counts as the slowest time."""
    valid = sorted(seconds(e) for e in recording.entries if seconds(e) < math.inf)
    if not valid:
        raise UsageError("nothing in this recording is valid")
    times = valid + [valid[-1]] * (len(recording.entries) - len(valid))
    n = len(times)
    out = []
    for k in range(1, min(trials, n) + 1):
        # P(the best of k is the i-th fastest) = C(n - i - 1, k - 1) / C(n, k)
        whole = _log_comb(n, k)
        out.append(sum(t * math.exp(_log_comb(n - i - 1, k - 1) - whole) for i, t in enumerate(times) if n - i - 1 >= k - 1))
    return out


def score(recording: Recording, curve: Sequence[float]) -> float:
    """1: at the optimum from the first evaluation; 0: as random search; negative: worse. The mean over the
    evaluations where random search is not within 1 % of the optimum yet."""
    optimum = min(seconds(e) for e in recording.entries)
    base = random_expectation(recording, len(curve))
    slowest = max(t for t in (seconds(e) for e in recording.entries) if t < math.inf)
    gains = [(b - min(t, slowest)) / (b - optimum) for b, t in zip(base, curve) if b > 1.01 * optimum]
    return sum(gains) / len(gains) if gains else 1.0


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# scores ---------------------------------------------------------------------------------------------------------------

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
