"""Few schedules for many shapes: what the tree of sizes loses on shapes that had no part in its choice.

    python benchmarks/few_schedules.py --tune FOLDER [--case NAME] [--budget 60] [--threads 1]   chooses the schedules, and keeps the tree in FOLDER
    python benchmarks/few_schedules.py --build FOLDER [--held 200]     builds them for held-out shapes, beside others, which takes minutes
    python benchmarks/few_schedules.py --time FOLDER                   times them in turns, and prints JSON lines
    python benchmarks/few_schedules.py --dispatch FOLDER               what the tree costs a replay, where sizes are the last ones and where they are others

Steps, so that what is timed needs a quiet machine for a minute or two only. Held-out shapes are drawn as `tune_sizes` draws them, with another
seed (`--draw`), and those whose calls take longer than about 20 ms are left out. At each, the schedule that the tree has there is timed beside the best start schedules of this very
shape and those of the tree's other schedules that the model
ranks first. Where another one was faster, the two, and the first start schedule, which is what a program gets without tuning, are timed anew:
the least of many times is one that noise helped. A line says the tree's time over the other one's, less 1 (`loss`), and 0 where it is the faster
one. This is no search at the shape: what one would find beyond these is not seen. The line of a case has the geometric mean and the worst,
and the same of the first start schedule."""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import pickle
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parts.schedule_times import Built, built, timed
from tilewright.cache.size_tree import parse_tree
from tilewright.devices import get
from tilewright.devices.base import Device
from tilewright.heuristics import estimate, starts
from tilewright.ir import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.named_kernels import make
from tilewright.opts import Opts, apply_cached, short
from tilewright.plan.size_trees import as_here
from tilewright.search.shapes import parse_ranges, tune_sizes
from tilewright.search.shapes.tuned import drawn

CASES = {
    "matmul": ("m=1..4096,n=64..4096,k=64..4096", 8, lambda m, n, k: 2 * m * n * k),
    "softmax": ("m=1..4096,n=64..4096", 8, lambda m, n: 20 * m * n),
    "layernorm": ("m=1..4096,n=64..4096", 8, lambda m, n: 20 * m * n),
}
MOST = 1e9
"""Operations of a call that is timed."""
TURNS = 4
"""How often what is compared is timed anew."""
OWN, OTHERS = 3, 3
"""Start schedules of the shape, and the tree's other schedules (those that the model ranks first), that are timed beside."""


def tune(folder: Path, case: str | None, budget: float, threads: int) -> None:
    """Choose schedules, and keep the trees."""
    for kernel, (text, schedules, _) in CASES.items():
        if case in (None, kernel):
            fixed, ranges = parse_ranges(text)
            began = time.perf_counter()
            found = tune_sizes(
                kernel,
                ranges,
                "float32",
                fixed=fixed,
                schedules=schedules,
                budget=budget,
                threads=threads,
                cache=folder / "cache.db",
                again=True,
            )
            assert found.tree is not None, found.message
            said = {
                "shapes": found.shapes,
                "candidates": dict(found.counts),
                "seconds": time.perf_counter() - began,
                "message": found.message,
            }
            kept = {"kernel": kernel, "threads": threads, "budget": budget, "tree": found.tree.lines(), "loss_said": found.loss, **said}
            (folder / f"{kernel}.json").write_text(json.dumps(kept, indent=1))
            print("\n".join(found.tree.lines()), flush=True)


def build(folder: Path, case: str | None, held: int, draw: str) -> None:
    """Build what is timed."""
    device = get("cpu")
    for kernel, (text, _, work) in CASES.items():
        if case not in (None, kernel) or not (folder / f"{kernel}.json").exists():
            continue
        kept = json.loads((folder / f"{kernel}.json").read_text())
        tree, (fixed, ranges) = parse_tree(kept["tree"]), parse_ranges(text)
        rng, out = random.Random(f"held out{draw}"), []
        shapes: dict[tuple[int, ...], dict[str, int]] = {}
        while len(shapes) < held:
            for s in drawn(ranges, 64, rng)[1 << len(ranges) :]:  # (without the corners)
                if work(**s) <= MOST:
                    shapes.setdefault(tuple(s.values()), s)
        for s in list(shapes.values())[:held]:
            k = normalise(make(kernel, {**fixed, **s}, "float32"))

            def seconds(o: Any, k: Any = k, kept: Any = kept) -> float:
                return estimate(apply_cached(k, o, device.target), kept["threads"], device.limits())

            own = starts(k, device.target, kept["threads"])[:OWN]
            here = [as_here(k, o, device.target, seconds, own[0]) for o in tree.schedules]
            others = sorted(dict.fromkeys(here), key=seconds)[:OTHERS]
            wanted = list(dict.fromkeys([here[tree.at(s)], *own, *others]))
            out.append((s, built(k, wanted, device), here[tree.at(s)], own[0]))
            if len(out) % 10 == 0 or len(out) == held:
                (folder / f"{kernel}.pickle").write_bytes(pickle.dumps(out))  # (what there is by now may be timed)
                print(kernel, len(out), flush=True)


