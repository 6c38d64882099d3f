"""The disk that holds the cache is full, becomes read-only or fails, or the file goes away, while a search runs."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import Search, again, search
from .shim import Shim, missing


def _trouble(mode: str, rng: random.Random, scratch: Path) -> Verdict:
    """A search on a disk that is in trouble now and then, or from a moment on. It ends as usual and what it measured
    is in the cache or in a bundle."""
    v = Verdict()
    shim = Shim(scratch, scratch / "disk")
    result = scratch / "result.json"
    result.unlink(missing_ok=True)
    known = evidence.committed(shim.folder / "cache.db") | evidence.spilled(scratch)
    s = search(scratch, rng, "--json", str(result), budget="1.8s", env=shim.env())
    # what it does while it opens the cache is another matter: an error that says what to do, before any time is spent
    before: set[str] = set()
    if s.begun("child"):
        for _ in range(rng.randrange(1, 4)):
            shim.disk("well")
            time.sleep(rng.uniform(0.05, 0.5))
            before |= evidence.committed(s.cache)
            shim.disk(mode)
            v.injections += s.tool.running()
            time.sleep(rng.uniform(0.05, 0.5))
    if rng.random() < 0.5:
        shim.disk("well")
    s.ended(v, (0,), seconds=90)
    shim.disk("well")
    kept = evidence.spilled(scratch)
    s.settled(v, before, kept)
    _everything(v, s, result, known, kept)
    if rng.random() < 0.2:
        again(v, scratch, rng)
    return v


def _everything(v: Verdict, s: Search, result: Path, known: set[str], kept: set[str]) -> None:
    """Every candidate that the run counted as right has its row, in the cache or in a bundle."""
    if not result.exists():
        return
    counted = json.loads(result.read_text())["counts"].get("ok", 0)
    rows = [r for r in evidence.read(s.cache)[0] if r.digest not in known and r.outcome == "ok"]
    have = len({r.digest for r in rows} | (kept - known))
    if have < counted:
        v.fail("lost", f"{counted} candidates were right, {have} rows of them are left: {s.tool.tail()}", counted - have)


@kind("disk full", "no file of the cache's folder can grow, now and then or to the end of the search", missing=missing)
def disk_full(rng: random.Random, scratch: Path) -> Verdict:
    return _trouble("full", rng, scratch)


@kind("disk read-only", "the cache's folder becomes read-only, now and then or to the end", missing=missing)
def disk_read_only(rng: random.Random, scratch: Path) -> Verdict:
    return _trouble("read-only", rng, scratch)


@kind("disk errors", "every third write or sync fails (EIO), now and then or to the end", missing=missing)
def disk_errors(rng: random.Random, scratch: Path) -> Verdict:
    return _trouble("failing", rng, scratch)


@kind("file deleted", "the cache file, or its whole folder, is taken away during a search, twice")
def file_deleted(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict()
    s = search(scratch, rng, budget="1.8s")
    known = evidence.committed(s.cache)
    shutil.rmtree(scratch / "taken", ignore_errors=True)
    if s.begun("child"):
        for i in range(2):
            if rng.random() < 0.8:
                s.recording(known)
            time.sleep(rng.uniform(0, 0.4))
            v.injections += s.tool.running()
            _take(s, rng, scratch / "taken" / str(i))
    s.ended(v, (0,))
    # what was taken away is whoever took it's; the answer, which comes last, is in the new file, was in an old one, or waits in a bundle
    s.settled(v, set())
    answers = [
        r
        for p in (s.cache, *(scratch / "taken").rglob("cache.db"))
        if p.is_file()
        for d, r in evidence.stored(p).items()
        if r.verified and d not in known
    ]
    if s.through and not answers and not evidence.spilled(scratch):
        v.fail("lost", f"no answer was recorded into a new file or kept in a bundle: {s.tool.tail()}")
    return v


def _take(s: Search, rng: random.Random, away: Path) -> None:
    """Rename the cache's folder, or its files, out of the way."""
    away.mkdir(parents=True)
    if rng.random() < 0.3:
        s.folder.rename(away / "disk")
        return
    for tail in ("-wal", "-shm", ""):
        if Path(f"{s.cache}{tail}").exists():
            Path(f"{s.cache}{tail}").rename(away / f"cache.db{tail}")
