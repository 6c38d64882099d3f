"""Recorded spaces: measure many schedules of a kernel once, keep them as JSON Lines, and run any strategy on the
file, without a device, in no time.

The score follows the methodology of the auto-tuning community (Willemsen et al., "A Methodology for Comparing
Auto-Tuning Optimization Algorithms", 2024): how far a search's best lies between the *calculated* expectation of
random search and the optimum, averaged over the evaluations."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import OptError, UsageError
from ..opts.opt import parse
from . import strategy as strategies
from .space import Space
from .strategy import Strategy, seconds

if TYPE_CHECKING:
    from ..measure import Measurement
    from .pipeline import MeasurerLike
    from .space import Schedule

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RecordedEntry:
    """One recorded schedule: what the model said (seconds), what came of it (`t_min` in seconds, None unless ok or
    slow), what finding out cost (seconds), and, where a template makes it, which and with which choices."""

    opts: Schedule
    hash: str
    estimate: float
    outcome: str
    t_min: float | None = None
    cost_s: float = 0.0
    template: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effects(self) -> frozenset[str]:
        """What was recorded was allowed."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded space. `about`: kernel, shape, machine …, JSON-able. `seeds`: the start schedules, best guess first.
    Also an engine: only recorded schedules are legal."""

    about: Mapping[str, Any]
    seed_list: tuple[Schedule, ...]
    entries: tuple[RecordedEntry, ...]
    _by_opts: dict[Schedule, RecordedEntry] = field(default_factory=dict, init=False, repr=False, compare=False)
    _after: dict[Schedule, list[Schedule]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for e in self.entries:
            self._by_opts.setdefault(e.opts, e)
        for opts in self._by_opts:
            # the longest recorded prefix is where a walk comes from: one action, or a macro where the steps between were not recorded
            cut = next((i for i in range(len(opts) - 1, -1, -1) if opts[:i] in self._by_opts), None)
            if cut is not None:
                self._after.setdefault(opts[:cut], []).append(opts[cut:])

    # the engine -----------------------------------------------------------------------------------------------------
    def seeds(self) -> Sequence[Schedule]:
        return self.seed_list

    def apply(self, opts: Schedule) -> RecordedEntry:
        found = self._by_opts.get(tuple(opts))
        if found is None:
            raise OptError("this schedule is not in the recording")
        return found

    def actions(self, applied: RecordedEntry) -> Sequence[Schedule]:
        return self._after.get(applied.opts, [])

    def estimate(self, applied: RecordedEntry) -> float:
        return applied.estimate

    def templates(self) -> Sequence[RecordedTemplate]:
        names = dict.fromkeys(e.template for e in self.entries if e.template is not None)
        return [RecordedTemplate(n, [e for e in self.entries if e.template == n]) for n in names]

    # the file -------------------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """JSON Lines: a header, then one line an entry."""
        lines = [{"tilewright_space": SCHEMA, "about": dict(self.about), "seeds": [_json(s) for s in self.seed_list]}]
        for e in self.entries:
            line: dict[str, Any] = {
                "opts": _json(e.opts),
                "hash": e.hash,
                "estimate": e.estimate,
                "outcome": e.outcome,
                "t_min": e.t_min,
                "cost_s": e.cost_s,
            }
            if e.template is not None:
                line |= {"template": e.template, "params": dict(e.params)}
            lines.append(line)
        Path(path).write_text("".join(json.dumps(x, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n" for x in lines))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Raises UsageError naming the line that `save` did not write."""
        at = 1
        try:
            head, *rest = Path(path).read_text().splitlines()
            about = json.loads(head)
            if about["tilewright_space"] != SCHEMA:
                raise ValueError(f"schema {about['tilewright_space']}, this version reads {SCHEMA}")
            entries = []
            for text in rest:
                at += 1
                line = json.loads(text)
                entries.append(RecordedEntry(**{**line, "opts": parse(line["opts"])}))
            return Recording(about["about"], tuple(parse(s) for s in about["seeds"]), tuple(entries))
        except (OSError, ValueError, KeyError, TypeError, OptError) as e:
            raise UsageError(f"{path}, line {at}: not a recorded space ({type(e).__name__}: {e})") from e


