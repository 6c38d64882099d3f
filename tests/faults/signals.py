"""SIGINT, SIGTERM and SIGHUP in the middle of a search: it stops, keeps and prints the best so far."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import Search, again, search
from .tool import kill


def _signal(number: signal.Signals, rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    s = search(scratch, rng)
    known = evidence.committed(s.cache)
    searching = s.begun() and s.recording(known)
    time.sleep(rng.uniform(0, 0.7))
    before = evidence.committed(s.cache)
    through = s.through
    in_time = kill(s.tool.pid, number) and searching and not through
    # 0: it was through already; the signal itself: its interpreter was starting or ending; else what shells say of an
    # end by this signal, or by SIGINT (CPython ends so, whatever its exit code, where a KeyboardInterrupt has passed
    # through an exec of text)
    code = s.ended(v, (0, 128 + number, 130, -signal.SIGINT, *((-number,) if through or not searching else ())), seconds=20)
    s.settled(v, before)
    if code not in (0, None) and in_time:
        _kept(v, s, known)
    if rng.random() < 0.1:
        again(v, scratch, rng)
    return v


def _kept(v: Verdict, s: Search, known: set[str]) -> None:
    """A search that was ended and had measured something valid prints and stores its best."""
    rows = [r for r in evidence.read(s.cache)[0] if r.digest not in known]
    valid = [r for r in rows if r.outcome == "ok"]
    if valid and not s.through:
        v.fail("broken", f"{len(valid)} candidates were right, but no result was printed: {s.tool.tail()}")
    if valid and not any(r.verified for r in rows):
        v.fail("broken", f"{len(valid)} candidates were right, but no answer was stored: {s.tool.tail()}")


@kind("SIGINT", "Ctrl-C in a search")
def sigint(rng: random.Random, scratch: Path) -> Verdict:
    return _signal(signal.SIGINT, rng, scratch)


@kind("SIGTERM", "SIGTERM in a search")
def sigterm(rng: random.Random, scratch: Path) -> Verdict:
    return _signal(signal.SIGTERM, rng, scratch)


@kind("SIGHUP", "the terminal closes during a search")
def sighup(rng: random.Random, scratch: Path) -> Verdict:
    return _signal(signal.SIGHUP, rng, scratch)
