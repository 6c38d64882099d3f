"""The threads of some groups, run side by side: every scalar of a Program is an array of one number a thread (or one number, where
all agree), every vector an array of a row a thread. A statement runs for all threads before the next one starts; that order is as good
as any, since what another order would change is found and refused.

`on` is who takes part: None for every thread, else an array of bools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ..ir.errors import VerifyError
from ..program.listing import locate
from ..program.program import Instr, Program
from .ops import Array
from .worker_memory import Clock

MOST = 2048
"""Threads run side by side at most, unless one group has more."""
On = Any
"""None, or an array of bools: an alias that says what is meant."""


class ThreadBatch:
    """One phase's threads. `begin` starts some of its groups."""

    def __init__(self, program: Program, clock: Clock, phase: int, threads: int, warp: int) -> None:
        self.program, self.clock, self.phase, self.threads, self.warp = program, clock, phase, threads, warp
        self.items: list[int] = []
        self.count = 0
        self.lane = self.me = self.thread = np.zeros(0, np.int64)
        self.epoch: Array | int = 0
        """The number that changes at a barrier: of all groups, or one a thread where they differ."""

    def begin(self, items: Sequence[int]) -> None:
        """Groups with these grid indices come to the start of the phase."""
        self.items, self.count = list(items), len(items) * self.threads
        self.lane = np.arange(self.count)
        self.thread = self.lane % self.threads
        self.me = np.repeat(np.array(self.items, np.int64), self.threads) * self.threads + self.thread
        self.clock.now += 1
        self.epoch = self.clock.now

    @property
    def item(self) -> Any:
        """The grid index: a number, or one a thread."""
        return self.items[0] if len(self.items) == 1 else self.me // self.threads

    # findings -------------------------------------------------------------------------------------------------------
    def name(self, who: int) -> str:
        """`thread 3 of item 1`."""
        return f"thread {who % self.threads} of item {who // self.threads}"

    def fail(self, message: str, s: Instr, who: int) -> NoReturn:
        """Raise VerifyError: the message, the statement, and whose turn it was."""
        item, thread = divmod(who, self.threads)
        raise VerifyError(f"{message}, in `{locate(self.program, s)}` (phase {self.phase}, item {item}, thread {thread})")

    # control --------------------------------------------------------------------------------------------------------
    def narrow(self, on: On, cond: Any) -> On:
        """Those of `on` for whom `cond` holds; False if there is none."""
        if np.ndim(cond) == 0:
            return on if cond else False
        if on is not None:
            cond = on & cond
            return cond if cond.any() else False
        return None if cond.all() else cond if cond.any() else False

    def spans(self, on: On, lo: Any, hi: Any, step: int, label: str) -> Iterator[tuple[Any, On]]:
        """(variable, who is in this iteration) of a loop that each thread runs between its own bounds."""
        if np.ndim(lo) == 0 and np.ndim(hi) == 0:
            low, high = int(lo), int(hi)
            if low >= high:
                self._empty(label, low, high, 0 if on is None else int(on.argmax()))
            for i in range(low, high, step):
                yield i, on
            return
        active = slice(None) if on is None else on
        los, his = np.broadcast_to(lo, self.count), np.broadcast_to(hi, self.count)
        if (los[active] >= his[active]).any():
            k = int(self.lane[active][(los[active] >= his[active]).argmax()])
            self._empty(label, int(los[k]), int(his[k]), k)
        first_lo, first_hi = los[active][0], his[active][0]
        if (los[active] == first_lo).all() and (his[active] == first_hi).all():
            for i in range(int(first_lo), int(first_hi), step):
                yield i, on
            return
        at, still = los, on
        while True:
            yield at, still
            at = at + step
            more = at < his if still is None else still & (at < his)
            if not more.any():
                return
            still = still if still is not None and (more == still).all() else None if more.all() else more

    def _empty(self, label: str, lo: int, hi: int, lane: int) -> NoReturn:
        where = f"phase {self.phase}, item {self.me[lane] // self.threads}, thread {self.thread[lane]}"
        raise VerifyError(f"loop {label} from {lo} to {hi} would run zero times; guard it with an If ({where})")

    @staticmethod
    def merge(on: On, new: Sequence[Any], old: Sequence[Any], wide: Sequence[bool]) -> tuple[Any, ...]:
        """Carried values after an iteration that only some threads run."""
        return tuple(np.where(on[:, None] if w else on, n, o) for n, o, w in zip(new, old, wide, strict=True))

    # threads together -------------------------------------------------------------------------------------------------
    def barrier(self, on: On, s: Instr) -> None:
        """Everybody's writes before are seen by everybody of the group after."""
        self.clock.now += 1
        if on is not None:
            groups = on.reshape(-1, self.threads)
            some = groups.any(1)
            partly = some & ~groups.all(1)
            if partly.any():
                g = int(partly.argmax())
                missing = np.flatnonzero(~groups[g])
                message = f"only {groups[g].sum()} of the group's {self.threads} threads arrive at the barrier, {_list(missing)} not"
                self.fail(message, s, self.items[g] * self.threads + int(groups[g].argmax()))
            if not some.all():
                self.epoch = np.where(on, self.clock.now, self.epoch)
                return
        self.epoch = self.clock.now

    def whole(self, on: On, s: Instr, unit: int) -> Any:
        """Which units of so many threads come to what all of a unit do together: None for all, else an array of bools."""
        if self.threads % unit:
            self.fail(f"{s.op} is done by {unit} threads together, and the group has {self.threads}", s, int(self.me[0]))
        if on is None:
            return None
        units = on.reshape(-1, unit)
        some: Array = units.any(1)
        partly = some & ~units.all(1)
        if partly.any():
            u = int(partly.argmax())
            first = u * unit + int(units[u].argmin())
            message = f"thread {self.thread[first]} does not come to {s.op}, to which others of its {unit} threads come"
            self.fail(message, s, int(self.me[u * unit + int(units[u].argmax())]))
        return some

    def shuffled(self, on: On, value: Any, distance: int, s: Instr) -> Any:
        """What the thread `thread ^ distance` holds."""
        if not 0 < distance < self.warp:
            self.fail(f"a shuffle over {distance} threads leaves the warp of {self.warp}", s, int(self.me[0]))
        other = self.thread ^ distance
        outside = other >= self.threads if on is None else on & (other >= self.threads)
        if outside.any():
            k = int(outside.argmax())
            self.fail(f"thread {self.thread[k]} asks thread {other[k]}, and the group has {self.threads}", s, int(self.me[k]))
        if on is not None:
            warps = self.lane // self.threads * self.threads + self.thread // self.warp
            absent = ~on & np.isin(warps, warps[on])
            if absent.any():
                k = int(absent.argmax())
                self.fail(f"thread {self.thread[k]} does not come to a shuffle that others of its warp come to", s, int(self.me[k]))
        if np.ndim(value) == 0:
            return value
        source = self.lane - self.thread + other
        return value[source if on is None else np.where(on, source, self.lane)]


def _list(threads: Array) -> str:
    if len(threads) == 1:
        return f"thread {threads[0]} does"
    if threads[-1] - threads[0] == len(threads) - 1:
        return f"threads {threads[0]} to {threads[-1]} do"
    return f"threads {', '.join(map(str, threads[:4].tolist()))}{' …' if len(threads) > 4 else ''} do"


def batches(order: Sequence[int], threads: int, bytes_each: int, limit: int = 1 << 26) -> Iterator[Sequence[int]]:
    """Grid items in batches of groups that fit: `bytes_each` is what one group keeps of its own."""
    groups = max(1, min(MOST // threads, limit // max(1, bytes_each)))
    for k in range(0, len(order), groups):
        yield order[k : k + groups]
