"""What choosing a start schedule costs at the time of a call, and what it is worth: the quick choice against the ranked one.

    python benchmarks/jit_start.py [--kernel TEXT ...] [--target NAME ...] [--measure N] [--before FILE] [--counted]

Kernels are those of parts/jit_kernels.py: as a tensor compiler pulls them, and the named ones. Each choice is made in a
forked process that has not seen the kernel; milliseconds are processor time of one core, the least of three. One line a
kernel and target: how long each choice takes and how many lists it tries, whether both give the same loops (`same`),
and `modelled`, the seconds that the model predicts for the quick choice over those for the ranked one. On this
machine's own target the other stages of a first call are told too. `--measure` also runs N kernels whose choices differ,
the heaviest work first, in turns of short bursts on one thread: `measured` is the median over pairs of bursts, again
quick over ranked. `--counted` tells the least that a choice by the counted model would take: each list of the quick choice is
lowered and counted without its register parts (UPCAST and UNROLL), which is what lowering one copy of each would cost. `--before` reads the ranked choice's milliseconds from a file that an older version of this printed
(`before_ms`). The last line sums up."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parts.jit_kernels import NAMED, PULLED
from tilewright import heuristics, targets
from tilewright.heuristics.counted import counted
from tilewright.ir import Kernel
from tilewright.ir.errors import OptError
from tilewright.ir.normal_form import normalise
from tilewright.opts import Opts, apply, dumps
from tilewright.targets import Target

KERNELS = {**PULLED, **NAMED}
TIMES = 3
THREADS = 2
BOUND_MS = 15.0
PAIRS, BURST_S = 25, 0.02


def forked(work: Callable[[], Any]) -> Any:
    """What `work` returns in a process of its own: nothing that it learns about a kernel is kept."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as f:
            try:
                pickle.dump(work(), f)
            finally:
                f.flush()
                os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        out = pickle.load(f)
    os.waitpid(child, 0)
    return out


def chosen(make: Callable[[], Kernel], target: Target, choice: str) -> tuple[float, Opts, int]:
    """(milliseconds, the first list, how many lists) of a choice by name."""
    kernel = normalise(make())
    choose = heuristics.quick_starts if choice == "quick" else heuristics.starts
    begin = time.process_time()
    found = choose(kernel, target, THREADS)
    return 1e3 * (time.process_time() - begin), found[0], len(found)


def stages(make: Callable[[], Kernel], target: Target, opts: Opts) -> dict[str, float]:
    """Milliseconds of the other stages of a first call."""
    from tilewright.devices import get
    from tilewright.ir.normal_form import canonical
    from tilewright.lower import lower
    from tilewright.renderers import render

    device, kernel, out = get("cpu"), make(), {}
    at = time.process_time()

    def note(stage: str) -> None:
        nonlocal at
        out[stage] = round(1e3 * (time.process_time() - at), 2)
        at = time.process_time()

    kernel = normalise(kernel)
    note("normalise")
    _ = canonical(kernel).hash
    note("canonical")
    program = lower(apply(kernel, opts, target))
    note("lower")
    source = render(program, target)
    note("render")
    device.build(source)
    note("build")
    return out


def counted_apart(make: Callable[[], Kernel], target: Target) -> float:
    """Milliseconds to lower and count every list of the quick choice, each without its register parts."""
    kernel = normalise(make())
    lists = {tuple(o for o in found if o.op not in ("UPCAST", "UNROLL")) for found in heuristics.quick_starts(kernel, target, THREADS)}
    begin = time.process_time()
    for opts in lists:
        try:
            counted(apply(kernel, opts, target), THREADS)
        except OptError:  # an option that needs the register part
            continue
    return 1e3 * (time.process_time() - begin)


def compared(name: str, where: str, count: bool = False) -> dict[str, Any]:
    """One line: a kernel on a target."""
    make, target = KERNELS[name], targets.host() if where == "host" else targets.named(where)
    quick = [forked(lambda: chosen(make, target, "quick")) for _ in range(TIMES)]
    ranked = [forked(lambda: chosen(make, target, "ranked")) for _ in range(TIMES)]
    kernel = normalise(make())
    found = [apply(kernel, c[0][1], target) for c in (quick, ranked)]
    seconds = [heuristics.estimate(s, THREADS) for s in found]
    line = {
        "kernel": name, "target": where, "quick_ms": round(min(q[0] for q in quick), 2), "ranked_ms": round(min(r[0] for r in ranked), 2),
        "quick_lists": quick[0][2], "ranked_lists": ranked[0][2], "same": found[0].hash == found[1].hash,
        "modelled": round(seconds[0] / seconds[1], 4),
    }  # fmt: skip
    if count:
        line["counted_ms"] = round(min(forked(lambda: counted_apart(make, target)) for _ in range(TIMES)), 2)
    if where == "host":
        line["stages_ms"] = forked(lambda: stages(make, target, quick[0][1]))
    if not line["same"]:
        line |= {"quick": json.loads(dumps(quick[0][1])), "ranked": json.loads(dumps(ranked[0][1])), "seconds": seconds[1]}
    return line


