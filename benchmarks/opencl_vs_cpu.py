"""Kernels tuned from an empty cache for `opencl` against the same kernels tuned for `cpu`, on one processor: matmul,
convolution, rows, attention.

    python benchmarks/opencl_vs_cpu.py [--device opencl[:NAME]] [--budget 30s] [--kernel NAME ...] [--rounds 6]

It says something where the OpenCL driver runs on the processor that `cpu` is (PoCL, Intel's runtime). Both winners
are then timed in turns; `ratio` is cpu's time over opencl's, the median over rounds of the quotient within a round: 1
means as fast, 0.7 is the aim. `gflops` and `gbytes_s` are of the opencl schedule's median."""

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
from tilewright.search import tune

CASES: dict[str, dict[str, int] | None] = {
    "matmul": {"m": 1024, "n": 1024, "k": 1024},
    "matmul_odd": {"m": 1000, "n": 777, "k": 513},
    "conv2d": None,
    "softmax": None,
    "layernorm": None,
    "rmsnorm": None,
    "gelu": None,
    "add": None,
    "transpose": None,
    "sum_rows": None,
    "cross_entropy": None,
    "attention": None,
}
"""None: the kernel's default shape."""


def built(m: Measurer, opts: Any) -> Any:
    """A winner, built again."""
    ((_, got),) = list(m.build([opts]))
    if isinstance(got, Measurement):
        raise SystemExit(f"a winner does not build again: {got.detail}")
    return got


def main() -> None:
    """Print one JSON line a kernel."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="opencl")
    p.add_argument("--kernel", nargs="*", choices=list(CASES), default=list(CASES))
    p.add_argument("--budget", default="30s")
    p.add_argument("--rounds", type=int, default=6)
    args = p.parse_args()
    for case in args.kernel:
        name, shape = case.removesuffix("_odd"), CASES[case]
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            for device in (args.device, "cpu"):
                found[device] = tune(name, shape=shape, dtype="float32", device=device, budget=args.budget, cache=Path(folder) / "cache.db")
        kernel = named_kernels.make(name, shape, "float32")
        times: dict[str, list[float]] = {args.device: [], "cpu": []}
        with Measurer(normalise(kernel), args.device) as a, Measurer(normalise(kernel), "cpu") as b:
            pair = {args.device: (a, built(a, found[args.device].opts)), "cpu": (b, built(b, found["cpu"].opts))}
            for r in range(args.rounds):
                for device in list(pair)[:: 1 if r % 2 else -1]:
                    m, candidate = pair[device]
                    got = m.confirm(candidate)
                    if got.t_min is None:
                        raise SystemExit(f"{case} on {device}: {got.outcome.value}: {got.detail}")
                    times[device].append(got.t_min)
        t, work = statistics.median(times[args.device]), cost(kernel)
        row = {
            "kernel": name,
            "shape": dict(found["cpu"].shape),
            "device": args.device,
            "threads": found[args.device].threads,
            "ratio": round(statistics.median(c / o for c, o in zip(times["cpu"], times[args.device], strict=True)), 3),
            "ms": round(t * 1e3, 3),
            "cpu_ms": round(statistics.median(times["cpu"]) * 1e3, 3),
            "gflops": round(work.flops / t / 1e9, 1),
            "gbytes_s": round(work.bytes / t / 1e9, 2),
            "budget": args.budget,
            "opts": [o.json for o in found[args.device].opts],
            "cpu_opts": [o.json for o in found["cpu"].opts],
            "counts": dict(found[args.device].counts),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
