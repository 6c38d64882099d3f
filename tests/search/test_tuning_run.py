"""The tuning run with a fake measurer: order, deduplication, failures, interrupts, budgets, what is recorded."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from synthetic import FakeMeasurer, Matmulish, SerialBuilds, space
from tilewright.ir.errors import MeasureError
from tilewright.measure.outcome import Duel, Measurement, Outcome
from tilewright.opts.opt import Opt, opt
from tilewright.search import Budget, Job, Result, Silent, Space, Start, Strategy, TuningRun, create
from tilewright.search.budget import Meter
from tilewright.search.tuning_run import Pipeline

JOB = Job("matmulish", {"m": 64}, "float32", "fake", 2, "portfolio", flops=1000, bytes=100, roofline_s=0.001)
Schedule = tuple[Opt, ...]


class Log(Silent):
    def __init__(self) -> None:
        self.phases: list[str] = []
        self.outcomes: list[str] = []
        self.bests: list[Result] = []
        self.results: list[Result] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def candidate(self, measurement: Measurement) -> None:
        self.outcomes.append(measurement.outcome)

    def best(self, best: Result) -> None:
        self.bests.append(best)

    def done(self, result: Result) -> None:
        self.results.append(result)


class Book:
    """A recorder that keeps lists: `winners` are the answers, `on_the_way` those that were provisional."""

    earlier: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.rows: list[tuple[Measurement, str]] = []
        self.winners: list[tuple[Measurement, Any, Any, Any]] = []
        self.on_the_way: list[tuple[Measurement, Any, Any, Any]] = []
        self.flushed = 0

    def add(self, measurement: Measurement, strategy: str) -> None:
        self.rows.append((measurement, strategy))

    def winner(self, measurement: Measurement, start_opts: Any, start_s: Any, final: Any) -> None:
        (self.on_the_way if final.get("provisional") else self.winners).append((measurement, start_opts, start_s, final))

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> str:
        self.flushed += 1
        return ""


class Bench:
    """One run, put together."""

    def __init__(
        self,
        budget: Budget,
        strategy: str | Callable[[Space], Strategy] | None = "portfolio",
        with_starts: bool = True,
        clock: Any = None,
        measurer: type[FakeMeasurer] = FakeMeasurer,
        **script: Any,
    ) -> None:
        self.space, self.engine = space(with_starts)
        self.measurer = measurer(**{"seconds": self.engine.seconds, **script})
        self.log, self.book = Log(), Book()
        starts = [Start(s) for s in self.space.starts()]
        if isinstance(strategy, str):
            strategy = create(strategy, self.space, start=[s.opts for s in starts] if with_starts else [])
        elif strategy is not None:
            strategy = strategy(self.space)
        meter = Meter(budget, **({"clock": clock} if clock else {}))
        self.run = TuningRun(self.space, self.measurer, strategy, starts, JOB, meter, self.log, self.book)

    @property
    def batches(self) -> list[list[Schedule]]:
        return [what for name, what in self.measurer.calls if name == "measure"]


class Scripted(Strategy):
    """Asks for what it was given."""

    name = "scripted"

    def __init__(self, where: Space, *asks: list[Schedule]) -> None:
        super().__init__(where)
        self.asks = list(asks)
        self.told: list[tuple[Schedule, str]] = []

    def ask(self, n: int) -> list[Schedule]:
        return self.asks.pop(0) if self.asks else []

    def tell(self, opts: Schedule, measurement: Any) -> None:
        self.told.append((opts, measurement.outcome))

    @property
    def done(self) -> bool:
        return not self.asks


def test_finds_better_than_the_start_schedule_and_says_so() -> None:
    b = Bench(Budget(None, 80))
    r = b.run.run()
    start = b.space.starts()[0]
    assert r.start_opts == start and r.start_s == pytest.approx(b.engine.seconds(start))
    assert r.t_min == pytest.approx(b.engine.seconds(r.opts)) and r.t_min < 0.6 * r.start_s
    assert (r.exit_code, r.origin, r.verified, r.confirmed, r.significant) == (0, "tuned", True, True, True)
    assert r.gain == pytest.approx(r.start_s / r.t_min)
    assert r.counts["ok"] == len(b.book.rows) == 80
    assert r.gflops == pytest.approx(1000 / r.t_min * 1e-9) and r.roofline_pct == pytest.approx(100 * 0.001 / r.t_min)
    assert [h["t_min"] for h in r.history] == sorted((h["t_min"] for h in r.history), reverse=True)
    assert b.log.phases == ["start schedules", "searching", "deciding"]
    assert b.log.results == [r]
    assert b.log.bests[-1].t_min == pytest.approx(min(t for t in (m.t_min for m, _ in b.book.rows) if t is not None))


def test_start_schedules_are_measured_first() -> None:
    b = Bench(Budget(None, 30))
    b.run.run()
    assert b.batches[0][0] == b.space.starts()[0]


def test_winner_is_recorded_once_with_its_start_schedule() -> None:
    b = Bench(Budget(None, 40))
    r = b.run.run()
    [(m, start_opts, start_s, final)] = b.book.winners
    assert (m.opts, start_opts, start_s) == (r.opts, r.start_opts, r.start_s)
    assert final["confirmed"] is True
    assert len(b.book.rows) == 40


def test_results_that_arrive_early_are_recorded_at_once_and_only_once() -> None:
    late: list[Schedule] = []

    class Telling(FakeMeasurer):
        def listen(self, told: Callable[[Measurement], None]) -> bool:
            self.arrived = told
            return True

        def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]:
            out = super().measure(built, incumbent_s)
            for m in out:
                self.arrived(m)
                late.extend([m.opts] if b.book.rows[-1][0].opts != m.opts else [])
            return out

        def again(self, built: Sequence[Any]) -> list[Measurement]:
            return super().measure(built)

    b = Bench(Budget(trials=20), measurer=Telling)
    b.run.run()
    recorded = [m.opts for m, _ in b.book.rows]
    assert len(recorded) == len(set(recorded)) == 20 and not late and b.book.flushed >= len(b.batches)


def test_result_as_json() -> None:
    import json

    data = json.loads(json.dumps(Bench(Budget(None, 40)).run.run().to_json()))
    for name in (
        "kernel",
        "shape",
        "dtype",
        "device",
        "strategy",
        "start_opts",
        "start_s",
        "opts",
        "t_min",
        "t_med",
        "n",
        "gflops",
        "gbytes_s",
    ):
        assert name in data
    for name in ("roofline_pct", "counts", "seconds", "verified", "reproduce", "origin"):
        assert name in data
    assert data["opts"] and all(isinstance(o, list) for o in data["opts"])
    assert data["reproduce"].startswith("tune run --kernel matmulish --shape m=64 --dtype float32 --device fake --threads 2")


def test_nothing_is_measured_twice() -> None:
    """Neither schedules with the same loops nor schedules with the same source."""
    up, tile = opt("UPCAST", "m", 8), opt("TILE", "k", 256)

    def same(opts: Schedule) -> str:
        return str(sorted(str(o) for o in opts if o.op != "TILE"))  # tiling renders to the same source here

    b = Bench(
        Budget(None, 50),
        lambda s: Scripted(s, [(up, tile), (tile, up), (up,), (up,)], [(up,), (up, opt("PARALLEL", "m"))]),
        same_source=same,
    )
    r = b.run.run()
    assert len(b.book.rows) == 3  # the start schedule, one of the four, and the last
    assert r.repeated == 4
    told = b.run.strategy.told  # type: ignore[union-attr]
    # everyone who asked is told, except where the answer is still on its way
    assert {o for o, _ in told} == {b.space.starts()[0], (up, tile), (up,), (up, opt("PARALLEL", "m"))}


def test_illegal_is_counted_and_told_without_a_build() -> None:
    bad = (opt("UPCAST", "m", 5),)
    b = Bench(Budget(None, 50), lambda s: Scripted(s, [bad, (opt("UPCAST", "m", 2),)]))
    r = b.run.run()
    assert r.counts["illegal"] == 1
    row = next(m for m, _ in b.book.rows if m.outcome is Outcome.illegal)
    assert row.opts == bad and "not a divisor" in row.detail
    assert (bad, "illegal") in b.run.strategy.told  # type: ignore[union-attr]
    assert all(bad not in batch for batch in b.batches)


@pytest.mark.parametrize("kind", ["wrong", "build", "timeout", "crash", "slow"])
def test_no_outcome_ends_a_run(kind: str) -> None:
    start = Matmulish().starts()[0]

    def outcomes(opts: Schedule) -> Outcome:
        # of the options one by one: a Result's schedule is printed in the short form, and `hash` differs by process
        half = zlib.crc32(" ".join(map(str, opts)).encode()) % 2 == 0
        return Outcome(kind) if half and opts != start else Outcome.ok

    b = Bench(Budget(None, 60), outcomes=outcomes)
    r = b.run.run()
    assert r.exit_code == 0 and r.counts[kind] > 3 and r.counts["ok"] > 3
    assert b.measurer.outcomes(r.opts) is Outcome.ok


def test_nothing_valid_is_exit_4() -> None:
    b = Bench(Budget(None, 30), outcomes=lambda o: Outcome.crash)
    r = b.run.run()
    assert (r.exit_code, r.t_min, r.verified, r.found) == (4, None, False, False)
    assert b.book.winners == [] and b.book.flushed
    assert r.counts == {"crash": 30}


def test_a_crashing_start_schedule_leaves_the_search_to_win() -> None:
    start = Matmulish().starts()[0]
    r = Bench(Budget(None, 40), outcomes=lambda o: Outcome.crash if o == start else Outcome.ok).run.run()
    assert r.exit_code == 0 and r.start_opts is None and r.start_s is None and r.gain is None


@pytest.mark.parametrize("when", [5, 40])
def test_interrupt_keeps_the_best(when: int) -> None:
    def strike(n: int) -> None:
        if n == when:
            raise KeyboardInterrupt

    b = Bench(Budget(None, 500), on_measure=strike)
    r = b.run.run()
    assert r.exit_code == 130
    best = min(m.t_min for m, _ in b.book.rows if m.t_min is not None)
    start = b.engine.seconds(b.space.starts()[0])
    assert r.t_min == pytest.approx(best if start > 5 * best else start)  # nobody met the start schedule in a duel
    assert (when > 5) == (start > 5 * best)
    assert len(b.book.winners) == 1
    assert not [c for c in b.measurer.calls if c[0] in ("duel", "confirm")]


def test_interrupt_before_anything_was_measured() -> None:
    def strike(n: int) -> None:
        raise KeyboardInterrupt

    r = Bench(Budget(None, 500), on_measure=strike).run.run()
    assert (r.exit_code, r.t_min) == (130, None)


class Slow:
    """Builds of which one, the first of its batch, takes until `go`."""

    def __init__(self, count: int, stuck: bool) -> None:
        self.rest, self.go = list(range(count)), not stuck

    def finished(self, wait_s: float) -> list[tuple[int, Any]]:
        done = [i for i in self.rest if i or self.go]
        self.rest = [i for i in self.rest if i not in done]
        return [(i, f"built {i}") for i in done]

    def wait(self, wait_s: float) -> None:
        pass

    def __len__(self) -> int:
        return len(self.rest)


def test_a_build_that_takes_long_holds_up_no_others() -> None:
    measurer, ticks = FakeMeasurer(lambda o: 1.0), itertools.count()
    batches = [Slow(2, stuck=True), Slow(3, stuck=False)]
    made = iter(batches)
    measurer.build = lambda schedules: next(made)  # type: ignore[assignment,return-value]
    pipe = Pipeline(measurer, clock=lambda: float(next(ticks)))
    first, second = [tuple(opt("UPCAST", "m", n) for n in range(2, 2 + k)) for k in (2, 3)]
    pipe.submit([(o,) for o in first])
    pipe.submit([(o,) for o in second])
    taken = pipe.take(4, 3, 2.0)
    assert [b for _, b in taken] == ["built 1", "built 0", "built 1"] and taken[0][0] == (first[1],) and pipe.pending == 2
    assert [o for o, _ in pipe.take(4, 9, 2.0)] == [(second[2],)]
    assert pipe.take(1, 9, 2.0, limit_s=5.0) == [] and pipe.pending == 1  # the budget is over: no more waiting
    batches[0].go = True
    assert [o for o, _ in pipe.take(1, 9, 2.0)] == [(first[0],)] and pipe.pending == 0
    assert pipe.take(1, 9, 2.0) == []


@dataclass
class Beside(FakeMeasurer):
    """Does what it is asked to do meanwhile; `built` says how many builds were begun by that."""

    todo: list[Callable[[], None]] = field(default_factory=list)
    built: list[int] = field(default_factory=list)

    def meanwhile(self, todo: Callable[[], None]) -> None:
        self.todo.append(todo)

    def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]:
        before = len(self.calls)
        if self.todo:
            self.todo.pop()()
        self.built.append(len(self.calls) - before)
        return super().measure(built, incumbent_s)


def test_the_strategy_is_asked_while_candidates_are_timed() -> None:
    """Where that has a core of its own; a limit of trials counts those under way."""
    b = Bench(Budget(None, 60), measurer=Beside)
    b.run.run()
    assert isinstance(b.measurer, Beside)
    searched = sum(b.run.so_far.counts.values())
    assert sum(b.measurer.built) >= 2 and searched == 60


def test_what_is_prepared_beside_the_search_is_not_kept_time_for() -> None:
    b = Bench(Budget(100.0, 40))
    asked: list[float] = []
    b.measurer.expect_confirm = lambda: b.measurer.calls.append(("expect", b.measurer.measured))  # type: ignore[attr-defined]
    b.measurer.second_left_s = lambda estimate: asked.append(estimate) or 0.0  # type: ignore[attr-defined,func-returns-value]
    b.measurer.prepared_s = (9.0, 0.0)  # type: ignore[attr-defined]
    b.run.run()
    assert [n for what, n in b.measurer.calls if what == "expect"] == [1]  # when there is a first answer
    estimates = [a for a in asked if a != 1.0]  # (asked of one second: whether all is there)
    assert estimates and min(estimates) > 9.0 and b.run.meter.check_s < 9.0


def test_interrupt_while_deciding() -> None:
    b = Bench(Budget(None, 40))

    def duel(a: Any, c: Any, rounds: int = 8) -> Duel:
        raise KeyboardInterrupt

    def confirm(a: Any) -> Measurement:
        raise KeyboardInterrupt

    b.measurer.duel, b.measurer.confirm = duel, confirm  # type: ignore[method-assign]
    r = b.run.run()
    assert r.exit_code == 130 and r.t_min is not None and r.t_min < 0.6 * b.engine.seconds(b.space.starts()[0])
    assert len(b.book.winners) == 1


def test_start_schedules_timed_in_a_busy_moment_are_timed_again() -> None:
    """The machine was three times slower while the start schedules were measured; side by side nothing beats them."""
    b = Bench(Budget(None, 40), seconds=lambda o: 1e-3 if len(o) == 2 else 1.1e-3, noise=lambda n: 3.0 if n == 1 else 1.0)
    r = b.run.run()
    assert len(r.opts) == 2
    assert r.start_s == pytest.approx(1e-3)


def test_no_significant_win_returns_the_start_schedule() -> None:
    """All candidates look a little faster at times, and none is."""
    b = Bench(Budget(None, 50), seconds=lambda o: 1e-3, noise=lambda n: 1.0 if n == 1 else 0.9)
    r = b.run.run()
    assert r.opts == b.space.starts()[0]
    assert (r.exit_code, r.significant, r.gain) == (0, False, 1.0)
    assert "no significant win" in r.message
    assert b.book.winners[0][0].opts == r.opts


def test_a_lost_runner_keeps_what_was_found() -> None:
    def fail(n: int) -> None:
        if n == 20:
            raise MeasureError("the runner process keeps ending")

    b = Bench(Budget(None, 500), on_measure=fail)
    r = b.run.run()
    assert r.exit_code == 0 and r.t_min is not None
    assert "keeps ending" in r.message


def test_a_lost_runner_with_nothing_found_is_an_error() -> None:
    def fail(n: int) -> None:
        raise MeasureError("the runner process keeps ending")

    b = Bench(Budget(None, 500), on_measure=fail)
    with pytest.raises(MeasureError, match="keeps ending"):
        b.run.run()
    assert b.book.flushed


class Ticker:
    """A clock that moves with the measurements and, a little, with every look at it."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        self.now += 1e-4
        return self.now

    def measured(self, n: int) -> None:
        self.now += 0.2


