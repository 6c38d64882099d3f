"""Calls whose buffers are known: their checks, and a loop that queues a list of them on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import index
from ..ir.errors import UsageError
from ..ir.index import add, bounds, function, mul
from ..ir.node import Node, const, make
from .base import Executable, Packed

if TYPE_CHECKING:
    from ..program.program import Signature

Places = Sequence[tuple[int, int]]
"""(position of a call, position of its parameter): where one address is used."""


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call: an executable, an address for each parameter of its signature (a handle, on a device with memory of its
    own), and the value of each of its symbols (none, where values come with each run). `packed`: what `Executable.pack` made of its constant inputs. `keep`:
    anything that must live as long as the call, such as the arrays at the addresses."""

    executable: Executable
    pointers: tuple[int, ...]
    vars: tuple[int, ...] = ()
    packed: Packed | None = None
    keep: object = None


Size = int | Node
"""A number, or an index of the symbols whose values come with each run."""


@dataclass(frozen=True, slots=True)
class LoopWord:
    """An address in a loop: that of a parameter, and `offset` bytes; after each step `stride` bytes more. `jumps`: (step, parameter, offset),
    where it is in that step, to go on from there."""

    parameter: int
    offset: Size = 0
    stride: Size = 0
    jumps: tuple[tuple[int, int, Size], ...] = ()


@dataclass(frozen=True, slots=True)
class LoopCarry:
    """What a step hands to the next one, by the numbers of words: where it is read, where it is written, and the two buffers that are
    written in turns (None: where it is written moves by its stride)."""

    read: int
    write: int
    turns: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class LoopCopy:
    """`nbytes` from one word to another."""

    to: int
    source: int
    nbytes: Size


@dataclass(frozen=True)
class BoundLoop:
    """Calls that are made `trips` times, on the processor. `pointers`: the addresses of its parameters; the addresses in `calls` are
    words of the loop, and `feeds` says which: (call, parameter, number of the word). `counter`: places (call, parameter) of an int64 that
    counts from `start`. `before`, `after`: copies before the first step and after the last. `gate`: a parameter, a bool that says whether
    there are steps at all; `test`: a word, a bool that each step writes and that says whether there is another one. `seconds`: how long it
    may take."""

    name: str
    calls: tuple[BoundCall | BoundLoop, ...]
    pointers: tuple[int, ...]
    words: tuple[LoopWord, ...]
    feeds: tuple[tuple[int, int, int], ...]
    trips: Size
    carries: tuple[LoopCarry, ...] = ()
    before: tuple[LoopCopy, ...] = ()
    after: tuple[LoopCopy, ...] = ()
    counter: Places = ()
    start: Size = 0
    gate: int | None = None
    test: int | None = None
    seconds: float | None = None


AnyCall = BoundCall | BoundLoop


def check(calls: Sequence[AnyCall], slots: Sequence[Places], symbols: Sequence[str] = ()) -> None:
    """Raise UsageError for calls that do not fit their executables, and for addresses that are missing or misaligned.
    `slots`: places whose addresses are given later; `symbols`: those whose values are."""
    later: set[tuple[int, int]] = set()
    for slot in slots:
        for at in slot:
            place(calls, *at)
            if at in later:
                raise UsageError(f"{described(calls, *at)} is in two slots, or twice in one: an address can have one source")
            later.add(at)
    for i, c in enumerate(calls):
        if isinstance(c, BoundLoop):
            fed = [[(call, parameter)] for call, parameter, _ in c.feeds]
            check(c.calls, [*fed, c.counter], symbols)
            for j, pointer in enumerate(c.pointers):
                if (i, j) not in later:
                    check_address(calls, i, j, pointer)
            continue
        signature = c.executable.signature
        if len(c.pointers) != len(signature.params):
            raise UsageError(f"call {i}: {signature.name} takes {len(signature.params)} buffers, not {len(c.pointers)}")
        if len(c.vars) != len(signature.symbols) and (c.vars or not set(signature.symbols) <= set(symbols)):
            names = ", ".join(signature.symbols) or "none"
            raise UsageError(f"call {i}: {signature.name} needs a value for each of its symbols ({names}), not {len(c.vars)} values")
        for j, pointer in enumerate(c.pointers):
            if (i, j) not in later:
                check_address(calls, i, j, pointer)


def place(calls: Sequence[AnyCall], call: int, parameter: int) -> None:
    """Raise UsageError where no call has this parameter."""
    if not 0 <= call < len(calls):
        raise UsageError(f"there is no call {call}: they are numbered from 0 to {len(calls) - 1}")
    found = calls[call]
    name, count = (found.name, len(found.pointers)) if isinstance(found, BoundLoop) else _named(found)
    if not 0 <= parameter < count:
        raise UsageError(f"call {call} ({name}) has no parameter {parameter}: it has {count}")


