"""The tensor compiler against NumPy, PyTorch (eager, and compiled by Inductor), model by model.

    python benchmarks/tensor_vs.py [--only gpt2 mlp ...] [--threads 1 2] [--tune SECONDS] [--rounds 5] [--rivals PYTHON]

Each contestant is a process of its own. They take turns in bursts of at most 20 calls (more of short ones) or `--burst`
seconds, but three calls at least; the order changes from round to round. A contestant's time is the median over rounds
of a burst's lower quartile; `ratios` are rival over ours untuned, the median over rounds of the quotient within a
round: above 1 ours is faster. OPENBLAS_* is cleared. `ours`: start schedules, with an empty cache and an empty store of
compiled code; with --tune SECONDS also `tuned`: the heaviest kernels of each case tuned for so long together.

`errors`: the largest difference from PyTorch's loss and gradients (NumPy's chains), relative to the largest element of
each array; a case fails where one is above its tolerance (parameters after a step of AdamW are compared by its rate).
`kernels`, `distinct`: how many a call runs; `graph_seconds` and `pull_seconds`: making the graph, and partition and
pulling together; `first_seconds`: the first call of the captured function, with schedules, code
and loading for all distinct kernels; `peak_mb`: the high-water mark
of the process's memory after one call. Facts of a process alone (a hundred kernels, replay) come from `tensor_facts.py`.

--rivals: an interpreter with torch; default this one. --small: tiny models, to see that
everything runs. --cpu-time (with --threads 1): time that the calling thread ran, on a machine that others use as well."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import sleep
from typing import Any

from cpu_vs import Player, quartile
from parts import rivals
from parts.tensor_cases import CASES, LEARNING, TensorCase

HERE = Path(__file__).parent
LIBRARIES = ("numpy", "torch", "compiled")
LASTING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "THP_MEM_ALLOC_ENABLE": "1"}
"""Rivals keep freed memory, so that they do not pay for its pages again."""


def contestants(case: TensorCase, threads: int, args: argparse.Namespace, folder: Path) -> tuple[dict[str, Player], dict[str, Any]]:
    """(who plays, what they told of themselves)."""
    env = rivals.environment(threads)
    job = {"case": case.name, "folder": str(folder), "threads": threads, "small": args.small}
    players: dict[str, Player] = {}
    told: dict[str, Any] = {"missing": {}}
    ours = {"ours": 0.0} | ({"tuned": args.tune} if args.tune else {})
    for name, seconds in ours.items():
        own = {**env, "XDG_CACHE_HOME": str(folder / name)}
        command = [sys.executable, str(HERE / "tensor_ours.py")]
        told[name] = _seat(players, name, command, own, {**job, "as": name, "tune": seconds, "cache": str(folder / f"{name}.db")})
    for library in LIBRARIES:
        if args.libraries and library not in args.libraries:
            continue
        interpreter = sys.executable if library == "numpy" else args.rivals
        answer = _seat(players, library, [interpreter, str(HERE / "tensor_player.py")], {**env, **LASTING}, {**job, "library": library})
        if "error" in answer:
            told["missing"][library] = answer["error"]
        elif library in players:
            told[library] = answer
    return players, told


def _seat(players: dict[str, Player], name: str, command: list[str], env: dict[str, str], job: dict[str, Any]) -> dict[str, Any]:
    """Start a contestant; its answer. It plays if it is ready."""
    p = Player(command, env, job)
    if p.answer.pop("ready", False):
        players[name] = p
    else:
        p.close()
    answer: dict[str, Any] = p.answer
    return answer


def errors(case: TensorCase, folder: Path, name: str) -> dict[str, float] | None:
    """The largest relative differences between a contestant's outputs and PyTorch's: of all arrays, and which one. None
    where there is nothing to compare with."""
    import numpy as np

    other = next((folder / f"{n}.npz" for n in ("torch", "numpy") if (folder / f"{n}.npz").exists()), None)
    if other is None:
        return None
    mine, theirs = np.load(folder / f"{name}.npz"), np.load(other)
    worst: dict[str, float] = {}
    for k in theirs.files:
        a, b = mine[k].astype(np.float64), theirs[k].astype(np.float64)
        size = LEARNING["rate"] if case.what == "step" and k != "loss" else max(float(np.abs(b).max()), 1e-30)
        worst[k] = float(np.abs(a.reshape(b.shape) - b).max() / size)
    first = max(worst, key=lambda k: worst[k])
    return {first: float(f"{worst[first]:.2g}")}


def compare(case: TensorCase, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """One row: prepare everyone, check, play the rounds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        players, told = contestants(case, threads, args, folder)
        try:
            row: dict[str, Any] = {"case": case.name, "threads": threads, "sizes": case.sizes, "small": args.small, **told}
            if "ours" not in players:
                raise SystemExit(f"{case.name}: our own process failed: {told['ours'].get('error')}")
            row["errors"] = {n: e for n in ("ours", "tuned") if n in players and (e := errors(case, folder, n)) is not None}
            for name, found in row["errors"].items():
                bound = 0.25 if case.what == "step" else case.tolerance  # a moment near 0 may turn a step of Adam's around
                row.setdefault("agrees", {})[name] = all(e <= bound for e in found.values())
            rounds = play(players, args)
        finally:
            for p in players.values():
                p.close()
    row["ms"] = {n: round(statistics.median(r[n] for r in rounds) * 1e3, 4) for n in rounds[0]}
    for base in ("ours", "tuned"):
        if base in players:
            quotients = {n: [r[n] / r[base] for r in rounds] for n in players if n not in ("ours", "tuned")}
            row[f"ratios_{base}"] = {n: round(statistics.median(v), 3) for n, v in quotients.items()}
            row[f"ranges_{base}"] = {n: [round(min(v), 3), round(max(v), 3)] for n, v in quotients.items()}
    row["load"] = round(os.getloadavg()[0], 2)
    return row


