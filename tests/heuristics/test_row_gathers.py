"""Start schedules of sums along rows that are picked."""

from __future__ import annotations

import pytest
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import Kernel, KernelBuilder, float32, float64, int32, maximum, where
from tilewright.ir.dtypes import DType
from tilewright.ir.operators import cast
from tilewright.targets import named


def sampled(dtype: DType, pairs: int = 5000, wide: int = 64) -> Kernel:
    """Products of rows of two tables, for a list of pairs."""
    kb = KernelBuilder("sampled")
    i, k = kb.axis("pairs", pairs), kb.axis("wide", wide)
    left, right = kb.input("left", (pairs,), int32, range=(0, 799)), kb.input("right", (pairs,), int32, range=(0, 599))
    a, b = kb.input("a", (800, wide), dtype), kb.input("b", (600, wide), dtype)
    kb.store("y", dtype, (pairs,), (i,), kb.sum("s", (i,), k, a[left[i], k] * b[right[i], k])[i])
    return kb.build()


@pytest.mark.parametrize("level", ["x86-64-v2", "haswell", "cascadelake"])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_lanes_lie_along_the_rows(level: str, dtype: DType) -> None:
    target = named(level)
    for found in (starts(sampled(dtype), target, 1), quick_starts(sampled(dtype), target, 1)):
        copies = {o.on: o.arg for o in found[0] if o.op == "UPCAST"}
        assert isinstance(copies["wide"], int) and copies["wide"] % target.lanes(dtype) == 0


@pytest.mark.parametrize("level", ["haswell", "znver3", "cascadelake", "znver4"])
@pytest.mark.parametrize("wide", [32, 48])
def test_rows_that_are_summed_along_leave_registers(level: str, wide: int) -> None:
    """Several at once, of which each keeps two addresses where a loop reads on in it."""
    target, kernel = named(level), sampled(float32, 500_000, wide)
    for found in (starts(kernel, target, 1), quick_starts(kernel, target, 1)):
        copies = {str(o.on): int(o.arg) for o in found[0] if o.op == "UPCAST"}
        assert 2 <= copies["pairs"] <= 8, found[0]
    if target.lanes(float32) == 16:
        assert copies == {"wide": wide, "pairs": 8}


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
@pytest.mark.parametrize("wide", [83, 96])
def test_rows_that_are_added_up_are_whole_in_registers(level: str, wide: int) -> None:
    kb = KernelBuilder("bags")
    i, k, d = kb.axis("bags", 4208), kb.axis("few", 9), kb.axis("wide", wide)
    x, at = kb.input("x", (4208, wide), float32), kb.input("at", (4208, 9), int32, range=(-4208, 4207))
    there = where(at[i, k] >= 0, x[cast(maximum(at[i, k], 0), "int64"), d], 0.0)
    kb.store("y", float32, (4208, wide), (i, d), kb.sum("s", (i, d), k, there)[i, d])
    target = named(level)
    whole = -(-wide // target.lanes(float32)) * target.lanes(float32)
    found = starts(kb.build(), target, 1)[0]
    assert {o.arg for o in found if o.op == "UPCAST" and o.on == "wide"} == {whole}
    assert {o.arg for o in found if o.op == "PADTO"} == ({whole} if whole > wide else set())
