"""Start schedules of kernels with many short rows, short sums, two sums with computed operands, and much arithmetic."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tilewright import KernelBuilder, targets
from tilewright.heuristics import starts
from tilewright.ir import exp, float32, int32, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.opts import apply, short

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from vs_c import cases

TARGET = targets.named("avx2")


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("expert_gates", "Un16 Re16"),  # lanes over the rows, all of a row in registers
        ("dct_quantise", "Uv8 Uw4 Rl8 Rk8"),
        ("tones", "Wre/operands:k PHre.n! Wim/operands:k PHim.n!"),  # both tables of waves before both sums
        ("gradient_noise", "Uw64"),  # scattered reads, but much arithmetic
    ],
)
def test_the_first_start_schedule(name: str, begins: str) -> None:
    kernel = cases()[name].make()
    assert short(starts(kernel, TARGET)[0]).startswith(begins)


def rows(reductions: str, e: int = 16, n: int = 4096) -> Kernel:
    """Short rows, each reduced: a sum; a sum and its moment; a maximum and where it is; an entropy's three; a softmax, which is stored."""
    kb = KernelBuilder(reductions)
    i, (a, b, c, d) = kb.axis("n", n), (kb.axis(f"e@{s}", e) for s in "abcd")
    x = kb.input("x", (n, e), float32)
    if reductions in ("sum", "moments"):
        y = kb.sum("sum", (i,), a, x[i, a])[i]
        y = y if reductions == "sum" else kb.sum("square", (i,), b, (x[i, b] - y) ** 2)[i]
        kb.store("y", float32, (n,), (i,), y)
        return normalise(kb.build())
    top = kb.max("top", (i,), a, x[i, a])
    if reductions == "place":
        at = kb.min("at", (i,), b, where(x[i, b].eq(top[i]), cast(b, int32), e))
        kb.store("y", int32, (n,), (i,), at[i])
        return normalise(kb.build())
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    if reductions == "stored":
        kb.store("y", float32, (n, e), (i, d), exp(x[i, d] - top[i]) / total[i])
        return normalise(kb.build())
    mean = kb.sum("mean", (i,), c, exp(x[i, c] - top[i]) * (x[i, c] - top[i]))
    kb.store("y", float32, (n,), (i,), total[i] - mean[i] / total[i])
    return normalise(kb.build())


@pytest.mark.parametrize(
    ("reductions", "e", "target", "over"),
    [
        ("sum", 16, "avx2", False),  # one reduction is folded in fewer steps than its rows are turned
        ("sum", 16, "znver4", False),
        ("moments", 16, "avx2", False),
        ("moments", 16, "znver4", True),
        ("place", 32, "avx2", True),
        ("place", 12, "znver4", True),
        ("entropy", 16, "avx2", True),
        ("entropy", 16, "znver4", True),
        ("stored", 16, "znver4", False),
    ],
)
def test_several_reductions_of_short_rows_have_lanes_over_the_rows(reductions: str, e: int, target: str, over: bool) -> None:
    kernel, t = rows(reductions, e), targets.named(target)
    s = apply(kernel, starts(kernel, t)[0], t)
    found = {n.name: s.lanes(n).lane for n in s.nests if n.kind == "reduce"}
    assert found and all(lane is not None and (lane.axis.arg.name == "n") == over for lane in found.values())
