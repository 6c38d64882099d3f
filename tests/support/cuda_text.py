"""Rendered CUDA text and its checks: as C++ on the processor against the interpreter, and under NVRTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from cuda_build import ARCHITECTURES
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import HostModule, HostProgram, entries
from tilewright.interp import run as interpret
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.measure.checking.verify import unwritten
from tilewright.measure.inputs import generate, shape
from tilewright.opts import Opts, apply
from tilewright.renderers import Source, render
from tilewright.targets import Target

STARTS = {
    "matmul": "float32", "matmul_bias_gelu": "bfloat16", "softmax": "float32", "layernorm": "float16", "sum_all": "float32", "sum_cols": "float64",
    "transpose": "int8", "attention": "float32", "argmax": "float32", "cumsum": "float32", "conv2d": "float32", "gelu": "float16",
    "matmul_fp8": "float8_e4m3", "matmul_fp8_blocks": "float8_e5m2", "matmul_w8": "float16", "matmul_w4": "bfloat16", "conv2d_dx": "float16",
    "conv2d_dw": "bfloat16",
}  # fmt: skip
"""Kernels whose start schedules are run, and the type of each."""


def sources(kernel: Kernel, schedules: Sequence[Opts], target: Target) -> list[tuple[Program, Source]]:
    """Programs and their text; each under its own name, so that one translation can hold them all."""
    out = []
    for i, opts in enumerate(schedules):
        program = replace(lower(apply(kernel, opts, target)), name=f"s{i}_{kernel.name}")
        out.append((program, render(program, target)))
    return out


def together(made: Sequence[Source]) -> HostModule:
    """Several texts compiled as one."""
    texts = [f"namespace text{i} {{\n{s.text}\n}}\nusing namespace text{i};" for i, s in enumerate(made)]
    return HostModule("\n".join(texts), [n for s in made for n in entries(s)])


def run_both_ways(kernel: Kernel, program: HostProgram, inputs: Mapping[str, Any], values: Mapping[str, int]) -> dict[str, Any]:
    """The outputs, which do not depend on the order of groups and threads."""
    results = []
    for reverse in (False, True):
        outputs = {b.name: np.zeros(shape(b, kernel, values), b.dtype.np) for b in kernel.outputs}
        program.run({**inputs, **outputs}, [values[s.arg.name] for s in kernel.symbols], reverse)
        results.append(outputs)
    for name, a in results[0].items():
        assert a.tobytes() == results[1][name].tobytes(), f"{name} depends on the order of threads"
    return results[0]


def check_cuda(kernel: Kernel, opts: Opts, target: Target, vars: Mapping[str, int] | None = None, seed: int = 0) -> None:
    """The text gives the interpreter's bits, in both orders of its threads."""
    values = vars or {}
    ((program, source),) = sources(kernel, [opts], target)
    inputs = generate(kernel, values, seed)
    want = {b.name: np.zeros(shape(b, kernel, values), b.dtype.np) for b in kernel.outputs}
    interpret(program, {**inputs, **want}, [values[s.arg.name] for s in kernel.symbols])
    host = HostProgram(source)
    try:
        got = run_both_ways(kernel, host, inputs, values)
    finally:
        host.close()
    free = unwritten(kernel, inputs, values)
    for out, w in want.items():
        written = ~free[out].reshape(w.shape) if out in free else np.ones(w.shape, bool)
        assert got[out][written].tobytes() == w[written].tobytes(), f"{out} is not what the interpreter gives"


def check_nvrtc(kernel: Kernel, opts: Opts, target: Target) -> None:
    """The text builds for every architecture, and the log has the figures of every kernel."""
    ((_, source),) = sources(kernel, [opts], target)
    for arch in ARCHITECTURES:
        _, log = nvrtc.compile(source.text, arch)
        assert set(nvrtc.resources(log)) == set(entries(source))
