"""Element types by what people call them: names, NumPy's types, and what only looks like one."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import tilewright
from tilewright.ir import KernelBuilder, bfloat16, cast, const, float16, float32, float64
from tilewright.ir.dtypes import _ALIASES, _ALL, DType, DTypeName, dtype, float8_e4m3, int32, rounded
from tilewright.ir.errors import KernelError
from tilewright.ir.evaluation import evaluate
from tilewright.search.kernel_task import KernelTask


def test_numpy_types_are_element_types() -> None:
    assert dtype(np.float32) is dtype(np.dtype("f4")) is dtype("f32") is float32
    assert dtype(np.dtype(ml_dtypes.float8_e4m3fn)) is dtype(ml_dtypes.float8_e4m3fn) is float8_e4m3
    assert all(dtype(d.np) is d and dtype(d.np.type) is d for d in _ALL.values())


def test_the_literal_has_every_name() -> None:
    assert set(DTypeName.__args__) == {*_ALL, *_ALIASES}  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [np.dtype(">f4"), ml_dtypes.float8_e4m3, np.complex64, np.dtype("U4"), None, 3, [("a", "f4")]])
def test_what_only_looks_like_one_is_an_error(given: object) -> None:
    with pytest.raises(KernelError, match=r"of NumPy is not the|unknown dtype"):
        dtype(given)


def test_dtypes_of_numpy_wherever_one_is_taken() -> None:
    for given in (np.int32, np.dtype(np.int32), int32, "int32"):  # np.dtype("i4") is false as a bool
        assert tilewright.empty((3, 4), given).dtype == np.int32
        assert tilewright.Tensor([1, 2], dtype=given).dtype is int32
        assert tilewright.xp.zeros(3, dtype=given).dtype is int32
        kb = tilewright.KernelBuilder("k")
        assert kb.input("x", (4,), given).dtype is int32

    for given in (np.float64, np.dtype(np.float64)):
        assert KernelTask("matmul", {"m": 8, "n": 8, "k": 8}, given, "cpu", 1).dtype == "float64"


# Numbers as types hold them are NumPy's; conversions of constants round, and those that lose nothing vanish.


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