class RecordedTemplate:
    """A template of which only recorded instances exist."""

    def __init__(self, name: str, entries: Sequence[RecordedEntry]) -> None:
        self.name = name
        self._made = {_key(e.params): e.opts for e in entries}
        self.params: dict[str, tuple[Any, ...]] = {}
        for k in dict.fromkeys(k for e in entries for k in e.params):
            values = list(dict.fromkeys(e.params[k] for e in entries if k in e.params))
            self.params[k] = tuple(sorted(values) if all(isinstance(v, int) for v in values) else values)

    def make(self, params: dict[str, Any]) -> Schedule:
        """Raises OptError for choices that were not recorded."""
        found = self._made.get(_key(params))
        if found is None:
            raise OptError(f"template {self.name}: these choices are not in the recording")
        return found


def record(space: Space, measurer: MeasurerLike, strategy: Strategy, trials: int, about: Mapping[str, Any], batch: int = 12) -> Recording:
    """Measure up to `trials` schedules that `strategy` asks for (exhaustive or random, for an honest picture), seeds
    first, without early rejection."""
    from itertools import product

    from ..measure.outcome import Measurement

    made: dict[str, tuple[str, dict[str, Any]]] = {}
    for t in space.templates():
        for values in product(*t.params.values()):
            params = dict(zip(t.params, values))
            opts = space.instance(t, params)
            state = None if opts is None else space.state(opts)
            if state is not None:
                made.setdefault(state.hash, (t.name, params))
    entries: dict[str, RecordedEntry] = {}
    todo = list(space.seeds())
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
    return Recording(about, tuple(space.seeds()), tuple(entries.values()))


@dataclass(frozen=True, slots=True)
class Replay:
    """`curve[i]`: best seconds after i + 1 evaluations, infinity before the first valid one. `charged_s`: what they would have cost."""

    strategy: str
    curve: tuple[float, ...]
    charged_s: float
    wasted: int

    def evaluations_to(self, target_s: float) -> int | None:
        """How many evaluations until the best was at most `target_s`, None if never."""
        return next((i + 1 for i, t in enumerate(self.curve) if t <= target_s), None)


def replay(
    recording: Recording, strategy: str | Callable[..., Strategy], trials: int = 100, seed: int = 0, seeds: str = "auto", batch: int = 8
) -> Replay:
    """Run a strategy (by name, or a factory such as `random.RandomWalk`) on a recording. `wasted` counts what was
    asked for twice or is not recorded."""
    space = Space(recording)
    start = space.seeds() if seeds == "auto" else [()]
    if isinstance(strategy, str):
        s = strategies.create(strategy, space, seed=seed, start=start if seeds == "auto" else [])
    else:
        s = strategy(space, seed=seed, start=start if seeds == "auto" else [])
    curve: list[float] = []
    seen: set[str] = set()
    charged, wasted, dry = 0.0, 0, 0
    asked: list[Schedule] = list(start)
    while len(curve) < trials and dry < 20:
        new = 0
        for opts in asked:
            state = space.state(opts)
            if state is None or state.hash in seen:
                wasted += 1
                if state is not None:
                    s.tell(opts, recording.apply(opts))
                continue
            if len(curve) == trials:
                break
            seen.add(state.hash)
            entry = recording.apply(opts)
            charged += entry.cost_s
            curve.append(min(curve[-1] if curve else math.inf, seconds(entry)))
            s.tell(opts, entry)
            new += 1
        dry = 0 if new else dry + 1
        if s.done:
            break
        asked = s.ask(min(batch, max(1, trials - len(curve))))
    return Replay(s.name, tuple(curve), charged, wasted)


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


def _json(opts: Iterable[Any]) -> list[Any]:
    return [o.json for o in opts]


def _key(params: Mapping[str, Any]) -> str:
    return json.dumps(dict(params), sort_keys=True)


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
