"""CUDA kernels and device memory through a driver: launches, timing by events, and the comparison of results on the GPU.

Timing stands events between calls that are queued while the GPU waits, so that no gap between launches counts."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ...ir.dtypes import DType
from ...ir.errors import DeviceError, UsageError
from ...program import abi
from ...program.hopper import MapNumbers, numbers
from ...program.program import Signature
from ..base import FREE, SIGNED, SPECIAL, Comparison, Executable, Found, Memory, Packed
from .libcuda import encode
from .session import CudaSession

_BATCH = 64
"""Calls, at most, that are queued before anybody waits."""
_DEPTH = 256
"""Launches and events, at most, that are queued while the GPU is held: a driver takes about a thousand before a launch waits for the GPU,
and that would wait for us."""
_BATCH_S = 0.02
_SHORT_S = 50e-6
"""Calls shorter than this are timed several at once: an event costs the GPU about a microsecond."""
_TRIES = 3

Queue = Callable[[Sequence[int]], None]
"""Gives the GPU one call with these pointers to do."""


def timed(
    s: CudaSession, queue: Queue, launches: int, sets: Sequence[Sequence[int]], repeats: int, limit_s: float = float("inf")
) -> list[float]:
    """As `Executable.time`, for whatever `queue(pointers)` gives the GPU to do in so many launches; call it with the lock held.

    The GPU's events stand between calls that are queued while it waits, so that what is measured is the time from the
    start of one call to the start of the next. Calls of less than 50 µs are timed in groups: each is given the group's
    mean. `s.clocks` says afterwards how fast the GPU ran."""
    if not sets or repeats < 1:
        raise UsageError("timing needs at least one set of pointers and one repeat")
    out: list[float] = []
    s.use()
    s.wake()
    begin = time.monotonic()
    while len(out) < repeats and (not out or time.monotonic() - begin < limit_s):
        # one call tells how long they take
        typical = max(min(out), 1e-7) if out else _BATCH_S
        group = min(_BATCH, round(_SHORT_S / typical)) if typical < _SHORT_S else 1
        left = min(limit_s - (time.monotonic() - begin), _BATCH_S) if out else _BATCH_S
        most = min(repeats - len(out), _BATCH, max(1, _DEPTH // (launches + 1)))
        count = max(1, min(most, int(max(left, 0.0) / typical)))
        out += _batch(s, queue, launches, sets, len(out), count, group)
    s.hold_clock()
    return out


def _batch(s: CudaSession, queue: Queue, launches: int, sets: Sequence[Sequence[int]], first: int, count: int, group: int) -> list[float]:
    """Seconds of `count` calls, the first one being number `first`. A batch whose hold ran out before all was queued (this program
    stood still) is made again."""
    driver = s.use()
    sizes = [min(group, count - i) for i in range(0, count, group)]
    events = [driver.event() for _ in range(len(sizes) + 1)]
    hold = s.queues and count * (launches + 1) <= _DEPTH
    for _ in range(_TRIES):
        with s.held() if hold else nullcontext():
            driver.record(events[0])
            at = first
            for size, event in zip(sizes, events[1:], strict=True):
                for _ in range(size):
                    queue(sets[at % len(sets)])
                    at += 1
                driver.record(event)
        s.sample()
        s.wait()
        if not hold or s.complete():
            break
    return [driver.seconds(a, b) / size for size, a, b in zip(sizes, events[:-1], events[1:], strict=True) for _ in range(size)]


# Results compared where they are: a CUDA kernel that finds the largest error, its place, and how many elements are
# wrong.
#
# The rules are those of `devices.base.Comparison`, in float64 with one rounding an operation, so that the host's
# comparison gives the same bits. Each thread goes through every so-many-th element in ascending order and keeps the
# first of the largest errors; the threads of a group agree on the smallest place, and the host on that of all groups.


THREADS = 256
_EACH = 16
"""Groups that a multiprocessor is given."""
_RESULT = struct.Struct("dqqq")
"""What a group writes: largest error, its place, wrong elements, untouched ones."""
_STORED = {
    "float64": "double", "float32": "float", "float16": "unsigned short", "bfloat16": "unsigned short", "int64": "long long", "int32": "int",
    "int16": "short", "int8": "signed char", "uint64": "unsigned long long", "uint32": "unsigned", "uint16": "unsigned short", "uint8": "unsigned char",
    "bool": "unsigned char",
}  # fmt: skip
_WIDEN = {
    "float64": "return x;",
    "float32": "return (double)x;",
    "bfloat16": "return (double)__uint_as_float((unsigned)x << 16);",
    # a subnormal half is a whole number of 2^-24; else the exponent's bias is 15 here and 1023 there
    "float16": """const long long e = x >> 10 & 31, m = x & 1023, sign = (long long)(x >> 15 & 1);
    double v = __longlong_as_double((e == 31 ? 2047ll : e + 1008) << 52 | m << 42);
    if (!e) v = (double)m * 5.9604644775390625e-08;
    return sign ? -v : v;""",
}
_FLOAT = """    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double wide = widened(got);
    const bool infinite = fabs(wide) == infinity;
    if (infinite && fabs(value) < infinity) wide = wide < 0.0 ? -{overflow} : {overflow};
    double error = fabs(wide - value) * (double)weight;
    if (!(error <= {most})) error = {most};
    const bool same = (wide != wide && value != value) || (infinite && value == value && wide < 0.0 == sign(value));
    if (flags & {special} && same) error = 0.0;
    if (flags & {signed} && wide == 0.0 && sign(wide) != sign(value)) error = {most};"""
_EQUAL = "    double error = {} ? 0.0 : 2.0;"
_WEIGHED = "    double error = fabs((double){0}got - (double){0}value) * (double)weight;"
_KERNEL = """static __device__ bool sign(double x) {{ return __double_as_longlong(x) < 0; }}
static __device__ double widened({stored} x) {{
    {widen}
}}
static __device__ double error_of({stored} got, {wanted} value, float weight, unsigned flags) {{
{rule}
    return flags & {free} ? 0.0 : error;
}}
struct Best {{ double worst; long long at, bad, untouched; }};
static __device__ bool better(const Best& a, const Best& b) {{ return a.worst > b.worst || (a.worst == b.worst && a.at >= 0 && (b.at < 0 || a.at < b.at)); }}
extern "C" __global__ void __launch_bounds__({threads}) {name}(const {stored}* got, const {wanted}* value, const float* weight,
                                                       const unsigned char* flags, Best* out, long long count) {{
    __shared__ Best all[{threads}];
    Best mine = {{0.0, -1, 0, 0}};
    for (long long i = blockIdx.x * {threads}ll + threadIdx.x; i < count; i += gridDim.x * {threads}ll) {{
        const {stored} x = got[i];
        const double error = error_of(x, value[i], weight ? weight[i] : 1.0f, flags ? flags[i] : 0u);
        if (error > mine.worst) mine.worst = error, mine.at = i;
        if (error > 1.0) mine.bad++, mine.untouched += {untouched};
    }}
    all[threadIdx.x] = mine;
    for (unsigned half = {threads} / 2; half; half /= 2) {{
        __syncthreads();
        if (threadIdx.x < half) {{
            Best& a = all[threadIdx.x];
            const Best& b = all[threadIdx.x + half];
            if (better(b, a)) a.worst = b.worst, a.at = b.at;
            a.bad += b.bad, a.untouched += b.untouched;
        }}
    }}
    if (!threadIdx.x) out[blockIdx.x] = all[0];
}}
"""


def name(of: DType, weighed: bool) -> str:
    """The kernel that compares elements of a type, integers with weights or without."""
    return f"compare_{of.name}{'_weighed' if weighed and not of.is_float else ''}"


def text(c: Comparison) -> str:
    """The kernel's text. Raises DeviceError for an element type that has none."""
    of, stored = c.dtype, _STORED.get(c.dtype.name)
    if stored is None or (of.is_float and not c.weight):
        raise DeviceError(f"{of.name} is not compared on the GPU")
    if of.is_float:
        rule = _FLOAT.format(overflow=repr(float(c.overflow)), most=repr(float(c.most)), special=SPECIAL, signed=SIGNED)
    elif c.weight:
        rule = _WEIGHED.format("!!" if of.kind == "b" else "")
    else:
        rule = _EQUAL.format("!got == !value" if of.kind == "b" else "got == value")
    ones = {"float64": "__double_as_longlong(x) == -1", "float32": "__float_as_int(x) == -1"}.get(of.name, "x == 0xffff")
    return _KERNEL.format(
        stored=stored,
        wanted="double" if of.is_float else stored,
        widen=_WIDEN[of.name] if of.is_float else "return (double)x;",
        rule=rule,
        free=FREE,
        threads=THREADS,
        name=name(of, bool(c.weight)),
        untouched=f"({ones})" if of.is_float else "0",
    )


