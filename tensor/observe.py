"""Who watches kernels run: `tune profile`. Nothing is timed, and nothing is called, while nobody does.

Whoever runs kernels asks `observer()` once for a list of calls and, where somebody watches, makes each call inside of
`timed`. Kinds of events: `kernel`, `numpy` (NumPy's own code), `build` (a kernel resolved and compiled) and `graph`
(partition and pulling)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """What took from `start` for `seconds` (of `time.perf_counter`). `subject`: the Kernel, or None; `threads`: as they
    were asked for, None for the device's own number."""

    kind: str
    name: str
    start: float
    seconds: float
    device: str = ""
    subject: Any = None
    threads: int | None = None


Observer = Callable[[Event], None]

_observer: Observer | None = None


def observer() -> Observer | None:
    """Who is to be told of every call, or None."""
    return _observer


@contextmanager
def observing(told: Observer) -> Iterator[None]:
    """`told` hears of every event while this is open. One at a time: an inner one replaces the outer one."""
    global _observer
    before, _observer = _observer, told
    try:
        yield
    finally:
        _observer = before


@contextmanager
def timed(kind: str, name: str, device: str = "", subject: Any = None, threads: int | None = None) -> Iterator[None]:
    """Tell the observer how long the block took; nothing where there is none, or where the block raises."""
    told = _observer
    if told is None:
        yield
        return
    start = time.perf_counter()
    yield
    told(Event(kind, name, start, time.perf_counter() - start, device, subject, threads))
