"""The best way to split every operation and array of a graph over one mesh, by an integer linear program (SciPy's HiGHS), as Alpa does
(arXiv 2201.12023). Where parameters, gradients and optimiser state lie is a part of it: data parallel, ZeRO and FSDP are answers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .collectives import Mesh, MeshAxis
from .errors import PlanError
from .shard_graph import ShardArray, ShardGraph, ShardOp
from .shardings import Collective, Layout, Price, Sharding, laid_out_anew, layouts, local_bytes, seconds, shardings

LIMITED_GAP = 2e-3
"""How near to the optimum a plan must be under a limit of memory, where the last per mille takes minutes."""
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
        """Of the mesh."""
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

    def layout(self, k: int) -> Layout:
        option = self.options[k]
        found: Layout = option.writes if isinstance(option, Sharding) else option
        return found


@dataclass
class _LinearProgram:
    costs: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float]] = field(default_factory=list)
    """Equations: coefficients by variable, and what their sum is."""
    whole: int = 0


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
    try:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        raise PlanError(NEEDS_SCIPY) from None
    same = _same(graph, not math.isinf(memory)) if equal_layers else {}
    choices = _choices(graph, mesh, price, allowed, as_alpa, (microbatches, in_flight), same)
    if (least := _least(choices)) > memory * (1 + 1e-9):
        raise PlanError(f"no plan fits into {memory:.4g} bytes a device: {least:.4g} bytes is the least, on {_named(mesh)}")
    program = _program(graph, mesh, choices, _edges(graph, same), microbatches)
    n = len(program.costs)
    data = [(r, c, x) for r, (row, _) in enumerate(program.rows) for c, x in row.items()]
    matrix = csr_array(([x for _, _, x in data], ([r for r, _, _ in data], [c for _, c, _ in data])), shape=(len(program.rows), n))
    right = np.array([b for _, b in program.rows])
    whole = np.array([1] * program.whole + [0] * (n - program.whole))
    limits = [LinearConstraint(matrix, right, right)]
    if not math.isinf(memory):
        limits.append(LinearConstraint(np.array(program.memory) / memory, -np.inf, 1.0 + 1e-9))
    options = {"time_limit": time_limit, "mip_rel_gap": 1e-6 if math.isinf(memory) else LIMITED_GAP}
    costs = np.array(program.costs) / max(max(program.costs), 1e-30)
    found = milp(costs, constraints=limits, integrality=whole, bounds=Bounds(0, 1), options=options)
    if found.x is None:
        raise PlanError(f"no plan was found in {time_limit:g} s: {found.message}")
    chosen = {c.name: int(np.argmax(found.x[c.at : c.at + len(c.options)])) for c in choices.values()}
    return _plan(graph, mesh, choices, chosen, price, found.status == 0, same)


def least_memory(graph: ShardGraph, mesh: Mesh, allowed: Allowed | None = None, in_flight: int = 1) -> float:
    """Bytes that a device holds at least, however the graph is split over a mesh. Raises PlanError where it cannot be split as `allowed`."""
    return _least(_choices(graph, mesh, lambda *_: 0.0, allowed, False, (1, in_flight), _same(graph, True)))


def _least(choices: Mapping[str, _ProgramNode]) -> float:
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


def _edges(graph: ShardGraph, same: Mapping[str, str]) -> dict[tuple[str, str, int, float], int]:
    """(who makes an array, who reads it, which of its reads, its bytes), and how many there are; an update's result goes back to its parameter
    (-1)."""
    made, found = graph.made_by, Counter[tuple[str, str, int, float]]()

    def add(source: str, target: str, k: int, name: str) -> None:
        found[same.get(source, source), same.get(target, target), k, graph.arrays[name].nbytes] += 1

    for op in graph.ops:
        for k, (name, _) in enumerate(op.reads):
            maker = made.get(name)
            add(name if maker is None else f"op {maker.name}", f"op {op.name}", k, name)
    for op in graph.updates():
        add(f"op {op.name}", op.writes[0], -1, op.writes[0])
    return found


def _same(graph: ShardGraph, limited: bool) -> dict[str, str]:
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


def _program(
    graph: ShardGraph, mesh: Mesh, choices: Mapping[str, _ProgramNode], edges: Mapping[tuple[str, str, int, float], int], microbatches: int
) -> _LinearProgram:
    """One option of each choice; and for each edge how much of each pair of options, of which the sums are what was chosen at its ends."""
    p = _LinearProgram()
    for c in choices.values():
        c.at = len(p.costs)
        p.costs += [c.count * x for x in c.cost]
        p.memory += [c.count * x for x in c.memory]
        p.rows.append((dict.fromkeys(range(c.at, c.at + len(c.options)), 1.0), 1.0))
    p.whole = len(p.costs)
    known: dict[tuple[float, Layout, Layout], float] = {}
    for (source, target, k, nbytes), count in edges.items():
        a, b = choices[source], choices[target]
        price: dict[tuple[Layout, Layout], float] = {}
        often = count * (1 if _once(graph, b, k) else microbatches)
        groups: dict[Layout, list[int]] = {}
        for i in range(len(a.options)):
            groups.setdefault(a.layout(i), []).append(i)
        ends: dict[Layout, list[int]] = {}
        for j in range(len(b.options)):
            ends.setdefault(b.layout(j) if k < 0 else b.options[j].reads[k], []).append(j)
        for s in groups:
            for t in ends:
                if (nbytes, s, t) not in known:
                    known[nbytes, s, t] = seconds(laid_out_anew(nbytes, s, t, mesh), mesh)
                price[s, t] = often * known[nbytes, s, t]
        first, pairs = len(p.costs), list(price)
        p.costs += price.values()
        p.memory += [0.0] * len(pairs)
        for s, members in groups.items():
            row = {first + n: 1.0 for n, (x, _) in enumerate(pairs) if x == s}
            p.rows.append((row | {a.at + i: -1.0 for i in members}, 0.0))
        for t, members in ends.items():
            row = {first + n: 1.0 for n, (_, x) in enumerate(pairs) if x == t}
            p.rows.append((row | {b.at + j: -1.0 for j in members}, 0.0))
    return p


def _once(graph: ShardGraph, reader: _ProgramNode, k: int) -> bool:
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
                laid_out_anew(graph.arrays[name].nbytes, ops[made[name].name].writes if name in made else arrays[name], target, mesh, name),
                phase,
            )
        sent(way.collectives, "update" if phase == "weight" else phase)
        if phase == "update":  # its result goes back to where the parameter lies
            sent(laid_out_anew(graph.arrays[op.writes[0]].nbytes, way.writes, arrays[op.writes[0]], mesh, op.writes[0]), phase)
    compute, communication = (sum(phase[k] for phase in phases.values()) for k in (0, 1))
    shown = {name: (a, b) for name, (a, b) in phases.items()}
    return ShardPlan(graph, mesh, ops, arrays, tuple(collectives), compute, communication, memory, optimal, shown)
