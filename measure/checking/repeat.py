"""Run a candidate again and again on the same inputs, under conditions that change: a race that needs a certain order
of events should get its chance.

The threads of the pool are hot (they spin) when a call follows another at once, and asleep after a pause; beside a
busy neighbour they are interrupted in the middle of their work; in a burst of timed calls nothing lies between one
call and the next."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .repeated_runs import Watch

LEAST = 16
"""Runs that a winner must agree with itself in."""
MOST = 512
SPEND_S = 0.4
"""Seconds that more than LEAST runs may take: small kernels are run up to MOST times."""
LIMIT_S = 4.0
"""Seconds after which fewer than LEAST are enough."""
_ROUND = 8
"""Every condition comes once in so many runs."""
_SLEEPS = {3: 0.003, 6: 0.02}
"""Pauses, in seconds, before some runs of a round: the pool's threads go to sleep after 2 ms."""
_BURST, _BUSY = 5, (1, 4)
_FIRST_ROUNDS = 2 * _ROUND
"""Pauses and neighbours slow small kernels down: after these runs they come once in 64."""


def expected_s(call_s: float) -> float:
    """About how many seconds `repeat` takes for calls of so many."""
    return max(SPEND_S, min(LIMIT_S, LEAST * call_s))


def repeat(watch: Watch, step: Callable[[], None]) -> int:
    """How many more runs gave the same outputs as the first, which `watch` keeps: at least LEAST unless they take
    longer than LIMIT_S. `step` is called before each (it renews the candidate's deadline). Raises
    WrongResultError."""
    addresses = watch.bench.operands.checked
    began, runs = time.monotonic(), 0
    while not _enough(runs, time.monotonic() - began):
        step()
        _vary(watch, runs, addresses)
        runs += 1
    return runs


def _enough(runs: int, spent: float) -> bool:
    if runs < LEAST:
        return spent > LIMIT_S
    return runs >= MOST or spent > SPEND_S


def _vary(watch: Watch, run: int, addresses: list[int]) -> None:
    """One more run, under the condition that is its turn."""
    turn = run % _ROUND if run < _FIRST_ROUNDS or run % 64 < _ROUND else 0
    if turn in _SLEEPS:
        time.sleep(_SLEEPS[turn])
    if turn == _BURST:
        watch.time([addresses], watch.bench.vars, 3)
        return
    if turn in _BUSY:
        with _Neighbour():
            watch.run(addresses)
    else:
        watch.run(addresses)
    watch.again(addresses)


class _Neighbour:
    """A thread that keeps a core busy, without Python's lock."""

    def __enter__(self) -> _Neighbour:
        self._stop = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop = True
        self._thread.join()

    def _work(self) -> None:
        block = ctypes.create_string_buffer(1 << 18)
        while not self._stop:
            ctypes.memset(block, 0, len(block))
