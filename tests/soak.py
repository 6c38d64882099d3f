"""Random schedules for as long as you like: `python tests/soak.py --seconds 600 --seed 7 [--kernels softmax,matmul]
[--checks twin,float,compiled]`; with `--groups`, for targets that have groups of threads: interpreted, and with
`--checks cuda,nvrtc` also as CUDA text, run as C++ and built.

With `--faults`, something else: processes are killed, disks fill, files are damaged, and nothing may be lost or wrongly believed
(docs/reliability.md); `--faults --minutes 120` watches one process for growth.

Prints every failing case with as few options as still fail, and exits 1 if there was one. The same seed gives the same cases."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from checks import check_compiled, check_floats, check_twin
from cuda_text import check_cuda, check_nvrtc
from random_schedules import GROUPS, NAMES, TARGETS, Case, draw, shortest
from tilewright import targets
from tilewright.ir import OptError

CHECKS = {
    "twin": lambda c: check_twin(c.kernel, c.opts, c.target, c.vars, c.seed),
    "float": lambda c: check_floats(c.kernel, c.opts, c.target, c.vars, c.seed),
    "compiled": lambda c: check_compiled(c.kernel, c.opts, c.target, c.vars, c.threads, c.seed),
    "cuda": lambda c: check_cuda(c.kernel, c.opts, c.target, c.vars, c.seed),
    "nvrtc": lambda c: check_nvrtc(c.kernel, c.opts, c.target),
}
CUDA = ("cuda", "nvrtc")
USUAL = ("twin", "float", "compiled")


def failure(case: Case, checks: list[str]) -> str:
    """What is wrong with a case, '' if nothing."""
    for name in checks:
        runs_here = case.target.arch == targets.host().arch and case.target.features <= targets.host().features
        try:
            CHECKS[name](case if name != "compiled" or runs_here else replace(case, target=targets.host()))
        except OptError:
            continue
        except Exception as e:
            where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(e.__traceback__)[-4:]]
            return f"{name}: {type(e).__name__}: {str(e)[:600]} ({' '.join(where)})"
    return ""


def faults(args: argparse.Namespace) -> int:
    """The other soak: see tests/faults."""
    if args.minutes is not None:
        from faults.growth import main as grow

        return grow(args)
    from faults.driver import main as attack

    return attack(args)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--kernels", default=",".join(NAMES))
    p.add_argument("--checks", default=",".join(USUAL))
    p.add_argument("--options", type=int, default=10, help="at most so many picks")
    p.add_argument("--failures", type=int, default=5, help="stop after so many")
    p.add_argument("--groups", action="store_true", help="targets with groups of threads")
    f = p.add_argument_group("faults")
    f.add_argument("--faults", action="store_true", help="attack the tool and print a table")
    f.add_argument("--kinds", default="", help="only these, e.g. 'kill main,flip'")
    f.add_argument("--injections", type=int, default=100, help="of each kind")
    f.add_argument("--jobs", type=int, default=2, help="at once")
    f.add_argument(
        "--minutes", type=float, help="instead: tune in one process for so long, its helpers being killed now and then, and look for growth"
    )
    f.add_argument("--json", help="write the figures here too")
    f.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.faults:
        return faults(args)
    names, checks = args.kernels.split(","), args.checks.split(",")
    if args.groups:
        checks = [c for c in checks if c != "compiled"]
    among = TARGETS if not args.groups else [t for t in GROUPS if t.startswith("sm_")] if set(checks) & set(CUDA) else GROUPS
    end, ran, options, found, i = time.monotonic() + args.seconds, 0, 0, 0, 0
    while time.monotonic() < end and found < args.failures:
        rng = random.Random(f"{args.seed}/{i}")
        i += 1
        name = rng.choice(names)
        try:
            case = draw(name, rng.randrange, most=args.options, among=among)
        except Exception:
            print(f"drawing case {args.seed}/{i - 1} of {name} failed:\n{traceback.format_exc()}", flush=True)
            found += 1
            continue
        ran, options = ran + 1, options + len(case.opts)
        if failure(case, checks):
            found += 1
            case = shortest(case, lambda c: bool(failure(c, checks)))
            print(f"{case}\n  {failure(case, checks)}", flush=True)
    print(f"{ran} cases, {options} options, {found} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
