"""Simulated searches: measure many schedules of a kernel once, keep them as JSON Lines, and run any strategy on that recording, without a
device and in no time.

The score follows the methodology of the auto-tuning community (Willemsen et al., "A Methodology for Comparing
Auto-Tuning Optimization Algorithms", 2024): how far a search's best lies between the *calculated* expectation of
random search and the optimum, averaged over the evaluations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from .. import strategy as strategies
from ..space import Space
from ..strategy import Strategy, seconds
from .recording import RecordedEntry, RecordedTemplate, Recording

__all__ = ["RecordedEntry", "RecordedTemplate", "Recording", "SimulatedSearch", "random_expectation", "record", "score", "simulate"]

if TYPE_CHECKING:
    from ...measure import Measurement
    from ..candidate_measurer import CandidateMeasurer
    from ..space import Schedule


def record(
    space: Space, measurer: CandidateMeasurer, strategy: Strategy, trials: int, about: Mapping[str, Any], batch: int = 12
) -> Recording:
    """Measure up to `trials` schedules that `strategy` asks for (exhaustive or random, for an honest picture), start schedules
    first, without early rejection."""
    from itertools import product

    from ...measure.outcome import Measurement

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
