"""On an NVIDIA GPU: each kernel tuned from an empty cache, beside cuBLAS, the GPU's own copy, PyTorch
(FlashAttention, cuDNN) and Triton.

    python benchmarks/gpu_vs_cublas.py [--only fp32 bf16 skinny odd rows attention conv] [--budget 120s] [--start] [--torch PYTHON]

`ratio` is above 1 where ours is faster: the median over rounds of cuBLAS' time over ours on the same buffers in turns
(no TF32); of our compulsory bytes a second over those of the copy kernel, measured right before and after; of
PyTorch's time over ours in turns, each in a process of its own (`tilewright.measure.rival`). Triton is what PyTorch's
compiler makes. Data are random. `to_95_s`: seconds from an empty cache to 95 % of the speed that the search ended
with; `measured_per_second`: valid measurements a second.

cuBLAS comes from the pip package nvidia-cublas or a toolkit, through ctypes. --torch: an interpreter that has
PyTorch, default this one. What is missing is named in the row (`missing`). --only: groups, or parts of names;
--start: no tuning: the first start schedule that is valid, as a worker verifies it (`tried` says how those before it ended);
--row wgmma mma: with --start, a line for each kind of matrix instruction; --smoke: the kernels' small odd shapes, to try the benchmark itself;
--beside: only these of cublas, copy, torch, inductor. One JSON line a kernel, then one a group: the geometric mean.
A case is printed twice: with "unfinished" before it is set beside anything. Exit code 3 where there is no GPU."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tilewright
from parts import gpu_cublas
from parts.gpu_cases import CASES, GOALS, GROUPS, GpuCase
from tilewright.cache.keys import allowed
from tilewright.cli.tuning.run import peak_share
from tilewright.devices import get
from tilewright.devices.cuda.device import CudaDevice, copy_rate
from tilewright.heuristics import starts
from tilewright.ir import DeviceError, TilewrightError
from tilewright.ir.cost import cost
from tilewright.ir.normal_form import normalise
from tilewright.measure import Measurement, Measurer
from tilewright.measure.checking.verify import reference_kernel
from tilewright.measure.inputs import generate
from tilewright.measure.rival.versus import Rivalry, against_library, check
from tilewright.named_kernels import get as kernel_def
from tilewright.named_kernels import make
from tilewright.opts import short
from tilewright.plan import compile
from tilewright.plan.compiled_kernel import Copying
from tilewright.search import Result

BURST = 10
BESIDE = ("cublas", "copy", "torch", "inductor")
NEAR = 0.95
STARTS, DEADLINE_S = 13, 8.0
"""Start schedules that are tried, and seconds that a call of one may take."""


def search(device: CudaDevice, case: GpuCase, args: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(options, what is told of the search) for a case: tuned from an empty cache, or the first valid start schedule."""
    if args.start:
        return start(device, case, args)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.db"
        result = tilewright.tune(
            case.kernel, shape=case.shape, dtype=case.dtype, device=device, budget=args.budget, trials=args.trials, cache=cache,
            allow=case.allow,
        )  # fmt: skip
    if result.t_min is None:
        raise DeviceError(f"{case.name}: {result.message}")
    share = peak_share(result, args.device, bool(case.allow))
    told = {
        "tuning_seconds": round(result.seconds, 1),
        "to_95_s": near(result),
        "measured_per_second": round(result.measured_per_second, 2),
        "counts": dict(result.counts),
        "us": round(1e6 * result.t_min, 2),
        "gflops": result.gflops and round(result.gflops, 1),
        "peak": {"unit": share.unit, "percent": round(share.percent, 1)} if share else None,
        "opts": [o.json for o in result.opts],
    }
    return result.opts, told


