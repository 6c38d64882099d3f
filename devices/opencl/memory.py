"""Buffers of an OpenCL device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ...ir.errors import MeasureError
from ..memory import Memory
from .session import ClSession


class ClMemory(Memory):
    """Buffers of a session."""

    def __init__(self, s: ClSession) -> None:
        self._s, self.margin = s, s.margin

    def alloc(self, nbytes: int) -> int:
        return self._s.add(nbytes)

    def free(self, handle: int) -> None:
        self._s.drop(handle)

    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, s.whole[handle], _bytes(address, nbytes), dst_offset=self.margin + offset))

    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, _bytes(address, nbytes), s.whole[handle], src_offset=self.margin + offset))

    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            import numpy as np

            self._do(lambda s: s.cl.enqueue_fill_buffer(s.queue, s.whole[handle], np.uint8(byte), self.margin + offset, nbytes))

    def _do(self, work: Callable[[ClSession], Any]) -> None:
        try:
            work(self._s).wait()
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed to move memory: {e}") from e


def _bytes(address: int, nbytes: int) -> Any:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
