"""Who watches kernels run: `tune profile`. Nothing is timed, and nothing is called, while nobody does.

Whoever runs kernels asks `WATCH.observer` and, where somebody watches, makes each call inside of `timed`. Kinds of
events: `kernel`, `numpy` (NumPy's own code), `build` (a kernel resolved and compiled) and `graph` (partition and
pulling)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...devices.once import process_lock


@dataclass(frozen=True, slots=True)
class Event:
    """What took from `start` for `seconds` (of `time.perf_counter`). `subject`: the Kernel, what a record
    kept of it (`FoundKernel`), or None; `threads`: as many as it may use, 0 where that is not known."""

    kind: str
    name: str
    start: float
    seconds: float
    device: str = ""
    subject: Any = None
    threads: int = 0


Observer = Callable[[Event], None]


class CallWatch:
    """`observer`: what every call is reported to, or None. `busy`: whether there is one, or a thread looks for NaNs or captures a function:
    what is so short that questions take as long asks this one only."""

    __slots__ = ("busy", "capturing", "looking", "observer")

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self.looking = self.capturing = 0
        self.busy = False

    def tell(self) -> None:
        """Make `busy` true of what is set."""
        self.busy = self.observer is not None or self.looking > 0 or self.capturing > 0

    @contextmanager
    def captured(self) -> Iterator[None]:
        """A thread captures a function while this is open."""
        with _LOCK:
            self.capturing += 1
            self.tell()
        try:
            yield
        finally:
            with _LOCK:
                self.capturing -= 1
                self.tell()


WATCH = CallWatch()


class _Nans(threading.local):
    on = False


NANS = _Nans()
"""Whether this thread looks for what makes NaNs (`debug.nans`)."""


@contextmanager
def looking_for_nans(on: bool) -> Iterator[None]:
    """Whether this thread does, while this is open."""
    before, NANS.on = NANS.on, on
    with _LOCK:
        WATCH.looking += 1
        WATCH.tell()
    try:
        yield
    finally:
        NANS.on = before
        with _LOCK:
            WATCH.looking -= 1
            WATCH.tell()


_LOCK = process_lock()


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Report every event to `observer` while this is open, on whatever thread. An inner one replaces the outer one."""
    before, WATCH.observer = WATCH.observer, observer
    WATCH.tell()
    try:
        yield
    finally:
        WATCH.observer = before
        WATCH.tell()


@contextmanager
def timed(kind: str, name: str, device: str = "", subject: Any = None, threads: int = 0) -> Iterator[None]:
    """Tell the observer how long the block took; nothing where there is none, or where the block raises."""
    observer = WATCH.observer
    if observer is None:
        yield
        return
    start = time.perf_counter()
    yield
    observer(Event(kind, name, start, time.perf_counter() - start, device, subject, threads))


class WorkReport:
    """What computed tensors while it was open: `counts` and `seconds` by what did, a name of `ROWS`."""

    ROWS = ("small operations", "small graphs", "kernels", "compilations", "graphs made into kernels", "NumPy's code", "converted arrays")
    """Of NumPy: operations at once, graphs node by node, its code between kernels (sorting, decompositions), and functions that have no twin
    here."""

    def __init__(self) -> None:
        self.counts, self.seconds = dict.fromkeys(self.ROWS, 0), dict.fromkeys(self.ROWS, 0.0)
        self._lock = process_lock()

    def hear(self, event: Event) -> None:
        """Count an event."""
        row = _REPORTED.get(event.kind) or _REPORTED.get(event.name) or self.ROWS[5 + event.name.endswith(" of converted arrays")]
        with self._lock:
            self.counts[row] += 1
            self.seconds[row] += event.seconds

    def __str__(self) -> str:
        return "\n".join(f"{self.counts[row]:9,} {row:26}{self.seconds[row] * 1e3:12,.1f} ms" for row in self.ROWS if self.counts[row])


_REPORTED = {
    "small operation": "small operations", "small graph": "small graphs", "kernel": "kernels", "build": "compilations",
    "graph": "graphs made into kernels",
}  # fmt: skip


@contextmanager
def report() -> Iterator[WorkReport]:
    """Count what computes tensors while this is open, on all threads: `with tilewright.report() as done: …`, then `print(done)`, or
    `done.counts["kernels"]` and `done.seconds["compilations"]`. Calls take some microseconds longer meanwhile."""
    made = WorkReport()
    with observing(made.hear):
        yield made
