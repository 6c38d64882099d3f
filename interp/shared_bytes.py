"""A group's shared memory in a phase with asynchronous copies: bytes, each with who wrote and read it, and what is under way.

Any access must know of the accesses that it could disturb, by vector clocks. A box that TMA brings is under way from the time it is
asked for until it lands: to touch it is a finding. What TMA or a wgmma reads is held until the wait for it: to write it is a finding.
What threads stored must be fenced (proxy_fence) before TMA or wgmma may read it. In the twin a float is one 32-bit number, kept at the
address of its first byte."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..ir.dtypes import DType
from .clocks import VectorClocks
from .ops import Array

NOBODY = -1


class Reporter(Protocol):
    """Who words a finding."""

    def actor(self, who: int) -> str:
        """`thread 3 of item 1`."""
        ...

    def wrong(self, message: str, who: int) -> None:
        """Raise VerifyError about what an actor did."""
        ...


class SharedBytes:
    """`size` bytes of one group."""

    def __init__(self, size: int, as_twin: bool, clocks: VectorClocks, report: Reporter) -> None:
        self.size, self.as_twin, self.clocks, self.report = size, as_twin, clocks, report
        self.data = np.zeros(size, np.uint8)
        self.words = np.zeros(size if as_twin else 0, np.uint32)
        self.writer, self.reader, self.other = (np.full(size, NOBODY, np.int32) for _ in range(3))
        self.written_at, self.read_at, self.other_at, self.fenced_at = (np.zeros(size, np.int32) for _ in range(4))
        self.flying, self.held = (np.zeros(size, np.int16) for _ in range(2))
        self.barrier = np.zeros(size, bool)
        """Bytes of mbarriers."""

    # values -----------------------------------------------------------------------------------------------------------
    def get(self, at: Array, dtype: DType) -> Array:
        """The elements whose first bytes are at `at` (any shape)."""
        if self.as_twin and dtype.is_float:
            found: Array = self.words[at]
            return found
        raw = self.data[at[..., None] + np.arange(dtype.size)]
        return np.ascontiguousarray(raw).view(dtype.np)[..., 0]

    def put(self, at: Array, values: Array, dtype: DType) -> None:
        """Write elements."""
        if self.as_twin and dtype.is_float:
            self.words[at] = values
            return
        raw = np.ascontiguousarray(np.broadcast_to(values, at.shape).astype(dtype.np, copy=False))
        self.data[at[..., None] + np.arange(dtype.size)] = raw[..., None].view(np.uint8).reshape(*at.shape, dtype.size)

    def bytes_of(self, at: Array, size: int) -> Array:
        """The bytes of elements, flat."""
        return (at.reshape(-1)[:, None] + np.arange(size)).reshape(-1)

    # ordinary accesses ------------------------------------------------------------------------------------------------
    def read(self, at: Array, who: Array) -> None:
        """Threads `who` read bytes `at`, one each."""
        self._present(at, who)
        known = self.clocks.seen[who, self.writer[at]] >= self.written_at[at]
        if not known.all():
            k = int(known.argmin())
            self._fail(at[k], f"is read with no barrier since {self.report.actor(int(self.writer[at[k]]))} wrote it", who[k])
        self._note(at, who, self.clocks.now(who))

    def write(self, at: Array, who: Array) -> None:
        """Threads `who` write bytes `at`, one each."""
        self._free(at, who, "is written")
        self.writer[at], self.written_at[at], self.fenced_at[at] = who, self.clocks.now(who), 0
        self.reader[at] = self.other[at] = NOBODY
        twice = self.writer[at] != who
        if twice.any():
            k = int(twice.argmax())
            self._fail(at[k], f"is written by {self.report.actor(int(self.writer[at[k]]))} at once", who[k])

    def begin_store(self, at: Array, who: Array) -> None:
        """Threads `who` begin copies to bytes `at`, which hold nothing until then."""
        self._free(at, who, "is overwritten by a copy")
        self.flying[at] += 1
        self.writer[at], self.written_at[at], self.fenced_at[at] = who, np.iinfo(np.int32).max, 0
        self.reader[at] = self.other[at] = NOBODY
        self.data[at] = 0xFF

    def end_store(self, at: Array, who: Array) -> None:
        """Their threads have waited for them: they are stores of that time."""
        self.flying[at] -= 1
        self.written_at[at] = self.clocks.now(who)

    def fence(self, who: Array) -> None:
        """What threads `who` stored may be read by TMA and wgmma from now on."""
        own = (self.fenced_at == 0) & (self.flying == 0) & np.isin(self.writer, who)
        self.fenced_at[own] = self.clocks.now(self.writer[own])

    # asynchronous accesses --------------------------------------------------------------------------------------------
    def hold(self, at: Array, by: Array, what: str) -> None:
        """TMA or tensor cores begin to read bytes `at`, asked for by all of `by`."""
        one = np.full(at.shape, by[0])
        self._present(at, one)
        knows = self.clocks.seen[by].min(0)
        unknown = knows[self.writer[at]] < self.written_at[at]
        if unknown.any():
            k = int(unknown.argmax())
            who = int(by[self.clocks.seen[by, self.writer[at[k]]].argmin()])
            self._fail(at[k], f"is read by {what} with no barrier since {self.report.actor(int(self.writer[at[k]]))} wrote it", who)
        fenced = self.fenced_at[at]
        stale = (fenced == 0) | (knows[self.writer[at]] < fenced)
        if stale.any():
            k = int(stale.argmax())
            writer = self.report.actor(int(self.writer[at[k]]))
            self._fail(at[k], f"is read by {what}, and {writer} stored it with no proxy_fence and barrier after it", by[0])
        self.held[at] += 1

    def let_go(self, at: Array, actor: int) -> None:
        """They are done; the reading counts as that of `actor`, at its time."""
        self.held[at] -= 1
        who = np.full(at.shape, actor)
        self._note(at, who, self.clocks.now(who))

    def send_for(self, at: Array, who: int, actor: int) -> None:
        """Thread `who` asks for a box at bytes `at`, which `actor` will write: until then they hold nothing."""
        self._free(at, np.full(at.shape, who), "is overwritten by a box")
        self.flying[at] += 1
        self.writer[at], self.written_at[at] = actor, np.iinfo(np.int32).max
        self.reader[at] = self.other[at] = NOBODY
        self.data[at] = 0xFF

    def land(self, at: Array, actor: int) -> None:
        """The box is there, at the time of `actor`."""
        self.flying[at] -= 1
        time = int(self.clocks.seen[actor, actor])
        self.written_at[at] = self.fenced_at[at] = time

    # rules ------------------------------------------------------------------------------------------------------------
    def _present(self, at: Array, who: Array) -> None:
        for wrong, what in (
            (self.barrier[at], "is part of an mbarrier, and is read"),
            (self.flying[at] > 0, "is read while a box or a copy is on its way to it: wait for it"),
            (self.writer[at] == NOBODY, "is read before it is written"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                self._fail(at[k], what, who[k])

    def _free(self, at: Array, who: Array, what: str) -> None:
        """That nobody else is at it."""
        for wrong, why in (
            (self.barrier[at], "and is part of an mbarrier"),
            (self.flying[at] > 0, "while a box or a copy is on its way to it"),
            (self.held[at] > 0, "while TMA or a wgmma still reads it"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                self._fail(at[k], f"{what} {why}", who[k])
        for actors, times, did in (
            (self.writer, self.written_at, "wrote"),
            (self.reader, self.read_at, "read"),
            (self.other, self.other_at, "read"),
        ):
            actor = actors[at]
            known = (actor == NOBODY) | (self.clocks.seen[who, actor] >= times[at])
            if not known.all():
                k = int(known.argmin())
                self._fail(at[k], f"{what} with no barrier since {self.report.actor(int(actor[k]))} {did} it", who[k])

    def _note(self, at: Array, who: Array, time: Array) -> None:
        """Keep the last reader and another one, unless the last reader has seen that one's reading."""
        before, then = self.reader[at], self.read_at[at]
        keep = (before != NOBODY) & (before != who) & (self.clocks.seen[who, before] < then)
        self.other[at[keep]], self.other_at[at[keep]] = before[keep], then[keep]
        self.reader[at], self.read_at[at] = who, time
        late = (self.reader[at] != who) & (self.clocks.seen[self.reader[at], who] < time)
        self.other[at[late]], self.other_at[at[late]] = who[late], time[late]

    def _fail(self, at: Any, message: str, who: Any) -> None:
        self.report.wrong(f"byte {int(at)} of shared memory {message}", int(who))
