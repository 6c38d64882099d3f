"""Budgets: parsing, and when a search has to stop."""

from __future__ import annotations

import pytest
from tilewright.ir.errors import UsageError
from tilewright.search.budget import Budget, Meter, parse_seconds, written


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1.5m", 90),
        ("500ms", 0.5),
        ("45", 45),
        (12, 12),
        (0.5, 0.5),
        (" 2 min ", 120),
        ("1m 5s", 65),
    ],
)
def test_parse(text: str | float, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "30x", "-5s", "0", "0s", "1h30", "soon", "5 s m", "inf", "nan", float("inf"), float("nan"), -1])
def test_parse_refuses(text: str | float) -> None:
    with pytest.raises(UsageError, match=r"budget .*(is not a time; write it like 30s|must be more than nothing)"):
        parse_seconds(text)


def test_defaults() -> None:
    assert Budget.make() == Budget(30.0)
    assert Budget.make(trials=5) == Budget(None, 5)
    assert Budget.make("10s", 5) == Budget(10.0, 5)
    assert Budget.make(Budget(1.0)) == Budget(1.0)
    with pytest.raises(UsageError, match=r"tune\(trials=0\): give a whole number of at least 1"):
        Budget.make(trials=0)
    with pytest.raises(UsageError, match="fraction of the roofline"):
        Budget.make(stop_at=95)


def meter(budget: Budget) -> tuple[Meter, list[float]]:
    now = [100.0]
    return Meter(budget, clock=lambda: now[0]), now


def test_seconds_leave_time_to_decide() -> None:
    m, now = meter(Budget(10.0))
    now[0] += 7.9
    assert m.why_stop() is None
    now[0] += 0.2
    assert m.why_stop() == "the time budget is spent"
    assert m.left == pytest.approx(1.9)


def test_a_late_first_measurement_leaves_a_share_to_search_in() -> None:
    """Inputs and reference of a large kernel can take more than half of a short budget; what follows costs little."""
    m, now = meter(Budget(10.0))
    m.check_s = 5.0
    now[0] += 6.0
    assert m.why_stop() == "the time budget is spent"  # nothing measured yet: the first start schedule is measured regardless
    m.generation(1, 0.01)
    assert m.search_left == pytest.approx(1.5)
    now[0] += 1.4
    m.generation(8, 0.009)
    assert m.why_stop() is None
    now[0] += 0.2
    assert m.why_stop() == "the time budget is spent"


def test_what_did_not_build_begins_no_share() -> None:
    m, now = meter(Budget(10.0))
    m.check_s = 5.0
    m.generation(1, float("inf"))
    now[0] += 6.0
    m.generation(1, 0.01)
    assert m.search_left == pytest.approx(1.5)


def test_not_for_kernels_of_which_one_call_takes_long() -> None:
    m, now = meter(Budget(10.0))
    m.check_s = 5.0
    now[0] += 6.0
    m.generation(1, 0.5)
    assert m.why_stop() == "the time budget is spent"


def test_start_up_counts() -> None:
    m = Meter(Budget(10.0), started=95.0, clock=lambda: 100.0)
    assert m.left == pytest.approx(5.0)


def test_trials() -> None:
    m, _ = meter(Budget(None, 3))
    m.generation(2, 1.0)
    assert (m.trials_left, m.why_stop()) == (1, None)
    m.generation(1, 1.0)
    assert m.why_stop() == "3 measurements were made"


def test_roofline() -> None:
    m, _ = meter(Budget(None, None, stop_at=0.9))
    m.generation(1, 1.2)
    assert m.why_stop(roofline_s=1.0) is None
    m.generation(1, 1.1)
    assert m.why_stop(roofline_s=1.0) == "90 % of the roofline was reached"
    assert m.why_stop(roofline_s=None) is None


def test_patience() -> None:
    m, _ = meter(Budget(None, None, patience=2))
    for best in (1.0, 0.5, 0.499):
        m.generation(8, best)
    assert m.why_stop() is None
    m.generation(8, 0.498)
    assert m.why_stop() == "no gain in 2 generations"


@pytest.mark.parametrize("text", ["300h", "30s", "500ms", "0.5s", "1h30m", "1e9", "0.0000001", 1e-7, 123456789.125, 3e15])
def test_what_is_written_is_read_again(text: str | float) -> None:
    """`reproduce` says the budget, whatever it was."""
    seconds = parse_seconds(text) if text != "1e9" else 1e9
    assert parse_seconds(written(seconds)) == seconds and "e" not in written(seconds), written(seconds)
    assert str(Budget(seconds)) == written(seconds)
