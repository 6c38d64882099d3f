"""Start schedules that store large outputs past the caches."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder
from tilewright.ir.dtypes import float32
from tilewright.ir.kernel import Kernel
from tilewright.opts.options.cache import has_streams
from tilewright.targets import named


def doubled(h: int, w: int) -> Kernel:
    """A kernel that reads and writes h × w floats once."""
    kb = KernelBuilder("doubled")
    i, j = kb.axis("h", h), kb.axis("w", w)
    kb.store("y", float32, (h, w), (i, j), 2 * kb.input("x", (h, w), float32)[i, j])
    return kb.build()


def past(kernel: Kernel, level: str) -> list[bool]:
    """Of the ranked and the quick start schedules' first, whether it streams."""
    target = named(level)
    return [has_streams(make(kernel, target, 1)[0]) for make in (starts, quick_starts)]


@pytest.mark.parametrize("level", ["haswell", "cascadelake", "neoverse-n1"])
def test_large_outputs_are_stored_past_the_caches(level: str) -> None:
    assert past(doubled(4096, 4096), level) == [True, True]
    assert past(doubled(256, 256), level) == [False, False], "the next kernel finds it in a cache"


def test_products_keep_their_tiles() -> None:
    target = named("haswell")
    streams = [o for o in starts(named_kernels.make("matmul", {"m": 2048, "n": 2048, "k": 16}), target, 1) if has_streams(o)]
    assert streams == []


def test_the_same_without_comes_next() -> None:
    first, second, *_ = starts(doubled(4096, 4096), named("haswell"), 1)
    assert [o for o in first if not has_streams((o,))] == list(second)


def test_what_is_not_legal_is_not_asked_about() -> None:
    kb = KernelBuilder("turned")
    i, j = kb.axis("i", 1 << 25), kb.axis("j", 9)
    kb.store("y", float32, (9, 1 << 25), (i, j), kb.input("x", (1 << 25, 9), float32)[i, j], indices=(j, i))
    assert starts(kb.build(), named("avx2"), 1)
