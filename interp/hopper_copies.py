"""`copy_async` in a phase with Hopper's units: as `async_copies` has it, into shared memory by bytes.

To TMA and wgmma such a copy is an ordinary store of its thread: they see it after a proxy_fence that follows the wait (PTX ISA,
"Async proxy": cp.async is performed in the generic proxy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dtypes import DType
from ..program.program import Instr
from .async_copies import Pick
from .group_buffer import GroupBuffer
from .hopper_batch import HopperBatch
from .ops import Array, zero
from .pending_copies import PendingCopies
from .threads import On


@dataclass(slots=True)
class _Copied:
    """Elements that one instruction began to copy: the first byte of each, its lane, its lane's group, and what comes from where."""

    instr: Instr
    dtype: DType
    at: Array
    lane: Array
    group: Array
    values: Array
    source: GroupBuffer
    read: Array

    def kept(self, which: Array) -> _Copied:
        """Some of the elements."""
        parts = (self.at[which], self.lane[which], self.group[which], self.values[which])
        return _Copied(self.instr, self.dtype, *parts, self.source, self.read[which])


class HopperCopies(PendingCopies[_Copied]):
    """The copies of one group's threads."""

    batch: HopperBatch

    def __init__(self, batch: HopperBatch, as_twin: bool) -> None:
        super().__init__(batch)
        self.as_twin = as_twin

    def start(self, s: Instr, to: Pick, source: GroupBuffer, pick: Pick) -> Callable[..., None]:
        """A function (on, to, source[, mask]) that begins copies. `to` finds bytes, `pick` elements of the source."""
        batch, c, size = self.batch, s.copy, s.copy.to.dtype.size
        nothing = zero(c.to.dtype, 1, self.as_twin)

        def run(on: On, at: Any, start: Any, mask: Any = None) -> None:
            first, who, _ = to(on, at, None)
            lane = who - batch.cluster.thread(batch.rank, np.array([0]))
            taken = np.ones(len(first), bool) if mask is None else np.broadcast_to(mask, batch.count)[lane]
            j, reader, _ = pick(on, start, None if mask is None else np.broadcast_to(mask, batch.count)[:, None][..., : c.lanes])
            if source.shadow is not None:
                source.shadow.read(j, batch.me[reader], int(np.max(batch.epoch)), 0)
            values, read = np.full(len(first), nothing, source.data.dtype), np.full(len(first), -1, np.int64)
            values[taken], read[taken] = source.data[j], j
            batch.memory.begin_store(batch.memory.bytes_of(first, size), np.repeat(who, size))
            self.pending.append(_Copied(s, c.to.dtype, first, lane, self.committed[lane], values, source, read))

        return run

    def _land(self, p: _Copied) -> None:
        memory, size = self.batch.memory, p.dtype.size
        if p.source.shadow is not None:
            changed = (p.source.data[p.read] != p.values) & (p.values == p.values) & (p.read >= 0)
            if changed.any():
                k = int(changed.argmax())
                message = f"{p.source.name}[{int(p.read[k])}] was changed while it was copied"
                self.batch.fail(message, p.instr, int(self.batch.me[p.lane[k]]))
        who = np.repeat(self.batch.cluster.thread(self.batch.rank, p.lane), size)
        memory.put(p.at, p.values, p.dtype)
        memory.end_store(memory.bytes_of(p.at, size), who)
