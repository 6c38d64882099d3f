"""Plans over devices beside the literature's figures.

    python benchmarks/record.py benchmarks/plans.py [--seconds 3] [--only schedules]

`schedules`: bubble rates that the search finds under a limit of memory, beside those that were printed (Zero Bubble's ZB-2p and ZB-V, and the
claims for V-Half and V-Min). `found` and `printed` are shares of a step; `memory` is in microbatches."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tilewright.placement import PartCosts, PlanError, equal_parts, search_schedule

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from published import PROFILED, ZB_2P, ZB_V


def row(**fields: object) -> None:
    """A line of JSON, which `record.py` keeps."""
    print(json.dumps(fields), flush=True)


def schedules(seconds: float) -> None:
    """The search for schedules."""
    began = time.perf_counter()
    for s, printed in zip(PROFILED, ZB_2P, strict=True):
        part = PartCosts(s.f, s.b, s.w, held=34 * s.hidden + 5 * s.heads * 1024, held_weight=32 * s.hidden)
        found = search_schedule(s.p, s.m, equal_parts(s.p, part, s.c), 2 * s.p * part.held, seconds=seconds)
        shown = {"memory": max(found.line.memory) / part.held, "gap": round(found.gap, 4), "seconds": round(found.seconds, 2)}
        row(table="ZB-2p", model=s.name, p=s.p, m=s.m, found=round(found.line.bubble, 4), printed=printed, **shown)
    row(table="ZB-2p", model="all", seconds=round(time.perf_counter() - began, 1))
    for p, m, f, b, w, c, printed in ZB_V:
        found = search_schedule(p, m, equal_parts(2 * p, PartCosts(f, b, w), c), 2 * p, "v", seconds=3 * seconds)
        row(table="ZB-V", p=p, m=m, found=round(found.line.bubble, 4), printed=printed, memory=max(found.line.memory) / 2)
    for p in (4, 6, 8):
        m = 3 * p
        for name, share, memory in (("V-Half", 1 / 2, p / 2), ("V-Min", 2 / 3, p / 3)):
            for more in (0, 1):
                chunks = round(2 * memory + 0.499) + more
                try:
                    found = search_schedule(p, m, equal_parts(2 * p, PartCosts(1, 1, 1)), chunks, "v", seconds=seconds)
                except PlanError as e:
                    row(table=name, p=p, m=m, memory=chunks / 2, found=None, why=str(e))
                    continue
                claimed = round(share * (p - 1) / (m + p - 1), 4)
                row(table=name, p=p, m=m, found=round(found.line.bubble, 4), printed=claimed, memory=chunks / 2)


PARTS: dict[str, Callable[[float], None]] = {"schedules": schedules}


def main() -> int:
    """Run all parts, or one."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=3.0, help="for each search")
    p.add_argument("--only", choices=PARTS)
    a = p.parse_args()
    for name, part in PARTS.items():
        if a.only in (None, name):
            part(a.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
