"""Start schedules of transpositions: which way they go where rows crowd the sets of the caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, float32
from tilewright.opts import apply, short

TARGET = replace(targets.named("avx2"), l2=1 << 20, l3=1 << 25)


@pytest.mark.parametrize(
    ("m", "n", "first"),
    [
        (1000, 1008, "Um8 Un8 Tm32 Pm Mn<m.t"),
        (1024, 1000, "Un8 Um16 Pn"),  # rows that are written lie 4096 bytes apart: along them
        (1000, 1024, "Un8 Um16 Pm"),  # rows that are read do
        (1024, 1024, "Un8 Um16 Pn"),
        (256, 256, "Um8 Un8 Tm32 Pm Mn<m.t"),  # which the second cache holds
    ],
)
def test_rows_that_crowd_sets_are_not_gone_down(m: int, n: int, first: str) -> None:
    kernel = named_kernels.make("transpose", {"m": m, "n": n})
    for found in (starts(kernel, TARGET), quick_starts(kernel, TARGET)):
        assert short(found[0]) == first
        apply(kernel, found[0], TARGET)


def test_a_matrix_beside_its_transpose_is_cut_into_blocks() -> None:
    """(What is read as it is stored says nothing about what is not.)"""
    kb = KernelBuilder("symmetric")
    i, j = kb.axis("m", 256), kb.axis("n", 256)
    a = kb.input("a", (256, 256), float32)
    kb.store("y", float32, (256, 256), (i, j), 0.5 * (a[i, j] + a[j, i]))
    kernel = kb.build()
    for found in (starts(kernel, TARGET), quick_starts(kernel, TARGET)):
        plans = apply(kernel, found[0], TARGET).plans
        assert [p.upcast for p in plans.values()] == [8, 8]
