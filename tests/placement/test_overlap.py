"""Nano-batches on a device whose times are scripted: there is no second resource to measure here."""

from __future__ import annotations

import pytest
from tilewright.placement import PlanError
from tilewright.placement.overlap import OverlapTask, best_split, most_tokens_a_second, split_seconds

TASKS = [OverlapTask("product", "compute"), OverlapTask("attention", "memory"), OverlapTask("all-reduce", "network")]


class Scripted:
    """Each task takes `seconds` times the share and `fixed` seconds, and `slow` times as long beside another."""

    def __init__(self, fixed: float = 0.0, slow: float = 1.0) -> None:
        self.fixed, self.slow = fixed, slow

    def seconds(self, task: OverlapTask, share: float) -> float:
        return {"product": 4.0, "attention": 2.0, "all-reduce": 2.0}[task.name] * share + self.fixed

    def slowed(self, task: OverlapTask, beside: OverlapTask) -> float:
        return self.slow


def test_pieces_run_side_by_side_on_unlike_resources() -> None:
    assert split_seconds(TASKS, Scripted(), 1) == 8
    # 2 | 2 beside 1 and 1 | 1 | 1: the second piece's product hides the first one's attention and all-reduce
    assert split_seconds(TASKS, Scripted(), 2) == pytest.approx(6)
    found = best_split(TASKS, Scripted())
    assert found.pieces == 4 and found.seconds == pytest.approx(5) and "1.60x" in found.said


def test_no_split_where_starting_or_interference_costs_more() -> None:
    for device in (Scripted(fixed=2.0), Scripted(slow=2.5)):
        found = best_split(TASKS, device)
        assert found.pieces == 1 and found.said.startswith("no split")
    alike = [OverlapTask("product", "compute")] * 3
    assert best_split(alike, Scripted()).pieces == 1


def test_the_bound_and_what_is_no_resource() -> None:
    assert most_tokens_a_second(8 * 312e12, 70e9) == pytest.approx(17829, rel=1e-4)
    with pytest.raises(PlanError, match="uses 'disk'; there are compute, memory, network"):
        OverlapTask("load", "disk")
