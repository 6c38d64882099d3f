"""Who wrote and who read each element of memory that threads share, and what they did wrong.

Every element remembers its last writer with the writer's *epoch*: a number that changes for a group at each barrier and is never
used again. Two threads of one group disturb each other where both touch an element in one epoch and one of them writes; threads of
two groups, where both do so in one phase. Readers are kept as the last one and another one, which is enough to tell whether anybody
but the writer has read. (As in race detectors that keep epochs instead of vector clocks: C. Flanagan and S. N. Freund, FastTrack,
PLDI 2009; a barrier joins all clocks of a group, so that one number does.)"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import numpy as np

from .ops import Array


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
