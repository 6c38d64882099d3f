"""Timing on a GPU: events between calls that are queued while the GPU waits, so that no gap between launches counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ...ir.errors import UsageError
from .session import CudaSession

_BATCH = 64
"""Calls, at most, that are queued before anybody waits."""
_DEPTH = 256
"""Launches and events, at most, that are queued while the GPU is held: a driver takes about a thousand before a launch waits for the GPU,
and that would wait for us."""
_BATCH_S = 0.02
_SHORT_S = 50e-6
"""Calls shorter than this are timed several at once: an event costs the GPU about a microsecond."""
_TRIES = 3

Queue = Callable[[Sequence[int]], None]
"""Gives the GPU one call with these pointers to do."""


def timed(
    s: CudaSession, queue: Queue, launches: int, sets: Sequence[Sequence[int]], repeats: int, limit_s: float = float("inf")
) -> list[float]:
    """As `Executable.time`, for whatever `queue(pointers)` gives the GPU to do in so many launches; call it with the lock held.

    The GPU's events stand between calls that are queued while it waits, so that what is measured is the time from the
    start of one call to the start of the next. Calls of less than 50 µs are timed in groups: each is given the group's
    mean. `s.clocks` says afterwards how fast the GPU ran."""
    if not sets or repeats < 1:
        raise UsageError("timing needs at least one set of pointers and one repeat")
    out: list[float] = []
    s.use()
    s.wake()
    begin = time.monotonic()
    while len(out) < repeats and (not out or time.monotonic() - begin < limit_s):
        # one call tells how long they take
        typical = max(min(out), 1e-7) if out else _BATCH_S
        group = min(_BATCH, round(_SHORT_S / typical)) if typical < _SHORT_S else 1
        left = min(limit_s - (time.monotonic() - begin), _BATCH_S) if out else _BATCH_S
        most = min(repeats - len(out), _BATCH, max(1, _DEPTH // (launches + 1)))
        count = max(1, min(most, int(max(left, 0.0) / typical)))
        out += _batch(s, queue, launches, sets, len(out), count, group)
    s.hold_clock()
    return out


def _batch(s: CudaSession, queue: Queue, launches: int, sets: Sequence[Sequence[int]], first: int, count: int, group: int) -> list[float]:
    """Seconds of `count` calls, the first one being number `first`. A batch whose hold ran out before all was queued (this program
    stood still) is made again."""
    driver = s.use()
    sizes = [min(group, count - i) for i in range(0, count, group)]
    events = [driver.event() for _ in range(len(sizes) + 1)]
    hold = s.queues and count * (launches + 1) <= _DEPTH
    for _ in range(_TRIES):
        with s.held() if hold else nullcontext():
            driver.record(events[0])
            at = first
            for size, event in zip(sizes, events[1:], strict=True):
                for _ in range(size):
                    queue(sets[at % len(sets)])
                    at += 1
                driver.record(event)
        s.sample()
        s.wait()
        if not hold or s.complete():
            break
    return [driver.seconds(a, b) / size for size, a, b in zip(sizes, events[:-1], events[1:], strict=True) for _ in range(size)]
