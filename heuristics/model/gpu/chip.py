"""The GPU that a schedule is for, in the units of the model: cycles, and bytes a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from ....targets import Target
from ....targets.table import rates_of
from ...gpu_machine import Gpu
from ...machine import Bandwidth


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU. `memory`: bytes a cycle, of all multiprocessors together; `l2`: bytes a cycle of each while all ask;
    `float32`: operations a multiprocessor's threads do in a cycle; `latency` and `l2_latency`: cycles; sizes in
    bytes."""

    costs: Gpu
    cores: int
    clock: float
    memory: float
    l2: float
    float32: float
    latency: float
    l2_latency: float
    l1: int
    l2_size: int
    shared: int
    threads: int
    groups: int

    @property
    def needed(self) -> float:
        """Bytes that have to be under way on a multiprocessor to keep the memory busy (Little's law: rate ×
        latency)."""
        return self.memory * self.latency / self.cores


def chip_of(target: Target, costs: Gpu, limits: Bandwidth | None = None) -> Chip:
    """The GPU of `target`: with the bandwidth that was measured, else what its driver or its data sheet says of it."""
    r = rates_of(target)
    memory = limits.bandwidth(1) if limits is not None else r.memory * costs.reached
    shared = max(r.shared, target.shared + costs.reserved) if target.shared else r.shared
    return Chip(
        costs, target.cores, r.clock, memory / r.clock, min(r.l2, r.l2_all / max(1, target.cores)), r.float32,
        r.latency * r.clock, r.l2_latency * r.clock, target.l1, target.l2, shared, r.threads, r.groups,
    )  # fmt: skip
