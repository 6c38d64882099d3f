"""What fixed numerics cost: start schedules with a fixed order of sums against those of the free order.

    python benchmarks/fixed_cost.py [--threads 1] [--case NAME]

One line a kernel: the time with fixed numerics over that with free ones (`ratio`; 1.0 costs nothing), medians of pairs of bursts in
turns on one machine; on one thread its own time counts.
TILEWRIGHT_TARGET lowers the target. The last line has geometric means, of each group of kernels and of all that the promise is about."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

from sibling_schedules import quotient
from tilewright import heuristics, named_kernels
from tilewright.devices import get
from tilewright.ir.fixed_sums import fixed
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.measure.inputs import generate
from tilewright.opts import short
from tilewright.plan import CompiledKernel, Plan, compile, key_of

PROMISED = ("matmul", "rows", "attention")
CASES: dict[str, list[tuple[str, dict[str, int]]]] = {
    "matmul": [
        ("matmul", {"m": 512, "n": 512, "k": 512}),
        ("matmul", {"m": 500, "n": 300, "k": 700}),
        ("matmul", {"m": 8, "n": 1024, "k": 1024}),
        ("matmul_nt", {"m": 512, "n": 512, "k": 512}),
        ("matmul_nt", {"m": 32, "n": 768, "k": 768}),
        ("matmul_tn", {"m": 512, "n": 512, "k": 512}),
        ("matmul_bias_gelu", {"m": 128, "n": 1024, "k": 256}),
    ],
    "rows": [
        ("sum_rows", {"m": 1024, "n": 1024}),
        ("sum_rows", {"m": 1, "n": 100000}),
        ("softmax", {"m": 512, "n": 1024}),
        ("softmax", {"m": 1000, "n": 200}),
        ("layernorm", {"m": 512, "n": 768}),
        ("rmsnorm", {"m": 512, "n": 1024}),
        ("cross_entropy", {"m": 512, "n": 1000}),
    ],
    "attention": [
        ("attention", {"b": 1, "h": 4, "s": 512, "d": 64}),
        ("attention_full", {"b": 1, "h": 4, "s": 512, "d": 64}),
        ("attention_full", {"b": 2, "h": 4, "s": 128, "d": 32}),
        ("attention_grouped", {"b": 1, "h": 8, "hk": 2, "s": 256, "d": 64}),
    ],
    "others": [
        ("matvec", {"m": 1024, "n": 1024}),
        ("matmul_nt", {"m": 1, "n": 1024, "k": 1024}),
        ("matmul_nt", {"m": 7, "n": 1024, "k": 1024}),
        ("sum_cols", {"m": 1024, "n": 1024}),
        ("sum_all", {"n": 1 << 20}),
        ("conv2d", {"n": 1, "c": 32, "h": 28, "w": 28, "oc": 32, "kh": 3, "kw": 3}),
    ],
}
ROUNDS = 15


def started(kernel: Kernel, threads: int) -> tuple[Callable[[], Any], str]:
    """A call of a kernel under its start schedule, and the schedule."""
    device, kernel = get("cpu"), normalise(kernel)
    opts = heuristics.starts(kernel, device.target, threads)[0]
    built = compile(kernel, opts, device)
    plan = Plan(opts, "start", None, key_of(kernel, device, threads))
    call = CompiledKernel(kernel, plan, built, device.load(built.obj, built.signature, threads))
    inputs = generate(kernel, {}, 0)
    arrays = [inputs[b.name] for b in kernel.inputs]
    out = call(*arrays)
    return lambda: call(*arrays, out=out), short(opts)


def main() -> None:
    """Print one JSON line a kernel, and one of means."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--case", default="")
    args = p.parse_args()
    ready = []
    for group, cases in CASES.items():
        for name, shape in cases:
            if args.case in f"{group} {name}":
                made = named_kernels.make(name, shape, "float32")
                ready.append((group, name, shape, started(fixed(made), args.threads), started(made, args.threads)))
    ratios: dict[str, list[float]] = {}
    for group, name, shape, (one, fixed_opts), (other, free_opts) in ready:
        ratio = quotient(one, other, ROUNDS, args.threads)
        ratios.setdefault(group, []).append(ratio)
        said = {"group": group, "kernel": name, "shape": shape, "ratio": round(ratio, 3)}
        print(json.dumps(said | {"fixed": fixed_opts, "free": free_opts}), flush=True)
    means = {g: round(statistics.geometric_mean(r), 3) for g, r in ratios.items()}
    promised = [r for g in PROMISED for r in ratios.get(g, ())]
    means |= {"promised": round(statistics.geometric_mean(promised), 3)} if promised else {}
    print(
        json.dumps(
            {"target": get("cpu").target.name, "features": sorted(get("cpu").target.features), "threads": args.threads, "means": means}
        )
    )


if __name__ == "__main__":
    main()
