"""⌊x / y⌋ and its remainder are the standard's for all float types, by NumPy's evaluation, in kernels and captured: one expression, one
answer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tilewright import Tensor, jit
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.ir.evaluation.npmath import floor_quotient


def test_infinite_operands_have_the_results_of_the_standard() -> None:
    x = [np.inf, -np.inf, np.inf, np.inf, 5.0, -5.0, 5.0, np.inf, -np.inf]
    y = [2.0, 2.0, -2.0, np.inf, np.inf, np.inf, -np.inf, 0.0, 0.0]
    wanted = np.array([np.inf, -np.inf, -np.inf, np.nan, 0.0, -0.0, -0.0, np.inf, -np.inf])
    a, b = (Tensor(np.tile(np.array(v, np.float32), 1000)) for v in (x, y))
    for found in (Tensor(np.array(x)) // Tensor(np.array(y)), a // b):
        got = found.numpy()[: len(x)]
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[4:7]), np.signbit(wanted[4:7]))


ENDS = [0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 0.25, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_every_pair_of_special_values(name: str) -> None:
    kind = dtype_of(name)
    pairs = np.array([*product(ENDS, ENDS), *np.random.default_rng(0).normal(0, 9, (50, 2))]).astype(kind.np)
    x, y = (np.ascontiguousarray(v) for v in pairs.T)
    wide = [v.astype(kind.compute.np) for v in (x, y)]
    with np.errstate(all="ignore"):
        wanted = [f(*wide).astype(kind.np).astype(np.float64) for f in (floor_quotient, np.remainder)]
    both = jit(lambda x, y: (x // y, x % y))
    long = [np.tile(v, 80) for v in (x, y)]
    for got in (
        (Tensor(x) // Tensor(y), Tensor(x) % Tensor(y)),
        both(Tensor(x), Tensor(y)),
        (Tensor(long[0]) // Tensor(long[1]), Tensor(long[0]) % Tensor(long[1])),
    ):
        for found, want in zip(got, wanted, strict=True):
            values = found.numpy().astype(np.float64)[: len(x)]
            np.testing.assert_array_equal(values, want)
            zeros = want == 0
            np.testing.assert_array_equal(np.signbit(values[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_by_a_number(name: str) -> None:
    kind = dtype_of(name)
    x = np.array([1.75, 3.0, -5.5, np.inf, 0.0], np.float64).astype(kind.np)
    by = np.float64(1.7).astype(kind.np).astype(kind.compute.np)
    with np.errstate(all="ignore"):
        wanted = [f(x.astype(kind.compute.np), by).astype(kind.np) for f in (floor_quotient, np.remainder)]
    for got in ((Tensor(x) // 1.7, Tensor(x) % 1.7), jit(lambda x: (x // 1.7, x % 1.7))(Tensor(x))):
        for found, want in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(found.numpy().astype(np.float64), want.astype(np.float64))
