"""What a kernel costs in a replay, its own work included. `python benchmarks/record.py benchmarks/replay.py`

A chain of 100 kernels of 16 elements (multiply-add, each reading what the one before wrote), one thread: as a replay,
as a replay whose last buffer is another one in every run, as a Python list of bound calls, and as calls of `CompiledKernel`
on arrays. Figures are seconds a kernel: the least of 300 means over a few runs. A JSON line for each device."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KERNELS, SIZE = 100, 16


def per_kernel(run: Callable[[], object], runs: int = 20, tries: int = 300) -> float:
    """Seconds a kernel, of a function that runs all."""
    least = float("inf")
    for _ in range(10):
        run()
    for _ in range(tries):
        begin = time.perf_counter()
        for _ in range(runs):
            run()
        least = min(least, (time.perf_counter() - begin) / (runs * KERNELS))
    return least


def prog(folder: Path, device: str, threads: int) -> Any:
    from tilewright.ir.builder import KernelBuilder
    from tilewright.ir.dtypes import float32
    from tilewright.plan import Artefacts, best

    kb = KernelBuilder("multiply_add")
    i = kb.axis("i", SIZE)
    x, y = kb.input("x", (SIZE,), float32), kb.input("y", (SIZE,), float32)
    kb.store("out", float32, (SIZE,), (i,), x[i] * 2.0 + y[i])
    return best(kb.build(), device=device, threads=threads, cache=folder / "cache.db", store=Artefacts(folder / "artefacts"))


def measured(device: str, threads: int) -> dict[str, float]:
    """The figures of one device."""
    from tilewright.plan import Replay

    with tempfile.TemporaryDirectory() as folder:
        p = prog(Path(folder), device, threads)
    arrays = [np.full(SIZE, 1e-3, np.float32) for _ in range(KERNELS + 2)]
    sets = list(zip(arrays, arrays[1:], arrays[2:], strict=False))
    calls = [p.bound(*s) for s in sets]
    replay, slotted = Replay(calls), Replay(calls, [[(0, 0)], [(KERNELS - 1, 2)]])
    bound = p.executable.bind()
    pointers = [c.pointers for c in calls]
    ends = pointers[0][0], pointers[-1][2]

    def loop() -> None:
        for at in pointers:
            bound(*at)

    def progs() -> None:
        for x, y, out in sets:
            p(x, y, out=out)

    return {
        "replay_s": per_kernel(replay),
        "replay_with_2_slots_s": per_kernel(lambda: slotted(*ends)),
        "python_list_of_bound_calls_s": per_kernel(loop, 5),
        "prog_s": per_kernel(progs, 5),
        "replay_of_one_kernel_s": per_kernel(Replay(calls[:1]), 20 * KERNELS) * KERNELS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="*", default=["cpu", "cpu:c"])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for name in given.device:
        figures = measured(name, given.threads)
        print(f"{name}, threads: {given.threads}")
        for what, seconds in figures.items():
            print(f"  {what[:-2].replace('_', ' '):<34} {seconds * 1e6:8.3f} us a kernel")
        print(json.dumps({"device": name, "threads": given.threads, "kernels": KERNELS, "elements": SIZE, **figures}))


if __name__ == "__main__":
    main()