def _named(call: BoundCall) -> tuple[str, int]:
    return call.executable.signature.name, len(call.executable.signature.params)


def described(calls: Sequence[AnyCall], call: int, parameter: int) -> str:
    """A parameter of a call, as messages name it."""
    found = calls[call]
    if isinstance(found, BoundLoop):
        return f"parameter {parameter} of loop {call} ({found.name})"
    signature = found.executable.signature
    return f"{signature.params[parameter].name} of call {call} ({signature.name})"


def check_address(calls: Sequence[AnyCall], call: int, parameter: int, pointer: int) -> None:
    """Raise UsageError where this cannot be the address of a parameter."""
    if pointer <= 0:
        raise UsageError(f"{described(calls, call, parameter)} has no address: give one, or put it into a slot")
    found = calls[call]
    if isinstance(found, BoundLoop):
        return
    signature = found.executable.signature
    size = max(signature.align, signature.params[parameter].dtype.size)
    if found.executable.addressed and pointer % size:
        raise UsageError(f"{described(calls, call, parameter)} must lie at a multiple of {size} bytes, not at {pointer}")


def check_words(words: Sequence[int], slots: Sequence[Any], symbols: Sequence[str]) -> None:
    """Raise UsageError where a run of a replay is not given an address for each slot, and then a value for each symbol."""
    if len(words) != len(slots) + len(symbols):
        values = f", and then values of {', '.join(symbols)}" if symbols else ""
        raise UsageError(f"this replay takes {len(slots)} addresses, one for each slot{values}, not {len(words)}")


_SIZES = 64
"""Values of symbols for which queued calls are kept."""


def _queued(c: BoundCall, known: Mapping[str, int]) -> Callable[..., None]:
    """A call for these values of the symbols."""
    signature = c.executable.signature
    values = c.vars or tuple(known[s] for s in signature.symbols)
    if known and not function([some_written(signature)], tuple(known))(*known.values())[0]:
        return lambda *pointers: None
    return c.executable.queue(values, c.packed)


def some_written(signature: Signature) -> Node:
    """1 where a call has elements to write, 0 where it has none, as an index of its symbols."""
    total = const(0)
    for p in signature.params:
        if p.role == "out":
            total = add(total, prod_of([d for d in p.shape if isinstance(d, int) or bounds(d)[0] < 1]))
    return const(min(total.arg, 1)) if total.op == "const" else make("min", index, (total, const(1)))


def prod_of(shape: Sequence[int | Node]) -> Node:
    """The product of some extents."""
    found = const(1)
    for d in shape:
        found = mul(found, const(d) if isinstance(d, int) else d)
    return found


class QueuedCalls:
    """The calls one after the other from Python, into the device's queue, which is waited for once."""

    def __init__(self, calls: Sequence[BoundCall], slots: Sequence[Places], symbols: Sequence[str] = ()) -> None:
        check(calls, slots, symbols)
        self.calls = tuple(calls)
        self._symbols = tuple(symbols)
        self._sized: dict[tuple[int, ...], list[Callable[..., None]]] = {}
        self._pointers = [list(c.pointers) for c in calls]
        self._slots = [tuple(slot) for slot in slots]
        self._lock = threading.Lock()

    def _queued(self, values: tuple[int, ...]) -> list[Callable[..., None]]:
        """The calls for these values of the symbols; those without elements to write are left out."""
        found = self._sized.get(values)
        if found is None:
            if len(self._sized) >= _SIZES:
                self._sized.clear()
            known = dict(zip(self._symbols, values, strict=True))
            found = self._sized[values] = [_queued(c, known) for c in self.calls]
        return found

    def run(self, *words: int) -> None:
        """As `Replay.__call__`."""
        check_words(words, self._slots, self._symbols)
        addresses, values = words[: len(self._slots)], words[len(self._slots) :]
        with self._lock:
            for slot, address in zip(self._slots, addresses, strict=True):
                for call, parameter in slot:
                    self._pointers[call][parameter] = address
            try:
                for queued, pointers in zip(self._queued(values), self._pointers, strict=True):
                    queued(*pointers)
            finally:
                if self.calls:
                    self.calls[-1].executable.wait()

    def patch(self, call: int, parameter: int, address: int) -> None:
        """As `Replay.patch`, for one address."""
        with self._lock:
            self._pointers[call][parameter] = address

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call may use."""
        return tuple(c.executable.threads for c in self.calls)
