"""Every kind of kernel on this processor, tuned from an empty cache, against NumPy (OpenBLAS), PyTorch and tinygrad.

    python benchmarks/cpu_vs.py [--only matmul conv2d ...] [--threads 1 2] [--seconds 25] [--rounds 8] [--starts-only] [--rivals PYTHON]

Each contestant is a process of its own. They take turns in bursts: at most 20 calls (more of short ones) or 0.4 s,
the first three dropped, every pool asleep for 60 ms before; the order changes from round to round. A contestant's
time is the median over rounds of a burst's lower quartile; `ratios` are rival over ours, the median over rounds of
the quotient within a round: above 1 ours is faster. OPENBLAS_* is cleared, since such variables can halve a rival,
and rivals that cannot be given an output keep freed memory, so that they do not pay for its pages again. Everyone's
arrays begin on a cache line. `start`: the schedule that a user gets without tuning, in the same rounds; `roofline`:
the larger of compulsory bytes over bandwidth and flops over peak (both measured in the same minute), over our time.
`difference`: the largest one between outputs, over the largest element.

--rivals: an interpreter with `torch` (pip install 'tilewright[torch]') and perhaps `tinygrad`; default this one. What
is missing is left out of the table. TILEWRIGHT_TARGET lowers the rivals as well (`parts/rivals.py`), and leaves tinygrad
out, which cannot be lowered. --only: parts of case names, or of their groups. --starts-only: no tuning. --cpu-time
(with --threads 1): time that the calling thread ran instead of time that went by, on a machine that others use as
well."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import sleep
from typing import Any

from parts import rivals
from parts.cpu_cases import CASES, Case
from tilewright.measure.rival.versus import Side as Player
from tilewright.measure.timing import quartile as lower_quartile

PLAYER = Path(__file__).with_name("cpu_player.py")
LIBRARIES = ("numpy", "torch", "tinygrad")
BANDWIDTH = ("rows", "more")
"""Groups whose limits are measured again around each case."""


def ours() -> None:
    """The process that plays our side: tunes, then runs bursts of the tuned and of the start schedule."""
    import numpy as np
    import tilewright
    from cpu_player import burst
    from tilewright import named_kernels
    from tilewright.measure.inputs import generate

    job = json.loads(sys.stdin.readline())
    folder, how = Path(job["folder"]), {"shape": job["shape"], "dtype": job["dtype"], "threads": job["threads"]}
    kernel = named_kernels.make(job["kernel"], job["shape"], job["dtype"])
    inputs = []
    for a in generate(kernel, {}, 0).values():
        inputs.append(tilewright.empty(a.shape, a.dtype))
        inputs[-1][...] = a
    out = tuple(tilewright.empty(b.shape, b.dtype.np) for b in kernel.outputs)
    out = out[0] if len(out) == 1 else out
    told: dict[str, Any] = {}
    programs = {"start": tilewright.best(job["kernel"], **how, cache=folder / "none.db")}
    if job["seconds"]:
        place = folder / f"cache{job['threads']}.db"
        result = tilewright.tune(job["kernel"], **how, budget=job["seconds"], cache=place)
        programs["ours"] = tilewright.best(job["kernel"], **how, cache=place)
        told = {"tuning_seconds": round(result.seconds, 1), "counts": dict(result.counts)}
    else:
        programs["ours"] = programs["start"]
    got = programs["ours"](*inputs, out=out)
    np.save(
        folder / "ours.npy",
        np.asarray(got if not isinstance(got, tuple) else got[0], dtype=np.float32 if kernel.outputs[0].dtype.is_float else None),
    )
    opts = {f"{name}_opts": [o.json for o in p.opts] for name, p in programs.items() if name == "ours" or job["seconds"]}
    print(json.dumps({"ready": True, "origin": programs["ours"].origin, **told, **opts}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        compiled = programs[order["of"]]
        print(
            json.dumps(burst(lambda compiled=compiled: compiled(*inputs, out=out), order["burst"], order["most"], order["cpu"])), flush=True
        )  # type: ignore[misc]


def put_inputs(case: Case, folder: Path) -> list[str]:
    """Write the inputs where rivals find them; their names."""
    import numpy as np
    from tilewright import named_kernels
    from tilewright.measure.inputs import generate

    arrays = generate(named_kernels.make(case.kernel, case.shape, case.dtype), {}, 0)
    for name, a in arrays.items():
        np.save(folder / f"{name}.npy", a.astype(np.float32) if a.dtype.name == "bfloat16" else a)
    return list(arrays)


def difference(folder: Path, rival: str) -> float:
    """The largest difference between two outputs, relative to the largest element."""
    import numpy as np

    a, b = (np.load(folder / f"{n}.npy").astype(np.float64) for n in ("ours", rival))
    return float(np.abs(a - b.reshape(a.shape)).max() / max(np.abs(a).max(), 1e-30))


def quartile(times: list[float]) -> float:
    """The lower quartile, the first calls dropped."""
    return lower_quartile(times[3:] if len(times) > 6 else times[1:])


def compare(case: Case, threads: int, args: argparse.Namespace, folder: Path, inputs: list[str]) -> dict[str, Any]:
    """One row: prepare everyone, play the rounds."""
    job = {
        "folder": str(folder),
        "kernel": case.kernel,
        "shape": dict(case.shape),
        "dtype": case.dtype,
        "threads": threads,
        "inputs": inputs,
    }
    env = rivals.environment(threads)
    lasting = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "THP_MEM_ALLOC_ENABLE": "1"}
    row: dict[str, Any] = {
        "name": case.name,
        "group": case.group,
        "kernel": case.kernel,
        "shape": dict(case.shape),
        "dtype": case.dtype,
        "threads": threads,
    }
    home = Player([sys.executable, __file__, "--ours"], env, {**job, "seconds": 0 if args.starts_only else args.seconds})
    players = {"ours": home}
    try:
        if "error" in home.answer:
            raise SystemExit(f"{case.name}: our own process failed: {home.answer['error']}")
        row |= home.answer
        del row["ready"]
        for library in (lib for lib in LIBRARIES if not (rivals.settings() and lib in rivals.NATIVE)):
            interpreter = sys.executable if library == "numpy" else args.rivals
            p = Player([interpreter, str(PLAYER)], {**env, **lasting}, {**job, "library": library})
            if p.answer.get("ready"):
                players[library] = p
                continue
            p.close()
            if "error" in p.answer:
                row.setdefault("missing", {})[library] = p.answer["error"]
        limits = [_limits()] if case.group in BANDWIDTH else []
        rounds = play(players, args, start=not args.starts_only)
        limits += [_limits()] if limits else []
    finally:
        for p in players.values():
            p.close()
    row |= figures(case, threads, rounds, limits)
    row["difference"] = {n: float(f"{difference(folder, n):.2g}") for n in players if n != "ours"}
    row["load"] = round(os.getloadavg()[0], 2)
    return row


def play(players: dict[str, Player], args: argparse.Namespace, start: bool) -> list[dict[str, float]]:
    """The time of everyone in every round."""
    turns = [(n, n) for n in players] + ([("start", "ours")] if start else [])
    most = dict.fromkeys((n for n, _ in turns), 3)
    rounds = []
    for r in range(args.rounds + 1):
        got = {}
        for name, player in turns[r % len(turns) :] + turns[: r % len(turns)]:
            sleep(0.06)
            times = players[player].ask({"of": name, "burst": args.burst, "most": most[name], "cpu": args.cpu_time})
            if isinstance(times, dict):
                raise SystemExit(f"{name} stopped in the middle: {times['error']}")
            got[name] = quartile(times)
            most[name] = max(20, min(200, int(0.1 / got[name])))
        if r:  # the first round only finds how many calls make a burst
            rounds.append(got)
    return rounds


def figures(case: Case, threads: int, rounds: list[dict[str, float]], limits: list[Any]) -> dict[str, Any]:
    """Times, ratios and shares of the roofline."""
    from tilewright import devices, named_kernels
    from tilewright.ir.cost import cost
    from tilewright.measure.roofline import roofline

    ms = {n: statistics.median(r[n] for r in rounds) * 1e3 for n in rounds[0]}
    ratios = {n: [r[n] / r["ours"] for r in rounds] for n in rounds[0] if n != "ours"}
    kernel = named_kernels.make(case.kernel, case.shape, case.dtype)
    c = cost(kernel)
    best = min((n for n in ratios if n != "start"), key=lambda n: ms[n], default=None)
    known = limits or [found for found in [devices.get("cpu").limits()] if found is not None]
    out: dict[str, Any] = {
        "ms": {n: round(t, 4) for n, t in ms.items()},
        "ratios": {n: round(statistics.median(v), 3) for n, v in ratios.items()},
        "ranges": {n: [round(min(v), 3), round(max(v), 3)] for n, v in ratios.items()},
        "fastest_rival": best,
        "ratio": round(statistics.median(ratios[best]), 3) if best else None,
        "gflops": round(c.flops / ms["ours"] * 1e-6, 1),
        "gbytes_s": round(c.bytes / ms["ours"] * 1e-6, 2),
    }
    if known:
        limit = known[0] if len(known) == 1 else known[0].best(known[1])
        share = roofline(kernel, limit, threads)
        out |= {"roofline": round(share.seconds * 1e3 / ms["ours"], 3), "bound": share.bound}
    return out


def _limits() -> Any:
    """The limits of this machine, measured now (in a process of its own: a pool must not be left spinning here)."""
    code = "import json; from tilewright.devices import get; from tilewright.devices.cpu import device; print(json.dumps(device.measure(get('cpu')).to_json()))"
    from tilewright.devices import Limits

    return Limits.from_json(json.loads(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout))


def mean(values: Iterable[float]) -> float:
    """Geometric."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def table(rows: list[dict[str, Any]]) -> None:
    """Everything at a glance, on stderr."""
    from rich.console import Console
    from rich.table import Table

    t = Table(title="rival / ours: above 1 ours is faster")
    for head in ("kernel", "threads", "ours ms", *LIBRARIES, "start", "roofline"):
        t.add_column(head, justify="left" if head == "kernel" else "right")
    for r in rows:
        ratios = [f"{r['ratios'][n]:.2f}" if n in r["ratios"] else "" for n in (*LIBRARIES, "start")]
        t.add_row(
            r["name"], str(r["threads"]), f"{r['ms']['ours']:.3f}", *ratios, f"{r['roofline']:.0%} {r['bound']}" if "roofline" in r else ""
        )
    Console(stderr=True, width=140).print(t)


