"""Reductions, scans and scatters that combine integers bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from checks import check_compiled, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, cast, int16, int32, uint8, uint32
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel

TARGET = targets.named("avx2")


def checksums() -> Kernel:
    """The xor of what a table has for each byte of a row, and which bits all of them share."""
    kb = KernelBuilder("checksums")
    i, j, k = kb.axis("m", 9), kb.axis("n", 37), kb.axis("n@all", 37)
    x, table = kb.input("x", (9, 37), uint8), kb.input("table", (256,), uint32)
    odd, shared = kb.reduce("xor", "odd", (i,), j, table[x[i, j]]), kb.reduce("and", "shared", (i,), k, x[i, k])
    kb.store("y", uint32, (9,), (i,), odd[i])
    kb.store("z", int32, (9,), (i,), shared[i])
    return kb.build()


def marked() -> Kernel:
    """Which bits any number of a row has had so far, and which bits the numbers of each class have."""
    kb = KernelBuilder("marked")
    i, j = kb.axis("m", 7), kb.axis("n", 21)
    x, of = kb.input("x", (7, 21), int16), kb.input("of", (7, 21), uint8, range=(0, 4))
    seen = kb.scan("or", "seen", (i, j), j, cast(x[i, j], int32))
    kb.store("y", int32, (7, 21), (i, j), seen[i, j])
    kb.store("z", int16, (5,), (i, j), x[i, j], (of[i, j],), combine="and")
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("make", [checksums, marked], ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[[], Kernel]) -> None:
    kernel = make()
    rng = random.Random(make.__name__)
    for n in range(5):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(n)])
        check_twin(kernel, opts, TARGET, None, n)
    check_compiled(kernel, opts, TARGET, None, 2, 0)


def test_the_reference_is_numpys() -> None:
    rng = np.random.default_rng(0)
    x, table = rng.integers(0, 256, (9, 37), np.uint8), rng.integers(0, 1 << 32, 256, np.uint32)
    x |= 5
    got = evaluate(checksums(), {"x": x, "table": table})
    np.testing.assert_array_equal(got["y"], np.bitwise_xor.reduce(table[x], axis=1))
    np.testing.assert_array_equal(got["z"], np.bitwise_and.reduce(x, axis=1))
