"""Memory of one group in a phase with asynchronous copies: shared memory by bytes (`shared_bytes`), the rest as any group has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dtypes import DType
from ..program.ops import CONSECUTIVE, MATRIX_LOADS
from ..program.program import Instr, Mem
from .async_copies import Pick
from .collective import matrix_reader
from .group_buffer import GroupBuffer
from .group_memory import GroupMemory
from .hopper_batch import HopperBatch
from .memory import WorkerMemory
from .ops import Array, zero
from .pending_copies import PendingCopies
from .threads import On

# hopper copies ----------------------------------------------------------------------------------------------
# `copy_async` in a phase with Hopper's units: as `async_copies` has it, into shared memory by bytes.
#
# To TMA and wgmma such a copy is an ordinary store of its thread: they see it after a proxy_fence that follows the wait
# (PTX ISA, "Async proxy": cp.async is performed in the generic proxy).


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


# hopper memory ----------------------------------------------------------------------------------------------
class HopperMemory(GroupMemory):
    """Makes the access functions of the phase for one group of a cluster."""

    batch: HopperBatch

    def __init__(self, memory: WorkerMemory, batch: HopperBatch, accesses: Sequence[Instr], races: bool = True) -> None:
        super().__init__(memory, batch, accesses, races)
        self.copied = HopperCopies(batch, memory.as_twin)

    def begin(self) -> None:
        """Another group runs from now on; its shared memory comes with its cluster."""
        self.copied.begin()
        pieces, self.pieces = self.pieces, {k: p for k, p in self.pieces.items() if k[0] != "shared"}
        super().begin()
        self.pieces = pieces

    def access(self, s: Instr) -> Callable[..., Any]:
        """The function of an access."""
        if s.op != "copy_async":
            return super().access(s)
        c, piece = s.copy, self.piece(s.copy.source)
        return self.copied.start(s, self._bytes(s, c.to, c.lanes), piece, self.picker(s, c.source, piece, c.lanes))

    def load(self, s: Instr) -> Callable[..., Any]:
        """A function (on, index[, mask]) → value."""
        if s.mem.space != "shared":
            return super().load(s)
        assert s.out is not None
        if s.op in MATRIX_LOADS:
            return self._matrices(s, s.out.lanes)
        mem, lanes, batch = s.mem, s.out.lanes, self.batch
        nothing, pick = zero(mem.dtype, 1, self.memory.as_twin), self._bytes(s, mem, lanes)
        shape = () if lanes == 1 else (lanes,)

        def run(on: On, at: Any, mask: Any = None) -> Any:
            first, who, active = pick(on, at, mask)
            batch.memory.read(batch.memory.bytes_of(first, mem.dtype.size), np.repeat(who, mem.dtype.size))
            found = batch.memory.get(first, mem.dtype)
            if active is None:
                return found.reshape(batch.count, *shape)
            out = np.full((batch.count, *shape), nothing, found.dtype)
            out[active] = found
            return out

        return run

    def _matrices(self, s: Instr, lanes: int) -> Callable[..., Any]:
        mem, batch, find = s.mem, self.batch, matrix_reader(s, lanes)
        unit = mem.dtype.size

        def run(on: On, at: Any) -> Any:
            rows, cluster = find(batch, on, at), batch.cluster
            cluster.statement = s
            who = [cluster.thread(batch.rank, lane) for lane in (rows.namer, rows.getter)]
            at_byte, start = mem.base + rows.element * unit, mem.base + rows.first * unit
            if (start % 16).any():
                k = int((start % 16 != 0).argmax())
                cluster.wrong(f"byte {start[k]} of shared memory is not aligned to 16 bytes", int(who[0][k]))
            outside = (at_byte < 0) | (at_byte + unit > batch.memory.size)
            if outside.any():
                k = int(outside.argmax())
                cluster.wrong(f"byte {at_byte[k]} is outside the {batch.memory.size} bytes of shared memory", int(who[0][k]))
            for w in who:
                batch.memory.read(batch.memory.bytes_of(at_byte, unit), np.repeat(w, unit))
            return rows.dealt(batch.memory.get(at_byte, mem.dtype))

        return run

    def store(self, s: Instr) -> Callable[..., None]:
        """A function (on, index, value[, mask]) that writes."""
        if s.mem.space != "shared":
            return super().store(s)
        mem, lanes, batch = s.mem, max(a.lanes for a in s.args[:2]), self.batch
        pick, shape = self._bytes(s, mem, lanes), () if lanes == 1 else (lanes,)

        def run(on: On, at: Any, value: Any, mask: Any = None) -> None:
            first, who, active = pick(on, at, mask)
            batch.memory.write(batch.memory.bytes_of(first, mem.dtype.size), np.repeat(who, mem.dtype.size))
            value = np.broadcast_to(value, (batch.count, *shape))
            batch.memory.put(first, value.reshape(-1) if active is None else value[active], mem.dtype)

        return run

    def _bytes(self, s: Instr, mem: Mem, lanes: int) -> Callable[..., tuple[Array, Array, Array | None]]:
        """A function (on, index, mask) → (first byte of each element, the actor of each, who takes part or None for all)."""
        batch, wide = self.batch, lanes > 1
        consecutive, unit = s.op in CONSECUTIVE or s.op == "copy_async", mem.dtype.size
        steps: Any = np.arange(lanes) + mem.offset if wide and consecutive else mem.offset
        align = mem.align if consecutive else 1

        def pick(on: On, at: Any, mask: Any) -> tuple[Array, Array, Array | None]:
            shape = (batch.count, lanes) if wide else (batch.count,)
            i = np.asarray(at)
            i = np.broadcast_to((i[..., None] if wide and consecutive else i) + steps, shape)
            active = self._active(on, mask, wide, shape)
            lane = np.repeat(batch.lane, lanes) if wide else batch.lane
            if active is None:
                i = i.reshape(-1)
            else:
                i, lane = i[active], lane.reshape(shape)[active]
            who = batch.cluster.thread(batch.rank, lane)
            batch.cluster.statement = s
            first = mem.base + i * unit
            outside = (first < 0) | (first + unit > batch.memory.size)
            if outside.any():
                k = int(outside.argmax())
                batch.cluster.wrong(f"byte {first[k]} is outside the {batch.memory.size} bytes of shared memory", int(who[k]))
            if align > unit and i.size:
                start = mem.base + (np.broadcast_to(at, batch.count)[lane] + mem.offset) * unit
                if (start % align).any():
                    k = int((start % align != 0).argmax())
                    batch.cluster.wrong(f"byte {start[k]} of shared memory is not aligned to {align} bytes", int(who[k]))
            return first, who, active

        return pick
