"""Start schedules of groups of neighbours store past the caches what will not stay there."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply

FAR = 8 << 20  # bytes of outputs, of 8 for each of n


def halves(n: int) -> Kernel:
    """Means and differences of neighbours."""
    kb = KernelBuilder("halves")
    i = kb.axis("n", n)
    x = kb.input("x", (2 * n,), float32)
    kb.store("mean", float32, (n,), (i,), 0.5 * (x[2 * i] + x[2 * i + 1]))
    kb.store("half", float32, (n,), (i,), 0.5 * (x[2 * i] - x[2 * i + 1]))
    return kb.build()


@pytest.mark.parametrize(("n", "past"), [(FAR // 8 + 64, {"mean", "half"}), (FAR // 8 - 64, set())])
def test_outputs_count_together(n: int, past: set[str]) -> None:
    assert first(halves(n), "avx2") == [past, past]


@pytest.mark.parametrize(("n", "past"), [(FAR // 8 + 64, set()), (FAR // 2, {"mean", "half"})])
def test_what_the_last_cache_keeps_is_not_stored_past_it(n: int, past: set[str]) -> None:
    assert first(halves(n), "znver4") == [past, past], "32 MiB of the last cache are taken to be ours"


def first(kernel: Kernel, level: str) -> list[set[str]]:
    """The outputs that the first of the ranked and of the quick start schedules store past the caches."""
    target = targets.named(level)
    return [set(apply(kernel, make(kernel, target)[0], target).nt) for make in (starts, quick_starts)]
