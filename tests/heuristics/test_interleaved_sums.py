"""Start schedules of sums of which a few lie side by side, of few columns, and of scans along groups of neighbours."""

from __future__ import annotations

import pytest
from checks import check_twin
from tilewright import heuristics, targets
from tilewright.heuristics.start.unrolled import reduced_rows
from tilewright.ir import KernelBuilder, float32, int16, int32, where
from tilewright.ir.functions import maximum
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply

AVX2, AVX512 = targets.named("avx2"), targets.named("znver4")


def phases(few: int, n: int, k: int, dtype: object = float32) -> Kernel:
    """A filter with several results for every place."""
    kb = KernelBuilder("phases")
    i, p, l = kb.axis("n", n), kb.axis("phase", few), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), dtype), kb.input("w", (few, k), dtype)
    made = float32 if dtype is float32 else int32
    total = kb.sum("total", (i, p), l, x[i + l].cast(made) * w[p, l].cast(made))
    kb.store("y", made, (n, few), (i, p), total[i, p])
    return normalise(kb.build())


def first(kernel: Kernel, target: targets.Target, threads: int = 1) -> list[tuple[str, str, object]]:
    return [(o.op, o.on, o.arg) for o in heuristics.starts(kernel, target, threads)[0]]


@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_lanes_lie_over_the_places(few: int, threads: int) -> None:
    kernel = phases(few, 1 << 16, 31)
    found = first(kernel, AVX2, threads)
    assert ("UPCAST", "phase", few) in found and ("PARALLEL", "n", None) in found
    s = apply(kernel, heuristics.starts(kernel, AVX2, threads)[0], AVX2)
    lane = s.lanes(s.nests[0]).lane
    assert lane is not None and lane.axis.arg.name == "n"
    small = phases(few, 100, 17)
    check_twin(small, heuristics.starts(small, AVX2, threads)[0], AVX2)


@pytest.mark.parametrize(("target", "k", "along"), [(AVX2, 32, "k"), (AVX2, 24, "n"), (AVX512, 32, "n"), (AVX512, 64, "k")])
def test_neighbours_are_joined_where_sums_are_long_enough(target: targets.Target, k: int, along: str) -> None:
    kernel = phases(2, 1 << 16, k, int16)
    s = apply(kernel, heuristics.starts(kernel, target, 1)[0], target)
    lane = s.lanes(s.nests[0]).lane
    assert lane is not None and lane.axis.arg.name == along


def test_few_phases_are_no_short_rows() -> None:
    kernel = phases(2, 10007, 16)
    assert reduced_rows(kernel) is None
    s = apply(kernel, heuristics.starts(kernel, AVX512, 1)[0], AVX512)
    lane = s.lanes(s.nests[0]).lane
    assert lane is not None and lane.axis.arg.name == "n"


def test_items_of_joined_sums_are_more_than_a_few_results() -> None:
    kernel = phases(2, 1 << 16, 64, int16)
    s = apply(kernel, heuristics.starts(kernel, AVX2, 2)[0], AVX2)
    assert all(p.trips <= (1 << 16) // 128 for p in s.grid)


def statistics(n: int = 515, c: int = 21) -> Kernel:
    """Two sums down columns, and what is made of the elements and of both."""
    kb = KernelBuilder("statistics")
    x = kb.input("x", (n, c), float32)
    j, a, b, i, k = kb.axis("c", c), kb.axis("n@a", n), kb.axis("n@b", n), kb.axis("n", n), kb.axis("c@x", c)
    one, two = kb.sum("one", (j,), a, x[a, j]), kb.sum("two", (j,), b, x[b, j] * x[b, j])
    kb.store("y", float32, (n, c), (i, k), x[i, k] * one[k] + two[k])
    return normalise(kb.build())


def test_few_columns_are_all_in_registers() -> None:
    kernel = statistics()
    found = first(kernel, AVX2)
    assert ("UPCAST", "c", 24) in found and "FUSE" in [op for op, *_ in found]
    check_twin(kernel, heuristics.starts(kernel, AVX2, 1)[0], AVX2)


def test_a_scan_of_pairs_has_no_lanes_along_itself() -> None:
    kb = KernelBuilder("pairs")
    i, t, c = kb.axis("b", 64), kb.axis("t", 600), kb.axis("c", 2)
    x = kb.input("x", (64, 600, 2), float32)
    _, h = kb.associative_scan(
        ("p", "h"), (i, t, c), t, (x[i, t, c] * 0.0 + 0.8, x[i, t, c]), (1.0, 0.0), lambda u, v: (u[0] * v[0], u[1] * v[0] + v[1])
    )
    kb.store("y", float32, (64, 600, 2), (i, t, c), h[i, t, c])
    kernel = normalise(kb.build())
    s = apply(kernel, heuristics.starts(kernel, AVX2, 1)[0], AVX2)
    lane = s.lanes(s.nests[0]).lane
    assert lane is not None and lane.axis.arg.name != "t"


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_of_picked_rows_that_may_be_missing_are_taken_whole(threads: int) -> None:
    kb = KernelBuilder("picked")
    i, k, f = kb.axis("i", 4096), kb.axis("l", 24), kb.axis("d", 128)
    x, at = kb.input("x", (4096, 128), float32), kb.input("at", (4096, 24), int32, range=(-4096, 4095))
    total = kb.sum("total", (i, f), k, where(at[i, k] >= 0, x[maximum(at[i, k], 0).cast("int64"), f], 0.0))
    kb.store("y", float32, (4096, 128), (i, f), total[i, f])
    kernel = normalise(kb.build())
    for name in ("x86-64-v3", "x86-64-v4"):
        found = first(kernel, targets.named(name), threads)
        assert ("UPCAST", "d", 128) in found
        assert threads == 1 or ("TILE", "i", 16) in found  # (a row is no work item of its own)
