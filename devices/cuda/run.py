"""CUDA kernels and device memory through a driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.errors import UsageError
from ...program import abi
from ...program.maps import MapNumbers, numbers
from ...program.program import Signature
from ..base import Executable
from ..memory import Comparison, Found, Memory
from ..packed import Packed
from .comparing import Comparing
from .session import CudaSession
from .tensor_map import encode
from .timing import timed

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
