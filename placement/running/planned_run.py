"""One rank of a plan that is carried out: `python -m tilewright.placement.running.planned_run FOLDER BACKEND`. Each rank has the parts of the model
that its stage holds, and does their passes in the order of the pipeline schedule."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..captured_graph import OpKernel
from ..handcrafted import generate
from ..kernel_prices import product_shape
from ..pipeline_schedule import Place, StageOp
from ..shard_graph import ShardOp
from ..shard_search import ShardPlan
from ..shardings import Layout, local_shape
from ..transfers import Crossing, crossing, within
from .ranks import Alone, MeshRanks, Ranks
from .run_spec import PlannedRun, Whereabouts, as_rank

# op meanings ----------------------------------------------------------------------------------------------------------
#
# What the operations of a model's graph compute: on floats by this project's kernels, on integers by polynomials
# modulo 2^64 of which any order of sums gives the same bits. A polynomial stands for what is no product (a
# normalisation, attention); it joins the same elements.


def evaluate(op: ShardOp, arrays: Sequence[Array]) -> Array:
    """The part of an operation's result that its arrays give: `arrays` in the order of its reads."""
    if op.rule == "product":
        return _product(op, *arrays)
    if op.rule == "sum":
        return arrays[0] + arrays[1]
    whole = np.issubdtype(arrays[0].dtype, np.integer)
    return (_RING if whole else _FLOATS)[op.rule](*arrays)


_built: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def by_kernel(found: OpKernel, op: ShardOp, local: Mapping[str, int], arrays: Sequence[Array]) -> Array:
    """The result of a function's own kernel on a part: `arrays` in the order of the operation's reads."""
    from ...plan import best

    key = (found, *sorted(local.items()))
    if key not in _built:
        kernel = found.on(local)
        _built[key] = kernel, best(kernel, threads=1)
    kernel, compiled = _built[key]
    reads = list(op.reads)
    shaped = [np.ascontiguousarray(arrays[reads.index(r)]).reshape([int(n) for n in b.shape]) for r, b in zip(found.inputs, kernel.inputs)]
    made = compiled(*shaped)
    return np.asarray((made if isinstance(made, tuple) else (made,))[found.place])


def _product(op: ShardOp, a: Array, b: Array) -> Array:
    (_, left), (_, right), (_, out) = *op.reads, op.writes
    both = [x for x in out if x in left and x in right]
    rows, columns = [x for x in out if x in left and x not in right], [x for x in out if x in right and x not in left]
    summed = [x for x in left if x not in out]
    extent = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}

    def turned(array: Array, dims: Sequence[str], *groups: Sequence[str]) -> Array:
        order = [dims.index(x) for group in groups for x in group]
        return np.ascontiguousarray(array.transpose(order)).reshape([int(np.prod([extent[x] for x in group])) for group in groups])

    batch, m, n, k = product_shape(op, extent) or (1, 1, 1, 1)
    left_matrix, right_matrix = turned(a, left, both, rows, summed), turned(b, right, both, summed, columns)
    if a.dtype == np.float32:
        multiply = _matmul(m, n, k)
        product = np.stack([multiply(left_matrix[i], right_matrix[i]) for i in range(batch)])
    else:
        product = left_matrix @ right_matrix
    order = [*both, *rows, *columns]
    return product.reshape([extent[x] for x in order]).transpose([order.index(x) for x in out])


@cache
def _matmul(m: int, n: int, k: int) -> Callable[..., Any]:
    """The product that the plan was priced by: what the schedule cache knows of this shape, on one thread."""
    from ...plan import best

    return best("matmul", {"m": m, "n": n, "k": k}, "float32", threads=1)


def _heads(qkv: Array) -> tuple[Array, Array, Array]:
    return qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]


def _ring_attention(qkv: Array) -> Array:
    q, k, v = _heads(qkv)
    return q * (k * v).sum((1, 3), keepdims=True) + v


