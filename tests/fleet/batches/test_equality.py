"""Which devices may share the candidates of a kernel."""

from __future__ import annotations

from tilewright.fleet.batches.equal_devices import distance_to_nearest, groups_of_equal, is_equal, times_factor


def times(times_factor: float) -> dict[str, float]:
    return {"a": 1e-3 * times_factor, "b": 2e-3 * times_factor, "c": 5e-3 * times_factor}


def test_devices_within_five_percent_are_equal() -> None:
    assert groups_of_equal({"x": times(1.0), "y": times(1.04), "z": times(1.049)}) == [["x", "y", "z"]]


def test_one_that_differs_is_on_its_own() -> None:
    assert groups_of_equal({"x": times(1.0), "y": times(1.06), "z": times(1.02)}) == [["x", "z"], ["y"]]
    assert groups_of_equal({"x": times(0.5), "y": times(1.0), "z": times(1.02)}) == [["y", "z"], ["x"]]


def test_of_two_that_differ_the_faster_one_works() -> None:
    assert groups_of_equal({"x": times(1.3), "y": times(1.0)}) == [["y"], ["x"]]


def test_a_schedule_that_was_disturbed_decides_nothing_alone() -> None:
    assert groups_of_equal({"x": times(1.0), "y": times(1.0) | {"a": 9e-3}}) == [["x", "y"]]


def test_a_chain_of_small_steps_is_not_one_group() -> None:
    assert groups_of_equal({"x": times(1.0), "y": times(1.04), "z": times(1.08)}) == [["x", "y"], ["z"]]


def test_a_device_where_nothing_could_be_timed_is_in_no_group() -> None:
    assert groups_of_equal({"x": times(1.0), "y": {}}) == [["x"]] and groups_of_equal({}) == []


def test_one_that_comes_later() -> None:
    known = [times(1.0), times(1.02)]
    assert is_equal(times(1.05), known) and is_equal(times(0.98), known)
    assert not is_equal(times(1.1), known) and not is_equal(times(0.9), known) and not is_equal({"other": 1.0}, known)
    assert distance_to_nearest({"other": 1.0}, known) is None and times_factor({"other": 1.0}, known) is None
