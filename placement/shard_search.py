"""The best way to split every operation and array of a graph over one mesh, by an integer linear program (SciPy's HiGHS), as Alpa does
(arXiv 2201.12023). Where parameters, gradients and optimiser state lie is a part of it: data parallel, ZeRO and FSDP are answers."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from .collectives import Mesh, MeshAxis
from .errors import PlanError, rounded_up
from .shard_graph import ShardArray, ShardGraph, ShardOp
from .shardings import Collective, Layout, Price, Sharding, layouts, local_bytes, relayout, seconds, shardings

LIMITED_GAP = 2e-3
"""How near to the optimum a plan must be under a limit of memory, where the last per mille takes minutes."""
MOST_RATES = 8
"""Prices on memory that are tried."""
Allowed = Callable[[ShardOp | ShardArray, Sharding | Layout], bool]
"""Whether an operation may be split, or an array stored, so."""
NEEDS_SCIPY = "plans need SciPy and mpi4py: pip install 'tilewright[plans]'"


@dataclass(frozen=True)
class ShardPlan:
    """`ops` and `arrays`: how each operation is split, and each input and parameter stored. `compute` and
    `communication`: seconds of one pass of everything, and `phases` the same by phase: forward, input, weight, and
    update with all that is done once a step. `memory`: bytes on a device: parameters, optimiser state, gradients and
    what is kept. `optimal`: proven, or within `LIMITED_GAP` under a limit of memory."""

    graph: ShardGraph
    mesh: Mesh
    ops: Mapping[str, Sharding]
    arrays: Mapping[str, Layout]
    collectives: tuple[Collective, ...]
    compute: float
    communication: float
    memory: float
    optimal: bool
    phases: Mapping[str, tuple[float, float]]

    @property
    def step(self) -> float:
        return self.compute + self.communication

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the mesh."""
        return tuple(axis.n for axis in self.mesh)

    def layout(self, name: str) -> Layout:
        """How an array lies: after the operation that makes it, or as it is stored."""
        made = self.graph.made_by.get(name)
        return self.arrays[name] if made is None else self.ops[made.name].writes

    def sent(self) -> float:
        """Bytes that a device sends in a step."""
        return sum(self.mesh[c.axis].sent(c.kind, c.nbytes) for c in self.collectives)


@dataclass
class _ProgramNode:
    """A node of the program: an operation's shardings, or an array's layouts. `at`: its first variable."""

    name: str
    options: Sequence[Any]
    cost: list[float]
    memory: list[float]
    at: int = 0
    op: ShardOp | None = None
    count: int = 1
    """How many there are that are split as this one."""

    def layouts(self, read: int = -1) -> list[Layout]:
        """How each option takes what it reads there; -1: how it leaves what it makes, or stores it."""
        return [x if not isinstance(x, Sharding) else x.writes if read < 0 else x.reads[read] for x in self.options]


@dataclass
class _ProgramEdge:
    """An array goes from the first of two nodes to the second. `price`: seconds by the number of its layout at each end; `at`: the number of each
    option's layout, at each end."""

    ends: tuple[_ProgramNode, _ProgramNode]
    price: Any
    at: list[Any]

    def keep(self, end: int, options: Any) -> None:
        """Only these options, and the layouts that they have, are left at an end."""
        import numpy as np

        used, self.at[end] = np.unique(self.at[end][options], return_inverse=True)
        self.price = self.price.take(used, end)