def test_time_budget_ends_the_run_in_time() -> None:
    clock = Ticker()
    b = Bench(Budget(20.0), "random", clock=clock, on_measure=clock.measured)
    r = b.run.run()
    assert r.t_min is not None and r.seconds <= 20.5
    assert 16.0 - 2.5 <= 0.2 * b.measurer.measured <= 16.5
    assert "time budget" in r.message


def test_a_budget_too_small_for_the_start_schedule_still_gives_an_answer() -> None:
    clock = Ticker()
    r = Bench(Budget(0.01), clock=clock, on_measure=clock.measured).run.run()
    assert r.t_min is not None and r.exit_code == 0


@pytest.mark.parametrize("seconds", [0.01, 0.3])
def test_the_start_schedule_to_beat_is_measured_however_late_it_is_built(seconds: float) -> None:
    """Builds come out of order: an answer that is slower than the first start schedule would be worse than no tuning."""
    clock = Ticker()
    b = Bench(Budget(seconds), clock=clock, on_measure=clock.measured)
    start = b.space.starts()[0]
    b.run.starts.append(Start(()))  # slower than the start schedule

    def late(schedules: Sequence[Schedule]) -> SerialBuilds:
        return SerialBuilds(sorted(b.measurer._builds(schedules), key=lambda built: schedules[built[0]] == start), len(schedules))

    b.measurer.build = late  # type: ignore[method-assign]
    r = b.run.run()
    assert start in {m.opts for m, _ in b.book.rows} and r.t_min is not None and r.t_min <= 1.01 * b.engine.seconds(start)


