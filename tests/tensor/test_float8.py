"""Tensors of 8-bit floats: a storage type, as bfloat16 is."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from tilewright import xp
from tilewright.ir import UsageError, bfloat16, float8_e4m3, float8_e5m2, float16, float32
from tilewright.tensor import Tensor
from tilewright.tensor.graph.promotion import promote

TYPES = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_values_and_arithmetic(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(TYPES[name]) for shape in ((5, 24), (24, 7)))
    x, y = Tensor(a), Tensor(b)
    assert x.dtype.name == name and x.numpy().dtype == a.dtype and np.shares_memory(x.numpy(), a)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose((x.astype("float32") @ y.astype("float32")).numpy(), wide, rtol=1e-5, atol=1e-5)
    assert ((x @ y).numpy() == wide.astype(TYPES[name])).mean() > 0.9  # a sum in another order may round to a neighbour
    np.testing.assert_array_equal((x * 2.0).numpy(), (a.astype(np.float32) * 2).astype(TYPES[name]))
    np.testing.assert_array_equal(x[1:3, ::2].numpy(), a[1:3, ::2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).numpy(), a)


@pytest.mark.slow
def test_casts() -> None:
    x = Tensor([1.0, 2.1, 500.0, -3e5])
    np.testing.assert_array_equal(x.astype("fp8").numpy().astype(np.float32), [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(x.astype("float8_e5m2").numpy().astype(np.float32), [1, 2, 512, -np.inf])


def test_types_of_results() -> None:
    assert promote(float8_e4m3, float8_e5m2) is float32  # neither holds the other
    assert promote(float8_e4m3, bfloat16) is bfloat16 and promote(float16, float8_e5m2) is float16
    assert xp.isdtype(float8_e4m3, "real floating") and xp.finfo(float8_e4m3).max == 448.0 and xp.finfo("float8_e5m2").max == 57344.0


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="which is another type than float8_e4m3"):
        Tensor(np.zeros(3, ml_dtypes.float8_e4m3))  # the one with infinities
    with pytest.raises(UsageError, match="DLPack of a float8_e4m3 tensor"):
        Tensor(np.zeros(3, ml_dtypes.float8_e4m3fn)).__dlpack__()
