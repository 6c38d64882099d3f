"""`tune source` beside Kernel Tuner on the same T1 files, with an equal number of configurations: two in C by gcc, two in OpenCL.

    python benchmarks/source_vs_kernel_tuner.py --kernel-tuner VENV/bin/python [--evaluations 40] [--rounds 3]

VENV has kernel_tuner and pyopencl, and both see the same driver. Each round runs both, in turn, with another seed, in processes of their
own whose driver has an empty cache. Of each: configurations a second of the whole search (what it spends on its own
verification, on thinking and on building included; one that comes twice counts once), processor seconds a configuration, and the best
one. The two are then timed in pairs, one beside the other, by `measure.duel`: the rate that a tuner itself reports is of another moment."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILES = ("matmul", "stencil", "convolution", "vector_add")
OURS = """
import json, sys, time
from tilewright.sources import t1, tune_source
def main():
    path, check, trials, seed, cache, strategy = sys.argv[1:7]
    spec = t1.read(path, check=check).spec
    began = time.perf_counter()
    r = tune_source(spec, trials=int(trials), random_seed=int(seed), cache=cache, strategy=strategy or None, interrupt="return")
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
source, name = Path(path).parent / k["KernelFile"], k["KernelName"]
if k["Language"] == "C":
    # its C functions time themselves, and return milliseconds; what a parameter is untuned is not defined twice; the comment keeps it C
    text = "".join(x for x in source.open() if not x.startswith(tuple(f"#define {p} " for p in params)))
    given = ", ".join(("const " if a["AccessType"] == "ReadOnly" else "") + f"float *{a['Name']}" for a in k["Arguments"])
    text += (
        f"/* extern \\"C\\" */\\n#include <time.h>\\nfloat timed({given}) {{ struct timespec s, e; clock_gettime(CLOCK_MONOTONIC, &s);"
        f"{name}({', '.join(names)}); clock_gettime(CLOCK_MONOTONIC, &e);"
        "return (e.tv_sec - s.tv_sec) * 1e3 + (e.tv_nsec - s.tv_nsec) * 1e-6; }\\n"
    )
    source, name = Path("timed.c"), "timed"
    source.write_text(text)
    how = {"lang": "C", "compiler": "gcc", "compiler_options": k["CompilerOptions"]}
else:
    how = {"lang": "OpenCL", "grid_div_x": k.get("GridDivX"), "grid_div_y": k.get("GridDivY")}
began = time.perf_counter()
results, env = tune_kernel(
    name, str(source), tuple(k.get("ProblemSize", (1,))), args, params, restrictions=[c["Expression"] for c in space["Conditions"]],
    answer=answer, atol=1e-3, strategy=strategy, strategy_options={"max_fevals": int(trials)}, quiet=True, **how,
)
seconds = time.perf_counter() - began
right = [r for r in results if isinstance(r["time"], (int, float)) and r["time"] < 1e20]
best = min(right, key=lambda r: r["time"])
unique = len({tuple(r[n] for n in params) for r in results})  # it also counts what it had in its cache
said = {"seconds": seconds, "evaluations": unique, "best": {n: str(best[n]) for n in params}, "reported_s": best["time"] * 1e-3}
print("RESULT " + json.dumps(said))
"""


def one(python: str, script: str, *words: str) -> dict[str, Any]:
    """What a tuner said, in a process whose driver's cache is empty, and the processor seconds of it and its children."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_") and k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"POCL_CACHE_DIR": folder, "XDG_CACHE_HOME": folder, "OMP_NUM_THREADS": "1"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([python, "-c", script, *words], env=env, capture_output=True, text=True, cwd=folder, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{python} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(lines[-1].removeprefix("RESULT ")), "cpu_s": round(used, 3)}


def duel(path: Path, check: str, a: dict[str, str], b: dict[str, str]) -> float:
    """The time of configuration `a` over that of `b`, in paired rounds; 1.0 where they are one configuration."""
    from tilewright.search.budget import Budget
    from tilewright.search.task import TuneRequest
    from tilewright.sources import t1
    from tilewright.sources.building import schedule
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
    p.add_argument("--strategy", default="random_sample", help="Kernel Tuner's")
    p.add_argument("--files", default=",".join(FILES))
    args = p.parse_args()
    for name in args.files.split(","):
        path, check = ROOT / "examples" / "sources" / f"{name}.json", f"{ROOT / 'examples' / 'sources' / 'reference.py'}:{name}"
        rounds = []
        with tempfile.TemporaryDirectory() as folder:  # a first search leaves Python's bytecode, as an installation has it
            one(sys.executable, OURS, str(path), check, "2", "0", f"{folder}/c.db", "")
        for seed in range(args.rounds):
            count = str(args.evaluations)
            with tempfile.TemporaryDirectory() as folder:
                ours = one(sys.executable, OURS, str(path), check, count, str(seed), f"{folder}/c.db", "")
            theirs = one(args.kernel_tuner, THEIRS, str(path), count, str(seed), args.strategy)
            rounds.append({"ours": ours, "theirs": theirs, "ratio": duel(path, check, ours["best"], theirs["best"])})
        rates = {side: median(r[side]["evaluations"] / r[side]["seconds"] for r in rounds) for side in ("ours", "theirs")}
        cpu = {side: median(r[side]["cpu_s"] / r[side]["evaluations"] for r in rounds) for side in ("ours", "theirs")}
        row = {
            "file": name,
            "evaluations": args.evaluations,
            "strategy": args.strategy,
            "evaluations_a_second": {side: round(rate, 3) for side, rate in rates.items()},
            "rate_ratio": round(median(r["theirs"]["seconds"] / r["ours"]["seconds"] for r in rounds), 3),
            "cpu_s_an_evaluation": {side: round(used, 4) for side, used in cpu.items()},
            "best_ratio": round(median(r["ratio"] for r in rounds), 4),
            "rounds": rounds,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
