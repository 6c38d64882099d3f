"""mbarriers as the interpreter has them: phases, arrivals, bytes, and what who arrives tells who waits.

(PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier": a phase is over when no arrival and no byte is missing.)"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .ops import Array


@dataclass(slots=True)
class MBarrierState:
    """One mbarrier. `phase` is the number of the phase that is not over yet; `actor` writes what TMA brings by it; `made`: who set it up,
    and when by its own time."""

    arrivals: int
    actor: int
    made: tuple[int, int]
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    told: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    """What arrivals of this phase knew."""
    over: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    """What arrivals of the phases that are over knew."""

    def begin(self, actors: int) -> None:
        """Phase 0."""
        self.pending = self.arrivals
        self.told, self.over = np.zeros(actors, np.int32), np.zeros(actors, np.int32)

    def arrive(self, count: int, told: Array) -> bool:
        """So many threads arrive; whether they were expected."""
        if count > self.pending:
            return False
        self.pending -= count
        self.told = np.maximum(self.told, told)
        self.settle()
        return True

    def settle(self) -> None:
        """End the phase if nothing is missing."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.arrivals
            self.over = np.maximum(self.over, self.told)

    def passed(self, parity: int) -> bool:
        """Whether the latest phase of this parity is over."""
        return self.phase & 1 != parity

    def __str__(self) -> str:
        return f"phase {self.phase}, {self.pending} of {self.arrivals} arrivals and {self.bytes} bytes missing"
