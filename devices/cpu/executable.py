"""A kernel linked into this process: one native call runs all of its phases.

A running call holds one arena of scratch and workspace memory. The arena given back last is taken first, since it is warm in the caches."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import struct
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ...ir.dtypes import index
from ...ir.errors import BuildError, DeviceError, UsageError
from ...ir.index import evaluate
from ...ir.node import Node, make, walk
from ..base import Executable, Packed
from .engine import Code
from .pool import pool

if TYPE_CHECKING:
    from ...program.program import Signature

_PAGE = 4096
_HUGE = 2 << 20
HEAD = 4
"""Words of a call record before its phases: phases, threads, scratches, vars."""
_BOUND = 64
"""Bound calls (one for each combination of symbol values) that `run` keeps."""


class Ends(Protocol):
    """Who must hear that an executable is closed, before its code goes."""

    def end(self, name: str) -> None:
        """The executable of kernel `name` is closed."""


class CpuExecutable(Executable):
    """Linked code and the records of its callers. Any number of Python threads may call it at once."""

    def __init__(self, code: Code, symbols: Sequence[str], signature: Signature, threads: int) -> None:
        """`symbols`: the function of each phase."""
        self.signature, self._code = signature, code
        self._ready([code.address(s) for s in symbols], threads)

    def _ready(self, functions: Sequence[int], threads: int) -> None:
        self._functions, self.threads = list(functions), threads
        self._symbols = _symbols(self.signature)
        self._pool = pool()
        self._sizes = (self.signature.scratch, self.signature.work, threads)
        self._bound: dict[tuple[int, ...], Callable[..., None]] = {}
        self._free: weakref.WeakValueDictionary[int, _Free] = weakref.WeakValueDictionary()
        self._closed = False
        self._ends: weakref.WeakSet[Ends] = weakref.WeakSet()

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self._check(pointers)
        values = tuple(vars)
        bound = self._bound.get(values)
        if bound is None:
            if len(self._bound) >= _BOUND:
                self._bound.clear()
            bound = self._bound[values] = self.bind(values)
        bound(*pointers)

    def bind(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        values, sizes, native = tuple(vars), self._sizes, self._pool.run
        phases = slice(0, None) if packed is None else slice(self.signature.once, None)
        calls, arenas = _Free([self.record(values, phases, packed)]), FREE_ARENAS
        self._free[id(calls)] = calls
        runs = 0

        def call(*pointers: int) -> None:
            nonlocal runs
            runs += 1
            # taking from a list is atomic, so two threads never get the same record or arena
            try:
                c = calls.pop()
            except IndexError:
                c = self.record(values, phases, packed)
            try:
                memory = arenas.pop()
            except IndexError:
                memory = ScratchArena()
            try:
                if c.arena is not memory or c.version != memory.version or memory.version < 0:
                    c.use(memory, sizes)
                c.fill(c.bufs, 0, *pointers)
                native(c.record_at, c.bufs_at)
            finally:
                arenas.append(memory)
                calls.append(c)

        call.runs = lambda: runs  # type: ignore[attr-defined]  # for who records what ran: a count of one's own would cost more than this one
        return call

    def pack(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> Packed:
        if not self.signature.once:
            return super().pack(pointers, vars)
        self._check(pointers)
        packed = Packed(self.signature.work)
        call = self.record(tuple(vars), slice(0, self.signature.once), packed)
        memory = take_arena()
        try:
            call.use(memory, self._sizes)
            call.fill(call.bufs, 0, *pointers)
            self._pool.run(call.record_at, call.bufs_at)
        finally:
            give_arena(memory)
        return packed

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        if not pointer_sets or repeats < 1:
            raise UsageError("timing needs at least one set of pointers and one repeat")
        for pointers in pointer_sets:
            self._check(pointers)
        once = self.signature.once
        kept = [self.pack(p, vars) for p in pointer_sets] if once else []
        call = self.record(tuple(vars), slice(once, None))
        memory = take_arena()
        try:
            call.use(memory, self._sizes)
            works = [p.address for p in kept] or [memory.work] * len(pointer_sets)
            bufs = [(ctypes.c_uint64 * (len(p) + 1))(*p, work) for p, work in zip(pointer_sets, works, strict=True)]
            sets = (ctypes.c_uint64 * len(bufs))(*[ctypes.addressof(b) for b in bufs])
            seconds = (ctypes.c_double * repeats)()
            limit = int(min(limit_s, 1e9) * 1e9)
            made = self._pool.bench(call.record_at, ctypes.addressof(sets), len(bufs), repeats, limit, ctypes.addressof(seconds))
            return list(seconds[:made])
        finally:
            give_arena(memory)

    def reserve(self) -> None:
        memory = take_arena()
        try:
            memory.fit(*self._sizes)
        finally:
            give_arena(memory)

    def poison(self) -> None:
        memory = take_arena()
        memory.poison(*self._sizes)
        give_arena(memory)  # what is given back last is taken first: the next run gets this one

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bound.clear()
            for calls in self._free.values():  # so that a bound call that somebody kept asks for a record, and hears that it is too late
                calls.clear()
            for user in tuple(self._ends):
                user.end(self.signature.name)
            self._release()

    def _release(self) -> None:
        self._code.close()

    def on_close(self, user: Ends) -> None:
        """Tell a user of the code, which is not kept alive for it, when the code goes."""
        self._ends.add(user)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """What a call needs of an arena: bytes of scratch a thread, bytes of workspace, threads."""
        return self._sizes

    def _check(self, pointers: Sequence[int]) -> None:
        if len(pointers) != len(self.signature.params):
            raise UsageError(f"{self.signature.name} takes {len(self.signature.params)} buffers, not {len(pointers)}")

    def record(self, values: tuple[int, ...], phases: slice = slice(0, None), packed: Packed | None = None) -> CallRecord:
        """A record for these values of the symbols, and some of the phases."""
        if self._closed:
            raise UsageError(f"{self.signature.name} has been closed")
        names = self.signature.symbols
        if len(values) != len(names):
            raise UsageError(
                f"{self.signature.name} needs a value for each of its symbols ({', '.join(names) or 'none'}), not {len(values)} values"
            )
        by_name = dict(zip(names, values, strict=True))
        env: dict[Node, int] = {}
        for s in self._symbols:
            if s.arg.name not in by_name:
                raise BuildError(f"{self.signature.name}: the grid depends on {s.arg.name}, which is not one of its symbols")
            env[s] = by_name[s.arg.name]
        items = [evaluate(n, env) for n in self.signature.items[phases]]
        return CallRecord(self._functions[phases], items, self.threads, len(self.signature.params), values, packed)


class ChosenExecutable(CpuExecutable):
    """Several executables of one kernel, of which the values of its symbols say which one runs: one with the phases of all, where those of
    the others have no items. So a choice costs a call some comparisons of words, and whoever runs lists of calls need not know of it."""

    def __init__(self, parts: Sequence[tuple[CpuExecutable, Node]]) -> None:
        """`parts`: executables of the same parameters and symbols, each with an index of the symbols that is 1 where it is the one, else 0."""
        every = [e for e, _ in parts]
        signatures = [e.signature for e in every]
        items = tuple(make("prod", index, (chosen, n)) for e, chosen in parts for n in e.signature.items)
        self.parts = tuple(every)
        self.signature = replace(
            signatures[0],
            items=items,
            scratch=max(s.scratch for s in signatures),
            work=max(s.work for s in signatures),
            align=max(s.align for s in signatures),
            once=0,  # what is packed would be another schedule's at other sizes
            threads=(),
        )
        functions = [f for e in every for f in e._functions]
        self._ready(functions, max(e.threads for e in every))

    def _release(self) -> None:
        for e in self.parts:
            e.close()


class CallRecord:
    """What one running call needs in native memory: the call record, the buffer addresses and the symbols' values. A caller takes
    one, so that no two threads share it. Its workspace is `packed`, or else the arena's."""

    __slots__ = ("arena", "bufs", "bufs_at", "fill", "packed", "record", "record_at", "vars", "version")

    def __init__(
        self, functions: Sequence[int], items: Sequence[int], threads: int, params: int, values: Sequence[int], packed: Packed | None = None
    ) -> None:
        self.record = (ctypes.c_int64 * (HEAD + 2 * len(functions)))()
        self.bufs = (ctypes.c_uint64 * (params + 1))()
        self.vars = (ctypes.c_int64 * max(len(values), 1))(*values)
        self.record_at, self.bufs_at = ctypes.addressof(self.record), ctypes.addressof(self.bufs)
        self.fill = struct.Struct(f"={params}Q").pack_into
        self.record[0], self.record[1], self.record[3] = len(functions), threads, ctypes.addressof(self.vars)
        for i, (f, n) in enumerate(zip(functions, items, strict=True)):
            self.record[HEAD + 2 * i], self.record[HEAD + 2 * i + 1] = f, n
        self.arena: ScratchArena | None = None
        self.version = -1
        self.packed = packed

    def use(self, memory: ScratchArena, sizes: tuple[int, int, int]) -> None:
        """Work in this arena from now on."""
        memory.fit(*sizes)
        self.record[2], self.bufs[len(self.bufs) - 1] = memory.table, self.packed.address if self.packed is not None else memory.work
        self.arena, self.version = memory, memory.version


