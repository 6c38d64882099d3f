"""Walks away from the best, and what a search that is stuck does with them."""

from __future__ import annotations

import math
from random import Random

import pytest
from test_choices import bowl
from tilewright.search import Space
from tilewright.search.strategies import bayesian as choices
from tilewright.search.strategies import bayesian as descent
from tilewright.search.strategies.bayesian import APART, PATIENCE, Descent, ModelledChoices
from tilewright.search.strategies.points import ChoicePoint, ChoicePoints
from tilewright.search.strategies.portfolio import Portfolio

BEST = ChoicePoint(0, (3, 3, 0, 0))


def apart(a: ChoicePoint, b: ChoicePoint) -> int:
    return sum(x != y for x, y in zip(a.at, b.at))


def begun(seed: int = 0, **share: float) -> Descent:
    """A walk's maker whose walks all begin in one way."""
    for name in ("HELD", "FRESH"):
        setattr(descent, name, share.get(name, 0.0))
    return Descent(ChoicePoints(Space(bowl())), Random(seed))


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELD", "FRESH"):
        monkeypatch.setattr(descent, name, getattr(descent, name))


def test_a_walk_begins_at_the_best_point_that_is_far_from_the_best_of_all() -> None:
    near, far, farther = ChoicePoint(0, (3, 3, 0, 1)), ChoicePoint(0, (1, 1, 1, 0)), ChoicePoint(0, (0, 1, 1, 1))
    walk = begun()
    assert walk.begin({BEST: 1.0, near: 1.1, far: 2.0, farther: 3.0}, BEST) is None
    assert walk.here == far and walk.seconds == 2.0
    walk.end()
    assert walk.begin({BEST: 1.0, near: 1.1, far: 2.0, farther: 3.0}, BEST) is not None, "the others are near that end"


def test_a_walk_may_begin_at_a_new_point() -> None:
    for seed in range(5):
        walk = begun(seed, FRESH=1.0)
        start = walk.begin({BEST: 1.0}, BEST)
        assert start is not None and apart(start, BEST) >= APART and walk.here is None
        walk.asked(start)
        assert walk.waits
        walk.told(start, 5.0, False)
        assert not walk.waits and walk.here == start and walk.seconds == 5.0


def test_a_walk_whose_beginning_fails_is_over() -> None:
    walk = begun(FRESH=1.0)
    start = walk.begin({BEST: 1.0}, BEST)
    assert start is not None
    walk.asked(start)
    walk.told(start, math.inf, False)
    assert not walk.waits and walk.here is None


def test_a_walk_keeps_a_value_that_the_best_has_not_got() -> None:
    every = {ChoicePoint(0, (a, b, c, d)): 2.0 + a + b for a in range(3) for b in range(4) for c in (0, 1) for d in (0, 1)}
    for seed in range(8):
        walk = begun(seed, HELD=1.0)
        walk.begin({BEST: 1.0, **every}, BEST)
        if walk.here is None:
            continue  # nothing with that value was measured
        assert walk.held is not None
        p, value = walk.held
        assert walk.here.at[p] == value != BEST.at[p]
        back = ChoicePoint(0, (*walk.here.at[:p], BEST.at[p], *walk.here.at[p + 1 :]))
        here = walk.here
        walk.told(back, 0.5, False)
        assert walk.here == here, "a faster one without the value is no step"


def test_a_walk_goes_on_to_faster_neighbours_and_ends_after_enough_that_are_not() -> None:
    walk = begun()
    start = ChoicePoint(0, (1, 1, 1, 0))
    walk.begin({BEST: 1.0, start: 9.0}, BEST)
    better, elsewhere = ChoicePoint(0, (1, 2, 1, 0)), ChoicePoint(0, (4, 0, 0, 1))
    walk.told(elsewhere, 2.0, False)
    assert walk.here == start, "no neighbour, and not asked for"
    walk.asked(better)
    walk.told(better, 8.0, False)
    assert walk.here == better and walk.seconds == 8.0
    for i in range(PATIENCE):
        assert walk.here == better
        worse = ChoicePoint(0, (1, 2, 0, i))
        walk.asked(worse)
        walk.told(worse, 10.0, False)
    assert walk.here is None, "it has arrived"


def test_a_walk_that_finds_the_best_is_over() -> None:
    walk = begun()
    start, better = ChoicePoint(0, (1, 1, 1, 0)), ChoicePoint(0, (1, 2, 1, 0))
    walk.begin({BEST: 1.0, start: 9.0}, BEST)
    walk.asked(better)
    walk.told(better, 0.5, True)
    assert walk.here is None


def test_a_search_walks_elsewhere_once_it_is_stuck_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = bowl()
    monkeypatch.setattr(choices, "ELSEWHERE", 1.0)
    search = ModelledChoices(Space(recording), seed=1)
    search.expect(60)
    begins, stale, since, best = [], [], 0, math.inf
    plain = Descent.begin

    def begin(self: Descent, times: dict[ChoicePoint, float], best_point: ChoicePoint) -> ChoicePoint | None:
        begins.append(since)
        return plain(self, times, best_point)

    monkeypatch.setattr(Descent, "begin", begin)
    for _ in range(70):
        for opts in search.ask(1):
            entry = recording.apply(opts)
            search.tell(opts, entry)
            since = 0 if (entry.t_min or math.inf) <= best else since + 1
            best = min(best, entry.t_min or math.inf)
            stale.append(since)
    assert max(stale) > choices.STUCK, "or this says nothing"
    assert begins and min(begins) > choices.STUCK


def test_the_model_has_most_turns_where_nothing_else_tells_schedules_apart() -> None:
    recording = bowl()
    search = Portfolio(Space(recording), seed=2)
    search.expect(60)
    owners = []
    for _ in range(50):
        for opts in search.ask(1):
            search.tell(opts, recording.apply(opts))
            owners.append(search.owner(opts))
    dealt = [o for o in owners if o]
    assert len(dealt) > 30 and dealt.count("choices") >= 0.55 * len(dealt)
