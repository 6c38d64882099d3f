"""The search for schedules under a limit of memory."""

from __future__ import annotations

import math

import pytest
from published import PROFILED, ZB_2P
from tilewright.placement import Link, PartCosts, PipelineCosts, PlanError, equal_parts, search_schedule, simulate

UNIT = PartCosts(1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 6, 11])
def test_bubbles_are_at_most_those_that_zero_bubble_s_search_found(k: int) -> None:
    """Column ZB-2p of arXiv 2401.10241; benchmarks/plans.py has all twelve."""
    s = PROFILED[k]
    kept = PartCosts(s.f, s.b, s.w, held=34 * s.hidden + 5 * s.heads * 1024, held_weight=32 * s.hidden)
    memory = 2 * s.p * kept.held
    found = search_schedule(s.p, s.m, equal_parts(s.p, kept, s.c), memory, seconds=1 if s.p < 32 else 5)
    assert round(found.line.bubble, 4) <= ZB_2P[k]
    assert max(found.line.memory) <= memory and found.bound <= found.line.step
    assert simulate(found.line.schedule, found.line.costs).step == found.line.step


@pytest.mark.slow
def test_small_ones_are_proven_to_be_the_handcrafted_ones() -> None:
    pytest.importorskip("ortools")
    for p, m, memory, idle in ((2, 4, 2, 1), (2, 4, 3, 0), (3, 6, 3, 2), (3, 6, 5, 0)):
        found = search_schedule(p, m, equal_parts(p, UNIT), memory, seconds=30, exact=True)
        assert found.proven and found.line.step == 3 * m + idle and found.gap == 0


def test_passes_of_no_time_hold_memory_too() -> None:
    pytest.importorskip("ortools")
    found = search_schedule(3, 6, equal_parts(3, PartCosts(1, 0, 0)), 2, seconds=0.3, exact=True)
    assert max(found.line.memory) <= 2 and found.line.step >= found.bound


def test_unlike_parts_a_slow_link_and_the_v() -> None:
    parts = [PartCosts(1, 2, 1, held=3), PartCosts(2, 2, 1, held=1), PartCosts(1, 1, 1, held=2)]
    slow = PipelineCosts(parts, Link(0.1), {(1, 2): Link(3.0)})
    found = search_schedule(3, 8, slow, 9, seconds=0.2, exact=False)
    assert max(found.line.memory) <= 9 and found.line.step >= 8 * 5
    v = search_schedule(4, 8, equal_parts(8, UNIT), 8, layout="v", seconds=5)
    assert v.proven and v.line.step == 48


def test_what_cannot_fit_says_the_least_that_would() -> None:
    costs = equal_parts(2, PartCosts(1, 1, 1, held=10, held_weight=4, fixed=100))
    with pytest.raises(PlanError, match=r"one microbatch alone takes 110"):
        search_schedule(2, 4, costs, 109)
    assert search_schedule(2, 4, costs, 110, seconds=0.1, exact=False).line.memory == (110, 110)
    with pytest.raises(PlanError, match="no layout 'w'"):
        search_schedule(2, 4, costs, layout="w")
    assert math.isfinite(search_schedule(1, 1, equal_parts(1, UNIT), seconds=0.1, exact=False).line.step)
