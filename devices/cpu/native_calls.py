"""A list of calls on the processor, made by one native call."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence

from ...ir.errors import UsageError
from ..bound_calls import BoundCall, Places, check
from .executable import HEAD, CallRecord, CpuExecutable, ScratchArena, give_arena, take_arena
from .pool import pool

SHORT_S = 50e-6
"""A call that takes longer with all its threads is never tried with one. (Waking a worker costs 35 to 150 µs, so what
is longer has something of it.)"""
_TRIALS = (True, True, False, True, False, True, False)
"""Runs that are timed, and whether calls have all their threads in them; the first one only warms up."""


class NativeCalls:
    """Every call has a record of its own, whose buffers' addresses stay what they are until they are changed. All
    calls work in one arena, as large as the largest needs, which is taken from those of other calls.

    Workers cost a short call more than they give. Which calls run on the caller alone is measured: the first runs
    time each short call both ways. How many threads run a call changes no bit of its results."""

    def __init__(self, calls: Sequence[BoundCall], slots: Sequence[Places]) -> None:
        """The executables must all be of the processor."""
        check(calls, slots)
        self.calls = tuple(calls)
        self._records: list[CallRecord] = []
        executables = [c.executable for c in calls if isinstance(c.executable, CpuExecutable)]
        for c, e in zip(self.calls, executables, strict=True):
            once = e.signature.once if c.packed is not None else 0
            record = e.record(c.vars, slice(once, None), c.packed)
            record.fill(record.bufs, 0, *c.pointers)
            self._records.append(record)
        scratch, work, threads = zip(*(e.sizes for e in executables), strict=True) if executables else ((0,), (0,), (1,))
        self._sizes = (max(scratch), max(work), max(threads))
        self._arena: ScratchArena | None = None
        self._version = -1
        self._lock = threading.Lock()
        self._ended = ""
        self._plan(slots)
        self._wide = {i: e.threads for i, e in enumerate(executables) if e.threads > 1 and self._divides(i)}
        self._undecided = sorted(self._wide)
        self._least = {(i, wide): float("inf") for i in self._undecided for wide in (True, False)}
        self._runs = 0
        for e in executables:
            e.on_close(self)

    def _plan(self, slots: Sequence[Places]) -> None:
        """What the native loop reads: (record, addresses) of each call; (place, slot) of what is given with a run."""
        words = [w for r in self._records for w in (r.record_at, r.bufs_at)]
        table = [w for i, slot in enumerate(slots) for c, p in slot for w in (self._records[c].bufs_at + 8 * p, i)]
        self._list, self._table = (ctypes.c_uint64 * max(len(words), 1))(*words), (ctypes.c_uint64 * max(len(table), 1))(*table)
        self._given = (ctypes.c_uint64 * max(len(slots), 1))()
        self._slots = len(slots)
        self._fill = struct.Struct(f"={len(slots)}Q").pack_into
        self._native = pool()
        self._scatter = ctypes.addressof(self._table), len(table) // 2, ctypes.addressof(self._given)
        self._arguments = ctypes.addressof(self._list), len(self._records), *self._scatter

    def _divides(self, call: int) -> bool:
        """Whether a call has a phase that several threads could share."""
        record = self._records[call].record
        return any(record[HEAD + 2 * phase + 1] > 1 for phase in range(record[0]))

    def run(self, *addresses: int) -> None:
        """As `Replay.__call__`."""
        if len(addresses) != self._slots:
            raise UsageError(f"this replay takes {self._slots} addresses, one for each slot, not {len(addresses)}")
        with self._lock:
            if self._ended:
                raise UsageError(f"{self._ended} has been closed: make this replay anew")
            self._fill(self._given, 0, *addresses)
            memory = take_arena()
            try:
                if memory is not self._arena or memory.version != self._version or memory.version < 0:
                    self._use(memory)
                if self._undecided:
                    self._trial()
                else:
                    self._native.replay(*self._arguments)
            finally:
                give_arena(memory)

    def _use(self, memory: ScratchArena) -> None:
        for r in self._records:
            r.use(memory, self._sizes)
        self._arena, self._version = memory, memory.version

    def _trial(self) -> None:
        """A run that times every call, and then decides how many threads some of them have."""
        wide = _TRIALS[self._runs]
        for i in self._undecided:
            self._records[i].record[1] = self._wide[i] if wide else 1
        seconds = (ctypes.c_double * len(self._records))()
        self._native.scatter(*self._scatter)
        self._native.replay_timed(ctypes.addressof(self._list), len(self._records), ctypes.addressof(seconds))
        self._runs += 1
        if self._runs == 1:
            return
        for i in self._undecided:
            self._least[i, wide] = min(self._least[i, wide], seconds[i])
        done = self._runs == len(_TRIALS)
        for i in self._undecided:
            if done:
                self._records[i].record[1] = self._wide[i] if self._least[i, True] < self._least[i, False] else 1
            elif self._least[i, True] > SHORT_S:
                self._records[i].record[1] = self._wide[i]
        self._undecided = [] if done else [i for i in self._undecided if self._least[i, True] <= SHORT_S]

    def patch(self, call: int, parameter: int, address: int) -> None:
        """As `Replay.patch`, for one address."""
        with self._lock:
            self._records[call].bufs[parameter] = address

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call uses, as far as is known."""
        return tuple(max(1, r.record[1]) if i in self._wide else 1 for i, r in enumerate(self._records))

    def end(self, name: str) -> None:
        """The code of a call goes."""
        with self._lock:
            self._ended = name
