"""Copies that go on beside the threads of groups (`copy_async`, `commit`, `wait`), as late as they may be.

What a copy writes lands when its thread waits for it, and not before. From its beginning until then nobody may touch those elements,
the thread itself included, and nobody may change what it reads. After it has landed it counts as a write of its thread at the wait: for
other threads a barrier must follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..program.program import Instr, Mem
from .group_buffer import GroupBuffer
from .ops import Array, zero
from .pending_copies import PendingCopies
from .threads import On, ThreadBatch

Pick = Callable[..., tuple[Array, Array, Array | None]]


class CopyMemory(Protocol):
    """The memory that copies are made in (`group_memory.GroupMemory`)."""

    def piece(self, mem: Mem) -> GroupBuffer:
        """The piece that an access is in."""
        ...

    def picker(self, s: Instr, mem: Mem, piece: GroupBuffer, lanes: int) -> Pick:
        """A function (on, index, mask) → (elements, the lane of each, who of (threads, lanes) takes part or None for all)."""
        ...

    def number(self, s: Instr) -> int:
        """The number of an access."""
        ...

    def epoch(self, lane: Array) -> Array | int:
        """The epochs of these threads."""
        ...

    def who(self, lane: Array) -> Array:
        """Who these threads are."""
        ...


@dataclass(slots=True)
class _UnderWay:
    """Elements that one instruction began to copy, for all threads: where to, the lane and the group number of each, and what comes."""

    instr: Instr
    number: int
    to: GroupBuffer
    at: Array
    lane: Array
    group: Array
    values: Array
    source: GroupBuffer
    read: Array
    """Elements of the source, −1 where zeros are written."""

    def kept(self, which: Array) -> _UnderWay:
        """Some of the elements."""
        parts = (self.at[which], self.lane[which], self.group[which], self.values[which])
        return _UnderWay(self.instr, self.number, self.to, *parts, self.source, self.read[which])


class CopiesUnderWay(PendingCopies[_UnderWay]):
    """The copies of one phase's threads."""

    def __init__(self, memory: CopyMemory, batch: ThreadBatch, as_twin: bool) -> None:
        super().__init__(batch)
        self.memory, self.as_twin = memory, as_twin

    def start(self, s: Instr) -> Callable[..., None]:
        """A function (on, to, source[, mask]) that begins copies."""
        memory, batch, c = self.memory, self.batch, s.copy
        to, source = memory.piece(c.to), memory.piece(c.source)
        pick_to, pick_source = memory.picker(s, c.to, to, c.lanes), memory.picker(s, c.source, source, c.lanes)
        number, nothing = memory.number(s), zero(c.to.dtype, 1, self.as_twin)

        def run(on: On, at: Any, start: Any, mask: Any = None) -> None:
            wide = None if mask is None else np.broadcast_to(mask, batch.count)[:, None]
            i, lane, _ = pick_to(on, at, None)
            j, reader, some = pick_source(on, start, wide if c.lanes > 1 or wide is None else wide[:, 0])
            if source.shadow is not None:
                source.shadow.read(j, memory.who(reader), memory.epoch(reader), number)
            values, read = np.full(len(i), nothing, to.data.dtype), np.full(len(i), -1, np.int64)
            taken = self._among(on, some, len(i), c.lanes)
            values[taken], read[taken] = source.data[j], j
            assert to.shadow is not None
            to.shadow.begin_copy(i, memory.who(lane), memory.epoch(lane), number)
            self.pending.append(_UnderWay(s, number, to, i, lane, self.committed[lane], values, source, read))

        return run

    def _among(self, on: On, some: Array | None, count: int, lanes: int) -> Array:
        """Which of the destination's elements, of the threads `on`, are read from the source by those of (threads, lanes) `some`."""
        if some is None:
            return np.ones(count, bool)
        full = some if some.ndim == 2 else np.repeat(some[:, None], lanes, 1)
        return full.reshape(-1) if on is None else full[on].reshape(-1)

    def _land(self, p: _UnderWay) -> None:
        memory, shadow = self.memory, p.to.shadow
        if p.source.shadow is not None:
            bits = f"u{p.values.itemsize}"
            changed = (p.source.data[p.read].view(bits) != p.values.view(bits)) & (p.read >= 0)
            if changed.any():
                k = int(changed.argmax())
                message = f"{p.source.name}[{int(p.read[k])}] was changed while it was copied"
                self.batch.fail(message, p.instr, int(self.batch.me[p.lane[k]]))
        assert shadow is not None
        shadow.end_copy(p.at)
        shadow.write(p.at, memory.who(p.lane), memory.epoch(p.lane), p.number)
        p.to.data[p.at] = p.values
