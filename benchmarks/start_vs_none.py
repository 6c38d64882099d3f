"""How close a search from the empty schedule gets to one from start schedules: matmul 1024^3, softmax, conv2d, the same budget each (60 s).

    python benchmarks/start_vs_none.py [--budget 60s] [--kernel NAME ...] [--threads N] [--json FILE]

The winners of both searches are timed against each other in pairs at the end, since the two searches ran at different
times. `ratio` is the time with start schedules over the time without: 1 means as fast, 0.9 is the aim."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tilewright import named_kernels
from tilewright.ir.normal_form import normalise
from tilewright.measure import Measurement, Measurer
from tilewright.search import Result, tune

CASES: dict[str, dict[str, int]] = {"matmul": {"m": 1024, "n": 1024, "k": 1024}, "softmax": {}, "conv2d": {}}


def duel(kernel: str, shape: dict[str, int], threads: int | None, a: Result, b: Result) -> tuple[float, bool]:
    """(time of a over time of b, whether that differs from 1 by more than the noise)."""
    with Measurer(normalise(named_kernels.make(kernel, shape or None, "float32")), "cpu", threads) as m:
        built: dict[int, Any] = dict(m.build([a.opts, b.opts]))
        for got in built.values():
            if isinstance(got, Measurement):
                raise SystemExit(f"{kernel}: a winner does not build again: {got.detail}")
        if built[0].sha == built[1].sha:
            return 1.0, False
        d = m.duel(built[0], built[1], rounds=12)
        return d.ratio, d.significant


def main() -> None:
    """Print one JSON line a kernel."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", nargs="*", choices=list(CASES), default=list(CASES))
    p.add_argument("--budget", default="60s")
    p.add_argument("--threads", type=int)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    lines = []
    for name in args.kernel:
        found = {}
        for starts in ("auto", "none"):
            with tempfile.TemporaryDirectory() as folder:
                found[starts] = tune(
                    name,
                    shape=CASES[name] or None,
                    dtype="float32",
                    threads=args.threads,
                    budget=args.budget,
                    start=starts,
                    random_seed=args.seed,
                    cache=Path(folder) / "cache.db",
                )
        from_starts, none = found["auto"], found["none"]
        ratio, significant = duel(name, CASES[name], args.threads, from_starts, none) if from_starts.found and none.found else (0.0, True)
        lines.append(
            json.dumps(
                {
                    "kernel": name,
                    "shape": dict(from_starts.shape),
                    "threads": from_starts.threads,
                    "budget": args.budget,
                    "ratio": round(ratio, 3),
                    "significant": significant,
                    "from_starts": {
                        "ms": from_starts.t_min and from_starts.t_min * 1e3,
                        "gflops": from_starts.gflops,
                        "opts": [o.json for o in from_starts.opts],
                        "counts": dict(from_starts.counts),
                    },
                    "none": {
                        "ms": none.t_min and none.t_min * 1e3,
                        "gflops": none.gflops,
                        "opts": [o.json for o in none.opts],
                        "counts": dict(none.counts),
                    },
                }
            )
        )
        print(lines[-1], flush=True)
    if args.json:
        Path(args.json).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
