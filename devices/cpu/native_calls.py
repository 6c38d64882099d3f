"""A list of calls on the processor, made by one native call."""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ...ir.dtypes import index
from ...ir.errors import OutOfTimeError, UsageError
from ...ir.index import steps
from ...ir.node import Node, make, sym
from ..bound_calls import AnyCall, BoundCall, BoundLoop, Places, Size, check, check_words, some_written
from .executable import HEAD, CallRecord, CpuExecutable, ScratchArena, give_arena, take_arena
from .pool import pool

SLICE_NS = 50_000_000
"""How long loops run before Python looks whether somebody pressed Ctrl-C, and at limits of time."""
MAGNITUDES = 256
"""Combinations of the symbols' magnitudes whose threads are remembered."""


class Given:
    """What a replay is given, as the record that the pool's `given` reads: words (addresses, values of symbols, and what steps compute of those),
    a table of where each address is copied, and one of where what depends on symbols is."""

    def __init__(self, places: Sequence[tuple[int, int]], count: int, symbols: Sequence[str]) -> None:
        """`places`: (address, position of a word); `count`: addresses that are given."""
        self.symbols = {name: count + i for i, name in enumerate(symbols)}
        self._count, self._kept = count, [_rows(places)]
        self.words = _rows([(0,) * (count + len(symbols))])
        self._last, self._known = _rows([(-1,) * len(symbols)]), _rows([(-1,) * len(symbols)])
        self.put = struct.Struct(f"={count + len(symbols)}q").pack_into
        self._record = (ctypes.c_int64 * 12)(0, ctypes.addressof(self._kept[0]), len(places))
        self.record = ctypes.addressof(self._record)
        self.compute((), False)

    def compute(self, places: Sequence[tuple[int, Node]], watched: bool) -> None:
        """Have words that depend on the symbols, at these addresses; whether magnitudes of values are watched."""
        free = self._count + len(self.symbols)
        made, words, found = steps([node for _, node in places], self.symbols, free)
        self.words = _rows([(*[0] * free, *words)])
        values, at = len(self.symbols), ctypes.addressof
        self._kept[1:] = code, table = _rows(made), _rows([(to, word) for (to, _), word in zip(places, found, strict=True)])
        self._record[0] = at(self.words)
        last, known = at(self._last), at(self._known)
        self._record[3:] = [
            at(self.words) + 8 * self._count,
            values,
            last,
            at(code),
            len(made),
            at(table),
            len(places),
            known,
            values * watched,
        ]

    def values(self) -> tuple[int, ...]:
        """Those of the symbols, whose magnitudes are known from now on."""
        found = tuple(self.words[self._count : self._count + len(self.symbols)])
        self._known[: len(found)] = list(found)
        return found


def _rows(rows: Iterable[Iterable[int]]) -> ctypes.Array[ctypes.c_int64]:
    """Rows of words in native memory, which has one at least."""
    flat = list(chain.from_iterable(rows)) or [0]
    return (ctypes.c_int64 * len(flat))(*flat)


