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
"""Longer than a writer waits; one in twenty locks lasts so long."""


@kind("cache locked", "another process holds the file for 0.1 to 3 s (one in twenty: 20 s), as a writer, exclusively, or reading")
def cache_locked(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    s = search(scratch, rng, budget="1.5s")
    known = evidence.committed(s.cache)
    if s.begun("child") and rng.random() < 0.8:
        s.recording(known)
    before = evidence.committed(s.cache)
    if s.cache.is_file():
        with contextlib.closing(sqlite3.connect(s.cache, timeout=10, isolation_level=None)) as c, contextlib.suppress(sqlite3.OperationalError):
            how = rng.choice(("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN"))
            c.execute(how)
            c.execute("SELECT COUNT(*) FROM measurement").fetchone()
            time.sleep(LONG_S if rng.random() < 0.05 else rng.uniform(0.1, 3))
            c.execute("ROLLBACK")
    s.ended(v, (0,), seconds=90)
    s.settled(v, before, evidence.spilled(scratch))
    if s.through and evidence.committed(s.cache) | evidence.spilled(scratch) <= known:
        v.fail("lost", f"a search behind a lock kept nothing: {s.tool.tail()}")
    return v
