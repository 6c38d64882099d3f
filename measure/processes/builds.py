"""Schedules that are being built: handed to the pool at once, taken as they finish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..outcome import Measurement
from . import builder

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...plan import Built
    from .buildpool import BuildPool


class Builds(Iterator[tuple[int, "Built | Measurement"]]):
    """What `Measurer.build` returns."""

    def __init__(self, pool: BuildPool, schedules: Sequence[tuple[Opt, ...]]) -> None:
        self._pool, self._schedules = pool, schedules
        self._tickets: dict[int, int] = {}
        for i, opts in enumerate(schedules):  # an interrupt may strike between any two
            self._tickets[pool.submit(opts)] = i

    def __next__(self) -> tuple[int, Built | Measurement]:
        while self._tickets:
            for ticket, i in self._tickets.items():
                got = self._pool.take(ticket)
                if got is not None:
                    del self._tickets[ticket]
                    return i, self._result(i, got)
            self._pool.pump(1.0)
        raise StopIteration

    def finished(self, wait_s: float) -> list[tuple[int, Built | Measurement]]:
        """All that is finished and was not taken yet; where nothing is, what is within `wait_s` seconds. Empty: nothing yet, or
        nothing left (`len`)."""
        until = time.monotonic() + wait_s
        while True:
            self._pool.pump(0.0)
            done = [(t, i, got) for t, i in self._tickets.items() if (got := self._pool.take(t)) is not None]
            for ticket, _, _ in done:
                del self._tickets[ticket]
            if done or not self._tickets or time.monotonic() >= until:
                return [(i, self._result(i, got)) for _, i, got in done]
            self._pool.pump(min(0.05, max(0.0, until - time.monotonic())))

    def wait(self, wait_s: float) -> None:
        """Until some builder says something, at most so many seconds."""
        self._pool.pump(wait_s)

    def __len__(self) -> int:
        """Schedules that were not taken yet."""
        return len(self._tickets)

    def _result(self, i: int, got: Built | builder.Failed) -> Built | Measurement:
        if isinstance(got, builder.Failed):
            return Measurement(tuple(self._schedules[i]), got.outcome, detail=got.detail, build_s=got.seconds)
        return got

    def close(self) -> None:
        """Drop what is not built yet."""
        self._pool.cancel(set(self._tickets))
        self._tickets.clear()

    def __del__(self) -> None:
        if hasattr(self, "_tickets"):  # not where an interrupt struck before there was anything to drop
            self.close()
