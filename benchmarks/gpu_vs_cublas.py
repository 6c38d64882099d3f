"""On an NVIDIA GPU: each kernel tuned from an empty cache, beside cuBLAS, the GPU's own copy, PyTorch
(FlashAttention, cuDNN) and Triton.

    python benchmarks/gpu_vs_cublas.py [--only fp32 bf16 skinny odd rows attention conv] [--budget 120s] [--seeds-only] [--torch PYTHON]

`ratio` is above 1 where ours is faster: the median over rounds of cuBLAS' time over ours on the same buffers in turns
(no TF32); of our compulsory bytes a second over those of the copy kernel, measured right before and after; of
PyTorch's time over ours in turns, each in a process of its own (`tilewright.measure.rival`). Triton is what PyTorch's
compiler makes. Data are random. `to_95_s`: seconds from an empty cache to 95 % of the speed that the search ended
with; `measured_per_second`: valid measurements a second.

cuBLAS comes from the pip package nvidia-cublas or a toolkit, through ctypes. --torch: an interpreter that has
PyTorch, default this one. What is missing is named in the row (`missing`). --only: groups, or parts of names;
--seeds-only: the seed schedule, no tuning; --smoke: the kernels' small odd shapes, to try the benchmark itself;
--beside: only these of cublas, copy, torch, inductor. One JSON line a kernel, then one a group: the geometric mean.
Exit code 3 where there is no GPU."""

from __future__ import annotations

import argparse
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
from tilewright.cli.tuning.beside import peak_share
from tilewright.devices import get
from tilewright.devices.cuda.device import CudaDevice
from tilewright.heuristics import seeds
from tilewright.ir import DeviceError, TilewrightError
from tilewright.ir.cost import cost
from tilewright.ir.normal_form.normalise import normalise
from tilewright.kernels import get as kernel_def
from tilewright.kernels import make
from tilewright.measure.inputs import generate
from tilewright.measure.rival.versus import Rivalry, against_library, check
from tilewright.plan import compile
from tilewright.plan.remote import Copying
from tilewright.search import Result

BURST = 10
BESIDE = ("cublas", "copy", "torch", "inductor")
NEAR = 0.95


def search(device: CudaDevice, case: GpuCase, args: argparse.Namespace) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(options, what is told of the search) for a case: tuned from an empty cache, or the first seed schedule."""
    kernel = make(case.kernel, case.shape, case.dtype)
    if args.seeds_only:
        opts = seeds(normalise(kernel), device.target)[0]
        return opts, {"opts": [o.json for o in opts]}
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
        return copying(device, kernel, ours, args.rounds)
    finally:
        ours.close()


def copying(device: CudaDevice, kernel: Any, ours: Any, rounds: int) -> dict[str, Any]:
    """Our compulsory bytes a second over those of the copy kernel, which is measured before and after."""

    def copy() -> float:
        limits = device.limits(probe=True)
        assert limits is not None
        return max(limits.rates[1].copy, limits.rates[1].copy_nt)

    before = copy()
    memory = device.memory()
    assert memory is not None
    whole = Copying(ours, memory)
    arrays = {**generate(kernel, {}, 0), **{b.name: _empty(b, kernel) for b in kernel.outputs}}
    pointers = [arrays[p.name].ctypes.data for p in ours.signature.params]
    whole.run(pointers)
    medians = sorted(sorted(whole.time([pointers], (), BURST))[BURST // 2] for _ in range(rounds))
    limit, median, nbytes = max(before, copy()), medians[rounds // 2], cost(kernel, {}).bytes
    return {
        "ratio": round(nbytes / median / limit, 3),
        "gbytes_s": round(nbytes / median / 1e9, 1),
        "copy_gbytes_s": round(limit / 1e9, 1),
    }


def _empty(buffer: Any, kernel: Any) -> Any:
    from tilewright.measure.inputs import shape
    from tilewright.plan import empty

    return empty(shape(buffer, kernel, {}), buffer.dtype.np)


def row(device: CudaDevice, case: GpuCase, args: argparse.Namespace, about: Mapping[str, Any]) -> dict[str, Any]:
    """One line: the search, and whatever it can be set beside."""
    out = {
        "name": case.name,
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
                yield {"group": group, "beside": what, "cases": len(found), "mean_ratio": round(mean, 3), "goal": GOALS[group],
                       "worst": [worst, round(found[worst], 3)]}  # fmt: skip


def chosen(args: argparse.Namespace) -> list[GpuCase]:
    """The cases that the arguments ask for."""
    found = [c for c in CASES if not args.only or c.group in args.only or any(part in c.name for part in args.only)]
    if not found:
        raise TilewrightError(f"no case is called {' or '.join(args.only)}; groups are {', '.join(GROUPS)}")
    if args.smoke:
        found = [replace(c, shape={k: v for k, v in kernel_def(c.kernel).odd_shape.items() if isinstance(v, int)}) for c in found]
    return found


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
    p.add_argument("--seeds-only", action="store_true")
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
        for case in cases:
            rows.append(row(device, case, args, about))
            print(json.dumps(rows[-1]), flush=True)
        for line in summaries(rows):
            print(json.dumps(line), flush=True)
    except TilewrightError as e:
        print(f"cannot run: {e}", file=sys.stderr)
        return 3 if isinstance(e, DeviceError) else 1
    return 0 if any("against" in r for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