class ScratchArena:
    """Memory for one running call: `table` is the address of an array of scratch addresses, one a thread, each 64-byte aligned;
    `work` the address of the workspace. `version` changes whenever they do; it is negative while there is no memory."""

    __slots__ = ("_base", "_memory", "_pointers", "_scratch", "_stride", "_threads", "_work", "table", "version", "work")

    def __init__(self) -> None:
        self._scratch = self._threads = self._work = self._stride = -1
        self.table = self.work = self._base = 0
        self.version = -1
        self._memory: mmap.mmap | None = None
        self._pointers: ctypes.Array[ctypes.c_uint64] | None = None

    def fit(self, scratch: int, work: int, threads: int) -> None:
        """Make room for `scratch` bytes a thread and `work` bytes; what was there is lost when it has to grow."""
        if scratch <= self._scratch and work <= self._work and threads <= self._threads:
            return
        scratch, work, threads = max(scratch, self._scratch), max(work, self._work), max(threads, self._threads)
        stride = _round(scratch)
        size = stride * threads + _round(work) + _PAGE
        # the old mapping goes before the new one comes
        self._memory = None
        self._scratch = self._work = self._threads = -1
        self.version = -abs(self.version)
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError, OverflowError, ValueError) as e:
            raise DeviceError(f"no memory for {size >> 20} MiB of scratch and workspace ({threads} threads): {e}") from e
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # only a hint: a kernel without transparent huge pages refuses it, and all still works
            with contextlib.suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._scratch, self._work, self._threads, self._stride = scratch, work, threads, stride
        self._memory, self._base = memory, base
        self._pointers = (ctypes.c_uint64 * threads)(*[base + stride * t for t in range(threads)])
        self.table = ctypes.addressof(self._pointers)
        self.work = base + stride * threads
        self.version = abs(self.version) + 1

    def poison(self, scratch: int, work: int, threads: int) -> None:
        """Fill the parts that a call with these sizes uses with 0xFF."""
        self.fit(scratch, work, threads)
        for t in range(threads):
            ctypes.memset(self._base + self._stride * t, 0xFF, scratch)
        ctypes.memset(self.work, 0xFF, work)


def _round(size: int) -> int:
    return -(-max(size, 1) // _PAGE) * _PAGE


FREE_ARENAS: list[ScratchArena] = []


def take_arena() -> ScratchArena:
    """A free arena (list operations are atomic, so two threads never get the same one)."""
    try:
        return FREE_ARENAS.pop()
    except IndexError:
        return ScratchArena()


def give_arena(arena: ScratchArena) -> None:
    """Hand an arena back."""
    FREE_ARENAS.append(arena)


class _Free(list[CallRecord]):
    """The free records of a bound call; they go when nobody holds that call any more."""

    __slots__ = ("__weakref__",)


def _symbols(signature: Signature) -> list[Node]:
    """The symbol nodes that the grids depend on."""
    return [n for n in walk(*signature.items) if n.op == "sym"]
