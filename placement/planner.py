"""The best plan of a model over some devices: how many stages, over which devices each, how each is split over them, in how many microbatches and
which order; with what each part costs, what binds, and what else comes near."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

from .collectives import Mesh
from .decided import FREE, Decided, as_decided
from .errors import MemoryLimitError, PlanError, rounded_up
from .handcrafted import generate
from .list_schedule import DevicePlaces, Order, Slow, SlowUse, best_orders
from .network import Network
from .pipeline_schedule import Link, PartCosts, PipelineCosts, PipelineSchedule
from .shard_graph import ShardGraph
from .shard_search import ShardPlan, least_memory, renamed, search_shardings
from .shardings import Price, local_bytes
from .simulator import Timeline, simulate
from .transfers import crossing

# stage cuts -----------------------------------------------------------------------------------------------------------
#
# Which layers a stage of a pipeline has, and on how many devices: dynamic programming over layers and devices
# (Alpa's, arXiv 2201.12023, section 5).


@dataclass(frozen=True)
class Cut:
    """A part of the model, and what it runs on."""

    layers: range
    mesh: Mesh


Way = tuple[float, tuple[Cut, ...]]
"""The sum of the parts' seconds, and the parts."""


def cut(
    layers: int,
    parts: int,
    having: Sequence[tuple[int, Mesh]],
    devices: int,
    seconds: Callable[[int, bool, Mesh], float],
    m: int,
    fits: Callable[[int, bool, Mesh, int], bool] = lambda *_: True,
) -> list[Cut]:
    """The cut with the least sum of m - 1 times the slowest part and all parts once; [] where there is none. `having`: (devices, mesh) that a part
    can take, of `devices` in all; `seconds`: of a microbatch in so many layers, with or without the model's last, on a mesh; `fits`: whether those
    can be on it, with so many parts after."""
    most = devices - (parts - 1) * min((n for n, _ in having), default=0)
    having = [(n, mesh) for n, mesh in having if n <= most]
    times = {
        (count, last, k): seconds(count, last, mesh)
        for count in range(1, layers - parts + 2)
        for last in (False, True)
        for k, (_, mesh) in enumerate(having)
    }

    def least(slowest: float) -> Way | None:
        """The least sum, with no part slower than that."""
        ways: dict[tuple[int, int], Way] = {(0, 0): (0.0, ())}
        for left in reversed(range(parts)):
            here: dict[tuple[int, int], Way] = {}
            for (start, used), (total, cuts) in ways.items():
                for end in range(start + 1, layers - left + 1) if left else [layers]:
                    for k, (n, mesh) in enumerate(having):
                        at, t = (end, used + n), times.get((end - start, end == layers, k), math.inf)
                        better = at[1] <= devices and t <= slowest and (at not in here or total + t < here[at][0])
                        if better and fits(end - start, end == layers, mesh, left):
                            here[at] = total + t, (*cuts, Cut(range(start, end), mesh))
            ways = here
        return ways.get((layers, devices))

    free = least(math.inf)
    if free is None:
        return []
    best: tuple[float, Way] | None = None
    for slowest in sorted(set(times.values())):
        if best is not None and free[0] + (m - 1) * slowest >= best[0]:
            break
        way = least(slowest)
        if way is not None and (best is None or way[0] + (m - 1) * slowest < best[0]):
            best = way[0] + (m - 1) * slowest, way
    assert best is not None
    return list(best[1][1])


# planner --------------------------------------------------------------------------------------------------------------

SHOWN_WITHIN = 0.05
"""Plans that are at most so much slower than the best are shown too."""
ORDERS, CHUNKED = ("1f1b", "zb-h1", "zb-h2"), ("interleaved", "zb-v", "dualpipe")
"""Those that a plan tries, of one part a stage and of two. GPipe is 1F1B with more memory; V-Half and V-Min have more idle time than what fits where
they do."""


@dataclass(frozen=True)
class Model:
    """A model of equal `layers`. `part`: the graph of some of them for a microbatch of so many sequences."""

    name: str
    layers: int
    part: Callable[[range, int], ShardGraph]


@dataclass(frozen=True)
class PlannedPart:
    """The layers of a part of the model, and how they are split over the devices of its stage."""

    layers: range
    plan: ShardPlan
    costs: PartCosts


