"""Scratch and workspace memory of running kernels, reused from call to call and from kernel to kernel.

A running call holds one arena; the arena given back last is taken first, since it is warm in the caches."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

from ...ir.errors import DeviceError

_PAGE = 4096
_HUGE = 2 << 20


class ScratchArena:
    """Memory for one running call: `table` is the address of an array of scratch addresses, one a thread, each 64-byte aligned;
    `work` the address of the workspace. `version` changes whenever they do; it is negative while there is no memory."""

    __slots__ = ("_base", "_memory", "_pointers", "_scratch", "_stride", "_threads", "_work", "table", "version", "work")

    def __init__(self) -> None:
        self._scratch = self._threads = self._work = self._stride = -1
        self.table = self.work = self._base = 0
        self.version = -1
        self._memory: mmap.mmap | None = None
        self._pointers: ctypes.Array[ctypes.c_uint64] | None = None

    def fit(self, scratch: int, work: int, threads: int) -> None:
        """Make room for `scratch` bytes a thread and `work` bytes; what was there is lost when it has to grow."""
        if scratch <= self._scratch and work <= self._work and threads <= self._threads:
            return
        scratch, work, threads = max(scratch, self._scratch), max(work, self._work), max(threads, self._threads)
        stride = _round(scratch)
        size = stride * threads + _round(work) + _PAGE
        # the old mapping goes before the new one comes
        self._memory = None
        self._scratch = self._work = self._threads = -1
        self.version = -abs(self.version)
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError, ValueError) as e:
            raise DeviceError(f"no memory for {size >> 20} MiB of scratch and workspace ({threads} threads): {e}") from e
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # only a hint: a kernel without transparent huge pages refuses it, and all still works
            with contextlib.suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._scratch, self._work, self._threads, self._stride = scratch, work, threads, stride
        self._memory, self._base = memory, base
        self._pointers = (ctypes.c_uint64 * threads)(*[base + stride * t for t in range(threads)])
        self.table = ctypes.addressof(self._pointers)
        self.work = base + stride * threads
        self.version = abs(self.version) + 1

    def poison(self, scratch: int, work: int, threads: int) -> None:
        """Fill the parts that a call with these sizes uses with 0xFF."""
        self.fit(scratch, work, threads)
        for t in range(threads):
            ctypes.memset(self._base + self._stride * t, 0xFF, scratch)
        ctypes.memset(self.work, 0xFF, work)


def _round(size: int) -> int:
    return -(-max(size, 1) // _PAGE) * _PAGE


free: list[ScratchArena] = []


def take() -> ScratchArena:
    """A free arena (list operations are atomic, so two threads never get the same one)."""
    try:
        return free.pop()
    except IndexError:
        return ScratchArena()


def give(arena: ScratchArena) -> None:
    """Hand an arena back."""
    free.append(arena)