class _LinearProgram:
    """One option of each choice; and for each edge how much of each pair of layouts, of which the sums are what was chosen at its ends."""

    def __init__(self, choices: Mapping[str, _ProgramNode], edges: Sequence[_ProgramEdge]) -> None:
        import numpy as np
        from scipy.sparse import csr_array

        self.choices = choices
        costs: list[float] = []
        memory: list[float] = []
        rows: list[tuple[int, int, float]] = []
        for n, c in enumerate(choices.values()):
            c.at = len(costs)
            costs += [c.count * x for x in c.cost]
            memory += [c.count * x for x in c.memory]
            rows += [(n, k, 1.0) for k in range(c.at, len(costs))]
        self._whole, count, n = len(costs), len(costs), len(choices)
        for edge in edges:
            costs += edge.price.ravel().tolist()
            pairs = np.arange(count, len(costs)).reshape(edge.price.shape)
            count = len(costs)
            for end, at, sums in zip(edge.ends, edge.at, (pairs, pairs.T)):
                rows += [(n + k, int(x), 1.0) for k, row in enumerate(sums) for x in row]
                rows += [(n + int(k), end.at + i, -1.0) for i, k in enumerate(at)]
                n += len(sums)
        self.costs, self.memory = np.array(costs), np.array(memory + [0.0] * (count - self._whole))
        equations, variables, factors = zip(*rows)
        self._sums = csr_array((factors, (equations, variables)), shape=(n, count))
        self._one = np.arange(n) < len(choices)

    def least(self, costs: Any, time_limit: float, memory: float = math.inf, whole: bool = True) -> tuple[Any, bool]:
        """The variables of the cheapest choices, and whether that is proven; not `whole`: of shares of choices, a bound. Raises PlanError."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        limits = [LinearConstraint(self._sums, self._one, self._one)]
        if not math.isinf(memory):
            limits.append(LinearConstraint(self.memory / memory, -np.inf, 1.0 + 1e-9))
        options = {"time_limit": time_limit, "presolve": False, "mip_rel_gap": 1e-6 if math.isinf(memory) else LIMITED_GAP}
        kinds = np.arange(len(costs)) < (self._whole if whole else 0)
        found = milp(costs / max(costs.max(), 1e-30), constraints=limits, integrality=kinds, bounds=Bounds(0, 1), options=options)
        if found.x is None:
            raise PlanError(f"no plan was found in {time_limit:g} s: {found.message}")
        return found.x, found.status == 0

    def chosen(self, x: Any) -> dict[str, int]:
        """The option of each choice."""
        return {c.name: int(x[c.at : c.at + len(c.options)].argmax()) for c in self.choices.values()}


def search_shardings(
    graph: ShardGraph,
    mesh: Mesh,
    price: Price | None = None,
    memory: float = math.inf,
    time_limit: float = 30.0,
    allowed: Allowed | None = None,
    as_alpa: bool = False,
    microbatches: int = 1,
    in_flight: int = 1,
    equal_layers: bool = False,
) -> ShardPlan:
    """The cheapest plan of a graph on a mesh. `price`: seconds of an operation at its local extents; None counts
    communication only, and never lets devices do the same work. `memory`: bytes of a device. `allowed`: whether an
    operation may be split, or an array stored, so. `as_alpa`: of the ways to split an operation only those that Alpa takes by default.
    `microbatches`: how often a step does all but add up gradients and update parameters; `in_flight`: of how many the
    activations are kept at once. `equal_layers`: layers between the first and the last that are equal are split equally, all of
    them, or under a limit of memory runs of 1, 2, 3, ... of them, of which any number can be made. Raises PlanError where nothing fits, with the least memory that would."""
    if find_spec("scipy") is None:
        raise PlanError(NEEDS_SCIPY)
    same = _representatives(graph, not math.isinf(memory)) if equal_layers else {}
    choices = _choices(graph, mesh, price, allowed, as_alpa, (microbatches, in_flight), same)
    if (least := _least_memory(choices)) > memory * (1 + 1e-9):
        raise PlanError(f"no plan fits into {rounded_up(memory)} bytes a device: {rounded_up(least)} bytes is the least, on {_named(mesh)}")
    edges = _edges(graph, mesh, choices, same, microbatches)
    _prune(choices, edges, not math.isinf(memory))
    program = _LinearProgram(choices, edges)
    x, proven = (None, True) if math.isinf(memory) else (_within(program, memory, time_limit), True)
    if x is None:
        x, proven = program.least(program.costs, time_limit, memory)
    return _plan(graph, mesh, choices, program.chosen(x), price, proven, same)


def _within(program: _LinearProgram, memory: float, time_limit: float) -> Any:
    """A solution that fits into memory and is within `LIMITED_GAP` of the best, by Lagrangian relaxation: with a price on memory there is no limit, and
    what such a solution costs, less the price of the limit, is a bound. None where no price gives one."""
    fits: tuple[float, float, Any] | None = None
    x, proven = program.least(program.costs, time_limit, whole=False)
    over = bound, _ = float(program.costs @ x), float(program.memory @ x)
    rate = over[0] / over[1] if over[1] > memory * (1 + 1e-9) else 0.0
    for _ in range(MOST_RATES):
        x, proven = program.least(program.costs + rate * program.memory, time_limit)
        cost, held = float(program.costs @ x), float(program.memory @ x)
        bound = max(bound, cost + rate * (held - memory))
        if held > memory * (1 + 1e-9):
            over = cost, held
        elif fits is None or cost < fits[0]:
            fits = cost, held, x
        if not proven:
            return None
        if fits is None:
            rate = 8 * rate or cost / held
        elif fits[0] <= bound * (1 + LIMITED_GAP):
            return fits[2]
        else:
            rate = (fits[0] - over[0]) / (over[1] - fits[1])
    return None


def least_memory(graph: ShardGraph, mesh: Mesh, allowed: Allowed | None = None, in_flight: int = 1) -> float:
    """Bytes that a device holds at least, however the graph is split over a mesh. Raises PlanError where it cannot be split as `allowed`."""
    return _least_memory(_choices(graph, mesh, lambda *_: 0.0, allowed, False, (1, in_flight), _representatives(graph, True)))


def _least_memory(choices: Mapping[str, _ProgramNode]) -> float:
    return sum(c.count * min(c.memory) for c in choices.values())  # any choices go together: an edge only costs time


def _named(mesh: Mesh) -> str:
    return " x ".join(str(axis.n) for axis in mesh) + " devices"


def _choices(
    graph: ShardGraph,
    mesh: Mesh,
    price: Price | None,
    allowed: Allowed | None,
    as_alpa: bool,
    times: tuple[int, int],
    same: Mapping[str, str],
) -> dict[str, _ProgramNode]:
    found: dict[str, _ProgramNode] = {}
    counts = Counter(same.get(name, name) for name in (*graph.arrays, *(f"op {op.name}" for op in graph.ops)))
    for array in graph.arrays.values():
        if array.name in same:
            continue
        if array.role in ("input", "boundary", "parameter"):
            options = [x for x in layouts(array.shape, mesh) if allowed is None or allowed(array, x)]
            held = [local_bytes(array.nbytes, x, mesh) for x in options]
            none = [0.0] * len(options)
            received = [2 * times[0] * mesh[0].seconds("send", x) for x in held]  # and as much is sent back
            stays = array.role == "parameter"
            found[array.name] = _ProgramNode(array.name, options, received if array.role == "boundary" else none, held if stays else none)
    for op in graph.ops:
        if f"op {op.name}" in same:
            continue
        out = graph.arrays[op.writes[0]]
        ways = [w for w in shardings(op, out, mesh, as_alpa) if allowed is None or allowed(op, w)]
        if price is None and op.flops and not op.whole:  # products: what is left is small beside them
            least = min(math.prod(w.local.values()) for w in ways)
            ways = [w for w in ways if math.prod(w.local.values()) == least]
        phase = graph.phase(op)
        often, added = (1 if phase == "update" else times[0]), (1 if phase in ("update", "weight") else times[0])
        costs = [added * seconds(w.collectives, mesh) + (often * price(op, w.local) if price is not None else 0.0) for w in ways]
        kept = (1 if out.role == "gradient" else times[1]) if out.kept else 0
        held = [kept * w.made + local_bytes(op.state, w.writes, mesh) for w in ways]
        found[f"op {op.name}"] = _ProgramNode(f"op {op.name}", ways, costs, held, op=op)
    for name, node in found.items():
        node.count = counts[name]
        if not node.options:
            raise PlanError(f"{name.removeprefix('op ')} cannot be split as asked over {_named(mesh)}: no extent divides so")
    return found


def _edges(
    graph: ShardGraph, mesh: Mesh, choices: Mapping[str, _ProgramNode], same: Mapping[str, str], microbatches: int
) -> list[_ProgramEdge]:
    """Each array to each reader; those of layers that stand for others as often as these are. What goes from a node to itself is added to its
    options' cost."""
    import numpy as np

    made, counts = graph.made_by, Counter[tuple[str, str, int, float]]()

    def add(source: str, target: str, k: int, name: str) -> None:
        counts[same.get(source, source), same.get(target, target), k, graph.arrays[name].nbytes] += 1

    for op in graph.ops:
        for k, (name, _) in enumerate(op.reads):
            maker = made.get(name)
            add(name if maker is None else f"op {maker.name}", f"op {op.name}", k, name)
    for op in graph.updates():
        add(f"op {op.name}", op.writes[0], -1, op.writes[0])

    @functools.cache
    def prices(nbytes: float, made: tuple[Layout, ...], read: tuple[Layout, ...]) -> Any:
        return np.array([[seconds(relayout(nbytes, a, b, mesh), mesh) for b in read] for a in made])

    found = []
    for (source, target, k, nbytes), count in counts.items():
        ends = choices[source], choices[target]
        layouts = ends[0].layouts(), ends[1].layouts(k)
        of = [{x: n for n, x in enumerate(dict.fromkeys(each))} for each in layouts]
        at = [np.array([numbers[x] for x in each]) for numbers, each in zip(of, layouts)]
        price = count * (1 if _is_update_edge(graph, ends[1], k) else microbatches) * prices(nbytes, tuple(of[0]), tuple(of[1]))
        if source == target:
            ends[0].cost = [x + y / ends[0].count for x, y in zip(ends[0].cost, price[at[0], at[1]].tolist())]
        else:
            found.append(_ProgramEdge(ends, price, at))
    return found


