"""Captured functions called in strange ways: right, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor
from tilewright.ir.errors import UsageError

from tests.tensor.test_jit import own_home

__all__ = ["own_home"]

pytestmark = pytest.mark.many


def counted(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def test_a_tensor_that_is_updated_and_given_twice_is_an_error() -> None:
    @tw.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += 1
        return x + y

    t = Tensor(counted(4))
    with pytest.raises(UsageError, match=r"f updates a tensor float32\[4\] that it is also given.*test_jit_strange.py"):
        f(t, t)
    assert t.tolist() == counted(4).tolist()
    assert f(t, t + 0).tolist() == [1, 3, 5, 7] and t.tolist() == [1, 2, 3, 4]


def test_updates_of_overlapping_arrays_are_as_if_they_lay_apart() -> None:
    base = np.arange(8, dtype=np.float32)

    @tw.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += y
        return x.sum()

    x, y = Tensor(base[:6]), Tensor(base[2:])
    assert f(x, y).item() == 42 and x.tolist() == [2, 4, 6, 8, 10, 12] and base.tolist() == list(range(8))


def test_a_read_only_array_is_never_written() -> None:
    a = counted(4)
    a.flags.writeable = False

    @tw.jit
    def f(x: Tensor) -> None:
        x += 1

    t = Tensor(a)
    f(t)
    f(t)
    assert t.tolist() == [2, 3, 4, 5] and a.tolist() == [0, 1, 2, 3]


def test_an_exception_in_a_capture_leaves_everything_as_it_was() -> None:
    @tw.jit
    def f(x: Tensor, bad: bool) -> Tensor:
        x += 1
        if bad:
            raise RuntimeError("the user's own")
        return x

    t = Tensor(counted(3))
    with pytest.raises(RuntimeError, match="own"):
        f(t, True)
    assert t.tolist() == [0, 1, 2] and f(t, False).tolist() == [1, 2, 3] and t.tolist() == [1, 2, 3]
