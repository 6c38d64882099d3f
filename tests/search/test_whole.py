"""Winners are judged in the whole program: what helps is kept, what hurts is not, and what cannot be told apart is judged together."""

from __future__ import annotations

import random

import pytest
from tilewright.search.whole import Acceptance, Winner, accept


class Program:
    """A program whose calls take a number of seconds on a clock of its own. `effects`: by winner what a call takes more with it; `together`: what
    all of them take more where all run."""

    def __init__(self, effects: list[float], base: float = 0.01, noise: float = 0.001, together: float = 0.0, seed: int = 0) -> None:
        self.effects, self.base, self.noise, self.together = effects, base, noise, together
        self.random, self.now, self.calls = random.Random(seed), 0.0, 0
        self.winners: frozenset[int] = frozenset()
        self.known: set[frozenset[int]] = set()

    def use(self, winners: frozenset[int]) -> bool:
        self.winners = winners
        new = winners not in self.known
        self.known.add(winners)
        return new

    def call(self) -> float:
        seconds = self.base + sum(self.effects[i] for i in self.winners) + self.noise * abs(self.random.gauss(0, 1))
        if len(self.winners) == len(self.effects):
            seconds += self.together
        self.now += seconds
        self.calls += 1
        return seconds

    def judge(self, seconds: float = 60.0) -> Acceptance:
        winners = [Winner(f"k{i}", 1, 0.005, 0.005 + e) for i, e in enumerate(self.effects)]
        return accept(winners, self, seconds, lambda: self.now)


def test_what_helps_is_kept_and_what_hurts_is_not() -> None:
    program = Program([-0.002, 0.001, -0.001])
    found = program.judge()
    assert found.kept == {0, 2} and program.winners == {0, 2}
    assert found.judged[0].gain == pytest.approx(0.01 / 0.008, rel=0.1) and found.judged[1].gain < 1
    assert found.before_s > found.after_s and found.gain == pytest.approx(10 / 7, rel=0.1)
    assert found.predicted_s == pytest.approx(found.before_s - 0.003)


def test_a_winner_that_wins_alone_and_loses_in_the_program_is_not_used_there() -> None:
    program = Program([0.002])
    found = accept([Winner("k", 4, 0.002, 0.001)], program, 10.0, lambda: program.now)
    assert (
        not found.kept and found.total is None and found.before_s == found.after_s == found.predicted_s and program.winners == frozenset()
    )


@pytest.mark.parametrize("seed", range(4))
def test_many_that_are_within_the_noise_are_judged_together(seed: int) -> None:
    program = Program([-0.0001] * 12, noise=0.002, seed=seed)
    found = program.judge(30.0)
    assert len(found.kept) >= 10 and max(j.together for j in found.judged) > 1 and found.gain > 1.05


@pytest.mark.parametrize("seed", range(4))
def test_what_does_nothing_is_not_kept_more_often_than_noise_allows(seed: int) -> None:
    found = Program([0.0] * 6, noise=0.002, seed=seed).judge()
    assert len(found.kept) <= 1 and found.gain < 1.03


@pytest.mark.parametrize("seed", range(4))
def test_what_the_noise_hides_is_used_unless_the_whole_speaks_against_it(seed: int) -> None:
    assert Program([-0.0002] * 3, noise=0.02, seed=seed).judge(5.0).kept
    hurts, promised = Program([0.0006] * 3, seed=seed), [Winner(f"k{i}", 1, 0.001, 0.0008) for i in range(3)]
    assert not accept(promised, hurts, 5.0, lambda: hurts.now).kept


def test_nothing_is_kept_where_the_whole_is_slower_in_the_end() -> None:
    program = Program([-0.001, -0.001], together=0.004)
    found = program.judge()
    assert len(found.kept) == 1 and found.gain > 1 and program.winners == found.kept


def test_it_keeps_to_its_time_and_makes_the_fewest_rounds_in_any_case() -> None:
    program = Program([-0.0002] * 40)
    assert program.judge(2.0).kept == set(range(40)) and program.now < 6
    short = Program([-0.002])
    assert short.judge(0.0).kept == {0} and short.now < 2


def test_what_promises_nothing_is_not_carried_by_others() -> None:
    program = Program([-0.001, -0.001, 0.0001])
    found = program.judge(0.0)
    assert found.kept == {0, 1} and found.judged[2].duel is None and found.judged[2].facts["noise"] is None


def test_a_program_without_winners_is_only_timed() -> None:
    program = Program([])
    found = program.judge()
    assert found.judged == () and found.before_s == found.after_s > 0 and program.calls < 20