def _prune(choices: Mapping[str, _ProgramNode], edges: Sequence[_ProgramEdge], limited: bool) -> None:
    """Leaves out options in whose place another costs no more, and where memory is limited holds no more, whatever is chosen around them (dead-end
    elimination: Goldstein, Biophysical Journal 66, 1994)."""
    import numpy as np

    around: dict[str, list[tuple[_ProgramEdge, int]]] = {name: [] for name in choices}
    for edge in edges:
        for k in (0, 1):
            around[edge.ends[k].name].append((edge, k))
    waiting = dict.fromkeys(choices)
    while waiting:
        node = choices[waiting.popitem()[0]]
        cost, held = node.count * np.array(node.cost), np.array(node.memory)
        more = np.subtract.outer(cost, cost)
        for edge, k in around[node.name]:
            table, at = edge.price if k == 0 else edge.price.T, edge.at[k]
            more += (table[:, None] - table).min(axis=2)[at[:, None], at]
        slack = 1e-12 * cost.max()
        spare = (more >= -slack) & (held[:, None] >= held)
        if not limited:
            spare |= more > slack
        kept = np.ones(len(cost), bool)
        for n in reversed(range(len(cost))):
            kept[n] = False
            kept[n] = not (spare[n] & kept).any()
        if not kept.all():
            node.options, node.cost, node.memory = ([x for x, k in zip(of, kept) if k] for of in (node.options, node.cost, node.memory))
            for edge, k in around[node.name]:
                edge.keep(k, kept)
                waiting[edge.ends[1 - k].name] = None


