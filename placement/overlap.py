"""Splitting a batch into nano-batches, so that computing, memory and network work at the same time (NanoFlow, arXiv 2408.12757).

What two kernels cost each other when they run side by side must be measured on the device (`SharedDevice.slowed`). Where nothing is gained, the
answer is one batch: no split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import PlanError

RESOURCES = ("compute", "memory", "network")


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
        """Of a task on this share of the batch, alone."""

    def slowed(self, task: OverlapTask, beside: OverlapTask) -> float:
        """How many times as long a task takes while another runs: 1 or more."""


@dataclass(frozen=True)
class BatchSplit:
    """`pieces`: nano-batches; 1 is no split. `seconds`: of the whole. `tried`: seconds by number of pieces."""

    pieces: int
    seconds: float
    tried: dict[int, float]

    @property
    def said(self) -> str:
        if self.pieces == 1:
            return "no split: nothing is gained by running nano-batches side by side"
        return f"{self.pieces} nano-batches: {self.tried[1] / self.seconds:.2f}x as fast as one batch"


def best_split(tasks: Sequence[OverlapTask], device: SharedDevice, pieces: Sequence[int] = (2, 3, 4)) -> BatchSplit:
    """The number of nano-batches with the shortest time."""
    tried = {n: split_seconds(tasks, device, n) for n in sorted({1, *pieces})}
    best = min(tried, key=lambda n: (tried[n], n))
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


def most_tokens_a_second(flops: float, parameters: float) -> float:
    """NanoFlow's bound: two operations a parameter and token, all of them at the peak."""
    return flops / (2 * parameters)
