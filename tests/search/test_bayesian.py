"""Searching among the choices of templates: points, moves, the model, and what a search from nothing reaches."""

from __future__ import annotations

import math
from random import Random

import pytest
from synthetic import space
from tilewright.opts.opt import opt
from tilewright.search import Recording, Space, create
from tilewright.search.bench.scores import RecordedEntry, Yardstick, simulate
from tilewright.search.strategies import bayesian as choices
from tilewright.search.strategies import bayesian as descent
from tilewright.search.strategies.bayesian import APART, PATIENCE, Descent, FamilyModel, ModelledChoices, Offer
from tilewright.search.strategies.gaussian_process import Encoder, Process, evenness, factor
from tilewright.search.strategies.point_search import at_once, first
from tilewright.search.strategies.points import ChoicePoint, ChoicePoints, cross, scaled, step
from tilewright.search.strategies.portfolio import Portfolio
from tilewright.search.strategy import ask, batch

NAMES = ("uniform", "choices", "anneal", "genetic")


def bowl(valid: float = 1.0) -> Recording:
    """Four parameters with a smooth valley, a third of the product ruled out, some of the rest failing."""
    rng, values = Random(0), {"a": (1, 2, 4, 8, 16, 32), "b": (1, 2, 3, 4, 5, 6), "c": ("x", "y"), "d": (0, 1)}
    entries = []
    for i, a in enumerate(values["a"]):
        for b in (1, 2, 3, 4, 5, 6):
            for j, c in enumerate(("x", "y")):
                for d in (0, 1):
                    if int(a) * b > 64:
                        continue
                    t = 1e-3 * (1 + abs(i - 3) + 0.7 * abs(b - 4) + 0.5 * j + 0.3 * d * (i > 2)) * rng.uniform(1, 1.02)
                    opts = tuple(opt("UPCAST", k, n + 1) for k, n in (("a", i), ("b", b), ("c", j), ("d", d)))
                    good = rng.random() < valid
                    params = {"a": a, "b": b, "c": c, "d": d}
                    entries.append(
                        RecordedEntry(opts, str(len(entries)), 1.0, "ok" if good else "build", t if good else None, 1.0, "t", params)
                    )
    return Recording({}, (), tuple(entries))


def test_values_are_placed_by_their_logarithm_where_they_span_much() -> None:
    assert scaled((1, 2, 4, 8, 16)) == pytest.approx((0, 0.25, 0.5, 0.75, 1))
    assert scaled((0, 1, 4, 16)) == pytest.approx((0, 0.25, 0.625, 1)), "nothing is a step below the least"
    assert scaled((1, 2, 3)) == pytest.approx((0, 0.5, 1))
    assert scaled(("row", "column")) is None
    assert scaled((7,)) == (0.0,)


def test_points_of_a_recording_are_those_it_holds() -> None:
    recording = bowl()
    points = ChoicePoints(Space(recording))
    (family,) = points.families
    assert family.size == len(recording.entries) < 6 * 6 * 2 * 2
    rng = Random(1)
    drawn = [points.uniform(rng) for _ in range(50)]
    assert all(p is not None and points.state(p) is not None for p in drawn)
    out = ChoicePoint(0, (5, 5, 0, 0))
    assert points.illegal(out) and points.state(out) is None


def test_moves_stay_legal_and_change_something() -> None:
    points, rng = ChoicePoints(Space(bowl())), Random(2)
    here = points.uniform(rng)
    assert here is not None
    for _ in range(50):
        there = step(points, here, rng)
        assert there is not None and there != here and points.state(there) is not None
        child = cross(points, here, there, rng)
        assert all(c in (a, b) for a, b, c in zip(here.at, there.at, child.at))
        here = there


def test_points_with_one_other_value_come_near_ones_first() -> None:
    points = ChoicePoints(Space(bowl()))
    around = list(points.neighbours(ChoicePoint(0, (2, 2, 0, 1))))
    assert len(around) == len(set(around)) == 5 + 5 + 1 + 1
    assert [p.at for p in around[:4]] == [(1, 2, 0, 1), (3, 2, 0, 1), (2, 1, 0, 1), (2, 3, 0, 1)]


