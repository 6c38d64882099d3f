"""One part of the model on one rank of a plan that is carried out: every operation runs on the pieces of its arrays that the plan gives this rank,
with the plan's collectives."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..shard_graph import ShardOp
from ..shardings import Layout, local_shape
from .op_meanings import by_kernel, evaluate
from .ranks import MeshRanks, Ranks
from .run_spec import PlannedRun

Array = Any
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
