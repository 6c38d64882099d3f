"""Pairs that are read from the other end: lanes over the pairs, whose vectors are turned round."""

from __future__ import annotations

import pytest
from checks import check_floats, check_twin
from tilewright import targets
from tilewright.ir import Kernel, KernelBuilder, float32, where
from tilewright.opts import Opts, apply, opt

OPTS: Opts = (opt("UPCAST", "n", 16), opt("UPCAST", "part", 2), opt("PARALLEL", "b"))
LEVELS = ["x86-64-v2", "avx2", "znver4"]


def both_ends(b: int, n: int) -> Kernel:
    """The sum of a pair and the one from the other end, and the difference of their second components; the first meets itself."""
    kb = KernelBuilder("both_ends")
    i, k = kb.axis("b", b), kb.axis("n", n)
    z, w = kb.input("z", (b, n, 2), float32), kb.input("w", (n, 2), float32)
    other = where(k.eq(0), 0, n - k)
    kb.store("y", float32, (b, n, 2), (i, k), (z[i, k, 0] + z[i, other, 0]) * w[k, 0], (i, k, 0))
    kb.store("y", float32, (b, n, 2), (i, k), (z[i, k, 1] - z[i, other, 1]) * w[k, 1], (i, k, 1))
    return kb.build()


@pytest.mark.parametrize("level", LEVELS)
def test_lanes_are_over_the_pairs(level: str) -> None:
    s = apply(both_ends(4, 96), OPTS, targets.named(level))
    lane = s.lanes(s.nests[0]).lane
    assert lane is not None and lane.axis.arg.name == "n"


@pytest.mark.parametrize("n", [16, 33, 96, 101])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.covering
def test_results_are_right(level: str, n: int) -> None:
    kernel, target = both_ends(3, n), targets.named(level)
    padded = OPTS if n % 16 == 0 else (opt("PADTO", "n", -(-n // 16) * 16), *OPTS)
    check_twin(kernel, padded, target)
    check_floats(kernel, padded, target)
