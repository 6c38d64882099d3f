"""Measures what this machine can do at best: FMA peak, memory rates and cache rates, with one thread and with all, in about five seconds.

Each figure is the best of short runs, because other work on the machine only ever makes it smaller. What all threads
got too little of beside one thread is measured again.

How much of a last-level cache is this machine's is not to be known: a virtual one may report what it shares with
others. So rates are kept by size of the working set, from half of all first caches up, and a set of another size
counts as the next smaller one."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass

from ...ir.dtypes import float32
from ...ir.errors import DeviceError
from ...ir.node import const
from ...program.program import Param, Signature
from ...targets import Target
from ..base import Device
from ..limits import CACHED, PEAKS, Cached, Limits, Rates
from . import probe_ir

_MIB = 1 << 20
_SLOT_S = 0.12
"""Seconds spent on each figure."""
_ALL_S = 5.0
"""About how long all of it takes with such slots."""
_CACHE_SHARE = 0.15
"""Of that, the part for a cache's: a pass is short."""
_CALL_BYTES = 4 * _MIB
"""Bytes that a thread moves in one call at least, so that starting it does not count."""
_AGAIN = 3
"""Most times that all threads are measured again for a figure which one thread does better, or for one of a core's
own that does not grow with the cores."""
_SCALES = 0.9
"""Share of so many single threads that all of them together should reach where they share nothing."""


_Run = Callable[[str, str, list[int], int, float], float]
"""(name, text, pointers, items, share of a slot) → the least seconds of one call."""


@dataclass(frozen=True)
class _Text:
    text: str
    target: Target
    signature: Signature
    sha: str = ""


def slot(seconds: bool | float) -> float:
    """The time for each figure, where all of them take about so many seconds (True: as long as they need)."""
    return _SLOT_S if seconds is True else _SLOT_S * min(1.0, seconds / _ALL_S)


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
    rates: dict[int, Rates] = {}
    spread: dict[str, float] = {}
    for threads in sorted({1, device.threads}):
        rates[threads] = _rates(_runner(device, target, threads, slot_s, spread), target, threads, base, size, rates.get(1))
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), rates, spread).ordered()


def _rates(run: _Run, target: Target, threads: int, base: int, size: int, one: Rates | None) -> Rates:
    """All rates of `threads` threads; `one`: those of one thread, which are measured again where they are better."""

    def figure(name: str) -> float:
        bits = {"peak_f32": 32, "peak_f64": 64}.get(name)
        if bits:
            return 16 * threads * probe_ir.fma_flops(target, bits) / run("fma", probe_ir.fma(target, bits), [], 16 * threads, 1.0)
        count = probe_ir.arrays(name)
        # one array alone might stay in part in a last-level cache: reading goes through all three
        pointers, length = ([base], 3 * size) if count == 1 else ([base + i * size for i in range(count)], size)
        return count * length / run(name, probe_ir.stream(target, name), pointers, length // probe_ir.BLOCK, 1.0)

    found = {name: figure(name) for name in ("peak_f32", "peak_f64", *probe_ir.KINDS)}
    for _ in range(_AGAIN):
        for name in [
            f for f in found if one is not None and found[f] < getattr(one, f) * (_SCALES * threads if f.startswith("peak") else 1.0)
        ]:
            found[name] = max(found[name], figure(name))
    caches = [_cached(run, target, threads, base, at) for at in cache_sizes(target, threads) if at <= size]
    for _ in range(_AGAIN):
        for i, (c, alone) in enumerate(zip(caches, one.caches if one is not None else (), strict=False)):
            share = _SCALES * threads if alone.size <= 2 * target.l1 else 1.0
            if c.read < share * alone.read or c.mixed < share * alone.mixed:
                again = _cached(run, target, threads, base, c.size)
                caches[i] = Cached(c.size, max(c.read, again.read), max(c.mixed, again.mixed))
    return Rates(**found, caches=tuple(caches))


def cache_sizes(target: Target, threads: int) -> list[int]:
    """Working sets in bytes, of all threads together: in the first caches, the second, and from twice the second on
    eight times each, up to what is memory."""
    l1, l2 = max(target.l1, 16 << 10), max(target.l2, 4 * target.l1, 64 << 10)
    sizes = [threads * l1 // 2, threads * 2 * l1, threads * 2 * l2]
    while sizes[-1] * 8 < 2 * target.l3:
        sizes.append(8 * sizes[-1])
    return [n for n in sizes if n < max(2 * target.l3, sizes[0] + 1)]


def _cached(run: _Run, target: Target, threads: int, base: int, size: int) -> Cached:
    """The rates over a set of `size` bytes. Each thread goes over its own part again and again."""

    def rate(kind: str) -> float:
        count = probe_ir.arrays(kind)
        block = max(size // (threads * count) // probe_ir.STEP, 1) * probe_ir.STEP
        passes = max(1, _CALL_BYTES // (block * count))
        # a page between the arrays, so that equal places in them are not in one set of the cache
        pointers = [base + i * (block * threads + 4096 + 256) // 64 * 64 for i in range(count)]
        return threads * count * block * passes / run(kind, probe_ir.stream(target, kind, block, passes), pointers, threads, _CACHE_SHARE)

    return Cached(size, rate("read"), max(rate("copy"), rate("triad")))


def _runner(device: Device, target: Target, threads: int, slot_s: float, spread: dict[str, float]) -> _Run:
    """What times a kernel on so many threads, and notes in `spread` how far its runs lie apart (`Limits.spread`)."""

    def best(name: str, text: str, pointers: list[int], items: int, share: float) -> float:
        params = tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(pointers)))
        signature = Signature(name, params, (), (const(items),), probe_ir.CHAINS * target.vector_bytes, 0)
        executable = device.load(device.build(_Text(text, target, signature)), signature, threads)
        try:
            executable.run(pointers)
            times = sorted(executable.time([pointers], (), 10_000, share * slot_s))
            for figure in PEAKS if name == "fma" else (name if share == 1.0 else CACHED,):
                apart = times[len(times) // 2] / times[0] - 1.0
                spread[figure] = round(apart if share == 1.0 else max(apart, spread.get(figure, 0.0)), 4)
            return times[0]
        finally:
            executable.close()

    return best


def _array_bytes(target: Target) -> int:
    size = min(max(2 * target.l3, 32 * _MIB), 256 * _MIB)
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        size = min(size, max(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8, _MIB))
    return size // probe_ir.BLOCK * probe_ir.BLOCK
