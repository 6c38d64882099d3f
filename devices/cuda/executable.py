"""CUDA kernels and device memory through a driver: launches, timing by events, and the comparison of results on the GPU.

Timing stands events between calls that are queued while the GPU waits, so that no gap between launches counts."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ...ir.errors import BuildError, DeviceError, UsageError
from ...program import abi
from ...program.hopper import MapNumbers, numbers
from ...program.program import Signature
from ...renderers import render
from ..base import Comparison, DeviceArrays, Executable, Memory, Packed
from ..comparing import THREADS, by_threads, groups
from .libcuda import encode
from .session import CudaSession
from .user_arrays import CudaArrays

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
    """What `Executable.time` is, for whatever `queue(pointers)` gives the GPU to do in so many launches; call it with the lock held.

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


class Comparing:
    """The comparison kernels of a session, each built when it is first needed."""

    def __init__(self, s: CudaSession) -> None:
        self._s = s
        self._kernels: dict[tuple[str, bool, bool], CudaExecutable] = {}
        self._room = self._size = 0

    def compare(self, c: Comparison) -> float:
        """As `Memory.compare`. Call it with the session's lock held."""
        driver = self._s.use()
        kind = c.dtype.name, bool(c.weight), bool(c.flags)
        maxima = groups(c.count) * THREADS
        if kind not in self._kernels:
            source = render(by_threads(c.dtype, kind[1], kind[2]), self._s.target)
            try:
                self._kernels[kind] = CudaExecutable(self._s, self._s.build(source.text), source.signature)
            except BuildError as e:
                raise DeviceError(f"{c.dtype.name} is not compared on the GPU: {e}") from e
        if self._size < maxima:
            if self._room:
                driver.free(self._room)
            self._room, self._size = 0, 0
            self._room, self._size = self._s.alloc(8 * (maxima + THREADS)), maxima
        worst = self._room + 8 * maxima
        self._kernels[kind].run([*filter(None, (c.result, c.reference, c.weight, c.flags)), self._room, worst], [c.count])
        largest = (ctypes.c_double * THREADS)()
        driver.download(ctypes.addressof(largest), worst, 8 * THREADS)
        return math.nan if any(x != x for x in largest) else max(largest)


_KEPT = 256
"""Sets of pointers, at most, whose launches are kept ready."""


class CudaMemory(Memory):
    """Device memory; a handle is its address. The driver aligns to 256 bytes."""

    compares = True

    def __init__(self, s: CudaSession, stream: int | None = None) -> None:
        """`stream`: of a user's, for arrays in the device's memory."""
        self._s, self._comparing, self._stream = s, Comparing(s), stream

    def arrays(self, given: Sequence[Any]) -> DeviceArrays | None:
        return CudaArrays.of(self._s, self._stream, given)

    def interface(self, handle: int) -> dict[str, Any] | None:
        return {"data": (handle, False), "version": 3, "stream": 1}  # 1: the default stream, which whoever uses it waits for

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

    def compare(self, c: Comparison) -> float:
        with self._s.lock:
            return self._comparing.compare(c)


class CudaExecutable(Executable):
    """A loaded module. Pointers are device addresses."""

    def __init__(self, s: CudaSession, cubin: bytes, signature: Signature) -> None:
        """Raises BuildError where the device cannot launch it, DeviceError where the driver does not take the code."""
        self._s, self.signature, self.threads = s, signature, 1
        self._shared = [abi.dynamic_shared(signature, s.target, i) for i in range(len(signature.items))]
        self._arguments = abi.arguments(signature, s.target)
        self._own: dict[tuple[int, str], tuple[int, int]] = {}
        """Address and bytes of scratch memory, for each stream, as calls on two of them run at once."""
        self._plans: dict[tuple[int, ...], Queue] = {}
        with s.lock:
            driver = s.use()
            self._module: Any = driver.load(cubin)
            self._functions = [driver.function(self._module, abi.entry(signature, i)) for i in range(len(signature.items))]
            for f, shared in zip(self._functions, self._shared, strict=True):
                if shared:
                    driver.allow_shared(f, shared)
            self._room("work", 0, signature.work)

    def _room(self, kind: str, stream: int, nbytes: int) -> bool:
        """Have so much scratch memory for calls on a stream; whether it lies elsewhere now."""
        address, size = self._own.get((stream, kind), (0, 0))
        if nbytes <= size:
            return False
        if address:
            self._s.wait()  # calls that are queued may still use it
            self._own.pop((stream, kind))
            self._s.driver.free(address)
        self._own[stream, kind] = (self._s.alloc(nbytes), nbytes)
        return True

    def _plan(self, vars: Sequence[int], stream: int = 0) -> Queue:
        """What queues one call with these values of the symbols on a stream. Arguments are packed when a set of pointers comes for the
        first time. Call it with the lock held."""
        sig, driver = self.signature, self._s.use()
        if self._module is None:
            raise UsageError(f"{sig.name} has been closed")
        if len(vars) != len(sig.symbols):
            raise UsageError(
                f"{sig.name} needs a value for each of its symbols ({', '.join(sig.symbols) or 'none'}), not {len(vars)} values"
            )
        self._room("work", stream, sig.work)
        if self._room("arena", stream, abi.arena_bytes(sig, self._s.target, vars)):
            self._plans.clear()
        if (known := self._plans.get((stream, *vars))) is not None:
            return known
        own = {kind: address for (of, kind), (address, _) in self._own.items() if of == stream}
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
                starts = [bind(function, groups, threads, shared, words, stream) for function, groups, threads, shared in phases]
                if len(ready) >= _KEPT:
                    ready.clear()
                ready[key] = starts
            for start in starts:
                start()

        if len(self._plans) >= _KEPT:
            self._plans.clear()
        self._plans[stream, *vars] = queue
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

    def launch(self, pointers: Sequence[int], vars: Sequence[int], stream: int) -> None:
        """Queue a call on a stream of the user's, whose GPU stays the calling thread's. Nothing is waited for, but where scratch memory grows."""
        self._check(pointers)
        with self._s.lock, self._s.lent():
            self._plan(vars, stream)(pointers)

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
