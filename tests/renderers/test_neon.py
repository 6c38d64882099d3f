"""NEON, run by qemu: what LLVM and the C compiler make for AArch64 computes what the interpreter does, bit for bit."""

from __future__ import annotations

import random
import re
from typing import Any

import aarch64
import every_op
import numpy as np
import pytest
import random_schedules
from tilewright import named_kernels
from tilewright.heuristics import starts
from tilewright.interp import run as interpret
from tilewright.ir import OptError
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.measure.inputs import generate, shape
from tilewright.opts import apply

pytestmark = pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing())
LANGS = ("llvm", "c")
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def agree(program: Program, kernel: Kernel, vars: dict[str, int], lang: str, seed: int = 0) -> None:
    """Every bit of every output, but that one NaN is as good as another."""
    given = generate(kernel, vars, seed)
    values = [vars[s.arg.name] for s in program.symbols]
    results: list[dict[str, Any]] = []
    for by in ("interpreter", lang):
        arrays = {
            b.name: np.ascontiguousarray(given[b.name]) if b.name in given else np.full(shape(b, kernel, vars), 7, b.dtype.np)
            for b in kernel.buffers
        }
        if by == "interpreter":
            interpret(program, arrays, values)
        else:
            aarch64.run(program, list(arrays.values()), values, lang)
        results.append({b.name: arrays[b.name] for b in kernel.outputs})
    for name, want in results[0].items():
        got = results[1][name]
        differ = got.view(BITS[got.itemsize]) != want.view(BITS[got.itemsize])
        if want.dtype.kind != "i":
            differ &= ~(np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64)))
        assert not differ.any(), f"{name}: {int(differ.sum())} of {differ.size} differ"


@pytest.mark.many
@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_every_operation_on_every_type(lanes: int, lang: str) -> None:
    # (the interpreter's numbers of 64 bits are exact, and wrap in vectors only)
    types = every_op.TYPES if lanes > 1 else [t for t in every_op.TYPES if t not in ("int64", "uint64")]
    got, want = every_op.bench(lanes, types), every_op.bench(lanes, types)
    got.program.name = "every_op"
    aarch64.run(got.program, got.arrays, (), lang)
    interpret(want.program, {p.name: a for p, a in zip(want.program.params, want.arrays, strict=True)}, ())
    found = every_op.differences(got, want)
    # which of two zeros is the larger is not defined: NEON takes the positive one, x86 the second
    assert [d for d in found if not re.search(r": (max|min): .*\(-?0\.0\) is not .*\(-?0\.0\), ", d)] == []


@pytest.mark.many
@pytest.mark.parametrize(("at", "name"), list(enumerate(named_kernels.NAMES)), ids=named_kernels.NAMES)
@pytest.mark.covering(each=3)
def test_start_schedules_compute_the_kernel(at: int, name: str) -> None:
    kernel = named_kernels.get(name).kernel(named_kernels.get(name).odd_shape)
    program = lower(apply(kernel, starts(kernel, aarch64.NEON, 2)[0], aarch64.NEON))
    agree(program, kernel, {}, LANGS[at % 2])


@pytest.mark.many
@pytest.mark.parametrize("name", random_schedules.NAMES[::3])
@pytest.mark.covering(each=3)
def test_random_schedules(name: str) -> None:
    rng = random.Random(f"neon/{name}")
    case = random_schedules.draw(name, rng.randrange, among=("neon",))
    try:
        program = lower(apply(case.kernel, case.opts, case.target))
    except OptError:
        pytest.skip("this schedule cannot be lowered")
    agree(program, case.kernel, dict(case.vars), "llvm", case.seed)