def summary(rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """One line a group and thread count: the geometric mean of the ratios to the fastest rival."""
    for group, threads in dict.fromkeys((r["group"], r["threads"]) for r in rows):
        mine = [r for r in rows if (r["group"], r["threads"]) == (group, threads) and r["ratio"]]
        if mine:
            starts = [1 / r["ratios"]["start"] for r in mine if "start" in r["ratios"]]
            worst = min(mine, key=lambda r: r["ratio"])
            line = {"group": group, "threads": threads, "cases": len(mine), "mean_ratio": round(mean(r["ratio"] for r in mine), 3)}
            yield line | {"worst": [worst["name"], worst["ratio"]]} | ({"start_over_tuned": round(mean(starts), 3)} if starts else {})


def main() -> None:
    """One JSON line a row on stdout, then one a group; the table on stderr."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    p.add_argument("--seconds", type=float, default=25.0)
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--burst", type=float, default=0.4, help="seconds of a burst")
    p.add_argument("--starts-only", action="store_true")
    p.add_argument("--cpu-time", action="store_true", help="time that the calling thread ran, for one thread on a machine that others use")
    p.add_argument("--rivals", default=sys.executable, metavar="PYTHON")
    p.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.cpu_time and args.threads != [1]:
        p.error("--cpu-time takes --threads 1: what other threads do is not in the time of the calling one")
    if args.ours:
        ours()
        return
    rows = []
    for case in CASES:
        if args.only and not any(part in f"{case.name} {case.group}" for part in args.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            inputs = put_inputs(case, Path(folder))
            for threads in args.threads:
                rows.append(compare(case, threads, args, Path(folder), inputs))
                print(json.dumps(rows[-1]), flush=True)
    if not rows:
        raise SystemExit(f"no case has {' or '.join(args.only)} in its name; the names are: {', '.join(c.name for c in CASES)}")
    table(rows)
    for line in summary(rows):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
