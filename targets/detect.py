"""This machine as a Target: flags and name from LLVM, cache sizes from sysfs, usable cores from affinity and cgroup.

`here.py` takes features away from it where TILEWRIGHT_TARGET says so.
Where a source is missing (another operating system, a sandbox without /sys) the value falls back to the named target of the same
cpu, else to small figures that suit any processor."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from .table import lookup, vector_shape
from .target import Target

_ARCH = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}
# our flag: what LLVM must report for it
_X86 = {
    "sse41": ("sse4.1",),
    "avx2": ("avx2",),
    "fma": ("fma",),
    "f16c": ("f16c",),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "avx512vnni": ("avx512vnni",),
    "avx512bf16": ("avx512bf16",),
    "avx512popcnt": ("avx512vpopcntdq", "avx512bitalg"),
    "avxvnni": ("avxvnni",),
}
_FALLBACK = (32 << 10, 256 << 10, 4 << 20)


@functools.cache
def machine() -> Target:
    """The machine this process runs on, with all that it has. Detected once a process, in well under 5 ms when llvmlite is loaded."""
    import llvmlite.binding as llvm

    arch = platform.machine().lower()
    arch = _ARCH.get(arch, arch)
    cpu = str(llvm.get_host_cpu_name()) or "generic"
    features = usable(has(arch, dict(llvm.get_host_cpu_features())))
    known = lookup(cpu)
    l1, l2, l3 = cache_sizes(min(_affinity(), default=0), (known.l1, known.l2, known.l3) if known else _FALLBACK)
    return Target(cpu, "llvm", arch, cpu, features, *vector_shape(arch, features), usable_cores(), l1, l2, l3)


@functools.cache
def features() -> frozenset[str]:
    """Every feature that this machine has, also those that `usable` leaves out because it has better ones."""
    import llvmlite.binding as llvm

    return has(machine().arch, dict(llvm.get_host_cpu_features()))


def has(arch: str, flags: dict[str, bool]) -> frozenset[str]:
    """Our features that LLVM's `flags` amount to."""
    if arch == "aarch64":
        # every AArch64 processor that runs a general operating system has these; LLVM reports few flags on some systems
        return frozenset({"neon", "fma", "f16c"})
    if arch != "x86_64":
        return frozenset()
    return frozenset(ours for ours, theirs in _X86.items() if all(flags.get(f, False) for f in theirs))


def usable(found: frozenset[str]) -> frozenset[str]:
    """The features that code is rendered for, of those that a processor has."""
    if not {"avx2", "fma", "f16c", "avx512"} <= found:
        found -= {f for f in found if f.startswith("avx512")}
    if "avx512" in found or not {"avx2", "fma", "f16c"} <= found:
        # processors that have both do better with the wider form
        found -= {"avxvnni"}
    return found


def usable_cores() -> int:
    """Cores that this process may keep busy: the affinity mask, capped by the cgroup's CPU quota (rounded up). Not cached."""
    cores = len(_affinity()) or os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, min(cores, -int(-quota // 1)) if quota is not None else cores)


def _affinity() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def cgroup_quota(proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> float | None:
    """The smallest CPU quota, in cores, of this process's cgroup and its parents (v2 and v1); None where there is no limit."""
    quotas = []
    for line in _read(Path(proc)).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = Path(root) / "cpu" if controllers else Path(root)
        # inside a container the path may be the host's: then only the root of the mount exists, and it is our group
        parts = Path(path.lstrip("/")).parts
        for n in range(len(parts) + 1):
            quotas.append(_quota(base.joinpath(*parts[:n]), v1=bool(controllers)))
    return min((q for q in quotas if q is not None), default=None)


def _quota(group: Path, v1: bool) -> float | None:
    words = [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")] if v1 else _read(group / "cpu.max").split()
    try:
        quota, period = (float(w) for w in words)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def cache_sizes(cpu: int, fallback: tuple[int, int, int], sysfs: str = "/sys/devices/system/cpu") -> tuple[int, int, int]:
    """(L1 data, L2, L3) in bytes as the kernel reports them for `cpu`; the fallback's value for a level that is missing."""
    sizes = dict(zip((1, 2, 3), fallback, strict=True))
    for entry in Path(sysfs, f"cpu{cpu}", "cache").glob("index[0-9]*"):
        level, kind, size = (_read(entry / f) for f in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and int(level) in sizes and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
    return sizes[1], sizes[2], sizes[3]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
