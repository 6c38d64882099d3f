"""Another program holds the cache file: a backup, a second tuner in a long transaction, somebody's open database browser."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import search

LONG_S = 20.0
"""Longer than a writer waits; one in 25 locks lasts so long."""


@kind("cache locked", "another process holds the file for 0.1 to 1.5 s (one in 25: 20 s), as a writer, exclusively, or reading")
def cache_locked(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict()
    s = search(scratch, rng, budget="2s")
    known, before = evidence.committed(s.cache), set[str]()
    if s.begun("child") and rng.random() < 0.8:
        s.recording(known)
    for _ in range(2):
        before |= evidence.committed(s.cache)
        v.injections += s.cache.is_file() and s.tool.running() and _hold(s.cache, rng)
        time.sleep(rng.uniform(0, 0.3))
    s.ended(v, (0,), seconds=90)
    s.settled(v, before, evidence.spilled(scratch))
    if s.through and evidence.committed(s.cache) | evidence.spilled(scratch) <= known:
        v.fail("lost", f"a search behind a lock kept nothing: {s.tool.tail()}")
    return v


def _hold(path: Path, rng: random.Random) -> bool:
    """Lock the file for a while; False where that cannot be had."""
    with contextlib.closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as c, contextlib.suppress(sqlite3.OperationalError):
        c.execute(rng.choice(("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN")))
        c.execute("SELECT COUNT(*) FROM measurement").fetchone()
        time.sleep(LONG_S if rng.random() < 1 / 25 else rng.uniform(0.1, 1.5))
        c.execute("ROLLBACK")
        return True
    return False
