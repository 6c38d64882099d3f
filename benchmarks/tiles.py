"""What writing a kernel in tiles costs: tile kernels against the same kernels over indices, and against NumPy.

    python benchmarks/tiles.py [--kernel NAME ...] [--trials N] [--out results/tiles.json]

Each case is run with its start schedule, written in tiles and over indices, and by NumPy, one thread each, in turns: rounds of
short bursts, and the median over rounds of the ratios inside a round. `start_to_index` is the time of the tile kernel's start schedule over
that of the index kernel's start schedule, `start_to_numpy` over NumPy's. With `--trials` both are also tuned, with as many candidates
each, and `tuned_to_index` compares what was found. Below 1 the tile kernel is faster."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from parts.tile_cases import CASES, TileCase
from tilewright.ir import Kernel
from tilewright.measure.inputs import generate
from tilewright.opts.opt import short
from tilewright.plan.compiled_kernel import CompiledKernel

ROUNDS, BURST_S = 15, 0.02


def bursts(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds a call, by round, the runs in turns."""
    counts, out = {}, {name: list[float]() for name in runs}
    for name, run in runs.items():
        run()
        start = time.perf_counter()
        run()
        counts[name] = max(1, int(BURST_S / max(1e-7, time.perf_counter() - start)))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            out[name].append((time.perf_counter() - start) / counts[name])
    return out


def ratio(a: list[float], b: list[float]) -> float:
    """The median over rounds of a / b."""
    return round(statistics.median(x / y for x, y in zip(a, b, strict=True)), 3)


def program(kernel: Kernel, cache: str) -> CompiledKernel:
    """The kernel as the cache, or else its start schedule, has it, for one thread."""
    return tw.best(kernel, threads=1, cache=cache)


def measured(case: TileCase, trials: int) -> dict[str, Any]:
    """One case's line."""
    tiles, indices = case.tiles(), case.indices()
    inputs = generate(tiles, {}, 0)
    given = [inputs[b.name] for b in tiles.inputs]
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache.db")
        kernels = {"tiles": program(tiles, cache), "indices": program(indices, cache)}
        if trials:
            for kernel in (tiles, indices):
                tw.tune(kernel, threads=1, cache=cache, trials=trials, budget="60s")
            kernels |= {"tuned_tiles": program(tiles, cache), "tuned_indices": program(indices, cache)}
        runs: dict[str, Callable[[], Any]] = {"numpy": lambda: case.numpy(*given)}
        for name, compiled in kernels.items():
            shaped = [x.reshape(b.shape) for x, b in zip(given, compiled.kernel.inputs, strict=True)]
            (out,) = (np.empty(b.shape, b.dtype.np) for b in compiled.kernel.outputs)
            runs[name] = partial(compiled, *shaped, out=out)
        want = np.asarray(case.numpy(*given)).reshape(-1)
        for name in kernels:
            assert np.allclose(np.asarray(runs[name]()).reshape(-1), want, rtol=1e-3, atol=1e-3), name
        found = bursts(runs)
    line = {
        "start_to_index": ratio(found["tiles"], found["indices"]),
        "start_to_numpy": ratio(found["tiles"], found["numpy"]),
        "start": short(kernels["tiles"].plan.opts),
    }
    if trials:
        line |= {
            "tuned_to_index": ratio(found["tuned_tiles"], found["tuned_indices"]),
            "tuned_to_numpy": ratio(found["tuned_tiles"], found["numpy"]),
        }
    return line


def main() -> None:
    """Measure and print; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # BLAS looks when it is loaded, which it is by now
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**env, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
    from tilewright import targets

    lines = {}
    for name in args.kernel:
        lines[name] = measured(CASES[name], args.trials)
        print(name, json.dumps(lines[name]), flush=True)
    summary = {k: round(statistics.geometric_mean(x[k] for x in lines.values()), 3) for k in next(iter(lines.values())) if "_to_" in k}
    print("geometric mean", json.dumps(summary), flush=True)
    if args.out is not None:
        known = json.loads(args.out.read_text()) if args.out.exists() else {}
        known[os.environ.get("TILEWRIGHT_TARGET", "host")] = {
            "machine": targets.host().name,
            "trials": args.trials,
            "cases": lines,
            "geometric_mean": summary,
        }
        args.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
