"""Splitting a batch into nano-batches, so that computing, memory and network work at the same time (NanoFlow, arXiv 2408.12757).

What two kernels cost each other when they run side by side must be measured on the device (`SharedDevice.slowed`). Where nothing is gained, the
answer is one batch: no split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import PlanError
from .network import RESOURCES
from .shard_graph import ShardOp, moved
from .shard_search import ShardPlan
from .shardings import Collective, Price, relayout

BATCH = "b"
"""The axis that is split: sequences of a batch."""
LEAST_GAIN = 1e-3
"""The share of the time that more nano-batches must save."""


@dataclass(frozen=True)
class OverlapTask:
    """An operation of a batch, after the one before it. `resource`: what it is limited by."""

    name: str
    resource: str

    def __post_init__(self) -> None:
        if self.resource not in RESOURCES:
            raise PlanError(f"{self.name} uses {self.resource!r}; there are {', '.join(RESOURCES)}")


class SharedDevice(Protocol):
    """A device on which kernels were timed, alone and in pairs."""

    def seconds(self, task: OverlapTask, share: float) -> float:
        """Seconds of a task on this share of the batch, alone."""

    def slowed(self, task: OverlapTask, beside: OverlapTask) -> float:
        """How many times as long a task takes while another runs: 1 or more."""


class PlannedPasses:
    """The passes of a microbatch of a planned stage as `tasks`, priced as the plan was. `balance`: operations a byte above which computing binds,
    not memory. `slowed`: as measured (`network.Network`)."""

    def __init__(self, plan: ShardPlan, price: Price, balance: float, slowed: Mapping[str, Mapping[str, float]]) -> None:
        self.tasks: list[OverlapTask] = []
        self._plan, self._price, self._slowed = plan, price, slowed
        self._ops: dict[str, ShardOp] = {}
        self._sent: dict[str, Collective] = {}
        for op in plan.graph.ops:
            way, phase = plan.ops[op.name], plan.graph.phase(op)
            if phase == "update":
                continue
            for (name, _), layout in zip(op.reads, way.reads):
                self._send(relayout(plan.graph.arrays[name].nbytes, plan.layout(name), layout, plan.mesh, name))
            self._ops[op.name] = op
            share = math.prod(way.local.values()) / max(math.prod(op.axes.values()), 1)
            compute = op.flops * share > balance * moved(op, way.local)
            self.tasks.append(OverlapTask(op.name, "compute" if compute else "memory"))
            if phase != "weight":  # those are added up once a step
                self._send(way.adding(op))

    def _send(self, collectives: Sequence[Collective]) -> None:
        for c in collectives:
            name = f"{c.kind} of {c.why}, {len(self.tasks)}"
            self._sent[name] = c
            self.tasks.append(OverlapTask(name, "network"))

    @property
    def pieces(self) -> tuple[int, ...]:
        """Numbers of nano-batches into which every operation's sequences on a device can be cut."""
        counts = [self._plan.ops[name].local[BATCH] for name, op in self._ops.items() if BATCH in op.axes]
        return tuple(n for n in (2, 3, 4) if counts and all(count % n == 0 for count in counts))

    def seconds(self, task: OverlapTask, share: float) -> float:
        if task.name in self._sent:
            c = self._sent[task.name]
            return self._plan.mesh[c.axis].seconds(c.kind, c.nbytes * share)
        op, local = self._ops[task.name], self._plan.ops[task.name].local
        if BATCH in local:
            return self._price(op, {**local, BATCH: round(local[BATCH] * share)})
        return share * self._price(op, local)

    def slowed(self, task: OverlapTask, beside: OverlapTask) -> float:
        return self._slowed[task.resource][beside.resource]


@dataclass(frozen=True)
class BatchSplit:
    """`pieces`: nano-batches; 1 is no split. `seconds`: of the whole. `tried`: seconds by number of pieces."""

    pieces: int
    seconds: float
    tried: dict[int, float]

    @property
    def said(self) -> str:
        if self.pieces > 1:
            return f"{self.pieces} nano-batches: {self.tried[1] / self.seconds:.2f}x as fast as one batch"
        if len(self.tried) == 1:
            return "no split: a device has too few sequences of a microbatch"
        return "no split: nothing is gained by running nano-batches side by side"


def best_split(tasks: Sequence[OverlapTask], device: SharedDevice, pieces: Sequence[int] = (2, 3, 4)) -> BatchSplit:
    """The number of nano-batches with the shortest time."""
    tried = {n: split_seconds(tasks, device, n) for n in sorted({1, *pieces})}
    best = next(n for n in tried if tried[n] <= (1 + LEAST_GAIN) * min(tried.values()))
    return BatchSplit(best, tried[best], tried)


def split_seconds(tasks: Sequence[OverlapTask], device: SharedDevice, pieces: int) -> float:
    """Seconds of a batch in equal pieces: each goes through the tasks in order, a resource does one task at a time, of the earliest piece that is
    ready, and what runs side by side slows each other."""
    at, left = [0] * pieces, [device.seconds(tasks[0], 1 / pieces) if tasks else 0.0] * pieces
    now = 0.0
    held: dict[str, int] = {}
    while any(k < len(tasks) for k in at):
        for piece, k in enumerate(at):
            if k < len(tasks):
                held.setdefault(tasks[k].resource, piece)
        running = list(held.values())
        rates = {}
        for piece in running:
            others = (tasks[at[p]] for p in running if p != piece)
            rates[piece] = 1 / math.prod((device.slowed(tasks[at[piece]], other) for other in others), start=1.0)
        step = min(left[piece] / rates[piece] for piece in running)
        now += step
        for piece in running:
            left[piece] -= step * rates[piece]
            if left[piece] <= 1e-12 * now:
                del held[tasks[at[piece]].resource]
                at[piece] += 1
                left[piece] = device.seconds(tasks[at[piece]], 1 / pieces) if at[piece] < len(tasks) else 0.0
    return now