def _ring_attention_gradient(dy: Array, qkv: Array) -> Array:
    q, k, v = _heads(qkv)
    among = (dy * q).sum((1, 3), keepdims=True)
    return np.stack([dy * (k * v).sum((1, 3), keepdims=True), among * v, among * k + dy], axis=2)


_RING: dict[str, Callable[..., Array]] = {
    "norm": lambda x: x * x.sum(-1, keepdims=True) + x,
    "gradient of norm": lambda dy, x: dy * x.sum(-1, keepdims=True) + (dy * x).sum(-1, keepdims=True) + dy,
    "attention": _ring_attention,
    "gradient of attention": _ring_attention_gradient,
}


@cache
def _captured() -> dict[str, Callable[..., Any]]:
    from ...tensor import Tensor, grad, jit, nn

    def norm(x: Any) -> Any:
        return nn.layer_norm(x)

    def attention(qkv: Any) -> Any:
        q, k, v = (qkv[:, :, t].permute(0, 2, 1, 3) for t in range(3))
        n, d = q.shape[-2:]
        at = Tensor(np.arange(n))
        scores = (at <= at.reshape(n, 1)).where(q @ k.mT * d**-0.5, float("-inf"))
        return (scores.softmax(-1) @ v).permute(0, 2, 1, 3)

    found: dict[str, Callable[..., Any]] = {}
    for name, function in (("norm", norm), ("attention", attention)):
        found[name] = jit(function)
        found[f"gradient of {name}"] = jit(lambda dy, x, f=function: grad(lambda y: (f(y) * dy).sum())(x))
    return found


def _by_kernels(name: str) -> Callable[..., Array]:
    def run(*arrays: Array) -> Array:
        from ...tensor import Tensor

        return _captured()[name](*(Tensor(a) for a in arrays)).numpy()

    return run


_FLOATS = {name: _by_kernels(name) for name in _RING}


# planned run ----------------------------------------------------------------------------------------------------------

# part run -------------------------------------------------------------------------------------------------------------
#
# One part of the model on one rank of a plan that is carried out: every operation runs on the pieces of its arrays
# that the plan gives this rank, with the plan's collectives.


KEPT = {"i": 3, "f": 0.9}
RATE = {"i": 1.0, "f": 0.01}
"""Of a step; of floats by the rows of all microbatches, so that no step diverges."""


def drawn(run: PlannedRun, name: str, shape: Sequence[int], *which: int) -> Array:
    """The whole of an array before the first step, or of a microbatch's input or target: the same on all ranks."""
    draw = np.random.default_rng([run.seed, zlib.crc32(name.encode()), *which])
    dtype = np.dtype(run.dtypes.get(name, run.dtype))
    if dtype.kind == "b":
        return draw.integers(0, 2, tuple(shape)).astype(bool)
    if dtype.kind in "iu":  # a function's may be indices
        ends = (0, 2) if run.kernels else (-(1 << 62), 1 << 62)
        return draw.integers(*ends, tuple(shape), dtype)
    found = draw.normal(0, max(float(np.prod(shape)), 1.0) ** -0.25, tuple(shape))
    vector = run.kernels and sum(n > 1 for n in shape) < 2  # variances among them have roots
    return (np.abs(found) if vector else found).astype(dtype)


def stepped(weight: Array, momentum: Array | None, gradient: Array, rows: int) -> tuple[Array, Array]:
    """(weight, momentum) after a step."""
    number, kind = gradient.dtype.type, gradient.dtype.kind
    kept = gradient if momentum is None else momentum * number(KEPT[kind]) + gradient
    return weight - number(RATE[kind] / (1 if kind == "i" else rows)) * kept, kept


