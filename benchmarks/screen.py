"""Would a screen pay: of several candidates for each measurement, the one that a cost model thinks fastest?

    TILEWRIGHT_TARGET=v3 python benchmarks/screen.py --recorded results/model_rank-v3.jsonl.gz [--only REGEX]

Recorded schedules are drawn in random orders, so nothing is measured. For each kernel, `measured` is how many may be
measured, `of` how many candidates there are for each, and `within` how far from the best recorded one all of them are
(a search's later candidates are near its best). The value is the best time found over the best recorded: the geometric
mean over orders and kernels. The last line is what a schedule costs, in milliseconds of one core: to apply it, to
estimate it from its options, to lower it, and to count its time."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ORDERS = 40
Judged = tuple[float, float, float]
"""Seconds of a schedule: measured, estimated from its options, counted on its Program."""


def judged(space: Any, spent: list[list[float]]) -> list[Judged]:
    """What was measured of a kernel's steady schedules beside what both models say."""
    from tilewright import heuristics, opts, targets
    from tilewright.heuristics.counted import of_program
    from tilewright.lower import lower

    kernel, target, out = space.case.kernel(), targets.host(), []
    for options, seconds in space.steady:
        clock = [time.process_time()]
        scheduled = opts.apply(kernel, opts.parse(options), target)
        clock.append(time.process_time())
        estimate = heuristics.estimate(scheduled, 1)
        clock.append(time.process_time())
        program = lower(scheduled)
        clock.append(time.process_time())
        out.append((seconds, estimate, of_program(program, target, 1)))
        clock.append(time.process_time())
        spent.append([b - a for a, b in itertools.pairwise(clock)])
    return out


def found(known: Sequence[Judged], measured: int, of: int, by: int, rng: random.Random) -> float:
    """The best time of so many measurements; `by`: which entry decides between the candidates of each."""
    drawn = rng.sample(known, measured * of)
    return min(min(drawn[i : i + of], key=lambda r: r[by])[0] for i in range(0, len(drawn), of))


def compared(kernels: Sequence[tuple[str, Sequence[Judged]]], measured: int, of: int, within: float) -> dict[str, Any]:
    """One line: without a screen, by options, by counting, over the kernels that have enough schedules."""
    ratios: dict[str, list[float]] = {"none": [], "by_options": [], "by_count": []}
    for name, known in kernels:
        best = min(r[0] for r in known)
        near = [r for r in known if r[0] <= within * best]
        if len(near) < measured * of:
            continue
        for by, (label, values) in enumerate(ratios.items()):
            each = 1 if label == "none" else of
            rng = random.Random(name)
            values.append(statistics.fmean(math.log(found(near, measured, each, by, rng) / best) for _ in range(ORDERS)))
    line: dict[str, Any] = {"measured": measured, "of": of, "within": within, "kernels": len(ratios["none"])}
    return line | {label: round(math.exp(statistics.fmean(v)), 4) for label, v in ratios.items() if v}


def main() -> None:
    """Print the JSON lines."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--recorded", type=Path, required=True, metavar="FILE")
    p.add_argument("--only", default="", metavar="REGEX")
    args = p.parse_args()
    from model_rank import spaces

    spent: list[list[float]] = []
    kernels = [(s.case.id, judged(s, spent)) for s in spaces(args.recorded) if re.search(args.only, s.case.id)]
    for within in (1e9, 2.0, 1.3):
        for measured in (2, 4, 8):
            line = compared(kernels, measured, 3, within)
            if line["kernels"]:
                print(json.dumps({"device": None, **line}), flush=True)
    cost = [round(1e3 * statistics.fmean(c), 2) for c in zip(*spent)]
    print(json.dumps(dict(zip(("apply_ms", "estimate_ms", "lower_ms", "count_ms"), cost)) | {"schedules": len(spent)}))


if __name__ == "__main__":
    main()
