"""What a run should take: times of one process, put through the simulator with the measured links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..network import Network
from ..pipeline_costs import PartCosts, PipelineCosts
from ..simulator import simulate
from .launcher import run
from .run_spec import RunSpec


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