class PartRun:
    """A part of the model on this rank. `values`: by microbatch, what its operations made here, in their plans' layouts. `microbatches`: those
    that go through it here; `copies`: the ranks with the same piece of the same part, where a schedule has it on several stages."""

    def __init__(self, run: PlannedRun, number: int, microbatches: Sequence[int], mesh: MeshRanks, copies: Ranks | None = None) -> None:
        self.run, self.number, self.microbatches, self.mesh, self.copies = run, number, microbatches, mesh, copies
        self.plan = plan = run.parts[number]
        arrays = plan.graph.arrays
        self.weights = {n: mesh.piece(drawn(run, n, a.shape), plan.arrays[n]) for n, a in arrays.items() if a.role == "parameter"}
        self.momenta: dict[str, Array] = {}
        self.values: dict[int, dict[str, Array]] = {}
        self.gradients: dict[str, Array] = {}
        loss = plan.graph.loss
        self.rows = 1 if loss is None else run.schedule.microbatches * int(np.prod(arrays[loss.writes[0]].shape[:-1]))
        self.given: dict[tuple[str, int], Array] = {}
        """Inputs and targets of a step, by name and microbatch."""
        self.phases: dict[str, list[ShardOp]] = {"forward": [], "input": [], "weight": [], "update": []}
        for op in plan.graph.ops:
            late = any(arrays[name].role == "gradient" for name, _ in op.reads)  # it needs what all microbatches add up to
            self.phases["update" if late else plan.graph.phase(op)].append(op)

    def prepare(self, step: int) -> None:
        """Draw what a step is given: inputs, and targets where the loss is."""
        loss = self.plan.graph.loss if self.number == len(self.run.parts) - 1 else None
        for i in self.microbatches:
            for name, a in self.plan.graph.arrays.items():
                if a.role == "input":
                    self.given[name, i] = self.mesh.piece(drawn(self.run, name, a.shape, step, i), self.plan.arrays[name])
            if loss is not None:
                shape = self.plan.graph.arrays[loss.writes[0]].shape
                self.given["target", i] = self.mesh.piece(drawn(self.run, "target", shape, step, i), self.plan.ops[loss.name].writes)

    def forward(self, i: int, x: Array | None) -> None:
        """All forward passes of a microbatch. `x`: from the part before, in the layout of this one's input."""
        here = self.values[i] = {}
        for name, a in self.plan.graph.arrays.items():
            if a.role == "input":
                here[name] = self.given[name, i]
            elif a.role == "boundary":
                here[name] = x
        for op in self.phases["forward"]:
            here[op.writes[0]] = self._summed(op, self._part(op, here))

    def input_gradients(self, i: int, dy: Array | None) -> None:
        """`dy`: from the part after; None on the last, which has the loss."""
        here = self.values[i]
        for op in self.phases["input"]:
            if op.rule != "loss":
                here[op.writes[0]] = self._summed(op, self._part(op, here))
            else:
                here[op.writes[0]] = self._read(op, 0, here) - self.given["target", i] if dy is None else dy

    def weight_gradients(self, i: int) -> None:
        """Added to those of earlier microbatches; over ranks they are added up once a step."""
        here = self.values.pop(i)
        for op in self.phases["weight"]:
            part = self._part(op, here)
            name = op.writes[0]
            self.gradients[name] = self.gradients[name] + part if name in self.gradients else part

    def update(self) -> None:
        here: dict[str, Array] = {}
        for op in self.phases["weight"]:
            total = self._summed(op, self.gradients[op.writes[0]])
            if self.copies is not None and self.run.fault != "missing-all-reduce":
                total = self.copies.all_reduce(np.asarray(total, order="C"))
            here[op.writes[0]] = total
        self.gradients.clear()
        for op in self.phases["update"]:
            name, way = op.writes[0], self.plan.ops[op.name]
            if op.rule != "update":
                here[name] = self._summed(op, self._part(op, here))
                continue
            weight, gradient = (self._read(op, k, here) for k in range(2))
            after, self.momenta[name] = stepped(weight, self.momenta.get(name), gradient, self.rows)
            stale = self.run.fault == "stale-gather" and way.writes != self.plan.arrays[name]
            self.weights[name] = self.weights[name] if stale else self.mesh.moved(after, way.writes, self.plan.arrays[name])

    def _read(self, op: ShardOp, k: int, here: Mapping[str, Array]) -> Array:
        name = op.reads[k][0]
        value = self.weights[name] if name in self.weights else here[name]
        return self.mesh.moved(value, self.plan.layout(name), self.plan.ops[op.name].reads[k])

    def _part(self, op: ShardOp, here: Mapping[str, Array]) -> Array:
        arrays = [self._read(op, k, here) for k in range(len(op.reads))]
        if op.rule != "kernel":
            return np.ascontiguousarray(evaluate(op, arrays))
        found = by_kernel(self.run.kernels[op.name], op, self.plan.ops[op.name].local, arrays)
        return found.reshape(local_shape(self.plan.graph.arrays[op.writes[0]].shape, self._plain(op), self.plan.mesh))

    def _plain(self, op: ShardOp) -> Layout:
        """The layout of its result before anything is added up."""
        return tuple(op.writes[1].index(axis) if axis and axis in op.writes[1] else -1 for axis in self.plan.ops[op.name].split)

    def _summed(self, op: ShardOp, part: Array) -> Array:
        way = self.plan.ops[op.name]
        plain = self._plain(op)
        if self.run.fault == "missing-all-reduce":
            return self.mesh.piece(part, way.writes, plain)
        return self.mesh.added(part, plain, way.collectives, way.writes)


