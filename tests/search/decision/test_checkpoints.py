"""The answer so far: a search that ends at any moment, without a word, leaves one that is no worse than its start schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from synthetic import FakeMeasurer, space
from tilewright import cache as caches
from tilewright.cache import Cache, Key
from tilewright.cache.keys import DEFAULT_POLICY
from tilewright.ir.errors import MeasureError
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts.opt import Opt
from tilewright.search import Budget, Job, Result, Silent, Start, TuningRun, create
from tilewright.search import conclusion as checkpoints
from tilewright.search.budget import Meter
from tilewright.search.cache_recorder import CacheRecorder

JOB = Job("matmulish", {"m": 64}, "float32", "fake", 2, "portfolio", flops=1000, bytes=100)
KEY = Key("k" * 64, "t" * 16, 2, "fake", DEFAULT_POLICY)
Schedule = tuple[Opt, ...]
MEASURE_S, CONFIRM_S = 0.05, 0.4


class Killed(BaseException):
    """What a SIGKILL leaves: nothing after it runs in the search."""


class AsTheyAre:
    """Names that are canonical already."""

    def to_canonical(self, opts: Any, syntax: Any) -> Any:
        return opts


class Clock:
    """Moves with what is measured and checked, and a little with every look at it."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        self.now += 1e-5
        return self.now


class Slowly(FakeMeasurer):
    """Takes time. `dies` at a second from the start."""

    clock: Clock
    dies = float("inf")
    checks: list[Schedule]

    def spend(self, seconds: float) -> None:
        self.clock.now += seconds
        if self.clock.now >= 50.0 + self.dies:
            raise Killed

    def _one(self, b: Any) -> Measurement:
        self.spend(MEASURE_S)
        return super()._one(b)

    def confirm(self, built: Any) -> Measurement:
        self.spend(CONFIRM_S)
        self.checks.append(built.opts)
        return super().confirm(built)


class Run:
    """One search that records into a real cache."""

    def __init__(self, store: Cache, budget: Budget, dies: float = float("inf"), **script: Any) -> None:
        self.space, self.engine = space()
        self.clock = Clock()
        self.measurer = Slowly(self.engine.seconds, **script)
        self.measurer.clock, self.measurer.dies, self.measurer.checks = self.clock, dies, []
        names: Any = AsTheyAre()
        earlier = {r.opts for r in store.answers(KEY)}
        self.recorder = CacheRecorder(store, KEY, names, {}, JOB, lambda o: frozenset(), earlier=earlier, clock=self.clock)
        starts = [Start(s) for s in self.space.starts()]
        strategy = create("random", self.space, start=[s.opts for s in starts])
        self.meter = Meter(budget, clock=self.clock)
        self.run = TuningRun(self.space, self.measurer, strategy, starts, JOB, self.meter, Silent(), self.recorder)

    @property
    def start_s(self) -> float:
        return self.engine.seconds(self.space.starts()[0])

    def outcome(self) -> Result | None:
        try:
            return self.run.run()
        except Killed:
            return None


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with caches.open(tmp_path / "cache.db") as c:
        yield c


def provisional(store: Cache) -> list[Any]:
    return sorted((r for r in store.rows() if r.provisional), key=lambda r: r.when)


@pytest.mark.parametrize("seconds", [0.06, 0.3, 1.0, 3.0, 5.5, 8.0, 11.0, 13.0, 15.0])
def test_killed_at_any_moment_it_leaves_an_answer_that_is_no_worse_than_its_start(store: Cache, seconds: float) -> None:
    r = Run(store, Budget(20.0), dies=seconds)
    assert r.outcome() is None
    best = store.best(KEY)
    assert best is not None and best.provisional and best.facts["effort"]["interrupted"]
    assert best.t_min is not None and best.t_min <= r.start_s
    if seconds >= 6.0:  # the first quarter has passed
        assert best.facts["confirmed"] is True
    if seconds >= 11.0:  # so has the second
        assert best.t_min < 0.95 * r.start_s


def test_the_whole_search_says_one_thing_and_checks_nothing_twice(store: Cache) -> None:
    r = Run(store, Budget(20.0))
    result = r.outcome()
    assert result is not None and result.confirmed
    final = [x for x in store.rows() if x.usable and not x.provisional]
    assert len(final) == 1 and store.answers(KEY) == final, "what was said on the way answers no more"
    assert 2 <= len(provisional(store)) <= 2 + checkpoints.PARTS
    assert len(r.measurer.checks) == len(set(r.measurer.checks))
    assert r.measurer.checks[0] == r.space.starts()[0]
    assert result.seconds <= 20.5


def test_the_cost_is_a_tenth_of_the_budget_at_most(store: Cache) -> None:
    for seconds in (3.0, 10.0, 100.0):
        r = Run(store, Budget(seconds))
        r.outcome()
        before_the_end = [c for c in r.measurer.calls if c[0] == "confirm"][:-1]
        assert CONFIRM_S * len(before_the_end) <= checkpoints.SHARE * seconds + 1e-6


