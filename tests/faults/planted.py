"""Candidates with faults of their own: computed wrong always or now and then, hanging, crashing, allocating, writing
where they must not. Those that are wrong claim the best times, so that a verifier that lets one through loses the
answer to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from . import evidence
from .flaky import fraction
from .kinds import Verdict, kind
from .runs import search

SHARE = 0.3
FAULTS = ("crash", "exit", "memory", "overrun", "raise", "stale", "hang", "build")


def _plant(rules: list[dict[str, Any]], rng: random.Random, scratch: Path) -> Verdict:
    """A search on the scripted device; every candidate that a rule's share covers counts as an injection."""
    v = Verdict()
    s = search(scratch, rng, device="fake", budget="2.5s", script={"time": 1e-4, "rules": rules})
    s.bad = lambda row: fraction(row.source_sha) < rules[-1]["share"]
    known = evidence.committed(s.cache)
    code = s.ended(v, (0, 4))
    rows = [r for r in evidence.read(s.cache)[0] if r.digest not in known]
    v.injections = len({r.source_sha for r in rows if r.source_sha and s.bad(r)}) or sum(r.outcome == "build" for r in rows)
    if code == 4 and any(r.outcome == "ok" and not s.bad(r) for r in rows):
        v.fail("broken", f"right candidates were measured, and no answer was given: {s.tool.tail()}")
    s.settled(v, known)
    s.cache.unlink(missing_ok=True)  # the next run's faults are others
    return v


@kind("always wrong", "candidates that compute a wrong element in every call")
def always_wrong(rng: random.Random, scratch: Path) -> Verdict:
    return _plant([{"share": SHARE, "do": "wrong", "time": 2e-5}], rng, scratch)


@kind("sometimes wrong", "candidates that compute a wrong element in one of 2, 4 or 8 calls, by chance")
def sometimes_wrong(rng: random.Random, scratch: Path) -> Verdict:
    return _plant([{"share": SHARE, "do": "sometimes", "rate": rng.choice((2, 4, 8)), "time": 2e-5}], rng, scratch)


@kind(
    "broken candidate",
    "candidates that hang, crash, exit, allocate without end, write past their output, raise, write nothing, or do not build",
)
def broken_candidate(rng: random.Random, scratch: Path) -> Verdict:
    chosen = rng.sample(FAULTS, 3)
    # a hang takes a second or two: fewer of them
    widths = [0.03 if f == "hang" else 0.1 for f in chosen]
    rules = [{"share": sum(widths[: i + 1]), "do": f, "time": 2e-5} for i, f in enumerate(chosen)]
    return _plant(rules, rng, scratch)