@dataclass(frozen=True)
class DevicePlan:
    """A plan. `parts`: first to last; a stage has one or several. Seconds of a step: those of the pipeline's `line` until the last pass ends, and
    `once` for what is done once: gradients added up over devices, updates. `order`: the device of each rank; `slow`: where slow links are used."""

    model: str
    batch: int
    parts: tuple[PlannedPart, ...]
    line: Timeline
    once: float
    order: Order
    slow: tuple[SlowUse, ...]

    @property
    def schedule(self) -> PipelineSchedule:
        return self.line.schedule

    @property
    def microbatches(self) -> int:
        return self.schedule.microbatches

    @property
    def meshes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each stage's devices."""
        return tuple(self.parts[self.schedule.parts_of(stage)[0]].plan.shape for stage in range(self.schedule.stages))

    @property
    def devices(self) -> int:
        return sum(map(math.prod, self.meshes))

    def devices_of(self, stage: int) -> Order:
        """The devices of a stage in the order of its mesh, row by row."""
        sizes = list(map(math.prod, self.meshes))
        first = sum(sizes[:stage])
        return self.order[first : first + sizes[stage]]

    @property
    def step(self) -> float:
        return self.line.step + self.once

    @property
    def memory(self) -> float:
        """Bytes of the fullest device."""
        return max(self.line.memory)

    @property
    def name(self) -> str:
        """A name such as `2 stages (1f1b, 8 microbatches) of 2 devices`, or `... of 1, 1 and 2 devices`."""
        shapes = [" x ".join(str(n) for n in shape if n > 1) or "1" for shape in self.meshes]
        each = shapes[:1] if len(set(shapes)) == 1 else shapes
        inner = (", ".join(each[:-1]) + " and " if each[1:] else "") + each[-1]
        words = f"{inner} device{'s' * (inner != '1')}"
        if self.schedule.stages == 1:
            return f"one stage on {words}"
        return f"{self.schedule.stages} stages ({self.schedule.name}, {self.microbatches} microbatches) of {words}"

    @property
    def longest(self) -> tuple[PlannedPart, ...]:
        """The parts of the stage that works longest."""
        stage = max(range(self.schedule.stages), key=lambda s: self.line.busy[s])
        return tuple(self.parts[k] for k in self.schedule.parts_of(stage))

    def shares(self) -> dict[str, float]:
        """Seconds of the step by what is done, on the stage that works longest; they add up to the step."""
        m, found = self.microbatches / len(self.schedule.routes), defaultdict[str, float](float)
        for part in self.longest:
            phases = part.plan.phases
            found["forward passes"] += m * phases["forward"][0]
            found["gradients of inputs"] += m * phases["input"][0]
            found["gradients of weights"] += m * phases["weight"][0]
            found["collectives of passes"] += m * sum(phases[name][1] for name in ("forward", "input", "weight"))
            found["gradients and parameters between devices"] += phases["update"][1]
            found["updates"] += phases["update"][0]
        found["idle in the pipeline"] = self.line.step - max(self.line.busy)
        found["other stages' ends"] = self.step - sum(found.values())
        return {name: seconds for name, seconds in found.items() if seconds > 1e-12 * self.step}

    @property
    def binding(self) -> str:
        """What takes most: compute, the network, or idle time."""
        shares = self.shares()
        network = sum(shares.get(name, 0.0) for name in ("collectives of passes", "gradients and parameters between devices"))
        idle = shares.get("idle in the pipeline", 0.0)
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


def plan(
    model: Model, devices: int, batch: int, price: Price, network: Network, memory: float = math.inf, decided: Decided = FREE
) -> Found:
    """The best plan found. `network`: between devices; stages get layers as if no link were slow, then devices take the places where slow links
    cost least. `decided`: what is decided. Raises PlanError where none fits, with the least memory that would."""
    if devices < 1:
        raise PlanError(f"a plan needs one device at least, not {devices}")
    if unknown := [d for of in network.slow for d in of if not 0 <= d < devices]:
        raise PlanError(f"a slow link of device {unknown[0]}: {devices} devices are numbered from 0 to {devices - 1}")
    return _Planner(model, devices, batch, price, network, memory, decided).found()


