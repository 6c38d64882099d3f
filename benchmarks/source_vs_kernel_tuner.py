"""`tune source` beside Kernel Tuner on the same T1 files, with an equal number of evaluations, on OpenCL.

    python benchmarks/source_vs_kernel_tuner.py --kernel-tuner VENV/bin/python [--evaluations 40] [--rounds 3] [--json FILE]

VENV has kernel_tuner and pyopencl, and both see the same driver. Each round runs both, in turn, with another seed, in processes of their
own whose driver has an empty cache. Of each: measurements a second of the whole search (what it spends on its own
verification, on thinking and on building included), and the best configuration, which are then timed in pairs, one
beside the other, by `measure.duel`: the rate that a tuner itself reports is of another moment."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILES = ("vector_add", "convolution")
OURS = """
import json, sys, time
from tilewright.sources import t1, tune_source
def main():
    path, check, trials, seed, cache, strategy = sys.argv[1:7]
    spec = t1.read(path, check=check).spec
    began = time.perf_counter()
    r = tune_source(spec, trials=int(trials), seed=int(seed), cache=cache, strategy=strategy or None, interrupt="return")
    done = sum(r.counts.values())
    last = r.history[-1]
    said = {"seconds": time.perf_counter() - began, "evaluations": done, "best": {o[1]: o[2]["to"] for o in last["opts"]}, "reported_s": last["t_min"]}
    print("RESULT " + json.dumps(said))
if __name__ == "__main__":
    main()
"""
THEIRS = """
import json, sys, time
import numpy as np
from kernel_tuner import tune_kernel
path, trials, seed, strategy = sys.argv[1:5]
import random
random.seed(int(seed)); np.random.seed(int(seed))
from pathlib import Path
data = json.loads(Path(path).read_text())
k, space = data["KernelSpecification"], data["ConfigurationSpace"]
params = {p["Name"]: list(eval(p["Values"])) for p in space["TuningParameters"]}
kinds = {"float": np.float32, "int32": np.int32}
args = []
for a in k["Arguments"]:
    of = kinds[a["Type"]]
    if a["MemoryType"] == "Scalar":
        args.append(of(a["FillValue"]))
    elif a["FillType"] == "Random":
        args.append(np.random.rand(a["Size"]).astype(of))
    else:
        args.append(np.zeros(a["Size"], of))
names = [a["Name"] for a in k["Arguments"]]
by = dict(zip(names, args))
sys.path.insert(0, str(Path(path).parent))
import reference, inspect
f = getattr(reference, k["KernelName"])
right = f(**{n: by[n] for n in inspect.signature(f).parameters}).astype(np.float32)
answer = [right if a.get("AccessType") == "WriteOnly" else None for a in k["Arguments"]]
began = time.perf_counter()
results, env = tune_kernel(
    k["KernelName"], str(Path(path).parent / k["KernelFile"]), tuple(k["ProblemSize"]), args, params,
    grid_div_x=k.get("GridDivX"), grid_div_y=k.get("GridDivY"), restrictions=[c["Expression"] for c in space["Conditions"]],
    answer=answer, atol=1e-3, lang="OpenCL", strategy=strategy, strategy_options={"max_fevals": int(trials)}, quiet=True,
)
right = [r for r in results if isinstance(r["time"], (int, float)) and r["time"] < 1e20]
best = min(right, key=lambda r: r["time"])
said = {"seconds": time.perf_counter() - began, "evaluations": len(results), "best": {n: str(best[n]) for n in params}, "reported_s": best["time"] * 1e-3}
print("RESULT " + json.dumps(said))
"""


def one(python: str, script: str, *words: str) -> dict[str, Any]:
    """What a tuner said, in a process whose driver's cache is empty."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")} | {"POCL_CACHE_DIR": folder}
        done = subprocess.run([python, "-c", script, *words], env=env, capture_output=True, text=True, cwd=folder, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{python} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return dict(json.loads(lines[-1].removeprefix("RESULT ")))


def duel(path: Path, check: str, a: dict[str, str], b: dict[str, str]) -> float:
    """The time of configuration `a` over that of `b`, in paired rounds; 1.0 where they are one configuration."""
    from tilewright.search.budget import Budget
    from tilewright.search.task import TuneRequest
    from tilewright.sources import t1
    from tilewright.sources.configurations import schedule
    from tilewright.sources.source_task import resolved

    if a == b:
        return 1.0
    what = resolved(t1.read(path, check=check).spec, "", {})
    with what.measurer(TuneRequest(Budget(None))) as m:
        made = dict(m.build([schedule(what.spec, what.spec.at(x)) for x in (a, b)]))
        return float(m.duel(made[0], made[1], rounds=8).ratio)  # type: ignore[arg-type]


def main() -> None:
    """Run the rounds and print a line for each file."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--kernel-tuner", required=True, metavar="PYTHON")
    p.add_argument("--evaluations", type=int, default=40)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--strategy", default="genetic_algorithm", help="Kernel Tuner's")
    p.add_argument("--files", default=",".join(FILES))
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    out = []
    for name in args.files.split(","):
        path, check = ROOT / "examples" / "sources" / f"{name}.json", f"{ROOT / 'examples' / 'sources' / 'reference.py'}:{name}"
        rounds = []
        for seed in range(args.rounds):
            count = str(args.evaluations)
            with tempfile.TemporaryDirectory() as folder:
                ours = one(sys.executable, OURS, str(path), check, count, str(seed), f"{folder}/c.db", "")
            theirs = one(args.kernel_tuner, THEIRS, str(path), count, str(seed), args.strategy)
            rounds.append({"ours": ours, "theirs": theirs, "ratio": duel(path, check, ours["best"], theirs["best"])})
        rates = {side: median(r[side]["evaluations"] / r[side]["seconds"] for r in rounds) for side in ("ours", "theirs")}
        ratio = median(r["ratio"] for r in rounds)
        each = ", ".join(f"{r['ratio']:.3f}" for r in rounds)
        print(
            f"{name}: {args.evaluations} evaluations: ours {rates['ours']:.2f}/s, Kernel Tuner {rates['theirs']:.2f}/s; "
            f"time of our best over theirs {ratio:.3f} (median of {len(rounds)}: {each})"
        )
        out.append({"file": name, "evaluations": args.evaluations, "strategy": args.strategy, "rounds": rounds, **rates, "ratio": ratio})
    if args.json:
        Path(args.json).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
