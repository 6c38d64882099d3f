"""Measures what this machine can do at best: FMA peak and memory rates, with one thread and with all, in two to three seconds.

Each figure is the best of short runs, because other work on the machine only ever makes it smaller."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass

from ..ir.dtypes import float32
from ..ir.errors import DeviceError
from ..ir.node import const
from ..lower.program import Param, Signature
from ..targets import Target
from . import probe_ir
from .base import Device
from .limits import Limits, Rates

_MIB = 1 << 20
_SLOT_S = 0.15
"""Seconds spent on each figure."""


@dataclass(frozen=True)
class _Text:
    text: str
    target: Target
    signature: Signature
    sha: str = ""


def measure(device: Device, slot_s: float = _SLOT_S, array_bytes: int | None = None) -> Limits:
    """The limits of the machine under `device`, a device that takes LLVM IR. `array_bytes`: the size of one array (default:
    twice the last-level cache, within 32 to 256 MiB and an eighth of the free memory)."""
    target = device.target
    blocks = (array_bytes or _array_bytes(target)) // probe_ir.BLOCK
    size = blocks * probe_ir.BLOCK
    try:
        memory = mmap.mmap(-1, 3 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, MemoryError) as e:
        raise DeviceError(f"the probe needs {3 * size // _MIB} MiB of memory: {e}; free some and try again") from e
    with contextlib.suppress(OSError):  # a hint; large NumPy arrays ask for the same
        memory.madvise(mmap.MADV_HUGEPAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(base, 1, 3 * size)  # memory never written is one page of zeros that sits in the cache
    rates = {}
    for threads in sorted({1, device.threads}):
        run = _runner(device, target, threads, slot_s)
        peaks = {bits: run("fma", probe_ir.fma(target, bits), [], 16 * threads) for bits in (32, 64)}
        seconds = {kind: run(kind, probe_ir.stream(target, kind), [base + i * size for i in range(probe_ir.arrays(kind))], blocks) for kind in probe_ir.KINDS}
        rates[threads] = Rates(
            peak_f32=16 * threads * probe_ir.fma_flops(target, 32) / peaks[32],
            peak_f64=16 * threads * probe_ir.fma_flops(target, 64) / peaks[64],
            **{kind: probe_ir.arrays(kind) * size / s for kind, s in seconds.items()},
        )
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), rates)


def _runner(device: Device, target: Target, threads: int, slot_s: float) -> Callable[[str, str, list[int], int], float]:
    def best(name: str, text: str, pointers: list[int], items: int) -> float:
        params = tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(pointers)))
        signature = Signature(name, params, (), (const(items),), probe_ir.CHAINS * target.vector_bytes, 0)
        executable = device.load(device.build(_Text(text, target, signature)), signature, threads)
        try:
            executable.run(pointers)
            return min(executable.time([pointers], (), 10_000, slot_s))
        finally:
            executable.close()

    return best


def _array_bytes(target: Target) -> int:
    size = min(max(2 * target.l3, 32 * _MIB), 256 * _MIB)
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        size = min(size, max(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8, _MIB))
    return size // probe_ir.BLOCK * probe_ir.BLOCK
