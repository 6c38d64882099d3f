"""One rank of a plan that is carried out: `python -m tilewright.placement.running.planned_run FOLDER BACKEND`. Every operation of a stage's graph runs
on the pieces of its arrays that the plan gives this rank, with the plan's collectives, in the order of its pipeline schedule."""

from __future__ import annotations

import statistics
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..handcrafted import generate
from ..pipeline_schedule import StageOp
from ..shard_graph import ShardOp
from ..shard_search import ShardPlan
from ..shardings import Collective, Layout, local_shape
from .op_meanings import by_kernel, evaluate
from .rank import Whereabouts, as_rank
from .ranks import Alone, Ranks
from .run_spec import PlannedRun

Array = Any
KEPT = {"i": 3, "f": 0.9}
RATE = {"i": 1.0, "f": 0.01}
"""Of a step; of floats by the rows of all microbatches, so that no step diverges."""
CALLS = 5


def drawn(run: PlannedRun, name: str, shape: Sequence[int], *which: int) -> Array:
    """The whole of an array before the first step, or of a microbatch's input or target: the same on all ranks."""
    draw = np.random.default_rng([run.seed, zlib.crc32(name.encode()), *which])
    dtype = np.dtype(run.dtypes.get(name, run.dtype))
    if dtype.kind == "b":
        return draw.integers(0, 2, tuple(shape)).astype(bool)
    if dtype.kind in "iu":  # a function's may be indices
        ends = (0, 2) if run.kernels else (-(1 << 62), 1 << 62)
        return draw.integers(*ends, tuple(shape), dtype)
    return draw.normal(0, max(float(np.prod(shape)), 1.0) ** -0.25, tuple(shape)).astype(dtype)


def _stepped(weight: Array, momentum: Array | None, gradient: Array, rows: int) -> tuple[Array, Array]:
    """(weight, momentum) after a step."""
    number, kind = gradient.dtype.type, gradient.dtype.kind
    kept = gradient if momentum is None else momentum * number(KEPT[kind]) + gradient
    return weight - number(RATE[kind] / (1 if kind == "i" else rows)) * kept, kept


def kernel_seconds(run: PlannedRun) -> list[dict[str, float]]:
    """Seconds of each operation on its local part, of each stage, in this process alone: the least of some calls."""
    known: dict[tuple[Any, ...], float] = {}
    found: list[dict[str, float]] = [{} for _ in run.stages]
    for stage, plan in enumerate(run.stages):
        for op in plan.graph.ops:
            way = plan.ops[op.name]
            shapes = [local_shape(plan.graph.arrays[name].shape, at, plan.mesh) for (name, _), at in zip(op.reads, way.reads)]
            key = (op.name if op.rule == "kernel" else op.rule, op.reads[0][1:], op.writes[1:], *shapes)
            if key not in known:
                arrays = [drawn(run, name, shape) for (name, _), shape in zip(op.reads, shapes)]
                known[key] = min(_timed(run, op, way.local, arrays) for _ in range(CALLS))
            found[stage][op.name] = known[key]
    return found


def _timed(run: PlannedRun, op: ShardOp, local: Mapping[str, int], arrays: Sequence[Array]) -> float:
    began = time.perf_counter()
    if op.rule == "update":
        _stepped(arrays[0], arrays[0], arrays[1], 1)
    elif op.rule == "kernel":
        by_kernel(run.kernels[op.name], op, local, arrays)
    elif op.rule == "loss":
        arrays[0] - arrays[0]
    else:
        evaluate(op, arrays)
    return time.perf_counter() - began


