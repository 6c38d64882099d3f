"""The embedded device: LLVM IR compiled in process by llvmlite, run by a native thread pool."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import functools
import itertools
import mmap
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...ir.dtypes import float32
from ...ir.errors import BuildError, DeviceError
from ...ir.node import const
from ...program.program import Param, Signature
from ...targets import Target, host, lowered
from .. import limits as limits_file
from ..base import Device, Executable, SourceLike, sealed, unsealed
from ..limits import CACHED, PEAKS, Cached, Limits, Rates

# probe ----------------------------------------------------------------------------------------------------------------
#
# Measures what this machine can do at best: FMA peak, memory rates and cache rates, with one thread and with all, in
# about five seconds.
#
# Each figure is the best of short runs, because other work on the machine only ever makes it smaller. What all
# threads got too little of beside one thread is measured again. Large sets are gone through in short calls, and the
# lower quartile of these counts: hardly any call of 50 ms goes undisturbed on a machine that does other work.
#
# How much of a last-level cache is this machine's is not to be known: a virtual one may report what it shares with
# others. So rates are kept by size of the working set, from half of all first caches up, and a set of another size
# counts as the next smaller one.


# Probe kernels as LLVM IR text: floating-point peak (FMA, or multiplication and addition where there is none) and
# memory rates. They follow the kernel ABI, an item being a block.
#
# The memory patterns are those of McCalpin's STREAM: copy b = a, triad c = a + s·b; `read` sums one array.


BLOCK = 64 << 10
"""Bytes of each array that one item covers."""
FMA_STEPS = 8192
"""Steps of the FMA loop in one item."""
CHAINS = 12
"""Independent accumulators: enough for a latency of 5 on two pipes, and they fit 16 registers."""
_UNROLL = 8
"""Vectors a step: sums of that many chains take two loads a cycle, which first caches give."""
STEP = _UNROLL * 64
"""Bytes of which an item's block is a multiple, for vectors of any target."""
KINDS = ("read", "copy", "copy_nt", "triad", "triad_nt")


