"""Parts of large kernels for references: how many there are, and that they are as much as was asked for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.evaluation.sampling import FIRST, RUN, reached, sampled_slices
from tilewright.ir.kernel import Kernel

N = 1 << 17


def thirds(n: int = N) -> Kernel:
    """Points of three numbers: an outer axis with little behind each place."""
    kb = KernelBuilder("thirds")
    i, c = kb.axis("n", n), kb.axis("c", 3)
    kb.store("y", float32, (n, 3), (i, c), kb.input("x", (n, 3), float32)[i, c] * 2.0)
    return kb.build()


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3])
def test_slices_are_few_and_reach_the_share_that_was_asked_for(share: float) -> None:
    """Each costs NumPy's calls: thousands of short ones once took a minute."""
    inputs = {"x": np.zeros((N, 3), np.float32)}
    slices = sampled_slices(thirds(), inputs, {}, share, 1)
    assert slices is not None and len(slices) <= 70
    spans = [s["n"] for s in slices]
    assert spans[0] == (0, FIRST) and spans[-1][1] == N, "the first places and the last"
    assert all(lo % RUN == 0 and a[1] <= lo for a, (lo, _) in pairwise(spans)), "whole runs that do not overlap"
    seen = reached(thirds(), inputs, {}, slices)["y"].mean()
    assert share / 2 < seen < 2 * share
    assert sampled_slices(thirds(), inputs, {}, share, 2) != slices, "others with another seed"


def test_most_of_it_is_all_of_it() -> None:
    assert sampled_slices(thirds(), {"x": np.zeros((N, 3), np.float32)}, {}, 0.6, 1) is None
