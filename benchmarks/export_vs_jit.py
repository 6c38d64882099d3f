"""ONNX models as exported libraries beside the captured functions of the same schedules: microseconds of a call, in turns, one thread.

    python benchmarks/record.py benchmarks/export_vs_jit.py MODEL.onnx … [--rounds 5]

`ratio` is the library's time over the captured function's. `build_s`: make, with as many compilers at once as there are cores;
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

BURST_S = 0.3


def captured(model: object, feeds: object) -> float:
    """Microseconds of a call."""
    count, begin = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - begin < BURST_S:
        model.run(None, feeds)  # type: ignore[attr-defined]
        count += 1
    return 1e6 * (time.perf_counter() - begin) / count


def main() -> int:
    """Play every model."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    for path in a.models:
        name = Path(path).stem
        with tempfile.TemporaryDirectory() as folder:
            export(folder, path, threads=1, name=name)
            begin = time.perf_counter()
            subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "all", f"{name}_test"], cwd=folder, check=True, capture_output=True)
            build = time.perf_counter() - begin
            subprocess.run(["strip", f"lib{name}.so"], cwd=folder, check=True)
            size = (Path(folder) / f"lib{name}.so").stat().st_size - (Path(folder) / f"{name}.weights").stat().st_size
            model = load(path, threads=1)
            feeds = made_up(model, {})
            model.run(None, feeds)
            times: tuple[list[float], list[float]] = ([], [])
            said = ""
            for _ in range(a.rounds):
                times[0].append(captured(model, feeds))
                done = subprocess.run([f"./{name}_test", "1", str(BURST_S)], cwd=folder, capture_output=True, text=True, check=True)
                said, timed = done.stdout.splitlines()
                times[1].append(float(timed.split()[0]))
            ours, library = map(statistics.median, times)
            row = {"model": name, "captured_us": round(ours, 1), "library_us": round(library, 1), "ratio": round(library / ours, 3)}
            print(json.dumps({**row, "test": said, "build_s": round(build, 1), "library_bytes": size}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
