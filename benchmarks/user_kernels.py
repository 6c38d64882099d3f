"""Kernels that users might write, tuned from an empty cache, against plain loops in C.

    python benchmarks/user_kernels.py [--target v2|v3|v4|native] [--set worked|held_out|all|…] [--only REGEX] [--threads 1]
        [--budget 12s | --starts-only] [--all-starts | --opts JSON] [--rounds 9] [--burst 0.1] [--native]
        [--drawn SEED | --sizes NAME=NUMBER,…] [--json]

The kernels lie in `benchmarks/user/`, a folder for each field of use: a function of the public builder, and a `.c` file
with the loops as a good programmer writes them in one go (no intrinsics, no blocking, OpenMP on the obvious outer
loop). `user/cases.toml` has a row for each. C is compiled by `gcc -Ofast -march=LEVEL -fopenmp`, with the sizes as
constants, which ours has as well. gcc forgets `restrict` in the body of a parallel loop, and vectorises fewer of them:
where that costs C something, the loop says `simd`, or its body is a function with `restrict` of its own (not inlined,
where only that helps). Everyone's output is compared, within our own error bound, with the same C in double
(`vs_c.py` says how).

Sets: `worked` and `held_out` (no option or model was worked on with it; a row's field says so); `borders`: stencils and
windows with borders of every kind; `stencil_chains`: C keeps every intermediate in an array; `contractions`: computed
operands and several arrays, where C takes the best order with temporary arrays and a blocked product; `elementary`:
functions and divisions over 4096 elements, where gcc's loops call glibc's vector functions (`vector`), with the errors
of both in units in the last place (`ulp`; glibc's may be 4 off, and -Ofast divides by estimates): take `--native
--burst 0.01`.

Each case is a process of its own. C, the start schedule and the tuned schedule take turns in bursts whose order changes
from round to round; above one thread every pool sleeps 60 ms before. One thread is timed by the processor time of the
calling thread, on which all of them run, so that others on the machine disturb less. `--native` reads the clock around
each call in native code, for calls of a few microseconds, and tells how long a schedule took to build and how many lines
its source has (`built`). `ratio` is C over ours, the median over rounds of the quotient
of the bursts' lower quartiles: above 1 ours is faster. `start_ratio` is the same for the schedule that a user gets
without tuning; `--opts` gives another schedule in its place, and `--all-starts` times up to twelve (`best_start_ratio`).
`--drawn` draws other sizes, other ones for each seed, since what is good for the sizes that an author chose may be so
only for them. `--json` keeps the rows as results/user_kernels-LEVEL.json, or results/SET-LEVEL.json for the last four
sets.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vs_c import SETS, Case, cases

LIMIT_S = 600.0
"""Seconds after which a case is given up."""


def chosen(which: str, only: str = "") -> list[Case]:
    """Every case of a set (or of 'all') whose name or class has `only` (a regular expression) in it."""
    return [c for c in cases().values() if which in (c.set, "all") and re.search(only, f"{c.name} {c.kind}")]


def run(case: Case, args: argparse.Namespace) -> dict[str, Any]:
    """The row of one case, from a process of its own; with "error" where that failed."""
    from parts import rivals

    job = {"name": case.name, "threads": args.threads, "march": march(args.target), "rounds": args.rounds}
    job |= {"budget": "" if args.starts_only else args.budget, "burst": args.burst, "drawn": args.drawn, "sizes": args.sizes}
    job |= {"opts": args.opts, "all_starts": args.all_starts, "native": args.native}
    row = {"kernel": case.name, "class": case.kind, "set": case.set, "threads": args.threads}
    env = rivals.environment(args.threads) | {"OMP_PROC_BIND": "false"}
    command = [sys.executable, str(Path(__file__).with_name("vs_c.py")), json.dumps(job)]
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return row | {"error": f"took more than {LIMIT_S:.0f} s"}
    if done.returncode or not done.stdout.strip():
        return row | {"error": f"the process ended with {done.returncode}"}
    return row | dict(json.loads(done.stdout.strip().splitlines()[-1]))


def given(text: str) -> dict[str, int]:
    """Sizes by name. ArgumentTypeError where the text has another form."""
    try:
        return {name: int(number) for name, number in (one.split("=") for one in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=NUMBER,NAME=NUMBER, such as n=40000,d=512") from None


def march(target: str) -> str:
    """What gcc calls the level."""
    return target if target == "native" else f"x86-64-{target}"


def mean(values: Iterable[float]) -> float:
    """Geometric."""
    return math.exp(statistics.fmean(math.log(v) for v in values))


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line a class, then one for all: geometric means of the ratios, and the worst. What failed is only counted."""
    lines = []
    for kind in (*dict.fromkeys(r["class"] for r in rows), "all"):
        mine = [r for r in rows if kind in (r["class"], "all")]
        line: dict[str, Any] = {"summary": kind, "cases": len(mine), "failed": sum("ratio" not in r for r in mine)}
        for key in ("ratio", "start_ratio"):
            known = [(r[key], r["kernel"]) for r in mine if key in r]
            if known:
                line |= {key: round(mean(v for v, _ in known), 3), f"worst_{key}": list(min(known))}
        lines.append(line)
    return lines