def _least(kernel: Kernel, codes: Sequence[Built], device: Device, turns: int = 1) -> dict[Opts, float]:
    """The least time of each schedule, in so many turns."""
    rounds = [[min(t) for t in timed(kernel, codes, device)] for _ in range(turns)]
    return {o: min(t) for (o, _, _), *t in zip(codes, *rounds, strict=True)}


def measure(folder: Path, case: str | None) -> None:
    """Print JSON lines, those of a case before its means."""
    device = get("cpu")
    for kernel, (text, most, _) in CASES.items():
        if case not in (None, kernel) or not (folder / f"{kernel}.pickle").exists():
            continue
        kept = json.loads((folder / f"{kernel}.json").read_text())
        fixed, _ = parse_ranges(text)
        losses, untuned, left_out = [], [], 0
        for s, codes, ours, first in pickle.loads((folder / f"{kernel}.pickle").read_bytes()):
            at = _least(normalise(make(kernel, {**fixed, **s}, "float32")), codes, device)
            if ours not in at:  # (its code is longer than what is built here)
                left_out += 1
                continue
            best = min(at, key=at.__getitem__)
            if best != ours:
                again = [c for c in codes if c[0] in (ours, best, first)]
                at = _least(normalise(make(kernel, {**fixed, **s}, "float32")), again, device, TURNS)
            losses.append(max(0.0, at[ours] / at[best] - 1))
            untuned.append(max(0.0, at.get(first, math.nan) / at[best] - 1))
            row = {
                "kernel": kernel,
                "shape": s,
                "us": 1e6 * at[ours],
                "best_us": 1e6 * at[best],
                "loss": losses[-1],
                "first_start": untuned[-1],
            }
            print(json.dumps({**row, "ours": short(ours), "best": short(best)}), flush=True)
        mean, other = (math.expm1(statistics.fmean(map(math.log1p, x))) for x in (losses, untuned))
        summary = {
            "kernel": kernel,
            "held_out": len(losses),
            "left_out": left_out,
            "loss": mean,
            "worst": max(losses),
            "over_15_percent": sum(x > 0.15 for x in losses),
        }
        print(json.dumps({**summary, "first_start": other, "first_start_worst": max(untuned), "most": most, **kept}), flush=True)


def dispatch(folder: Path, case: str | None) -> None:
    """Print a JSON line a case: seconds to hand a replay its sizes, the same ones and others in turns, without the kernel's work."""
    from tilewright.devices.cpu.native_calls import Given
    from tilewright.devices.cpu.pool import pool

    for kernel in CASES:
        if case not in (None, kernel) or not (folder / f"{kernel}.json").exists():
            continue
        tree = parse_tree(json.loads((folder / f"{kernel}.json").read_text())["tree"])
        out = (ctypes.c_int64 * len(tree.schedules))()
        given, native = Given([], 0, list(tree.ranges)), pool().given
        given.compute([(ctypes.addressof(out) + 8 * i, tree.chosen(i)) for i in range(len(out))], False)
        low = [lo for lo, _ in tree.ranges.values()]
        calls = {"same": [low, low], "other": [low, [x + 1 for x in low]]}
        least = dict.fromkeys(calls, math.inf)
        for name in [*calls] * 200:
            begin = time.perf_counter()
            for _ in range(500):
                for sizes in calls[name]:
                    given.put(given.words, 0, *sizes)
                    native(given.record)
            least[name] = min(least[name], (time.perf_counter() - begin) / 1000)
        said = {"kernel": kernel, "schedules": len(out), "same_s": least["same"], "other_s": least["other"]}
        print(json.dumps({**said, "dispatch_s": least["other"] - least["same"]}), flush=True)


def main() -> None:
    """One step."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for step in ("tune", "build", "time", "dispatch"):
        p.add_argument(f"--{step}", type=Path, metavar="FOLDER")
    p.add_argument("--budget", type=float, default=60.0, help="seconds for each case")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--held", type=int, default=200, help="held-out shapes")
    p.add_argument("--draw", default="", help="any text: another one draws other held-out shapes")
    p.add_argument("--case", choices=CASES, help="this one alone")
    args = p.parse_args()
    if args.tune:
        args.tune.mkdir(parents=True, exist_ok=True)
        tune(args.tune, args.case, args.budget, args.threads)
    if args.build:
        build(args.build, args.case, args.held, args.draw)
    if args.time:
        measure(args.time, args.case)
    if args.dispatch:
        dispatch(args.dispatch, args.case)


if __name__ == "__main__":
    main()
