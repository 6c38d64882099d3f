"""Schedules as data, their errors, and their drawings."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.placement import (
    SCHEDULES,
    Link,
    PartCosts,
    PipelineCosts,
    PipelineSchedule,
    PlanError,
    drawings,
    equal_parts,
    generate,
    simulate,
)

TWO: dict[str, Any] = {
    "schema": 1,
    "name": "mine",
    "routes": [[[0, 0], [1, 0]]],
    "route_of": [0, 0],
    "orders": [["F0", "F1", "B0", "W0", "B1", "W1"], ["F0", "B0", "W0", "F1", "BW1"]],
}


def with_order(stage: int, *blocks: str) -> dict[str, Any]:
    orders = list(TWO["orders"])
    orders[stage] = list(blocks)
    return {**TWO, "orders": orders}


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 3), st.integers(0, 2))
def test_every_schedule_survives_json_and_can_be_simulated(name: str, half: int, more: int) -> None:
    p = 2 * half
    schedule = generate(name, p, 2 * p + p * 2 * more)
    assert PipelineSchedule.from_json(json.dumps(schedule.to_json())) == schedule
    line = simulate(schedule, equal_parts(schedule.parts, PartCosts(3, 2, 1), 0.5))
    for row in line.rows:
        assert all(a.end <= b.start for a, b in itertools.pairwise(row))
    assert line.bubble >= 0 and drawings.text(line, 60).count("\n") == p - 1


@pytest.mark.parametrize(
    "data, says",
    [
        ("{", "is not JSON"),
        ('{"schema": 1, "schema": 1}', "twice"),
        ({**TWO, "more": 1}, "has the fields"),
        ({**TWO, "schema": 2}, "schema 2"),
        (with_order(0, "F0", "Q1"), "cannot read 'Q1'"),
        (with_order(0, "B0+F1"), "a pair is a forward and a backward pass"),
        (with_order(0, "F0", "F1", "BW0", "B1"), "B1 has no W1: the gradient of the weights is lost on stage 0"),
        (with_order(0, "F0", "F0", "F1", "BW0", "BW1"), "F0 is twice on stage 0"),
        (with_order(1, "F0", "BW0", "BW1"), "F1 is missing, and BW1 waits for it on stage 1"),
        (with_order(1, "F0", "BW0", "F1.1", "BW1"), "F1.1 of mine cannot be on stage 1"),
        (with_order(1, "F0", "BW0", "F1", "BW1", "W1"), "compute the same gradients"),
        ({**TWO, "routes": [[[0, 0], [2, 0]]]}, "goes over stage 2"),
        ({**TWO, "routes": [[[0, 0], [0, 0]]]}, "two parts of mine lie in one chunk"),
        ({**TWO, "route_of": [0, 1]}, "takes route 1"),
        ({**TWO, "orders": [*TWO["orders"], []]}, "stage 2 of mine does nothing"),
        ({**TWO, "route_of": [0, True]}, "natural numbers"),
    ],
)
def test_what_is_no_schedule_is_refused(data: Any, says: str) -> None:
    with pytest.raises(PlanError, match=re.escape(says)):
        PipelineSchedule.from_json(data)


def test_a_deadlock_names_two_operations_that_wait_for_each_other() -> None:
    crossed = PipelineSchedule.from_json(with_order(1, "F1", "F0", "BW0", "BW1") | {"name": "crossed"})
    ahead = PipelineSchedule.from_json(with_order(0, "F0", "BW0", "F1", "BW1"))
    stuck = PipelineSchedule.from_json(
        {**with_order(0, "F0", "BW0", "F1", "BW1"), "orders": [["F0", "BW0", "F1", "BW1"], ["F0", "F1", "BW0", "BW1"]]}
    )
    backwards = PipelineSchedule.from_json(with_order(0, "F0", "W0", "B0", "F1", "BW1"))
    costs = equal_parts(2, PartCosts(1, 1, 1))
    assert simulate(crossed, costs).step > 0 and simulate(ahead, costs).step > 0
    with pytest.raises(
        PlanError, match=r"BW0 on stage 0 waits for B0 on stage 1, which is behind F1 there; F1 on stage 1 waits for F1 on stage 0"
    ):
        simulate(stuck, costs)
    with pytest.raises(PlanError, match="W0 on stage 0 waits for B0 on stage 0, which comes after it"):
        simulate(backwards, costs)
    with pytest.raises(PlanError, match="2 parts"):
        simulate(ahead, equal_parts(3, PartCosts(1, 1, 1)))


def test_one_slow_link_delays_what_goes_over_it_and_transfers_share_it() -> None:
    part = PartCosts(1, 1, 1, sent=10)
    even, p = PipelineCosts((part,) * 4, Link(0, 0.01)), 4
    slow = PipelineCosts((part,) * 4, Link(0, 0.01), {(1, 2): Link(0, 0.5)})
    schedule = generate("gpipe", p, 6)
    assert simulate(schedule, slow).makespan >= simulate(schedule, even).makespan + 5 * 4  # 5 s a transfer, one after the other


def test_memory_counts_from_forward_to_each_gradient_and_what_lies_there_always() -> None:
    part = PartCosts(1, 1, 1, held=10, held_weight=4, fixed=100)
    line = simulate(PipelineSchedule.from_json(TWO), equal_parts(2, part))
    assert line.memory == (120.0, 110.0)
    levels = [level for _, level in simulate(generate("zb-h1", 1, 1), equal_parts(1, part)).stage_memory(0)]
    assert levels == [100, 110, 110, 110, 104, 104, 100]


def test_drawings() -> None:
    line = simulate(generate("1f1b", 2, 3), equal_parts(2, PartCosts(1, 1, 0)))
    assert drawings.text(line, 16) == "stage 0 Ff.BFb.B\nstage 1 .FBfbFB."
    picture = ElementTree.fromstring(drawings.svg(line))
    assert sum(e.tag.endswith("rect") for e in picture.iter()) == 12
    events = json.loads(drawings.perfetto(line))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X" and e["tid"] == 1] == ["F0", "BW0", "F1", "BW1", "F2", "BW2"]
    assert max(e["args"]["bytes"] for e in events if e["ph"] == "C") == 2


@pytest.mark.parametrize(
    "name, p, m, says",
    [
        ("interleaved", 4, 6, "use 8, or another schedule"),
        ("zb-v", 4, 6, "7 microbatches or more"),
        ("dualpipe", 3, 8, "even number of stages"),
        ("zb-h3", 2, 4, "there are gpipe, 1f1b"),
        ("gpipe", 0, 4, "stages must be from 1"),
    ],
)
def test_numbers_that_a_schedule_does_not_take(name: str, p: int, m: int, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        generate(name, p, m)
