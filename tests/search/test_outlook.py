"""What more search is expected to gain, and what is done by it."""

import math
from random import Random

import pytest
from tilewright.ir import UsageError
from tilewright.search.budget import Budget, Meter
from tilewright.search.outlook import FEWEST, PLATEAU, SLICE_S, Outlook, Spending


def outlook(times: list[float]) -> Outlook:
    out = Outlook()
    for t in times:
        out.tell(t)
    return out


def test_nothing_is_foretold_of_few_or_of_failures() -> None:
    assert outlook([1.0] * (FEWEST - 1) + [math.inf] * 50).gain(10) is None
    assert outlook([1.0] * FEWEST).gain(10) is not None


def test_what_gained_lately_and_what_is_spread_gain_more() -> None:
    flat, gaining = [1.0] * 32, [2.0] * 20 + [1.0] * 12
    spread = [1.0 + 0.1 * i for i in range(32)]
    of = {n: outlook(t).gain(32) or 0.0 for n, t in (("flat", flat), ("gaining", gaining), ("spread", spread))}
    assert of["flat"] < of["spread"] and of["flat"] < of["gaining"] < 0.5
    assert (outlook(flat).gain(8) or 0) < of["flat"] < (outlook(flat).gain(64) or 0), "more candidates gain more"
    assert (outlook(flat * 20).gain(32) or 1) < 0.1 * of["flat"], "after many the same number is worth little"


def test_it_is_about_right_of_random_search() -> None:
    """Candidates as a search meets them: logarithms of their times have a lower end, near which few of them are."""
    said, came = 0.0, 0.0
    for seed in range(300):
        rng = Random(seed)
        times = [math.exp(rng.gammavariate(2.0, 0.15)) for _ in range(96)]
        said += outlook(times[:48]).gain(48) or 0.0
        came += 1 - min(times) / min(times[:48])
    assert 0.25 * came < said < 4 * came


def test_candidates_of_earlier_searches_are_no_pace() -> None:
    fresh, again = outlook([1.0] * 20), outlook([])
    for _ in range(180):
        again.recall(1.0)
    for _ in range(20):
        again.tell(1.0)
    assert (again.gain_in(60, 10) or 1) < 0.25 * (fresh.gain_in(60, 10) or 0)


def test_a_search_ends_on_a_plateau() -> None:
    now = [0.0]
    meter = Meter(Budget.until("plateau"), 0.0, lambda: now[0])
    ended = 0
    for n in range(4000):
        now[0] += 0.25
        meter.outlook.tell(1.0)
        meter.generation(1, 1.0)
        if meter.why_stop():
            ended = n
            break
    assert 100 < ended < 3000
    said = meter.why_stop()
    assert said is not None and said.startswith("a plateau") and (meter.minute or 1) < PLATEAU


def test_ends_of_a_search() -> None:
    assert Budget.until("plateau") == Budget(None, plateau=PLATEAU)
    assert Budget.until("plateau", "5m", 7) == Budget(300.0, 7, plateau=PLATEAU)
    assert Budget.until("0.95-roofline") == Budget(30.0, stop_at=0.95)
    assert Budget.until("5m", trials=9) == Budget(300.0, 9)
    for bad, says in (
        ("soon", "plateau, 0.95-roofline or a time"),
        ("1.5-roofline", "at most 1"),
        ("0-roofline", "more than 0"),
        ("", "plateau"),
    ):
        with pytest.raises(UsageError, match=says):
            Budget.until(bad)
    with pytest.raises(UsageError, match="both times"):
        Budget.until("5m", "2m")
    with pytest.raises(UsageError, match="'lunch' is no end of a search"):
        Budget.until("lunch", "2m")


def test_a_budget_goes_first_by_weight_and_then_where_it_gains_most() -> None:
    left = [200.0]
    spending = Spending([3.0, 1.0, 2.0], lambda: left[0])
    given: dict[int, float] = {}
    rounds = []
    for n, seconds, more in spending:
        assert seconds is not None
        left[0] -= seconds
        given[n] = given.get(n, 0.0) + seconds
        rounds.append((n, more))
        spending.minute[n] = [0.01, 0.2, None][n]
        if more:
            spending.minute[n] = 0.0
    assert rounds == [(0, False), (1, False), (2, False), (1, True), (0, True)]
    assert given[0] > 60 and given[2] == pytest.approx(40)


def test_time_that_one_leaves_flows_on_and_small_budgets_are_dealt_out_whole() -> None:
    assert [(n, s) for n, s, _ in Spending([1, 1], lambda: None)] == [(0, None), (1, None)]
    left = [4 * SLICE_S / 2]
    turns = []
    for n, seconds, more in (spending := Spending([1.0] * 4, lambda: left[0])):
        turns.append((n, seconds, more))
        spending.minute[n] = 0.5
        left[0] -= (seconds or 0.0) / 2
    assert [t for t in turns if not t[2]] == turns[:4]
    assert turns[1][1] == pytest.approx(left_of(turns[0][1]) / 3)


def test_those_searched_before_go_on_where_that_pays() -> None:
    """Their first turn was earlier: what is new has its part of all, and then the heaviest that gain most go on, until all are on a plateau."""
    left = [100.0]
    spending = Spending([6.0, 3.0, 1.0, 8.0, 8.0], lambda: left[0], {0: 0.02, 1: 0.5, 3: None, 4: PLATEAU / 4})
    turns = []
    for n, seconds, more in spending:
        left[0] -= seconds or 0.0
        turns.append((n, round(seconds or 0.0, 3), more))
        spending.minute[n] = {0: 0.0199, 2: None}.get(n, 0.001)
    assert turns[0] == (2, 6.0, False), "a tenth of what is not kept for more turns"
    assert [t[0] for t in turns[1:]] == [1, 0, 0, 0, 0] and all(t[2] for t in turns[1:])
    assert list(Spending([1.0, 1.0], lambda: None, {0: 0.5})) == [(1, None, False)]
    assert not list(Spending([1.0], lambda: 100.0, {0: PLATEAU / 2}))
    assert (
        list(Spending([1.0], lambda: left[0], {0: PLATEAU / 2})) == []
        and len(list(zip(Spending([1.0], lambda: 300.0, {0: PLATEAU / 2}), "x"))) == 1
    )


def left_of(first: float | None) -> float:
    return 4 * SLICE_S / 2 - (first or 0.0) / 2


def test_where_turns_were_too_short_some_have_what_they_need() -> None:
    """Each needs 4 s on a slow machine, and 24 s are for eight."""
    left, found = [24.0], []
    for n, seconds, _ in (spending := Spending([1.0] * 8, lambda: left[0])):
        left[0] -= seconds or 0.0
        if seconds is not None and seconds >= 4:
            found.append(n)
        else:
            spending.failed(n, seconds or 0.0)
    assert len(found) >= 3