def test_trials_are_exact() -> None:
    for trials in (1, 2, 13):
        b = Bench(Budget(None, trials))
        b.run.run()
        assert len(b.book.rows) == trials


def test_stops_at_the_roofline() -> None:
    b = Bench(Budget(None, 500, stop_at=0.5))
    b.run.job = Job(**{**{s: getattr(JOB, s) for s in JOB.__slots__}, "roofline_s": 0.7 * b.engine.optimum()})
    r = b.run.run()
    assert "50 % of the roofline was reached" in r.message
    assert b.measurer.measured < 300 and r.roofline_pct is not None and r.roofline_pct >= 50


def test_ends_when_there_is_nothing_left() -> None:
    b = Bench(Budget(None, 500), lambda s: Scripted(s, [(opt("UPCAST", "m", 2),)]))
    assert "nothing left to try" in b.run.run().message


def test_a_strategy_that_never_asks_does_not_hang() -> None:
    class Mute(Scripted):
        done = False  # type: ignore[assignment]

    assert "nothing left to try" in Bench(Budget(None, 50), lambda s: Mute(s)).run.run().message


def test_record_mode_measures_the_start_only() -> None:
    b = Bench(Budget(None, 50), strategy=None)
    r = b.run.run()
    assert b.measurer.measured == 1 and r.opts == b.space.starts()[0] and r.exit_code == 0


