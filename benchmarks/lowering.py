"""What a candidate costs before it is built: apply, lower and render, over random schedules of every named kernel.

    python benchmarks/lowering.py [--schedules 20] [--seed 0] [--kernel NAME ...]

Schedules are the start schedules and random walks in the action space at the default shapes. One JSON line a kernel and one over all: the
median and 95th percentile of lowering plus rendering, in milliseconds (the bound is 15 ms in the median).
"""

from __future__ import annotations

import argparse
import json
import random
import time

from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import OptError
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import Opts, actions, apply
from tilewright.renderers import render


def schedules(kernel: Kernel, target: targets.Target, count: int, rng: random.Random) -> list[Opts]:
    """Start schedules, then random walks of up to six steps from them or from nothing."""
    first = starts(kernel, target, 2)
    out = first[: count // 3]
    while len(out) < count:
        opts = rng.choice([(), *starts])
        for _ in range(rng.randint(1, 6)):
            more = actions(apply(kernel, opts, target))
            if not more:
                break
            opts = opts + rng.choice(more)
        out.append(opts)
    return out


def main() -> None:
    """Print one JSON line a kernel, and one over all."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--schedules", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--kernel", nargs="*", default=list(named_kernels.NAMES))
    args = p.parse_args()
    rng, target, everything = random.Random(args.seed), targets.host(), []
    for name in args.kernel:
        kernel = normalise(named_kernels.make(name, None, None))
        times = []
        for opts in schedules(kernel, target, args.schedules, rng):
            scheduled = apply(kernel, opts, target)
            begin = time.perf_counter()
            try:
                render(lower(scheduled), target)
            except OptError:
                continue
            times.append(1e3 * (time.perf_counter() - begin))
        everything += times
        print(json.dumps(row(name, times)), flush=True)
    print(json.dumps(row("all", everything)))


def row(name: str, times: list[float]) -> dict[str, object]:
    """Median and 95th percentile in milliseconds."""
    s = sorted(times)
    return {"kernel": name, "schedules": len(s), "median_ms": round(s[len(s) // 2], 2), "p95_ms": round(s[int(0.95 * (len(s) - 1))], 2)}


if __name__ == "__main__":
    main()