# planned run ----------------------------------------------------------------------------------------------------------

Array = Any
CALLS = 5


def kernel_seconds(runs: Sequence[PlannedRun]) -> list[list[dict[str, float]]]:
    """Seconds of each operation on its local part, of each part of each plan, in this process alone: the median of some calls. What several plans do is
    measured once."""
    known: dict[tuple[Any, ...], float] = {}

    def of(run: PlannedRun, plan: ShardPlan, op: ShardOp) -> float:
        way = plan.ops[op.name]
        shapes = [local_shape(plan.graph.arrays[name].shape, at, plan.mesh) for (name, _), at in zip(op.reads, way.reads)]
        key = (run.dtype, op.name if op.rule == "kernel" else op.rule, plan.graph.phase(op), op.reads[0][1:], op.writes[1:], *shapes)
        if key not in known:
            arrays = [drawn(run, name, shape) for (name, _), shape in zip(op.reads, shapes)]
            _timed(run, plan, op, arrays)  # compiles
            fresh = [[a.copy() for a in arrays] for _ in range(CALLS)]  # no call finds what it reads in the nearest cache, as in a step
            known[key] = statistics.median(_timed(run, plan, op, given) for given in fresh)
        return known[key]

    return [[{op.name: of(run, plan, op) for op in plan.graph.ops} for plan in run.parts] for run in runs]


def _timed(run: PlannedRun, plan: ShardPlan, op: ShardOp, arrays: Sequence[Array]) -> float:
    began = time.perf_counter()
    if op.rule == "update":
        stepped(arrays[0], arrays[0], arrays[1], 1)
    elif op.rule == "kernel":
        by_kernel(run.kernels[op.name], op, plan.ops[op.name].local, arrays)
    elif op.rule == "loss":
        arrays[0] - arrays[0]
    else:
        made = np.ascontiguousarray(evaluate(op, arrays))
        if plan.graph.phase(op) == "weight":  # what microbatches add up to
            made + made
    return time.perf_counter() - began