def table(rows: list[dict[str, Any]], lines: list[dict[str, Any]]) -> None:
    """Everything at a glance, on stderr."""
    from rich.console import Console
    from rich.table import Table

    out = Console(stderr=True, width=150)
    t = Table(title="C / ours: above 1 ours is faster")
    for head in ("kernel", "class", "C ms", "ours ms", "C / ours", "C / start", "measured", "valid", "what is wrong"):
        t.add_column(head, justify="left" if head in ("kernel", "class", "what is wrong") else "right")
    for r in rows:
        ms, ratios = r.get("ms", {}), [f"{r[k]:.2f}" if k in r else "" for k in ("ratio", "start_ratio")]
        times = [f"{ms[k]:.2f}" if k in ms else "" for k in ("c", "ours")]
        counts = r.get("counts", {})
        told = [str(sum(counts.values())), str(counts.get("ok", 0))] if counts else ["", ""]
        t.add_row(r["kernel"], r["class"], *times, *ratios, *told, r.get("error", "")[:200])
    out.print(t)
    t = Table(title="geometric means")
    for head in ("class", "cases", "failed", "C / ours", "C / start"):
        t.add_column(head, justify="left" if head == "class" else "right")
    for line in lines:
        told = [str(line.get(k, "")) for k in ("cases", "failed", "ratio", "start_ratio")]
        t.add_row(line["summary"], *told)
    out.print(t)


def main() -> None:
    """One JSON line a case on stdout, then one a class; the tables on stderr."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", choices=("v2", "v3", "v4", "native"), default="native")
    p.add_argument("--set", choices=("worked", "held_out", "all", *SETS), default="worked")
    p.add_argument("--only", default="", metavar="REGEX", help="kernels whose name or class has it")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--budget", default="12s")
    p.add_argument("--starts-only", action="store_true")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--burst", type=float, default=0.1, help="seconds of a burst")
    p.add_argument("--native", action="store_true", help="time the calls in native code")
    p.add_argument("--opts", default="", metavar="JSON", help="a schedule in the place of the one without tuning")
    p.add_argument("--all-starts", action="store_true", help="time up to twelve start schedules")
    p.add_argument("--drawn", default="", metavar="SEED", help="other sizes than the kernels' own, drawn at random")
    p.add_argument("--sizes", default={}, type=given, metavar="NAME=NUMBER,…", help="sizes in the place of a kernel's own, with --only")
    p.add_argument("--json", action="store_true", help="keep the rows under results/")
    args = p.parse_args()
    os.environ.pop("TILEWRIGHT_TARGET", None)
    if args.target != "native":
        os.environ["TILEWRIGHT_TARGET"] = args.target
    found = chosen(args.set, args.only)
    if not found:
        known = ", ".join(c.name for c in chosen(args.set))
        raise SystemExit(f"no kernel has {args.only} in its name or class: {known}")
    rows = []
    for case in found:
        rows.append(run(case, args))
        print(json.dumps(rows[-1]), flush=True)
    lines = summary(rows)
    for line in lines:
        print(json.dumps(line), flush=True)
    table(rows, lines)
    if args.json:
        import record
        from tilewright.targets import lowered

        kept = args.set if args.set in SETS else "user_kernels"
        name = kept if lowered() else f"{kept}-{args.target}"
        record.keep(name, f"python benchmarks/user_kernels.py {' '.join(sys.argv[1:])}", rows + lines)


if __name__ == "__main__":
    main()
