"""Copies that go on beside the threads of groups (`copy_async`, `commit`, `wait`), as late as they may be.

What a copy writes lands when its thread waits for it, and not before. From its beginning until then nobody may touch those elements,
the thread itself included, and nobody may change what it reads. After it has landed it counts as a write of its thread at the wait: for
other threads a barrier must follow. To TMA and wgmma it is an ordinary store of its thread: they see it after a proxy_fence that follows
the wait (PTX ISA, "Async proxy": cp.async is performed in the generic proxy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..program.program import Instr
from .ops import Array
from .threads import On, ThreadBatch

Pick = Callable[..., tuple[Array, Array, "Array | None"]]


class CopyEnd(Protocol):
    """The memory that a copy reads or writes (`group_memory.GroupBuffer`)."""

    name: str
    data: Array
    shadow: Any

    def read(self, at: Array, lane: Array, s: Instr) -> Array:
        """The elements at places, read by these threads."""
        ...

    def begin_copy(self, at: Array, lane: Array, s: Instr) -> None:
        """These threads begin copies to places."""
        ...

    def end_copy(self, at: Array, lane: Array, values: Array, s: Instr) -> None:
        """They have waited for them."""
        ...


@dataclass(slots=True)
class _UnderWay:
    """Elements that one instruction began to copy, for all threads: where to, the lane of each, the number of its group among its
    thread's, and what comes from where (−1: zeros are written)."""

    instr: Instr
    to: CopyEnd
    at: Array
    lane: Array
    group: Array
    values: Array
    source: CopyEnd
    read: Array

    def some(self, which: Array) -> _UnderWay:
        """Some of the elements."""
        parts = (self.at[which], self.lane[which], self.group[which], self.values[which])
        return _UnderWay(self.instr, self.to, *parts, self.source, self.read[which])


class PendingCopies:
    """The copies of one phase's threads."""

    def __init__(self, batch: ThreadBatch) -> None:
        self.batch = batch
        self.committed: Array = np.zeros(0, np.int64)
        """Groups that each thread has closed."""
        self.pending: list[_UnderWay] = []

    def begin(self) -> None:
        """Other groups of threads run from now on."""
        self.committed, self.pending = np.zeros(self.batch.count, np.int64), []

    def end(self) -> None:
        """They have ended: every copy must have been waited for. Raises VerifyError."""
        if self.pending:
            p = self.pending[0]
            who = int(self.batch.me[p.lane[0]])
            self.batch.fail("a copy is under way when its thread ends: nobody waited for it", p.instr, who)

    def start(self, s: Instr, pieces: tuple[CopyEnd, CopyEnd], picks: tuple[Pick, Pick], nothing: Any, storage: Any) -> Callable[..., None]:
        """A function (on, to, source[, mask]) that begins copies. `pieces` and `picks`: of the destination and the source."""
        (to, source), (pick_to, pick_source), batch, lanes = pieces, picks, self.batch, s.copy.lanes

        def run(on: On, at: Any, start: Any, mask: Any = None) -> None:
            wide = None if mask is None else np.broadcast_to(mask, batch.count)
            i, lane, _ = pick_to(on, at, None)
            j, reader, _ = pick_source(on, start, wide[:, None] if wide is not None and lanes > 1 else wide)
            values, read = np.full(len(i), nothing, storage), np.full(len(i), -1, np.int64)
            taken = np.ones(len(i), bool) if wide is None else wide[lane]
            values[taken], read[taken] = source.read(j, reader, s), j
            to.begin_copy(i, lane, s)
            self.pending.append(_UnderWay(s, to, i, lane, self.committed[lane], values, source, read))

        return run

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
                self._land(p.some(lands))
            if not lands.all():
                left.append(p.some(~lands))
        self.pending = left

    def _land(self, p: _UnderWay) -> None:
        """Make these elements their threads' writes. Raises VerifyError where what they read has changed since."""
        if p.source.shadow is not None:
            bits = f"u{p.values.itemsize}"
            changed = (p.source.data[p.read].view(bits) != p.values.view(bits)) & (p.read >= 0)
            if changed.any():
                k = int(changed.argmax())
                message = f"{p.source.name}[{int(p.read[k])}] was changed while it was copied"
                self.batch.fail(message, p.instr, int(self.batch.me[p.lane[k]]))
        p.to.end_copy(p.at, p.lane, p.values, p.instr)
