"""Element types by what people call them: names, NumPy's types, and what only looks like one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tilewright
from tilewright.ir.dtypes import _ALIASES, _ALL, DTypeName, dtype, float8_e4m3, float32, int32
from tilewright.ir.errors import KernelError
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
