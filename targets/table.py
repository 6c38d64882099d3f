"""Processors and GPUs known by name, so that code can be rendered and compiled for a machine that is not here; and how fast GPUs are.

What a device says of itself (`Target.clock`, `Target.bandwidth`) goes before `RATES`. Sizes of a multiprocessor are those of the CUDA C++
Programming Guide ("Technical Specifications per Compute Capability") and operations a cycle those of its "Arithmetic Instructions"; rates
of matrix instructions are in `tensor_rows`. L2 rates: A100's whitepaper (5120 bytes a clock), DeepGEMM's heuristics for sm_90 for Hopper
(64 bytes a clock and multiprocessor, 6150 in all); the others are estimates, as latencies under load are."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from ..ir.errors import DeviceError
from .target import Target

_V2 = frozenset({"sse41"})
_V3 = _V2 | {"avx2", "fma", "f16c"}
_V4 = _V3 | {"avx512"}
_VNNI = _V4 | {"avx512vnni"}
_ICELAKE = _VNNI | {"avx512popcnt"}
_BF16 = _ICELAKE | {"avx512bf16"}
_NEON = frozenset({"neon", "fma", "f16c"})
_KIB, _MIB = 1 << 10, 1 << 20


def _x86(name: str, cpu: str, features: frozenset[str], cores: int, l1: int, l2: int, l3: int) -> Target:
    return Target(name, "llvm", "x86_64", cpu, features, *vector_shape("x86_64", features), cores, l1, l2, l3)


def _arm(name: str, cpu: str, cores: int, l1: int, l2: int, l3: int) -> Target:
    return Target(name, "llvm", "aarch64", cpu, _NEON, 16, 32, cores, l1, l2, l3)


def nvidia(cpu: str, multiprocessors: int, shared: int, l2: int, clock: float = 0.0, bandwidth: float = 0.0) -> Target:
    """An NVIDIA GPU. `cpu` is what to compile for (sm_80); sizes are bytes; `shared` is what one group may ask for,
    which is a KiB less than a multiprocessor has. `clock` (cycles a second) and `bandwidth` (bytes a second): what its driver says."""
    features = frozenset({"fp16", "fp64"}) | tensor_features(cpu)
    return Target(
        cpu, "cuda", "nvptx64", cpu, features, 16, 255, multiprocessors, 128 * _KIB, l2, l2, "gpu", shared, 1024, 32, clock, bandwidth
    )


def tensor_features(cpu: str) -> frozenset[str]:
    """Which instructions of tensor cores an architecture such as sm_90a has: sm80 (mma.sync, ldmatrix, cp.async), sm89 (fp8), and sm90a
    (wgmma, TMA), which later architectures do not have (PTX ISA, "Target ISA Notes" of each instruction)."""
    digits = "".join(c for c in cpu.partition("_")[2] if c.isdigit())
    number = int(digits) if digits else 0
    found = {f"sm{least}" for least in (80, 89) if number >= least}
    return frozenset(found | ({"sm90a"} if cpu == "sm_90a" else set()))


def amd(cpu: str, units: int, l1: int, l2: int, l3: int, wave: int) -> Target:
    """A GPU of AMD. `units`: compute units; `l1` is theirs, `l2` and `l3` are all caches of that kind together; `wave`: threads that
    run in step. A group may have 64 KiB of shared memory (LDS) and 1024 threads, a thread 256 vector registers (of gfx90a and
    gfx942 another 256 for accumulators)."""
    return Target(cpu, "hip", "amdgcn", cpu, frozenset({"fp16", "fp64"}), 16, 256, units, l1, l2, l3, "gpu", 64 * _KIB, 1024, wave)


def opencl(
    name: str, cpu: str, kind: str, features: frozenset[str], cores: int, shared: int, max_threads: int, base: Target | None = None
) -> Target:
    """An OpenCL device. A driver for processors takes vector shape and caches from `base`, the processor."""
    if base is not None:
        width, registers, l1, l2, l3 = base.vector_bytes, base.registers, base.l1, base.l2, base.l3
    else:
        width, registers, l1, l2, l3 = 16, 128, 64 * _KIB, 4 * _MIB, 4 * _MIB
    return Target(
        name, "opencl", base.arch if base else "gpu", cpu, features, width, registers, cores, l1, l2, l3, kind, shared, max_threads, 1
    )


def vector_shape(arch: str, features: frozenset[str]) -> tuple[int, int]:
    """(bytes of a vector register, number of vector registers) that `features` give on `arch`."""
    if arch != "x86_64":
        return 16, 32 if "neon" in features else 16
    return (64, 32) if "avx512" in features else (32, 16) if "avx2" in features else (16, 16)


_TABLE = {
    t.name: t
    for t in (
        _x86("znver5", "znver5", _BF16, 16, 48 * _KIB, _MIB, 64 * _MIB),
        _x86("znver4", "znver4", _BF16, 16, 32 * _KIB, _MIB, 64 * _MIB),
        _x86("znver3", "znver3", _V3, 16, 32 * _KIB, 512 * _KIB, 64 * _MIB),
        _x86("sapphirerapids", "sapphirerapids", _BF16, 32, 48 * _KIB, 2 * _MIB, 60 * _MIB),
        _x86("icelake-server", "icelake-server", _ICELAKE, 32, 48 * _KIB, 1280 * _KIB, 48 * _MIB),
        _x86("cascadelake", "cascadelake", _VNNI, 24, 32 * _KIB, _MIB, 36 * _MIB),
        _x86("skylake-avx512", "skylake-avx512", _V4, 24, 32 * _KIB, _MIB, 33 * _MIB),
        _x86("alderlake", "alderlake", _V3 | {"avxvnni"}, 16, 48 * _KIB, 1280 * _KIB, 30 * _MIB),
        _x86("haswell", "haswell", _V3, 8, 32 * _KIB, 256 * _KIB, 20 * _MIB),
        _x86("avx2", "x86-64-v3", _V3, 8, 32 * _KIB, 512 * _KIB, 16 * _MIB),
        _x86("x86-64-v4", "x86-64-v4", _V4, 8, 32 * _KIB, _MIB, 16 * _MIB),
        _x86("x86-64-v2", "x86-64-v2", _V2, 4, 32 * _KIB, 256 * _KIB, 8 * _MIB),
        _arm("neon", "generic", 8, 64 * _KIB, 512 * _KIB, 8 * _MIB),
        _arm("apple-m1", "apple-m1", 8, 128 * _KIB, 3 * _MIB, 8 * _MIB),
        _arm("neoverse-n1", "neoverse-n1", 64, 64 * _KIB, _MIB, 32 * _MIB),
        _arm("neoverse-v1", "neoverse-v1", 64, 64 * _KIB, _MIB, 32 * _MIB),
        nvidia("sm_80", 108, 163 * _KIB, 40 * _MIB),
        nvidia("sm_86", 84, 99 * _KIB, 6 * _MIB),
        nvidia("sm_89", 128, 99 * _KIB, 72 * _MIB),
        nvidia("sm_90a", 132, 227 * _KIB, 50 * _MIB),
        # one die of an MI250X, an MI300X, a Radeon RX 7900 XTX (AMD's data sheets and the ISA manuals of CDNA2, CDNA3, RDNA3)
        amd("gfx90a", 110, 16 * _KIB, 8 * _MIB, 8 * _MIB, 64),
        amd("gfx942", 304, 32 * _KIB, 32 * _MIB, 256 * _MIB, 64),
        amd("gfx1100", 96, 32 * _KIB, 6 * _MIB, 96 * _MIB, 32),
    )
}
_TABLE["opencl-gpu"] = opencl("opencl-gpu", "generic-gpu", "gpu", frozenset({"fp64"}), 32, 32 * _KIB, 256)
_TABLE["opencl-cpu"] = opencl("opencl-cpu", "generic-cpu", "cpu", frozenset({"fp64"}), 8, 256 * _KIB, 1024, _TABLE["avx2"])
NAMES: tuple[str, ...] = tuple(_TABLE)
"""The processors that `named` knows."""
ALIASES = {"x86-64-v3": "avx2", "v2": "x86-64-v2", "v3": "avx2", "v4": "x86-64-v4"}
"""Other names of some of them."""


def entry(name: str) -> Target:
    """The target of the table called `name`. Raises DeviceError that suggests the nearest name."""
    found = _TABLE.get(ALIASES.get(name, name))
    if found is None:
        near = difflib.get_close_matches(name, (*NAMES, *ALIASES), 1, 0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise DeviceError(f"unknown target {name!r}: {hint}use host or one of {', '.join(NAMES)}")
    return found


def lookup(cpu: str) -> Target | None:
    """The table's entry for LLVM's cpu name, if there is one."""
    return _TABLE.get(cpu)


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
