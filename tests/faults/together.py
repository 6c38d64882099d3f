"""Several tuners on one cache file."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import search
from .tool import kill


@kind("two at once", "two searches on one new or old file at the same time; in one of three cases one of them is killed")
def two_at_once(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    if rng.random() < 0.3:
        for tail in evidence.TAILS:
            Path(f"{scratch / 'disk' / 'cache.db'}{tail}").unlink(missing_ok=True)
    first = search(scratch, rng, "--trials", "8", budget="10s")
    time.sleep(rng.choice((0, rng.uniform(0, 0.5))))
    second = search(scratch, rng, "--trials", "8", budget="10s")
    known = evidence.committed(first.cache)
    if rng.random() < 0.33:
        first.recording(known)
        kill(first.tool.pid, signal.SIGKILL)
        first.tool.wait(v)
    else:
        first.ended(v, (0, 4))
    before = evidence.committed(first.cache)
    second.ended(v, (0, 4))
    first.tool.clean(v)
    second.settled(v, before)
    return v
