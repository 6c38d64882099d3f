"""The wall clock jumps: an NTP correction, a laptop that wakes, a virtual machine that was moved, a battery that died."""

from __future__ import annotations

import random
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import search
from .shim import Shim, missing

HOUR, YEAR = 3600.0, 365 * 86400.0


@kind("clock jumps", "the wall clock jumps forwards or back by seconds to decades, several times in a search", missing=missing)
def clock_jumps(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict()
    shim = Shim(scratch, scratch / "disk")
    shim.clock(rng.uniform(-YEAR, YEAR))
    s = search(scratch, rng, budget="1.5s", env=shim.env())
    began = time.monotonic()
    while s.tool.running() and time.monotonic() - began < 20:
        time.sleep(rng.uniform(0.1, 0.5))
        shim.clock(rng.choice((-1, 1)) * rng.choice((rng.uniform(0, 10), HOUR, YEAR, 40 * YEAR)))
        v.injections += s.tool.running()
    before = evidence.committed(s.cache)
    s.ended(v, (0,))
    s.settled(v, before)
    # measured last is newest, whatever the clock says
    if s.through and not evidence.committed(s.cache):
        v.fail("lost", f"nothing was recorded: {s.tool.tail()}")
    return v
