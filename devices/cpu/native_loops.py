"""Loops of a replay in native memory: what `loop_ir`'s code reads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import chain

from ...ir.node import Node
from ..bound_calls import BoundLoop, Size
from .executable import CallRecord

NEVER = 1 << 62
"""Steps of a loop that only its test ends."""
_LIST, _COUNT, _WORDS, _INIT, _ALL, _STRIDES, _MOVING, _FED, _FEDS, _GOING, _GOINGS, _CARRIES, _CARRY = range(2, 15)
_BEFORE, _BEFORES, _AFTER, _AFTERS, _GATE, _TEST = range(15, 21)
_TRIPS, _COUNTER, _START = 1, 22, 23
_RECORD = 31
"""Words of a loop's record. 24 to 30 are the loop's own: where it is when a slice of time ends, and when it looks at the clock next."""

Entry = tuple["CallRecord | LoopRecord", int]
"""A record, and its number among all records of the replay."""


class LoopRecord:
    """The record of a loop, with its tables. What depends on symbols is 0 at first; `symbolic` has where it goes."""

    def __init__(self, loop: BoundLoop, entries: Sequence[Entry]) -> None:
        self.bufs = (ctypes.c_uint64 * max(len(loop.pointers), 1))(*loop.pointers)
        self._record = (ctypes.c_int64 * _RECORD)()
        self.record_at, self.bufs_at = ctypes.addressof(self._record), ctypes.addressof(self.bufs)
        self.symbolic: list[tuple[int, Node]] = []
        self._kept: list[object] = []
        moved = {c.read for c in loop.carries} | {c.write for c in loop.carries}
        moved |= {i for i, w in enumerate(loop.words) if w.stride != 0}
        order = sorted(range(len(loop.words)), key=lambda i: i not in moved)  # those that move first
        at = {i: n for n, i in enumerate(order)}
        words = [loop.words[i] for i in order]
        self._record[0] = -1
        self._number(_TRIPS, loop.trips)
        self._number(_START, loop.start)
        self._table(_LIST, _COUNT, [(r.record_at, r.bufs_at, number) for r, number in entries])
        self._words = (ctypes.c_uint64 * max(len(words), 1))()
        self._record[_WORDS] = ctypes.addressof(self._words)
        self._table(_INIT, _ALL, [(w.parameter, w.offset) for w in words])
        self._table(_STRIDES, _MOVING, [(w.stride,) for w in words[: len(moved)]])
        feeds = [(entries[call][0].bufs_at + 8 * parameter, at[word]) for call, parameter, word in loop.feeds]
        self._table(_FED, _FEDS, feeds)
        self._table(_GOING, _GOINGS, [f for f in feeds if f[1] < len(moved)])
        turns = [(-1, -1) if c.turns is None else (at[c.turns[0]], at[c.turns[1]]) for c in loop.carries]
        self._table(_CARRIES, _CARRY, [(at[c.read], at[c.write], *t) for c, t in zip(loop.carries, turns, strict=True)])
        self._table(_BEFORE, _BEFORES, [(at[c.to], at[c.source], c.nbytes) for c in loop.before])
        self._table(_AFTER, _AFTERS, [(at[c.to], at[c.source], c.nbytes) for c in loop.after])
        self._record[_GATE] = -1 if loop.gate is None else loop.gate
        self._record[_TEST] = -1 if loop.test is None else at[loop.test]
        for call, parameter in loop.counter:
            entries[call][0].bufs[parameter] = self.record_at + 8 * _COUNTER

    def _number(self, place: int, value: Size) -> None:
        if isinstance(value, Node):
            self.symbolic.append((self.record_at + 8 * place, value))
        else:
            self._record[place] = value

    def _table(self, place: int, count: int, rows: Sequence[Iterable[Size]]) -> None:
        """A table of rows of equal length: its address at one word, and how many rows there are at another."""
        flat = list(chain.from_iterable(rows))
        made = (ctypes.c_int64 * max(len(flat), 1))(*[0 if isinstance(x, Node) else x for x in flat])
        self._kept.append(made)
        self._record[place], self._record[count] = ctypes.addressof(made), len(rows)
        self.symbolic += [(ctypes.addressof(made) + 8 * i, x) for i, x in enumerate(flat) if isinstance(x, Node)]
