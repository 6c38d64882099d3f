"""What a budget for several sizes leaves for what."""

from types import SimpleNamespace

import pytest
from tilewright.ir import KernelError, UsageError
from tilewright.opts.opt import opt
from tilewright.search.shapes import SizeRange, parse_range, parse_shapes
from tilewright.search.shapes.buckets import WORTH, _affordable, aggregate, divide
from tilewright.search.shapes.timed import CHECK_S, FEW_LEFT, LEAST_S, Allowance


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_short_budget_begins_no_search_and_compares_few() -> None:
    clock = Clock()
    short, long = Allowance(4.0, clock.now, clock), Allowance(60.0, clock.now, clock)
    assert short.slice(0.5, 0.6, 3) is None and long.slice(0.5, 0.6, 3) == 10.0
    assert short.compared(3, 0.3, 16) < long.compared(3, 0.3, 16) == 16
    clock.now += 33.0
    assert long.slice(0.5, 0.6, 3) == 3.0, "what took longer before comes off the next"
    clock.now += 2.0
    assert LEAST_S > 36.0 - 35.0 and long.slice(0.5, 0.6, 3) is None


def test_checks_are_expected_to_take_what_comparing_took_at_the_least() -> None:
    clock = Clock()
    a = Allowance(4.0, clock.now, clock)
    unknown = a.check("m=1")
    a.took("m=1", 3.0)
    a.took("m=1", 1.0)
    a.took("m=1", 2.0)
    assert unknown < a.check("m=1") < 2.0
    a.took("m=8", 3.0, 16)
    assert a.check("m=1") < a.check("m=8") < a.check("m=8") + 1.0 < CHECK_S + 3.0, "a check is not of sixteen schedules"
    assert a.said() == ""
    clock.now += 5.5
    assert a.said() == "the checks at the end took 1.5 s more than the budget"


def test_what_is_held_for_checks_is_not_spare() -> None:
    clock = Clock()
    a = Allowance(20.0, clock.now, clock)
    assert a.timed(16, 1e-4) == 16
    slow = a.timed(16, 0.05)
    assert FEW_LEFT < slow < 16, "fewer of schedules that take long"
    a.held = 15.0
    assert a.spare == 5.0 and a.left == 20.0 and a.timed(16, 0.05) == FEW_LEFT


A, B, C = ((opt("UPCAST", "m", n),) for n in (2, 4, 8))
"""Schedules are only names here."""
SIZES = [1, 4, 16, 64]


def times(**rows: list[float | None]) -> dict:
    named = {"a": A, "b": B, "c": C}
    return {(named[k], v): t for k, row in rows.items() for v, t in zip(SIZES, row, strict=True) if t is not None}


def test_a_range_is_cut_where_another_schedule_is_better() -> None:
    found = divide(times(a=[1, 1, 3, 3], b=[2, 2, 1, 1]), SIZES, [A, B], 4)
    assert found is not None and found.parts == ((1, 4, A), (16, 64, B)) and found.loss == pytest.approx(0.0)


def test_no_more_parts_than_asked_for() -> None:
    t = times(a=[1, 2, 2, 2], b=[2, 1, 1, 2], c=[3, 3, 3, 1])
    whole = divide(t, SIZES, [A, B, C], 1)
    two = divide(t, SIZES, [A, B, C], 2)
    three = divide(t, SIZES, [A, B, C], 3)
    assert whole is not None and two is not None and three is not None
    assert [len(x.parts) for x in (whole, two, three)] == [1, 2, 3]
    assert whole.loss > two.loss > three.loss == pytest.approx(0.0)


def test_a_part_that_gains_less_than_it_costs_is_not_made() -> None:
    little = 1 + WORTH
    found = divide(times(a=[1, 1, 1, little], b=[2, 2, 2, 1]), SIZES, [A, B], 4)
    assert found is not None and found.parts == ((1, 64, A),) and 0 < found.loss < WORTH


def test_schedules_that_do_not_work_everywhere_serve_where_they_do() -> None:
    t = times(a=[1, 1, None, None], b=[None, None, 1, 1])
    assert divide(t, SIZES, [A, B], 1) is None
    found = divide(t, SIZES, [A, B], 2)
    assert found is not None and found.parts == ((1, 4, A), (16, 64, B))
    assert divide(times(a=[1, None, 1, 1]), SIZES, [A], 4) is None


@pytest.mark.parametrize(("left", "parts", "says"), [(60.0, 3, ""), (5.5, 2, "3 buckets would take 16% less time"), (1.0, 1, "3 buckets")])
def test_as_many_parts_as_there_is_time_to_check(left: float, parts: int, says: str) -> None:
    t = times(a=[1, 2, 2, 2], b=[2, 1, 1, 2], c=[3, 3, 3, 1])
    allowance = Allowance(left, 0.0, lambda: 0.0)
    for size in SIZES:
        allowance.took(size, 0.6)  # a check takes a second
    found, said = _affordable(SimpleNamespace(times=t, allowance=allowance), SIZES, [A, B, C], 4)  # type: ignore[arg-type]
    assert found is not None and len(found.parts) == parts and said.startswith(says) and bool(said) == bool(says)


def test_aggregates() -> None:
    t = times(a=[1, 1, 1, 8], b=[2, 2, 2, 2], c=[1, 1, 1, None])
    even = [1.0] * 4
    assert aggregate(t, SIZES, even, [A, B, C], "geomean") == (A, pytest.approx(4**0.25 - 1))
    assert aggregate(t, SIZES, [1, 1, 1, 9], [A, B, C], "geomean") == (B, pytest.approx(2 ** (3 / 12) - 1))
    assert aggregate(t, SIZES, even, [A, B, C], "worst") == (B, pytest.approx(1.0))
    assert aggregate(t, SIZES, even, [C], "geomean") is None


def test_ranges_and_lists_are_read() -> None:
    assert parse_range("m=1..4096,n=64") == ({"n": 64}, SizeRange("m", 1, 4096))
    assert parse_range("n=64") == ({"n": 64}, None)
    values = SizeRange("m", 1, 4096).values()
    assert values[0] == 1 and values[-1] == 4096 and len(values) == 9 and values == sorted(set(values))
    assert SizeRange("m", 7, 8).values() == [7, 8]
    shapes = parse_shapes("m=64,n=8; m=512 * 3;")
    assert [(dict(s.shape), s.weight) for s in shapes] == [({"m": 64, "n": 8}, 1.0), ({"m": 512}, 3.0)]


@pytest.mark.parametrize(
    "text, says",
    [
        ("m=8..1", "smaller number first"),
        ("m=0..4", "begins at 1"),
        ("m=5..5", "a single size; write m=5"),
        ("m=1..", "lacks an end"),
        ("m=..8", "lacks an end"),
        ("m=1..4,n=2..3", "two ranges"),
        ("m=1..4,m=7", "given twice"),
    ],
)
def test_bad_ranges(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_range(text)


def test_bad_lists() -> None:
    for text, says in (("m=1", "two shapes"), ("m=1; m=2 * x", "no weight"), ("m=1; m=1", "given twice"), ("m=1; m=2 * -1", "no weight")):
        with pytest.raises(UsageError, match=says):
            parse_shapes(text)
    with pytest.raises(KernelError, match="as a size"):
        parse_range("m=1..x")
