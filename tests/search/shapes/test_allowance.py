"""What a budget for several sizes leaves for what."""

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
