"""The LLVM text of small Programs, kept as files: a change of the renderer shows up as a readable difference.

To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/renderers/test_llvm_golden.py` and review what git shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hand_built import elementwise, matmul, param
from tilewright import targets
from tilewright.ir.dtypes import float32, int64
from tilewright.ir.node import const, sym
from tilewright.lower.builder import Builder
from tilewright.lower.elementary import expand
from tilewright.lower.program import Mem, Param, Program
from tilewright.renderers import render

GOLDEN = Path(__file__).parents[1] / "golden"


def masked_sum() -> Program:
    """y[0] = Σ x over a symbolic length: masked partial sums of items in the workspace, then a phase that adds them up."""
    n = sym("n", 1, 1000)
    work = Mem("work", 0, float32, align=4)
    b = Builder()
    with b.phase(const(4), (n,)) as partial:
        at = b.op("add", b.op("mul", partial.item, b.const(8)), b.const(tuple(range(8)), int64, 8))
        mask = b.op("lt", at, partial.vars[0])
        x = b.load(param(0, float32), b.op("mul", partial.item, b.const(8)), 8, mask)
        total = b.extract(x, 0)
        for lane in range(1, 8):
            total = b.op("add", total, b.extract(x, lane))
        b.store(work, partial.item, total)
    with b.phase(const(1), (n,)) as final:
        with b.loop("i", b.const(0), b.const(4), 1, [b.const(0.0, float32)]) as loop:
            loop.yields = [b.op("add", loop.carried[0], b.load(work, loop.var))]
        with b.when(b.op("lt", b.const(0), final.vars[0])):
            b.store(param(1, float32), b.const(0), loop.results[0])
    return Program("masked_sum", (Param("x", float32, (n,), "in"), Param("y", float32, (1,), "out")), (n,), [partial, final], work=64)


CASES = {
    "matmul-avx2": (lambda: matmul(12, 32, 20, 6, 2, 8), "avx2"),
    "masked_sum-cascadelake": (masked_sum, "cascadelake"),
    "exp-half-neon": (lambda: elementwise(["float16"], "bfloat16", 4, 16, _exp_half), "neon"),
}


def _exp_half(b, x):  # type: ignore[no-untyped-def]
    from tilewright.ir.dtypes import bfloat16

    return b.op("cast", expand(b, "exp", b.op("cast", x, dtype=float32)), dtype=bfloat16)


@pytest.mark.parametrize("case", CASES)
def test_text_is_as_recorded(case: str) -> None:
    make, name = CASES[case]
    text = render(make(), targets.named(name)).text
    path = GOLDEN / f"{case}.ll"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; see this file's head"
