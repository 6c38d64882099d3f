"""Adaptive repeats and paired comparison."""

import random
from dataclasses import replace

import pytest
from tilewright import named_kernels, targets
from tilewright.devices.cpu.pool import SPIN_S
from tilewright.ir.errors import UsageError
from tilewright.measure import timing as stats
from tilewright.measure.measurement_policy import MeasurementPolicy
from tilewright.measure.outcome import Duel


def paired(a, b, *rest):
    return stats.common_rounds((a, b), *rest)


class Clock:
    """An executable with scripted times."""

    def __init__(self, *seconds):
        self.seconds, self.at, self.calls = seconds, 0, 0

    def time(self, sets, vars=(), repeats=1, limit_s=float("inf")):
        out, total = [], 0.0
        for _ in range(repeats):
            out.append(self.seconds[min(self.at, len(self.seconds) - 1)])
            self.at += 1
            total += out[-1]
            if total > limit_s:
                break
        self.calls += len(out)
        return out


def run(exe, incumbent=None):
    return stats.time_adaptively(exe, [[0]], (), incumbent)


def test_tiny_kernels_repeat_often_and_long_ones_three_times():
    assert len(run(Clock(1e-6))[0]) == 2000
    assert len(run(Clock(1e-3))[0]) == 10
    assert len(run(Clock(0.1))[0]) == 3


def test_far_slower_than_the_incumbent_is_rejected_after_its_first_calls():
    exe = Clock(0.1)
    times, rejected = run(exe, incumbent=0.01)
    assert rejected and exe.calls == 1 and times == [0.1]


def test_one_slow_first_call_does_not_reject():
    times, rejected = run(Clock(0.005, 0.001), incumbent=0.001)
    assert not rejected and min(times) == 0.001


def test_three_slow_short_calls_do_not_reject():
    times, rejected = run(Clock(*[1.2e-5] * 4, 2e-6), incumbent=2e-6)
    assert not rejected and min(times) == 2e-6
    slow = Clock(1.2e-5)
    times, rejected = run(slow, incumbent=2e-6)
    assert rejected and slow.calls * 1.2e-5 < 0.006


def test_losers_get_less_time_than_contenders():
    contender, loser, winner = Clock(1e-4), Clock(2e-4), Clock(0.9e-4)
    for exe in (contender, loser, winner):
        run(exe, 1e-4)
    assert loser.calls * 2e-4 < 0.4 * contender.calls * 1e-4
    assert contender.calls * 1e-4 < 0.6 * winner.calls * 0.9e-4


def noise(rng, scale):
    return 1 + abs(rng.gauss(0, scale))


@pytest.mark.parametrize("difference,significant", [(0.9, True), (1.0, False), (1.1, True)])
def test_a_difference_is_significant_when_it_exceeds_the_scatter(difference, significant):
    rng = random.Random(1)
    pairs = [(difference * noise(rng, 0.01), noise(rng, 0.01)) for _ in range(8)]
    ratio, said = stats.compare(pairs, 2)
    assert said is significant
    assert ratio == pytest.approx(difference, rel=0.03)


def test_a_difference_within_the_scatter_is_not_significant():
    rng = random.Random(2)
    _, said = stats.compare([(0.99 * noise(rng, 0.3), noise(rng, 0.3)) for _ in range(8)])
    assert not said


def test_too_few_rounds_say_nothing():
    assert stats.compare([(1.0, 2.0), (1.0, 2.0)]) == (pytest.approx(0.5), False)


def test_false_positives_are_rare():
    rng = random.Random(3)
    trials = [stats.compare([(noise(rng, 0.05), noise(rng, 0.05)) for _ in range(8)])[1] for _ in range(400)]
    assert sum(trials) <= 32  # 5 % expected, both sides together


def test_above_one_thread_every_burst_sleeps_first_and_drops_its_start():
    slept = []
    a, b = Clock(1e-3), Clock(1e-3)
    a.seconds = (9.0, *([1e-3] * 10_000))
    pairs = paired(Clock(1e-3), Clock(2e-3), [[0]], (), 2, 4, slept.append)
    assert len(slept) == 8 and min(slept) >= 20 * SPIN_S, "a worker that still spins slows its rival"
    assert pairs == [(1e-3, 2e-3)] * 4
    slept.clear()
    paired(a, b, [[0]], (), 1, 3, slept.append)
    assert slept == []