class PipelineRun:
    """All steps on this rank."""

    def __init__(self, run: PlannedRun, world: Ranks, at: Whereabouts) -> None:
        self.run, self.world, self.at, self.schedule = run, world, at, run.schedule
        shapes = run.shapes
        self.stage = next(s for s, first in reversed([*enumerate(run.firsts)]) if first <= world.rank)
        self.within = world.rank - run.firsts[self.stage]
        self.mesh = MeshRanks(world, run.firsts[self.stage], shapes[self.stage], max(map(len, shapes)))
        self.copies: list[Ranks] = []
        self.chunks: dict[int, PartRun] = {}
        held: dict[int, list[Place]] = {}
        for place, (_, part) in self.schedule.part_at.items():
            held.setdefault(part, []).append(place)
        for part, places in sorted(held.items()):
            mine = next((chunk for stage, chunk in places if stage == self.stage), None)
            copies = self._copies(mine is not None) if len(places) > 1 else None
            if mine is not None:
                route = self.schedule.part_at[self.stage, mine][0]
                through = [i for i, r in enumerate(self.schedule.route_of) if r == route]
                self.chunks[mine] = PartRun(run, part, through, self.mesh, copies)
        self.dies = False
        self.sending: list[Any] = []
        self.crossings: dict[tuple[int, int], Crossing] = {}
        self.staying: dict[int, Array] = {}
        """What this rank sent to itself, by its tag."""

    def _copies(self, mine: bool) -> Ranks:
        """The ranks with the same piece of a part as this one, if it is `mine`."""
        group = self.world.split(self.within if mine else self.world.size, self.world.rank)
        self.copies.append(group)
        return group

    def free(self) -> None:
        """Groups of ranks are no longer needed."""
        self.mesh.free()
        for group in self.copies:
            group.free()

    def steps(self) -> list[float]:
        """Seconds of each step."""
        took = []
        with np.errstate(over="ignore"):
            for step in range(self.run.steps):
                for part in self.chunks.values():
                    part.prepare(step)
                self.at.say("waits for the others before the step")
                self.world.barrier()
                began = time.perf_counter()
                for block in self.schedule.orders[self.stage]:
                    for op in block:
                        self.at.say(f"{op} of step {step} on stage {self.stage}")
                        self._pass(op, step)
                for request in self.sending:
                    request.wait()
                self.sending.clear()
                self.at.say(f"update of step {step} on stage {self.stage}")
                for part in sorted(self.chunks.values(), key=lambda x: x.number):
                    part.update()
                took.append(time.perf_counter() - began)
        return took

    def _pass(self, op: StageOp, step: int) -> None:
        i, part = op.microbatch, self.chunks[op.chunk]
        if op.kind == "F":
            part.forward(i, self._receive(op, -1) if part.number else None)
            if part.number + 1 < len(self.run.parts):
                assert part.plan.graph.loss is not None
                value = part.values[i][part.plan.graph.loss.reads[0][0]]
                if self.run.fault == "swapped-chunk" and i == 0:
                    value = value.ravel()[::-1].reshape(value.shape)
                self._send(op, 1, value)
        if not part.phases["input"]:  # a function has one pass
            return
        if op.kind in ("B", "BW"):
            if self.dies and step:
                os.kill(os.getpid(), signal.SIGKILL)
            part.input_gradients(i, self._receive(op, 1) if part.number + 1 < len(self.run.parts) else None)
            if part.number:
                self._send(op, -1, part.values[i][part.plan.graph.sent_back])
        if op.kind in ("W", "BW"):
            part.weight_gradients(i)

    def _neighbour(self, op: StageOp, ahead: int) -> tuple[int, int, int, int]:
        """(this part, the one that many places ahead, its stage, its first rank)."""
        route, part = self.schedule.part_at[self.stage, op.chunk]
        stage = self.schedule.routes[route][part + ahead][0]
        return part, part + ahead, stage, self.run.firsts[stage]

    def _crossing(self, source: int, target: int) -> Crossing:
        if (source, target) not in self.crossings:
            self.crossings[source, target] = crossing(self.run.parts[source], self.run.parts[target], target > source)
        return self.crossings[source, target]

    def _tag(self, op: StageOp, source: int, target: int) -> int:
        return (op.microbatch * len(self.run.parts) + source) * 2 + (target > source)

    def _send(self, op: StageOp, ahead: int, value: Array) -> None:
        part, other, _, first = self._neighbour(op, ahead)
        crossing, tag = self._crossing(part, other), self._tag(op, part, other)
        mine = crossing.source.boxes(crossing.shape)[self.within]
        for t in crossing.transfers:
            if t.source == self.within:
                piece = np.ascontiguousarray(value[within(t.box, mine)])
                if first + t.target == self.world.rank:
                    self.staying[tag] = piece
                else:
                    self.sending.append(self.world.send(piece, first + t.target, tag))

    def _receive(self, op: StageOp, ahead: int) -> Array:
        part, other, stage, first = self._neighbour(op, ahead)
        crossing, tag = self._crossing(other, part), self._tag(op, other, part)
        mine = crossing.target.boxes(crossing.shape)[self.within]
        value = np.empty([b - a for a, b in mine], self.run.dtype)
        self.at.say(f"{op} on stage {self.stage} waits for stage {stage}")
        for t in crossing.transfers:
            if t.target == self.within:
                if first + t.source == self.world.rank:
                    value[within(t.box, mine)] = self.staying.pop(tag)
                else:
                    piece = np.empty([b - a for a, b in t.box], self.run.dtype)
                    self.world.receive(piece, first + t.source, tag)
                    value[within(t.box, mine)] = piece
        return value


