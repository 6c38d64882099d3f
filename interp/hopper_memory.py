"""Memory of one group in a phase with asynchronous copies: shared memory by bytes (`cluster.SharedBytes`), the rest as any group has it;
and the boxes that TMA copies between arrays and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.errors import VerifyError
from ..program.hopper import BoxLoad, BoxStore, MapNumbers
from ..program.program import Instr, Mem
from .cluster import Flight
from .group_memory import GroupBuffer, GroupMemory
from .hopper_batch import HopperBatch
from .ops import Array
from .tensor_core_units import box_addresses
from .threads import On


class SharedPiece(GroupBuffer):
    """Elements of one type in a group's shared memory, whose places are their first bytes."""

    def __init__(self, memory: HopperMemory, mem: Mem) -> None:
        super().__init__(memory, mem, "shared", np.zeros(0), 0, mem.base, rows=memory.batch.threads)
        self.batch, self.unit = memory.batch, mem.dtype.size

    def begin(self) -> None:
        """Another group runs from now on; its shared memory comes with its cluster."""

    def places(self, i: Array, lane: Array) -> Array:
        """The first byte of each element."""
        return self.base + i * self.unit

    def check_inside(self, i: Array, lane: Array, s: Instr) -> None:
        """That bytes are there."""
        self.batch.cluster.statement = s
        first = self.places(i, lane)
        outside = (first < 0) | (first + self.unit > self.batch.memory.size)
        if outside.any():
            k = int(outside.argmax())
            self._wrong(f"byte {first[k]} is outside the {self.batch.memory.size} bytes of shared memory", lane[k : k + 1])

    def check_aligned(self, first: Array, lane: Array, align: int, s: Instr) -> None:
        """That elements begin at multiples of `align` bytes."""
        self.batch.cluster.statement = s
        start = self.places(first, lane)
        if (start % align).any():
            k = int((start % align != 0).argmax())
            self._wrong(f"byte {start[k]} of shared memory is not aligned to {align} bytes", lane[k : k + 1])

    def _wrong(self, message: str, lane: Array) -> None:
        self.batch.cluster.wrong(message, int(self.batch.cluster.thread(self.batch.rank, lane)[0]))

    def _bytes(self, at: Array, lane: Array) -> tuple[Array, Array]:
        """(the bytes of elements, who touches each)."""
        who = self.batch.cluster.thread(self.batch.rank, lane)
        return self.batch.memory.bytes_of(at, self.unit), np.repeat(who, self.unit)

    def read(self, at: Array, lane: Array, s: Instr) -> Array:
        """The elements, read by these threads."""
        self.batch.memory.read(*self._bytes(at, lane))
        return self.batch.memory.get(at, self.dtype)

    def write(self, at: Array, lane: Array, values: object, s: Instr) -> None:
        """These threads write the elements."""
        self.batch.memory.write(*self._bytes(at, lane))
        self.batch.memory.put(at, np.asarray(values), self.dtype)

    def begin_copy(self, at: Array, lane: Array, s: Instr) -> None:
        """These threads begin copies to the elements."""
        self.batch.memory.begin_store(*self._bytes(at, lane))

    def end_copy(self, at: Array, lane: Array, values: Array, s: Instr) -> None:
        """They have waited for them: the copies are stores of now."""
        self.batch.memory.put(at, values, self.dtype)
        self.batch.memory.end_store(*self._bytes(at, lane))


class HopperMemory(GroupMemory):
    """Makes the access functions of the phase for one group of a cluster."""

    batch: HopperBatch

    def _own(self, mem: Mem) -> GroupBuffer:
        return SharedPiece(self, mem) if mem.space == "shared" else super()._own(mem)


