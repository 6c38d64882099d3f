"""How fast GPUs are, by architecture: clocks, bandwidths, what a multiprocessor holds and does in a cycle.

What a device says of itself (`Target.clock`, `Target.bandwidth`) goes first. Sizes of a multiprocessor are those of the
CUDA C++ Programming Guide ("Technical Specifications per Compute Capability") and operations a cycle those of its
"Arithmetic Instructions"; rates of matrix instructions are in `tensor_rows`. L2 rates: A100's whitepaper (5120 bytes a
clock), DeepGEMM's heuristics for sm_90 for Hopper (64 bytes a clock and multiprocessor, 6150 in all); the others are
estimates, as latencies under load are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .target import Target


@dataclass(frozen=True, slots=True)
class GpuRates:
    """Rates of one GPU. Bandwidths and clock are what its data sheet says; how much of them is reached is the model's
    business."""

    clock: float
    """Cycles a second under load."""
    memory: float
    """Bytes a second from memory."""
    latency: float
    """Seconds from asking memory to having, when the memory is busy."""
    l2_latency: float
    """The same for what is in the L2 cache."""
    l2: float
    """Bytes a cycle from the L2 cache for one multiprocessor."""
    l2_all: float
    """Bytes a cycle from the L2 cache for all of them together."""
    float32: float
    """Instructions on float32 that a multiprocessor's threads do in a cycle."""
    shared: int
    """Bytes of shared memory of a multiprocessor."""
    threads: int
    """Threads that are resident on a multiprocessor at most."""
    groups: int
    """Groups that are resident on a multiprocessor at most."""


_KIB = 1 << 10
RATES = {
    # A100 80 GB (SXM); 108 multiprocessors
    "sm_80": GpuRates(1.41e9, 2.04e12, 560e-9, 200e-9, 64.0, 5120.0, 64.0, 164 * _KIB, 2048, 32),
    # A40, RTX A6000: 84 multiprocessors of GA102
    "sm_86": GpuRates(1.74e9, 0.70e12, 480e-9, 150e-9, 64.0, 1536.0, 128.0, 100 * _KIB, 1536, 16),
    # RTX 4090: 128 multiprocessors of AD102
    "sm_89": GpuRates(2.52e9, 1.01e12, 520e-9, 140e-9, 64.0, 2048.0, 128.0, 100 * _KIB, 1536, 24),
    # H100 (SXM); an H200 differs in memory only, 4.8 TB/s, and says so
    "sm_90a": GpuRates(1.755e9, 3.35e12, 650e-9, 160e-9, 64.0, 6150.0, 128.0, 228 * _KIB, 2048, 32),
}
"""By what is compiled for. The clock of sm_90a is the one at which an H100 multiplies matrices, below its highest."""

UNKNOWN = GpuRates(1.5e9, 0.5e12, 500e-9, 200e-9, 64.0, 2048.0, 64.0, 64 * _KIB, 1024, 16)
"""A GPU of which nothing is known: one that OpenCL shows."""


def rates_of(target: Target) -> GpuRates:
    """What is known of a GPU; of an architecture that is not in the table, what the nearest older one does."""
    found = RATES.get(target.cpu) or _older(target.cpu)
    if target.clock:
        found = replace(found, clock=min(found.clock, target.clock) if found is not UNKNOWN else target.clock)
    if target.bandwidth:
        found = replace(found, memory=target.bandwidth)
    return found


def _older(cpu: str) -> GpuRates:
    number = cpu.removeprefix("sm_").rstrip("af")
    if not cpu.startswith("sm_") or not number.isdigit():
        return UNKNOWN
    known = {int(name.removeprefix("sm_").rstrip("a")): r for name, r in RATES.items()}
    return known[max((n for n in known if n <= int(number)), default=min(known))]
