"""One call on a machine with an NVIDIA GPU that is lent for minutes, without a network: what counts most is measured first.

    scripts/gpu_call.sh --minutes 8.5 --out FOLDER [--resume TAR] [--wheels FOLDER] [--dry-run]

Everything that a call makes is in one tar, FOLDER/gpu_call.tar.gz, rewritten after every step and every 15 s within one: a call that is cut
loses nothing but the step under way, and that step comes last in the next call. The next call goes on where this one ended: on the same
machine by what lies in --work, elsewhere by the tar of the last call (--resume). No step can take longer than its limit; each runs in
processes of its own. Nothing changes a setting of the GPU. Exit code 0: all is done; 75: something is left; 2: bad usage; 3: no GPU.

In the tar: `state.json` (how each step ended), `output/STEP.txt` (all that it printed), `clocks.csv` (clocks, power and temperature over the
whole time), and `results/GPU/STEP.json`, as they go into `results/`: rows, device, versions, date, command.

--wheels: packages that this machine may lack, default .gpu-wheels (`scripts/gpu_wheels.sh` fills it); they are unzipped into --work.
--torch: an interpreter that has PyTorch, default this one. --device FILE.py:FACTORY with --smoke rehearses without a GPU."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parts.gpu_cases import CASES
from parts.gpu_steps import CallFolder, Step, StepRun, carry_out, play

ROOT = Path(__file__).resolve().parent.parent
TAR = "gpu_call.tar.gz"
MORE, NO_GPU = 75, 3
"""Exit codes: steps are left (EX_TEMPFAIL of sysexits.h); there is no GPU."""
PACKAGES = ("numpy", "llvmlite", "sqlalchemy", "optuna", "ml_dtypes", "torch", "triton", "cuda-bindings", "pycuda", "nvidia-cuda-nvrtc", "nvidia-cublas")  # fmt: skip
_ASK = "timestamp,name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,power.limit,memory.used,utilization.gpu"
_BESIDE_S = 14
"""Seconds of a tuning step that are not the search's: operands, comparisons."""
_LATER_S = 40
FIRST = (
    ("matmul-bfloat16-8192x8192x8192", 60, ("--row", "wgmma", "mma")),
    ("matmul-float32-4096x4096x4096", 40, ()),
    ("attention-d128", 50, ()),
    ("softmax-float32", 30, ()),
)
"""Start schedules of the first call: the case, seconds, and more words."""
SECOND = ("matmul-bfloat16-16x8192x8192", "layernorm-float32", "add-float32", "attention-d64", "conv2d-bfloat16-c128-56-k3")
"""Start schedules of the second call."""
TUNED = (("matmul-bfloat16-8192x8192x8192", 40), ("matmul-float32-4096x4096x4096", 30), ("attention-d128", 30), ("softmax-float32", 25))
"""What is tuned in the second call, and seconds."""


def steps(args: argparse.Namespace) -> list[Step]:
    """Everything there is to do, by value."""
    python, benchmarks, device = sys.executable, ROOT / "benchmarks", ("--device", args.device)
    smoke = ("--smoke",) if args.smoke else ()
    limits = (python, str(benchmarks / "gpu_limits.py"), *device)
    run = ("tune", "run", "--kernel", "matmul", *device, "--budget", "20s")
    tests = ("-q", "-v", "-n", "4", "--timeout", "40", "--timeout-method", "thread", "-p", "no:cacheprovider")
    bits = (python, str(benchmarks / "gpu_golden.py"), *(("--host", "sm_90a") if args.smoke else device))
    found = [
        Step("look", "the GPU, its driver and what is installed", (*limits, "--look"), 20),
        Step("limits", "bandwidths, launches, peaks", (*limits, *smoke), 45),
        Step("tune-run", "as a user types it", run if not args.smoke else (*run[:-2], "--trials", "2", "--shape", "m=33,n=17,k=20"), 75),
        Step("tests", "the tests that need a GPU", (python, "-m", "pytest", *tests, "tests/devices/test_cuda_gpu.py"), 100),
        *(Step(f"golden-{k}", f"bits of {k}", (*bits, "--only", k), 10) for k in ("mma", "ldmatrix", "wgmma", "tma")),
    ]
    measure = (python, str(benchmarks / "gpu_vs_cublas.py"), *device, "--torch", args.torch, "--rounds", "5", *smoke)

    def start(name: str, limit: float, more: tuple[str, ...] = ()) -> Step:
        beside = ("cublas", "copy", *(() if name.startswith("matmul") else ("torch",)))
        words = (*measure, "--start", *more, "--only", name, "--beside", *beside)
        return Step(f"start-{name}", f"start schedule of {name}", words, limit)

    def tune(name: str, limit: float) -> Step:
        budget = ("--budget", f"{limit - _BESIDE_S:.0f}s", *(("--trials", "2") if args.smoke else ()))
        return Step(f"tune-{name}", f"tune {name}", (*measure, *budget, "--only", name, "--beside", "cublas", "copy"), limit)

    found += [start(*f) for f in FIRST] + [start(n, _LATER_S) for n in SECOND] + [tune(*t) for t in TUNED]
    known = {s.name for s in found}
    later = [make(c.name, _LATER_S) for make in (start, tune) for c in CASES]
    found += [s for s in later if s.name not in known]
    found = [s for s in found if not args.only or any(s.name.startswith(o) for o in args.only)]
    return [replace(s, limit=10 * s.limit) for s in found] if args.smoke else found  # a rehearsal may be on a slow and busy machine