def play(players: dict[str, Player], args: argparse.Namespace) -> list[dict[str, float]]:
    """The time of everyone in every round."""
    turns, most = list(players), dict.fromkeys(players, 3)
    rounds = []
    for r in range(args.rounds + 1):
        got = {}
        for name in turns[r % len(turns) :] + turns[: r % len(turns)]:
            sleep(0.06)
            times = players[name].ask({"burst": args.burst, "most": most[name], "cpu": args.cpu_time})
            if isinstance(times, dict):
                raise SystemExit(f"{name} stopped in the middle: {times['error']}")
            got[name] = quartile(times)
            most[name] = max(3 if got[name] > args.burst else 20, min(200, int(0.1 / got[name])))
        if r:  # the first round only finds how many calls make a burst
            rounds.append(got)
    return rounds


def table(rows: list[dict[str, Any]]) -> None:
    """Everything at a glance, on stderr."""
    print(f"{'case':16} thr {'ours ms':>10} {'tuned ms':>10}  rival / ours (above 1 ours is faster)", file=sys.stderr)
    for r in rows:
        ratios = "  ".join(f"{n} {v:.2f}" for n, v in r["ratios_ours"].items())
        tuned = f"{r['ms']['tuned']:10.3f}" if "tuned" in r["ms"] else " " * 10
        print(f"{r['case']:16} {r['threads']:3} {r['ms']['ours']:10.3f} {tuned}  {ratios}", file=sys.stderr)


def main() -> None:
    """One JSON line a row on stdout; the table on stderr. The exit status is 1 where results differ."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[], help="parts of case names")
    p.add_argument("--libraries", nargs="*", default=[], choices=LIBRARIES)
    p.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    p.add_argument("--tune", type=float, default=0.0, metavar="SECONDS")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--burst", type=float, default=0.4, help="seconds of a burst")
    p.add_argument("--small", action="store_true")
    p.add_argument("--cpu-time", action="store_true")
    p.add_argument("--rivals", default=sys.executable, metavar="PYTHON")
    args = p.parse_args()
    if args.cpu_time and args.threads != [1]:
        p.error("--cpu-time takes --threads 1: what other threads do is not in the time of the calling one")
    rows = []
    for case in CASES:
        if args.only and not any(part in case.name for part in args.only):
            continue
        for threads in args.threads:
            rows.append(compare(case, threads, args))
            print(json.dumps(rows[-1]), flush=True)
    if not rows:
        raise SystemExit(f"no case has {' or '.join(args.only)} in its name; the names are: {', '.join(c.name for c in CASES)}")
    table(rows)
    raise SystemExit(0 if all(all(r.get("agrees", {}).values()) for r in rows) else 1)


if __name__ == "__main__":
    main()
