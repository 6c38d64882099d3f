"""The memory of thread groups in the interpreter: accesses of many threads at once, each element checked.

Parameters and the workspace are the arrays that phases of single workers use too (`memory`); shared memory has an array with a
row a group, scratch one with a row a thread. What a row is not meant to hold, nobody can reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np

from ..ir.dtypes import DType
from ..program.listing import locate
from ..program.ops import ASYNCS, CONSECUTIVE, MATRIX_LOADS
from ..program.program import Instr, Mem, touched
from .ops import Array, zero
from .tensor_core_units import matrix_reader
from .threads import On, ThreadBatch
from .worker_memory import WorkerMemory

# async copies ---------------------------------------------------------------------------------------------------------
#
# Copies that go on beside the threads of groups (`copy_async`, `commit`, `wait`), as late as they may be.
#
# What a copy writes lands when its thread waits for it, and not before. From its beginning until then nobody may
# touch those elements, the thread itself included, and nobody may change what it reads. After it has landed it counts
# as a write of its thread at the wait: for other threads a barrier must follow. To TMA and wgmma it is an ordinary
# store of its thread: they see it after a proxy_fence that follows the wait (PTX ISA, "Async proxy": cp.async is
# performed in the generic proxy).


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


# group memory ---------------------------------------------------------------------------------------------------------


class Judge(Protocol):
    """Who words a finding. Threads are numbered through all groups of a phase, statements in the order of the phase's accesses."""

    def thread(self, who: int) -> str:
        """`thread 3 of item 1`."""
        ...

    def statement(self, number: int) -> str:
        """Its text."""
        ...

    def fail(self, piece: object, at: int, message: str, statement: int, who: int) -> NoReturn:
        """Raise VerifyError about element `at` of a piece of memory."""
        ...


