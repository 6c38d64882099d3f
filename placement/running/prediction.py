"""The run of a plan, and what a run should take: times of one process, put through the simulator with the measured links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..collectives import devices
from ..network import Network
from ..pipeline_costs import PartCosts, PipelineCosts
from ..planner import DevicePlan
from ..shard_graph import ShardGraph
from ..shard_search import at_sizes, on_one_device, priced
from ..simulator import simulate
from .launcher import kernel_seconds, run
from .run_spec import PlannedRun, RunSpec


def planned_run(plan: DevicePlan, part: Callable[[range, int], ShardGraph], dtype: str = "int64") -> PlannedRun:
    """The run of a plan, of a model of other sizes: `part` as a `Model` has it."""
    sequences = plan.batch // plan.microbatches
    stages = tuple(at_sizes(s.plan, part(s.layers, sequences)) for s in plan.stages)
    layers = range(plan.stages[0].layers.start, plan.stages[-1].layers.stop)
    whole = on_one_device(part(layers, sequences))
    return PlannedRun(stages, whole, plan.line.schedule, plan.microbatches, dtype)


@dataclass(frozen=True)
class LayerTimes:
    """Seconds of a layer's passes for a microbatch, and of its update, in one process alone."""

    forward: float
    input: float
    weight: float
    update: float


def layer_times(spec: RunSpec) -> LayerTimes:
    """Measured: the same layers (of a rank's columns) in one process."""
    alone = replace(spec, stages=1, tensor=1, data=1, inner=spec.inner // spec.tensor, schedule="zb-h1", zero=0, steps=4, fault="")
    (found,) = run([alone])
    seconds: Mapping[str, float] = found.op_seconds[0]
    passes = spec.microbatches * spec.layers
    return LayerTimes(seconds["F"] / passes, seconds["B"] / passes, seconds["W"] / passes, seconds["U"] / spec.layers)


def predicted(spec: RunSpec, times: LayerTimes, links: Network) -> float:
    """Seconds of a step of a run."""
    schedule, itemsize = spec.pipeline(), np.dtype(spec.dtype).itemsize
    activations = spec.batch * spec.hidden * itemsize
    across = links.axis(spec.tensor).seconds("all-reduce", activations)
    parts = []
    for k in range(schedule.parts):
        n = len(spec.layers_of(k))
        weights = 2 * n * spec.hidden * (spec.inner // spec.tensor) * itemsize
        gather = links.axis(spec.data).seconds("all-gather", weights) if spec.zero == 3 else 0.0
        forward, inputs = (n * (x + across) + gather for x in (times.forward, times.input))
        parts.append(PartCosts(forward, inputs, n * times.weight, sent=activations))
    line = simulate(schedule, PipelineCosts(parts, links.link))
    once = 0.0
    for stage in range(spec.stages):
        held = [k for (s, _), (_, k) in schedule.part_at.items() if s == stage]
        once = max(once, sum(_update(spec, len(spec.layers_of(k)), times, links, itemsize, len(schedule.routes)) for k in held))
    return line.makespan + once


def _update(spec: RunSpec, layers: int, times: LayerTimes, links: Network, itemsize: int, copies: int) -> float:
    """Seconds of adding up gradients and updating a part."""
    n, nbytes = spec.data * copies, 2 * layers * spec.hidden * (spec.inner // spec.tensor) * itemsize
    collectives = {0: ("all-reduce",), 1: ("all-reduce", "all-gather"), 2: ("reduce-scatter", "all-gather"), 3: ("reduce-scatter",)}
    share = layers * times.update / (n if spec.zero else 1)
    return share + sum(links.axis(n).seconds(kind, nbytes) for kind in collectives[spec.zero])


def predicted_plan(run: PlannedRun, links: Network, times: Sequence[Mapping[str, float]] | None = None) -> float:
    """Seconds of a step of a plan. `times`: of each operation of each stage in one process (None: measured)."""
    times = kernel_seconds(run) if times is None else times
    parts, once = [], 0.0
    for plan, seconds in zip(run.stages, times, strict=True):
        mesh = tuple(links.axis(axis.n) for axis in plan.mesh)
        found = priced(plan.graph, mesh, plan.ops, plan.arrays, lambda op, _, seconds=seconds: seconds[op.name])  # type: ignore[misc]
        forward, inputs, weights, update = (sum(found.phases[name]) for name in ("forward", "input", "weight", "update"))
        sent = sum(a.nbytes for a in plan.graph.arrays.values() if a.role == "boundary") / devices(mesh)
        parts.append(PartCosts(forward, inputs, weights, sent=sent))
        once = max(once, update)
    return simulate(run.schedule, PipelineCosts(parts, links.link)).makespan + once
