"""What recording costs: a captured function's call and a compiled kernel's call, with TILEWRIGHT_TUNE=record and without, in turns.

    python benchmarks/recorded_calls.py [--rounds 41]

Both sides run in one process, and are made anew every four rounds, in turns: where code and objects lie makes as much difference. `extra_ns` is
the median over rounds of the difference of a burst's lower quartile, `share` that as a part of a call without recording."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import Tensor
from tilewright.plan import usage

BURST = 300


def burst(call: Callable[[], Any]) -> float:
    """Seconds of a call: the lower quartile of ten parts of a burst."""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(BURST // 10):
            call()
        times.append((time.perf_counter() - begin) / (BURST // 10))
    return sorted(times)[2]


def sides(make: Callable[[], Callable[[], Any]], first: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The call as it is, made first or not, and recorded."""
    made = {}
    for record in (not first, first):
        os.environ[usage.ENV] = "record" if record else ""
        made[record] = make()
    return made[False], made[True]


def captured(size: int) -> Callable[[], Any]:
    """A captured function of three kernels on square matrices."""
    f = tw.jit(lambda x: ((x @ x).relu() @ x).softmax(-1), threads=1)
    x = Tensor(np.full((size, size), 0.01, np.float32))
    f(x)  # whether it is recorded is decided when it is compiled
    return lambda: f(x)


def kernel(size: int) -> Callable[[], Any]:
    """A compiled kernel on its own arrays."""
    a, out = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    k = tw.best("matmul", {"m": size, "n": size, "k": size}, threads=1)
    return lambda: k(a, a, out=out)


def main() -> None:
    """One JSON line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = str(Path(folder) / "c.db")
        for what, make in (("captured function", captured), ("compiled kernel", kernel)):
            for size in (16, 64, 128):
                found = []
                for r in range(args.rounds):
                    if r % 4 == 0:
                        plain, recorded = sides(lambda make=make, size=size: make(size), r % 8 == 0)
                    got = {i: burst((plain, recorded)[i]) for i in ((0, 1), (1, 0))[r % 2]}
                    found.append((got[0], got[1]))
                extra = statistics.median(b - a for a, b in found)
                call = statistics.median(a for a, _ in found)
                row = {
                    "what": what,
                    "size": size,
                    "call_us": round(1e6 * call, 3),
                    "extra_ns": round(1e9 * extra, 1),
                    "share": round(extra / call, 5),
                }
                print(json.dumps(row), flush=True)
        usage.flush()


if __name__ == "__main__":
    main()
