"""A kernel linked into this process: one native call runs all of its phases."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...ir.errors import BuildError, UsageError
from ...ir.index import evaluate
from ...ir.node import Node
from ..base import Executable
from ..packed import Packed
from . import scratch as arena
from .call import CallRecord
from .engine import Code
from .pool import pool

if TYPE_CHECKING:
    from ...program.program import Signature

_BOUND = 64
"""Bound calls (one for each combination of symbol values) that `run` keeps."""


class _Free(list[CallRecord]):
    """The free records of a bound call; they go when nobody holds that call any more."""

    __slots__ = ("__weakref__",)


class Ends(Protocol):
    """Who must hear that an executable is closed, before its code goes."""

    def end(self, name: str) -> None:
        """The executable of kernel `name` is closed."""


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
        calls, arenas = _Free([self.record(values, phases, packed)]), arena.free
        self._free[id(calls)] = calls

        def call(*pointers: int) -> None:
            # taking from a list is atomic, so two threads never get the same record or arena
            try:
                c = calls.pop()
            except IndexError:
                c = self.record(values, phases, packed)
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
        call = self.record(tuple(vars), slice(0, self.signature.once), packed)
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
        call = self.record(tuple(vars), slice(once, None))
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
            for user in tuple(self._ends):
                user.end(self.signature.name)
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