def test_ranked_by_the_model_before_building() -> None:
    slow, fast = (opt("UPCAST", "m", 2),), (opt("UPCAST", "m", 2), opt("UPCAST", "n", 16))
    b = Bench(Budget(None, 50), lambda s: Scripted(s, [slow, fast][:0], [slow, fast]))
    order: list[Schedule] = []
    b.measurer._builds = lambda schedules: (order.extend(schedules), FakeMeasurer._builds(b.measurer, schedules))[1]  # type: ignore[method-assign]
    b.run.run()
    assert order.index(fast) < order.index(slow)


def test_without_start_schedules_it_gets_close() -> None:
    b = Bench(Budget(None, 200), with_starts=False)
    r = b.run.run()
    assert r.t_min is not None and math.isfinite(r.t_min)
    assert r.t_min < 1.12 * b.engine.optimum()
    assert r.start_opts == ()


class Wide(FakeMeasurer):
    """Times on three devices; all that is timed again, on one."""

    width = 3

    def again(self, built: Sequence[Any]) -> list[Measurement]:
        self.calls.append(("again", [b.opts for b in built]))
        return [self._one(b) for b in built]


def test_batches_are_as_wide_as_the_measurer() -> None:
    b = Bench(Budget(None, 150))
    b.run.measurer = b.measurer = Wide(b.engine.seconds)
    r = b.run.run()
    sizes = [len(batch) for batch in b.batches]
    assert sizes[0] == 1 and 12 < max(sizes) <= 36 and sum(sizes) == r.counts["ok"] == 150
    assert [name for name, _ in b.measurer.calls].count("again") == 1


def test_deciding_takes_a_share_of_a_search_without_a_limit() -> None:
    from types import SimpleNamespace

    from tilewright.search.conclusion import DECIDING_S, Deciding

    def most(budget: Budget, spent_s: float, call_s: float) -> float:
        best = SimpleNamespace(t=call_s, typical=call_s, window_s=0.0, instead=None)
        so_far: Any = SimpleNamespace(finalists=lambda: (best,), start=lambda: best)
        meter: Any = SimpleNamespace(budget=budget, share=0.0, grace=1.0, check_s=0.1)
        made: Any = Deciding(FakeMeasurer(lambda o: 1.0), so_far, None, meter, 0.01, None)  # type: ignore[arg-type]
        return float(made._most(spent_s))

    trials = Budget(None, trials=40)
    assert most(trials, 30.0, 1e-4) == pytest.approx(10.1)
    assert 0.3 < most(trials, 0.1, 1e-4) < 1.0, "enough for a duel with the start schedule"
    assert most(trials, 0.1, 1.0) == most(trials, 1e4, 1e-4) == most(Budget(1e4), 0.1, 1e-4) == DECIDING_S