def test_points_with_the_same_product_share_a_column() -> None:
    (family,) = ChoicePoints(Space(bowl())).families
    encoder = Encoder(family)
    # a: 1 to 32 by doubling, b: 1 to 6, even or not; the others have two values, or none that are numbers
    assert encoder.count == encoder.single + 1 == 6 and len(encoder.groups) == 7
    rows = encoder([ChoicePoint(0, at) for at in ((2, 0, 0, 0), (1, 1, 0, 0), (0, 3, 0, 0), (3, 0, 0, 0))])
    assert rows[:3, -1] == pytest.approx(rows[0, -1]) and rows[3, -1] > rows[0, -1], "1 * 4, 2 * 2, 4 * 1; 8 * 1"
    assert rows[:, -1].min() >= 0 and rows[:, -1].max() <= 1


def test_the_model_expects_failures_beside_failures() -> None:
    (family,) = ChoicePoints(Space(bowl())).families
    model = FamilyModel(family, 0)
    known = [ChoicePoint(0, (a, b, c, 0)) for a in (0, 2, 3, 5) for b in (0, 2, 4) for c in (0, 1)]
    valid = [1.0 if p.at[0] < 3 else 0.0 for p in known]
    unseen = model.encoder([ChoicePoint(0, (1, 2, 0, 0)), ChoicePoint(0, (4, 2, 0, 0))])
    mean, _ = model.predict(model.validity, known, valid, unseen)
    assert mean[0] > 0.7 and mean[1] < 0.3


def test_little_is_asked_for_where_little_is_known() -> None:
    assert [at_once(n) for n in (0, 12, 35, 200)] == [1, 1, 3, 20]
    where = Space(bowl())
    search = ModelledChoices(where)
    search.expect(100)
    first_ones = search.ask(10)
    for opts in first_ones:
        search.tell(opts, bowl().apply(opts))
    asked = search.ask(12)
    assert len(first_ones) == 10 and len(asked) == 1
    assert search.ask(12) != asked, "what is under way is not asked for again"
    assert len({str(o) for o in ask(search, 12, 4)}) == 4, "builders are kept busy all the same"
    assert len(ask(search, 12, -3)) == 1 and len(ask(search, 2, 4)) == 2


def test_factor_by_blocks_is_the_inverse_of_cholesky() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    for n in (1, 24, 70):
        a = rng.standard_normal((2, n, n))
        k = a @ a.transpose(0, 2, 1) + n * np.eye(n)
        assert np.allclose(factor(k), np.linalg.inv(np.linalg.cholesky(k)))


def test_the_process_learns_and_knows_where_it_does_not() -> None:
    import numpy as np

    recording = bowl()
    points, rng = ChoicePoints(Space(recording)), Random(0)
    (family,) = points.families
    assert family.listed is not None
    encoder = Encoder(family)
    shuffled = rng.sample(family.listed, len(family.listed))
    seen, unseen = shuffled[:50], shuffled[50:]
    times = {p: math.log(e.t_min) for p, e in zip(family.listed, recording.entries) if e.t_min is not None}
    process = Process(encoder, 0)
    for _ in range(3):
        process.fit(encoder(seen), np.array([times[p] for p in seen]))
    mean, sd = process.predict(encoder(unseen))
    truth = np.array([times[p] for p in unseen])
    assert np.corrcoef(mean, truth)[0, 1] > 0.9
    assert np.mean(np.abs(mean - truth) < 2 * sd) > 0.7
    assert process.predict(encoder(seen))[1].mean() < 0.7 * sd.mean()


@pytest.mark.slow
def test_from_nothing_each_is_worth_its_name() -> None:
    """On a valley with failures: all beat draws at random, the model by much."""
    y = Yardstick(bowl(0.9), share=0.99)

    def mean(name: str) -> float:
        runs = [simulate(y.recording, name, 60, seed, "none", 2, limit_s=y.budget) for seed in range(6)]
        return sum(y.score(r.curve, r.clock) for r in runs) / 6

    got = {name: mean(name) for name in (*NAMES, "portfolio")}
    assert max(got["anneal"], got["genetic"]) > got["uniform"] + 0.1
    assert got["choices"] > got["uniform"] + 0.25
    assert got["portfolio"] > got["uniform"] + 0.2


def test_a_portfolio_from_nothing_draws_evenly_first() -> None:
    where = Space(bowl())
    found = create("portfolio", where, start=[])
    found.expect(200)
    assert len(found.ask(20)) == first(200) == 12
    assert isinstance(found, Portfolio) and all(found.owner(o) == "" for o in found.ask(0))


def test_a_portfolio_without_templates_goes_on_without() -> None:
    where, _ = space(with_starts=False, with_templates=False)
    assert create("portfolio", where, start=[]).ask(5)