@dataclass(slots=True)
class BoxMover:
    """The boxes of one group. `maps`: the Program's for the symbols of this run; `pieces`: the parameters that they see."""

    batch: HopperBatch
    maps: Sequence[MapNumbers]
    pieces: Sequence[GroupBuffer]

    def load(self, on: On, s: Instr, box: BoxLoad, slot: Any, at: Any, *coordinates: Any) -> None:
        """Each thread sends for a box."""
        self.batch.who(on, s)
        for lane in self.batch.lanes_of(on).tolist():
            self._load(lane, s, box, *self._own(lane, slot, at, *coordinates))

    def _own(self, lane: int, *values: Any) -> list[int]:
        """What one thread has of values."""
        return [int(np.broadcast_to(v, self.batch.count)[lane]) for v in values]

    def _load(self, lane: int, s: Instr, box: BoxLoad, barrier: int, at: int, *first: int) -> None:
        batch, cluster, m = self.batch, self.batch.cluster, self.maps[box.map].map
        who, start = self._begin(lane, box.map, box.to, at)
        there = box_addresses(start, m.box, m.dtype.size, m.swizzle)
        ranks = [r for r in range(len(cluster.items)) if box.multicast >> r & 1] if box.multicast else [batch.rank]
        for rank in ranks:
            state = batch.find(box.bar, barrier, who, rank)
            memory = cluster.memories[rank]
            touched = memory.bytes_of(there, m.dtype.size)
            memory.send_for(touched, int(who[0]), state.actor)

            def land(rank: int = rank, touched: Array = touched) -> None:
                if cluster.over[rank]:
                    cluster.statement = s
                    cluster.wrong(f"group {rank} of the cluster has ended: end with a cluster_barrier", int(who[0]))
                state, memory = cluster.barriers[rank][box.bar.base + 8 * barrier], cluster.memories[rank]
                memory.put(there, self._read(box.map, first, s, int(who[0])), m.dtype)
                memory.land(touched, state.actor)
                state.told = np.maximum(state.told, cluster.clocks.told(np.array([state.actor])))
                state.bytes -= m.bytes
                state.settle()

            cluster.flights.append(Flight(land, f"a box of map {box.map} by {box.bar}"))

    def store(self, on: On, s: Instr, box: BoxStore, at: Any, *coordinates: Any) -> None:
        """Each thread writes a box to its array; shared memory is held until the thread waits."""
        self.batch.who(on, s)
        for lane in self.batch.lanes_of(on).tolist():
            self._store(lane, box, *self._own(lane, at, *coordinates))

    def _store(self, lane: int, box: BoxStore, at: int, *first: int) -> None:
        batch, m = self.batch, self.maps[box.map].map
        who, start = self._begin(lane, box.map, box.source, at)
        there = box_addresses(start, m.box, m.dtype.size, m.swizzle)
        touched = batch.memory.bytes_of(there, m.dtype.size)
        batch.memory.hold(touched, who, "TMA")
        groups = batch.stores.setdefault(lane, [[]])
        groups[-1].append(touched)
        inside, where = self._places(box.map, first)
        piece = self.pieces[box.map]
        self._inside(box.map, where[inside], int(who[0]))
        if piece.shadow is not None:
            me = np.full(int(inside.sum()), batch.items[0] * batch.threads + lane)
            piece.shadow.write(where[inside], me, int(np.max(batch.epoch)), 0)
        piece.data[where[inside]] = batch.memory.get(there, m.dtype)[inside]

    def commit(self, on: On, s: Instr) -> None:
        """Threads' stores so far are a group."""
        for lane in self.batch.lanes_of(on).tolist():
            self.batch.stores.setdefault(lane, [[]]).append([])

    def wait(self, on: On, s: Instr) -> None:
        """Threads wait until TMA has read the boxes of older groups."""
        batch = self.batch
        for lane, who in zip(batch.lanes_of(on).tolist(), batch.who(on, s).tolist(), strict=True):
            groups = batch.stores.setdefault(lane, [[]])
            keep = max(0, len(groups) - 1 - s.number)
            for held in groups[:keep]:
                for touched in held:
                    batch.memory.let_go(touched, who)
            batch.stores[lane] = groups[keep:]

    # places -------------------------------------------------------------------------------------------------------------
    def _begin(self, lane: int, number: int, base: int, at: int) -> tuple[Array, int]:
        """(the thread's actor, the first byte of the box in shared memory)."""
        batch, m = self.batch, self.maps[number].map
        who = batch.cluster.thread(batch.rank, np.array([lane]))
        start = base + at * m.dtype.size
        align = 8 * m.swizzle or 128
        if start % align:
            batch.cluster.wrong(f"a box with swizzle {m.swizzle} starts at a multiple of {align} bytes, not at {start}", int(who[0]))
        if start < 0 or start + m.bytes > batch.memory.size:
            batch.cluster.wrong(f"a box at byte {start} leaves the shared memory", int(who[0]))
        return who, start

    def _places(self, number: int, first: Sequence[int]) -> tuple[Array, Array]:
        """For the elements of a box (innermost dimension last): whether each is in the array, and its place in the parameter."""
        numbers = self.maps[number]
        m, size = numbers.map, numbers.map.dtype.size
        inside, where = np.ones(m.box[::-1], bool), np.full(m.box[::-1], numbers.offset // size)
        steps = (1, *(p // size for p in numbers.pitches))
        for i, (begin, extent, step) in enumerate(zip(first, numbers.dims, steps, strict=True)):
            shape = [1] * len(m.box)
            shape[len(m.box) - 1 - i] = m.box[i]
            x = (begin + np.arange(m.box[i])).reshape(shape)
            inside &= (x >= 0) & (x < extent)
            where = where + x * step
        return inside, where

    def _read(self, number: int, first: Sequence[int], s: Instr, who: int) -> Array:
        """The elements of a box; zeros outside the array."""
        piece, (inside, where) = self.pieces[number], self._places(number, first)
        self._inside(number, where[inside], who)
        if (
            piece.shadow is not None
            and not ((piece.shadow.stamps[where[inside]] > 0) & (piece.shadow.stamps[where[inside]] <= piece.shadow.before)).all()
        ):
            self.batch.cluster.statement = s
            self.batch.cluster.wrong(f"TMA reads {piece.name}, which no earlier phase has written there", who)
        out = np.zeros(inside.shape, piece.data.dtype)
        out[inside] = piece.data[where[inside]]
        return out

    def _inside(self, number: int, where: Array, who: int) -> None:
        piece = self.pieces[number]
        if where.size and (where.min() < 0 or where.max() >= piece.size):
            self.batch.cluster.wrong(f"map {number} reaches outside the {piece.size} elements of {piece.name}", who)


def aligned(address: int, name: str) -> None:
    """Raise VerifyError where a parameter's address does not suit TMA."""
    if address % 16:
        raise VerifyError(f"TMA wants {name} at a multiple of 16 bytes, not at {address:#x}")
