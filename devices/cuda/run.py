"""CUDA kernels and device memory through a driver: one open GPU a process."""

from __future__ import annotations

import functools
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.errors import MeasureError, UsageError
from ...program import abi
from ...program.program import Signature
from ...targets import Target
from ..base import Executable
from ..memory import Memory
from ..packed import Packed
from .driver import Driver
from .open_driver import open_driver

_BATCH = 64
"""Calls, at most, that are queued before anybody waits."""
_BATCH_S = 0.02
_SHORT_S = 50e-6
"""Calls shorter than this are timed several at once: an event costs the GPU about a microsecond."""
_LAUNCH_S = 10e-6
"""How long this program takes to queue one launch, at most."""
_IDLE_S, _WAKE_S = 0.1, 0.02
"""A GPU that was idle for so long has slow clocks, and is kept busy for so long before it is timed."""
_SPIN = """extern "C" __global__ void spin(long long cycles) {
    const long long end = clock64() + cycles;
    while (clock64() < end) {}
}
"""


class CudaSession:
    """One GPU, open in this process. `lock` is held around every use: the driver's default stream is one."""

    def __init__(self, driver: Driver, index: int, target: Target) -> None:
        self.driver, self.index, self.target = driver, index, target
        self.lock = threading.RLock()
        self._spin: Any = None
        self._busy = -math.inf
        self.use()
        self._khz = driver.attribute(index, "CLOCK_RATE")

    def use(self) -> Driver:
        """The driver, with this GPU as the calling thread's. Raises MeasureError after a fault."""
        if self.driver.lost:
            raise MeasureError(f"the GPU is lost to this process since {self.driver.lost}; go on in a new one")
        self.driver.open(self.index)
        return self.driver

    def hold(self, seconds: float) -> None:
        """Keep the GPU busy for about so long, so that what is queued meanwhile then runs with no gaps."""
        if self._spin is None:
            from . import nvrtc

            module = self.driver.load(nvrtc.compile(_SPIN, self.target.cpu)[0])
            self._spin = self.driver.function(module, "spin", 1), module
        self.driver.launch(self._spin[0], 1, 1, 0, (int(seconds * self._khz * 1000),))

    def wake(self) -> None:
        """See that the clocks are those of a GPU at work."""
        if time.monotonic() - self._busy > _IDLE_S:
            self.hold(_WAKE_S)
            self.driver.wait()

    def wait(self) -> None:
        """Until the GPU is done."""
        self.driver.wait()
        self._busy = time.monotonic()


@functools.lru_cache(maxsize=8)
def _session(index: int, target: Target, pid: int) -> CudaSession:
    return CudaSession(open_driver(), index, target)


def session(index: int, target: Target) -> CudaSession:
    """This process's session of a GPU."""
    return _session(index, target, os.getpid())


def timed(
    s: CudaSession,
    queue: Callable[[Sequence[int]], None],
    launches: int,
    sets: Sequence[Sequence[int]],
    repeats: int,
    limit_s: float = float("inf"),
) -> list[float]:
    """As `Executable.time`, for whatever `queue(pointers)` gives the GPU to do in about so many launches; call it with the lock held.

    The GPU's events stand between calls that are queued while it is held busy, so that what is measured is the time
    from the start of one call to the start of the next. Calls of less than 50 µs are timed in groups: each is given
    the group's mean."""
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
        count = max(1, min(repeats - len(out), _BATCH, int(max(left, 0.0) / typical)))
        out += _batch(s, queue, launches, sets, len(out), count, group)
    return out


def _batch(
    s: CudaSession, queue: Callable[[Sequence[int]], None], launches: int, sets: Sequence[Sequence[int]], first: int, count: int, group: int
) -> list[float]:
    """Seconds of `count` calls, the first one being number `first`."""
    driver = s.use()
    sizes = [min(group, count - i) for i in range(0, count, group)]
    events = [driver.event() for _ in range(len(sizes) + 1)]
    s.hold((count * launches + len(events)) * _LAUNCH_S)
    driver.record(events[0])
    at = first
    for size, event in zip(sizes, events[1:], strict=True):
        for _ in range(size):
            queue(sets[at % len(sets)])
            at += 1
        driver.record(event)
    s.wait()
    return [driver.seconds(a, b) / size for size, a, b in zip(sizes, events[:-1], events[1:], strict=True) for _ in range(size)]


class CudaMemory(Memory):
    """Device memory; a handle is its address. The driver aligns to 256 bytes."""

    def __init__(self, s: CudaSession) -> None:
        self._s = s

    def alloc(self, nbytes: int) -> int:
        with self._s.lock:
            return self._s.use().alloc(max(1, nbytes))

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


class CudaExecutable(Executable):
    """A loaded module. Pointers are device addresses."""

    def __init__(self, s: CudaSession, cubin: bytes, signature: Signature) -> None:
        """Raises BuildError where the device cannot launch it, DeviceError where the driver does not take the code."""
        self._s, self.signature, self.threads = s, signature, 1
        self._shared = abi.dynamic_shared(signature, s.target)
        self._arguments = abi.arguments(signature, s.target)
        self._own: dict[str, tuple[int, int]] = {}
        with s.lock:
            driver = s.use()
            self._module: Any = driver.load(cubin)
            self._functions = [
                driver.function(self._module, abi.entry(signature, i), len(self._arguments)) for i in range(len(signature.items))
            ]
            if self._shared:
                for f in self._functions:
                    driver.allow_shared(f, self._shared)
            if signature.work:
                self._own["work"] = (driver.alloc(signature.work), signature.work)

    def _plan(self, vars: Sequence[int]) -> Callable[[Sequence[int]], None]:
        """What queues one call with these values of the symbols. Call it with the lock held."""
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
            self._own["arena"] = (driver.alloc(need), need)
        own = {kind: address for kind, (address, _) in self._own.items()}
        phases = [p for p in zip(self._functions, abi.grids(sig, vars), sig.threads, strict=True) if p[1]]
        arguments, shared, launch = self._arguments, self._shared, driver.launch

        def queue(pointers: Sequence[int]) -> None:
            words = tuple(pointers[a.at] if a.kind == "param" else vars[a.at] if a.kind == "symbol" else own[a.kind] for a in arguments)
            for function, groups, threads in phases:
                launch(function, groups, threads, shared, words)

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
            if not self._s.driver.lost:
                driver = self._s.use()
                for address, _ in self._own.values():
                    driver.free(address)
                driver.unload(module)
            self._own.clear()