class MeshRanks:
    """The ranks of one stage, `first` and those after it, as a mesh of this shape, and pieces of arrays on it: what a layout gives each rank, and
    how one layout becomes another. Of two axes that split one dimension, the first is the outer one. All ranks of the world make one at once."""

    def __init__(self, world: Ranks, shape: Sequence[int]) -> None:
        self.shape, size = tuple(shape), prod(shape)
        self.first = world.rank // size * size
        self.at = tuple(int(k) for k in np.unravel_index(world.rank - self.first, self.shape))
        self.axes = []
        for m, n in enumerate(self.shape):
            stride = prod(self.shape[m + 1 :])
            self.axes.append(world.split(world.rank - self.at[m] * stride, world.rank) if n > 1 else None)

    def free(self) -> None:
        for axis in self.axes:
            if axis is not None:
                axis.free()

    def piece(self, whole: Array, layout: Layout, since: Layout | None = None) -> Array:
        """This rank's part of an array that `since` had not split."""
        for m, d in enumerate(layout):
            if d >= 0 and (since is None or since[m] != d):
                n = whole.shape[d] // self.shape[m]
                whole = whole[(slice(None),) * d + (slice(self.at[m] * n, (self.at[m] + 1) * n),)]
        return np.asarray(whole, order="C")

    def moved(self, local: Array, source: Layout, target: Layout) -> Array:
        """The same array in another layout: dimensions that other axes split are gathered, and cut anew."""
        if source == target:
            return local
        changed = {d for d in (*source, *target) if d >= 0 and _splitting(source, d) != _splitting(target, d)}
        now = list(source)
        for m in reversed(range(len(source))):
            if source[m] in changed:
                local, now[m] = self._gathered(local, m, source[m]), -1
        return self.piece(local, target, tuple(now))

    def _gathered(self, local: Array, m: int, dim: int) -> Array:
        axis = self.axes[m]
        if axis is None:
            return local
        pieces = axis.all_gather(np.asarray(local, order="C")).reshape(axis.size, *local.shape)
        return np.concatenate(list(pieces), axis=dim)

    def added(self, local: Array, plain: Layout, collectives: Sequence[Collective], target: Layout) -> Array:
        """The sum of parts, over the axes of the collectives, in the target's layout."""
        now = list(plain)
        for c in collectives:
            axis, dim = self.axes[c.axis], target[c.axis]
            if axis is None:
                continue
            if dim >= 0 and _splitting(target, dim) == [c.axis]:
                front = np.ascontiguousarray(np.moveaxis(local, dim, 0))
                part = axis.reduce_scatter(front.ravel()).reshape(front.shape[0] // axis.size, *front.shape[1:])
                local, now[c.axis] = np.moveaxis(part, 0, dim), dim
            else:
                local = axis.all_reduce(np.asarray(local, order="C"))
        return self.moved(local, tuple(now), target)


def _splitting(layout: Layout, dim: int) -> list[int]:
    """Axes of the mesh that split a dimension."""
    return [m for m, d in enumerate(layout) if d == dim]


class StageRun:
    """One stage on this rank. `values`: by microbatch, what its operations made here, in their plans' layouts."""

    def __init__(self, run: PlannedRun, plan: ShardPlan, mesh: MeshRanks) -> None:
        self.run, self.plan, self.mesh = run, plan, mesh
        arrays = plan.graph.arrays
        self.made = plan.graph.made_by()
        self.weights = {n: mesh.piece(drawn(run, n, a.shape), plan.arrays[n]) for n, a in arrays.items() if a.role == "parameter"}
        self.momenta: dict[str, Array] = {}
        self.values: dict[int, dict[str, Array]] = {}
        self.gradients: dict[str, Array] = {}
        last = next((op.writes[0] for op in plan.graph.ops if op.rule == "loss"), None)
        self.rows = 1 if last is None else run.microbatches * int(np.prod(arrays[last].shape[:-1]))
        self.given: dict[tuple[str, int], Array] = {}
        """Inputs and targets of a step, by name and microbatch."""
        self.phases: dict[str, list[ShardOp]] = {"forward": [], "input": [], "weight": [], "update": []}
        for op in plan.graph.ops:
            late = any(arrays[name].role == "gradient" for name, _ in op.reads)  # it needs what all microbatches add up to
            self.phases["update" if late else plan.graph.phase(op)].append(op)

    def prepare(self, step: int, last: bool) -> None:
        """Draw what a step is given. `last`: this stage has the loss."""
        for i in range(self.run.microbatches):
            for name, a in self.plan.graph.arrays.items():
                if a.role == "input":
                    self.given[name, i] = self.mesh.piece(drawn(self.run, name, a.shape, step, i), self.plan.arrays[name])
            for op in self.phases["input"]:
                if op.rule == "loss" and last:
                    shape = self.plan.graph.arrays[op.writes[0]].shape
                    self.given["target", i] = self.mesh.piece(drawn(self.run, "target", shape, step, i), self.plan.ops[op.name].writes)

    def forward(self, i: int, x: Array | None) -> None:
        """All forward passes of a microbatch. `x`: from the stage before, in the layout of this stage's input."""
        here = self.values[i] = {}
        for name, a in self.plan.graph.arrays.items():
            if a.role == "input":
                here[name] = self.given[name, i]
            elif a.role == "boundary":
                here[name] = x
        for op in self.phases["forward"]:
            here[op.writes[0]] = self._summed(op, self._part(op, here))

    def input_gradients(self, i: int, dy: Array | None) -> None:
        """`dy`: from the stage after; None on the last, which has the loss."""
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
            here[op.writes[0]] = self._summed(op, self.gradients[op.writes[0]])
        self.gradients.clear()
        for op in self.phases["update"]:
            name, way = op.writes[0], self.plan.ops[op.name]
            if op.rule != "update":
                here[name] = self._summed(op, self._part(op, here))
                continue
            weight, gradient = (self._read(op, k, here) for k in range(2))
            stepped, self.momenta[name] = _stepped(weight, self.momenta.get(name), gradient, self.rows)
            stale = self.run.fault == "stale-gather" and way.writes != self.plan.arrays[name]
            self.weights[name] = self.weights[name] if stale else self.mesh.moved(stepped, way.writes, self.plan.arrays[name])

    def layout(self, name: str) -> tuple[int, ...]:
        """How an array lies here after the operation that makes it."""
        return self.plan.ops[self.made[name].name].writes if name in self.made else self.plan.arrays[name]

    def _read(self, op: ShardOp, k: int, here: Mapping[str, Array]) -> Array:
        name = op.reads[k][0]
        value = self.weights[name] if name in self.weights else here[name]
        return self.mesh.moved(value, self.layout(name), self.plan.ops[op.name].reads[k])

    def _part(self, op: ShardOp, here: Mapping[str, Array]) -> Array:
        arrays = [self._read(op, k, here) for k in range(len(op.reads))]
        if op.rule != "kernel":
            return np.ascontiguousarray(evaluate(op, arrays))
        found = by_kernel(self.run.kernels[op.name], op, self.plan.ops[op.name].local, arrays)
        return found.reshape(local_shape(self.plan.graph.arrays[op.writes[0]].shape, self._plain(op), self.plan.mesh))

    def _plain(self, op: ShardOp) -> tuple[int, ...]:
        """The layout of its result before anything is added up."""
        return tuple(op.writes[1].index(axis) if axis and axis in op.writes[1] else -1 for axis in self.plan.ops[op.name].split)

    def _summed(self, op: ShardOp, part: Array) -> Array:
        way = self.plan.ops[op.name]
        plain = self._plain(op)
        if self.run.fault == "missing-all-reduce":
            return self.mesh.piece(part, way.writes, plain)
        return self.mesh.added(part, plain, way.collectives, way.writes)


class PipelineRun:
    """All steps on this rank."""

    def __init__(self, run: PlannedRun, world: Ranks, at: Whereabouts) -> None:
        self.run, self.world, self.at = run, world, at
        self.mesh = MeshRanks(world, [axis.n for axis in run.stages[0].mesh])
        size = run.ranks // len(run.stages)
        self.number, self.within, self.size = world.rank // size, world.rank % size, size
        self.stage = StageRun(run, run.stages[self.number], self.mesh)
        self.sending: list[Any] = []

    def steps(self) -> list[float]:
        """Seconds of each step."""
        took = []
        with np.errstate(over="ignore"):
            for step in range(self.run.steps):
                self.stage.prepare(step, self.number == len(self.run.stages) - 1)
                self.at.say("waits for the others before the step")
                self.world.barrier()
                began = time.perf_counter()
                for block in self.run.schedule.orders[self.number]:
                    for op in block:
                        self.at.say(f"{op} of step {step} on stage {self.number}")
                        self._pass(op)
                for request in self.sending:
                    request.wait()
                self.sending.clear()
                self.at.say(f"update of step {step} on stage {self.number}")
                self.stage.update()
                took.append(time.perf_counter() - began)
        return took

    def _pass(self, op: StageOp) -> None:
        i, last = op.microbatch, len(self.run.stages) - 1
        if op.kind == "F":
            x = self._receive(self.number - 1, self._input(self.number), 2 * i) if self.number else None
            self.stage.forward(i, x)
            if self.number < last:
                name, ahead = self._output(self.number), self.run.stages[self.number + 1]
                value = self.mesh.moved(self.stage.values[i][name], self.stage.layout(name), ahead.arrays[self._input(self.number + 1)])
                if self.run.fault == "swapped-chunk" and i == 0:
                    value = np.ascontiguousarray(value.ravel()[::-1].reshape(value.shape))
                self._send(self.number + 1, value, 2 * i)
        if not self.stage.phases["input"]:  # a function has one pass
            return
        if op.kind in ("B", "BW"):
            loss = next(o for o in self.stage.phases["input"] if o.rule == "loss")
            dy = self._receive(self.number + 1, loss.writes[0], 2 * i + 1) if self.number < last else None
            self.stage.input_gradients(i, dy)
            if self.number:
                before = self.run.stages[self.number - 1]
                target = before.ops[next(o.name for o in before.graph.ops if o.rule == "loss")].writes
                name = self.stage.plan.graph.sent_back
                self._send(self.number - 1, self.mesh.moved(self.stage.values[i][name], self.stage.layout(name), target), 2 * i + 1)
        if op.kind in ("W", "BW"):
            self.stage.weight_gradients(i)

    def _input(self, stage: int) -> str:
        return next(n for n, a in self.run.stages[stage].graph.arrays.items() if a.role == "boundary")

    def _output(self, stage: int) -> str:
        return next(op.reads[0][0] for op in self.run.stages[stage].graph.ops if op.rule == "loss")

    def _send(self, stage: int, value: Array, tag: int) -> None:
        self.sending.append(self.world.send(np.ascontiguousarray(value), stage * self.size + self.within, tag))

    def _receive(self, stage: int, name: str, tag: int) -> Array:
        plan = self.stage.plan
        value = np.empty(local_shape(plan.graph.arrays[name].shape, self.stage.layout(name), plan.mesh), self.run.dtype)
        self.at.say(f"stage {self.number} waits for stage {stage}")
        self.world.receive(value, stage * self.size + self.within, tag)
        return value


def carried_out(run: PlannedRun, world: Ranks, at: Whereabouts) -> dict[str, Any]:
    """What differs from one process, seconds of a step by the median, and seconds of each operation."""
    mine = PipelineRun(run, world, at)
    took = mine.steps()
    at.say("computes the whole, to compare")
    alone = replace(run, stages=(run.whole,), schedule=generate("1f1b", 1, run.microbatches), fault="")
    reference = PipelineRun(alone, Alone(), at)
    reference.steps()
    wrong = []
    for kind, got, want in (
        ("weights", mine.stage.weights, reference.stage.weights),
        ("momentum", mine.stage.momenta, reference.stage.momenta),
    ):
        for name, value in got.items():
            updates = {op.writes[0]: op for op in mine.stage.phases["update"]}
            layout = mine.stage.plan.arrays[name] if kind == "weights" else mine.stage.plan.ops[updates[name].name].writes
            why = _differs(value, mine.mesh.piece(want[name], layout), run)
            if why:
                wrong.append(f"{kind} {name} on stage {mine.number}: {why}")
    for name, value in mine.stage.values.get(0, {}).items():
        why = _differs(value, mine.mesh.piece(reference.stage.values[0][name], mine.stage.layout(name)), run)
        if why:
            wrong.append(f"{name}: {why}")
    mine.mesh.free()
    return {"rank": world.rank, "seconds": statistics.median(took[1:] or took), "wrong": wrong}


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


def _all(asked: dict[str, Any], world: Ranks, at: Whereabouts) -> list[Any]:
    plans = [PlannedRun.unpacked(text) for text in asked["plans"]]
    if asked["alone"]:
        return [kernel_seconds(run) for run in plans]
    return [world.gather(carried_out(run, world, at)) for run in plans]


if __name__ == "__main__":
    sys.exit(as_rank(Path(sys.argv[1]), sys.argv[2], _all))
