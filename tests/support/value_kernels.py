"""Kernels of one loop, y[i] = f(x0[i], x1[i], …), and every way there is to run one: to test operators of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import hand_built
import numpy as np
import run_text
from tilewright import targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, Node
from tilewright.ir.dtypes import dtype
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import apply, parse

LANES = {"plain": [], "lanes": [["UPCAST", "i", 16]]}
"""Schedules: one element at a time, and vectors (on GPUs a thread has four elements either way)."""


def pointwise(ins: Sequence[str], n: int, results: Callable[..., Sequence[Node]]) -> Kernel:
    """The kernel that stores each of `results(x0[i], x1[i], …)` to an output of its own, y0, y1, …"""
    k = KernelBuilder("pointwise")
    i = k.axis("i", n)
    xs = [k.input(f"x{at}", (n,), dtype(name)) for at, name in enumerate(ins)]
    for at, value in enumerate(results(*(x[i] for x in xs))):
        k.store(f"y{at}", value.dtype, (n,), (i,), value)
    return k.build()


def program(kernel: Kernel, schedule: str, way: str = "llvm", expand: bool = True) -> Program:
    """The kernel lowered for what runs it."""
    gpu = targets.named("opencl-gpu")
    target = {"opencl": gpu, "cuda": run_text.CUDA, **dict.fromkeys(WITHOUT_FLOAT64, replace(gpu, features=frozenset()))}.get(
        way, targets.host()
    )
    copies = [["UPCAST", "i", 4]] if target.kind == "gpu" else LANES[schedule]
    return lower(apply(kernel, parse(copies), target), expand=expand)


WITHOUT_FLOAT64 = ("opencl32", "interpreter32")
"""Ways of a device that has float32 alone."""
RUNS: dict[str, Callable[[Program, Sequence[Any]], None]] = {
    "llvm": hand_built.run,
    "c": run_text.c,
    "opencl": run_text.opencl,
    "cuda": run_text.cuda,
    "interpreter": lambda p, arrays: interpret(p, list(arrays)),
    "opencl32": run_text.opencl,
    "interpreter32": lambda p, arrays: interpret(p, list(arrays)),
}


def run(kernel: Kernel, arrays: Sequence[Any], way: str, schedule: str = "lanes") -> dict[str, Any]:
    """The outputs of `kernel` on inputs in order, run in one of the ways of RUNS."""
    p = program(kernel, schedule, way)
    given = iter(arrays)
    held = {
        q.name: next(given) if q.role == "in" else np.zeros(q.shape, q.dtype.np) for q in sorted(p.params, key=lambda q: q.role == "out")
    }
    RUNS[way](p, [held[q.name] for q in p.params])
    return {q.name: held[q.name] for q in p.params if q.role == "out"}