def install(wheels: Path, site: Path) -> list[str]:
    """Put Tilewright (a link, its entry points, `tune`) and what is missing of `wheels` into `site`; what failed."""
    site.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    link, info, tune = site / "tilewright", site / f"tilewright-{project['version']}.dist-info", site / "bin" / "tune"
    if not link.exists():
        link.symlink_to(ROOT, target_is_directory=True)
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tilewright\nVersion: {project['version']}\n")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for g, entries in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    tune.parent.mkdir(exist_ok=True)
    tune.write_text(f"#!{sys.executable}\nimport sys\nfrom tilewright.cli import main\nsys.exit(main())\n")
    tune.chmod(0o755)
    problems = []
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.partition("-")[0]
        if _installed(name) or any(site.glob(f"{name}-*.dist-info")):
            continue
        try:
            with zipfile.ZipFile(wheel) as z:
                z.extractall(site)
        except (OSError, zipfile.BadZipFile) as e:
            problems.append(f"{wheel.name}: {e}")
    return problems


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def environment(work: Path, site: Path) -> dict[str, str]:
    """What steps run in: our packages, a home and caches of their own, and no variable that slows a rival."""
    slow = ("OPENBLAS", "MKL_", "KMP_", "OMP_", "CUDA_LAUNCH_BLOCKING", "TORCH_ALLOW_TF32")
    env = {k: v for k, v in os.environ.items() if not k.startswith(slow)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), env.get("PYTHONPATH", ""))))
    env["PATH"] = os.pathsep.join((str(site / "bin"), env.get("PATH", os.defpath)))
    home = work / "home"
    home.mkdir(exist_ok=True)
    places = {"XDG_CACHE_HOME": ".cache", "XDG_STATE_HOME": ".state", "XDG_DATA_HOME": ".data", "XDG_CONFIG_HOME": ".config"}
    return {**env, "HOME": str(home), **{k: str(home / v) for k, v in places.items()}, "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def clock_log(file: Path) -> Iterator[None]:
    """nvidia-smi writes clocks and power twice a second meanwhile, where it is there. It only asks."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        yield
        return
    words = [tool, f"--query-gpu={_ASK}", "--format=csv,nounits", "-i", "0", "-lms", "500"]
    with file.open("ab") as out:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait(5)


def slug(name: str) -> str:
    """A GPU's name as a folder's: 'NVIDIA H200' → 'h200', 'NVIDIA H100 80GB HBM3' → 'h100'."""
    words = re.sub(r"\b(nvidia|tesla|geforce|quadro|\d+gb|hbm\w*)\b", "", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "gpu"


def about() -> dict[str, str]:
    """Versions of what takes part."""
    found = {name: version(name) for name in PACKAGES if _installed(name)}
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""  # the tree may have come without its history
    return {"python": platform.python_version(), "system": platform.platform(), **({"commit": commit} if commit else {}), **found}


def keep(calls: CallFolder, run: StepRun, versions: dict[str, str]) -> None:
    """Write what a step measured, as a file of `results/`."""
    looked = calls.runs.get("look", run)
    shown = next((r for r in looked.rows if "gpu" in r), {})
    place = calls.folder / "results" / slug(str(shown.get("gpu", "")))
    place.mkdir(parents=True, exist_ok=True)
    data = {"step": run.name, "device": shown, "versions": versions, **{k: v for k, v in asdict(run).items() if k != "name"}}
    data["command"] = " ".join(map(_shown, run.command))
    data["tail"] = [line.replace(str(ROOT), ".").replace(str(calls.folder.parent), ".") for line in run.tail]
    (place / f"{run.name}.json").write_text(json.dumps(data, indent=1) + "\n")


def _shown(word: str) -> str:
    """A word of a command without this machine's folders."""
    return {sys.executable: "python"}.get(word, word.removeprefix(f"{ROOT}{os.sep}"))


def told(run: StepRun) -> str:
    """A step in a line: how it ended, and the ratios that it found."""
    ratios = [f"{r['name']} {b}: {a['ratio']}" for r in run.rows for b, a in r.get("against", {}).items()]
    return f"{run.name}: {run.status} in {run.seconds:.0f} s {run.why[:200]} {'; '.join(ratios)}".rstrip()


def plan(todo: list[Step], calls: CallFolder) -> Iterator[str]:
    """What a dry run prints."""
    for s in todo:
        mark = calls.runs[s.name].status if s.name in calls.runs else "to do"
        yield f"{mark:>8}  {s.name:40} at most {s.limit:3.0f} s  {' '.join(map(_shown, s.command))}"
    left = calls.left(todo)
    yield f"{len(todo)} steps, {len(left)} left: at most {sum(s.limit for s in left) / 60:.0f} minutes; {calls.spent / 60:.0f} are spent"


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=8.5, help="of this call (default 8.5)")
    p.add_argument("--out", type=Path, metavar="FOLDER", required=True, help=f"gets {TAR}")
    p.add_argument("--resume", type=Path, metavar="TAR", help="of an earlier call")
    p.add_argument("--work", type=Path, default=ROOT / "build" / "gpu_call", metavar="FOLDER", help="default build/gpu_call")
    p.add_argument("--wheels", type=Path, default=ROOT / ".gpu-wheels", metavar="FOLDER")
    p.add_argument("--device", default="cuda")
    p.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    p.add_argument("--only", nargs="*", default=[], metavar="STEP", help="steps whose names begin so")
    p.add_argument("--again", nargs="*", default=[], metavar="STEP", help="steps to do again")
    p.add_argument("--smoke", action="store_true", help="small shapes and few trials, to rehearse")
    p.add_argument("--dry-run", action="store_true", help="print the plan and what is done")
    return p


