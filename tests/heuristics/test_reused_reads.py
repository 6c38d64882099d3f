"""Start schedules of reductions whose results read the same: register tiles, wider than the columns where that is worth it."""

from __future__ import annotations

import pytest
from checks import check_compiled
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.start import StartFacts
from tilewright.heuristics.start.register_tiles import ReusedReads
from tilewright.ir import KernelBuilder, absolute, cast, float32, int32, maximum, minimum, where
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
    plans = {p.axis.arg.name: p for p in apply(kernel, starts(kernel, target)[0], target).plans.values()}
    assert plans["t"].upcast >= 2
    assert plans["t"].upcast * plans["c"].upcast >= 4 * target.lanes(float32), "50 columns are filled up to whole vectors"


def test_what_is_no_whole_vector_shares_nothing() -> None:
    target = targets.named("avx2")
    assert list(ReusedReads().guesses(StartFacts(below(4000, 64, 33), target)))
    assert not list(ReusedReads().guesses(StartFacts(below(4000, 64, 33, gathered=True), target)))


def test_padded_tiles_are_right() -> None:
    kernel, target = below(37, 11, 9), targets.host()
    for opts in list(ReusedReads().guesses(StartFacts(kernel, target)))[:3]:
        check_compiled(kernel, opts)


@pytest.mark.parametrize("name", ["avx2", "znver4"])
def test_what_is_computed_for_each_lane_is_shared_by_rows_without_ranking(name: str) -> None:
    kb = KernelBuilder("distances")
    i, j, k = kb.axis("h", 40), kb.axis("w", 203), kb.axis("k", 203)
    least = kb.min("least", (i, j), k, kb.input("g", (40, 203), int32, range=(0, 10000))[i, k] + cast((j - k) * (j - k), int32))
    kb.store("y", int32, (40, 203), (i, j), least[i, j])
    kernel, target = kb.build(), targets.named(name)
    plans = {p.axis.arg.name: p for p in apply(kernel, quick_starts(kernel, target)[0], target).plans.values()}
    assert plans["h"].upcast >= 4 and plans["w"].upcast >= target.lanes(int32)


def overlaps(m: int, n: int) -> Kernel:
    """The share that boxes have in common, for all pairs."""
    kb = KernelBuilder("overlaps")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (m, 4), float32, range=(0.0, 1.0)), kb.input("b", (n, 4), float32, range=(0.0, 1.0))
    both = maximum(minimum(a[i, 2], b[j, 2]) - maximum(a[i, 0], b[j, 0]), 0.0)
    both = both * maximum(minimum(a[i, 3], b[j, 3]) - maximum(a[i, 1], b[j, 1]), 0.0)
    areas = [(x[k, 2] - x[k, 0]) * (x[k, 3] - x[k, 1]) for x, k in ((a, i), (b, j))]
    kb.store("y", float32, (m, n), (i, j), both / (absolute(areas[0]) + absolute(areas[1]) + 1.0 - both))
    return kb.build()


def far(m: int, n: int) -> Kernel:
    """How far each number is from each other one."""
    kb = KernelBuilder("far")
    i, j = kb.axis("m", m), kb.axis("n", n)
    kb.store("y", float32, (m, n), (i, j), absolute(kb.input("a", (m,), float32)[i] - kb.input("b", (n,), float32)[j]))
    return kb.build()


@pytest.mark.parametrize("name", ["x86-64-v2", "avx2", "cascadelake"])
def test_all_pairs_load_what_is_of_one_for_several_others(name: str) -> None:
    kernel, target = overlaps(128, 512), targets.named(name)
    plans = {p.axis.arg.name: p for p in apply(kernel, starts(kernel, target)[0], target).plans.values()}
    assert plans["m"].upcast >= 2 and plans["n"].upcast >= target.lanes(float32)


def test_one_read_alone_is_no_reason_for_a_tile() -> None:
    assert not list(ReusedReads().guesses(StartFacts(far(512, 2048), targets.named("avx2"))))


def test_tiles_of_pairs_are_right() -> None:
    kernel = overlaps(37, 19)
    for opts in list(ReusedReads().guesses(StartFacts(kernel, targets.host())))[:4]:
        check_compiled(kernel, opts)
