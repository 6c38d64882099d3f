"""ONNX models as exported libraries beside the captured functions of the same schedules: microseconds of a call, in turns.

    python benchmarks/record.py benchmarks/export_vs_jit.py MODEL.onnx … [--rounds 5] [--threads 1]

Each round is a new process, which has both and calls them in turns: where its arrays happen to lie, and what the machine does beside it,
move a process by up to 40 %. `ratio`: the library's time over the captured function's, the median over rounds of a round's medians;
`ratios` has all rounds. `build_s`: make, with as many compilers at once as there are cores;
`library_bytes`: of the stripped shared library without its weights."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tilewright.bridges.onnx import export, load
from tilewright.bridges.onnx.tuning import made_up
from tilewright.export import load as load_library

ROUND_S = 1.0


def player(path: str, folder: str, threads: int) -> None:
    """Write the microseconds of a call of the captured function, and of the library."""
    model, library = load(path, threads=threads), load_library(folder, threads)
    feeds = made_up(model, {})
    arrays = [feeds[i.name] for i in model.inputs]
    for _ in range(8):  # (short calls are timed with and without further threads at first)
        model.run(None, feeds)
        library(*arrays)
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < 5 or time.perf_counter() - begin < ROUND_S:
        for call, seconds in zip((lambda: model.run(None, feeds), lambda: library(*arrays)), times, strict=True):
            call()  # what the other one left in the caches goes
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    print(json.dumps([1e6 * statistics.median(seconds) for seconds in times]))


def main() -> int:
    """Play every model."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--library", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.library:
        player(a.models[0], a.library, a.threads)
        return 0
    for path in a.models:
        name = Path(path).stem
        with tempfile.TemporaryDirectory() as folder:
            export(folder, path, threads=a.threads, name=name)
            begin = time.perf_counter()
            subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "all", f"{name}_test"], cwd=folder, check=True, capture_output=True)
            build = time.perf_counter() - begin
            subprocess.run(["strip", f"lib{name}.so"], cwd=folder, check=True)
            size = (Path(folder) / f"lib{name}.so").stat().st_size - (Path(folder) / f"{name}.weights").stat().st_size
            said = subprocess.run([f"./{name}_test", str(a.threads)], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            play = [sys.executable, __file__, path, "--threads", str(a.threads), "--library", folder]
            played = [json.loads(subprocess.run(play, capture_output=True, text=True, check=True).stdout) for _ in range(a.rounds)]
            ratios = [library / captured for captured, library in played]
            captured, library = map(statistics.median, zip(*played, strict=True))
            row = {
                "model": name,
                "threads": a.threads,
                "captured_us": round(captured, 1),
                "library_us": round(library, 1),
                "ratio": round(statistics.median(ratios), 3),
                "ratios": [round(r, 3) for r in ratios],
            }
            print(json.dumps({**row, "test": said, "build_s": round(build, 1), "library_bytes": size}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