def main(given: list[str] | None = None) -> int:
    """The exit code."""
    until = time.monotonic()
    args = arguments().parse_args(given)
    until += 60 * args.minutes
    todo = steps(args)
    names = {s.name for s in todo}
    if not todo or not names.issuperset(args.again):
        print(f"there is no step {', '.join(set(args.again) - names) or ' or '.join(args.only)}: --dry-run lists them", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    work, tar = args.work.resolve(), args.out.resolve() / TAR
    calls = CallFolder(work / "folder", tar)
    if args.resume is not None and not args.resume.is_file():
        print(f"{args.resume} is not there: name the tar of an earlier call, or leave --resume out", file=sys.stderr)
        return 2
    for earlier in filter(None, (args.resume, tar)):
        if calls.resume(earlier):
            print(f"going on from {earlier}: {len(calls.runs)} steps are known")
    for name in args.again:
        calls.runs.pop(name, None)
    if args.dry_run:
        print("\n".join(plan(todo, calls)))
        return 0
    site = work / "site"
    for problem in install(args.wheels, site):
        print(f"not installed: {problem}")
    env, versions = environment(work, site), about()
    os.chdir(ROOT)  # steps name tests by their place
    if "look" not in calls.runs or calls.runs["look"].status != "ok":
        first = carry_out(steps(argparse.Namespace(**{**vars(args), "only": ["look"]}))[0], 20.0, env, calls)
        calls.put(first)
        keep(calls, first, versions)
        print(told(first), flush=True)
        if first.code == NO_GPU:
            return NO_GPU

    def ended(run: StepRun) -> None:
        print(told(run), flush=True)
        keep(calls, run, versions)

    with clock_log(calls.folder / "clocks.csv"):
        finished = play(todo, calls, until, env, ended)
    calls.pack()
    counts = {s: sum(r.status == s for r in calls.runs.values()) for s in ("ok", "failed", "timeout", "cut")}
    print(
        ", ".join(f"{n} {s}" for s, n in counts.items() if n)
        + f"; {len(calls.left(todo))} left; {calls.spent:.0f} s spent; {TAR} has all of it"
    )
    return 0 if finished else MORE


if __name__ == "__main__":
    raise SystemExit(main())
