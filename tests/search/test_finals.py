"""Who wins in the finals, and the answer so far while a search goes on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic import FakeBuilt, FakeMeasurer, measured, space
from tilewright import cache as caches
from tilewright.cache import Cache, Key
from tilewright.cache.keys import DEFAULT_POLICY
from tilewright.ir.errors import MeasureError
from tilewright.measure.outcome import Duel, DuelError, Measurement, Outcome, Race
from tilewright.opts.opt import Opt, opt
from tilewright.search import Budget, Job, Result, Silent, Start, TuningRun, create
from tilewright.search import conclusion as checkpoints
from tilewright.search.budget import Meter
from tilewright.search.cache_recorder import CacheRecorder, NoRecord
from tilewright.search.finals import Finalist, SecondChecks, decide, rounds
from tilewright.search.run_state import RunState

START = (opt("PARALLEL", "m"), opt("UPCAST", "n", 8))
A = (*START, opt("UPCAST", "m", 2))
B = (*START, opt("UPCAST", "m", 3))
C = (*START, opt("UPCAST", "m", 4))
D = (*START, opt("UPCAST", "m", 6))


def finalist(opts: tuple[object, ...], t: float) -> Finalist:
    return Finalist(FakeBuilt(opts, str(opts)), measured(opts, t))  # type: ignore[arg-type]


def judge(true: dict[tuple[object, ...], float], **script: object) -> FakeMeasurer:
    return FakeMeasurer(seconds=lambda o: true[o], **script)  # type: ignore[arg-type]


def plenty() -> float:
    return 60.0


def test_the_faster_wins() -> None:
    m = judge({START: 1e-3, A: 0.9e-3})
    d = decide(m, [finalist(A, 0.9e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == A
    assert (d.significant, d.paired, d.confirmed) == (True, True, True)
    assert d.ratio == pytest.approx(0.9)


def test_a_lucky_measurement_does_not_beat_the_start_schedule() -> None:
    m = judge({START: 1e-3, A: 1.02e-3})
    d = decide(m, [finalist(A, 0.8e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == START
    assert not d.significant
    assert "no significant win" in d.message and "1.020" in d.message


def test_a_difference_within_the_noise_is_no_win() -> None:
    m = judge({START: 1e-3, A: 0.97e-3}, significance=0.05)
    d = decide(m, [finalist(A, 0.9e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == START


def test_rivals_are_settled_by_duels() -> None:
    m = judge({START: 1e-3, A: 0.80e-3, B: 0.70e-3, C: 0.75e-3})
    d = decide(m, [finalist(A, 0.70e-3), finalist(B, 0.72e-3), finalist(C, 0.73e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == B


def test_a_tie_is_decided_alike_whoever_measured_faster() -> None:
    """The fewest instructions win, then the text; the others are named with their intervals."""
    m = judge({START: 1e-3, A: 0.700e-3, B: 0.705e-3, C: 0.9e-3}, significance=0.01)
    for first, second in ((A, B), (B, A)):
        finalists = [finalist(first, 0.70e-3), finalist(second, 0.71e-3), finalist(C, 0.72e-3)]
        d = decide(m, finalists, finalist(START, 1e-3), plenty, length=lambda o: 9.0 if o == A else 5.0)
        assert d.winner is not None and d.winner.measurement.opts == B
        assert [(t.opts, round(t.ratio, 3)) for t in d.ties] == [(A, 0.993)] and d.ties[0].low <= d.ties[0].ratio <= d.ties[0].high
        assert decide(m, finalists, finalist(START, 1e-3), plenty).winner.measurement.opts == A  # type: ignore[union-attr]


@pytest.mark.parametrize("disturbed", [A, B, C, D])
def test_all_that_may_win_race_whoever_was_disturbed_before(disturbed: tuple[object, ...]) -> None:
    """A, B and C are level, D is behind: whatever single times said, the simplest of the three wins, and names the other two."""
    true = {START: 1.0e-3, A: 0.700e-3, B: 0.703e-3, C: 0.706e-3, D: 0.760e-3}
    m = judge(true)
    rng = random.Random(1)

    def race(built: Sequence[FakeBuilt], rounds: int, limit_s: float) -> Race:
        return Race(tuple(tuple(true[b.opts] * rng.gauss(1.0, 0.01) for b in built) for _ in range(rounds)), 1, False)

    m.race = race  # type: ignore[method-assign]
    finalists = sorted((finalist(o, true[o] * (1.5 if o == disturbed else 1.0)) for o in (A, B, C, D)), key=lambda f: f.t)
    d = decide(m, finalists, finalist(START, 1e-3), plenty, length=lambda o: {A: 7.0, B: 9.0, C: 5.0, D: 1.0}[o])
    assert d.winner is not None and d.winner.measurement.opts == C and d.significant
    assert {t.opts for t in d.ties} == {A, B} and all(t.low < t.ratio < t.high for t in d.ties)
    assert [c[0] for c in m.calls] == ["confirm"], "no duel is fought beside the race"


def by_turns(true: dict[tuple[object, ...], tuple[float, float]], spread: float) -> Callable[..., Race]:
    """Races of what takes one time with operands from memory and another with operands in the caches, give or take `spread`."""
    rng = random.Random(3)

    def race(built: Sequence[FakeBuilt], rounds: int, limit_s: float) -> Race:
        asked.append([b.opts for b in built])
        rows = tuple(tuple(true[b.opts][r % 2] * rng.gauss(1.0, spread) for b in built) for r in range(rounds))
        return Race(rows, 1, True)

    asked: list[list[tuple[object, ...]]] = []
    race.asked = asked  # type: ignore[attr-defined]
    return race


def test_what_operands_from_memory_and_from_the_caches_differ_by_is_no_noise() -> None:
    """B is 7.5 % slower, all of it from memory; C is ahead in the caches and far behind from memory: neither is a tie."""
    true = {START: (2e-3, 2e-3), A: (1.0e-3, 0.5e-3), B: (1.16e-3, 0.5e-3), C: (1.4e-3, 0.46e-3), D: (1.0e-3, 0.501e-3)}
    m = judge({o: t for o, (t, _) in true.items()})
    m.race = race = by_turns(true, 0.004)  # type: ignore[method-assign]
    d = decide(m, [finalist(o, true[o][0]) for o in (A, B, C, D)], finalist(START, 2e-3), plenty, length=lambda o: 1.0 if o == A else 0.0)
    assert d.winner is not None and d.winner.measurement.opts == D
    assert [t.opts for t in d.ties] == [A] and len(race.asked) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("calmer", [True, False])
def test_who_may_be_level_give_or_take_much_is_fought_again_before_it_is_called_a_tie(calmer: bool) -> None:
    true = {START: (2e-3, 2e-3), A: (1e-3, 1e-3), B: (1.075e-3, 1.075e-3)}
    m = judge({o: t for o, (t, _) in true.items()})
    noisy, later = by_turns(true, 0.3), by_turns(true, 0.005 if calmer else 0.3)
    m.race = lambda built, rounds, limit_s: (later if noisy.asked else noisy)(built, rounds, limit_s)  # type: ignore[attr-defined, method-assign]
    d = decide(m, [finalist(A, 1e-3), finalist(B, 1e-3)], finalist(START, 2e-3), plenty)
    assert set(later.asked[0]) == {A, B} and len(later.asked) == 1  # type: ignore[attr-defined]
    assert d.ties == (), "a tie is what is known to be one"
    assert d.winner is not None and (d.winner.measurement.opts == A or not calmer)


class Racing(FakeMeasurer):
    races = True


def test_where_time_is_short_all_that_are_near_race_and_none_is_timed_again() -> None:
    """Timing few of them again would leave out those that were disturbed once."""
    true: dict[Any, float] = {START: 1e-5} | {(*START, opt("UPCAST", "m", i)): 1e-5 + i * 1e-8 for i in range(2, 12)}
    m = Racing(seconds=lambda o: true[o])
    m.race = race = by_turns({o: (t, t) for o, t in true.items()}, 0.001)  # type: ignore[method-assign]
    so_far = RunState()
    so_far.first = START
    for opts, t in true.items():
        so_far.keep(FakeBuilt(opts, str(opts)), measured(opts, t), start=opts == START)
    meter = Meter(Budget(None, 16), clock=lambda: 0.0)
    decision = checkpoints.Deciding(m, so_far, NoRecord(), meter, 0.5, SecondChecks(m.confirm)).decide(quick=False)
    assert decision.winner is not None and [c[0] for c in m.calls] == ["confirm"]
    assert [len(asked) for asked in race.asked] == [11]  # type: ignore[attr-defined]


def test_who_is_wrong_in_a_race_is_out_and_the_others_race_again() -> None:
    true = {START: 1.0e-3, A: 0.6e-3, B: 0.7e-3}

    def race(built: Sequence[FakeBuilt], rounds: int, limit_s: float) -> Race:
        if any(b.opts == A for b in built):
            raise DuelError("cannot compare: one is wrong", next(i for i, b in enumerate(built) if b.opts == A))
        return Race(tuple(tuple(true[b.opts] for b in built) for _ in range(6)), 1, False)

    m = judge(true)
    m.race = race  # type: ignore[method-assign]
    d = decide(m, [finalist(A, 0.6e-3), finalist(B, 0.7e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == B and [f.opts for f in d.failed] == [A]


def test_a_simpler_schedule_that_is_not_told_from_the_start_schedule_does_not_hide_a_faster_one() -> None:
    m = judge({START: 0.712e-3, A: 0.700e-3, B: 0.706e-3}, significance=0.01)
    d = decide(m, [finalist(A, 0.70e-3), finalist(B, 0.71e-3)], finalist(START, 0.712e-3), plenty, length=lambda o: 9.0 if o == A else 5.0)
    assert d.winner is not None and d.winner.measurement.opts == A


def test_the_next_best_when_the_winner_fails_the_second_check() -> None:
    m = judge({START: 1e-3, A: 0.7e-3, B: 0.8e-3}, second_check=lambda o: Outcome.wrong if o == A else Outcome.ok)
    d = decide(m, [finalist(A, 0.7e-3), finalist(B, 0.8e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == B
    assert [f.opts for f in d.failed] == [A]


def test_the_start_schedule_when_all_fail_the_second_check() -> None:
    m = judge({START: 1e-3, A: 0.7e-3}, second_check=lambda o: Outcome.crash if o == A else Outcome.ok)
    d = decide(m, [finalist(A, 0.7e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == START
    assert "no candidate of the search survived" in d.message


def test_nothing_when_even_the_start_schedule_fails() -> None:
    m = judge({START: 1e-3}, second_check=lambda o: Outcome.wrong)
    d = decide(m, [], finalist(START, 1e-3), plenty)
    assert d.winner is None
    assert "start schedule failed the second check (wrong)" in d.message


def failing_duel() -> Callable[..., Duel]:
    def duel(a: FakeBuilt, b: FakeBuilt, rounds: int = 8) -> Duel:
        raise MeasureError("cannot compare: the first is wrong")

    return duel


def test_a_champion_that_fails_in_the_duel_is_found_out() -> None:
    m = judge({START: 1e-3, A: 0.7e-3}, second_check=lambda o: Outcome.wrong if o == A else Outcome.ok)
    m.duel = failing_duel()  # type: ignore[method-assign]
    d = decide(m, [finalist(A, 0.7e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == START
    assert [f.opts for f in d.failed] == [A]


def test_a_start_schedule_that_fails_in_the_duel_does_not_answer() -> None:
    m = judge({START: 1e-3, A: 0.7e-3}, second_check=lambda o: Outcome.wrong if o == START else Outcome.ok)
    m.duel = failing_duel()  # type: ignore[method-assign]
    d = decide(m, [finalist(A, 0.7e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == A and d.confirmed


def now_and_then(m: FakeMeasurer, bad: tuple[object, ...]) -> FakeMeasurer:
    """`bad` is right whenever it is checked, and wrong in its duels."""
    right = m.duel

    def duel(a: FakeBuilt, b: FakeBuilt, rounds: int = 8) -> Duel:
        if bad in (a.opts, b.opts):
            raise DuelError("cannot compare: one is wrong", int(b.opts == bad))
        return right(a, b, rounds)

    m.duel = duel  # type: ignore[method-assign]
    return m


def test_who_was_wrong_in_a_duel_is_out_however_right_it_is_later() -> None:
    m = now_and_then(judge({START: 1e-3, A: 0.7e-3, B: 0.8e-3}), A)
    for finalists in ([A], [A, B]):
        d = decide(m, [finalist(o, 0.7e-3 if o == A else 0.72e-3) for o in finalists], finalist(START, 1e-3), plenty)
        assert d.winner is not None and d.winner.measurement.opts == (B if B in finalists else START)
        assert [(f.opts, f.outcome) for f in d.failed] == [(A, Outcome.wrong)]


def test_a_rival_that_is_wrong_in_a_duel_is_out_too() -> None:
    m = now_and_then(judge({START: 1e-3, A: 0.8e-3, B: 0.7e-3}), B)
    d = decide(m, [finalist(A, 0.7e-3), finalist(B, 0.71e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == A
    assert [f.opts for f in d.failed] == [B]


def test_a_start_schedule_that_is_wrong_in_a_duel_does_not_answer() -> None:
    m = now_and_then(judge({START: 1e-3, A: 0.9e-3}), START)
    d = decide(m, [finalist(A, 0.9e-3)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == A and d.confirmed
    assert [f.opts for f in d.failed] == [START]


def test_a_decision_says_what_was_checked() -> None:
    m = judge({START: 1e-3, A: 0.1e-3})
    m.confirm = lambda b: replace(measured(b.opts, 0.1e-3), checks=("whole", "random"))  # type: ignore[method-assign]
    f = finalist(A, 0.1e-3)
    f = replace(f, measurement=replace(f.measurement, checks=("random",)))
    d = decide(m, [f], finalist(START, 1e-3), plenty)
    assert d.confirmed and d.checks == ("random", "whole")
    late = decide(m, [f], finalist(START, 1e-3), lambda: -2.0)
    assert not late.confirmed and late.checks == ("random",)


def test_what_was_cleared_is_no_best_and_no_finalist() -> None:
    so_far = RunState()
    odd, good = replace(measured(A, 1e-4), cleared=True), measured(B, 1e-3)
    for m, start in ((odd, False), (replace(odd, opts=START), True), (good, False)):
        assert so_far.improves(m, "test", 0.0) == (m is good)
        so_far.keep(FakeBuilt(m.opts, str(m.opts)), m, start)
    assert so_far.best is good and so_far.start() is None
    assert [f.built.opts for f in so_far.finalists()] == [B]
    so_far.settle([Finalist(FakeBuilt(B, "b"), replace(good, cleared=True))])
    assert so_far.finalists() == []


def test_a_start_schedule_that_is_far_behind_takes_few_rounds() -> None:
    m = judge({START: 1e-3, A: 1e-5})
    d = decide(m, [finalist(A, 1e-5)], finalist(START, 1e-3), plenty)
    assert d.winner is not None and d.winner.measurement.opts == A and d.paired
    assert [c[0] for c in m.calls] == ["duel", "confirm"]
    lucky = decide(judge({START: 1e-3, A: 2e-3}), [finalist(A, 1e-5)], finalist(START, 1e-3), plenty)
    assert lucky.winner is not None and lucky.winner.measurement.opts == START, "one measurement is none, however good"


@pytest.mark.parametrize(("t", "wins"), [(0.97e-3, False), (0.21e-3, False), (0.19e-3, True)])
def test_without_time_for_a_duel_the_start_schedule_answers_unless_it_is_far_behind(t: float, wins: bool) -> None:
    m = judge({START: 1e-3, A: t})
    d = decide(m, [finalist(A, t)], finalist(START, 1e-3), lambda: -2.0)
    assert d.winner is not None and (d.winner.measurement.opts == A) == wins == d.significant and not d.paired
    assert m.calls == []
    assert "no time to compare" in d.message


def test_a_duel_on_the_way_counts_where_there_is_no_time_for_another() -> None:
    m = judge({START: 1e-3, A: 0.8e-3})
    checks = SecondChecks(m.confirm)
    one, start = finalist(A, 0.8e-3), finalist(START, 1e-3)
    assert decide(m, [one], start, plenty, checks=checks).winner is one
    later = decide(m, [one], start, lambda: -1e9, checks=checks)
    assert later.winner is one and later.paired and later.significant


def test_what_is_slower_than_the_quick_start_does_not_win() -> None:
    """It looked slow once, and nothing else asked."""
    m = judge({START: 1e-3, A: 0.8e-3, B: 0.6e-3})
    quick = finalist(B, 5e-3)
    d = decide(m, [finalist(A, 0.8e-3), quick], finalist(START, 1e-3), plenty, quick=quick)
    assert d.winner is quick


def test_the_second_check_is_made_even_a_little_late() -> None:
    m = judge({START: 1e-3, A: 0.9e-3})
    d = decide(m, [finalist(A, 0.9e-3)], finalist(START, 1e-3), lambda: -0.45)
    assert [c[0] for c in m.calls] == ["confirm"] and d.confirmed


def test_without_a_start_schedule_the_best_wins() -> None:
    m = judge({A: 1e-3, B: 1.1e-3})
    d = decide(m, [finalist(A, 1e-3), finalist(B, 1.04e-3)], None, plenty)
    assert d.winner is not None and d.winner.measurement.opts == A
    assert decide(m, [], None, plenty).winner is None


def test_rounds_fit_the_time() -> None:
    fast, slow = finalist(A, 1e-4), finalist(B, 0.5)
    assert rounds(fast, fast, 5.0) == 9
    assert rounds(slow, slow, 5.0) == 0
    assert 3 <= rounds(fast, fast, 0.2) < 9


def test_the_fastest_start_schedule_must_beat_the_one_that_is_used_without_tuning() -> None:
    """It was fastest by a single measurement: a duel says whether it is."""
    other, first = finalist(A, 0.9e-3), finalist(START, 1e-3)
    lucky = decide(judge({START: 1e-3, A: 1.05e-3}), [first], other, plenty, untuned=first)
    assert lucky.winner is first and lucky.start is first and not lucky.significant
    faster = decide(judge({START: 1e-3, A: 0.9e-3}), [first], other, plenty, untuned=first)
    assert faster.winner is other and faster.start is other


def test_a_candidate_must_beat_the_start_schedule_that_is_used_without_tuning() -> None:
    """Not only another start schedule, which was measured as faster than it is."""
    other, first = finalist(A, 0.9e-3), finalist(START, 1e-3)
    d = decide(judge({START: 1e-3, A: 1.2e-3, B: 1.1e-3}), [finalist(B, 0.88e-3), first], other, plenty, untuned=first)
    assert d.winner is first
    d = decide(judge({START: 1e-3, A: 1.2e-3, B: 0.8e-3}), [finalist(B, 0.88e-3), first], other, plenty, untuned=first)
    assert d.winner is not None and d.winner.measurement.opts == B and d.ratio == pytest.approx(0.8)


def test_without_time_for_a_duel_the_start_schedule_that_is_used_without_tuning_answers() -> None:
    first, other = finalist(START, 1e-3), finalist(A, 0.5e-3)
    d = decide(judge({START: 1e-3, A: 0.5e-3}), [first], other, lambda: -1e9, untuned=first)
    assert d.winner is first and d.start is first


def test_the_start_schedule_that_is_used_without_tuning_stays_for_the_finals() -> None:
    so_far = RunState()
    so_far.first = START
    so_far.keep(FakeBuilt(START, "s"), measured(START, 2e-3), start=True)  # type: ignore[arg-type]
    for i in range(2, 7):
        opts = (*START, opt("UPCAST", "m", i))
        so_far.keep(FakeBuilt(opts, str(i)), measured(opts, 1e-3), start=True)  # type: ignore[arg-type]
    so_far.keep(FakeBuilt(C, "c"), measured(C, 1e-3), start=False)  # type: ignore[arg-type]
    assert START in [f.built.opts for f in so_far.contenders()]
    assert so_far.untuned() is not None and so_far.untuned().built.opts == START  # type: ignore[union-attr]


@pytest.mark.parametrize(("ratio", "left", "fought"), [(0.6, 60.0, [9, 27]), (0.97, 60.0, [9]), (0.6, 0.45, [9])])
def test_a_doubtful_win_is_fought_again_where_there_is_time(ratio: float, left: float, fought: list[int]) -> None:
    m, seen = judge({START: 1e-3, A: ratio * 1e-3}), []

    def duel(a: FakeBuilt, b: FakeBuilt, rounds: int = 8) -> Duel:
        seen.append(rounds)
        return Duel(ratio, rounds > 9, ratio * 1e-3, 1e-3, rounds)

    m.duel = duel  # type: ignore[method-assign]
    d = decide(m, [finalist(A, ratio * 1e-3)], finalist(START, 1e-3), lambda: left)
    assert seen == fought
    assert d.winner is not None and d.winner.measurement.opts == (A if len(fought) > 1 else START)


@pytest.mark.parametrize(("second", "winner"), [(False, B), (True, START)])
def test_who_is_behind_the_start_schedule_in_one_place_makes_way_for_the_next(second: bool, winner: tuple[object, ...]) -> None:
    """A is 0.6 of the start schedule by both places' mean, but slower in one of them; B is 0.8, and torn as well or not."""
    m, seen = judge({START: 1e-3, A: 0.6e-3, B: 0.8e-3}), []
    torn = {A: True, B: second}

    def duel(a: FakeBuilt, b: FakeBuilt, rounds: int = 8) -> Duel:
        seen.append((a.opts, b.opts, rounds))
        ratio = {A: 0.6, B: 0.8, START: 1.0}[a.opts] / {A: 0.6, B: 0.8, START: 1.0}[b.opts]
        return Duel(ratio, not torn.get(a.opts), ratio * 1e-3, 1e-3, rounds, torn=torn.get(a.opts, False))

    m.duel = duel  # type: ignore[method-assign]
    d = decide(m, [finalist(A, 0.6e-3), finalist(B, 0.8e-3)], finalist(START, 1e-3), lambda: 60.0)
    assert d.winner is not None and d.winner.measurement.opts == winner
    assert seen == [(A, START, 9), (B, START, 9)], "nobody is fought twice over it"
    assert not d.failed and ("not in both" in d.message) == second


def test_who_made_way_stands_again_where_the_start_schedule_falls() -> None:
    m = judge({START: 1e-3, A: 0.6e-3}, second_check=lambda o: Outcome.wrong if o == START else Outcome.ok)
    m.duel = lambda a, b, rounds=8: Duel(0.6, False, 0.6e-3, 1e-3, rounds, torn=True)  # type: ignore[method-assign]
    d = decide(m, [finalist(A, 0.6e-3)], finalist(START, 1e-3), lambda: 60.0)
    assert d.winner is not None and d.winner.measurement.opts == A


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
    r = Run(store, Budget(1000.0), dies=3 * checkpoints.LONGEST_S)
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
    measured = {x.opts for x in store.rows() if x.outcome in ("ok", "slow", "wrong")}
    assert sum(result.counts[o] for o in ("ok", "slow", "wrong") if o in result.counts) == len(measured), "each counts once"
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
