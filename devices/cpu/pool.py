"""The process's one thread pool: compiled once, never freed, reset in forked children."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from typing import Any

from ...ir.errors import DeviceError
from . import pool_ir
from .engine import Code, compile_text

SPIN_S = 60e-6
"""How long an idle worker looks for work before it sleeps (waking it costs 35 to 150 µs)."""


class Pool:
    """The native entry points. `run`, `bench` and those of replays are ctypes functions that release the GIL; see `pool_ir` for their arguments."""

    def __init__(self) -> None:
        from ...targets import host

        target = host()
        if target.arch not in pool_ir.SUPPORTED:
            raise DeviceError(f"the cpu device has no thread pool for {target.arch}: it runs on {' and '.join(pool_ir.SUPPORTED)}")
        libc = ctypes.CDLL(None)
        addresses = {n: ctypes.cast(getattr(libc, n), ctypes.c_void_p).value or 0 for n in pool_ir.EXTERNALS}
        code = Code([compile_text(pool_ir.text(target.arch, addresses), target, native=True)], pool_ir.FUNCTIONS)
        code.keep_forever()
        i64, pointer = ctypes.c_int64, ctypes.c_void_p

        def function(name: str, result: Any, *arguments: Any) -> Any:
            return ctypes.CFUNCTYPE(result, *arguments)(code.address(name))

        self.run = function("run", None, pointer, pointer)
        self.bench = function("bench", i64, pointer, pointer, i64, i64, i64, pointer)
        self.replay = function("replay", None, pointer, i64, pointer, i64, pointer)
        self.scatter = function("scatter", None, pointer, i64, pointer)
        self.replay_timed = function("replay_timed", None, pointer, i64, pointer)
        self.started = function("started", i64)
        """How many workers exist in this process."""
        function("set_spin", None, i64)(_spins(function("spin_pauses", None, i64)))
        os.register_at_fork(after_in_child=function("reset", None))


def _spins(pauses: Any) -> int:
    """How many pauses make SPIN_S: a pause is 4 to 140 cycles, by processor. The least of a few tries, for we may be interrupted."""
    n = 2000
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        pauses(n)
        best = min(best, time.perf_counter() - begin)
    return max(10, int(n * SPIN_S / best))


@functools.cache
def pool() -> Pool:
    """The pool of this process."""
    return Pool()