@dataclass
class _Planner:
    model: Model
    devices: int
    batch: int
    price: Price
    network: Network
    memory: float
    decided: Decided
    solved: dict[tuple[object, ...], PlannedPart | PlanError] = field(default_factory=dict)
    least: dict[tuple[object, ...], float] = field(default_factory=dict)
    graphs: dict[tuple[range, int], ShardGraph] = field(default_factory=dict)
    orders: dict[tuple[tuple[int, ...], ...], dict[tuple[tuple[float, ...], ...], list[Order]]] = field(default_factory=dict)
    short: list[float] = field(default_factory=list)
    """Bytes that plans which did not fit would have needed."""

    def found(self) -> Found:
        made: dict[str, DevicePlan] = {}
        rejected: list[tuple[str, str]] = []
        for stages in [self.decided.stages] if self.decided.stages else range(1, self.devices + 1):
            if stages > self.model.layers:
                rejected.append((f"{stages} stages", f"{self.model.name} has {self.model.layers} layers"))
                continue
            for mesh in [*self._equal(stages), *[None] * (1 < stages < self.devices)]:
                try:
                    for p in self._plans(stages, mesh):
                        made.setdefault(p.name, p)
                except PlanError as e:
                    of = "unlike numbers of" if mesh is None else " x ".join(str(axis.n) for axis in mesh)
                    rejected.append((f"{stages} stages of {of} devices", str(e)))
        if not made and not rejected:
            of = f"of {self.decided.tensor} tensor-parallel devices" if self.decided.tensor else "of a device or more"
            raise PlanError(f"{self.devices} devices cannot be dealt out to {self.decided.stages or 1} stages {of}")
        if not made and self.short:
            raise PlanError(f"no plan fits into {rounded_up(self.memory)} bytes a device: {rounded_up(min(self.short))} bytes is the least")
        if not made:
            raise PlanError("; ".join(dict.fromkeys(f"{name}: {why}" for name, why in rejected)))
        best, *others = sorted(made.values(), key=lambda p: p.step)
        return Found(best, tuple(others), tuple(rejected))

    def _mesh(self, shape: Sequence[int], times: Sequence[float] = ()) -> Mesh:
        return tuple(map(self.network.axis, shape, times or [1.0] * len(shape)))

    def _shapes(self, n: int) -> Iterator[tuple[int, ...]]:
        """The shapes that a mesh of `n` devices of a stage may have."""
        if self.decided.tensor is None:
            yield from meshes(n)
        elif n % self.decided.tensor == 0:
            yield n // self.decided.tensor, self.decided.tensor

    def _equal(self, stages: int) -> Iterator[Mesh]:
        """Meshes of stages that all have one."""
        if self.devices % stages == 0:
            yield from map(self._mesh, self._shapes(self.devices // stages))

    def _plans(self, stages: int, mesh: Mesh | None) -> Iterator[DevicePlan]:
        """Plans with so many stages on equal meshes, or (None) each on its own; one for each number of microbatches and order that fits."""
        counts = [1] if stages == 1 else [stages, 2 * stages, 4 * stages, self.batch]
        counts = [m for m in dict.fromkeys([self.decided.microbatches] if self.decided.microbatches else counts) if self.batch % m == 0]
        if not counts:
            raise PlanError(f"a batch of {self.batch} is no multiple of {self.decided.microbatches or stages} microbatches")
        names = ORDERS[:1] if stages == 1 else ORDERS if mesh is None else (*ORDERS, *CHUNKED)
        why, fits = "", 0
        for m in counts:
            cuts: dict[int, list[Cut]] = {}
            for name in [self.decided.schedule] if self.decided.schedule else names:
                try:
                    schedule = generate(name, stages, m, self.decided.chunks)
                    if mesh is None and schedule.chunks > 1:
                        continue  # a stage's parts take its whole mesh each
                    if schedule.parts not in cuts:
                        cuts[schedule.parts] = self._cuts(schedule.parts, stages, mesh, m)
                    if cuts[schedule.parts]:
                        yield self._scheduled(schedule, cuts[schedule.parts], m)
                        fits += 1
                except PlanError as e:
                    why = str(e)
                    self.short += [e.least] if isinstance(e, MemoryLimitError) else []
        if not fits and why:
            raise PlanError(why)

    def _cuts(self, parts: int, stages: int, mesh: Mesh | None, m: int) -> list[Cut]:
        """The layers and the mesh of each part."""
        if parts > self.model.layers:
            raise PlanError(
                f"{self.model.name} has {self.model.layers} layers, for {parts} parts: {parts} layers at least, or fewer stages"
            )
        if parts == 1:
            assert mesh is not None
            return [Cut(range(self.model.layers), mesh)]
        if mesh is not None:
            return self._cut(parts, [(1, mesh)], parts, m, stages)
        sizes = [n for n in range(1, self.devices) if n & (n - 1) == 0 or self.devices % n == 0]
        having = [(n, self._mesh(shape)) for n in sizes for shape in self._shapes(n)]
        found = self._cut(stages, having, self.devices, m, stages)
        return found if len({tuple(axis.n for axis in c.mesh) for c in found}) > 1 else []

    def _cut(self, parts: int, having: Sequence[tuple[int, Mesh]], devices: int, m: int, stages: int) -> list[Cut]:
        """The cut of which parts fit into memory as 1F1B holds it; the fastest where there is none, and whoever schedules it says what is missing."""

        def fits(count: int, last: bool, mesh: Mesh, left: int) -> bool:
            n = self.model.layers
            layers = range(n - count, n) if last else range(left < parts - 1, count + (left < parts - 1))
            return self._least(layers, mesh, m, min(m, left % stages + 1)) <= self.memory * stages / parts

        seconds = self._seconds_of(m)
        held = [] if math.isinf(self.memory) else cut(self.model.layers, parts, having, devices, seconds, m, fits)
        return held or cut(self.model.layers, parts, having, devices, seconds, m)

    def _seconds_of(self, m: int) -> Callable[[int, bool, Mesh], float]:
        """Seconds of a microbatch in so many layers, with or without the model's last: from programs of one and two layers, as layers are equal."""
        n = self.model.layers

        def alone(layers: range, mesh: Mesh) -> float:
            costs = self._part(layers, mesh, m, 1, math.inf).costs
            return costs.forward + costs.input + costs.weight

        def seconds(count: int, last: bool, mesh: Mesh) -> float:
            one = alone(range(n - 1, n) if last else range(1), mesh)
            two = alone(range(n - 2, n) if last else range(2), mesh) if count > 1 else one
            return one + (count - 1) * (two - one)

        return seconds

    def _graph(self, layers: range, m: int) -> ShardGraph:
        if (layers, m) not in self.graphs:
            self.graphs[layers, m] = self.model.part(layers, self.batch // m)
        return self.graphs[layers, m]

    def _part(self, layers: range, mesh: Mesh, m: int, in_flight: int, memory: float) -> PlannedPart:
        """Layers split over a mesh. Parts of equally many layers of which none, or the same end, is the model's are split alike."""
        links = tuple((axis.n, axis.alpha, axis.beta) for axis in mesh)
        key = (len(layers), layers.start == 0, layers.stop == self.model.layers, links, m, in_flight, memory)
        if key not in self.solved:
            try:
                self.solved[key] = self._solved(self._graph(layers, m), layers, mesh, m, in_flight, memory)
            except PlanError as e:
                self.solved[key] = e
        found = self.solved[key]
        if isinstance(found, PlanError):
            raise found
        if found.layers == layers:
            return found
        return replace(found, layers=layers, plan=renamed(found.plan, self._graph(layers, m)))

    def _least(self, layers: range, mesh: Mesh, m: int, in_flight: int) -> float:
        """Bytes of a device, at least."""
        key = (len(layers), layers.start == 0, layers.stop == self.model.layers, tuple(axis.n for axis in mesh), m, in_flight)
        if key not in self.least:
            graph = self._graph(layers, m)
            self.least[key] = least_memory(graph, mesh, as_decided(graph, mesh, self.decided), in_flight)
        return self.least[key]

    def _solved(self, graph: ShardGraph, layers: range, mesh: Mesh, m: int, in_flight: int, memory: float) -> PlannedPart:
        allowed = as_decided(graph, mesh, self.decided)
        found = search_shardings(graph, mesh, self.price, memory, allowed=allowed, microbatches=m, in_flight=in_flight, equal_layers=True)
        outs = {op.name: graph.arrays[op.writes[0]] for op in graph.ops}
        kept = sum(found.ops[name].made for name, array in outs.items() if array.kept and array.role == "made")
        forward, inputs, weights = (sum(found.phases[name]) for name in ("forward", "input", "weight"))
        return PlannedPart(layers, found, PartCosts(forward, inputs, weights, None, kept, kept, 0.0, found.memory - in_flight * kept))

    def _scheduled(self, schedule: PipelineSchedule, cuts: Sequence[Cut], m: int) -> DevicePlan:
        """The parts in this order, on the devices that are best for them. Raises PlanError where they do not fit into memory."""
        own = [schedule.parts_of(stage) for stage in range(schedule.stages)]
        shapes = tuple(tuple(axis.n for axis in cuts[parts[0]].mesh) for parts in own)
        if shapes not in self.orders:
            self.orders[shapes] = best_orders(shapes, self.network.slow)
        found = []
        for times, orders in self.orders[shapes].items():
            slowest = [[max(x) for x in zip(*(t for t, parts in zip(times, own) if k in parts))] for k in range(len(cuts))]
            placed = [Cut(c.layers, self._mesh([axis.n for axis in c.mesh], t)) for c, t in zip(cuts, slowest)]
            found.append(self._placed(schedule, placed, m, shapes, orders))
        return min(found, key=lambda p: p.step)

    def _placed(
        self, schedule: PipelineSchedule, cuts: Sequence[Cut], m: int, shapes: Sequence[tuple[int, ...]], orders: Sequence[Order]
    ) -> DevicePlan:
        """The parts in the best of these orders of devices, between which only the links between stages differ."""
        flights = schedule.in_flight
        parts = [self._part(c.layers, c.mesh, m, 1, math.inf) for c in cuts]
        short = 0.0
        needs = [part.costs.fixed + n * part.costs.held for part, n in zip(parts, flights)]
        for stage in range(schedule.stages):
            mine = schedule.parts_of(stage)
            if (total := sum(needs[k] for k in mine)) > self.memory:
                least = {k: self._least(cuts[k].layers, cuts[k].mesh, m, flights[k]) for k in mine}
                over = self.memory - sum(least.values())
                for k in mine if over >= 0 else []:
                    parts[k] = self._part(cuts[k].layers, cuts[k].mesh, m, flights[k], least[k] + over * needs[k] / total)
                short = max(short, sum(least.values())) if over < 0 else short
        if short:
            raise MemoryLimitError(f"{schedule.name} holds {rounded_up(short)} bytes a device at least", short)
        for k in range(len(parts) - 1):
            here, after = parts[k].plan, parts[k + 1].plan
            sent = max(crossing(here, after, True).most, crossing(after, here, False).most)
            parts[k] = replace(parts[k], costs=replace(parts[k].costs, sent=float(sent)))
        sends, copies = _sends(schedule, [part.plan for part in parts])
        ways = {_slowed(DevicePlaces(shapes, order), self.network.slow, sends, copies): order for order in reversed(orders)}
        found, link = [], self.network.link
        for (between, again, uses), order in ways.items():
            links = {pair: Link(times * link.alpha, times * link.beta) for pair, times in between}
            line = simulate(schedule, PipelineCosts([part.costs for part in parts], link, links))
            if (most := max(line.memory)) > self.memory * (1 + 1e-9):
                raise MemoryLimitError(f"{schedule.name} holds {rounded_up(most)} bytes", most)
            rest = once(schedule, [part.plan for part in parts], self.network, again)
            found.append(DevicePlan(self.model.name, self.batch, tuple(parts), line, rest, order, uses))
        return min(found, key=lambda p: p.step)


Sends = dict[tuple[int, int], set[tuple[int, int]]]
"""By stages, the numbers of the devices in them between which something is sent."""


def _sends(schedule: PipelineSchedule, plans: Sequence[ShardPlan]) -> tuple[Sends, Sends]:
    """What parts send each other, and copies of a part."""
    sends, copies = defaultdict[tuple[int, int], set[tuple[int, int]]](set), defaultdict[tuple[int, int], set[tuple[int, int]]](set)
    for route in schedule.routes:
        for k, ((a, _), (b, _)) in enumerate(pairwise(route)):
            if a != b:
                sends[a, b] |= {(t.source, t.target) for t in crossing(plans[k], plans[k + 1], True).transfers}
                sends[b, a] |= {(t.source, t.target) for t in crossing(plans[k + 1], plans[k], False).transfers}
    for held in zip(*schedule.routes):
        for (a, _), (b, _) in combinations(held, 2):
            copies[a, b] |= {(k, k) for k in range(math.prod(axis.n for axis in plans[schedule.parts_of(a)[0]].mesh))}
    return sends, copies


def _slowed(
    at: DevicePlaces, slow: Slow, sends: Sends, copies: Sends
) -> tuple[tuple[tuple[tuple[int, int], float], ...], float, tuple[SlowUse, ...]]:
    """How many times as long slow links make transfers, by stages; how many times as long what copies of a part add up takes; and where each is
    used."""
    between, again, uses = dict[tuple[int, int], float](), 1.0, []
    for devices, times in slow.items():
        stage, axes = at.axis(devices)
        where = [f"collectives of stage {stage}"] if axes else []
        pairs = at.sends(devices, sends)
        where += sorted({f"between stages {min(pair)} and {max(pair)}" for pair in pairs})
        between |= {pair: max(times, between.get(pair, 1.0)) for pair in pairs}
        if at.sends(devices, copies):
            where, again = [*where, "gradients of both copies"], max(again, times)
        uses.append(SlowUse(devices, times, ", ".join(where)))
    return tuple(between.items()), again, tuple(uses)


def once(schedule: PipelineSchedule, plans: Sequence[ShardPlan], network: Network, times: float = 1.0) -> float:
    """Seconds of what a step does once, on the stage where that takes longest: gradients added up over devices and over all copies of a part
    (`times` as long for a slow link), and updates."""
    copies = network.axis(len(schedule.routes), times)

    def seconds(plan: ShardPlan) -> float:
        made = [(plan.graph.arrays[op.writes[0]], plan.ops[op.name].writes) for op in plan.graph.ops if plan.graph.phase(op) == "weight"]
        return sum(plan.phases["update"]) + sum(copies.seconds("all-reduce", local_bytes(a.nbytes, at, plan.mesh)) for a, at in made)

    return max(sum(seconds(plans[k]) for k in schedule.parts_of(stage)) for stage in range(schedule.stages))


def layouts_of(part: PlannedPart) -> dict[str, str]:
    """How each kind of operation of a stage is split, in words: `qkv: heads over 2`; the first layer stands for all."""
    graph, mesh = part.plan.graph, part.plan.mesh
    first = min(op.layer for op in graph.ops)
    said = {}
    for op in graph.ops:
        if op.layer == first and graph.phase(op) in ("forward", "update"):
            split = part.plan.ops[op.name].split
            words = [f"{axis} over {mesh[k].n}" for k, axis in enumerate(split) if axis]
            said[op.name] = ", ".join(words) or "whole on each"
    return said


def tensor_axes(part: PlannedPart) -> set[int]:
    """Axes of the mesh over which products are split by something else than rows."""
    graph, split = part.plan.graph, part.plan.ops
    products = [op for op in graph.ops if graph.phase(op) == "forward" and not op.whole and op.flops]
    return {m for op in products for m, axis in enumerate(split[op.name].split) if axis not in ("", "b", "s")}


def placement_name(part: PlannedPart) -> str:
    """What the field calls the places of parameters, gradients and optimiser state: data parallel, ZeRO-1 to 3, tensor parallel."""
    plan_, graph = part.plan, part.plan.graph
    parameters = [name for name, a in graph.arrays.items() if a.role == "parameter"]
    if not any("b" in op.axes for op in graph.ops):
        return "split as follows" if any(any(way.split) for way in plan_.ops.values()) else "every device does the same"
    batch = {m for op in graph.ops for m, axis in enumerate(plan_.ops[op.name].split) if graph.phase(op) == "forward" and axis == "b"}
    split = sum(any(at >= 0 for at in plan_.arrays[name]) for name in parameters)
    state = sum(any(at >= 0 for at in plan_.ops[op.name].writes) for op in graph.updates())
    if math.prod(axis.n for axis in plan_.mesh) == 1:
        return "one device"
    tensor = tensor_axes(part)
    words = []
    if batch:
        zero = 3 if split == len(parameters) and not tensor else 2 if state == len(parameters) and not tensor else 0
        words.append("data parallel" + (f", ZeRO-{zero}" if zero else ""))
    if tensor:
        words.append("tensor parallel")
    return " and ".join(words) or ("mixed" if plan_.communication else "every device does the same")
