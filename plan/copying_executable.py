"""An executable of a device with memory of its own, called with host addresses: arguments are copied there and back, or used where they
lie if the device can do that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..devices import Executable
from ..devices.once import process_lock
from ..ir import index as ix
from ..ir.node import Node, walk

if TYPE_CHECKING:
    from ..devices import Memory, Packed


class Copying(Executable):
    """`run` takes host addresses. Buffers stay on the device between calls; calls run one at a time."""

    def __init__(self, inner: Executable, memory: Memory) -> None:
        self.inner, self.memory = inner, memory
        self.signature, self.threads = inner.signature, inner.threads
        self._buffers: list[tuple[int, int]] = [(0, 0)] * len(inner.signature.params)
        self._lock = process_lock()

    def sizes(self, vars: Sequence[int]) -> list[int]:
        """Bytes of each parameter for these values of the symbols."""
        values = dict(zip(self.signature.symbols, vars, strict=True))
        out = []
        for p in self.signature.params:
            extents = []
            for d in p.shape:
                symbols = {n: values[n.arg.name] for n in walk(d) if n.op == "sym"} if isinstance(d, Node) else {}
                extents.append(ix.evaluate(d, symbols) if isinstance(d, Node) else d)
            out.append(math.prod(extents) * p.dtype.size)
        return out

    def _handles(self, sizes: Sequence[int | None]) -> list[int]:
        for i, size in enumerate(sizes):
            handle, room = self._buffers[i]
            if size is not None and (not handle or room < size):
                if handle:
                    self.memory.free(handle)
                self._buffers[i] = (0, 0)
                self._buffers[i] = (self.memory.alloc(size), size)
        return [handle for handle, _ in self._buffers]

    def reserve(self) -> None:
        self.inner.reserve()

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self.bind(vars)(*pointers)

    def bind(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        if packed is not None:
            return super().bind(vars, packed)
        sizes, roles = self.sizes(vars), [p.role for p in self.signature.params]

        def call(*pointers: int) -> None:
            with self._lock:
                shared = [self.memory.shared(address, size) for address, size in zip(pointers, sizes, strict=True)]
                try:
                    own = self._handles([None if s else size for s, size in zip(shared, sizes)])
                    handles = [s or h for s, h in zip(shared, own)]
                    for handle, s, address, size, role in zip(handles, shared, pointers, sizes, roles):
                        if role != "out" and not s:
                            self.memory.write(handle, address, size)
                    self.inner.run(handles, vars)
                    for handle, s, address, size, role in zip(handles, shared, pointers, sizes, roles):
                        if role != "in" and not s:
                            self.memory.read(handle, address, size)
                finally:
                    for s, size, role in zip(shared, sizes, roles):
                        if s:
                            self.memory.unshare(s, size, role != "in")

        return call

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = math.inf
    ) -> list[float]:
        with self._lock:
            return self.inner.time([self._handles(self.sizes(vars))], vars, repeats, limit_s)

    def poison(self) -> None:
        self.inner.poison()

    def close(self) -> None:
        for handle, _ in self._buffers:
            if handle:
                self.memory.free(handle)
        self._buffers = [(0, 0)] * len(self._buffers)
        self.inner.close()
