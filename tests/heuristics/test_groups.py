"""Start schedules of kernels whose elements lie in groups: pairs, complex numbers, pixels."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, exp, float32
from tilewright.opts import opt


@pytest.mark.parametrize("level", ["haswell", "cascadelake"])
@pytest.mark.parametrize("near", [2, 3, 4])
def test_two_vectors_of_each_neighbour_come_first(level: str, near: int) -> None:
    kb = KernelBuilder("shaded")
    i, c = kb.axis("n", 30_000), kb.axis("part", near)
    x, light = kb.input("x", (30_000, near), float32), kb.input("light", (30_000,), float32, range=(0.0, 1.0))
    kb.store("y", float32, (30_000, near), (i, c), x[i, c] * exp(-light[i]))
    target = targets.named(level)
    first = starts(kb.build(), target, 1)[0]
    assert set(first) >= {opt("UPCAST", "part", near), opt("UPCAST", "n", 2 * target.lanes(float32))}
