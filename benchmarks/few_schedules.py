"""Few schedules for many shapes: what the tree of sizes loses on shapes that had no part in its choice.

    python benchmarks/few_schedules.py [--budget 60] [--threads 1] [--case NAME]

One line a held-out shape: the time of the tree's schedule over the best that was timed there (start schedules, and the candidates that are
expected to be good), less 1 (`loss`). This is no search of its own at the shape: what a search would find beyond it is not seen. The line of a
case says how many shapes were held out, their geometric mean and worst loss, how many schedules there are and how long all took."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tilewright.search.shapes import parse_ranges, tune_sizes

CASES = {"matmul": ("m=1..4096,n=64..4096,k=64..4096", 8), "softmax": ("m=1..4096,n=64..4096", 8)}


def main() -> None:
    """Print JSON lines, those of a case before its means."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--budget", type=float, default=60.0, help="seconds for each case")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--case", choices=CASES, help="this one alone")
    args = p.parse_args()
    for kernel, (text, schedules) in CASES.items():
        if args.case not in (None, kernel):
            continue
        fixed, ranges = parse_ranges(text)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            result = tune_sizes(
                kernel,
                ranges,
                "float32",
                fixed=fixed,
                schedules=schedules,
                budget=args.budget,
                threads=args.threads,
                cache=Path(folder) / "cache.db",
            )
        for x in result.losses:
            print(json.dumps({"kernel": kernel, "at": x.label, "ours_s": x.ours, "best_s": x.best, "loss": round(x.loss, 4)}), flush=True)
        row = {
            "kernel": kernel,
            "ranges": text,
            "held_out": len(result.losses),
            "loss_geomean": result.loss,
            "loss_worst": result.worst,
            "schedules": len(result.tree.schedules) if result.tree is not None else 0,
            "shapes": result.shapes,
            "budget_s": args.budget,
            "took_s": round(time.perf_counter() - began, 1),
            "note": result.message,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