class NativeCalls:
    """Every call has a record of its own, whose buffers' addresses stay what they are until they are changed. All
    calls work in one arena, as large as the largest needs, which is taken from those of other calls.

    Values of symbols, and the numbers of items that follow from them, are words of the records too: where they differ from those of the
    run before, the native call computes all distinct ones and copies them. Which calls run on the caller alone (`ThreadChoice`) is found
    for each magnitude of the symbols' values.

    Loops have records of their own, and those of the calls in them. They run in slices of time."""

    def __init__(self, calls: Sequence[AnyCall], slots: Sequence[Places], symbols: Sequence[str] = ()) -> None:
        """The executables must all be of the processor. `symbols`: those whose values come with each run."""
        check(calls, slots, symbols)
        self.calls = tuple(calls)
        self._records: list[CallRecord] = []
        self._made: list[BoundCall] = []
        self._loops: list[LoopRecord] = []
        self._limits: list[tuple[float, str]] = []
        top = self._entries(self.calls)
        executables = [c.executable for c in self._made if isinstance(c.executable, CpuExecutable)]
        sizes = [(e.sizes[0], e.sizes[1] if c.packed is None else 0, e.sizes[2]) for c, e in zip(self._made, executables, strict=True)]
        self._sizes = tuple(map(max, zip(*sizes))) if sizes else (0, 0, 1)
        self._arena: ScratchArena | None = None
        self._version = -1
        self._lock = threading.Lock()
        self._ended = ""
        self._native = pool()
        self._slots, self._symbols = tuple(slots), tuple(symbols)
        self._count = len(slots) + len(symbols)
        self._bufs = [r.bufs for r, _ in top]
        places = [(top[c][0].bufs_at + 8 * p, i) for i, slot in enumerate(slots) for c, p in slot]
        self._given = Given(places, len(slots), symbols)
        words = [w for r, number in top for w in (r.record_at, r.bufs_at, number)]
        self._list = (ctypes.c_uint64 * max(len(words), 1))(*words)
        self._arguments = ctypes.addressof(self._list), len(top), self._given.record
        context = (ctypes.c_int64 * 4)()
        self._context = context, ctypes.addressof(context)
        self._wide = {i: e.threads for i, e in enumerate(executables) if e.threads > 1}
        self._threads = _rows([(self._records[call].record_at + 8, i) for i, call in enumerate(self._wide)])
        self._choices: dict[tuple[int, ...], ThreadChoice] = {}
        self._choice = ThreadChoice({}, ())
        self._given.compute(self._parametrised(), bool(self._wide))
        if not symbols:
            self._choose()
        for e in executables:
            e.on_close(self)

    def _entries(self, calls: Sequence[AnyCall]) -> list[Entry]:
        """The records of a list, and of the lists in its loops."""
        found: list[Entry] = []
        for c in calls:
            if isinstance(c, BoundLoop):
                if c.seconds is not None:
                    self._limits.append((c.seconds, c.name))
                self._loops.append(LoopRecord(c, self._entries(c.calls)))
                found.append((self._loops[-1], 0))
                continue
            e = c.executable
            assert isinstance(e, CpuExecutable)
            once = e.signature.once if c.packed is not None else 0
            record = e.record(c.vars or (0,) * len(e.signature.symbols), slice(once, None), c.packed)
            record.fill(record.bufs, 0, *c.pointers)
            found.append((record, len(self._records)))
            self._records.append(record)
            self._made.append(c)
        return found

    def _parametrised(self) -> list[tuple[int, Node]]:
        """What depends on the symbols, and where it goes."""
        places = [place for loop in self._loops for place in loop.symbolic]
        for c, r in zip(self._made, self._records, strict=True):
            signature = c.executable.signature
            if c.vars or not signature.symbols:
                continue
            vars_at, items = ctypes.addressof(r.vars), signature.items[len(signature.items) - r.record[0] :]
            places += [(vars_at + 8 * i, sym(name, 0, 1)) for i, name in enumerate(signature.symbols)]
            some = some_written(signature)
            for phase, node in enumerate(items):
                at = r.record_at + 8 * (HEAD + 2 * phase + 1)
                places.append((at, node if some.op == "const" else make("prod", index, (some, node))))
        return places

    def run(self, *words: int) -> None:
        """As `Replay.__call__`."""
        if len(words) != self._count:
            check_words(words, self._slots, self._symbols)
        with self._lock:
            if self._ended:
                raise UsageError(f"{self._ended} has been closed: make this replay anew")
            self._given.put(self._given.words, 0, *words)
            memory = take_arena()
            try:
                if memory is not self._arena or memory.version != self._version or memory.version < 0:
                    self._use(memory)
                if self._choice.undecided or self._loops or self._native.replay(*self._arguments):
                    self._sized()
            finally:
                give_arena(memory)

    def _sized(self) -> None:
        """A run that more than the native call must see to: loops, times of calls, values of another magnitude."""
        if self._native.given(self._given.record):
            self._choose()
        if self._choice.undecided:
            self._trial()
        elif self._loops:
            self._sliced(0, 0)
        else:
            self._native.replay(*self._arguments)

    def _choose(self) -> None:
        """Have the threads of these values of the symbols from now on."""
        magnitude = tuple([v.bit_length() for v in self._given.values()])
        choice = self._choices.get(magnitude)
        if choice is None:
            if len(self._choices) >= MAGNITUDES:
                self._choices.clear()
            choice = self._choices[magnitude] = ThreadChoice(self._wide, [i for i in self._wide if self._divides(i)])
        if choice is not self._choice:
            self._choice = choice
            self._use_threads()

    def _use_threads(self) -> None:
        if self._wide:
            self._native.scatter(ctypes.addressof(self._threads), len(self._wide), ctypes.addressof(self._choice.words))

    def _divides(self, call: int) -> bool:
        """Whether a call has a phase that several threads could share, as its sizes are now."""
        record = self._records[call].record
        return any(record[HEAD + 2 * phase + 1] > 1 for phase in range(record[0]))

    def _use(self, memory: ScratchArena) -> None:
        for r in self._records:
            r.use(memory, self._sizes)
        self._arena, self._version = memory, memory.version

    def _sliced(self, seconds: int, counts: int) -> None:
        """A run in slices of time, which Ctrl-C and limits of loops end. `seconds`, `counts`: addresses where calls are timed, or 0."""
        context, at = self._context
        context[:] = [0, 0, seconds, counts]
        entries, count = self._arguments[:2]
        begin, done, part = time.monotonic(), 0, SLICE_NS if self._loops else 0
        while True:
            done = self._native.advance(at, entries, count, done, part)
            if done == count:
                return
            for limit, name in self._limits:
                if time.monotonic() - begin > limit:
                    raise OutOfTimeError(f"{name} has not ended within {limit:g} s: raise its limit, or see why its condition stays true")
            context[1] = 1

    def _trial(self) -> None:
        """A run that times every call."""
        self._choice.begin()
        self._use_threads()
        seconds, counts = (ctypes.c_double * len(self._records))(), (ctypes.c_int64 * len(self._records))()
        self._sliced(ctypes.addressof(seconds), ctypes.addressof(counts))
        self._choice.end([s / max(n, 1) for s, n in zip(seconds, counts, strict=True)])
        self._use_threads()

    def patch(self, call: int, parameter: int, address: int) -> None:
        """As `Replay.patch`, for one address."""
        with self._lock:
            self._bufs[call][parameter] = address

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call uses, as far as is known; those in loops where the loop is."""
        return tuple(max(1, r.record[1]) if i in self._wide and self._divides(i) else 1 for i, r in enumerate(self._records))

    def end(self, name: str) -> None:
        """The code of a call goes."""
        with self._lock:
            self._ended = name


# thread choice --------------------------------------------------------------------------------------------------------
# How many threads short calls of a replay have: as many as their executables may use, or one, whatever was quicker.
#
# Workers cost a short call more than they give, and how much depends on the machine and on the call before. So the first runs time each
# short call both ways. How many threads run a call changes no bit of its results.


SHORT_S = 50e-6
"""A call that takes longer with all its threads is never tried with one. (Waking a worker costs 35 to 150 µs, so what
is longer has something of it.)"""
TRIALS = (True, True, False, True, False, True, False)
"""Runs that are timed, and whether calls have all their threads in them; the first one only warms up."""


class ThreadChoice:
    """The choice for calls whose sizes are of one magnitude. `words`: threads of each call that may have several."""

    def __init__(self, wide: Mapping[int, int], tried: Sequence[int]) -> None:
        """`wide`: by the number of a call, the threads that it may have; the calls `tried` among them have something to share, and the
        others one thread."""
        self._wide = wide
        self._at = {call: at for at, call in enumerate(wide)}
        self.words = (ctypes.c_uint64 * max(len(wide), 1))(*[n if call in tried else 1 for call, n in wide.items()])
        self.undecided = list(tried)
        self._least = {(i, wide): float("inf") for i in tried for wide in (True, False)}
        self._runs = 0

    def begin(self) -> None:
        """The threads of a run that is timed."""
        wide = TRIALS[self._runs]
        for i in self.undecided:
            self.words[self._at[i]] = self._wide[i] if wide else 1

    def end(self, seconds: Sequence[float]) -> None:
        """What each call took in it. After the last one all is decided."""
        wide = TRIALS[self._runs]
        self._runs += 1
        if self._runs == 1:
            return
        for i in self.undecided:
            self._least[i, wide] = min(self._least[i, wide], seconds[i])
        done = self._runs == len(TRIALS)
        for i in self.undecided:
            if done:
                self.words[self._at[i]] = self._wide[i] if self._least[i, True] < self._least[i, False] else 1
            elif self._least[i, True] > SHORT_S:
                self.words[self._at[i]] = self._wide[i]
        self.undecided = [] if done else [i for i in self.undecided if self._least[i, True] <= SHORT_S]


# loops in native memory -----------------------------------------------------------------------------------------------
# Loops of a replay in native memory: what `loop_ir`'s code reads.


NEVER = 1 << 62
"""Steps of a loop that only its test ends."""
_LIST, _COUNT, _WORDS, _INIT, _ALL, _STRIDES, _MOVING, _FED, _FEDS, _GOING, _GOINGS, _CARRIES, _CARRY = range(2, 15)
_BEFORE, _BEFORES, _AFTER, _AFTERS, _GATE, _TEST = range(15, 21)
_TRIPS, _COUNTER, _START = 1, 22, 23
_JUMP, _JUMPS = 31, 32
_RECORD = 33
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
        moved |= {i for i, w in enumerate(loop.words) if w.stride != 0 or w.jumps}
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
        self._table(_JUMP, _JUMPS, [(step, i, *to) for i, w in enumerate(words) for step, *to in w.jumps])
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