def measured(name: str, lists: Sequence[Any]) -> float:
    """The time of the first of two schedules over that of the second, on one thread: median over pairs of bursts."""
    from tilewright.devices import get
    from tilewright.measure.inputs import generate
    from tilewright.opts import parse
    from tilewright.plan import CompiledKernel, Plan, compile, key_of

    device, kernel, calls = get("cpu"), normalise(KERNELS[name]()), []
    inputs = generate(kernel, {}, 0)
    for o in lists:
        built = compile(kernel, parse(o), device)
        compiled = CompiledKernel(
            kernel, Plan(parse(o), "start", None, key_of(kernel, device, 1)), built, device.load(built.obj, built.signature, 1)
        )
        arrays = [inputs[b.name] for b in kernel.inputs]
        out = compiled(*arrays)
        calls.append(lambda compiled=compiled, arrays=arrays, out=out: compiled(*arrays, out=out))  # type: ignore[misc]

    def burst(call: Callable[[], Any]) -> float:
        times, end = [], time.perf_counter() + BURST_S
        while len(times) < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    return round(statistics.median(burst(calls[0]) / burst(calls[1]) for _ in range(PAIRS)), 3)


def summary(rows: Sequence[dict[str, Any]], where: str) -> dict[str, Any]:
    """The last line of a target."""
    quick, ranked = sorted(r["quick_ms"] for r in rows), sorted(r["ranked_ms"] for r in rows)
    ratios = [r["modelled"] for r in rows]
    out = {
        "target": where, "kernels": len(rows), "quick_ms_median": statistics.median(quick), "quick_ms_p95": quick[int(0.95 * (len(quick) - 1))],
        "quick_ms_most": quick[-1], f"over_{BOUND_MS:g}_ms": sum(q > BOUND_MS for q in quick), "ranked_ms_median": statistics.median(ranked),
        "same": sum(r["same"] for r in rows), "modelled_median": statistics.median(ratios), "modelled_worst": max(ratios),
        "modelled_above_1.05": sum(x > 1.05 for x in ratios),
    }  # fmt: skip
    before = [r["before_ms"] for r in rows if "before_ms" in r]
    told = [r["measured"] for r in rows if "measured" in r]
    if all("counted_ms" in r for r in rows):
        out["counted_ms_median"] = statistics.median(r["counted_ms"] for r in rows)
        calls = [(r["quick_ms"] + sum(r["stages_ms"].values()), r) for r in rows if "stages_ms" in r]
        if calls:
            out["first_call_with_counted"] = statistics.median((ms - r["quick_ms"] + r["counted_ms"]) / ms for ms, r in calls)
    if before:
        out["before_ms_median"] = statistics.median(before)
    if told:
        out |= {"measured": len(told), "measured_median_where_they_differ": statistics.median(told), "measured_worst": max(told)}
    return out


def main() -> None:
    """Print one JSON line a kernel and target, and one for each target."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", nargs="*", default=[""], help="parts of names")
    p.add_argument("--target", nargs="*", default=["host"])
    p.add_argument("--measure", type=int, default=0)
    p.add_argument("--before", type=Path)
    p.add_argument("--counted", action="store_true")
    args = p.parse_args()
    names = [n for n in KERNELS if any(k in n for k in args.kernel)]
    before = {}
    if args.before:
        lines = [json.loads(t) for t in args.before.read_text().splitlines() if t.startswith("{")]
        before = {(r["kernel"], r["target"]): r["ranked_ms"] for r in lines if "kernel" in r}
    stages(KERNELS["chain tiny"], targets.host(), ())  # imports are no part of a kernel's stages
    for where in args.target:
        rows = [compared(n, where, args.counted) for n in names]
        differ = sorted((r for r in rows if not r["same"]), key=lambda r: -r["seconds"]) if where == "host" else []
        for r in differ[: args.measure]:
            r["measured"] = forked(lambda r=r: measured(r["kernel"], (r["quick"], r["ranked"])))  # type: ignore[misc]
        for r in rows:
            if (r["kernel"], where) in before:
                r["before_ms"] = before[r["kernel"], where]
            print(json.dumps(r), flush=True)
        print(json.dumps(summary(rows, where)), flush=True)


if __name__ == "__main__":
    main()
