"""Memory behind tensors: pools of host memory, and of buffers on devices that have memory of their own."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ...devices.once import open_in_children, process_lock, undivided
from ...plan.array_arguments import address

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Memory

    Array = np.ndarray[Any, Any]

POOLED = 128 << 20
"""Bytes of free memory that a pool keeps at most."""
POOLED_FROM = 1 << 16
"""Bytes below which an allocation is cheaper than the pool."""
LINE = 64
"""Bytes of a cache line: host memory begins on one."""


class FreeRooms:
    """Free blocks by size, the most recently used first. Safe for threads: every step is one operation of a list."""

    def __init__(self, limit: int = POOLED) -> None:
        self.limit, self.held = limit, 0
        self._rooms: dict[int, list[Any]] = {}
        self._lock = open_in_children(threading.Lock())  # (a finaliser may run while its own thread holds it)

    def take(self, size: int) -> Any:
        """A block of exactly this size, or None."""
        rooms = self._rooms.get(size)
        if not rooms:
            return None
        with self._lock:
            if not rooms:
                return None
            self.held -= size
            return rooms.pop()

    def give(self, size: int, room: Any) -> bool:
        """Keep a block; False where the pool is full, or busy (a finaliser may run anywhere, so it never waits)."""
        if self.held + size > self.limit or not self._lock.acquire(blocking=False):
            return False
        try:
            self._rooms.setdefault(size, []).append(room)
            self.held += size
        finally:
            self._lock.release()
        return True

    def drain(self) -> list[Any]:
        """All blocks, which are the caller's now."""
        with self._lock:
            found = [r for rooms in self._rooms.values() for r in rooms]
            self._rooms.clear()
            self.held = 0
        return found


HOST = FreeRooms()


def host_room(size: int) -> Array:
    """`size` bytes that begin on a cache line, with undefined contents. NumPy gives large blocks back to the system when
    they are freed, and new pages cost more than many kernels: blocks that `release` got are used again."""
    import numpy as np

    found = HOST.take(size)
    return _on_a_line(np.empty(size + LINE, np.uint8) if found is None else found, size)


def _on_a_line(found: Array, size: int) -> Array:
    start = -address(found) % LINE
    room: Array = found[start : start + size]
    return room


def host_array(shape: tuple[int, ...], kind: np.dtype[Any], size: int) -> Array:
    """An array of `size` bytes in such memory."""
    return host_room(size).view(kind).reshape(shape)


def zeros(shape: tuple[int, ...], kind: np.dtype[Any], size: int) -> Array:
    """An array of zeros in such memory. The system has zeros at hand: their pages take no memory before something is written there."""
    import numpy as np

    return _on_a_line(np.zeros(size + LINE, np.uint8), size).view(kind).reshape(shape)


def is_room(array: Array) -> bool:
    """Whether an array lies in such memory, and fills it. (A part of somebody's array may be as many bytes shorter.)"""
    base: Any = array.base
    return type(base) is type(array) and base.shape == (array.nbytes + LINE,) and base.dtype.char == "B" and base.flags.owndata


COUNTED = sys.implementation.name == "cpython" and sys.version_info < (3, 14) and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether counts of references say who sees an array. (From 3.14 on, names of a function are not always counted.)"""
SOLE_REFERENCES = 3
"""What CPython counts for an array that only the caller of `release` knows: its name there, the parameter, and the count's own."""


def release(array: Array, size: int) -> None:
    """A tensor's array is not needed any more by the caller, who has one name for it. Its block goes to the pool unless
    somebody else sees it: the array itself, or a view, which keeps its base alive (CPython's counts tell both)."""
    base: Any = array.base
    if (
        COUNTED
        and base is not None
        and sys.getrefcount(array) <= SOLE_REFERENCES
        and sys.getrefcount(base) <= SOLE_REFERENCES
        and base.nbytes == size + LINE
    ):
        HOST.give(size, base)


class DeviceRooms:
    """The buffers of one device with memory of its own."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.free = FreeRooms()

    def take(self, nbytes: int) -> int:
        """A handle of at least `nbytes` bytes. Raises MeasureError where there is no room even without the pool."""
        from ...ir.errors import MeasureError

        size = rounded(nbytes)
        found = self.free.take(size)
        if found is not None:
            return int(found)
        try:
            return self.memory.alloc(size)
        except MeasureError:
            for handle in self.free.drain():
                self.memory.free(handle)
            return self.memory.alloc(size)

    def give(self, handle: int, nbytes: int) -> None:
        """A handle that nobody uses any more."""
        if not self.free.give(rounded(nbytes), handle):
            self.memory.free(handle)

    def exported(self, handle: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> Any:
        """A buffer as an array of the device's library; None where it has none. Nobody else gets its memory afterwards."""
        return self.memory.exported(handle, shape, kind)

    def write(self, handle: int, array: Array) -> None:
        """Copy an array there."""
        self.memory.write(handle, array.__array_interface__["data"][0], array.nbytes)

    def read(self, handle: int, array: Array) -> None:
        """Copy an array from there."""
        self.memory.read(handle, array.__array_interface__["data"][0], array.nbytes)


class SharedRoom(DeviceRooms):
    """Rooms of a buffer whose memory somebody else sees: it goes to no pool."""

    def __init__(self, rooms: DeviceRooms, handle: int) -> None:
        self.memory, self.free, self._handle = rooms.memory, rooms.free, handle

    def give(self, handle: int, nbytes: int) -> None:
        if handle == self._handle:
            self.memory.free(handle)
        else:
            super().give(handle, nbytes)


class LentRoom(DeviceRooms):
    """The memory of another library's array on a device, which it keeps alive as long as a tensor lies there."""

    def __init__(self, rooms: DeviceRooms, handle: int, owner: Any) -> None:
        self.memory, self.free = rooms.memory, rooms.free
        self._handle, self._owner = handle, owner

    def exported(self, handle: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> Any:
        found = super().exported(handle, shape, kind)
        return self._owner if found is not None and handle == self._handle else found

    def give(self, handle: int, nbytes: int) -> None:
        if handle == self._handle:
            self.memory.forget(handle)
            self._owner = None  # its library frees it
        else:
            super().give(handle, nbytes)


def rounded(nbytes: int) -> int:
    """Bytes of a pooled block: at most an eighth more than asked for, so that sizes meet again."""
    size = max(nbytes, 256)
    step = 1 << max((size - 1).bit_length() - 4, 0)
    return -(-size // step) * step


_rooms: dict[str, DeviceRooms | None] = {"cpu": None}
_lock = process_lock()


def rooms_of(device: str) -> DeviceRooms | None:
    """The device's own memory; None where kernels use the host's. Raises DeviceError."""
    try:
        return _rooms[device]
    except KeyError:
        pass
    from ...devices import get

    place = get(device)
    with undivided():
        place.check()
        with _lock:  # whoever asks a device twice may get two memories, which do not know each other's handles
            if device not in _rooms:
                memory = place.memory()
                _rooms[device] = None if memory is None else DeviceRooms(memory)
            return _rooms[device]
