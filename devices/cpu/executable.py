"""A kernel linked into this process: one native call runs all of its phases."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir.errors import BuildError, UsageError
from ...ir.index import evaluate
from ...ir.node import Node
from ..base import Executable
from ..packed import Packed
from . import scratch as arena
from .engine import Code
from .pool import pool

if TYPE_CHECKING:
    from ...program.program import Signature

_HEAD = 4
"""Words of a call record before its phases: phases, threads, scratches, vars."""
_BOUND = 64
"""Bound calls (one for each combination of symbol values) that `run` keeps."""


class _Call:
    """What one running call needs in native memory: the call record, the buffer addresses and the symbols' values. A caller takes
    one, so that no two threads share it. Its workspace is `packed`, or else the arena's."""

    __slots__ = ("arena", "bufs", "bufs_at", "fill", "packed", "record", "record_at", "vars", "version")

    def __init__(
        self, functions: Sequence[int], items: Sequence[int], threads: int, params: int, values: Sequence[int], packed: Packed | None = None
    ) -> None:
        self.record = (ctypes.c_int64 * (_HEAD + 2 * len(functions)))()
        self.bufs = (ctypes.c_uint64 * (params + 1))()
        self.vars = (ctypes.c_int64 * max(len(values), 1))(*values)
        self.record_at, self.bufs_at = ctypes.addressof(self.record), ctypes.addressof(self.bufs)
        self.fill = struct.Struct(f"={params}Q").pack_into
        self.record[0], self.record[1], self.record[3] = len(functions), threads, ctypes.addressof(self.vars)
        for i, (f, n) in enumerate(zip(functions, items, strict=True)):
            self.record[_HEAD + 2 * i], self.record[_HEAD + 2 * i + 1] = f, n
        self.arena: arena.ScratchArena | None = None
        self.version = -1
        self.packed = packed

    def use(self, memory: arena.ScratchArena, sizes: tuple[int, int, int]) -> None:
        """Work in this arena from now on."""
        memory.fit(*sizes)
        self.record[2], self.bufs[len(self.bufs) - 1] = memory.table, self.packed.address if self.packed is not None else memory.work
        self.arena, self.version = memory, memory.version


class _Calls(list[_Call]):
    """The free records of a bound call; they go when nobody holds that call any more."""

    __slots__ = ("__weakref__",)


class CpuExecutable(Executable):
    """Linked code and the records of its callers. Any number of Python threads may call it at once."""

    def __init__(self, code: Code, symbols: Sequence[str], signature: Signature, threads: int) -> None:
        """`symbols`: the function of each phase."""
        self.signature, self.threads = signature, threads
        self._code = code
        self._functions = [code.address(s) for s in symbols]
        self._symbols = _symbols(signature)
        self._pool = pool()
        self._sizes = (signature.scratch, signature.work, threads)
        self._bound: dict[tuple[int, ...], Callable[..., None]] = {}
        self._free: weakref.WeakValueDictionary[int, _Calls] = weakref.WeakValueDictionary()
        self._closed = False

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
        calls, arenas = _Calls([self._call(values, phases, packed)]), arena.free
        self._free[id(calls)] = calls

        def call(*pointers: int) -> None:
            # taking from a list is atomic, so two threads never get the same record or arena
            try:
                c = calls.pop()
            except IndexError:
                c = self._call(values, phases, packed)
            try:
                memory = arenas.pop()
            except IndexError:
                memory = arena.ScratchArena()
            try:
                if c.arena is not memory or c.version != memory.version or memory.version < 0:
                    c.use(memory, sizes)
                c.fill(c.bufs, 0, *pointers)
                native(c.record_at, c.bufs_at)
            finally:
                arenas.append(memory)
                calls.append(c)

        return call

    def pack(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> Packed:
        if not self.signature.once:
            return super().pack(pointers, vars)
        self._check(pointers)
        packed = Packed(self.signature.work)
        call = self._call(tuple(vars), slice(0, self.signature.once), packed)
        memory = arena.take()
        try:
            call.use(memory, self._sizes)
            call.fill(call.bufs, 0, *pointers)
            self._pool.run(call.record_at, call.bufs_at)
        finally:
            arena.give(memory)
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
        call = self._call(tuple(vars), slice(once, None))
        memory = arena.take()
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
            arena.give(memory)

    def reserve(self) -> None:
        memory = arena.take()
        try:
            memory.fit(*self._sizes)
        finally:
            arena.give(memory)

    def poison(self) -> None:
        memory = arena.take()
        memory.poison(*self._sizes)
        arena.give(memory)  # what is given back last is taken first: the next run gets this one

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bound.clear()
            for calls in self._free.values():  # so that a bound call that somebody kept asks for a record, and hears that it is too late
                calls.clear()
            self._code.close()

    def _check(self, pointers: Sequence[int]) -> None:
        if len(pointers) != len(self.signature.params):
            raise UsageError(f"{self.signature.name} takes {len(self.signature.params)} buffers, not {len(pointers)}")

    def _call(self, values: tuple[int, ...], phases: slice = slice(0, None), packed: Packed | None = None) -> _Call:
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
        return _Call(self._functions[phases], items, self.threads, len(self.signature.params), values, packed)


def _symbols(signature: Signature) -> list[Node]:
    """The symbol nodes that the grids depend on."""
    found: dict[Node, None] = {}
    todo = list(signature.items)
    while todo:
        node = todo.pop()
        if node.op == "sym":
            found[node] = None
        todo.extend(node.src)
    return list(found)
