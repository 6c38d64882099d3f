"""What a runner is told once: what it measures, and which inputs there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...devices import Device
    from ...ir.kernel import Kernel
    from ..bench import Bench


@dataclass(frozen=True)
class RunnerSetup:
    """What a runner is started with. `vars` maps symbol names to values; `memory_limit` is in bytes, on top of the operands.
    `hashed`: say which bits every candidate's outputs hold. `reference`: the kernel whose error bound results are held to, where it
    is not `kernel` itself (see `ir.lower_precision`). `prepare`: what makes the Bench of some inputs, importable by name; None:
    `preparing.prepare`. With another one `kernel` may be anything that it understands. `energy`: 'energy' or 'dynamic-energy' (what
    the machine takes at rest is subtracted) where that is measured too."""

    kernel: Kernel
    device: Any
    threads: int
    vars: Mapping[str, int]
    deadline_s: float
    memory_limit: int
    hashed: bool = False
    reference: Kernel | None = None
    prepare: Callable[[RunnerSetup, Device, Data, bool], Bench] | None = None
    energy: str = ""

    @property
    def judged(self) -> Kernel:
        """The kernel that results are compared with."""
        return self.reference or self.kernel


@dataclass(frozen=True)
class Data:
    """Which inputs: a seed, and their kind, as in `Measurement.checks`. `subnormal`: special ones have subnormal
    numbers and others so small that products are. `moderate`: none is infinite, NaN or huge."""

    seed: int
    kind: str = "random"
    subnormal: bool = True
    moderate: bool = False

    @property
    def special(self) -> bool:
        """They have values that random ones never do."""
        return self.kind in ("special", "edges")
