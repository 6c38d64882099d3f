"""The best plan of a model over some devices: how many stages, how each stage is split over its devices, in how many microbatches and which
order; with what each part costs, what binds, and what else comes near."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .collectives import Mesh
from .errors import PlanError
from .handcrafted import generate
from .network import Network
from .pipeline_costs import PartCosts, PipelineCosts
from .pipeline_schedule import PipelineSchedule
from .shard_graph import ShardGraph
from .shard_search import ShardPlan, search_shardings
from .shardings import Price
from .simulator import Timeline, simulate

SHOWN_WITHIN = 0.05
"""Plans that are at most so much slower than the best are shown too."""


@dataclass(frozen=True)
class Model:
    """A model of equal `layers`. `part`: the graph of some of them for a microbatch of so many sequences. `boundary`:
    bytes of what goes from a layer to the next, for a sequence."""

    name: str
    layers: int
    part: Callable[[range, int], ShardGraph]
    boundary: float


@dataclass(frozen=True)
class PlannedStage:
    """The layers of a stage and how they are split over its devices."""

    layers: range
    plan: ShardPlan
    costs: PartCosts


@dataclass(frozen=True)
class DevicePlan:
    """A plan. Seconds of a step: `pipeline` until the last pass ends, and `once` for what is done once: gradients added
    up over devices, updates. `rejected`: why others could not be."""

    model: str
    batch: int
    devices: int
    mesh: tuple[int, ...]
    microbatches: int
    stages: tuple[PlannedStage, ...]
    line: Timeline
    once: float

    @property
    def step(self) -> float:
        return self.line.step + self.once

    @property
    def memory(self) -> float:
        """Bytes of the fullest device."""
        return max(self.line.memory)

    @property
    def name(self) -> str:
        """Such as `2 stages (1f1b, 8 microbatches) x 2 devices`."""
        inner = " x ".join(map(str, self.mesh))
        if len(self.stages) == 1:
            return f"one stage on {inner} device{'s' * (self.devices > 1)}"
        return f"{len(self.stages)} stages ({self.line.schedule.name}, {self.microbatches} microbatches) of {inner} device{'s' * (inner != '1')}"

    def parts(self) -> dict[str, float]:
        """Seconds of the step by part, on the stage that works longest; they add up to the step."""
        k = max(range(len(self.stages)), key=lambda s: self.line.busy[s])
        phases, m = self.stages[k].plan.phases, self.microbatches
        shares = {name: m * phases[name][0] for name in ("forward", "input", "weight")}
        found = {
            "forward passes": shares["forward"],
            "gradients of inputs": shares["input"],
            "gradients of weights": shares["weight"],
            "collectives of passes": m * sum(phases[name][1] for name in ("forward", "input", "weight")),
            "idle in the pipeline": self.line.step - self.line.busy[k],
            "gradients and parameters between devices": phases["update"][1],
            "updates": phases["update"][0],
        }
        found["other stages' ends"] = self.step - sum(found.values())
        return {name: seconds for name, seconds in found.items() if seconds > 1e-12 * self.step}

    @property
    def binding(self) -> str:
        """What takes most: compute, the network, or idle time."""
        parts = self.parts()
        network = sum(parts.get(name, 0.0) for name in ("collectives of passes", "gradients and parameters between devices"))
        idle = parts.get("idle in the pipeline", 0.0)
        return max((("compute", self.step - network - idle), ("the network", network), ("idle time", idle)), key=lambda x: x[1])[0]


@dataclass(frozen=True)
class Found:
    """`best`, and the `others` by time. `rejected`: (plan, why) of those that do not fit."""

    best: DevicePlan
    others: tuple[DevicePlan, ...]
    rejected: tuple[tuple[str, str], ...]

    @property
    def near(self) -> tuple[DevicePlan, ...]:
        """Others within 5 % of the best."""
        return tuple(p for p in self.others if p.step <= self.best.step * (1 + SHOWN_WITHIN))


def meshes(n: int) -> Iterator[tuple[int, ...]]:
    """Shapes of `n` devices: a row, and rectangles."""
    yield (n,)
    yield from ((a, n // a) for a in range(2, math.isqrt(n) + 1) if n % a == 0)


def plan(model: Model, devices: int, batch: int, price: Price, network: Network, memory: float = math.inf) -> Found:
    """The best plan found. `network`: between any two devices. Raises PlanError where none fits, with the least memory that would."""
    if devices < 1:
        raise PlanError(f"a plan needs one device at least, not {devices}")
    made: list[DevicePlan] = []
    rejected: list[tuple[str, str]] = []
    for stages in (s for s in range(1, devices + 1) if devices % s == 0):
        if stages > model.layers:
            rejected.append((f"{stages} stages", f"{model.name} has {model.layers} layers"))
            continue
        for shape in meshes(devices // stages):
            mesh = tuple(map(network.axis, shape))
            try:
                made += _plans(model, stages, mesh, batch, price, network, memory)
            except PlanError as e:
                rejected.append((f"{stages} stages of {' x '.join(map(str, shape))} devices", str(e)))
    if not made:
        raise PlanError("; ".join(dict.fromkeys(f"{name}: {why}" for name, why in rejected)))
    best, *others = sorted(made, key=lambda p: p.step)
    return Found(best, tuple(others), tuple(rejected))


def _plans(model: Model, stages: int, mesh: Mesh, batch: int, price: Price, network: Network, memory: float) -> Iterator[DevicePlan]:
    """Plans with so many stages, one for each number of microbatches and order that fits."""
    counts = [1] if stages == 1 else [m for m in (stages, 2 * stages, 4 * stages, batch) if batch % m == 0 and m <= batch]
    if not counts:
        raise PlanError(f"a batch of {batch} is no multiple of {stages} microbatches")
    why, fits = "", 0
    for m in dict.fromkeys(counts):
        try:
            cuts = [range(model.layers)] if stages == 1 else cut(model, stages, _layer_costs(model, mesh, batch // m, price, m), m)
            for made in _scheduled(model, cuts, mesh, batch, m, price, network, memory):
                fits += 1
                yield made
        except PlanError as e:
            why = str(e)
    if not fits:
        raise PlanError(why)


def _layer_costs(model: Model, mesh: Mesh, sequences: int, price: Price, m: int) -> Callable[[int, bool], tuple[float, float]]:
    """(seconds of a microbatch, seconds once a step) of so many layers, with or without the model's last: from programs
    of one and two layers, as layers are equal."""
    known: dict[range, ShardPlan] = {}

    def solved(layers: range) -> ShardPlan:
        if layers not in known:
            known[layers] = search_shardings(model.part(layers, sequences), mesh, price, microbatches=m, equal_layers=True)
        return known[layers]

    def cost(count: int, last: bool) -> tuple[float, float]:
        n = model.layers
        one = solved(range(n - 1, n) if last else range(1))
        more = (0.0, 0.0)
        if count > 1 and n > 1:
            two = solved(range(n - 2, n) if last else range(2))
            more = tuple(b - a for a, b in zip(_split(one), _split(two)))  # type: ignore[assignment]
        each, once = _split(one)
        return each + (count - 1) * more[0], once + (count - 1) * more[1]

    return cost


def _split(found: ShardPlan) -> tuple[float, float]:
    once = sum(found.phases["update"])
    return found.step - once, once


def cut(model: Model, stages: int, cost: Callable[[int, bool], tuple[float, float]], m: int) -> list[range]:
    """Layers of each stage: the cut with the least m times the slowest stage and the others once, by dynamic programming over the slowest
    (Alpa's, arXiv 2201.12023, section 5)."""
    n = model.layers
    times = {(count, last): cost(count, last)[0] for count in range(1, n - stages + 2) for last in (False, True)}
    best: tuple[float, list[range]] | None = None
    for slowest in sorted(set(times.values())):
        # ways[k][j]: the least sum of stage times for the first j layers in k stages, none slower than `slowest`
        ways: list[dict[int, tuple[float, list[range]]]] = [{0: (0.0, [])}]
        for k in range(1, stages + 1):
            here: dict[int, tuple[float, list[range]]] = {}
            for j, (total, cuts) in ways[-1].items():
                for end in range(j + 1, n - (stages - k) + 1):
                    t = times.get((end - j, end == n), math.inf)
                    if t <= slowest and total + t < here.get(end, (math.inf, []))[0]:
                        here[end] = total + t, [*cuts, range(j, end)]
            ways.append(here)
        if n in ways[-1]:
            total, cuts = ways[-1][n]
            step = total + (m - 1) * slowest
            if best is None or step < best[0]:
                best = step, cuts
    assert best is not None
    return best[1]


def _scheduled(
    model: Model, cuts: list[range], mesh: Mesh, batch: int, m: int, price: Price, network: Network, memory: float
) -> Iterator[DevicePlan]:
    """The cut stages under each order that fits into memory."""
    p, sequences, shape = len(cuts), batch // m, tuple(axis.n for axis in mesh)
    free = [_stage(model, layers, mesh, sequences, m, 1, price, math.inf) for layers in cuts]
    why, fits = "", 0
    for schedule in _orders(p, m):
        flights = simulate(schedule, PipelineCosts((PartCosts(1, 1, 1),) * p)).in_flight
        stages = free
        if any(s.costs.fixed + n * s.costs.held > memory for s, n in zip(free, flights)):
            try:
                stages = [_stage(model, layers, mesh, sequences, m, n, price, memory) for layers, n in zip(cuts, flights)]
            except PlanError as e:
                why = str(e)
                continue
        line = simulate(schedule, PipelineCosts([s.costs for s in stages], network.link))
        once = max(sum(s.plan.phases["update"]) for s in stages)
        if max(line.memory) > memory * (1 + 1e-9):
            why = f"{schedule.name} holds {max(line.memory):.4g} bytes"
            continue
        fits += 1
        yield DevicePlan(model.name, batch, p * math.prod(shape), shape, m, tuple(stages), line, once)
    if not fits:
        raise PlanError(why)


def _orders(stages: int, microbatches: int) -> Iterator[PipelineSchedule]:
    """Those of the literature with one part of the model a stage. GPipe is 1F1B with more memory."""
    names = ("1f1b", "zb-h1", "zb-h2") if stages > 1 else ("1f1b",)
    yield from (generate(name, stages, microbatches) for name in names)


def _stage(model: Model, layers: range, mesh: Mesh, sequences: int, m: int, in_flight: int, price: Price, memory: float) -> PlannedStage:
    graph = model.part(layers, sequences)
    found = search_shardings(graph, mesh, price, memory, microbatches=m, in_flight=in_flight, equal_layers=True)
    outs = {op.name: graph.arrays[op.writes[0]] for op in graph.ops}
    kept = sum(found.ops[name].made for name, array in outs.items() if array.kept and array.role == "made")
    forward, inputs, weights = (sum(found.phases[name]) for name in ("forward", "input", "weight"))
    sent = model.boundary * sequences / math.prod(axis.n for axis in mesh)
    costs = PartCosts(forward, inputs, weights, None, kept, kept, sent, found.memory - in_flight * kept)
    return PlannedStage(layers, found, costs)


def at_twice_the_bandwidth(model: Model, found: Found, price: Price, network: Network, memory: float) -> Found:
    """The same question, on links of twice the bandwidth."""
    return plan(model, found.best.devices, found.best.batch, price, network.faster(2), memory)


def layouts_of(stage: PlannedStage) -> dict[str, str]:
    """How each kind of operation of a stage is split, in words: `qkv: heads over 2`; the first layer stands for all."""
    graph, mesh = stage.plan.graph, stage.plan.mesh
    first = min(op.layer for op in graph.ops)
    said = {}
    for op in graph.ops:
        if op.layer == first and graph.phase(op) in ("forward", "update"):
            split = stage.plan.ops[op.name].split
            words = [f"{axis} over {mesh[k].n}" for k, axis in enumerate(split) if axis]
            said[op.name] = ", ".join(words) or "whole on each"
    return said


def tensor_axes(stage: PlannedStage) -> set[int]:
    """Axes of the mesh over which products are split by something else than rows."""
    graph, split = stage.plan.graph, stage.plan.ops
    products = [op for op in graph.ops if graph.phase(op) == "forward" and not op.whole and op.flops]
    return {m for op in products for m, axis in enumerate(split[op.name].split) if axis not in ("", "b", "s")}


def placement_name(stage: PlannedStage) -> str:
    """What the field calls the places of parameters, gradients and optimiser state: data parallel, ZeRO-1 to 3, tensor parallel."""
    plan_, graph = stage.plan, stage.plan.graph
    parameters = [name for name, a in graph.arrays.items() if a.role == "parameter"]
    if not any("b" in op.axes for op in graph.ops):
        return "split as follows" if any(any(way.split) for way in plan_.ops.values()) else "every device does the same"
    batch = {m for op in graph.ops for m, axis in enumerate(plan_.ops[op.name].split) if graph.phase(op) == "forward" and axis == "b"}
    split = sum(any(at >= 0 for at in plan_.arrays[name]) for name in parameters)
    state = sum(any(at >= 0 for at in plan_.ops[op.name].writes) for op in graph.updates())
    if math.prod(axis.n for axis in plan_.mesh) == 1:
        return "one device"
    tensor = tensor_axes(stage)
    words = []
    if batch:
        zero = 3 if split == len(parameters) and not tensor else 2 if state == len(parameters) and not tensor else 0
        words.append("data parallel" + (f", ZeRO-{zero}" if zero else ""))
    if tensor:
        words.append("tensor parallel")
    return " and ".join(words) or ("mixed" if plan_.communication else "every device does the same")