def start(device: CudaDevice, case: GpuCase, args: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The first start schedule that builds, is right on its whole output and was timed, all in processes of their own."""
    kernel, effects = normalise(make(case.kernel, case.shape, case.dtype)), allowed(case.allow)
    found = [o for o in starts(kernel, device.target, allowed=effects) if not args.instruction or uses(o, args.instruction)][
        : 3 if args.smoke else STARTS
    ]
    if not found:
        raise DeviceError(f"{case.name}: no start schedule uses {args.instruction}")
    tried: list[str] = []
    reference = reference_kernel(kernel, device.target, "DOWNCONVERT" in effects)
    with Measurer(kernel, args.device, deadline_s=DEADLINE_S, reference=reference) as m:
        made = m.build(found)
        built = dict(made.finished(0.0))
        for i, opts in enumerate(found):
            while i not in built:
                built |= dict(made.finished(5.0))
            one = built[i]
            got = one if isinstance(one, Measurement) else m.measure([one])[0]
            if got.ok and got.t_min is not None:
                told = {"us": round(1e6 * got.t_min, 2), "error": got.error, "tried": tried, "clocks": dict(got.clocks)}
                return opts, {"opts": [o.json for o in opts], **told}
            tried.append(f"{short(opts)}: {got.outcome.value} {got.detail}"[:300])
    raise DeviceError(f"{case.name}: none of {len(found)} start schedules is valid; {tried}")


def uses(opts: tuple[Any, ...], instruction: str) -> bool:
    """Whether a schedule's products are made by such matrix instructions ('wgmma', 'mma')."""
    return any(o.op == "TC" and str(dict(o.arg)["row"]).startswith(instruction + ".") for o in opts)


def near(result: Result) -> float | None:
    """Seconds of the search until it had 95 % of the speed that it ended with."""
    best = min((h["t_min"] for h in result.history), default=None)
    return next((round(h["seconds"], 1) for h in result.history if best and best / h["t_min"] >= NEAR), None)


def beside(device: CudaDevice, case: GpuCase, what: str, opts: tuple[Any, ...], args: argparse.Namespace) -> dict[str, Any]:
    """The case set beside one thing; DeviceError and others where that is missing."""
    if what in ("torch", "inductor"):
        check(case.kernel, case.dtype, device, args.torch)
        how = Rivalry(args.torch, args.rounds, args.device, compiled=what == "inductor")
        found = against_library(case.kernel, case.shape, case.dtype, opts, device, 1, how)
        if found.why:
            raise DeviceError(found.why)
        return {k: v for k, v in found.to_json().items() if k != "why"}
    kernel = make(case.kernel, case.shape, case.dtype)
    built = compile(kernel, opts, device)
    ours = device.load(built.obj, built.signature, 1)
    try:
        if what == "cublas":
            arrays = list(generate(kernel, {}, 0).values())
            return gpu_cublas.beside(device, ours, arrays, case.dtype, args.rounds)
        return copying(device, kernel, ours, args.rounds, 4 << 20 if args.smoke else None)
    finally:
        ours.close()


def copying(device: CudaDevice, kernel: Any, ours: Any, rounds: int, array_bytes: int | None = None) -> dict[str, Any]:
    """Our compulsory bytes a second over those of the copy kernel, which is measured before and after, on `array_bytes` each."""
    before = copy_rate(device, array_bytes=array_bytes)
    memory = device.memory()
    assert memory is not None
    whole = Copying(ours, memory)
    arrays = {**generate(kernel, {}, 0), **{b.name: _empty(b, kernel) for b in kernel.outputs}}
    pointers = [arrays[p.name].ctypes.data for p in ours.signature.params]
    whole.run(pointers)
    medians = sorted(sorted(whole.time([pointers], (), BURST))[BURST // 2] for _ in range(rounds))
    limit, median, nbytes = max(before, copy_rate(device, array_bytes=array_bytes)), medians[rounds // 2], cost(kernel, {}).bytes
    return {
        "ratio": float(f"{nbytes / median / limit:.4g}"),
        "gbytes_s": float(f"{nbytes / median / 1e9:.4g}"),
        "copy_gbytes_s": float(f"{limit / 1e9:.4g}"),
    }


def _empty(buffer: Any, kernel: Any) -> Any:
    from tilewright.measure.inputs import shape
    from tilewright.plan import empty

    return empty(shape(buffer, kernel, {}), buffer.dtype.np)


def row(device: CudaDevice, case: GpuCase, args: argparse.Namespace, about: Mapping[str, Any]) -> dict[str, Any]:
    """One line: the search, and whatever it can be set beside."""
    out: dict[str, Any] = {
        "name": case.name + (f"-{args.instruction}" if args.instruction else ""),
        "group": case.group,
        "kernel": case.kernel,
        "shape": dict(case.shape),
        "dtype": case.dtype,
        **about,
    }
    try:
        opts, told = search(device, case, args)
    except TilewrightError as e:
        return {**out, "error": str(e)}
    print(json.dumps({**out, **told, "unfinished": True}), flush=True)  # a rival that hangs does not take it along
    against, missing = {}, {}
    for what in (b for b in case.beside if b in args.beside):
        try:
            against[what] = beside(device, case, what, opts, args)
        except TilewrightError as e:
            missing[what] = str(e)
    return {**out, **told, "against": against, **({"missing": missing} if missing else {})}


def summaries(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One line a group and rival: the geometric mean of the ratios, and the worst."""
    for group in dict.fromkeys(r["group"] for r in rows):
        for what in BESIDE:
            found = {r["name"]: r["against"][what]["ratio"] for r in rows if r["group"] == group and what in r.get("against", {})}
            if found:
                mean = math.exp(sum(map(math.log, found.values())) / len(found))
                worst = min(found, key=lambda n: found[n])
                yield {"group": group, "beside": what, "cases": len(found), "mean_ratio": float(f"{mean:.4g}"), "goal": GOALS[group],
                       "worst": [worst, float(f"{found[worst]:.4g}")]}  # fmt: skip


def chosen(args: argparse.Namespace) -> list[GpuCase]:
    """The cases that the arguments ask for."""
    found = [c for c in CASES if not args.only or c.group in args.only or any(part in c.name for part in args.only)]
    if not found:
        raise TilewrightError(f"no case is called {' or '.join(args.only)}; groups are {', '.join(GROUPS)}")
    if args.smoke:
        found = [replace(c, shape=_small(c)) for c in found]
    return found


def _small(case: GpuCase) -> dict[str, int]:
    """The kernel's small odd shape; for products of 16 bits one that wgmma takes."""
    if case.kernel == "matmul" and case.dtype == "bfloat16":
        return {"m": 64, "n": 128, "k": 128}
    return {k: v for k, v in kernel_def(case.kernel).odd_shape.items() if isinstance(v, int)}


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--budget", default="120s", help="of each search")
    p.add_argument("--trials", type=int)
    p.add_argument("--device", default="cuda", help="cuda, cuda:N, or file.py:factory of a device like it")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    p.add_argument("--beside", nargs="*", choices=BESIDE, default=list(BESIDE))
    p.add_argument("--start", action="store_true")
    p.add_argument("--row", nargs="*", choices=("wgmma", "mma"), default=[], help="with --start: a line for each of these")
    p.add_argument("--smoke", action="store_true")
    return p


def main() -> int:
    """Print JSON lines; the exit code."""
    args = arguments().parse_args()
    try:
        cases = chosen(args)
        device = get(args.device)
        if not isinstance(device, CudaDevice):
            raise DeviceError(f"this benchmark runs on NVIDIA GPUs, not on {device.name}")
        device.check()
        shown = device.fingerprint()
        about = {"device": args.device, "gpu": shown["cpu"], "driver": shown["driver"], "by": shown["by"]}
        rows = []
        for case, instruction in itertools.product(cases, args.row or [""]):
            args.instruction = instruction
            rows.append(row(device, case, args, about))
            print(json.dumps(rows[-1]), flush=True)
        for line in summaries(rows):
            print(json.dumps(line), flush=True)
    except TilewrightError as e:
        print(f"cannot run: {e}", file=sys.stderr)
        return 3 if isinstance(e, DeviceError) else 1
    return 0 if any("opts" in r for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
