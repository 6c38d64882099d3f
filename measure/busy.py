"""Whether other programs use the machine: times are then too long, and limits that are measured too low."""

from __future__ import annotations

import os
import time

SAMPLE_S = 0.15
"""How long is looked."""
BUSY = 0.4
"""Cores that others may use without being worth a word."""


def used_by_others(seconds: float = SAMPLE_S) -> float | None:
    """How many cores other programs used in the next so many seconds; None where the system does not say. (Linux
    counts in hundredths of a second, and in a container the whole machine.)"""
    before = _times()
    if before is None:
        return None
    own, begin = _own(), time.monotonic()
    time.sleep(seconds)
    after = _times()
    if after is None:
        return None
    return max(0.0, (after - before) - (_own() - own)) / (time.monotonic() - begin)


def _own() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def _times() -> float | None:
    """Seconds of processor time that all programs used since the machine started."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            user, nice, system, _idle, _wait, *rest = (int(x) for x in f.readline().split()[1:])
        return (user + nice + system + sum(rest[:2])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