def test_short_searches_ask_often_and_draw_little() -> None:
    assert [batch(n) for n in (10, 50, 100, 1000)] == [1, 1, 2, 12]
    assert [first(n) for n in (10, 90, 100, 1000, math.inf)] == [6, 9, 10, 12, 12]


def test_improvement_tells_bad_from_worse_and_is_right_near_by() -> None:
    import numpy as np
    from tilewright.search.strategies.bayesian import improvement

    mean, sd = np.array([0.0, 0.5, 3.0, 60.0, 61.0, -4.0, 0.0]), np.array([1.0, 0.5, 1.0, 1.0, 1.0, 1.0, np.nan])
    got = improvement(0.0, mean, sd)
    # sd * (z * cdf(z) + pdf(z))
    assert np.exp(got[:3]) == pytest.approx([0.3989, 0.04166, 0.000382], rel=0.04)
    assert got[5] == pytest.approx(math.log(4.0), rel=0.01)
    assert got[2] > got[3] > got[4] > got[6] == -math.inf


def test_recording_takes_instances_walks_and_failures() -> None:
    from synthetic import FakeMeasurer
    from tilewright.measure.outcome import Outcome
    from tilewright.search.bench.record_space import record_space

    where, engine = space()
    measurer = FakeMeasurer(engine.seconds, outcomes=lambda o: Outcome.crash if len(o) == 2 else Outcome.ok)
    found = record_space(where, measurer, 120, {"kernel": "matmulish"})
    assert len(found.entries) == 120 and found.entries[0].opts == where.starts()[0]
    made = [e for e in found.entries if e.template == "gemm"]
    assert 70 <= len(made) <= 100 and all(where.instance(where.templates()[0], dict(e.params)) == e.opts for e in made)
    assert {e.outcome for e in found.entries} == {"ok", "crash"}
    whole = {e.opts for e in found.entries}
    walked = [e for e in found.entries if e.template is None and len(e.opts) > 1]
    assert any(e.opts[:-1] in whole for e in walked), "steps of a walk are there, so that a walk can be replayed"


def test_numbers_say_how_often_they_can_be_halved_where_their_size_does_not() -> None:
    assert evenness((16, 32, 48, 64)) == pytest.approx((0.8, 1, 0.8, 1)), "at most five times"
    assert evenness((1, 2, 3, 4)) == pytest.approx((0, 0.5, 0, 1))
    assert evenness((1, 2, 4, 8)) is None and evenness((3, 5, 7)) is None
    assert evenness((0, 1, 2)) is None and evenness(("a", "b")) is None


def test_what_is_measured_first_is_spread_over_the_values() -> None:
    points = ChoicePoints(Space(bowl()))

    def likeness(draws: int) -> float:
        """The greatest likeness of two of six points, mean over start schedules."""
        total = 0.0
        for seed in range(40):
            rng, found = Random(seed), list[ChoicePoint]()
            for _ in range(6):
                point = points.spread(rng, found, draws)
                assert point is not None and points.state(point) is not None
                found.append(point)
            total += max(points.alike(a, b) for i, a in enumerate(found) for b in found[:i])
        return total / 40

    assert likeness(4) < likeness(1) - 0.1
    a, b = ChoicePoint(0, (0, 0, 0, 0)), ChoicePoint(0, (5, 0, 1, 0))
    assert points.alike(a, a) == 4 and points.alike(a, b) == 2, "two values alike, a number as far as can be, another letter"


def test_neighbours_of_promising_candidates_are_candidates() -> None:
    (family,) = ChoicePoints(Space(bowl())).families
    values = {ChoicePoint(0, (a, b, c, 0)): abs(a - 3.0) + abs(b - 3.0) for a in (0, 2, 4, 5) for b in (0, 2, 4) for c in (0, 1)}
    known, far, near = list(values), ChoicePoint(0, (0, 5, 1, 1)), ChoicePoint(0, (3, 3, 0, 0))
    offer = Offer(FamilyModel(family, 0), known, values, [], [far])
    before = offer.top(min(values.values()), 1.0)
    offer.extend([near])
    after = offer.top(min(values.values()), 1.0)
    assert offer.candidates[after[1]] == near and after[0] > before[0]
    asked = Offer(FamilyModel(family, 0), known, values, [], [far])
    asked.expect([near])
    asked.extend([near])
    assert asked.top(min(values.values()), 1.0)[0] < after[0], "what is under way is no surprise any more"


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
