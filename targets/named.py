"""Targets by name: those of the table, and `host`, this machine.

Flags and name come from LLVM, cache sizes from sysfs, usable cores from affinity and cgroup. Where a source is missing (another operating
system, a sandbox without /sys) the value falls back to the named target of the same cpu, else to small figures that suit any processor.
TILEWRIGHT_TARGET names a processor, and code here uses no more than that one has."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

from ..files.folders import remembered
from ..ir.errors import DeviceError
from .free_memory import groups, read
from .table import entry, lookup, vector_shape
from .target import Target

_ARCH = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}
X86_FEATURES = {
    "sse41": ("sse4.1", "popcnt"),
    "avx2": ("avx2",),
    "fma": ("fma",),
    "f16c": ("f16c",),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "avx512vnni": ("avx512vnni",),
    "avx512bf16": ("avx512bf16",),
    "avx512popcnt": ("avx512vpopcntdq", "avx512bitalg"),
    "avxvnni": ("avxvnni",),
}
"""What LLVM and C compilers call the instructions of each of our features of x86-64 (x86-64-v2 has both of the first)."""
_IDENTITY = ("vendor_id", "cpu family", "model", "stepping", "flags")
"""What of /proc/cpuinfo tells processors of x86-64 from each other."""
_FALLBACK = (32 << 10, 256 << 10, 4 << 20)


@functools.cache
def machine() -> Target:
    """The machine this process runs on, with all that it has. Detected once a process."""
    arch = platform.machine().lower()
    arch = _ARCH.get(arch, arch)
    cpu, flags = _detected()
    features = usable(has(arch, flags))
    known = lookup(cpu)
    l1, l2, l3 = cache_sizes(min(affinity(), default=0), (known.l1, known.l2, known.l3) if known else _FALLBACK)
    return Target(cpu, "llvm", arch, cpu, features, *vector_shape(arch, features), usable_cores(), l1, l2, l3)


@functools.cache
def features() -> frozenset[str]:
    """Every feature that this machine has, also those that `usable` leaves out because it has better ones."""
    return has(machine().arch, _detected()[1])


@functools.cache
def _detected() -> tuple[str, dict[str, bool]]:
    """The processor's name and flags, as LLVM has them. Of a processor that is known by what Linux says of it, LLVM, which is large, is asked once."""
    import llvmlite

    def ask() -> bytes:
        import llvmlite.binding as llvm

        return json.dumps([str(llvm.get_host_cpu_name()) or "generic", dict(llvm.get_host_cpu_features())]).encode()

    said = ""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:  # a sandbox may hide it
            said = "".join(line for line in itertools.takewhile(str.strip, f) if line.startswith(_IDENTITY))
    cpu, flags = json.loads(remembered("processors", f"{llvmlite.__version__}\n{said}", ask) if "flags" in said else ask())
    return cpu, flags


def has(arch: str, flags: dict[str, bool]) -> frozenset[str]:
    """Our features that LLVM's `flags` amount to."""
    if arch == "aarch64":
        # every AArch64 processor that runs a general operating system has these; LLVM reports few flags on some systems
        return frozenset({"neon", "fma", "f16c"})
    if arch != "x86_64":
        return frozenset()
    return frozenset(ours for ours, theirs in X86_FEATURES.items() if all(flags.get(f, False) for f in theirs))


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
    cores = len(affinity()) or os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, min(cores, -int(-quota // 1)) if quota is not None else cores)


def affinity() -> set[int]:
    """Processors that the system lets this process run on; empty where there is no such mask, or a filter of system calls keeps it."""
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return set()


def cgroup_quota(proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> float | None:
    """The smallest CPU quota, in cores, of this process's cgroup and its parents (v2 and v1); None where there is no limit."""
    quotas = (_quota(group, v1) for group, v1 in groups("cpu", proc, root))
    return min((q for q in quotas if q is not None), default=None)


def _quota(group: Path, v1: bool) -> float | None:
    words = [read(group / "cpu.cfs_quota_us"), read(group / "cpu.cfs_period_us")] if v1 else read(group / "cpu.max").split()
    try:
        quota, period = (float(w) for w in words)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def cache_sizes(cpu: int, fallback: tuple[int, int, int], sysfs: str = "/sys/devices/system/cpu") -> tuple[int, int, int]:
    """(L1 data, L2, L3) in bytes as the kernel reports them for `cpu`; the fallback's value for a level that is missing."""
    sizes = dict(zip((1, 2, 3), fallback, strict=True))
    for index in Path(sysfs, f"cpu{cpu}", "cache").glob("index[0-9]*"):
        level, kind, size = (read(index / f) for f in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and int(level) in sizes and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
    return sizes[1], sizes[2], sizes[3]


# This machine as another one: TILEWRIGHT_TARGET names a processor, and code here uses no more than that one has.
#
# It only ever takes features away. Name, caches and cores stay those of this machine: it is what runs. So its key is
# the key of this processor with fewer features, which no measurement of the whole machine has, nor one of the processor
# that was named.


VARIABLE = "TILEWRIGHT_TARGET"


def asked() -> str:
    """What TILEWRIGHT_TARGET names; '' where it is not set, or says 'host'."""
    name = os.environ.get(VARIABLE, "").strip()
    return "" if name == "host" else name


def host() -> Target:
    """What code may use in this process: this machine, or what TILEWRIGHT_TARGET leaves of it. Raises DeviceError
    where it names no processor, or one that has what this machine has not. (The environment is asked each time, so
    helper processes and tests need nothing else.)"""
    name = asked()
    return _lowered(name) if name else machine()


def lowered() -> str:
    """'TILEWRIGHT_TARGET=NAME' where that takes something away from this machine, else ''."""
    return f"{VARIABLE}={asked()}" if host().features != machine().features else ""


def command_prefix(device: str) -> list[str]:
    """What a command line begins with that shall do the same on `device` in another shell: the assignment where that device is lowered."""
    return [lowered()] if device.partition(":")[0] == "cpu" and lowered() else []


@functools.cache
def _lowered(name: str) -> Target:
    here = machine()
    try:
        wanted = entry(name)
    except DeviceError as e:
        raise DeviceError(f"{VARIABLE}: {e}") from e
    if wanted.lang != "llvm":
        raise DeviceError(
            f"{VARIABLE}={name} is not a processor ({wanted.kind}, {wanted.lang}): it lowers what the cpu device may use; name one such as x86-64-v3"
        )
    if wanted.arch != here.arch:
        raise DeviceError(f"{VARIABLE}={name} is {wanted.arch} and this machine is {here.arch}: name a processor of its kind, or unset it")
    missing = sorted(wanted.features - features())
    if missing:
        raise DeviceError(
            f"{VARIABLE}={name} needs {', '.join(missing)}, which this machine ({here.name}) has not: it can only be lowered; name an older processor, or unset it"
        )
    allowed = usable(wanted.features)
    width, registers = vector_shape(here.arch, allowed)
    return replace(here, features=allowed, vector_bytes=width, registers=registers)


def named(name: str) -> Target:
    """The target called `name`; 'host' is this machine, as far as TILEWRIGHT_TARGET lets it be used. Raises DeviceError that
    suggests the nearest name."""
    return host() if name == "host" else entry(name)