def groups(count: int, cores: int) -> int:
    """Groups of a comparison of so many elements."""
    return max(1, min(-(-count // THREADS), cores * _EACH))


def finished(raw: bytes) -> Found:
    """What all groups found."""
    worst, at, bad, untouched = 0.0, -1, 0, 0
    for w, i, b, u in _RESULT.iter_unpack(raw):
        if w > worst or (w == worst and 0 <= i < at):
            worst, at = w, i
        bad, untouched = bad + b, untouched + u
    return Found(worst, at, bad, untouched)


class Comparing:
    """The comparison kernels of a session, each built when it is first needed."""

    def __init__(self, s: CudaSession) -> None:
        self._s = s
        self._kernels: dict[Comparison, Any] = {}
        self._room = 0

    def compare(self, c: Comparison) -> Found:
        """As `Memory.compare`. Call it with the session's lock held."""
        driver = self._s.use()
        kind = Comparison(c.dtype, 0, 0, 0, int(bool(c.weight)), 0, c.overflow, c.most)
        if kind not in self._kernels:
            self._kernels[kind] = self._s.kernel(text(kind), name(c.dtype, bool(c.weight)))
        count = groups(c.count, self._s.target.cores)
        if not self._room:
            self._room = driver.alloc(_RESULT.size * self._s.target.cores * _EACH)
        driver.bind(self._kernels[kind], count, THREADS, 0, (c.result, c.value, c.weight, c.flags, self._room, c.count))()
        raw = ctypes.create_string_buffer(_RESULT.size * count)
        driver.download(ctypes.addressof(raw), self._room, len(raw))
        return finished(raw.raw)


_KEPT = 256
"""Sets of pointers, at most, whose launches are kept ready."""


class CudaMemory(Memory):
    """Device memory; a handle is its address. The driver aligns to 256 bytes."""

    compares = True

    def __init__(self, s: CudaSession) -> None:
        self._s, self._comparing = s, Comparing(s)

    def prepare(self) -> None:
        with self._s.lock:
            self._s.prepare()

    def alloc(self, nbytes: int) -> int:
        with self._s.lock:
            return self._s.alloc(max(1, nbytes))

    def free(self, handle: int) -> None:
        with self._s.lock:
            if not self._s.driver.lost:  # else the driver has freed everything
                self._s.use().free(handle)

    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            with self._s.lock:
                self._s.use().upload(handle + offset, address, nbytes)

    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            with self._s.lock:
                self._s.use().download(address, handle + offset, nbytes)

    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            with self._s.lock:
                driver = self._s.use()
                driver.fill(handle + offset, byte, nbytes)
                driver.wait()

    def sound(self) -> bool:
        return not self._s.driver.lost

    def copy(self, to: int, source: int, nbytes: int) -> None:
        if nbytes:
            with self._s.lock:
                driver = self._s.use()
                driver.copy(to, source, nbytes)
                driver.wait()

    def compare(self, c: Comparison) -> Found:
        with self._s.lock:
            return self._comparing.compare(c)


class CudaExecutable(Executable):
    """A loaded module. Pointers are device addresses."""

    def __init__(self, s: CudaSession, cubin: bytes, signature: Signature) -> None:
        """Raises BuildError where the device cannot launch it, DeviceError where the driver does not take the code."""
        self._s, self.signature, self.threads = s, signature, 1
        self._shared = [abi.dynamic_shared(signature, s.target, i) for i in range(len(signature.items))]
        self._arguments = abi.arguments(signature, s.target)
        self._own: dict[str, tuple[int, int]] = {}
        self._plans: dict[tuple[int, ...], Callable[[Sequence[int]], None]] = {}
        with s.lock:
            driver = s.use()
            self._module: Any = driver.load(cubin)
            self._functions = [driver.function(self._module, abi.entry(signature, i)) for i in range(len(signature.items))]
            for f, shared in zip(self._functions, self._shared, strict=True):
                if shared:
                    driver.allow_shared(f, shared)
            if signature.work:
                self._own["work"] = (s.alloc(signature.work), signature.work)

    def _plan(self, vars: Sequence[int]) -> Callable[[Sequence[int]], None]:
        """What queues one call with these values of the symbols. Arguments are packed when a set of pointers comes for the
        first time. Call it with the lock held."""
        sig, driver = self.signature, self._s.use()
        if self._module is None:
            raise UsageError(f"{sig.name} has been closed")
        if len(vars) != len(sig.symbols):
            raise UsageError(
                f"{sig.name} needs a value for each of its symbols ({', '.join(sig.symbols) or 'none'}), not {len(vars)} values"
            )
        need = abi.arena_bytes(sig, self._s.target, vars)
        if need > self._own.get("arena", (0, 0))[1]:
            if "arena" in self._own:
                driver.free(self._own.pop("arena")[0])
            self._own["arena"] = (self._s.alloc(need), need)
            self._plans.clear()
        if (known := self._plans.get(tuple(vars))) is not None:
            return known
        own = {kind: address for kind, (address, _) in self._own.items()}
        phases = [p for p in zip(self._functions, abi.grids(sig, vars), sig.threads, self._shared, strict=True) if p[1]]
        arguments, bind = self._arguments, driver.bind
        symbols = dict(zip(sig.symbols, vars, strict=True))
        maps = [numbers(m, sig.params[m.param].name, symbols) for m in sig.maps]
        ready: dict[tuple[int, ...], list[Callable[[], None]]] = {}

        def queue(pointers: Sequence[int]) -> None:
            key = tuple(pointers)
            starts = ready.get(key)
            if starts is None:
                words = [_word(a, key, vars, own, maps) for a in arguments]
                starts = [bind(function, groups, threads, shared, words) for function, groups, threads, shared in phases]
                if len(ready) >= _KEPT:
                    ready.clear()
                ready[key] = starts
            for start in starts:
                start()

        if len(self._plans) >= _KEPT:
            self._plans.clear()
        self._plans[tuple(vars)] = queue
        return queue

    def _check(self, pointers: Sequence[int]) -> None:
        sig = self.signature
        if len(pointers) != len(sig.params):
            raise UsageError(f"{sig.name} takes {len(sig.params)} buffers, not {len(pointers)}")
        for p, pointer in zip(sig.params, pointers, strict=True):
            if pointer % max(sig.align, p.dtype.size):
                raise UsageError(
                    f"{sig.name}: the address of {p.name} must be a multiple of {max(sig.align, p.dtype.size)}; copy it into a new buffer"
                )

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self._check(pointers)
        with self._s.lock:
            self._plan(vars)(pointers)
            self._s.wait()

    def queue(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        if packed is not None:
            return super().queue(vars, packed)
        planned: list[Any] = [None, None]

        def call(*pointers: int) -> None:
            with self._s.lock:
                self._s.use()
                if self._module is None:
                    raise UsageError(f"{self.signature.name} has been closed")
                # a call with larger extents may have moved the arena
                if planned[0] is None or planned[1] != self._own:
                    planned[0] = self._plan(vars)
                    planned[1] = dict(self._own)
                planned[0](pointers)

        return call

    def wait(self) -> None:
        with self._s.lock:
            self._s.use()
            self._s.wait()

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        for pointers in pointer_sets:
            self._check(pointers)
        with self._s.lock:
            return timed(self._s, self._plan(vars), len(self._functions), pointer_sets, repeats, limit_s)

    def clocks(self) -> dict[str, Any]:
        return dict(self._s.clocks)

    def poison(self) -> None:
        with self._s.lock:
            driver = self._s.use()
            for address, size in self._own.values():
                driver.fill(address, 0xFF, size)
            driver.wait()

    def close(self) -> None:
        with self._s.lock:
            if self._module is None:
                return
            module, self._module, self._functions = self._module, None, []
            self._plans.clear()
            if not self._s.driver.lost:
                driver = self._s.use()
                for address, _ in self._own.values():
                    driver.free(address)
                driver.unload(module)
            self._own.clear()


def _word(a: abi.Argument, pointers: Sequence[int], vars: Sequence[int], own: Mapping[str, int], maps: Sequence[MapNumbers]) -> int | bytes:
    """One argument's value: an address, a symbol's value, or a tensor map's bytes."""
    if a.kind == "map":
        return encode(maps[a.at], pointers[maps[a.at].map.param])
    return pointers[a.at] if a.kind == "param" else vars[a.at] if a.kind == "symbol" else own[a.kind]
