"""Kernels tuned from an empty cache for `opencl` against the same kernels tuned for `cpu`, on one processor: 23 kernels and types.

    python benchmarks/opencl_vs_cpu.py [--device opencl[:NAME]] [--budget 30s] [--kernel NAME ...] [--rounds 6] [--searches]

It says something where the OpenCL driver runs on the processor that `cpu` is (PoCL, Intel's runtime). Both winners
are then timed in turns (with `--budget 0` the start schedules are, untuned); `ratio` is cpu's time over opencl's, the median over rounds of the quotient within a round: 1
means as fast, 0.7 is the aim. `gflops` and `gbytes_s` are of the opencl schedule's median.

`--searches` times nothing afterwards: it says of each search from an empty cache how many candidates were measured, after how many seconds
the first one (the start) was, and whether the best is better than the start beyond noise (`significant`), and by how much (`gain`)."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tilewright import named_kernels
from tilewright.ir.cost import cost
from tilewright.ir.normal_form import normalise
from tilewright.measure import Measurement, Measurer
from tilewright.plan import best
from tilewright.search import tune

CASES: dict[str, tuple[str, str, dict[str, int] | None]] = {
    "matmul": ("matmul", "float32", {"m": 1024, "n": 1024, "k": 1024}),
    "matmul_odd": ("matmul", "float32", {"m": 1000, "n": 777, "k": 513}),
    "matmul float64": ("matmul", "float64", {"m": 512, "n": 512, "k": 512}),
    "matmul bfloat16": ("matmul", "bfloat16", {"m": 512, "n": 512, "k": 512}),
    "matmul float16": ("matmul", "float16", {"m": 512, "n": 512, "k": 512}),
    "matmul_int8": ("matmul_int8", "uint8", {"m": 512, "n": 512, "k": 512}),
    "matmul_w4": ("matmul_w4", "bfloat16", {"m": 512, "n": 512, "k": 512}),
    "matmul_fp8": ("matmul_fp8", "float8_e4m3", {"m": 512, "n": 512, "k": 512}),
    "softmax": ("softmax", "float32", None),
    "softmax float16": ("softmax", "float16", None),
    "layernorm": ("layernorm", "float32", None),
    "attention": ("attention", "float32", None),
    "attention_dkv": ("attention_dkv", "float32", None),
    "conv2d": ("conv2d", "float32", None),
    "conv2d_dw": ("conv2d_dw", "float32", None),
    "max_pool2d": ("max_pool2d", "float32", None),
    "cumsum": ("cumsum", "float32", None),
    "argmax": ("argmax", "float32", None),
    "transpose": ("transpose", "float32", None),
    "embedding": ("embedding", "float32", None),
    "embedding_grad": ("embedding_grad", "float32", None),
    "sum_all": ("sum_all", "float32", None),
    "cross_entropy": ("cross_entropy", "float32", None),
}
"""Kernel, element type, and shape; None: the kernel's default shape."""


def chosen(name: str, shape: dict[str, int] | None, dtype: str, device: str, budget: str) -> tuple[Any, dict[str, Any]]:
    """A schedule, and what a search counted: the start schedule where the budget is 0."""
    with tempfile.TemporaryDirectory() as folder:
        if budget == "0":
            return best(name, shape, dtype, device=device, cache=Path(folder) / "cache.db").opts, {}
        found = tune(name, shape=shape, dtype=dtype, device=device, budget=budget, cache=Path(folder) / "cache.db")
        return found.opts, dict(found.counts)


def built(m: Measurer, opts: Any) -> Any:
    """A winner, built again."""
    ((_, got),) = list(m.build([opts]))
    if isinstance(got, Measurement):
        raise SystemExit(f"a winner does not build again: {got.detail}")
    return got


def searched(case: str, device: str, budget: str) -> dict[str, Any]:
    """What a search of that length gave."""
    name, dtype, shape = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        found = tune(name, shape=shape, dtype=dtype, device=device, budget=budget, cache=Path(folder) / "cache.db")
    return {
        "kernel": name,
        "dtype": dtype,
        "shape": shape or {},
        "device": device,
        "budget": budget,
        "seconds": round(found.seconds, 2),
        "first_after_s": round(found.history[0]["seconds"], 2) if found.history else None,
        "counts": dict(found.counts),
        "start_ms": found.start_s and round(found.start_s * 1e3, 3),
        "ms": found.t_min and round(found.t_min * 1e3, 3),
        "gain": found.gain and round(found.gain, 3),
        "significant": found.significant,
        "message": found.message,
    }


def main() -> None:
    """Print one JSON line a kernel."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="opencl")
    p.add_argument("--kernel", nargs="*", choices=list(CASES), default=list(CASES))
    p.add_argument("--budget", default="30s")
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--searches", action="store_true")
    args = p.parse_args()
    for case in args.kernel:
        if args.searches:
            print(json.dumps(searched(case, args.device, args.budget)), flush=True)
            continue
        name, dtype, shape = CASES[case]
        found = {device: chosen(name, shape, dtype, device, args.budget) for device in (args.device, "cpu")}
        kernel = named_kernels.make(name, shape, dtype)
        times: dict[str, list[float]] = {args.device: [], "cpu": []}
        with Measurer(normalise(kernel), args.device) as a, Measurer(normalise(kernel), "cpu") as b:
            pair = {args.device: (a, built(a, found[args.device][0])), "cpu": (b, built(b, found["cpu"][0]))}
            for r in range(args.rounds):
                for device in list(pair)[:: 1 if r % 2 else -1]:
                    m, candidate = pair[device]
                    (got,) = m.measure([candidate])
                    if got.t_min is None:
                        raise SystemExit(f"{case} on {device}: {got.outcome.value}: {got.detail}")
                    times[device].append(got.t_min)
        t, work = statistics.median(times[args.device]), cost(kernel)
        row = {
            "kernel": name,
            "dtype": dtype,
            "shape": shape or {},
            "device": args.device,
            "ratio": round(statistics.median(c / o for c, o in zip(times["cpu"], times[args.device], strict=True)), 3),
            "ms": round(t * 1e3, 3),
            "cpu_ms": round(statistics.median(times["cpu"]) * 1e3, 3),
            "gflops": round(work.flops / t / 1e9, 1),
            "gbytes_s": round(work.bytes / t / 1e9, 2),
            "budget": args.budget,
            "opts": [o.json for o in found[args.device][0]],
            "cpu_opts": [o.json for o in found["cpu"][0]],
            "counts": found[args.device][1],
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
