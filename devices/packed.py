"""Memory for what a kernel packs of its constant inputs: a workspace that outlives the call which fills it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

from ..ir.errors import DeviceError

_HUGE = 2 << 20


class Packed:
    """`size` bytes at `address`, which is a multiple of a page. They live as long as this object."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, size: int) -> None:
        try:
            self._memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError, ValueError) as e:
            raise DeviceError(f"no memory for {size >> 20} MiB of packed inputs: {e}") from e
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # only a hint: a kernel without transparent huge pages refuses it, and all still works
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.address, self.size = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)), size
