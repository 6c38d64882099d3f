"""Valid measurements a second of a search: distinct sources, each verified on its whole output, for matmul 256x256x256 on two cores.

    python benchmarks/throughput.py [--budget 20s] [--threads 2] [--shape m=256,n=256,k=256] [--strategy portfolio] [--json FILE]

Counts everything: start-up, building, verifying, timing, deciding between the finalists. `search` leaves out start-up and the decision.
`core_ms` is the processor time of all processes for each verified candidate, everything counted: 1000 × cores ÷ it bounds the rate, and it says
more than the rate where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from tilewright.named_kernels import parse_shape
from tilewright.search import Result, Silent, tune


class Clock(Silent):
    """Notes when the phases begin."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}

    def phase(self, name: str) -> None:
        self.began.setdefault(name, time.monotonic())


def processor_s() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(kernel: str, shape: dict[str, int], budget: str, threads: int, strategy: str, seed: int) -> dict[str, Any]:
    """One search from an empty cache."""
    clock = Clock()
    began = processor_s()
    with tempfile.TemporaryDirectory() as folder:
        result: Result = tune(
            kernel,
            shape=shape,
            dtype="float32",
            threads=threads,
            budget=budget,
            strategy=strategy,
            random_seed=seed,
            cache=Path(folder) / "cache.db",
            progress=clock,
        )
    spent = processor_s() - began
    searching = clock.began["deciding"] - clock.began["start schedules"]
    valid, done = result.counts.get("ok", 0), sum(result.counts.values())
    return {
        "kernel": kernel,
        "shape": shape,
        "threads": threads,
        "strategy": strategy,
        "seconds": round(result.seconds, 2),
        "counts": dict(result.counts),
        "repeated": result.repeated,
        "valid_per_second": round(valid / result.seconds, 2),
        "verified_per_second": round((valid + result.counts.get("slow", 0)) / result.seconds, 2),
        "search_valid_per_second": round(valid / searching, 2),
        "search_verified_per_second": round((valid + result.counts.get("slow", 0)) / searching, 2),
        "core_ms": round(1e3 * spent / max(1, valid + result.counts.get("slow", 0)), 1),
        "all_per_second": round(done / result.seconds, 2),
        "gflops": None if result.gflops is None else round(result.gflops, 1),
    }


def main() -> None:
    """Print one JSON line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", default="matmul")
    p.add_argument("--shape", default="m=256,n=256,k=256")
    p.add_argument("--budget", default="20s")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--strategy", default="portfolio")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    line = json.dumps(measure(args.kernel, parse_shape(args.shape), args.budget, args.threads, args.strategy, args.seed))
    print(line)
    if args.json:
        Path(args.json).write_text(line + "\n")


if __name__ == "__main__":
    main()
