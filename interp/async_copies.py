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


class CopiesUnderWay:
    """The copies of one phase's threads."""

    def __init__(self, memory: CopyMemory, batch: ThreadBatch, as_twin: bool) -> None:
        self.memory, self.batch, self.as_twin = memory, batch, as_twin
        self.committed: Array = np.zeros(0, np.int64)
        """Groups that each thread has closed."""
        self.pending: list[_UnderWay] = []

    def begin(self) -> None:
        """Other groups run from now on."""
        self.committed, self.pending = np.zeros(self.batch.count, np.int64), []

    def end(self) -> None:
        """The groups have ended: every copy must have been waited for. Raises VerifyError."""
        if self.pending:
            p = self.pending[0]
            self.batch.fail("a copy is under way when its thread ends: nobody waited for it", p.instr, int(self.batch.me[p.lane[0]]))

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

    def commit(self, on: On) -> None:
        """The copies of these threads since their last group are a group."""
        self.committed[slice(None) if on is None else on] += 1

    def wait(self, on: On, groups: int) -> None:
        """Land what these threads began, but for their newest groups."""
        left: list[_UnderWay] = []
        for p in self.pending:
            lands = p.group < self.committed[p.lane] - groups
            if on is not None:
                lands &= on[p.lane]
            if lands.any():
                self._land(p.kept(lands))
            if not lands.all():
                left.append(p.kept(~lands))
        self.pending = left

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
