"""Seeds of groups of neighbours store past the caches what will not stay there."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import quick_seeds, seeds
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply

TARGET = targets.named("avx2")
FAR = TARGET.l2  # elements of float32: as many bytes as four second-level caches have


def halves(n: int) -> Kernel:
    """Means and differences of neighbours."""
    kb = KernelBuilder("halves")
    i = kb.axis("n", n)
    x = kb.input("x", (2 * n,), float32)
    kb.store("mean", float32, (n,), (i,), 0.5 * (x[2 * i] + x[2 * i + 1]))
    kb.store("half", float32, (n,), (i,), 0.5 * (x[2 * i] - x[2 * i + 1]))
    return kb.build()


@pytest.mark.parametrize(("n", "past"), [(FAR // 2 + 64, {"mean", "half"}), (FAR // 2, set())])
def test_outputs_count_together(n: int, past: set[str]) -> None:
    kernel = halves(n)
    for found in (seeds(kernel, TARGET), quick_seeds(kernel, TARGET)):
        assert set(apply(kernel, found[0], TARGET).nt) == past