def test_half_a_minute_is_the_longest_without_a_look(store: Cache) -> None:
    r = Run(store, Budget(1000.0), dies=200.0)
    assert r.outcome() is None
    assert store.best(KEY) is not None and store.best(KEY).facts["confirmed"]  # type: ignore[union-attr]
    looked = [x.facts["effort"]["seconds"] for x in provisional(store)]
    assert len(looked) >= 2 and looked[1] <= checkpoints.LONGEST_S + 2


def test_trials_without_seconds_have_quarters_too(store: Cache) -> None:
    r = Run(store, Budget(None, 2000), dies=60.0)
    assert r.outcome() is None
    best = store.best(KEY)
    assert best is not None and best.facts["confirmed"] and best.t_min is not None and best.t_min < r.start_s


def test_a_best_that_does_not_pass_is_out_at_once_and_the_next_is_looked_for(store: Cache) -> None:
    engine = space()[1]

    def staged_is_wrong(opts: Schedule) -> Outcome:
        return Outcome.wrong if any(o.op == "STAGE" for o in opts) else Outcome.ok

    r = Run(store, Budget(20.0), second_check=staged_is_wrong)
    result = r.outcome()
    assert result is not None and not any(o.op == "STAGE" for o in result.opts) and result.confirmed
    wrong = [x for x in store.rows() if x.outcome == "wrong"]
    assert wrong and result.counts["wrong"] == len(wrong)
    assert len({x.opts for x in wrong}) == len(wrong), "each fell once"
    fell = {x.opts for x in wrong}
    assert not fell & {x.opts for x in store.answers(KEY)}
    assert result.t_min == pytest.approx(engine.seconds(result.opts))


def test_a_start_that_is_wrong_leaves_the_best_of_the_rest(store: Cache) -> None:
    start = space()[0].starts()[0]
    r = Run(store, Budget(20.0), dies=12.0, second_check=lambda o: Outcome.wrong if o == start else Outcome.ok)
    assert r.outcome() is None
    best = store.best(KEY)
    assert best is not None and best.facts["confirmed"] and r.recorder._canonical(start) not in {x.opts for x in store.answers(KEY)}


def test_an_earlier_answer_stays_until_something_confirmed_is_better(store: Cache) -> None:
    first = Run(store, Budget(40.0))
    found = first.outcome()
    before = store.best(KEY)
    assert found is not None and before is not None
    Run(store, Budget(20.0), dies=0.2).outcome()
    Run(store, Budget(20.0), dies=7.0).outcome()
    assert store.best(KEY) == before


def test_trouble_with_a_check_does_not_end_the_search(store: Cache) -> None:
    class Troubled(Slowly):
        def confirm(self, built: Any) -> Measurement:
            if self.clock.now < 66.0:
                raise MeasureError("the second runner was lost")
            return super().confirm(built)

    r = Run(store, Budget(20.0))
    r.measurer.__class__ = Troubled
    result = r.outcome()
    assert result is not None and result.confirmed and result.t_min is not None and result.t_min < r.start_s


def test_an_interrupted_search_takes_what_it_checked(store: Cache) -> None:
    stop = []

    class Interrupted(Slowly):
        def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]:
            if self.clock.now > 62.0 and not stop:
                stop.append(1)
                raise KeyboardInterrupt
            return super().measure(built, incumbent_s)

    r = Run(store, Budget(20.0))
    r.measurer.__class__ = Interrupted
    result = r.outcome()
    assert result is not None and result.exit_code == 130
    best = store.best(KEY)
    assert best is not None and not best.provisional and best.t_min == result.t_min
    assert result.confirmed == (result.opts in r.measurer.checks)


def test_provisional_rows_answer_until_their_search_has_ended(store: Cache) -> None:
    Run(store, Budget(20.0), dies=12.0).outcome()
    rows = store.rows()
    said = store.best(KEY)
    assert said is not None and said.provisional
    from tilewright.cache.ranking import answers

    slow = dataclasses.replace(said, opts='[["UPCAST","m",2]]', t_med=1.0, when="2999-01-01T00:00:00.000000+00:00", run_id="another")
    final = dataclasses.replace(slow, run_id=said.run_id, provenance='{"confirmed":false}')
    assert answers([*rows, slow])[0] == said, "another search's answer is another's"
    assert answers([*rows, final])[0] == final, "its own answer is its last word, even where it was not checked twice"
    wrong = dataclasses.replace(final, outcome="wrong", t_med=None, verified=False, when="2999-01-02T00:00:00.000000+00:00")
    assert answers([*rows, final, wrong])[0] == said, "which fell, so what was right before it answers"
