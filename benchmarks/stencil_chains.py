"""Chains of stencils against C loops that keep every intermediate in an array (gcc -Ofast -fopenmp, of the same level).

    python benchmarks/stencil_chains.py [--only NAME ...] [--threads 1 2] [--seconds 12] [--rounds 9] [--size 2048] [--opts JSON]

One line of JSON for each case: milliseconds of C, of the seed (the schedule without a search) and of what a search of so many
seconds found (0: no search), and C over each. The contestants take turns, the best of three calls in each round, medians over
rounds. With one thread it is the processor time of the calling thread. --opts: a schedule to time in place of the seed.
TILEWRIGHT_TARGET lowers both sides."""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter, sleep, thread_time
from typing import Any

LEVELS = (("avx512", "x86-64-v4"), ("avx2", "x86-64-v3"), ("sse41", "x86-64-v2"))


def compiled(source: str, folder: Path, name: str) -> Callable[..., None]:
    """The C function, compiled for the level that we use ourselves."""
    from tilewright import targets

    level = next((arch for flag, arch in LEVELS if flag in targets.host().features), "x86-64")
    (folder / f"{name}.c").write_text(source)
    command = ["gcc", "-Ofast", f"-march={level}", "-mprefer-vector-width=512", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run([*command, f"{name}.c", "-o", f"{name}.so"], cwd=folder, check=True)
    run: Callable[..., None] = ctypes.CDLL(str(folder / f"{name}.so")).run
    return run


def medians(calls: dict[str, Callable[[], object]], rounds: int, threads: int) -> dict[str, float]:
    """Seconds of each call: the median over rounds of the best of three."""
    clock = thread_time if threads == 1 else perf_counter
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            if threads > 1:
                sleep(0.05)
            times = []
            for _ in range(4):
                begin = clock()
                call()
                times.append(clock() - begin)
            found[name].append(min(times[1:]))
    return {name: statistics.median(times) for name, times in found.items()}


def play(job: dict[str, Any]) -> dict[str, Any]:
    """One case: its times and ratios."""
    import numpy as np
    from parts.chain_cases import FIVE, cases
    from tilewright.devices import get
    from tilewright.heuristics import seeds
    from tilewright.ir.normal_form.normalise import normalise
    from tilewright.opts import parse, short
    from tilewright.plan import empty
    from tilewright.plan.compile import compile as compiled_plan
    from tilewright.search.api import tune

    case = next(c for c in cases(job["size"]) if c.name == job["case"])
    kernel, threads, cpu = normalise(case.kernel), job["threads"], get("cpu")
    rng = np.random.default_rng(0)
    arrays = [empty([int(d) for d in b.shape]) for b in kernel.inputs]  # all on cache lines, the rival's as well
    arrays[0][...] = rng.random(arrays[0].shape, np.float32)
    for x in arrays[1:]:
        x[...] = FIVE
    out, expected = (empty([int(d) for d in kernel.outputs[0].shape]) for _ in range(2))
    keep = empty([case.kept * arrays[0].size])
    schedules = {"seed": seeds(kernel, cpu.target, threads)[0] if not job["opts"] else parse(job["opts"])}
    with tempfile.TemporaryDirectory() as folder:
        if job["seconds"]:
            result = tune(kernel, device="cpu", budget=job["seconds"], threads=threads, cache=f"{folder}/cache.db", mode="refresh")
            schedules["tuned"] = result.opts
        rival = compiled(case.source, Path(folder), case.name)
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (arrays[0], expected, keep)]
        calls: dict[str, Callable[[], object]] = {"c": lambda: rival(*pointers)}
        for name, opts in schedules.items():
            built = compiled_plan(kernel, opts, cpu)
            run, at = cpu.load(built.obj, built.signature, threads), [x.ctypes.data for x in (*arrays, out)]
            calls[name] = lambda run=run, at=at: run.run(at, [])  # type: ignore[misc]
            calls["c"](), calls[name]()
            assert np.allclose(out, expected, atol=1e-5 * float(abs(expected).max())), name
        times = medians(calls, job["rounds"], threads)
    ratios = {f"{name}_ratio": round(times["c"] / t, 3) for name, t in times.items() if name != "c"}
    said = {f"{name}_opts": short(opts) for name, opts in schedules.items()}
    return {"case": case.name, "threads": threads, **{k: round(1e3 * v, 3) for k, v in times.items()}, **ratios, **said}


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The command line of a benchmark whose cases run in processes of their own (`--job`)."""
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    p.add_argument("--seconds", type=float, default=12)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--opts", default="")
    p.add_argument("--job", help=argparse.SUPPRESS)
    return p


def each_case(script: str, names: Iterable[str], args: argparse.Namespace, **more: Any) -> None:
    """`script --job` of every case and number of threads, its line of JSON, then geometric means. `more` goes into each job."""
    given = {"seconds": args.seconds, "rounds": args.rounds, "opts": args.opts, **more}
    for threads in args.threads:
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
        rows = []
        for name in names:
            job = json.dumps({"case": name, "threads": threads, **given})
            ran = subprocess.run([sys.executable, script, "--job", job], env=env, capture_output=True, text=True, check=False)
            if ran.returncode:
                print(json.dumps({"case": name, "threads": threads, "error": ran.stderr.strip()[-300:]}), flush=True)
                continue
            print(ran.stdout.strip(), flush=True)
            rows.append(json.loads(ran.stdout))
        for key in ("seed_ratio", "tuned_ratio"):
            found = [r[key] for r in rows if key in r]
            if found:
                mean = math.exp(statistics.fmean(map(math.log, found)))
                print(json.dumps({"threads": threads, "geometric mean of": key, "is": round(mean, 3), "least": min(found)}), flush=True)


def main() -> None:
    """Every case in a process of its own, then geometric means."""
    p = arguments(__doc__)
    p.add_argument("--size", type=int, default=2048)
    args = p.parse_args()
    if args.job:
        print(json.dumps(play(json.loads(args.job))), flush=True)
        return
    from parts.chain_cases import cases

    each_case(__file__, [c.name for c in cases(64) if not args.only or c.name in args.only], args, size=args.size)


if __name__ == "__main__":
    main()