def _representatives(graph: ShardGraph, limited: bool) -> dict[str, str]:
    """By operation and stored array of a layer, that of the layer that stands for it: the first of a run of equal ones, where the first and the
    last layer stand alone."""
    layers: dict[int, list[ShardOp]] = {}
    for op in graph.ops:
        layers.setdefault(op.layer, []).append(op)

    def looks(ops: Sequence[ShardOp]) -> list[Any]:
        return [(op.axes, [d for _, d in op.reads], op.writes[1], op.flops, op.whole, op.state, op.backward, op.rule) for op in ops]

    found: dict[str, str] = {}
    between = sorted(layers)[1:-1]
    while between:
        first = looks(layers[between[0]])
        run = between[: next((n for n, k in enumerate(between) if looks(layers[k]) != first), None)]
        between = between[len(run) :]
        sizes = itertools.count(1) if limited else [len(run)]
        while run:
            part, run = run[: (n := next(iter(sizes)))], run[n:]
            for k in part[1:]:
                for a, b in zip(layers[part[0]], layers[k], strict=True):
                    found[f"op {b.name}"] = f"op {a.name}"
                    found |= {
                        y: found.get(x, x) for (x, _), (y, _) in zip(a.reads, b.reads) if x != y and graph.arrays[y].role == "parameter"
                    }
    return found


