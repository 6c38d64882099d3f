"""Numbers as types hold them are NumPy's; conversions of constants round, and those that lose nothing vanish."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tilewright.ir import KernelBuilder, bfloat16, cast, const, float16, float32, float64
from tilewright.ir.dtypes import DType, dtype, rounded
from tilewright.ir.evaluation import evaluate

EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    65519.9,
    65520.0,
    448.0,
    464.0,
    464.1,
    57344.0,
    61439.0,
    61440.0,
    3.4e38,
    1e300,
    1e-45,
    2.0**-134,
    1.7,
]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_numbers_are_rounded_as_numpy_does(name: str) -> None:
    rng = np.random.default_rng(0)
    values = [*EDGES, *(rng.standard_normal(2000) * 10.0 ** rng.integers(-46, 40, 2000)).tolist()]
    with np.errstate(all="ignore"):
        want = np.array(values).astype(dtype(name).np).astype(np.float64)
    got = np.array([rounded(v, dtype(name)) for v in values])
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def test_conversions_of_constants_round() -> None:
    assert cast(cast(const(1.7, float32), float16), float32) is const(float(np.float16(1.7)), float32)
    assert cast(const(70000.0, float32), float16).arg == math.inf
    assert cast(const(0.1, float32), float64) is const(float(np.float32(0.1)), float64)


@pytest.mark.parametrize("narrow", [float16, bfloat16])
def test_what_loses_nothing_vanishes_and_nothing_else(narrow: DType) -> None:
    kb = KernelBuilder("k")
    i = kb.axis("i", 4)
    x, y = kb.input("x", (4,), narrow)[i], kb.input("y", (4,), float32)[i]
    assert cast(cast(x, float32), narrow) is x
    there = cast(cast(y, narrow), float32)
    assert there is not y and cast(there, narrow) is there.src[0]


def test_the_reference_rounds_where_a_kernel_converts_but_not_what_it_stores() -> None:
    kb = KernelBuilder("k")
    i = kb.axis("i", 3)
    x = kb.input("x", (3,), float32)[i]
    kb.store("y", float32, (3,), (i,), cast(cast(x, float16), float32))
    kb.store("z", float16, (3,), (i,), cast(x, float16))
    given = np.array([1.0001, 70000.0, -0.3], np.float32)
    found = evaluate(kb.build(), {"x": given})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found["y"], given.astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(found["z"], given.astype(np.float64))