class Drifting:
    """Takes `seconds`, and after every `period` calls of all together twice as long, for as many calls."""

    calls = 0

    def __init__(self, seconds, period):
        self.seconds, self.period = seconds, period

    def time(self, sets, vars=(), repeats=1, limit_s=0.0):
        out = []
        for _ in range(repeats):
            out.append(self.seconds * (1 + Drifting.calls // self.period % 2))
            Drifting.calls += 1
        return out


def test_load_that_comes_and_goes_meets_both_alike_on_one_thread():
    Drifting.calls = 0
    pairs = paired(Drifting(5e-3, 35), Drifting(5e-3, 35), [[0]], (), 1, 9, lambda s: None)
    assert pairs == [(5e-3, 5e-3)] * 9, "each has quiet calls in each round"


def test_a_duel_ends_when_more_rounds_cannot_change_it():
    plain = paired(Clock(1e-3), Clock(1.1e-3), [[0]], (), 1, 9, lambda s: None)
    assert len(plain) == 5 and stats.compare(plain) == (pytest.approx(1 / 1.1), True)
    assert len(paired(Clock(1e-3), Clock(1.01e-3), [[0]], (), 1, 9, lambda s: None)) == 9, "a small one is fought out"


def test_a_race_goes_on_without_those_that_are_plainly_behind():
    rows = stats.common_rounds([Clock(t * 1e-3) for t in (1.2, 1.0, 1.01, 1.02)], [[0]], (), 1, 9, lambda s: None)
    assert len(rows) == 9 and [sum(t == t for t in column) for column in zip(*rows)] == [5, 9, 9, 9]
    assert stats.column_pairs(rows, 0, 1) == [(1.2e-3, 1.0e-3)] * 5
    assert len(stats.common_rounds([Clock(t * 1e-3) for t in (1.2, 1.0, 1.3)], [[0]], (), 1, 9, lambda s: None)) == 5


class Sized(Clock):
    """Takes one time on a single set of operands, which stays in the caches, and another on several in turns."""

    def __init__(self, near, far):
        super().__init__(near)
        self.near, self.far, self.seen = near, far, []

    def time(self, sets, vars=(), repeats=1, limit_s=0.0):
        self.seen.append(len(sets))
        return [self.far if len(sets) > 1 else self.near] * repeats


@pytest.mark.parametrize("threads", [1, 2])
def test_a_duel_is_fought_in_the_caches_and_from_memory(threads):
    """What is faster from memory and slower on what was just made does not win, and the other way round neither."""
    sets = [[0], [1], [2]]
    a, b = Sized(2e-3, 1e-3), Sized(1e-3, 1.5e-3)
    pairs = paired(a, b, sets, (), threads, 9, lambda s: None)
    assert pairs == [(1e-3, 1.5e-3), (2e-3, 1e-3)] * 4 + [(1e-3, 1.5e-3)]
    assert set(a.seen) == {1, 3} and not stats.compare(pairs)[1]
    better = paired(Sized(1e-3, 1e-3), b, sets, (), threads, 9, lambda s: None)
    assert stats.compare(paired(Sized(0.9e-3, 1e-3), b, sets, (), threads, 9, lambda s: None))[1]
    assert not stats.compare(better[1::2])[1], "as fast in the caches"


@pytest.mark.parametrize(("near", "far"), [(2.5, 0.98), (0.4, 1.02), (1.3, 0.99), (1.02, 0.5)])
def test_who_is_ahead_in_one_place_and_far_behind_in_the_other_does_not_win(near, far):
    a, b = Sized(near * 1e-3, far * 1e-3), Sized(1e-3, 1e-3)
    for rounds in (8, 9):
        pairs = paired(a, b, [[0], [1], [2]], (), 1, rounds, lambda s: None)
        ratio, said = stats.compare(pairs, 2)
        assert ratio == pytest.approx((near * far) ** 0.5)
        assert not said or (ratio < 1) == (near * far < 1)


@pytest.mark.parametrize(
    ("near", "far", "torn"), [(1.2, 0.7, True), (0.7, 1.2, True), (1.01, 0.7, False), (0.9, 0.7, False), (1.2, 1.1, False)]
)
def test_a_duel_is_torn_where_a_gain_in_one_place_is_a_loss_in_the_other(near, far, torn):
    a, b = Sized(near * 1e-3, far * 1e-3), Sized(1e-3, 1e-3)
    for rounds in (4, 8, 9):
        assert stats.torn(paired(a, b, [[0], [1]], (), 1, rounds, lambda s: None)) == torn
    assert not stats.torn([(1.2, 1.0)]), "one round is of one place"
    assert not stats.torn([(0.8, 1.0), (1.1, 1.0), (0.8, 1.0)]), "one disturbed round says nothing of its place"
    assert not stats.torn([(0.8, 1.0), (1.1, 1.0), (0.8, 1.0), (0.99, 1.0)]), "nor do two that do not agree"


def test_bursts_have_twenty_calls():
    exe = Clock(1e-3)
    paired(exe, Clock(1e-3), [[0]], (), 2, 1, lambda s: None)
    assert exe.calls >= 20


@pytest.mark.parametrize("values,middle", [([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 2.0, 3.0], 2.5)])
def test_median(values, middle):
    assert stats.median(values) == middle


def test_noise_is_the_interval_of_the_ratio():
    assert stats.noise([(1.0, 1.0)] * 5) == 0.0
    steady, loose = ([(1.0 + s * (-1) ** i, 1.0) for i in range(6)] for s in (0.01, 0.1))
    assert 0.005 < stats.noise(steady) < 0.02 < 0.05 < stats.noise(loose) < 0.2
    assert stats.noise([(1.0, 1.0)] * 2) == float("inf"), "two rounds say nothing of their scatter"
    rng = random.Random(3)
    held = 0
    for _ in range(200):
        pairs = [(1.1 * rng.lognormvariate(0, 0.03), rng.lognormvariate(0, 0.03)) for _ in range(7)]
        held += abs(stats.compare(pairs)[0] / 1.1 - 1) < stats.noise(pairs)
    assert held > 170


def test_a_rest_lasts_until_no_thread_works():
    def rested(cores):
        """How often is slept where so many cores are used in each rest."""
        at, slept = [0.0], []

        def sleep(seconds):
            at[0] += seconds * cores[min(len(slept), len(cores) - 1)]
            slept.append(seconds)

        stats.rest(sleep, lambda: at[0])
        return slept

    assert rested([0.01]) == [stats.REST_S], "asleep at once"
    assert len(rested([1.0, 0.7, 0.0])) == 3, "threads that spin, as those of OpenMP"
    assert len(rested([1.0])) == stats.MOST_RESTS, "and one that never stops"


def test_a_long_call_well_behind_is_made_twice_and_a_disturbed_one_gets_its_window():
    behind = Clock(0.02)
    times, rejected = run(behind, incumbent=0.01)
    assert not rejected and times == [0.02, 0.02] and behind.calls == 2
    disturbed = Clock(0.025, 0.011)
    times, rejected = run(disturbed, incumbent=0.01)
    assert not rejected and min(times) == 0.011 and disturbed.calls == 5


def test_what_is_known_to_be_short_is_not_called_to_find_that_out():
    known, unknown = Clock(1e-3), Clock(1e-3)
    assert stats.time_adaptively(known, [[0]], (), 1e-4, ran_s=2e-3) == (stats.time_adaptively(unknown, [[0]], (), 1e-4)[0], True)
    assert known.calls == unknown.calls - 1


def test_a_policy_is_read_strictly_and_refused_where_it_cannot_be_honoured(monkeypatch):
    small, large = (named_kernels.make("sum_rows", {"m": m, "n": 1024}, "float32") for m in (1, 1 << 20))
    target = replace(targets.named("v3"), l3=1 << 25)
    assert str(MeasurementPolicy.of("memory,busy")) == "memory,busy" and MeasurementPolicy.of("busy").operands == "program"
    monkeypatch.setattr("tilewright.measure.measurement_policy.usable_cores", lambda: 2)
    MeasurementPolicy.of("cache,busy").check(small, {}, target, 1)
    for text, kernel, threads, said in (
        ("busy", small, 2, "a core beside the 2"),
        ("cache", large, 1, "the last cache holds"),
        ("memory", small, 1, "larger operands"),
    ):
        with pytest.raises(UsageError, match=said):
            MeasurementPolicy.of(text).check(kernel, {}, target, threads)
    with pytest.raises(UsageError, match="cannot read the policy 'hot'"):
        MeasurementPolicy.of("hot")
    assert MeasurementPolicy.of("cache").sets(small, {}, target) == 1 < MeasurementPolicy.of("memory").sets(small, {}, target)


def test_a_duel_says_what_it_found_in_either_place():
    pairs = [(1.2, 1.0), (0.9, 1.0), (1.2, 1.0), (0.9, 1.0)]
    assert Duel.of(pairs, 0, True).places == pytest.approx((1.2, 0.9)) and Duel.of(pairs, 0, False).places is None
