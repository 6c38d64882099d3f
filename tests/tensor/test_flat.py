"""`x.flat`, to which is written as in NumPy, whatever the order of the tensor's elements in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[:, ::-1],
    "strided": lambda x: x[:, ::2],
    "column": lambda x: x[:, 1],
    "split": lambda x: x.reshape(3, 2, 4).transpose(2, 0, 1),
}


def _written(x: Any, view: Callable[[Any], Any]) -> list[Any]:
    y = view(x)
    held = y.flat
    y.flat[1] = 7
    y.flat[-2:] = 9
    part = held[:3] * 1
    x[0] = x[1] + 1
    held[2:4] = 3
    return [x * 1, y * 1, part, held[...] * 1]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
def test_what_is_written_to_flat_is_written_to_the_tensor(view: Callable[[Any], Any], kind: type) -> None:
    a = np.arange(24).reshape(6, 4).astype(kind)
    expected = _written(a.copy(), view)
    for found in (_written(Tensor(a.copy()), view), _written(Tensor(a.copy()) + 0, view)):
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_array_equal(f.numpy(), e)


def test_flat_is_written_to_in_a_captured_function() -> None:
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    kept = Tensor(a.copy())

    @tw.jit
    def f(x: Tensor) -> list[Any]:
        kept.T.flat[1] = 5
        return _written(x * 1, lambda x: x.T)

    for e, g in zip(_written(a.copy(), lambda x: x.T), f(Tensor(a)), strict=True):
        np.testing.assert_array_equal(g.numpy(), e)
    a.T.flat[1] = 5
    np.testing.assert_array_equal(kept.numpy(), a)


def test_flat_can_be_assigned_to() -> None:
    a, x = np.arange(12.0).reshape(4, 3), Tensor(np.arange(12.0).reshape(4, 3))
    x.T.flat = a
    a.T.flat = a.copy()
    np.testing.assert_array_equal(x.numpy(), a)
    x.T.flat += 1
    np.testing.assert_array_equal(x.numpy(), a + 1)
    x.flat = 2
    np.testing.assert_array_equal(x.numpy(), np.full((4, 3), 2.0))
    with pytest.raises(tw.UsageError, match="shape"):
        x.T.flat = [1, 2, 3]


def test_flat_shows_what_is_written_to_an_array_of_the_tensor() -> None:
    x = Tensor(np.zeros((4, 3), np.float32))
    held, shown = x.T.flat, x.numpy()
    shown[0, 1] = 4
    assert float(held[4]) == 4
    held[5] = 6
    assert float(x[1, 1]) == 6
    with pytest.raises(ValueError, match="read-only"):  # (an array of it is a copy, to which nothing may be written)
        held.numpy()[0] = 1


def test_a_gradient_goes_through_what_is_written_to_flat() -> None:
    def loss(x: Tensor) -> Any:
        y = x * 2
        y.T.flat[1] = y[2, 2] * 3
        return (y * y).sum()

    x = np.arange(12.0).reshape(4, 3)
    expected = 8 * x
    expected[1, 0], expected[2, 2] = 0, 8 * x[2, 2] * 10
    np.testing.assert_allclose(tw.grad(loss)(Tensor(x)).numpy(), expected)
    np.testing.assert_allclose(tw.vmap(tw.grad(loss))(Tensor(x[None])).numpy()[0], expected)
