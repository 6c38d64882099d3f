"""Processors known by name, so that code can be rendered and compiled for a machine that is not here."""

from __future__ import annotations

import difflib

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
