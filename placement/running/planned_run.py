"""One rank of a plan that is carried out: `python -m tilewright.placement.running.planned_run FOLDER BACKEND`. Each rank has the parts of the model
that its stage holds, and does their passes in the order of the pipeline schedule."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..handcrafted import generate
from ..pipeline_schedule import Place, StageOp
from ..shard_graph import ShardOp
from ..shard_search import ShardPlan
from ..shardings import local_shape
from ..transfers import Crossing, crossing, within
from .op_meanings import by_kernel, evaluate
from .part_run import PartRun, drawn, stepped
from .rank import Whereabouts, as_rank
from .ranks import Alone, MeshRanks, Ranks
from .run_spec import PlannedRun

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


def _all(asked: dict[str, Any], world: Ranks, at: Whereabouts) -> list[Any]:
    plans = [PlannedRun.unpacked(text) for text in asked["plans"]]
    if asked["alone"]:
        return kernel_seconds(plans)
    return [world.gather(carried_out(run, world, at, n == 0 and asked["kill"] == world.rank)) for n, run in enumerate(plans)]


if __name__ == "__main__":
    sys.exit(as_rank(Path(sys.argv[1]), sys.argv[2], _all))
