"""The score: what the baseline expects, the budget that follows, and that 0 and 1 mean what they should."""

from __future__ import annotations

import pytest
from tilewright.ir.errors import UsageError
from tilewright.opts.opt import opt
from tilewright.search.bench.scores import RecordedEntry, Recording, Yardstick, interval


def space(times: list[float | None], cost: float = 2.0) -> Yardstick:
    entries = [
        RecordedEntry((opt("UPCAST", "x", i + 1),), str(i), 1.0, "build" if t is None else "ok", t, cost, "t", {"x": i})
        for i, t in enumerate(times)
    ]
    return Yardstick(Recording({}, (), tuple(entries)))


def test_budget_is_where_random_search_gets_there() -> None:
    """99 times 1 .. 99, the median 50: 95 % of the way is 3.45, which 3 of 99 reach. The best of M draws has rank
    100 / (M + 1), so 24 to 25 draws."""
    y = space([float(i) for i in range(1, 100)])
    assert y.evaluations == 24
    assert y.budget == 48.0
    assert y.baseline(0.0) == pytest.approx(50.0), "one draw is expected at the median"
    assert y.baseline(2.0 * 9) == pytest.approx(10.0)
    assert y.baseline(2.0 * 99) == 1.0


def test_failures_take_their_share_of_the_draws() -> None:
    valid: list[float | None] = [float(i) for i in range(1, 100)]
    half = space([*valid, *[None] * 99])
    assert half.evaluations == 48
    assert half.baseline(2.0 * 18) == pytest.approx(10.0)


def test_scores_of_the_optimum_the_baseline_and_nothing() -> None:
    y = space([float(i) for i in range(1, 100)])
    assert y.score([1.0], [0.0]) == pytest.approx(1.0)
    at = [t for t, _ in y.samples]
    assert y.score([b for _, b in y.samples], at) == pytest.approx(0.0)
    late = y.score([1.0], [y.budget / 2])
    assert late < 0.5, "until there is a result it stands at the median, which is below the baseline"
    assert y.score([60.0, 1.0], [0.0, y.budget / 2]) < late, "and a result worse than that counts as it is"


def test_a_flat_space_cannot_be_scored() -> None:
    with pytest.raises(UsageError, match="at least two valid configurations"):
        _ = space([1.0, 1.0, None]).budget


def test_interval_narrows_with_repeats() -> None:
    few, many = interval([[0.2, 0.8], [0.5, 0.7]]), interval([[0.2, 0.8] * 20, [0.5, 0.7] * 20])
    assert few[0] == pytest.approx(many[0]) == pytest.approx(0.55)
    assert few[1] < many[1] < 0.55 < many[2] < few[2]
