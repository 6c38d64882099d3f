"""Start schedules and estimates of sums of which data says how far they go."""

from __future__ import annotations

import pytest
from csr_structures import sparse_product
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.ir import KernelBuilder, float32, float64, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.opts import apply, parse
from tilewright.opts.analysis.ragged import ragged_share

TARGET = targets.named("avx2")


def means(ragged: bool = True) -> Kernel:
    """Sums of picked rows, of all or of as many as data says."""
    kb = KernelBuilder("means")
    i, k, f = kb.axis("i", 512), kb.axis("k", 32), kb.axis("f", 64)
    x, at = kb.input("x", (512, 64), float32), kb.input("at", (512, 32), "int32", range=(0, 511))
    many = kb.input("many", (512,), "int32", range=(0, 32))
    element = x[cast(at[i, k], "int64"), f]
    there = where(k < cast(many[i], "int64"), element, 0.0) if ragged else element
    kb.store("y", float32, (512, 64), (i, f), kb.sum("total", (i, f), k, there)[i, f] + cast(many[i], float32))
    return kb.build()


def picked() -> Kernel:
    """A sparse matrix in rows of lengths from data, times a vector."""
    kb = KernelBuilder("picked")
    i, k = kb.axis("i", 512), kb.axis("k", 32)
    w, x, many = kb.input("w", (512, 32), float32), kb.input("x", (512,), float32), kb.input("many", (512,), "int32")
    at = kb.input("at", (512, 32), "int32", range=(0, 511))
    total = kb.sum("total", (i,), k, where(k < cast(many[i], "int64"), w[i, k] * x[cast(at[i, k], "int64")], 0.0))
    kb.store("y", float32, (512,), (i,), total[i])
    return kb.build()


def test_the_first_start_schedule_takes_one_row_at_a_time() -> None:
    first = starts(means(), TARGET)[0]
    assert [(o.op, o.on) for o in first] == [("UPCAST", "f")]
    assert any(o.op == "PARALLEL" for o in starts(means(), TARGET, 4)[0])


def test_few_elements_are_picked_at_once() -> None:
    (lanes,) = [o.amount for o in starts(picked(), TARGET)[0] if o.op == "UPCAST" and o.on == "k"]
    assert lanes == 4


def test_half_of_the_rows_counts() -> None:
    def part(opts: str, kernel: Kernel) -> float:
        s = apply(kernel, parse(opts), TARGET)
        (nest,) = [n for n in s.nests if n.kind == "reduce"]
        return ragged_share(s, nest)

    assert 0.5 <= part("Uf8", means()) < 0.55
    assert part("Uf8 Ui2", means()) == part("Uf8", means())  # each row has loops of its own
    assert part("Uf8", means(ragged=False)) == 1.0
    short, long = (estimate(apply(k, parse("Uf8"), TARGET)) for k in (means(), means(ragged=False)))
    assert short < 0.8 * long


def test_short_vectors_of_entries_where_gathers_are_slow() -> None:
    """Of rows whose length is foreseen; others end in one step, which is masked."""
    found = {}
    for regular in (True, False):
        kb = KernelBuilder("rows")
        i = kb.axis("i", 512)
        p = kb.input("p", (513,), "int32", range=(0, 4608), ascending=True, regular=regular)
        k = kb.axis("k", (p[i], p[i + 1]))
        a, at = kb.input("a", (4608,), float32), kb.input("at", (4608,), "int32", range=(0, 511))
        x = kb.input("x", (512,), float32)
        kb.store("y", float32, (512,), (i,), kb.sum("total", (i,), k, a[k] * x[at[k]])[i])
        kernel = kb.build()
        found |= {(name, regular): starts(kernel, targets.named(name))[0] for name in ("znver4", "cascadelake")}
    amounts = {of: [o.amount for o in opts] for of, opts in found.items()}
    assert amounts["znver4", True] == [4, 4] and amounts["cascadelake", True] == [8, 8]
    assert amounts["znver4", False] == amounts["cascadelake", False] == [8, 16]


@pytest.mark.parametrize(("entries", "pattern", "amounts"), [(9, "diagonals", [8]), (9, "runs of 4", [8, 4]), (40, "runs of 8", [8, 8])])
def test_columns_that_follow_each_other(entries: int, pattern: str, amounts: list[int]) -> None:
    """Rows whose columns are diagonals go side by side; else a step is a run. The estimate and the counted model know that one is a vector."""
    kernels = [sparse_product(512, 512, 512 * entries, regular=True, pattern=p) for p in (pattern, "")]
    for name in ("znver4", "cascadelake"):
        first, other = (starts(k, targets.named(name))[0] for k in kernels)
        assert [o.amount for o in first] == amounts, name
        assert name == "cascadelake" or [o.amount for o in other] == [4, 4]
    with_it, without = (estimate(apply(k, first, targets.named("znver4"))) for k in kernels)
    assert with_it < 0.9 * without


def test_half_vectors_of_rows_side_by_side_where_gathers_are_slow() -> None:
    for dtype, lanes in ((float32, 8), (float64, 4)):
        kb = KernelBuilder("rows")
        i = kb.axis("i", 512)
        p = kb.input("p", (513,), "int32", range=(0, 1536), ascending=True, regular=True)
        k = kb.axis("k", (p[i], p[i + 1]))
        a, at = kb.input("a", (1536,), dtype), kb.input("at", (1536,), "int32", range=(0, 511))
        x = kb.input("x", (512,), dtype)
        kb.store("y", dtype, (512,), (i,), kb.sum("total", (i,), k, a[k] * x[at[k]])[i])
        first = {name: starts(kb.build(), targets.named(name))[0] for name in ("znver4", "cascadelake")}
        assert [o.amount for o in first["znver4"]] == [lanes] and [o.amount for o in first["cascadelake"]] == [8]
