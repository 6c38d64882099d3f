"""The first hour with an NVIDIA GPU: install, test, record, measure and tune, without a network, in calls of some
minutes.

    scripts/gpu_first_hour.sh [--for 540] [--wheels FOLDER] [--results FOLDER] [--dry-run]

Steps, in order: what is missing is installed from a folder of wheels; the tests that need a GPU run; the bits that
every helper of CUDA text gives on random operands are recorded; limits are measured (copy bandwidth, launches, FMA
and tensor peaks, L2); seed schedules are set beside cuBLAS, PyTorch and copy bandwidth; then the table of kernels is
tuned. All of it takes at most --total seconds (25 minutes). A call begins no step that its own --for seconds have no
room for, and the next call goes on: call it until it says that all is done (exit code 0; 75 while something is left, 3 where there is no GPU).
A step that fails is recorded, and the next one goes on.

`FOLDER/GPU/STEP.json` holds what each step measured: its rows, the device, versions, clocks before and after, date
and command; `FOLDER/GPU/summary.json` how each ended. What is done is remembered in --state. --again STEP: forget
that a step is done.

--wheels: default $TILEWRIGHT_WHEELS, else the folder `wheels` beside the checkout. --torch: an interpreter that has
PyTorch, default this one. --device FILE.py:FACTORY with --smoke tries the script itself without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parts.gpu_cases import CASES, GROUPS
from parts.gpu_steps import Step, StepFile, StepRun, carry_out, play

ROOT = Path(__file__).resolve().parent.parent
MORE = 75
"""Exit code while steps are left: EX_TEMPFAIL of sysexits.h."""
NO_GPU = 3
"""Exit code where there is no GPU."""
PACKAGES = (
    "numpy",
    "llvmlite",
    "sqlalchemy",
    "optuna",
    "ml_dtypes",
    "torch",
    "triton",
    "cuda-bindings",
    "pycuda",
    "nvidia-cuda-nvrtc",
    "nvidia-cublas",
)
TUNED = (
    "matmul-float32-4096", "matmul-bfloat16-8192x8192", "matmul-bfloat16-16x8192", "matmul-bfloat16-4095", "softmax-float32",
    "layernorm-float32", "gelu-float32", "sum_all-float32", "transpose-float32", "attention-d128", "conv2d-bfloat16-c128",
)  # fmt: skip
"""Cases that are tuned, the most important first; the others follow while there is time."""
_TUNING_S, _BESIDE_S = 30, 35
"""Seconds of a search, and of the comparisons after it."""
_ASK = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,power.limit,memory.used,memory.total"


def look(args: argparse.Namespace) -> Step:
    """The step that says what is here; it ends with `NO_GPU` where that is no GPU."""
    words = (sys.executable, str(ROOT / "benchmarks" / "gpu_limits.py"), "--device", args.device, "--look")
    return Step("look", "the GPU, its driver and what is installed", words, 10, 60)


def steps(args: argparse.Namespace) -> list[Step]:
    """Everything there is to do, in order."""
    bench = [
        sys.executable,
        str(ROOT / "benchmarks" / "gpu_vs_cublas.py"),
        "--device",
        args.device,
        "--torch",
        args.torch,
    ]
    smoke = ["--smoke", "--trials", "1"] if args.smoke else []
    limits = [sys.executable, str(ROOT / "benchmarks" / "gpu_limits.py"), "--device", args.device, *smoke[:1]]
    golden = (sys.executable, str(ROOT / "benchmarks" / "gpu_golden.py"))
    tests = ["tests/devices", "tests/measure", "tests/targets", "tests/lower"]
    found = [
        look(args),
        Step("tests", "the tests that need a GPU", (sys.executable, "-m", "pytest", "-q", "-m", "gpu", *tests), 60, 240),
        Step("golden", "bits of every helper", (*golden, "--device", args.device), 20, 120, golden[1]),
        Step("limits", "bandwidths, launches, peaks", tuple(limits), 20, 90),
    ]
    once = ["--seeds-only", "--rounds", "5", *smoke, "--beside", "cublas", "copy"]
    # attention and convolution have nothing but PyTorch to be set beside
    found += [
        Step(
            f"seeds-{g}",
            f"seeds of {g}",
            (*bench, *once, *(["torch"] if g in ("attention", "conv") else []), "--only", g),
            40,
            120,
        )
        for g in GROUPS
    ]
    names = [c.name for part in TUNED for c in CASES if c.name.startswith(part)]
    names += [c.name for c in CASES if c.name not in names]
    tune = ["--budget", f"{args.tuning:.0f}s", *smoke, "--beside", "cublas", "copy", "torch"]
    expected = args.tuning + _BESIDE_S
    found += [Step(f"tune-{n}", f"tune {n}", (*bench, *tune, "--only", n), expected, 3 * expected) for n in names]
    return [s for s in found if not args.only or any(s.name.startswith(o) for o in args.only)]


def install(wheels: Path, site: Path) -> list[str]:
    """Put Tilewright (a link) and what is missing of `wheels` into `site`; what failed. A wheel whose package is
    there already is left."""
    site.mkdir(parents=True, exist_ok=True)
    link = site / "tilewright"
    if not link.exists():
        link.symlink_to(ROOT, target_is_directory=True)
    problems = []
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.partition("-")[0]
        if _installed(name) or any(site.glob(f"{name}-*.dist-info")):
            continue
        words = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-compile",
            "--target",
            str(site),
            str(wheel),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            problems.append(f"{wheel.name}: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
            print(f"not installed: {problems[-1]}")
    return problems


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def environment(site: Path) -> dict[str, str]:
    """What steps run in: our packages, and no variable that slows a rival."""
    slow = ("OPENBLAS", "MKL_", "KMP_", "OMP_", "CUDA_LAUNCH_BLOCKING", "TORCH_ALLOW_TF32")
    env = {k: v for k, v in os.environ.items() if not k.startswith(slow)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), env.get("PYTHONPATH", ""))))
    return env


def clocks() -> dict[str, Any]:
    """What nvidia-smi says of the first GPU; nothing where it is missing."""
    if shutil.which("nvidia-smi") is None:
        return {}
    words = ["nvidia-smi", f"--query-gpu={_ASK}", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return {"nvidia-smi": "did not answer"}
    values = [v.strip() for v in (done.stdout.splitlines() or [""])[0].split(",")]
    return dict(zip(_ASK.split(","), values, strict=False)) if done.returncode == 0 else {}


def slug(name: str) -> str:
    """A GPU's name as a folder's: 'NVIDIA H200' → 'h200'."""
    words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\b(nvidia|tesla|geforce|quadro)\b", "", name.lower())).strip("-")
    return words or "gpu"


def about() -> dict[str, str]:
    """Versions of what takes part."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except OSError:  # no git there
        commit = ""
    return {"python": platform.python_version(), "system": platform.platform(), "commit": commit.strip(), **found}


