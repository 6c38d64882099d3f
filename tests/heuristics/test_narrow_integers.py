"""Start schedules for sums of whole numbers that are computed of bytes."""

from __future__ import annotations

import numpy as np
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, cast, int32
from tilewright.ir.dtypes import uint8
from tilewright.ir.kernel import Kernel
from tilewright.plan import best


def zero_points(n: int, k: int) -> Kernel:
    """A row of bytes times rows of bytes, less what stands for nought of each."""
    kb = KernelBuilder("zero_points")
    j, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (k,), uint8, range=(0, 255)), kb.input("w", (n, k), uint8, range=(0, 255))
    zx, zw = kb.input("zx", (1,), int32, range=(0, 255)), kb.input("zw", (n,), int32, range=(0, 255))
    total = kb.sum("total", (j,), l, (cast(x[l], int32) - zx[0]) * (cast(w[j, l], int32) - zw[j]))
    kb.store("y", int32, (n,), (j,), total[j])
    return kb.build()


def test_lanes_lie_along_what_is_consecutive() -> None:
    """Lanes along the results would gather bytes from as many rows."""
    kernel = zero_points(512, 512)
    for name in ("avx2", "znver3", "cascadelake"):
        target = targets.named(name)
        for found in (quick_starts(kernel, target, 1), starts(kernel, target, 1)):
            assert any(o.op == "UPCAST" and o.on == "k" for o in found[0])
    rng = np.random.default_rng(0)
    small = zero_points(21, 67)
    x, w = rng.integers(0, 256, 67, np.uint8), rng.integers(0, 256, (21, 67), np.uint8)
    zx, zw = np.array([117], np.int32), rng.integers(0, 256, 21, np.int32)
    want = ((x.astype(int) - 117) * (w.astype(int) - zw[:, None])).sum(axis=1)
    np.testing.assert_array_equal(best(small, threads=1)(x, w, zx, zw), want)
