"""Nano-batches on a device whose times are scripted: there is no second resource to measure here."""

from __future__ import annotations

import pytest

pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")
from tilewright.placement import MeshAxis, PlanError, ShardOp, perceptron, search_shardings
from tilewright.placement.overlap import OverlapTask, PlannedPasses, best_split, split_seconds

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


def test_what_is_no_resource() -> None:
    with pytest.raises(PlanError, match="uses 'disk'; there are compute, memory, network"):
        OverlapTask("load", "disk")


def test_the_passes_of_a_plan_are_split_where_sending_hides_behind_computing() -> None:
    def price(op: ShardOp, local: dict[str, int]) -> float:
        return 1e-11 * op.flops * local.get("b", 32) / 32

    plan = search_shardings(perceptron(6, 32, 256), (MeshAxis(4, 0, 3e-9),))
    free = {a: dict.fromkeys(("compute", "memory", "network"), 1.0) for a in ("compute", "memory", "network")}
    passes = PlannedPasses(plan, price, 0.1, free)
    assert passes.pieces == (2, 4) and {t.resource for t in passes.tasks} == {"compute", "memory", "network"}
    sent = sum(passes.seconds(t, 1.0) for t in passes.tasks if t.resource == "network")
    assert sent == pytest.approx(plan.communication), "what is added up once a step is not there: these weights are split"
    found = best_split(passes.tasks, passes, passes.pieces)
    assert found.pieces > 1 and found.seconds < found.tried[1] - 0.3 * sent
    shared = {a: dict.fromkeys(free, 2.0) for a in free}
    assert best_split(passes.tasks, PlannedPasses(plan, price, 0.1, shared), passes.pieces).pieces == 1
