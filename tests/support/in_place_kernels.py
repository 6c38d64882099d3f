"""Kernels that may write an output over an input, and the check that a schedule of one does so rightly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from checks import MARK, in_child
from tilewright import devices
from tilewright.interp import run as interpret
from tilewright.ir.buffer import Extent
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.evaluation import evaluate, twin
from tilewright.ir.functions import exp, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.rewriter import in_place
from tilewright.lower import lower
from tilewright.measure.checking.verify import check, expectations
from tilewright.measure.inputs import generate, shape
from tilewright.opts import Opts, apply
from tilewright.renderers import render
from tilewright.targets import Target


def step(m: Extent, n: Extent) -> Kernel:
    """A parameter less a part of its gradient, by way of a value that is read twice."""
    kb = KernelBuilder("step")
    i, j = kb.axis("m", m), kb.axis("n", n)
    p, g = kb.input("p", (m, n), float32), kb.input("g", (m, n), float32)
    v = kb.value("v", (i, j), p[i, j] * 0.5 + g[i, j])
    kb.store("y", float32, (m, n), (i, j), v[i, j] * v[i, j] + p[i, j])
    return in_place(kb.build(), {"y": "p"})


def residual(m: Extent, n: Extent) -> Kernel:
    """A product added to what is there."""
    kb = KernelBuilder("residual")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", 12)
    a, b, c = kb.input("a", (m, 12), float32), kb.input("b", (12, n), float32), kb.input("c", (m, n), float32)
    dot = kb.sum("dot", (i, j), k, a[i, k] * b[k, j])
    kb.store("y", float32, (m, n), (i, j), c[i, j] + dot[i, j])
    return in_place(kb.build(), {"y": "c"})


def expensive(m: Extent, n: Extent) -> Kernel:
    """A kept value that takes long, and what it was made from: it must not wait in the rows of the output."""
    kb = KernelBuilder("expensive")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("n@r", n)
    x, w = kb.input("x", (m, n), float32), kb.input("w", (m, n), float32)
    e = kb.value("e", (i, j), exp(w[i, j]))
    s = kb.sum("s", (i,), k, e[i, k])
    kb.store("y", float32, (m, n), (i, j), e[i, j] * s[i] + x[i, j])
    return in_place(kb.build(), {"y": "x"})


def across(m: Extent, n: Extent) -> Kernel:
    """Rows of one input and columns of another."""
    kb = KernelBuilder("across")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, w = kb.input("x", (n, m), float32), kb.input("w", (m, n), float32)
    kb.store("y", float32, (n, m), (i, j), where(w[i, j] > 0.0, x[j, i], x[j, i] + w[i, j]), (j, i))
    return in_place(kb.build(), {"y": "x"})


def pair(m: Extent, n: Extent) -> Kernel:
    """Two outputs in place of two inputs, with a third input that both read."""
    kb = KernelBuilder("pair")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("m@b", m), kb.axis("n@b", n)
    x, z, w = kb.input("x", (m, n), float32), kb.input("z", (m, n), float32), kb.input("w", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * w[i, j])
    kb.store("u", float32, (m, n), (k, l), z[k, l] + w[k, l])
    return in_place(kb.build(), {"y": "x", "u": "z"})


def rows(m: Extent, n: Extent) -> Kernel:
    """Rows that data chooses are added; the last dimension is two axes."""
    kb = KernelBuilder("rows")
    i, h, e = kb.axis("m", m), kb.axis("n", n), kb.axis("e", 4)
    width = n * 4
    x, t = kb.input("x", (m, width), float32), kb.input("t", (5, width), float32)
    at = kb.input("at", (m,), int32, range=(0, 4))
    kb.store("y", float32, (m, width), (i, h, e), x[i, h * 4 + e] + t[at[i], h * 4 + e], (i, h * 4 + e))
    return in_place(kb.build(), {"y": "x"})


KERNELS: dict[str, Callable[[Extent, Extent], Kernel]] = {f.__name__: f for f in (step, residual, expensive, across, pair, rows)}


def aliases(kernel: Kernel) -> dict[str, str]:
    return {b.name: b.alias for b in kernel.outputs if b.alias}


def check_in_place_twin(kernel: Kernel, opts: Opts, target: Target, vars: Mapping[str, int], seed: int) -> None:
    """The interpreted twin, with outputs in the very memory of their inputs, agrees with the kernel's meaning in every bit."""
    inputs = generate(kernel, vars, seed)
    for i, b in enumerate(kernel.inputs):
        if b.dtype.is_float:
            inputs[b.name] = twin.draw(inputs[b.name].shape, seed + i)
    want = evaluate(kernel, inputs, vars, mode="twin")
    program = lower(apply(kernel, opts, target), expand=False)
    arrays: dict[str, Any] = {n: a.copy() for n, a in inputs.items()}
    over = aliases(kernel)
    for b in kernel.outputs:
        arrays[b.name] = arrays[over[b.name]] if b.name in over else np.full(shape(b, kernel, vars), MARK, np.uint32)
    interpret(program, arrays, [vars[s.arg.name] for s in program.symbols], twin=True)
    for b in kernel.outputs:
        wrong = np.argwhere(arrays[b.name] != want[b.name])
        assert not len(wrong), f"{b.name} in place differs at {len(wrong)} of {arrays[b.name].size} places, first {wrong[0].tolist()}"


def check_in_place_compiled(
    kernel: Kernel, opts: Opts, target: Target, vars: Mapping[str, int], seed: int, threads: int = 2, device: str = "cpu"
) -> None:
    """The compiled schedule, run over its inputs in a child process, is within the verifier's bound; it works apart too."""
    source = render(lower(apply(kernel, opts, target)), target)
    inputs = generate(kernel, vars, seed)
    expect, over = expectations(kernel, inputs, vars), aliases(kernel)
    place = devices.get(device)
    obj = place.build(source)

    def work() -> str:
        exe = place.load(obj, source.signature, threads)
        for there in (over, {}):
            arrays = {n: a.copy() for n, a in inputs.items()}
            for b in kernel.outputs:
                arrays[b.name] = arrays[there[b.name]] if b.name in there else np.full(shape(b, kernel, vars), np.nan, b.dtype.np)
            exe.run([arrays[b.name].ctypes.data for b in kernel.buffers], [vars[s] for s in source.signature.symbols])
            for name, e in expect.items():
                verdict = check(e, arrays[name].ctypes.data) if e.value.size else None
                if verdict is not None and not verdict.ok:
                    return f"{'in place' if there else 'apart'}: {verdict.detail}"
        return ""

    said = in_child(work)
    assert not said, said
