"""How good the start schedule alone is, and the first ten schedules, against the best that is known of each kernel.

    python benchmarks/time_to_good.py [--target v3|v4|native] [--only REGEX] [--pool N] [--known FILE] [--json]
        [--built FOLDER [--build] [--within SECONDS] [--again]]

The kernels are those of `parts/ranking_cases.py`. For each, these are built and timed in turns, on one thread: the first ten start schedules as
`counted_order.counted_starts` gives them, by the counted model; the first as `heuristics.starts` gives it, which is what is used without
tuning; `--pool` schedules drawn at random (start schedules, instances of templates, walks), of which the ten that the
counted model ranks first are built; and the best three of `--known`, a file of measured spaces (`model_rank.py --record`). The best of
all of these is the best known.

`start`, `plain_start`: the best known time over that of the first start schedule, ranked by count or not. `ten`: over the best of the first ten
start schedules. `ten_counted`: over the best of the ten schedules that the counted model ranks first, of start schedules and pool together. 1 is best.
`--built` keeps what is built and what was measured of it, so that `--build` may do only the first, and quiet runs, one
after the other, only time what is still without a line (`--again`: all of it). `--within` begins no case after so many seconds.
The lines that are kept are summarised together."""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import random
import re
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TEN = 10
KNOWN = 3
NEAR, FINALS = 1.3, 2
"""How many times the best time a schedule may take to be timed more often, and how much more often."""


def counted_of(kernel: Any, schedules: Iterable[Any]) -> dict[Any, float]:
    """Each schedule's counted seconds, but for those that cannot be lowered, which are named."""
    from tilewright import devices, heuristics, opts
    from tilewright.ir import OptError

    found = {}
    for o in schedules:
        try:
            found[o] = heuristics.counted(opts.apply(kernel, o, devices.get("cpu").target), 1)
        except OptError as e:
            print(f"{kernel.name} {opts.short(o)}: {e}")
    return found


def prepared(case: Any, pool: int, known: Mapping[str, list[Any]]) -> dict[str, Any]:
    """What is timed of a case: groups of option lists, and what is built of them."""
    from parts.counted_order import counted_starts
    from parts.schedule_times import built, drawn
    from tilewright import devices, heuristics, opts

    device, kernel = devices.get("cpu"), case.kernel()
    starts = counted_starts(kernel, device.target, 1)
    plain = heuristics.starts(kernel, device.target, 1)
    found = drawn(kernel, pool, random.Random(f"pool {case.id}"), plain)
    counts = counted_of(kernel, dict.fromkeys((*starts[:TEN], *found)))
    ranked = sorted(counts, key=counts.__getitem__)[:TEN]
    best = [opts.parse(o) for o, *_ in sorted(known.get(case.id, []), key=lambda e: min(e[1:]))[:KNOWN]]
    groups = {"start": starts[:1], "plain_start": plain[:1], "ten": starts[:TEN], "ten_counted": ranked, "known": best}
    return {"groups": groups, "built": built(kernel, list(dict.fromkeys(o for g in groups.values() for o in g)), device)}


def row(case: Any, made: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a case."""
    from parts.schedule_times import timed
    from tilewright import devices, opts

    device, kernel = devices.get("cpu"), case.kernel()
    times = dict(zip((o for o, *_ in made["built"]), map(min, timed(kernel, made["built"], device)), strict=True))
    # the best of many is so by luck as well: what is near it meets again, all in turns
    near = [b for b in made["built"] if times[b[0]] < NEAR * min(times.values())]
    for _ in range(FINALS):
        for (o, *_), again in zip(near, timed(kernel, near, device), strict=True):
            times[o] = min(times[o], *again)
    best = min(times, key=times.__getitem__)
    out: dict[str, Any] = {"kernel": case.name, "sizes": case.sizes, "held_out": case.held_out, "best_ms": round(1e3 * times[best], 4)}
    for name, group in made["groups"].items():
        mine = [times[o] for o in group if o in times]
        if mine:
            out[name] = round(times[best] / min(mine), 3)
    return out | {"measured": len(times), "start_opts": opts.short(made["groups"]["start"][0]), "best_opts": opts.short(best)}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric mean, least and number of cases, over all cases and those held out."""
    out = []
    for which in ("all", "held out"):
        mine = [r for r in rows if which == "all" or r["held_out"]]
        line: dict[str, Any] = {"summary": which, "cases": len(mine)}
        for name in ("start", "plain_start", "ten", "ten_counted"):
            values = [r[name] for r in mine if name in r]
            if values:
                least = min(mine, key=lambda r: r.get(name, 1.0))
                line[name] = round(math.exp(statistics.fmean(map(math.log, values))), 3)
                line[f"{name}_least"] = [least[name], least["kernel"]]
                line[f"{name}_below_0.8"] = sum(v < 0.8 for v in values)
        out.append(line)
    return out


def main() -> None:
    """One JSON line a case, then one for all and one for those held out."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", choices=("v2", "v3", "v4", "native"), default="native")
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--every", type=int, default=1, metavar="N", help="every N-th case")
    p.add_argument("--pool", type=int, default=16)
    p.add_argument("--built", type=Path, metavar="FOLDER")
    p.add_argument("--build", action="store_true", help="build, and time nothing")
    p.add_argument("--within", type=float, default=math.inf, metavar="SECONDS")
    p.add_argument("--again", action="store_true", help="time what has a line, too")
    p.add_argument("--known", type=Path, metavar="FILE")
    p.add_argument("--json", action="store_true", help="keep the rows under results/")
    args = p.parse_args()
    os.environ.pop("TILEWRIGHT_TARGET", None)
    if args.target != "native":
        os.environ["TILEWRIGHT_TARGET"] = args.target
    from parts.ranking_cases import CASES

    known: dict[str, list[Any]] = {}
    if args.known:
        from model_rank import spaces

        known = {s.case.id: s.times for s in spaces(args.known)}
    rows, end = [], time.monotonic() + args.within
    for case in [c for c in CASES if re.search(args.only, c.id)][:: args.every]:
        kept = args.built / f"{case.id}-{args.target}.pkl" if args.built else None
        line = kept.with_suffix(".json") if kept is not None else None
        if line is not None and line.exists() and not args.again:
            rows.append(json.loads(line.read_text()))
            continue
        if time.monotonic() > end:
            print(f"not begun: {case.id}", file=sys.stderr)
            continue
        if kept is not None and kept.exists():
            made = pickle.loads(kept.read_bytes()) if not args.build else None
        else:
            made = prepared(case, args.pool, known)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(pickle.dumps(made))
                print(f"built {case.id}", file=sys.stderr, flush=True)
        if made is not None and not args.build:
            rows.append(row(case, made))
            print(json.dumps(rows[-1]), flush=True)
            if line is not None:
                line.write_text(json.dumps(rows[-1]))
    if rows:
        lines = summary(rows)
        print(*map(json.dumps, lines), sep="\n")
    if rows and args.json:
        import record
        from tilewright.targets import lowered

        name = "time_to_good" if lowered() else f"time_to_good-{args.target}"
        record.keep(name, f"python benchmarks/time_to_good.py {' '.join(sys.argv[1:])}", rows + lines)


if __name__ == "__main__":
    main()
