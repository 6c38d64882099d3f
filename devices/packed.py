"""Memory for what is packed once, such as weights. Panels lie one after the other in rooms of huge pages: a panel of a few megabytes with
a mapping of its own begins inside of a huge page, and gets small ones, of which each costs the first pass over it a walk through tables."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import weakref

from ..ir.errors import DeviceError

HUGE = 2 << 20
"""Bytes of a huge page."""
ROOM = 16 * HUGE
"""Bytes of a room, of which only what is written takes memory. A larger panel has one of its own."""
PAGE = 4096
"""Panels begin at multiples of this many bytes."""


class HugePages:
    """Memory from a huge page's first byte on; what follows `used` is free."""

    __slots__ = ("__weakref__", "_memory", "address", "size", "used")

    def __init__(self, size: int) -> None:
        try:
            self._memory = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError, ValueError) as e:
            raise DeviceError(f"no memory for {size >> 20} MiB of packed inputs: {e}") from e
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # only a hint: a kernel without transparent huge pages refuses it, and all still works
            with contextlib.suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.address, self.size, self.used = -(-at // HUGE) * HUGE, size, 0


_lock = threading.Lock()
_last: weakref.ref[HugePages] | None = None


class Packed:
    """`size` bytes at `address`, which is a multiple of a page. They live as long as this object; a room is given back with its last one."""

    __slots__ = ("_room", "address", "size")

    def __init__(self, size: int) -> None:
        global _last
        whole = -(-max(size, 1) // PAGE) * PAGE
        with _lock:
            room = _last() if _last is not None else None
            if room is None or room.used + whole > room.size:
                room = HugePages(max(whole, ROOM))
                _last = weakref.ref(room)
            self._room, self.address, self.size = room, room.address + room.used, size
            room.used += whole
