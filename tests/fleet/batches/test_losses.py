"""The rule for lost workers: who is sent again, in which company, and who is to blame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.fleet.batches.jobs_in_flight import BatchPart, LossRule, split


def play(count: int, killers: set[int], told: bool, first: set[int] = frozenset()) -> tuple[dict[int, str], int]:  # type: ignore[assignment]
    """Outcomes of `count` candidates and workers lost, where `killers` end whatever worker begins them, and `first` the first one only.
    `told`: what a worker says reaches the client; of one that has a single candidate it always does."""
    rule, todo, out, innocent = LossRule(), [BatchPart(tuple(range(count)))], {}, set(first)
    while todo:
        part = todo.pop(0)
        done: list[int] = []
        begun: list[int] = []
        for i in part.items:
            if told or len(part.items) == 1:
                begun.append(i)
            if i in killers or i in innocent:
                innocent.discard(i)
                verdict = rule.after(part, done if told else (), begun, "host")
                out.update(dict.fromkeys(verdict.guilty, "crash"))
                todo[:0] = verdict.again
                break
            done.append(i)
            if told:
                out[i] = "ok"
                rule.measured(i)
        else:
            out.update(dict.fromkeys(done, "ok"))
    return out, rule.lost


def test_a_killer_is_known_after_two_losses_where_workers_say_what_they_begin() -> None:
    out, lost = play(12, {7}, told=True)
    assert out == {i: "crash" if i == 7 else "ok" for i in range(12)} and lost == 2


def test_a_killer_is_found_by_halving_where_they_do_not() -> None:
    out, lost = play(12, {7}, told=False)
    assert out == {i: "crash" if i == 7 else "ok" for i in range(12)} and lost == 6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 16), st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15)), st.booleans())
def test_only_killers_are_blamed_and_everyone_has_an_outcome(count: int, bad: set[int], unlucky: set[int], told: bool) -> None:
    killers = {i for i in bad if i < count}
    out, _ = play(count, killers, told, {i for i in unlucky if i < count} - killers)
    assert out == {i: "crash" if i in killers else "ok" for i in range(count)}


def test_nobody_is_blamed_for_a_worker_that_ends_before_it_began() -> None:
    rule, part = LossRule(), BatchPart((4,))
    for _ in range(5):
        verdict = rule.after(part, (), (), "host")
        assert verdict.guilty == () and verdict.again == (BatchPart((4,), frozenset({"host"})),)
    assert rule.fruitless == 5
    rule.measured(4)
    assert rule.fruitless == 0


def test_a_result_clears_whoever_was_under_suspicion() -> None:
    rule = LossRule()
    assert rule.after(BatchPart((1, 2)), (), (1,)).again[0].items == (1,)
    rule.measured(1)
    assert rule.after(BatchPart((1,)), (), (1,)).guilty == ()


def test_a_suspect_goes_to_another_host_and_those_beside_it_anywhere() -> None:
    alone, others = LossRule().after(BatchPart((1, 2, 3)), (1,), (1, 2), "a").again
    assert (alone.items, alone.avoid) == ((2,), {"a"}) and (others.items, others.avoid) == ((3,), set())


@pytest.mark.parametrize(("count", "width", "want"), [(0, 2, []), (1, 4, [1]), (5, 2, [3, 2]), (24, 2, [12, 12]), (30, 2, [10, 10, 10])])
def test_parts_are_as_equal_as_can_be(count: int, width: int, want: list[int]) -> None:
    parts = split(range(count), width, 12)
    assert [len(p.items) for p in parts] == want and sorted(i for p in parts for i in p.items) == list(range(count))
