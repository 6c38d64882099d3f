"""The native record of a call: what `pool_ir`'s functions read."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from ..packed import Packed
from . import scratch as arena

HEAD = 4
"""Words of a call record before its phases: phases, threads, scratches, vars."""


class CallRecord:
    """What one running call needs in native memory: the call record, the buffer addresses and the symbols' values. A caller takes
    one, so that no two threads share it. Its workspace is `packed`, or else the arena's."""

    __slots__ = ("arena", "bufs", "bufs_at", "fill", "packed", "record", "record_at", "vars", "version")

    def __init__(
        self, functions: Sequence[int], items: Sequence[int], threads: int, params: int, values: Sequence[int], packed: Packed | None = None
    ) -> None:
        self.record = (ctypes.c_int64 * (HEAD + 2 * len(functions)))()
        self.bufs = (ctypes.c_uint64 * (params + 1))()
        self.vars = (ctypes.c_int64 * max(len(values), 1))(*values)
        self.record_at, self.bufs_at = ctypes.addressof(self.record), ctypes.addressof(self.bufs)
        self.fill = struct.Struct(f"={params}Q").pack_into
        self.record[0], self.record[1], self.record[3] = len(functions), threads, ctypes.addressof(self.vars)
        for i, (f, n) in enumerate(zip(functions, items, strict=True)):
            self.record[HEAD + 2 * i], self.record[HEAD + 2 * i + 1] = f, n
        self.arena: arena.ScratchArena | None = None
        self.version = -1
        self.packed = packed

    def use(self, memory: arena.ScratchArena, sizes: tuple[int, int, int]) -> None:
        """Work in this arena from now on."""
        memory.fit(*sizes)
        self.record[2], self.bufs[len(self.bufs) - 1] = memory.table, self.packed.address if self.packed is not None else memory.work
        self.arena, self.version = memory, memory.version
