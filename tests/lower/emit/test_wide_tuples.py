"""Scans of tuples of 64-bit integers, whose arithmetic is that of indices, and of plain numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, cast, int64, maximum, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel

AVX2, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "opencl-gpu", "sm_80"))


def linear(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


def largest(a: Any, b: Any) -> Any:
    return where(a[0] < b[0], b[0], a[0]), where(a[0] < b[0], b[1], a[1])


def steps(a: Any, b: Any) -> Any:
    return maximum(a[0] - b[1], b[0]), a[1] + b[1]


RULES = {linear: (1, 0), largest: (-(2**63), 0), steps: (-(2**62), 0)}


def kernel(rule: Any, second: str, along: int = 1, m: int = 5, n: int = 19) -> Kernel:
    """Scans of pairs of an input and another, a number, or the place."""
    kb = KernelBuilder("wide")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), int64)
    w = {"input": lambda: kb.input("w", (m, n), int64)[i, j], "number": lambda: 3, "place": lambda: cast(j, int64)}[second]()
    a, b = kb.associative_scan(("a", "b"), (i, j), (i, j)[along], (x[i, j], w), RULES[rule], rule)
    kb.store("s", int64, (m, n), (i, j), a[i, j])
    kb.store("t", int64, (m, n), (i, j), b[i, j])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("second", ["input", "number", "place"])
@pytest.mark.parametrize("rule", RULES, ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(rule: Any, second: str) -> None:
    rng = random.Random(f"{rule.__name__} {second}")
    for n in range(4):
        k = kernel(rule, second, n % 2, rng.choice((1, 5, 8)), rng.choice((1, 7, 19)))
        check_twin(k, grow(k, AVX2, [rng.randrange(1 << 20) for _ in range(n)]), AVX2, None, n)
    check_compiled(k, ())
    for target in (OPENCL, SM80):
        check_twin(k, (), target)


def test_the_reference_wraps_as_numpy_does() -> None:
    x = np.random.default_rng(0).integers(-(2**62), 2**62, (5, 19), np.int64)
    got = evaluate(kernel(linear, "number"), {"x": x})
    h, p = np.zeros(5, np.int64), np.ones(5, np.int64)
    with np.errstate(over="ignore"):
        for t in range(19):
            p, h = p * x[:, t], h * x[:, t] + 3
            np.testing.assert_array_equal(got["s"][:, t], p)
            np.testing.assert_array_equal(got["t"][:, t], h)
