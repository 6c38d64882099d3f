"""The run of a plan, and what a run should take: times of one process, put through the simulator with the measured links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..network import Network
from ..pipeline_schedule import PartCosts, PipelineCosts
from ..planner import DevicePlan, once
from ..shard_graph import ShardGraph
from ..shard_search import at_sizes, on_one_device, priced
from ..simulator import simulate
from ..transfers import crossing
from .launcher import kernel_seconds
from .run_spec import PlannedRun


def planned_run(plan: DevicePlan, part: Callable[[range, int], ShardGraph], dtype: str = "int64") -> PlannedRun:
    """The run of a plan, of a model of other sizes: `part` as a `Model` has it."""
    sequences = plan.batch // plan.microbatches
    parts = tuple(at_sizes(p.plan, part(p.layers, sequences)) for p in plan.parts)
    whole = on_one_device(part(range(plan.parts[0].layers.start, plan.parts[-1].layers.stop), sequences))
    return PlannedRun(parts, whole, plan.schedule, dtype)


def predicted_plans(runs: Sequence[PlannedRun], links: Network) -> list[float]:
    """Seconds of a step of each plan: kernels are timed in one process, each once."""
    return [predicted(run, links, times) for run, times in zip(runs, kernel_seconds(runs), strict=True)]


def predicted(run: PlannedRun, links: Network, times: Sequence[Mapping[str, float]]) -> float:
    """Seconds of a step of a plan. `times`: of each operation of each part."""
    plans, costs = [], []
    for k, (plan, seconds) in enumerate(zip(run.parts, times, strict=True)):
        mesh = tuple(links.axis(axis.n) for axis in plan.mesh)
        found = priced(plan.graph, mesh, plan.ops, plan.arrays, lambda op, _, seconds=seconds: seconds[op.name])  # type: ignore[misc]
        forward, inputs, weights = (sum(found.phases[name]) for name in ("forward", "input", "weight"))
        sent = crossing(plan, run.parts[k + 1], True).most if k + 1 < len(run.parts) else 0
        costs.append(PartCosts(forward, inputs, weights, sent=float(sent)))
        plans.append(found)
    return simulate(run.schedule, PipelineCosts(costs, links.link)).makespan + once(run.schedule, plans, links)
