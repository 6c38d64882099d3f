"""A product and its addition are two instructions without FMA: the product has a register meanwhile."""

from __future__ import annotations

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import estimate
from tilewright.opts import apply, opt


@pytest.mark.parametrize(("target", "fits"), [("x86-64-v2", False), ("avx2", True)])
def test_a_tile_that_leaves_no_register_is_dear(target: str, fits: bool) -> None:
    """Of 16 registers, 12 sums, three vectors and a broadcast are all."""
    t = targets.named(target)
    kernel = named_kernels.make("matmul", {"m": 240, "n": 288, "k": 256})
    lanes = t.vector_bytes // 4

    def seconds(m: int, vectors: int) -> float:
        return estimate(apply(kernel, [opt("UPCAST", "m", m), opt("UPCAST", "n", vectors * lanes), opt("PARALLEL", "m")], t), 1)

    assert (seconds(4, 3) < 1.05 * seconds(3, 3)) == fits
