"""Verifying 8-bit floats: what is rounded to nothing that they have, and inputs that stay inside their range."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilewright import kernels
from tilewright.ir import dtype
from tilewright.measure.checking.verify import Expect, check
from tilewright.measure.inputs import generate_special

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)


def accepts(got: Any, reference: float) -> bool:
    """Whether one element is a right result where float64 gives `reference`, with no error but the last rounding."""
    name = "float8_e4m3" if got.dtype == E4M3 else "float8_e5m2"
    value = np.array([reference])
    with np.errstate(all="ignore"):
        special = ~np.isfinite(value.astype(got.dtype).astype(np.float64))
    weight = 1.0 / np.maximum(np.abs(value) * dtype(name).eps / 2, 2.0**-20)
    expect = Expect("c", dtype(name), (1,), value, weight.astype(np.float32), special if special.any() else None)
    return check(expect, got.ctypes.data).error <= 1.0


@pytest.mark.parametrize(
    ("got", "reference", "right"),
    [
        (448.0, 460.0, True), (np.nan, 460.0, True), (np.nan, 500.0, True), (np.nan, np.inf, True), (np.nan, 400.0, False),
        (-448.0, 460.0, False), (448.0, 700.0, False), (1.0, np.nan, False),
    ],
)  # fmt: skip
def test_too_large_is_nan_where_a_type_has_no_infinity(got: float, reference: float, right: bool) -> None:
    assert accepts(np.array([got]).astype(E4M3), reference) == right


@pytest.mark.parametrize(("got", "reference", "right"), [(np.inf, 60000.0, True), (np.inf, 50000.0, False), (np.nan, 60000.0, False), (np.inf, 1e6, True), (np.nan, 1e6, False)])  # fmt: skip
def test_the_other_type_has_infinities(got: float, reference: float, right: bool) -> None:
    assert accepts(np.array([got]).astype(E5M2), reference) == right


@pytest.mark.parametrize(("name", "largest"), [("float8_e4m3", 448.0), ("float8_e5m2", 57344.0)])
def test_special_inputs_reach_the_ends_of_the_range(name: str, largest: float) -> None:
    kernel = kernels.make("matmul_mixed", {"m": 64, "n": 64, "k": 64}, name)
    x = generate_special(kernel, {}, 0, wild=False)["a"].astype(np.float64)
    assert np.isfinite(x).all() and np.abs(x).max() == largest
    tiny = np.abs(x[x != 0]).min()
    assert tiny == float(ml_dtypes.finfo(dtype(name).np).smallest_subnormal)
