"""What a schedule that was tuned on one processor is worth on another, against the start schedule there.

    TILEWRIGHT_TARGET=v3 python benchmarks/record.py benchmarks/sibling_schedules.py [--rounds 9]

Takes the tuned schedules that `results/KIND/user_kernels_tuned*-LEVEL.json` hold of other processors, for the level of
instructions that TILEWRIGHT_TARGET names, where tuning changed the schedule. Both schedules take turns in bursts of about
10 ms, one thread, timed by its processor time, so that others on the machine disturb less. `there` is the start's time over
the tuned one's on the processor that it was tuned on, `here` the same on this one (medians of pairs of bursts), and `model`
the same as the model estimates it here, 0 where it refuses. The summary of each kind has geometric means, the shares below
0.95 and above 1.05, and the mean of what takes place of the start only where the model agrees (`by_model`)."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tilewright import best, devices, heuristics, opts
from tilewright.ir import TilewrightError
from tilewright.ir.normal_form import normalise
from tilewright.opts.opt import parse
from vs_c import cases, outputs_of

RESULTS = Path(__file__).resolve().parent.parent / "results"
BURST_S = 0.01


def rows(level: str) -> list[tuple[str, dict[str, Any]]]:
    """(kind, row) of schedules that were tuned elsewhere and differ from the start schedule of that time."""
    mine = devices.get("cpu").target.key.split(":")[2]
    found = []
    for file in sorted(RESULTS.glob(f"*/user_kernels_tuned*-{level}.json")):
        recorded = json.loads(file.read_text())
        kind = recorded["device"]["target"].split(":")[2]
        if kind != mine:
            found += [(kind, r) for r in recorded["rows"] if r.get("opts") and r["opts"] != r.get("start_opts")]
    return found


def quotient(a: Any, b: Any, rounds: int, threads: int = 1) -> float:
    """The time of `a` over that of `b`, the median of pairs of bursts that take turns. On one thread its own time counts."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    for f in (a, b):
        f()
    began = clock()
    a()
    calls = max(1, round(BURST_S / max(1e-7, clock() - began)))

    def burst(f: Any) -> float:
        began = clock()
        for _ in range(calls):
            f()
        return clock() - began

    found = []
    for i in range(rounds):
        first, second = (a, b) if i % 2 else (b, a)
        x, y = burst(first), burst(second)
        found.append(x / y if i % 2 else y / x)
    return statistics.median(found)


def main() -> None:
    """One line a schedule, one a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    level, known, device = os.environ["TILEWRIGHT_TARGET"], cases(), devices.get("cpu")
    empty = os.path.join(tempfile.mkdtemp(), "cache.db")
    kept: dict[str, list[dict[str, Any]]] = {}
    for kind, row in rows(level):
        case = known.get(row["kernel"])
        line = {"kernel": row["kernel"], "tuned_on": kind, "there": round(row["ratio"] / row["start_ratio"], 3)}
        try:
            assert case is not None, "the kernel is gone"
            kernel = case.make(**row["sizes"])
            theirs = parse(row["opts"])
            start = best(kernel, threads=1, cache=empty)
            other = best(kernel, threads=1, opts=theirs)
            estimates = [
                heuristics.estimate(opts.apply(normalise(kernel), o, device.target), 1, device.limits()) for o in (start.opts, theirs)
            ]
            arrays, out = list(case.inputs(kernel).values()), outputs_of(kernel)
            line |= {"here": round(quotient(partial(start, *arrays, out=out), partial(other, *arrays, out=out), args.rounds), 3)}
            line |= {"model": round(estimates[0] / estimates[1], 3)}
        except (TilewrightError, AssertionError) as e:
            line |= {"error": str(e)[:120]}
        else:
            kept.setdefault(kind, []).append(line)
        print(json.dumps(line), flush=True)
    for kind, lines in kept.items():
        here = [r["here"] for r in lines]
        chosen = [r["here"] if r["model"] >= 1 else 1.0 for r in lines]
        mean = statistics.geometric_mean
        print(
            json.dumps(
                {
                    "summary": kind,
                    "schedules": len(here),
                    "there": round(mean([r["there"] for r in lines]), 3),
                    "here": round(mean(here), 3),
                    "below_0.95": sum(h < 0.95 for h in here),
                    "above_1.05": sum(h > 1.05 for h in here),
                    "by_model": round(mean(chosen), 3),
                }
            )
        )


if __name__ == "__main__":
    main()
