"""Seeds of reductions whose results read the same: register tiles, wider than the columns where that is worth it."""

from __future__ import annotations

import pytest
from checks import check_compiled
from tilewright import targets
from tilewright.heuristics import seeds
from tilewright.heuristics.seeds.reused_reads import reused_reads
from tilewright.ir import KernelBuilder, cast, float32, int32, where
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply


def below(n: int, c: int, t: int, gathered: bool = False) -> Kernel:
    """How many of each column are below each threshold; of rows that a list names where `gathered`."""
    kb = KernelBuilder("below")
    k, j, i = kb.axis("t", t), kb.axis("c", c), kb.axis("n", n)
    x, limits = kb.input("x", (c, n) if gathered else (n, c), float32), kb.input("limits", (t,), float32)
    element = x[j, i] if gathered else x[i, j]
    total = kb.sum("total", (k, j), i, cast(where(element < limits[k], 1.0, 0.0), int32))
    kb.store("y", int32, (t, c), (k, j), total[k, j])
    return kb.build()


@pytest.mark.parametrize("name", ["avx2", "cascadelake"])
@pytest.mark.parametrize("c", [50, 64])
def test_an_element_is_loaded_once_for_several_thresholds(name: str, c: int) -> None:
    kernel, target = below(4000, c, 33), targets.named(name)
    plans = {p.axis.arg.name: p for p in apply(kernel, seeds(kernel, target)[0], target).plans.values()}
    assert plans["t"].upcast >= 2
    assert plans["t"].upcast * plans["c"].upcast >= 4 * target.lanes(float32), "50 columns are filled up to whole vectors"


def test_what_is_no_whole_vector_shares_nothing() -> None:
    target = targets.named("avx2")
    assert list(reused_reads(below(4000, 64, 33), target, 8))
    assert not list(reused_reads(below(4000, 64, 33, gathered=True), target, 8))


def test_padded_tiles_are_right() -> None:
    kernel, target = below(37, 11, 9), targets.host()
    for opts in list(reused_reads(kernel, target, 8))[:3]:
        check_compiled(kernel, opts)
