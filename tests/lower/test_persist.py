"""GRID with persist: a grid of as many groups as run at once, each of which goes through many work items."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checks import check_floats, check_twin
from cuda_build import needs_cxx, needs_nvrtc
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import HostProgram
from tilewright.interp import run
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import float32
from tilewright.ir.node import sym
from tilewright.lower import lower
from tilewright.opts import Opt, apply, opt, parse
from tilewright.program import abi
from tilewright.program.program import For
from tilewright.renderers import render

pytestmark = pytest.mark.many

GPU = replace(targets.named("sm_90a"), cores=2)
"""A GPU of two multiprocessors, so that small kernels have work items enough."""
PERSIST = opt("GRID", "grid", persist=1)
RING = {"at": "k", "order": "row", "depth": 3}
BLOCK = [["LOCAL", "m", 8], ["LOCAL", "n", 8], ["TILE", "k", 8]]
TENSOR = [["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": "mma.m16n8k16.bf16"}], ["TILE", "k", 32]]
CASES: dict[str, tuple[str, dict[str, int], str, list[Any]]] = {
    "matmul": ("matmul", {"m": 40, "n": 36, "k": 24}, "float32", BLOCK),
    "staged": ("matmul", {"m": 40, "n": 40, "k": 24}, "float32", [*BLOCK, ["STAGE", "a", {"at": "k"}], ["STAGE", "b", {"at": "k"}]]),
    "ring": ("matmul", {"m": 40, "n": 40, "k": 48}, "float32", [*BLOCK, ["STAGE", "a", RING], ["STAGE", "b", RING]]),
    "bands": ("matmul", {"m": 32, "n": 40, "k": 24}, "float32", [*BLOCK, ["SWIZZLE", "grid", 2]]),
    "two phases": ("matmul", {"m": 40, "n": 36, "k": 24}, "float32", [["SPLIT", "k", 2], *BLOCK]),
    "rows": ("softmax", {"m": 7, "n": 48}, "float32", [["GROUP", "n", 32]]),
    "tensor cores": ("matmul", {"m": 48, "n": 24, "k": 64}, "bfloat16", TENSOR),
}


def parts(name: str) -> tuple[Any, list[Opt]]:
    kernel, shape, dtype, opts = CASES[name]
    return named_kernels.make(kernel, shape, dtype), [*parse(json.dumps(opts)), PERSIST]


@pytest.mark.parametrize("name", CASES)
def test_it_computes_the_same(name: str) -> None:
    kernel, opts = parts(name)
    check_twin(kernel, opts, GPU)
    check_floats(kernel, opts, GPU)


@pytest.mark.parametrize("name", CASES)
def test_the_grid_is_what_runs_at_once(name: str) -> None:
    kernel, opts = parts(name)
    program = lower(apply(kernel, opts, GPU))
    grids = abi.grids(program.signature)
    assert min(grids) <= 2
    loops = [s for p in program.phases for s in p.body.stmts if isinstance(s, For) and s.label == "item"]
    assert loops and all(loop.step == 2 for loop in loops)


@needs_cxx
@pytest.mark.parametrize("name", ["ring", "rows"])
def test_the_text_gives_the_interpreters_bits_in_both_orders(name: str) -> None:
    kernel, opts = parts(name)
    program = lower(apply(kernel, opts, GPU))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(p.shape).astype(p.dtype.np) for p in program.params]
    want = [a.copy() for a in arrays]
    run(program, want)
    host = HostProgram(render(program, GPU))
    for reverse in (False, True):
        got = [a.copy() for a in arrays]
        host.run(got, reverse=reverse)
        assert all((x.view(np.uint32) == y.view(np.uint32)).all() for x, y in zip(got, want, strict=True))
    host.close()


@needs_nvrtc
@pytest.mark.slow
def test_it_builds_without_spills() -> None:
    for name in ("ring", "tensor cores"):
        kernel, opts = parts(name)
        _, log = nvrtc.compile(render(lower(apply(kernel, opts, GPU)), GPU).text, "sm_90a")
        assert all(r.spill_stores == 0 for r in nvrtc.resources(log).values())


def test_a_symbolic_grid() -> None:
    """There may be fewer work items than groups, and none at all."""
    b = KernelBuilder("scaled")
    n = sym("n", 0, 1 << 20)
    x = b.input("x", (n,), float32)
    i = b.axis("i", n)
    b.store("y", float32, (n,), (i,), x[i] + x[i])
    kernel = b.build()
    program = lower(apply(kernel, [Opt("LOCAL", "i", 8), PERSIST], GPU))
    for count in (0, 1, 9, 16, 17, 100):
        y = np.zeros(count, np.float32)
        run(program, [np.arange(count, dtype=np.float32), y], [count])
        assert (y == 2 * np.arange(count)).all()


@pytest.mark.parametrize(
    ("opts", "target", "says"),
    [
        ([PERSIST], targets.named("avx2"), "groups of threads"),
        ([PERSIST], targets.named("opencl-cpu"), "PARALLEL for processors"),
        ([Opt("LOCAL", "m", 8), Opt("LOCAL", "n", 8), opt("GRID", "grid", persist=99)], GPU, "1 to 32 groups"),
        ([Opt("LOCAL", "m", 8), Opt("LOCAL", "n", 8), PERSIST, PERSIST], GPU, "persist is given already"),
        ([Opt("LOCAL", "m", 8), Opt("LOCAL", "n", 8), opt("GRID", "m", persist=1)], GPU, "grid"),
        ([Opt("LOCAL", "m", 8), Opt("LOCAL", "n", 8), PERSIST], targets.named("sm_90a"), "leave it out"),
    ],
)
def test_what_is_refused(opts: list[Opt], target: Any, says: str) -> None:
    with pytest.raises(OptError, match=says):
        apply(named_kernels.make("matmul", {"m": 32, "n": 32, "k": 16}), opts, target)
