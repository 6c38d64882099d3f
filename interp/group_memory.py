"""The memory of thread groups in the interpreter: accesses of many threads at once, each element checked.

Parameters and the workspace are the arrays that phases of single workers use too (`memory`); shared memory has an array with a
row a group, scratch one with a row a thread. What a row is not meant to hold, nobody can reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..ir.dtypes import DType
from ..program.ops import ASYNCS, CONSECUTIVE, MATRIX_LOADS
from ..program.program import Instr, Mem, touched
from ..program.text import locate
from .async_copies import CopiesUnderWay
from .collective import matrix_reader
from .group_buffer import GroupBuffer
from .memory import WorkerMemory
from .ops import Array, zero
from .shadow import Readers, Shadow
from .threads import On, ThreadBatch


class GroupMemory:
    """Makes the access functions of one phase's instructions; `begin` clears what belongs to single groups and threads."""

    def __init__(self, memory: WorkerMemory, batch: ThreadBatch, accesses: Sequence[Instr], races: bool = True) -> None:
        """`races` false: threads of one group count as one thread where it is told who disturbed whom."""
        self.memory, self.batch, self.accesses, self.races = memory, batch, accesses, races
        self.numbers = {id(s): i for i, s in enumerate(accesses)}
        self.pieces: dict[tuple[str, int, DType], GroupBuffer] = {}
        self.mems = [m for s in accesses for m, _ in touched(s)]
        every = [(m.space, m.base, written) for s in accesses for m, written in touched(s)]
        self.both = {(space, base) for space, base, written in every if written} & {e[:2] for e in every if not e[2]}
        self.copies = CopiesUnderWay(self, batch, memory.as_twin)

    def begin(self) -> None:
        """Other groups run from now on: shared memory and scratch hold nothing."""
        batch, clock = self.batch, self.batch.clock
        self.copies.begin()
        for (space, _, _), p in self.pieces.items():
            if space == "scratch":
                p.data = _room(p.data, batch.count * p.size)
                p.written = np.zeros(batch.count * p.size, bool)
            elif space == "shared":
                size = batch.count // batch.threads * p.size
                p.data = _room(p.data, size)
                if p.shadow is None or len(p.shadow.stamps) < size:
                    p.shadow = self._shadow(np.zeros(size, np.int64), ("shared", p.base), fresh=True)
                p.shadow.before = clock.now - 1
            elif p.shadow is not None:
                p.shadow.before = clock.before

    # Judge ----------------------------------------------------------------------------------------------------------
    def thread(self, who: int) -> str:
        """`thread 3 of item 1`."""
        return self.batch.name(who)

    def statement(self, number: int) -> str:
        """The text of an access."""
        return locate(self.memory.program, self.accesses[number])

    def fail(self, piece: object, at: int, message: str, statement: int, who: int) -> NoReturn:
        """Raise VerifyError about an element of the piece whose shadow is given."""
        found = next(p for p in self.pieces.values() if p.shadow is piece)
        self._wrong(found, at % found.size, message, self.accesses[statement], who)

    def _wrong(self, p: GroupBuffer, at: int, message: str, s: Instr, who: int) -> NoReturn:
        self.batch.fail(f"{p.name}[{at}]{message}", s, who)

    # pieces ---------------------------------------------------------------------------------------------------------
    def piece(self, mem: Mem) -> GroupBuffer:
        """The piece that an access is in."""
        key = (mem.space, mem.base, mem.dtype)
        found = self.pieces.get(key)
        if found is None:
            found = self.pieces[key] = self._shared(mem) if mem.space in ("param", "work") else self._own(mem)
        return found

    def _shared(self, mem: Mem) -> GroupBuffer:
        region = self.memory.region(mem)
        out = GroupBuffer(region.name, region.data, len(region.data), region.base)
        if region.stamps is not None:
            out.shadow = self._shadow(region.stamps, (mem.space, mem.base), crosses=True)
        return out

    def _own(self, mem: Mem) -> GroupBuffer:
        program = self.memory.program
        total = program.scratch if mem.space == "scratch" else program.shared
        bases = {m.base for m in self.mems if m.space == mem.space}
        end = min((b for b in bases if b > mem.base), default=total)
        size = max(0, (min(end, total) - mem.base) // mem.dtype.size)
        rows = 1 if mem.space == "scratch" else self.batch.threads
        return GroupBuffer(f"{mem.space}@{mem.base}", np.zeros(0, self.memory.storage(mem.dtype)), size, mem.base, rows=rows)

    def _shadow(self, stamps: Array, key: tuple[str, int], fresh: bool = False, crosses: bool = False) -> Shadow:
        clock = self.batch.clock
        out = Shadow(self, stamps, self.batch.threads, fresh, clock.before, clock.before + 1)
        if key in self.both:
            out.readers = Readers(len(stamps), 1)
            out.crossing = Readers(len(stamps), self.batch.threads) if crosses else None
        return out

    def number(self, s: Instr) -> int:
        """The number of an access."""
        return self.numbers[id(s)]

    def epoch(self, lane: Array) -> Array | int:
        """The epochs of these threads."""
        return _at(self.batch.epoch, lane)

    def who(self, lane: Array) -> Array:
        """Who these threads are where it is told who disturbed whom."""
        me: Array = self.batch.me[lane]
        return me if self.races else me // self.batch.threads * self.batch.threads

    # access functions -----------------------------------------------------------------------------------------------
    def access(self, s: Instr) -> Callable[..., Any]:
        """The function of an access."""
        return self.copies.start(s) if s.op == "copy_async" else self.store(s) if s.out is None else self.load(s)

    def load(self, s: Instr) -> Callable[..., Any]:
        """A function (on, index[, mask]) → value."""
        assert s.out is not None
        if s.op in MATRIX_LOADS:
            return self._matrices(s, s.out.lanes)
        piece, mem, lanes = self.piece(s.mem), s.mem, s.out.lanes
        number, batch, shape = self.numbers[id(s)], self.batch, () if lanes == 1 else (lanes,)
        nothing, pick = zero(mem.dtype, 1, self.memory.as_twin), self.picker(s, s.mem, piece, lanes)
        free = piece.rows == 0 and piece.shadow is None

        def run(on: On, at: Any, mask: Any = None) -> Any:
            if free and mask is None and np.ndim(at) == 0:  # all threads read one place of an input
                i, _, _ = pick(on, at, None, True)
                return piece.data[i] if lanes > 1 else piece.data[i[0]]
            i, lane, active = pick(on, at, mask)
            if piece.written is not None and not (filled := piece.written[i]).all():
                k = int(filled.argmin())
                self._wrong(piece, int(i[k]) % piece.size, " is read before it is written", s, int(batch.me[lane[k]]))
            if piece.shadow is not None:
                piece.shadow.read(i, self.who(lane), self.epoch(lane), number)
            if active is None:
                return piece.data[i].reshape(batch.count, *shape)
            out = np.full((batch.count, *shape), nothing, piece.data.dtype)
            out[active] = piece.data[i]
            return out

        return run

    def _matrices(self, s: Instr, lanes: int) -> Callable[..., Any]:
        """A function (on, index) → elements: `ldmatrix`. Both the lane that names a row and those that get its elements count as readers,
        so that neither may have written it without a barrier since."""
        piece, mem, batch, number = self.piece(s.mem), s.mem, self.batch, self.numbers[id(s)]
        find = matrix_reader(s, lanes)

        def run(on: On, at: Any) -> Any:
            rows = find(batch, on, at)
            assert piece.shadow is not None
            for bad, why in (
                ((piece.base + rows.first * mem.dtype.size) % 16 != 0, " is not aligned to 16 bytes"),
                ((rows.element < 0) | (rows.element >= piece.size), f" is outside its {piece.size} elements"),
            ):
                if bad.any():
                    k = int(bad.argmax())
                    self._wrong(piece, int(rows.element[k]), why, s, int(batch.me[rows.namer[k]]))
            i = rows.element + rows.namer // batch.threads * piece.size
            for who in (rows.namer, rows.getter):
                piece.shadow.read(i, self.who(who), self.epoch(who), number)
            return rows.dealt(piece.data[i])

        return run

    def store(self, s: Instr) -> Callable[..., None]:
        """A function (on, index, value[, mask]) that writes."""
        piece, lanes, batch, number = self.piece(s.mem), max(a.lanes for a in s.args[:2]), self.batch, self.numbers[id(s)]
        shape, pick = () if lanes == 1 else (lanes,), self.picker(s, s.mem, piece, lanes)

        def run(on: On, at: Any, value: Any, mask: Any = None) -> None:
            i, lane, active = pick(on, at, mask)
            if piece.written is not None:
                piece.written[i] = True
            elif piece.shadow is None:
                self.batch.fail(f"{piece.name} is an input and cannot be written", s, int(batch.me[0]))
            else:
                piece.shadow.write(i, self.who(lane), self.epoch(lane), number)
            if np.ndim(value):
                value = np.broadcast_to(value, (batch.count, *shape))
                value = value.reshape(-1) if active is None else value[active]
            piece.data[i] = value

        return run

    def picker(self, s: Instr, mem: Mem, piece: GroupBuffer, lanes: int) -> Callable[..., tuple[Array, Array, Array | None]]:
        """A function (on, index, mask[, one thread for all]) → (elements, the thread lane of each, which of (threads, lanes) take
        part or None for all)."""
        batch, wide = self.batch, lanes > 1
        consecutive = s.op in CONSECUTIVE | ASYNCS
        steps: Any = np.arange(lanes) + mem.offset if wide and consecutive else mem.offset
        unit, align = mem.dtype.size, mem.align if consecutive else 1
        per_group = piece.rows == batch.threads

        def pick(on: On, at: Any, mask: Any, single: bool = False) -> tuple[Array, Array, Array | None]:
            i = np.asarray(at)
            i = (i[..., None] if wide and consecutive else i) + steps
            if single:
                i, lane, active = i.reshape(-1), batch.lane[:1] if on is None else batch.lane[on][:1], None
                lane = np.repeat(lane, lanes)
            else:
                shape = (batch.count, lanes) if wide else (batch.count,)
                i, active = np.broadcast_to(i, shape), self._active(on, mask, wide, shape)
                if active is None:
                    i, lane = i.reshape(-1), np.repeat(batch.lane, lanes) if wide else batch.lane
                else:
                    i, lane = i[active], np.nonzero(active)[0]
            if i.size and (i.min() < 0 or i.max() >= piece.size):
                k = int(((i < 0) | (i >= piece.size)).argmax())
                self._wrong(piece, int(i[k]), f" is outside its {piece.size} elements", s, int(batch.me[lane[k]]))
            if align > unit:
                self._aligned(s, mem, piece, at, lane)
            if piece.rows:
                i = i + (lane // batch.threads if per_group else lane) * piece.size
            return i, lane, active

        return pick

    @staticmethod
    def _active(on: On, mask: Any, wide: bool, shape: tuple[int, ...]) -> Array | None:
        if mask is None:
            return None if on is None else np.broadcast_to(on[:, None] if wide else on, shape)
        active = np.broadcast_to(mask, shape)
        if on is not None:
            active = active & (on[:, None] if wide else on)
        return None if active.all() else active

    def _aligned(self, s: Instr, mem: Mem, piece: GroupBuffer, at: Any, lane: Array) -> None:
        """Checks the address of the first of a thread's consecutive elements, active or not."""
        first, align = np.broadcast_to(at, self.batch.count)[lane] + mem.offset, mem.align
        off = (piece.base + first * mem.dtype.size) % align != 0
        if off.any():
            k = int(off.argmax())
            self._wrong(piece, int(first[k]), f" is not aligned to {align} bytes", s, int(self.batch.me[lane[k]]))


def _at(epoch: Array | int, lane: Array) -> Array | int:
    return epoch if isinstance(epoch, int) else epoch[lane]


def _room(data: Array, size: int) -> Array:
    return data if len(data) >= size else np.zeros(size, data.dtype)
