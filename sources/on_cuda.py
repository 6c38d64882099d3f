"""CUDA C++ of a user: built by NVRTC, which needs no GPU, and launched over the grid that the expressions give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..devices.base import Executable, SourceLike, sealed, unsealed
from ..devices.cuda import nvrtc
from ..devices.cuda.device import REGISTERS
from ..devices.cuda.executable import timed
from ..ir.errors import BuildError, UsageError
from .source_spec import SourceSignature, check_group, word

if TYPE_CHECKING:
    from ..devices.cuda.device import CudaDevice
    from ..targets import Target

Compile = Callable[[SourceLike, Sequence[str]], tuple[bytes, str]]
_REGISTERS = "--ptxas-options=-v"
"""Makes the log say what a kernel takes."""
STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a launch may have without asking for more."""


def options(s: SourceSignature) -> tuple[str, ...]:
    """What NVRTC is told: the user's flags, C++17 where none says which, and where includes lie."""
    standard = () if any(f.startswith(("-std", "--std")) for f in s.flags) else ("--std=c++17",)
    return (*standard, *s.flags, _REGISTERS, *(f"--include-path={p}" for p in s.folders))


def build(source: SourceLike, s: SourceSignature, target: Target, compile: Compile | None = None) -> bytes:
    """A configuration's machine code for a GPU, and what it takes. `compile`: a device's own compiler in the place of NVRTC. Raises
    BuildError, also for what could not be launched."""
    check_group(s, target.max_threads, target.name)
    code, log = nvrtc.compile(source.text, target.cpu, options(s)) if compile is None else compile(source, options(s))
    takes = nvrtc.resources(log).get(s.function)
    if takes is None:
        raise BuildError(f"the source has no kernel {s.function!r}: it must be a __global__ function, and no template")
    threads = s.block[0] * s.block[1] * s.block[2]
    if takes.registers * threads > REGISTERS:
        raise BuildError(
            f"{s.function} takes {takes.registers} registers for each of {threads} threads and a multiprocessor has {REGISTERS}"
        )
    if takes.shared + s.dynamic > target.shared:
        raise BuildError(f"{s.function} takes {takes.shared + s.dynamic} bytes of shared memory and {target.name} has {target.shared}")
    return sealed("cuda source", {"registers": takes.registers, "spills": takes.spill_stores, "shared": takes.shared}, code)


class CudaSource(Executable):
    """A loaded module. Pointers are device addresses."""

    def __init__(self, obj: bytes, s: SourceSignature, device: CudaDevice) -> None:
        """Raises BuildError where the object is not sound or cannot be launched, DeviceError where the driver does not take it."""
        self.signature, self.threads, self._s = s, 1, s
        _, code = unsealed("cuda source", "a CUDA source", obj)
        self._session = device.open()
        self._aside: dict[int, int] = {}
        self._starts: dict[tuple[int, ...], Callable[[], None]] = {}
        with self._session.lock:
            driver = self._session.use()
            self._module: Any = driver.load(code)
            self._function = driver.function(self._module, s.function)
            if s.dynamic > STATIC_SHARED:
                driver.allow_shared(self._function, s.dynamic)

    def _start(self, pointers: Sequence[int]) -> Callable[[], None]:
        """What queues one call with these pointers."""
        key = tuple(pointers)
        if self._module is None:
            raise UsageError(f"{self._s.name} has been closed")
        if key not in self._starts:
            words = [word(self._s, v, pointers) for v in self._s.order]
            self._starts[key] = self._session.driver.bind(self._function, self._s.grid, self._s.block, self._s.dynamic, words)
        return self._starts[key]

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        with self._session.lock:
            self._session.use()
            self._start(pointers)()
            self._session.wait()

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        with self._session.lock:
            if self._s.restore:
                return self._timed_singly(pointer_sets[0], repeats, limit_s)
            return timed(self._session, lambda p: self._start(p)(), 1, pointer_sets, repeats, limit_s)

    def _timed_singly(self, pointers: Sequence[int], repeats: int, limit_s: float) -> list[float]:
        """Calls one by one, what each changes copied back before it, outside the time."""
        session = self._session
        driver = session.use()
        session.wake()
        start = self._start(pointers)
        for i in self._s.restore:
            if i not in self._aside:
                self._aside[i] = session.alloc(max(1, self._s.sizes[i]))
            driver.copy(self._aside[i], pointers[i], self._s.sizes[i])
        out: list[float] = []
        before, after = driver.event(), driver.event()
        while len(out) < repeats and (not out or sum(out) < limit_s):
            for i in self._s.restore:
                driver.copy(pointers[i], self._aside[i], self._s.sizes[i])
            driver.record(before)
            start()
            driver.record(after)
            session.sample()
            session.wait()
            out.append(driver.seconds(before, after))
        return out

    def clocks(self) -> dict[str, Any]:
        return dict(self._session.clocks)

    def poison(self) -> None:
        """It has no memory of its own that is known."""

    def close(self) -> None:
        with self._session.lock:
            module, self._module, self._function = self._module, None, None
            self._starts.clear()
            if module is not None and not self._session.driver.lost:
                driver = self._session.use()
                for address in self._aside.values():
                    driver.free(address)
                driver.unload(module)
            self._aside.clear()