def _is_update_edge(graph: ShardGraph, reader: _ProgramNode, k: int) -> bool:
    """Whether an edge is walked once a step: it belongs to an update."""
    return k < 0 or (reader.op is not None and graph.phase(reader.op) == "update")


def _plan(
    graph: ShardGraph,
    mesh: Mesh,
    choices: Mapping[str, _ProgramNode],
    chosen: Mapping[str, int],
    price: Price | None,
    optimal: bool,
    same: Mapping[str, str],
) -> ShardPlan:
    def option(name: str) -> Any:
        node = choices[same.get(name, name)]
        return node.options[chosen[node.name]]

    ops = {op.name: option(f"op {op.name}") for op in graph.ops}
    arrays = {name: option(name) for name in graph.arrays if same.get(name, name) in choices}
    return priced(graph, mesh, ops, arrays, price, sum(c.count * c.memory[chosen[name]] for name, c in choices.items()), optimal)


def on_one_device(graph: ShardGraph) -> ShardPlan:
    """Every operation and array whole."""
    mesh = (MeshAxis(1),)
    ops = {op.name: next(iter(shardings(op, graph.arrays[op.writes[0]], mesh))) for op in graph.ops}
    return priced(graph, mesh, ops, {name: (-1,) for name in graph.arrays}, None)


def renamed(plan: ShardPlan, graph: ShardGraph) -> ShardPlan:
    """The same plan of a graph of the same operations under other names."""
    names = dict(zip(plan.graph.arrays, graph.arrays, strict=True))
    ops = {new.name: plan.ops[old.name] for old, new in zip(plan.graph.ops, graph.ops, strict=True)}
    return replace(plan, graph=graph, ops=ops, arrays={names[name]: layout for name, layout in plan.arrays.items()})


def at_sizes(plan: ShardPlan, graph: ShardGraph) -> ShardPlan:
    """The same plan of a graph of the same operations with other extents. Raises PlanError where a split axis cannot be split there."""
    ops = {}
    for op in graph.ops:
        old = plan.ops[op.name]
        ways = shardings(op, graph.arrays[op.writes[0]], plan.mesh)
        way = next((w for w in ways if (w.split, w.writes) == (old.split, old.writes)), None)
        if way is None:
            raise PlanError(f"{op.name} has no axes that can be split as {', '.join(old.split)} over {_named(plan.mesh)}")
        ops[op.name] = way
    return priced(graph, plan.mesh, ops, plan.arrays, None)


def priced(
    graph: ShardGraph,
    mesh: Mesh,
    ops: Mapping[str, Sharding],
    arrays: Mapping[str, Layout],
    price: Price | None,
    memory: float = 0.0,
    optimal: bool = True,
) -> ShardPlan:
    """The plan of these shardings and layouts, with its collectives, and its seconds by phase."""
    collectives: list[Collective] = []
    phases = {name: [0.0, 0.0] for name in ("forward", "input", "weight", "update")}
    made = graph.made_by

    def sent(found: Sequence[Collective], phase: str) -> None:
        collectives.extend(found)
        phases[phase][1] += seconds(found, mesh)

    for op in graph.ops:
        way, phase = ops[op.name], graph.phase(op)
        phases[phase][0] += price(op, way.local) if price is not None else 0.0
        for (name, _), target in zip(op.reads, way.reads):
            sent(
                relayout(graph.arrays[name].nbytes, ops[made[name].name].writes if name in made else arrays[name], target, mesh, name),
                phase,
            )
        sent(way.adding(op), "update" if phase == "weight" else phase)
        if phase == "update":  # its result goes back to where the parameter lies
            sent(relayout(graph.arrays[op.writes[0]].nbytes, way.writes, arrays[op.writes[0]], mesh, op.writes[0]), phase)
    compute, communication = (sum(phase[k] for phase in phases.values()) for k in (0, 1))
    shown = {name: (a, b) for name, (a, b) in phases.items()}
    return ShardPlan(graph, mesh, ops, arrays, tuple(collectives), compute, communication, memory, optimal, shown)
