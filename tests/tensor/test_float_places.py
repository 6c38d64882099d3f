"""Places that are computed in floating point, as pictures are resized: they are read like places that data says."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp


@pytest.mark.parametrize(("scale", "offset"), [(0.8, 0.5), (0.75, 0.0), (1.5, 0.5)])
def test_rows_and_columns_are_gathered_at_computed_places(scale: float, offset: float) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 18)).astype(np.float32)

    @tw.jit
    def resized(x: Tensor) -> Tensor:
        rows, columns = (((xp.arange(10, dtype="float32") + offset) * scale).astype("int64") for _ in range(2))
        return x[:, :, rows.reshape((10, 1)), columns]

    at = ((np.arange(10, dtype=np.float32) + np.float32(offset)) * np.float32(scale)).astype(np.int64)
    assert np.array_equal(resized(Tensor(x)).numpy(), x[:, :, at[:, None], at])


def test_an_index_outside_is_still_an_error() -> None:
    @tw.jit
    def outside(x: Tensor) -> Tensor:
        return x[(xp.arange(4, dtype="float32") * 2.5).astype("int64")]

    with pytest.raises(tw.OutOfRangeError):
        outside(Tensor(np.zeros(5, np.float32))).numpy()
