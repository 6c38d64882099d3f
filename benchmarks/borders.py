"""Stencils and windows with borders (`parts/border_kernels.py`) against plain C loops, one thread.

    python benchmarks/borders.py [--only five box ...] [--rounds 9] [--all] [--seconds 0]

The rival is compiled with gcc -Ofast -fopenmp for the level that TILEWRIGHT_TARGET names (v2, v3, v4; else native). Both run in this
process in turns, a burst of calls each, timed by the processor time of the thread that runs them. The ratio is the median over rounds of
C's time over ours: above 1 ours is faster. `seed`: the schedule that a user gets without tuning. `best`: the fastest of all seeds
(--all) or of a search of so many seconds (--seconds). Results are compared with those of C."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import tilewright
from parts.border_kernels import CASES, HEAD, BorderCase
from tilewright import devices
from tilewright.heuristics import seeds
from tilewright.ir import Kernel
from tilewright.ir.normal_form.normalise import normalise
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, short
from tilewright.opts.opt import Opts
from tilewright.renderers import render

TIMER = """
#include <stdlib.h>
{head}
void f({params}) {{ {body} }}
void repeat(void **p, int n) {{
  for (int r = 0; r < n; r++) f({args});
}}
"""


class Rival:
    """The loops in C, compiled."""

    def __init__(self, case: BorderCase, folder: Path, name: str) -> None:
        level = os.environ.get("TILEWRIGHT_TARGET", "")
        march = f"x86-64-{level}" if level in ("v2", "v3", "v4") else "native"
        count = case.params.count(",") + 1
        text = TIMER.format(head=HEAD, params=case.params, body=case.body, args=", ".join(f"p[{i}]" for i in range(count)))
        (folder / f"{name}.c").write_text(text)
        words = ["gcc", "-Ofast", f"-march={march}", "-fopenmp", "-shared", "-fPIC", "-o", f"{folder}/{name}.so", f"{folder}/{name}.c"]
        subprocess.run(words, check=True)
        self.repeat = ctypes.CDLL(f"{folder}/{name}.so").repeat

    def time(self, pointers: list[int], repeats: int) -> float:
        """Seconds of a call, of so many."""
        each = (ctypes.c_void_p * len(pointers))(*pointers)
        begin = thread_time()
        self.repeat(each, repeats)
        return (thread_time() - begin) / repeats


class Ours:
    """A schedule, built."""

    def __init__(self, kernel: Kernel, opts: Opts, cpu: Any) -> None:
        begin = perf_counter()
        source = render(lower(apply(kernel, opts, cpu.target)), cpu.target)
        self.obj = cpu.build(source)
        self.seconds, self.lines, self.opts = perf_counter() - begin, source.text.count("\n"), opts
        self.exe = cpu.load(self.obj, source.signature, 1)

    def time(self, pointers: list[int], repeats: int) -> float:
        """Seconds of a call, of so many."""
        begin = thread_time()
        self.exe.time([pointers], (), repeats)
        return (thread_time() - begin) / repeats


def compare(case: BorderCase, name: str, args: argparse.Namespace, folder: Path, cpu: Any) -> dict[str, Any]:
    """One case's row."""
    import numpy as np

    kernel = case.make()
    made = normalise(kernel)
    arrays = []
    for a in generate(kernel, {}, 0).values():
        arrays.append(tilewright.empty(a.shape, a.dtype))
        arrays[-1][...] = a
    outs = [tilewright.empty(b.shape, b.dtype.np) for b in kernel.outputs]
    pointers = [a.ctypes.data for a in (*arrays, *outs)]
    rival = Rival(case, folder, name)
    rival.time(pointers, 1)
    want = outs[0].copy()
    found = seeds(made, cpu.target, 1)
    tried = {"seed": Ours(made, found[0], cpu)}
    if args.all:
        each = [Ours(made, o, cpu) for o in found[1:12]]
        best = min([tried["seed"], *each], key=lambda o: o.time(pointers, 12))
        tried["best"] = best
    if args.seconds:
        result = tilewright.tune(kernel, threads=1, budget=args.seconds, cache=folder / "tuned.db")
        tried["tuned"] = Ours(made, tuple(result.opts), cpu)
    row: dict[str, Any] = {"case": name}
    reps = max(3, min(200, int(0.02 / max(1e-6, rival.time(pointers, 8)))))
    rounds: dict[str, list[float]] = {k: [] for k in tried}
    for _ in range(args.rounds):
        for k, o in tried.items():
            theirs = rival.time(pointers, reps)
            rounds[k].append(theirs / o.time(pointers, reps))
    for k, o in tried.items():
        outs[0][...] = 0
        o.time(pointers, 1)
        gap = float(np.max(np.abs(outs[0].astype(np.float64) - want)) / max(1e-9, float(np.max(np.abs(want.astype(np.float64))))))
        row[k] = round(statistics.median(rounds[k]), 3)
        row[f"{k}_opts"], row[f"{k}_build_ms"], row[f"{k}_lines"] = short(o.opts), round(1e3 * o.seconds), o.lines
        row[f"{k}_difference"] = gap
    row["c_us"] = round(1e6 * rival.time(pointers, reps), 1)
    return row


def main() -> None:
    """Print a row for each case, as JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cpu = devices.get("cpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            if args.only and not any(o in name for o in args.only):
                continue
            row = compare(case, name, args, Path(folder), cpu)
            rows.append(row)
            told = "  ".join(
                f"{k} {row[k]:.2f} ({row[f'{k}_build_ms']} ms, {row[f'{k}_lines']} lines, {row[f'{k}_opts']})"
                f"{'' if row[f'{k}_difference'] < 1e-4 else ' WRONG'}"
                for k in ("seed", "best", "tuned")
                if k in row
            )
            print(f"{name:16} C {row['c_us']:8.1f} us  {told}", flush=True)
    for k in ("seed", "best", "tuned"):
        found = [r[k] for r in rows if k in r]
        if found:
            print(f"{k}: geometric mean {statistics.geometric_mean(found):.2f}, least {min(found):.2f}")
    if args.json:
        args.json.write_text(json.dumps({"target": cpu.target.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
