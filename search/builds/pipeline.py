"""Builds run ahead while the main thread times what is ready.

The measurer's builders are processes that work on while it times something; it says itself when they may use the
cores. Here is only the queue: what is handed to the builders, what has come back, and how long to wait for it.
Everything happens in the main thread, which is where Ctrl-C arrives."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...measure import Duel, Measurement
    from ..space import Schedule

_LOOK_S = 0.05
"""Seconds after which all batches are looked at again, where no builder says anything."""
READY_S = 0.004
"""A build that comes back within this time was there already; the one after it is worth asking for."""


class MeasurerLike(Protocol):
    """The part of `measure.Measurer` that a search uses. One that times on several devices also has `width`, their number;
    `again(built)`, which is `measure` with all on one of them, so that times can be compared; and `arrived`, a function that is called with
    each result of `measure` as it arrives."""

    def build(self, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Any]]: ...

    def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]: ...

    def confirm(self, built: Any) -> Measurement: ...

    def duel(self, a: Any, b: Any, rounds: int = ...) -> Duel: ...


def width_of(measurer: MeasurerLike) -> int:
    """Devices that a measurer times on at once; it may change in the course of a search."""
    return int(getattr(measurer, "width", 1))


def again_on(measurer: MeasurerLike) -> Callable[[Sequence[Any]], list[Measurement]]:
    """How it times schedules that were timed before, all on one device."""
    found: Callable[[Sequence[Any]], list[Measurement]] = getattr(measurer, "again", measurer.measure)
    return found


def meanwhile(measurer: MeasurerLike, todo: Callable[[], None]) -> None:
    """Have it call `todo` while it next times something, if it can, and leaves a core for that."""
    found: Callable[[Callable[[], None]], None] | None = getattr(measurer, "meanwhile", None)
    if found is not None:
        found(todo)


class Pipeline:
    """Schedules in, builds (or failed measurements) out, as they finish. One that takes long holds up no others, where the measurer's
    builds can say what is `finished` (`measure.processes.builds.Builds`)."""

    def __init__(self, measurer: MeasurerLike, clock: Callable[[], float] = time.monotonic) -> None:
        self._measurer, self._clock = measurer, clock
        self._batches: deque[tuple[list[Schedule], Any]] = deque()
        self._ready: deque[tuple[Schedule, Any]] = deque()
        self.pending = 0
        """Schedules submitted and not taken yet."""

    def submit(self, schedules: Sequence[Schedule]) -> None:
        """Hand schedules to the builders."""
        if schedules:
            batch = list(schedules)
            self.pending += len(batch)
            self._batches.append((batch, self._measurer.build(batch)))

    def take(self, least: int, most: int, wait_s: float, limit_s: float = math.inf) -> list[tuple[Schedule, Any]]:
        """At least one finished build where any is pending and finished within `limit_s` seconds: as many as are there, and `least` if
        they come within `wait_s` seconds, at most `most`."""
        if not all(hasattr(builds, "finished") for _, builds in self._batches):
            return self._in_order(least, most, wait_s)
        began = self._clock()
        while True:
            self._gather()
            spent = self._clock() - began
            if len(self._ready) >= min(least, most) or not self._batches or spent > (wait_s if self._ready else limit_s):
                break
            self._batches[0][1].wait(min(_LOOK_S, max(wait_s, 0.001)))
        out = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        self.pending -= len(out)
        return out

    def _gather(self) -> None:
        """What is finished of all batches."""
        for batch, builds in self._batches:
            self._ready += [(batch[i], made) for i, made in builds.finished(0.0)]
        self._batches = deque((batch, builds) for batch, builds in self._batches if len(builds))

    def _in_order(self, least: int, most: int, wait_s: float) -> list[tuple[Schedule, Any]]:
        """The same where builds come in the order of their batches, however long one takes."""
        out: list[tuple[Schedule, Any]] = []
        began = self._clock()
        while self._batches and len(out) < most:
            batch, builds = self._batches[0]
            asked = self._clock()
            got = next(builds, None)
            if got is None:
                self._batches.popleft()
                continue
            self.pending -= 1
            out.append((batch[got[0]], got[1]))
            now = self._clock()
            if now - asked > READY_S and (len(out) >= least or now - began > wait_s):
                break
        return out

    def close(self) -> None:
        """Drop what is pending."""
        for _, builds in self._batches:
            close = getattr(builds, "close", None)
            if close is not None:
                close()
        self._batches.clear()
        self._ready.clear()
        self.pending = 0
