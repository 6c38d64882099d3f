"""Products whose sums have a length without a good divisor, by start schedules, against sums of the nearest multiple of 64.

    python benchmarks/ragged_sums.py [--dtype float32 ...] [--threads 1] [--choice quick|ranked]

One line a type and pair of rows and columns: the time for each multiply-add at each length, over that at the multiple of 64 (`ratios`;
1.0 is as fast), medians of bursts in turns on one machine. TILEWRIGHT_TARGET lowers the target."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from tilewright import heuristics, named_kernels
from tilewright.devices import get
from tilewright.ir.normal_form import normalise
from tilewright.measure.inputs import generate
from tilewright.opts import short
from tilewright.plan import CompiledKernel, Plan, compile, key_of

LENGTHS = (2045, 2039, 2053, 2041, 2042, 2047, 2043, 2031, 2038, 2049, 2035, 1021, 1531, 1527, 1018, 771, 515, 509, 4093, 4095, 333)
SHAPES = ((512, 512), (127, 1021))
ROUNDS, BURST_S = 5, 0.004


def started(m: int, n: int, k: int, dtype: str, threads: int, choice: str) -> tuple[Callable[[], Any], str]:
    """A call of the product under its start schedule, and the schedule."""
    device, kernel = get("cpu"), normalise(named_kernels.make("matmul", {"m": m, "n": n, "k": k}, dtype))
    choose = heuristics.quick_starts if choice == "quick" else heuristics.starts
    opts = choose(kernel, device.target, threads)[0]
    built = compile(kernel, opts, device)
    call = CompiledKernel(
        kernel, Plan(opts, "start", None, key_of(kernel, device, threads)), built, device.load(built.obj, built.signature, threads)
    )
    inputs = generate(kernel, {}, 0)
    arrays = [inputs[b.name] for b in kernel.inputs]
    out = call(*arrays)
    return lambda: call(*arrays, out=out), short(opts)


def burst(call: Callable[[], Any]) -> float:
    """Median seconds of a call."""
    times, end = [], time.perf_counter() + BURST_S
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def ratio(m: int, n: int, k: int, dtype: str, threads: int, choice: str) -> float:
    """The time of a multiply-add of sums of length `k` over that of the nearest multiple of 64."""
    even = max(64, (k + 32) // 64 * 64)
    one, two = (started(m, n, x, dtype, threads, choice)[0] for x in (k, even))
    pairs = [(burst(one), burst(two)) for _ in range(ROUNDS)]
    a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    return round(a / k / (b / even), 3)


def main() -> None:
    """Print one JSON line a type and shape."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dtype", nargs="*", default=["float32", "float64", "bfloat16", "int8"])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--choice", choices=("quick", "ranked"), default="ranked")
    args = p.parse_args()
    for dtype in args.dtype:
        for m, n in SHAPES:
            found = {k: ratio(m, n, k, dtype, args.threads, args.choice) for k in LENGTHS}
            line = {"dtype": dtype, "m": m, "n": n, "threads": args.threads, "choice": args.choice, "target": get("cpu").target.name}
            line |= {"median": statistics.median(found.values()), "worst": max(found.values()), "ratios": found}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
