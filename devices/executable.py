"""A kernel linked into this process: one native call runs all of its phases."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..ir import index
from ..ir.errors import BuildError, UsageError
from ..ir.node import Node
from . import arena
from .base import Executable
from .engine import Code
from .pool import pool

if TYPE_CHECKING:
    from ..lower.program import Signature

_HEAD = 4
"""Words of a call record before its phases: phases, threads, scratches, vars."""


class _Call:
    """What one running call needs in native memory: the call record, the buffer addresses and the symbols' values. A caller takes
    one, so that no two threads share it."""

    __slots__ = ("bufs", "bufs_at", "fill", "record", "record_at", "values", "vars")

    def __init__(self, functions: Sequence[int], threads: int, params: int, symbols: int) -> None:
        self.record = (ctypes.c_int64 * (_HEAD + 2 * len(functions)))()
        self.bufs = (ctypes.c_uint64 * (params + 1))()
        self.vars = (ctypes.c_int64 * max(symbols, 1))()
        self.record_at, self.bufs_at = ctypes.addressof(self.record), ctypes.addressof(self.bufs)
        self.fill = struct.Struct(f"={params + 1}Q").pack_into
        self.record[0], self.record[1], self.record[3] = len(functions), threads, ctypes.addressof(self.vars)
        for i, f in enumerate(functions):
            self.record[_HEAD + 2 * i] = f
        self.values: tuple[int, ...] | None = None


class CpuExecutable(Executable):
    """Linked code and the records of its callers. Any number of Python threads may call it at once."""

    def __init__(self, code: Code, signature: Signature, threads: int) -> None:
        self.signature, self.threads = signature, threads
        self._code = code
        self._functions = [code.address(signature.entry(i)) for i in range(len(signature.items))]
        self._symbols = tuple(_symbols(signature))
        self._calls: list[_Call] = []
        self._pool = pool()
        self._sizes = (signature.scratch, signature.work, threads)

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self._check(pointers)
        call, memory = self._take(tuple(vars))
        try:
            call.fill(call.bufs, 0, *pointers, memory.work)
            self._pool.run(call.record_at, call.bufs_at)
        finally:
            self._give(call, memory)

    def time(self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")) -> list[float]:
        if not pointer_sets or repeats < 1:
            raise UsageError("timing needs at least one set of pointers and one repeat")
        for pointers in pointer_sets:
            self._check(pointers)
        call, memory = self._take(tuple(vars))
        try:
            width = len(self.signature.params) + 1
            bufs = [(ctypes.c_uint64 * width)(*p, memory.work) for p in pointer_sets]
            sets = (ctypes.c_uint64 * len(bufs))(*[ctypes.addressof(b) for b in bufs])
            seconds = (ctypes.c_double * repeats)()
            limit = int(min(limit_s, 1e9) * 1e9)
            made = self._pool.bench(call.record_at, ctypes.addressof(sets), len(bufs), repeats, limit, ctypes.addressof(seconds))
            return list(seconds[:made])
        finally:
            self._give(call, memory)

    def poison(self) -> None:
        memory = arena.take()
        memory.poison(*self._sizes)
        arena.give(memory)  # what is given back last is taken first: the next run gets this one

    def bind(self, vars: Sequence[int] = ()) -> Callable[..., None]:
        values = tuple(vars)
        take, give, native = self._take, self._give, self._pool.run

        def call(*pointers: int) -> None:
            record, memory = take(values)
            try:
                record.fill(record.bufs, 0, *pointers, memory.work)
                native(record.record_at, record.bufs_at)
            finally:
                give(record, memory)

        return call

    def close(self) -> None:
        self._calls.clear()
        self._functions.clear()
        self._code.close()

    # calls --------------------------------------------------------------------------------------------------------
    def _check(self, pointers: Sequence[int]) -> None:
        if len(pointers) != len(self.signature.params):
            raise UsageError(f"{self.signature.name} takes {len(self.signature.params)} buffers, not {len(pointers)}")

    def _take(self, values: tuple[int, ...]) -> tuple[_Call, arena.Arena]:
        try:
            call = self._calls.pop()
        except IndexError:
            call = _Call(self._functions, self.threads, len(self.signature.params), len(self.signature.symbols))
        if call.values != values:
            self._set_vars(call, values)
        memory = arena.take()
        memory.fit(*self._sizes)
        call.record[2] = memory.table
        return call, memory

    def _give(self, call: _Call, memory: arena.Arena) -> None:
        arena.give(memory)
        self._calls.append(call)

    def _set_vars(self, call: _Call, values: tuple[int, ...]) -> None:
        names = self.signature.symbols
        if not self._functions:
            raise UsageError(f"{self.signature.name} has been closed")
        if len(values) != len(names):
            raise UsageError(f"{self.signature.name} needs a value for each of its symbols ({', '.join(names) or 'none'}), not {len(values)} values")
        by_name = dict(zip(names, values, strict=True))
        env: dict[Node, int] = {}
        for s in self._symbols:
            if s.arg.name not in by_name:
                raise BuildError(f"{self.signature.name}: the grid depends on {s.arg.name}, which is not one of its symbols")
            env[s] = by_name[s.arg.name]
        for i, items in enumerate(self.signature.items):
            call.record[_HEAD + 2 * i + 1] = index.evaluate(items, env)
        for i, v in enumerate(values):
            call.vars[i] = v
        call.values = values


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