def keep(folder: Path, run: StepRun, state: StepFile) -> Path:
    """Write what a step measured, and how all ended so far; the folder of the GPU."""
    shown = next((r for r in state.runs["look"].rows if "gpu" in r), {}) if "look" in state.runs else {}
    place = folder / slug(str(shown.get("gpu", "unknown")))
    place.mkdir(parents=True, exist_ok=True)
    data = {"step": run.name, "device": shown, "versions": about(), **{k: v for k, v in asdict(run).items() if k != "name"}}
    data["command"] = " ".join(_shown(w) for w in run.command)
    (place / f"{run.name}.json").write_text(json.dumps(data, indent=1) + "\n")
    ended = {n: {"status": r.status, "seconds": r.seconds, "why": _why(r)} for n, r in state.runs.items()}
    summary = {"device": shown, "spent_s": round(state.spent, 1), "steps": ended}
    (place / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return place


def _why(run: StepRun) -> str:
    return "" if run.status == "ok" else next((line for line in reversed(run.tail) if line.strip()), "")


def _shown(word: str) -> str:
    """A word of a command without this machine's folders."""
    return {sys.executable: "python"}.get(word, word.removeprefix(f"{ROOT}{os.sep}"))


def plan(todo: list[Step], state: StepFile) -> Iterator[str]:
    """What a dry run prints."""
    for s in todo:
        mark = state.runs[s.name].status if s.name in state.runs else "to do"
        yield f"{mark:>8}  {s.name:34} about {s.expected:3.0f} s, at most {s.limit:3.0f} s  {' '.join(map(_shown, s.command))}"
    whole = sum(s.expected for s in todo if not state.done(s))
    yield f"{len(todo)} steps; about {whole / 60:.0f} minutes are left, {state.spent / 60:.0f} are spent"


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--for", dest="call", type=float, default=540.0, metavar="SECONDS", help="of this call (default 540)")
    p.add_argument("--total", type=float, default=1500.0, metavar="SECONDS", help="of all calls (default 1500)")
    p.add_argument("--tuning", type=float, default=_TUNING_S, metavar="SECONDS", help=f"of each search (default {_TUNING_S})")
    p.add_argument(
        "--wheels",
        type=Path,
        default=Path(os.environ.get("TILEWRIGHT_WHEELS", ROOT.parent / "wheels")),
        metavar="FOLDER",
    )
    p.add_argument("--results", type=Path, default=ROOT / "results", metavar="FOLDER")
    p.add_argument("--state", type=Path, default=ROOT / "build" / "gpu_first_hour" / "state.json", metavar="FILE")
    p.add_argument("--device", default="cuda")
    p.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    p.add_argument("--only", nargs="*", default=[], metavar="STEP", help="steps whose names begin so")
    p.add_argument("--again", nargs="*", default=[], metavar="STEP", help="steps to do again")
    p.add_argument("--smoke", action="store_true", help="small shapes and one trial, to try the script itself")
    p.add_argument("--dry-run", action="store_true", help="print the plan and what is done")
    return p


def main(given: list[str] | None = None) -> int:
    """The exit code: 0 all is done, 75 call again, 2 bad usage, 3 no GPU."""
    args = arguments().parse_args(given)
    state, todo = StepFile(args.state), steps(args)
    unknown = [n for n in args.again if n not in {s.name for s in todo}]
    if unknown or not todo:
        print(f"there is no step {', '.join(unknown) or ' or '.join(args.only)}: --dry-run lists them", file=sys.stderr)
        return 2
    for name in args.again:
        state.runs.pop(name, None)
    if args.dry_run:
        print("\n".join(plan(todo, state)))
        return 0
    site = args.state.parent / "site"
    if not args.wheels.is_dir():
        print(f"no wheels in {args.wheels}: what is installed has to do (--wheels FOLDER, TILEWRIGHT_WHEELS)")
    begin = time.monotonic()
    problems = install(args.wheels, site)
    state.put(StepRun("install", "failed" if problems else "ok", round(time.monotonic() - begin, 1), tail=tuple(problems)))

    def told(run: StepRun) -> None:
        place = keep(args.results, run, state)
        print(
            f"{run.name}: {run.status} in {run.seconds:.0f} s {_why(run)[:200]}  [{place.name}/{run.name}.json]",
            flush=True,
        )

    env = environment(site)
    first = carry_out(look(args), 60.0, env)
    if first.code == NO_GPU:  # there is nothing to do here
        print(_why(first), file=sys.stderr)
        return NO_GPU
    finished = play(todo, state, args.call, args.total, env, told, clocks)
    ends: Mapping[str, int] = {s: sum(r.status == s for r in state.runs.values()) for s in ("ok", "failed", "timeout", "left out")}
    print(", ".join(f"{n} {s}" for s, n in ends.items() if n) + f"; {state.spent:.0f} s spent" + ("" if finished else "; call again"))
    return 0 if finished else MORE


if __name__ == "__main__":
    raise SystemExit(main())