class Readers:
    """The last reader of each element and another one, both within one stamp. Threads of one `unit` (1: a thread; else a group of
    so many) count as one reader."""

    def __init__(self, size: int, unit: int) -> None:
        self.unit = unit
        self.stamp, self.who, self.stmt = (np.zeros(size, np.int64) for _ in range(3))
        self.other_stamp, self.other_who, self.other_stmt = (np.zeros(size, np.int64) for _ in range(3))

    def note(self, at: Array, me: Array, stamp: Array | int, stmt: int) -> None:
        """These threads read these elements."""
        unit, before = self.unit, self.who[at]
        self._other(at, before, stamp, self.stmt[at], (self.stamp[at] == stamp) & (before // unit != me // unit))
        self.stamp[at], self.who[at], self.stmt[at] = stamp, me, stmt
        self._other(at, me, stamp, stmt, self.who[at] // unit != me // unit)

    def _other(self, at: Array, who: Array, stamp: Array | int, stmt: Array | int, where: Array) -> None:
        if where.any():
            at = at[where]
            self.other_stamp[at] = stamp if isinstance(stamp, int) else stamp[where]
            self.other_who[at] = who[where]
            self.other_stmt[at] = stmt if isinstance(stmt, int) else stmt[where]

    def besides(self, at: Array, me: Array, stamp: Array | int) -> tuple[int, int, int] | None:
        """(position, reader, its statement) of an element that another than its writer has read; None if there is none."""
        for stamps, who, stmt in ((self.stamp, self.who, self.stmt), (self.other_stamp, self.other_who, self.other_stmt)):
            found = (stamps[at] == stamp) & (who[at] // self.unit != me // self.unit)
            if found.any():
                k = int(found.argmax())
                return k, int(who[at[k]]), int(stmt[at[k]])
        return None


@dataclass(slots=True)
class Shadow:
    """The marks of one region in groups of `threads`.

    `stamps` are the epochs of writes, 0 where nobody wrote. Those up to `before` were made by phases that are complete, or, where the
    region begins anew with each group (`fresh`), by groups that are no more. `readers` and `crossing` (readers of other groups) are
    there where the phase both reads and writes the region; `phase` is a stamp of the latter."""

    judge: Judge
    stamps: Array
    threads: int
    fresh: bool = False
    before: int = 0
    phase: int = 0
    under_way: Array | None = None
    """1 + the thread whose copy to each element is under way, or 0."""
    readers: Readers | None = None
    crossing: Readers | None = None
    who: Array = field(init=False)
    stmt: Array = field(init=False)

    def __post_init__(self) -> None:
        self.who, self.stmt = np.zeros(len(self.stamps), np.int64), np.zeros(len(self.stamps), np.int64)

    def read(self, at: Array, me: Array, epoch: Array | int, stmt: int) -> None:
        """Threads `me` read elements `at`, in statement `stmt`."""
        self._idle(at, me, stmt, "read")
        stamps = self.stamps[at]
        recent = stamps > self.before
        never = ~recent if self.fresh else stamps == 0
        if never.any():
            k = int(never.argmax())
            self.judge.fail(self, int(at[k]), " is read before it is written", stmt, int(me[k]))
        if recent.any():
            self._after_write(at, me, stamps, recent, epoch, stmt, "read")
        if self.readers is not None:
            self.readers.note(at, me, epoch, stmt)
        if self.crossing is not None:
            self.crossing.note(at, me, self.phase, stmt)

    def write(self, at: Array, me: Array, epoch: Array | int, stmt: int) -> None:
        """Threads `me` write elements `at`, in statement `stmt`."""
        self._idle(at, me, stmt, "written")
        stamps, judge = self.stamps[at], self.judge
        recent = stamps > self.before
        if recent.any():
            self._after_write(at, me, stamps, recent, epoch, stmt, "written")
        if self.crossing is not None and (found := self.crossing.besides(at, me, self.phase)):
            k, who, by = found
            judge.fail(
                self,
                int(at[k]),
                f" is read by another item of this phase ({judge.thread(who)}, by `{judge.statement(by)}`)",
                stmt,
                int(me[k]),
            )
        if self.readers is not None and (found := self.readers.besides(at, me, epoch)):
            k, who, by = found
            judge.fail(
                self,
                int(at[k]),
                f" is written with no barrier since {judge.thread(who)} read it by `{judge.statement(by)}`",
                stmt,
                int(me[k]),
            )
        self.stamps[at], self.who[at], self.stmt[at] = epoch, me, stmt
        last = self.who[at]
        twice = last != me
        if twice.any():
            k = int(twice.argmax())
            first, second = sorted((int(last[k]), int(me[k])))
            one = first // self.threads == second // self.threads
            what = " is written by" if one else " is written by two items of one phase:"
            judge.fail(self, int(at[k]), f"{what} {judge.thread(first)} and {judge.thread(second)} at once", stmt, int(me[k]))

    def begin_copy(self, at: Array, me: Array, epoch: Array | int, stmt: int) -> None:
        """Threads `me` begin to copy to elements `at`: they may be written from now on, and nobody touches them until `end_copy`."""
        self.write(at, me, epoch, stmt)
        if self.under_way is None or len(self.under_way) < len(self.stamps):
            self.under_way = np.zeros(len(self.stamps), np.int64)
        self.under_way[at] = 1 + me

    def end_copy(self, at: Array) -> None:
        """The copies to these elements have landed."""
        if self.under_way is not None:
            self.under_way[at] = 0

    def _idle(self, at: Array, me: Array, stmt: int, done: str) -> None:
        """Nobody copies to these elements."""
        if self.under_way is not None and (busy := self.under_way[at]).any():
            k = int((busy != 0).argmax())
            other, by = self.judge.thread(int(busy[k]) - 1), self.judge.statement(int(self.stmt[at[k]]))
            self.judge.fail(self, int(at[k]), f" is {done} while a copy to it is under way ({other}, by `{by}`)", stmt, int(me[k]))

    def _after_write(self, at: Array, me: Array, stamps: Array, recent: Array, epoch: Array | int, stmt: int, done: str) -> None:
        judge, writer = self.judge, self.who[at]
        found = recent & (writer // self.threads != me // self.threads)
        if found.any():
            k = int(found.argmax())
            other = f"{judge.thread(int(writer[k]))}, by `{judge.statement(int(self.stmt[at[k]]))}`"
            what = " was written by another item of this phase" if done == "read" else " is written by two items of one phase"
            judge.fail(self, int(at[k]), f"{what} ({other})", stmt, int(me[k]))
        found = (stamps == epoch) & (writer != me)
        if found.any():
            k = int(found.argmax())
            by = judge.statement(int(self.stmt[at[k]]))
            judge.fail(
                self, int(at[k]), f" is {done} with no barrier since {judge.thread(int(writer[k]))} wrote it by `{by}`", stmt, int(me[k])
            )


class GroupBuffer:
    """One parameter, or one piece of the workspace, of shared memory or of scratch, with rows of `size` elements. `shadow` is for memory
    that threads share, `written` for scratch; an input has neither. `rows`: threads that have a row together; 0: all of them."""

    def __init__(self, memory: GroupMemory, mem: Mem, name: str, data: Array, size: int, base: int = 0, rows: int = 0) -> None:
        self.memory, self.dtype, self.name, self.data, self.size, self.base, self.rows = memory, mem.dtype, name, data, size, base, rows
        self.shadow: Shadow | None = None
        self.written: Array | None = None

    @property
    def is_input(self) -> bool:
        """Whether nobody writes it."""
        return self.shadow is None and self.rows == 0

    def begin(self) -> None:
        """Other groups run from now on: shared memory and scratch hold nothing."""
        memory = self.memory
        batch, clock = memory.batch, memory.batch.clock
        if self.rows == 1:
            self.data = _room(self.data, batch.count * self.size)
            self.written = np.zeros(batch.count * self.size, bool)
        elif self.rows:
            size = batch.count // batch.threads * self.size
            self.data = _room(self.data, size)
            if self.shadow is None or len(self.shadow.stamps) < size:
                self.shadow = memory.shadow(np.zeros(size, np.int64), ("shared", self.base), fresh=True)
            self.shadow.before = clock.now - 1
        elif self.shadow is not None:
            self.shadow.before = clock.before

    def places(self, i: Array, lane: Array) -> Array:
        """The places of elements `i` of these threads' rows."""
        return i + (lane if self.rows == 1 else lane // self.rows) * self.size if self.rows else i

    # checks -----------------------------------------------------------------------------------------------------------
    def check_inside(self, i: Array, lane: Array, s: Instr) -> None:
        """That elements are there."""
        if i.size and (i.min() < 0 or i.max() >= self.size):
            k = int(((i < 0) | (i >= self.size)).argmax())
            self.fail(int(i[k]), f" is outside its {self.size} elements", s, int(lane[k]))

    def check_aligned(self, first: Array, lane: Array, align: int, s: Instr) -> None:
        """That elements begin at multiples of `align` bytes."""
        off = (self.base + first * self.dtype.size) % align != 0
        if off.any():
            k = int(off.argmax())
            self.fail(int(first[k]), f" is not aligned to {align} bytes", s, int(lane[k]))

    def fail(self, at: int, message: str, s: Instr, lane: int) -> NoReturn:
        """Raise VerifyError about an element of a thread's row."""
        self.memory.batch.fail(f"{self.name}[{at}]{message}", s, int(self.memory.batch.me[lane]))

    # accesses, at places ----------------------------------------------------------------------------------------------
    def read(self, at: Array, lane: Array, s: Instr) -> Array:
        """The elements, read by these threads."""
        memory = self.memory
        if self.written is not None and not (filled := self.written[at]).all():
            k = int(filled.argmin())
            self.fail(int(at[k]) % self.size, " is read before it is written", s, int(lane[k]))
        if self.shadow is not None:
            self.shadow.read(at, memory.who(lane), memory.epoch(lane), memory.numbers[id(s)])
        return self.data[at]

    def write(self, at: Array, lane: Array, values: Any, s: Instr) -> None:
        """These threads write the elements."""
        memory = self.memory
        if self.written is not None:
            self.written[at] = True
        elif self.shadow is None:
            memory.batch.fail(f"{self.name} is an input and cannot be written", s, int(memory.batch.me[0]))
        else:
            self.shadow.write(at, memory.who(lane), memory.epoch(lane), memory.numbers[id(s)])
        self.data[at] = values

    def begin_copy(self, at: Array, lane: Array, s: Instr) -> None:
        """These threads begin copies to the elements."""
        memory = self.memory
        assert self.shadow is not None
        self.shadow.begin_copy(at, memory.who(lane), memory.epoch(lane), memory.numbers[id(s)])

    def end_copy(self, at: Array, lane: Array, values: Array, s: Instr) -> None:
        """They have waited for them: the copies are writes of now."""
        assert self.shadow is not None
        self.shadow.end_copy(at)
        self.write(at, lane, values, s)


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
        self.copies = PendingCopies(batch)

    def begin(self) -> None:
        """Other groups run from now on."""
        self.copies.begin()
        for p in self.pieces.values():
            p.begin()

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
        self.batch.fail(f"{found.name}[{at % found.size}]{message}", self.accesses[statement], who)

    # pieces ---------------------------------------------------------------------------------------------------------
    def piece(self, mem: Mem) -> GroupBuffer:
        """The piece that an access is in."""
        key = (mem.space, mem.base, mem.dtype)
        found = self.pieces.get(key)
        if found is None:
            found = self.pieces[key] = self._common(mem) if mem.space in ("param", "work") else self._own(mem)
        return found

    def _common(self, mem: Mem) -> GroupBuffer:
        """A piece that all groups have."""
        region = self.memory.region(mem)
        out = GroupBuffer(self, mem, region.name, region.data, len(region.data), region.base)
        if region.stamps is not None:
            out.shadow = self.shadow(region.stamps, (mem.space, mem.base), crosses=True)
        return out

    def _own(self, mem: Mem) -> GroupBuffer:
        """A piece of which each group, or thread, has one."""
        program = self.memory.program
        total = program.scratch if mem.space == "scratch" else program.shared
        bases = {m.base for m in self.mems if m.space == mem.space}
        end = min((b for b in bases if b > mem.base), default=total)
        size = max(0, (min(end, total) - mem.base) // mem.dtype.size)
        rows = 1 if mem.space == "scratch" else self.batch.threads
        return GroupBuffer(self, mem, f"{mem.space}@{mem.base}", np.zeros(0, self.memory.storage(mem.dtype)), size, mem.base, rows)

    def shadow(self, stamps: Array, key: tuple[str, int], fresh: bool = False, crosses: bool = False) -> Shadow:
        """Who writes and reads a piece."""
        clock = self.batch.clock
        out = Shadow(self, stamps, self.batch.threads, fresh, clock.before, clock.before + 1)
        if key in self.both:
            out.readers = Readers(len(stamps), 1)
            out.crossing = Readers(len(stamps), self.batch.threads) if crosses else None
        return out

    def epoch(self, lane: Array) -> Array | int:
        """The epochs of these threads."""
        epoch = self.batch.epoch
        return epoch if isinstance(epoch, int) else epoch[lane]

    def who(self, lane: Array) -> Array:
        """Who these threads are where it is told who disturbed whom."""
        me: Array = self.batch.me[lane]
        return me if self.races else me // self.batch.threads * self.batch.threads

    # access functions -----------------------------------------------------------------------------------------------
    def access(self, s: Instr) -> Callable[..., Any]:
        """The function of an access."""
        return self._copy(s) if s.op == "copy_async" else self._store(s) if s.out is None else self._load(s)

    def _copy(self, s: Instr) -> Callable[..., None]:
        """A function (on, to, source[, mask]) that begins copies."""
        c = s.copy
        to, source = self.piece(c.to), self.piece(c.source)
        picks = self._picker(s, c.to, to, c.lanes), self._picker(s, c.source, source, c.lanes)
        return self.copies.start(s, (to, source), picks, zero(c.to.dtype, 1, self.memory.as_twin), self.memory.storage(c.to.dtype))

    def _load(self, s: Instr) -> Callable[..., Any]:
        """A function (on, index[, mask]) → value."""
        assert s.out is not None
        if s.op in MATRIX_LOADS:
            return self._matrices(s, s.out.lanes)
        piece, mem, lanes, batch = self.piece(s.mem), s.mem, s.out.lanes, self.batch
        shape = () if lanes == 1 else (lanes,)
        nothing, pick = zero(mem.dtype, 1, self.memory.as_twin), self._picker(s, s.mem, piece, lanes)
        free = piece.is_input

        def run(on: On, at: Any, mask: Any = None) -> Any:
            if free and mask is None and np.ndim(at) == 0:  # all threads read one place of an input
                i, _, _ = pick(on, at, None, True)
                return piece.data[i] if lanes > 1 else piece.data[i[0]]
            i, lane, active = pick(on, at, mask)
            found = piece.read(i, lane, s)
            if active is None:
                return found.reshape(batch.count, *shape)
            out = np.full((batch.count, *shape), nothing, found.dtype)
            out[active] = found
            return out

        return run

    def _matrices(self, s: Instr, lanes: int) -> Callable[..., Any]:
        """A function (on, index) → elements: `ldmatrix`. Both the lane that names a row and those that get its elements count as readers,
        so that neither may have written it without a barrier since."""
        piece, batch, find = self.piece(s.mem), self.batch, matrix_reader(s, lanes)

        def run(on: On, at: Any) -> Any:
            rows = find(batch, on, at)
            piece.check_aligned(rows.first, rows.namer, 16, s)
            piece.check_inside(rows.element, rows.namer, s)
            i = piece.places(rows.element, rows.namer)
            piece.read(i, rows.namer, s)
            return rows.dealt(piece.read(i, rows.getter, s))

        return run

    def _store(self, s: Instr) -> Callable[..., None]:
        """A function (on, index, value[, mask]) that writes."""
        piece, lanes, batch = self.piece(s.mem), max(a.lanes for a in s.args[:2]), self.batch
        shape, pick = () if lanes == 1 else (lanes,), self._picker(s, s.mem, piece, lanes)

        def run(on: On, at: Any, value: Any, mask: Any = None) -> None:
            i, lane, active = pick(on, at, mask)
            if np.ndim(value):
                value = np.broadcast_to(value, (batch.count, *shape))
                value = value.reshape(-1) if active is None else value[active]
            piece.write(i, lane, value, s)

        return run

    def _picker(self, s: Instr, mem: Mem, piece: GroupBuffer, lanes: int) -> Pick:
        """A function (on, index, mask[, one thread for all]) → (places, the thread lane of each, which of (threads, lanes) take part or
        None for all)."""
        batch, wide = self.batch, lanes > 1
        consecutive = s.op in CONSECUTIVE | ASYNCS
        steps: Any = np.arange(lanes) + mem.offset if wide and consecutive else mem.offset
        align = mem.align if consecutive and mem.align > mem.dtype.size else 0

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
            piece.check_inside(i, lane, s)
            if align:  # that of the first of a thread's consecutive elements, active or not
                piece.check_aligned(np.broadcast_to(at, batch.count)[lane] + mem.offset, lane, align, s)
            return piece.places(i, lane), lane, active

        return pick

    @staticmethod
    def _active(on: On, mask: Any, wide: bool, shape: tuple[int, ...]) -> Array | None:
        if mask is None:
            return None if on is None else np.broadcast_to(on[:, None] if wide else on, shape)
        active = np.broadcast_to(mask, shape)
        if on is not None:
            active = active & (on[:, None] if wide else on)
        return None if active.all() else active


def _room(data: Array, size: int) -> Array:
    return data if len(data) >= size else np.zeros(size, data.dtype)
