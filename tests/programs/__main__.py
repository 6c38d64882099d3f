"""`python -m tests.programs --count 2000 --seed 0 --engine native --level v3 --out FOLDER`: run numbered programs, shrink what fails
to files, and end with 1 if anything did."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    p.add_argument("--count", type=int, default=2000, help="programs (default: 2000)")
    p.add_argument("--seed", type=int, default=0, help="the stream of programs")
    p.add_argument("--start", type=int, default=0, help="the first program's number")
    p.add_argument("--only", type=int, help="this program alone, shown")
    p.add_argument("--way", help="always this way: eager, jit, grad, vmap, ... (default: by the number)")
    p.add_argument("--without", default="", help="leave out programs with any of these operations (names with commas)")
    p.add_argument("--engine", choices=("evaluate", "native", "neon"), default="evaluate", help="evaluate compiles nothing")
    p.add_argument("--level", help="a processor: v2, v3, v4 (default: this one)")
    p.add_argument("--seconds", type=float, help="end after so long")
    p.add_argument("--out", type=Path, help="write each failure, shrunk, to a file here")
    p.add_argument("--json", type=Path, help="write the figures to this file")
    return p.parse_args()


def main() -> int:
    a = arguments()
    if a.level:
        os.environ["TILEWRIGHT_TARGET"] = a.level
    if a.engine == "neon":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
    from . import run

    first, count = (a.only, 1) if a.only is not None else (a.start, a.count)
    began = time.perf_counter()
    tally = run.Tally()
    for number in range(first, first + count):
        if a.seconds and time.perf_counter() - began > a.seconds:
            break
        program = run.numbered(a.seed, number, a.way, run.LAZY if a.engine == "neon" else run.WAYS)
        if any(s.op in a.without.split(",") for s in program.steps):
            continue
        if a.only is not None:
            print(program.function("tw"), *program.leaves, sep="\n")
        found = run.one(program, a.engine, tally)
        if found:
            print(f"{a.seed}/{number} {program.options['way']}: {found}", flush=True)
            if a.out is not None:
                print(f"  {run.kept(program, found, a.engine, a.out, a.seed, number)}", flush=True)
    seconds = time.perf_counter() - began
    figures: dict[str, Any] = {
        **tally.figures(),
        "seconds": round(seconds, 1),
        "engine": a.engine,
        "level": a.level or "host",
        "seed": a.seed,
        "first": first,
    }
    print(json.dumps(figures))
    if a.json is not None:
        a.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if tally.failures else 0


sys.exit(main())