def carried_out(run: PlannedRun, world: Ranks, at: Whereabouts, dies: bool = False) -> dict[str, Any]:
    """What differs from one process, and seconds of a step by the median. `dies`: of tests: this rank is killed in the second step."""
    mine = PipelineRun(run, world, at)
    mine.dies = dies
    took = mine.steps()
    at.say("computes the whole, to compare")
    alone = replace(run, parts=(run.whole,), schedule=generate("1f1b", 1, run.schedule.microbatches), fault="")
    reference = PipelineRun(alone, Alone(), at)
    reference.steps()
    (whole,) = reference.chunks.values()
    wrong = [why for part in mine.chunks.values() for why in _wrong(part, whole, f"on stage {mine.stage}")]
    mine.free()
    return {"rank": world.rank, "seconds": statistics.median(took[1:] or took), "wrong": wrong}


def _wrong(part: PartRun, whole: PartRun, where: str) -> Iterator[str]:
    """Weights and momenta after the steps, and what a function made."""
    updates = {op.writes[0]: op for op in part.phases["update"]}
    compared = [(f"weights {name}", x, whole.weights[name], part.plan.arrays[name]) for name, x in part.weights.items()]
    compared += [(f"momentum {name}", x, whole.momenta[name], part.plan.ops[updates[name].name].writes) for name, x in part.momenta.items()]
    compared += [(name, x, whole.values[0][name], part.plan.layout(name)) for name, x in part.values.get(0, {}).items()]
    for name, got, want, layout in compared:
        if why := _differs(got, part.mesh.piece(want, layout), part.run):
            yield f"{name} {where}: {why}"


def _differs(got: Array, want: Array, run: PlannedRun) -> str:
    if got.dtype.kind != "f":
        wrong = int(np.count_nonzero(got != want))
        return f"{wrong} of {want.size} elements differ" if wrong else ""
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "infinities and NaN are elsewhere"
    largest = float(np.max(np.abs(want[finite]), initial=0.0))
    off = float(np.max(np.abs(got[finite] - want[finite]), initial=0.0)) / max(largest, 1e-30)
    graph = run.whole.graph
    sums = sum(np.prod([op.axes[axis] for axis in op.summed | op.whole]) for op in graph.ops if not op.backward)
    bound = 4 * run.steps * float(np.finfo(got.dtype).eps) * float(sums)
    return f"{off:.3g} of the largest element off, more than {bound:.3g}" if not off <= bound else ""


def _run_plans(asked: dict[str, Any], world: Ranks, at: Whereabouts) -> list[Any]:
    plans = [PlannedRun.unpacked(text) for text in asked["plans"]]
    if asked["alone"]:
        return kernel_seconds(plans)
    return [world.gather(carried_out(run, world, at, n == 0 and asked["kill"] == world.rank)) for n, run in enumerate(plans)]


if __name__ == "__main__":
    sys.exit(as_rank(Path(sys.argv[1]), sys.argv[2], _run_plans))
