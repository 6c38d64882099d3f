"""Arrays that begin on a cache line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tilewright
from tilewright import named_kernels
from tilewright.ir import KernelError
from tilewright.plan.array_arguments import Binder


@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [((300, 70), "float32", np.float32), (99991, np.int8, np.int8), ([64, 64, 9], "bfloat16", ml_dtypes.bfloat16)],
)
def test_large_arrays_begin_on_a_line(shape, dtype, kind) -> None:
    made = [tilewright.empty(shape, dtype) for _ in range(5)]
    assert all(a.ctypes.data % 64 == 0 for a in made)
    for a in made:
        assert a.dtype == kind and a.shape == np.empty(shape).shape
        assert a.flags.c_contiguous and a.flags.writeable
        a[...] = 1
    made[0][...] = 2
    assert all((a == 1).all() for a in made[1:])


def test_small_and_empty_ones() -> None:
    assert tilewright.empty(()).shape == () and tilewright.empty((3, 0)).shape == (3, 0)
    assert tilewright.empty(5).dtype == np.float32


def test_what_numpy_takes_is_taken() -> None:
    assert tilewright.empty(np.int64(5000), "f4").shape == (5000,) and tilewright.empty((3, np.int32(9000)), "double").dtype == np.float64
    with pytest.raises(ValueError, match="negative"):
        tilewright.empty((-100, -3000))


def test_unknown_types_are_refused() -> None:
    with pytest.raises(KernelError, match="float33"):
        tilewright.empty(4, "float33")


def test_outputs_that_are_not_given_begin_on_a_line() -> None:
    binder = Binder(named_kernels.make("add", {"m": 100, "n": 101}), ())
    (out,) = binder.allocate([(100, 101)])
    assert out.ctypes.data % 64 == 0 and out.shape == (100, 101) and out.dtype == np.float32