def fma_flops(target: Target, bits: int) -> int:
    """Floating-point operations of one item of the FMA kernel."""
    return 2 * CHAINS * FMA_STEPS * (target.vector_bytes * 8 // bits)


def arrays(kind: str) -> int:
    """How many arrays a memory kernel touches."""
    return {"read": 1, "copy": 2, "triad": 3}[kind.removesuffix("_nt")]


def fma(target: Target, bits: int) -> str:
    """`fma_p0`: every step multiplies and adds in CHAINS registers."""
    scalar = "float" if bits == 32 else "double"
    lanes = target.vector_bytes * 8 // bits
    vector, name = f"<{lanes} x {scalar}>", f"llvm.fma.v{lanes}f{bits}"
    factor, summand = (f"<{', '.join([f'{scalar} {v}'] * lanes)}>" for v in ("5.000000e-01", "1.000000e+00"))
    phis = [f"  %a{i} = phi {vector} [ zeroinitializer, %item ], [ %b{i}, %step ]" for i in range(CHAINS)]
    steps = [line for i in range(CHAINS) for line in _fma(target, f"%b{i}", vector, name, f"%a{i}", factor, summand)]
    stores = []
    for i in range(CHAINS):
        stores += [
            f"  %p{i} = getelementptr {vector}, ptr %scratch, i64 {i}",
            f"  store {vector} %b{i}, ptr %p{i}, align {target.vector_bytes}",
        ]
    return "\n".join(
        [
            f"declare {vector} @{name}({vector}, {vector}, {vector})",
            "define void @fma_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {",
            "entry:\n  br label %item",
            "item:\n  %i = phi i64 [ %lo, %entry ], [ %i1, %next ]\n  br label %step",
            f"step:\n  %k = phi i64 [ 0, %item ], [ %k1, %step ]\n{chr(10).join(phis)}",
            *steps,
            f"  %k1 = add i64 %k, 1\n  %more = icmp slt i64 %k1, {FMA_STEPS}\n  br i1 %more, label %step, label %next",
            "next:",
            *stores,
            "  %i1 = add i64 %i, 1\n  %again = icmp slt i64 %i1, %hi\n  br i1 %again, label %item, label %out",
            "out:\n  ret void\n}",
            'attributes #0 = { nounwind "prefer-vector-width"="512" }',
        ]
    )


def _fma(target: Target, to: str, vector: str, name: str, a: str, b: str, c: str) -> list[str]:
    """Lines that make `to` = a·b + c with the instructions that `target` has."""
    if "fma" in target.features:
        return [f"  {to} = call {vector} @{name}({vector} {a}, {vector} {b}, {vector} {c})"]
    return [f"  {to}.ab = fmul {vector} {a}, {b}", f"  {to} = fadd {vector} {to}.ab, {c}"]


def stream(target: Target, kind: str, block: int = BLOCK, passes: int = 1) -> str:
    """`KIND_p0`: `passes` over blocks [lo, hi), of `block` bytes (a multiple of STEP), of the arrays in `bufs` (vector aligned)."""
    width, lanes = target.vector_bytes, target.vector_bytes // 4
    vector, fma_name = f"<{lanes} x float>", f"llvm.fma.v{lanes}f32"
    scale = f"<{', '.join(['float 5.000000e-01'] * lanes)}>"
    hint = ", !nontemporal !0" if kind.endswith("_nt") else ""
    fence = "  call void @llvm.x86.sse.sfence()" if hint and target.arch == "x86_64" else ""
    count = arrays(kind)
    lines = [
        f"declare {vector} @{fma_name}({vector}, {vector}, {vector})",
        "declare void @llvm.x86.sse.sfence()" if fence else "",
        f"define void @{kind}_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {{",
        "entry:",
    ]
    for b in range(count):
        lines += [f"  %q{b} = getelementptr ptr, ptr %bufs, i64 {b}", f"  %b{b} = load ptr, ptr %q{b}"]
    lines += [f"  %start = mul i64 %lo, {block}", f"  %end = mul i64 %hi, {block}", "  br label %pass", "pass:"]
    lines += ["  %n = phi i64 [ 0, %entry ], [ %n1, %next ]"]
    if kind == "read":
        lines += [f"  %r{u} = phi {vector} [ zeroinitializer, %entry ], [ %t{u}, %next ]" for u in range(_UNROLL)]
    lines += ["  br label %loop", "loop:", f"  %at = phi i64 [ %start, %pass ], [ %at{_UNROLL}, %loop ]"]
    if kind == "read":
        lines += [f"  %s{u} = phi {vector} [ %r{u}, %pass ], [ %t{u}, %loop ]" for u in range(_UNROLL)]
    for u in range(_UNROLL):
        here = "%at" if u == 0 else f"%at{u}"
        lines += [f"  %p{b}_{u} = getelementptr i8, ptr %b{b}, i64 {here}" for b in range(count)]
        lines += [f"  %x{b}_{u} = load {vector}, ptr %p{b}_{u}, align {width}" for b in range(max(1, count - 1))]
        if kind == "read":
            lines += [f"  %t{u} = fadd {vector} %s{u}, %x0_{u}"]
        else:
            value = f"%x0_{u}"
            if count == 3:
                value = f"%y{u}"
                lines += _fma(target, value, vector, fma_name, f"%x1_{u}", scale, f"%x0_{u}")
            lines += [f"  store {vector} {value}, ptr %p{count - 1}_{u}, align {width}{hint}"]
        lines += [f"  %at{u + 1} = add i64 {here}, {width}"]
    lines += [f"  %more = icmp slt i64 %at{_UNROLL}, %end", "  br i1 %more, label %loop, label %next", "next:", "  %n1 = add i64 %n, 1"]
    lines += [f"  %again = icmp slt i64 %n1, {passes}", "  br i1 %again, label %pass, label %out", "out:", fence]
    if kind == "read":
        for u in range(_UNROLL):
            lines += [f"  %o{u} = getelementptr {vector}, ptr %scratch, i64 {u}", f"  store {vector} %t{u}, ptr %o{u}, align {width}"]
    lines += ["  ret void", "}", 'attributes #0 = { nounwind "prefer-vector-width"="512" }', "!0 = !{i32 1}"]
    return "\n".join(line for line in lines if line)


_MIB = 1 << 20
_SLOT_S = 0.12
"""Seconds spent on each figure."""
_ALL_S = 5.0
"""About how long all of it takes with such slots."""
_CACHE_SHARE = 0.15
"""Of that, the part for a cache's: a pass is short."""
_CALL_BYTES = 4 * _MIB
"""Bytes that a thread moves in one call at least, so that starting it does not count."""
_PIECE_BYTES = 8 * _MIB
"""Bytes that a thread moves in one call of a large set: half a millisecond."""
_AGAIN = 3
"""Most times that all threads are measured again for a figure which one thread does better, or for one of a core's
own that does not grow with the cores."""
_SCALES = 0.9
"""Share of so many single threads that all of them together should reach where they share nothing."""


_Run = Callable[[str, str, list[list[int]], int, float], float]
"""(name, text, pointers of calls that follow each other, items, share of a slot) → the seconds of one call of each, together, undisturbed."""


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
    blocks = (array_bytes or _array_bytes(target)) // BLOCK
    size = blocks * BLOCK
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
            return 16 * threads * fma_flops(target, bits) / run("fma", fma(target, bits), [[]], 16 * threads, 1.0)
        count = arrays(name)
        # one array alone might stay in part in a last-level cache: reading goes through all three
        pointers, length = ([base], 3 * size) if count == 1 else ([base + i * size for i in range(count)], size)
        piece = max(min(length, threads * _PIECE_BYTES // count) // BLOCK, 1) * BLOCK
        pieces = [[p + at for p in pointers] for at in range(0, length - piece + 1, piece)]
        return count * piece * len(pieces) / run(name, stream(target, name), pieces, piece // BLOCK, 1.0)

    found = {name: figure(name) for name in ("peak_f32", "peak_f64", *KINDS)}
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
        count = arrays(kind)
        whole = max(size // (threads * count) // STEP, 1) * STEP
        block = min(whole, _PIECE_BYTES // count // STEP * STEP)
        passes = max(1, _CALL_BYTES // (block * count))
        # a page between the arrays, so that equal places in them are not in one set of the cache
        pointers = [base + i * (whole * threads + 4096 + 256) // 64 * 64 for i in range(count)]
        pieces = [[p + at for p in pointers] for at in range(0, threads * (whole - block) + 1, threads * block)]
        text = stream(target, kind, block, passes)
        return threads * count * block * passes * len(pieces) / run(kind, text, pieces, threads, _CACHE_SHARE)

    return Cached(size, rate("read"), max(rate("copy"), rate("triad")))


def _runner(device: Device, target: Target, threads: int, slot_s: float, spread: dict[str, float]) -> _Run:
    """What times a kernel on so many threads, and notes in `spread` how far its runs lie apart (`Limits.spread`)."""

    def best(name: str, text: str, pieces: list[list[int]], items: int, share: float) -> float:
        params = tuple(Param(f"b{i}", float32, (1,), "inout") for i in range(len(pieces[0])))
        signature = Signature(name, params, (), (const(items),), CHAINS * target.vector_bytes, 0)
        executable = device.load(device.build(_Text(text, target, signature)), signature, threads)
        try:
            executable.run(pieces[0])
            times = sorted(executable.time(pieces, (), 10_000, share * slot_s))
            for figure in PEAKS if name == "fma" else (name if share == 1.0 else CACHED,):
                apart = times[len(times) // 2] / times[0] - 1.0
                spread[figure] = round(apart if share == 1.0 else max(apart, spread.get(figure, 0.0)), 4)
            return len(pieces) * times[len(times) // 4 if len(pieces) > 1 else 0]
        finally:
            executable.close()

    return best


def _array_bytes(target: Target) -> int:
    size = min(max(2 * target.l3, 32 * _MIB), 256 * _MIB)
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        size = min(size, max(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8, _MIB))
    return size // BLOCK * BLOCK


# device ---------------------------------------------------------------------------------------------------------------


class CpuDevice(Device):
    """This machine's processor. An object is a line of JSON (what it was built for, and a checksum) and an ELF file, or several (and how long
    each is) where a kernel has phases."""

    name = "cpu"
    isolation = "fork"
    lang = "llvm"
    """The language it builds."""

    _target: Target | None = None

    def __init__(self, target: Target | None = None) -> None:
        """`target`: what its code may use, where that is not what TILEWRIGHT_TARGET leaves of this machine."""
        if target is not None:
            self._target = target

    @property
    def target(self) -> Target:
        return self._target or host()

    @property
    def threads(self) -> int:
        from ...targets import usable_cores

        return usable_cores()

    def compiler_id(self) -> str:
        import llvmlite  # its release fixes the LLVM version; asking LLVM itself would load 170 MB

        return f"llvmlite-{llvmlite.__version__}"

    def fingerprint(self) -> dict[str, Any]:
        return {
            **self._identity(),
            **({"lowered": lowered()} if lowered() else {}),
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
            "python": platform.python_version(),
            "compiler": self.compiler_id(),
            "llvm": _llvm_version(),
            "threads": self.threads,
        }

    def _identity(self) -> dict[str, Any]:
        """What the limits depend on: the same on every start of one machine."""
        t = self.target
        return {"device": "cpu", "cpu": _cpu_name(), "target": t.key, "cores": self.threads, "l1": t.l1, "l2": t.l2, "l3": t.l3}

    def check(self) -> None:
        if not sys.platform.startswith("linux"):
            raise DeviceError(
                f"running and measuring kernels works on Linux; here ({sys.platform}) only showing and rendering do. Use Linux, WSL 2 or a container"
            )
        from .pool import SUPPORTED

        if self.target.arch not in SUPPORTED:
            raise DeviceError(f"the cpu device runs on {' and '.join(SUPPORTED)}, not on {self.target.arch}")

    def check_threads(self, threads: int) -> None:
        if not 1 <= threads <= _max_threads():
            raise DeviceError(f"{threads} threads: use 1 to {_max_threads()} (this process may use {self.threads} cores)")

    def build(self, source: SourceLike) -> bytes:
        target = source.target
        if target.lang != self.lang:
            raise BuildError(
                f"the {self.name} device builds {self.target.language.title}, not {target.lang}: render for a {self.lang!r} target such as {self.target.name}"
            )
        objects = self._compile(source)
        code = b"".join(objects)
        head: dict[str, Any] = {"arch": target.arch, "features": sorted(target.features), "target": target.name}
        if len(objects) > 1:
            head["sizes"] = [len(o) for o in objects]
        return sealed("cpu object", head, code)

    def _compile(self, source: SourceLike) -> tuple[bytes, ...]:
        """The ELF objects of source text. Raises BuildError."""
        from .engine import compile_parts

        return compile_parts(source.text, source.target, native=source.target.arch == self.target.arch)

    def _symbols(self, signature: Signature) -> tuple[str, ...]:
        """The function of each phase in an object."""
        return tuple(signature.entry(i) for i in range(len(signature.items)))

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        self.check()
        self.check_threads(threads)
        head, objects = _open(obj)
        here = self.target
        missing = sorted(set(head["features"]) - here.features)
        if head["arch"] != here.arch or missing:
            raise DeviceError(
                f"this code was built for {head['target']} and cannot run on this machine ({here.name}), {_lack(head['arch'], missing, here)}; build it for target 'host'"
            )
        from .engine import Code
        from .executable import CpuExecutable

        symbols = self._symbols(signature)
        return CpuExecutable(Code(objects, symbols), symbols, signature, threads)

    def before_fork(self) -> None:
        from .pool import pool

        pool()

    def limits(self, probe: bool | float = False) -> Limits | None:
        if not probe:
            kept = limits_file.read(limits_file.path(self._identity()))
            # a file from before caches were measured: the next search probes, and keeps what is better in it
            return kept if kept is None or all(r.caches for r in kept.rates.values()) else None

        self.check()
        return limits_file.keep(self._identity(), measure(self, slot(probe)))


def _lack(arch: str, missing: list[str], here: Target) -> str:
    """Why code that needs `arch` and the features `missing` cannot run."""
    from ...targets import lowered, machine

    if arch != here.arch:
        return f"which is {here.arch}"
    if lowered() and machine().features.issuperset(missing):
        return f"which {lowered()} lowers: it may not use {', '.join(missing)}"
    return f"which lacks {', '.join(missing)}"


def _open(obj: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    head, code = unsealed("cpu object", "the cpu device", obj)
    sizes = head.get("sizes", [len(code)])
    if not isinstance(sizes, list) or not all(isinstance(n, int) and n > 0 for n in sizes) or sum(sizes) != len(code):
        raise BuildError("not a whole object of the cpu device (damaged, or of another version): build it again")
    ends = list(itertools.accumulate(sizes))
    return head, tuple(code[a:b] for a, b in zip((0, *ends), ends))


def _max_threads() -> int:
    from .pool import MAX_THREADS

    return min(MAX_THREADS - 1, max(os.cpu_count() or 1, 1))


@functools.cache
def _llvm_version() -> str:
    import llvmlite.binding as llvm

    return ".".join(str(n) for n in llvm.llvm_version_info)


@functools.cache
def _cpu_name() -> str:
    """The processor's marketing name."""
    if sys.platform.startswith("linux"):
        # a sandbox may hide the file: the name is only shown
        with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
            for line in f:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model", "Hardware"):
                    return value.strip()
    return platform.processor() or platform.machine()
