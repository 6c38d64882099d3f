"""fp32 matmul tuned from an empty cache against OpenBLAS through NumPy.

    python benchmarks/matmul_vs_openblas.py [--budget 30s] [--threads 1 2] [--shape m=1024,n=1024,k=1024 ...]

For each shape and thread count: tune, then compare in alternating bursts (20 calls, the first three dropped, every pool asleep
for 60 ms before), both writing to a given output. OPENBLAS_* is cleared, since such variables can halve the rival. `ratio` is
the median over rounds of OpenBLAS' lower-quartile time over ours: 1.0 is as fast. TILEWRIGHT_TARGET lowers OpenBLAS as well (`parts/rivals.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from parts import rivals

SHAPES = ("m=1024,n=1024,k=1024", "m=2048,n=2048,k=2048", "m=1000,n=777,k=513")


def bursts(ours: Any, rival: Any, seconds: float, rounds: int) -> list[tuple[float, float]]:
    """(lower quartile of ours, of the rival) in each round; the order swaps."""
    calls = max(8, min(20, int(0.6 / seconds)))
    pairs = []
    for r in range(rounds):
        got = {}
        for name, call in ((("ours", ours), ("rival", rival)), (("rival", rival), ("ours", ours)))[r % 2]:
            time.sleep(0.06)
            times = []
            for _ in range(calls):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            times = sorted(times[3:])
            got[name] = times[(len(times) - 1) // 4]
        pairs.append((got["ours"], got["rival"]))
    return pairs


def one(shape_text: str, threads: int, budget: str, rounds: int) -> dict[str, Any]:
    """Tune and compare in this process, whose OpenBLAS has `threads` threads."""
    import numpy as np
    import tilewright
    from tilewright.named_kernels import parse_shape

    shape = parse_shape(shape_text)
    m, n, k = shape["m"], shape["n"], shape["k"]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.db"
        result = tilewright.tune("matmul", shape=shape, dtype="float32", threads=threads, budget=budget, cache=cache)
        compiled = tilewright.best("matmul", shape=shape, dtype="float32", threads=threads, cache=cache)
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
        c, d = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
        compiled(a, b, out=c)
        np.matmul(a, b, out=d)
        error = float(np.abs(c - d).max() / np.abs(d).max())
        pairs = bursts(lambda: compiled(a, b, out=c), lambda: np.matmul(a, b, out=d), result.t_min or 0.01, rounds)
    ratios = sorted(r / o for o, r in pairs)
    flops = 2e-9 * m * n * k
    return {
        "shape": shape,
        "threads": threads,
        "budget": budget,
        "tuning_seconds": round(result.seconds, 1),
        "ratio": round(ratios[len(ratios) // 2], 3),
        "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ours_gflops": round(flops / min(o for o, _ in pairs), 1),
        "openblas_gflops": round(flops / min(r for _, r in pairs), 1),
        "relative_difference": error,
        "origin": compiled.origin,
        "opts": [o.json for o in compiled.opts],
        "counts": dict(result.counts),
    }


def main() -> None:
    """Print one JSON line a shape and thread count."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--budget", default="30s")
    p.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    p.add_argument("--shape", nargs="*", default=list(SHAPES))
    p.add_argument("--rounds", type=int, default=16)
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        print(json.dumps(one(args.shape[0], args.threads[0], args.budget, args.rounds)))
        return
    for shape in args.shape:
        for threads in args.threads:
            env = rivals.environment(threads)
            command = [
                sys.executable,
                __file__,
                "--child",
                "--shape",
                shape,
                "--threads",
                str(threads),
                "--budget",
                args.budget,
                "--rounds",
                str(args.rounds),
            ]
            print(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
