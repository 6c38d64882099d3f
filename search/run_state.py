"""What a run is given to start with, and what it knows so far: outcomes by schedule and by source, the best, and the builds that may enter the finals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cache.objective_types import TIME
from ..opts.opt import short
from .finals import Finalist
from .objective import KEPT, SearchObjective
from .strategy import seconds

if TYPE_CHECKING:
    from ..measure import Measurement
    from .space import Schedule, State


TIMES = SearchObjective()


class RunState:
    """`by_hash`: the result of every schedule under way (None) or done, by structural hash; `by_sha`: by source."""

    def __init__(self, aim: SearchObjective = TIMES) -> None:
        """`aim`: what the search makes small."""
        self.aim = aim
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        """Of each outcome that is a failure, the first candidate: its options, and what was wrong."""
        self.notes: dict[str, None] = {}
        """What measurements told of the reference."""
        self.repeated = 0
        self.history: list[dict[str, Any]] = []
        self.by_hash: dict[str, Measurement | None] = {}
        self.by_sha: dict[str, Measurement] = {}
        self.best: Measurement | None = None
        self.fastest_s = math.inf
        """Seconds of the fastest candidate that was right, whatever is made small."""
        self.plain_s: float | None = None
        """Seconds of the kernel as written, without options."""
        self.quick: Schedule | None = None
        """The start schedule that captured functions use without tuning."""
        self.first: Schedule | None = None
        """The start schedule that is used without tuning."""
        self.first_hash = ""
        self.length: Callable[[Schedule], float] = lambda opts: 0.0
        """About how many instructions a schedule has."""
        self._kept: dict[Schedule, Finalist] = {}
        self._starts: dict[Schedule, Finalist] = {}

    @property
    def first_is_coming(self) -> bool:
        """Whether the start schedule that is used without tuning is still to be measured: builds come out of order, and what is slower
        than it is no answer."""
        return self.by_hash.get(self.first_hash, self.best) is None

    @property
    def best_s(self) -> float:
        """Best time in seconds (or score, where the search is about something else), infinity while there is none."""
        return math.inf if self.best is None else seconds(self.best)

    def count(self, m: Measurement, instead: str = "") -> None:
        """One more of its outcome, and one fewer of the outcome that it had at first."""
        if self.counts[instead] > 0:
            self.counts[instead] -= 1
        self.counts[str(m.outcome.value)] += 1
        if m.outcome not in ("ok", "slow") and m.detail:
            self.failures.setdefault(str(m.outcome.value), f"{short(m.opts)}: {m.detail}")
        if m.note:
            self.notes.setdefault(m.note)
        if not m.opts and m.t_min is not None:
            self.plain_s = m.t_min

    def improves(self, m: Measurement, by: str, elapsed: float) -> bool:
        """Whether this is a new best; then it is noted. What was cleared never is."""
        if m.outcome == "ok" and not m.cleared and m.t_min is not None:
            self.fastest_s = min(self.fastest_s, m.t_min)
        if m.outcome != "ok" or m.cleared or not self.aim.able(m) or not seconds(m) < self.best_s:
            return False
        self.best = m
        trials = sum(self.counts.values())
        more = {n: self.aim.value(m, n) for n in self.aim.names if n != TIME}
        told = {"seconds": round(elapsed, 4), "trials": trials, "t_min": m.t_min, **more, "opts": [o.json for o in m.opts], "by": by}
        self.history.append(told)
        return True

    def keep(self, built: Any, m: Measurement, start: bool) -> None:
        """Hold a build that may enter the finals. One that failed beside others and was right alone never does."""
        if m.t_min is None or m.cleared:
            return
        f = self.finalist(built, m)
        if start and m.outcome in ("ok", "slow"):
            self._starts[built.opts] = f
        elif m.outcome == "ok" and self.aim.able(m):
            self._kept[built.opts] = f
            self._kept = {f.built.opts: f for f in self.aim.kept(list(self._kept.values()))}

    def drop(self, opts: Schedule) -> None:
        """Out for good: it was found wrong after it had been right."""
        for kept in (self._kept, self._starts):
            kept.pop(opts, None)
        if self.best is not None and self.best.opts == opts:
            # what is better than the next one from now on is the best
            self.best = min((f.measurement for f in self.everybody()), key=seconds, default=None)

    def finalist(self, built: Any, m: Measurement) -> Finalist:
        """A build and its measurement, as the finals compare it."""
        return Finalist(built, m, self.aim.decides(m))

    def start(self, opts: Schedule | None = None) -> Finalist | None:
        """The best start schedule; with `opts`, that one if it is a start schedule."""
        if opts is not None and opts in self._starts:
            return self._starts[opts]
        return next(iter(self.aim.ranked(list(self._starts.values()))), None)

    def untuned(self) -> Finalist | None:
        """The start schedule that is used without tuning, where it was measured and stands."""
        return None if self.first is None else self._starts.get(self.first)

    def quick_start(self) -> Finalist | None:
        """The start schedule that captured functions use without tuning, where it was measured and stands."""
        return None if self.quick is None else self._starts.get(self.quick)

    def finalists(self) -> list[Finalist]:
        """Who may challenge the best start schedule, fastest first."""
        start, quick = self.start(), self.quick_start()
        ranked = self.aim.ranked([f for f in self.everybody() if f is not start])
        return [*ranked[:KEPT], *(f for f in ranked[KEPT:] if f is quick)]

    def everybody(self) -> list[Finalist]:
        """All that may win."""
        return [f for f in (*self._kept.values(), *self._starts.values()) if f.measurement.outcome == "ok" and self.aim.able(f.measurement)]

    def contenders(self, few: bool = False) -> list[Finalist]:
        """The fastest candidates, the fastest start schedules and the one that is used without tuning; empty where one of the
        two is missing and so nothing has to be compared."""
        some = (None, None) if self.aim.front else (4, 3) if few else (12, 12)
        kept = self.aim.ranked(list(self._kept.values()))[: some[0]]
        starts = self.aim.ranked(list(self._starts.values()))[: some[1]]
        for used in (self.untuned(), self.quick_start()):
            starts += [used] if used is not None and used not in starts else []
        return [*kept, *starts] if kept and starts else []

    def settle(self, fresh: Sequence[Finalist]) -> None:
        """Only these times count from now on. A candidate that failed or is not among them leaves the finals."""
        fresh = [f for f in fresh if not f.measurement.cleared]
        self._kept = {f.built.opts: f for f in fresh if f.built.opts in self._kept and f.measurement.outcome == "ok"}
        self._starts = {f.built.opts: f for f in fresh if f.built.opts in self._starts and f.measurement.outcome in ("ok", "slow")}


@dataclass(frozen=True, slots=True)
class Start:
    """A schedule measured before the search; `origin` is 'start' (what is used without tuning; the answer must beat
    the best of these) or 'stored'. `quick`: captured functions use it without tuning."""

    opts: Schedule
    origin: str = "start"
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A schedule that a strategy asked for, and which one that was."""

    state: State
    by: str
