"""Masks without dimensions among the indices, as NumPy has them: an index of one element or of none, and of no dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp

ARRAYS = (np.array(2.0), np.arange(3.0), np.arange(6.0).reshape(2, 3), np.arange(24.0).reshape(2, 3, 4))
PARTS = (True, np.array(True), np.array(False), 0, slice(None), slice(1, 2), None, ..., np.array([1, 0]), np.array([[0], [1]]))


def given(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def read(x: Any, key: tuple[Any, ...]) -> Any:
    try:
        return np.asarray(x[key])
    except (IndexError, tw.UsageError):
        return None


@pytest.mark.parametrize("rank", range(4))
def test_reading_and_writing(rank: int) -> None:
    x = ARRAYS[rank]
    keys = [k for r in (1, 2, 3) for k in itertools.product(PARTS, repeat=r)]
    for key in (k for k in keys if any(p is True or getattr(p, "dtype", None) == np.bool_ for p in k)):
        want, got = read(x, key), read(Tensor(x), given(key))
        assert (want is None) == (got is None), key
        if want is None:
            continue
        assert want.shape == got.shape and (want == got).all(), key
        y, z = x.copy(), Tensor(x.copy())
        y[key] = 7.0
        z[given(key)] = 7.0
        assert (z.numpy() == y).all(), key


def test_values_must_fit_where_nothing_is_written() -> None:
    x = Tensor(np.zeros((2, 3), np.float32))
    with pytest.raises(tw.UsageError, match="does not"):
        x[False] = Tensor(np.zeros((4, 3), np.float32))
    assert xp.ones((2, 3))[xp.asarray(False)].shape == (0, 2, 3) and x.index_put((False, Tensor([0])), 1.0).numpy().sum() == 0


def test_a_captured_function_does_not_know_a_mask() -> None:
    f = tw.jit(lambda x: x[x.sum() > 0])
    with pytest.raises(tw.UsageError, match="being captured"):
        f(Tensor(np.ones(3, np.float32)))
