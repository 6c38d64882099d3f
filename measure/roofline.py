"""How fast could it be? The least time the memory or the arithmetic of this machine allows for a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..devices import Limits
    from ..ir.kernel import Kernel
    from ..targets import Target

MOST_SETS = 256
"""Most sets of operands that timing rotates through."""
_FLOPS_PER_BYTE = 8.0
"""Below this intensity a kernel waits for memory on every processor of the last decade."""
_NEGLIGIBLE = 0.02
"""Below this share of stores, a kernel's bandwidth is that of reading."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """`seconds`: a lower bound on one call; `bound`: which of 'memory' and 'compute' sets it. `flops` includes the polynomials of
    elementary functions, `bytes` is the compulsory traffic; `peak` (operations a second) and `bandwidth` (bytes a second) are the
    machine's limits for this kernel."""

    seconds: float
    bound: str
    flops: int
    bytes: int
    peak: float
    bandwidth: float

    @property
    def facts(self) -> dict[str, float | str]:
        """What a row of the cache keeps, so that a report can draw the roof that was over the kernel."""
        return {"bound": self.bound, "peak": self.peak, "bandwidth": self.bandwidth, "flops": self.flops}

    def percent(self, t: float) -> float:
        """Share of the bound that a call of `t` seconds reaches, in %."""
        return 100.0 * self.seconds / t


def roofline(kernel: Kernel, limits: Limits, threads: int, vars: Mapping[str, int] | None = None, target: Target | None = None) -> Roofline:
    """max(compulsory bytes ÷ bandwidth, flops ÷ peak) at that thread count. The bandwidth is the best the machine showed for any
    kind of store, so a kernel above 100 % is a bug. With `target`, operands that timing cannot keep out of the caches (smaller than
    2 × L3 even in 256 sets, or compute-bound ones that are not rotated) have no memory bound, and the peak is that of the matrix
    instruction for the kernel's types, if there is one, at an FMA's rate."""
    from ..ir.cost import cost
    from ..opts.dots import at_once

    c = cost(kernel, dict(vars or {}))
    flops = c.flops + c.poly_flops
    kind = _compute_type(kernel)
    peak = limits.peak(threads, kind) * (1 if target is None else at_once(kernel, target))
    compute = flops / peak
    bandwidth = limits.bandwidth(threads, writes=False)
    if c.writes > _NEGLIGIBLE * c.bytes:
        bandwidth = max(bandwidth, limits.bandwidth(threads, nt=False), limits.bandwidth(threads, nt=True))
    memory = c.bytes / bandwidth
    if target is not None and c.bytes * rotations(kernel, vars or {}, target) < 2 * target.l3:
        memory = 0.0
    return Roofline(max(compute, memory), "memory" if memory > compute else "compute", flops, c.bytes, peak, bandwidth)


def rotations(kernel: Kernel, vars: Mapping[str, int], target: Target) -> int:
    """How many sets of operands timing rotates through, so that a memory-bound kernel finds nothing in the last-level cache: enough
    for 2 × L3, at most 256. 1 for kernels that compute."""
    from ..ir.cost import cost

    c = cost(kernel, dict(vars))
    if c.flops + c.poly_flops > _FLOPS_PER_BYTE * c.bytes:
        return 1
    return max(1, min(MOST_SETS, math.ceil(2 * target.l3 / max(c.bytes, 1))))


def _compute_type(kernel: Kernel) -> str:
    """The widest float type that values are computed in."""
    return max((v.dtype.compute.name for v in kernel.values.values() if v.dtype.is_float), key=lambda n: n == "float64", default="float32")
