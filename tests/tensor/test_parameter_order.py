"""Kernels that are one computation but for the order of their parameters do not take each other's programs."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import grad
from tilewright.tensor import Tensor


def test_products_of_vectors_in_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of (x xᵀ) y: sums of three factors, of which now one, now another is outside of the sum."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x, y = np.array([[1.0], [2.0], [-3.0]], np.float32), np.array([[2.0, 0.0, 1.0]], np.float32)
    weights = np.array([[0.5], [-1.0], [4.0]], np.float32)
    found = grad(lambda x, y: ((x @ x.mT) @ y.mT * Tensor(weights)).sum(), (0, 1))(Tensor(x), Tensor(y))
    dx, dy = (f.numpy() for f in found)
    outer = weights @ y
    assert np.allclose(dx, (outer + outer.T) @ x) and np.allclose(dy, (x @ x.T @ weights).T)


@pytest.mark.parametrize("n", [3, 17])
def test_square_products_either_way_round(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-3, 4, (n, n)).astype(np.float32) for _ in range(2))
    x, y = Tensor(a), Tensor(b)
    for left, right, want in ((x, y, a @ b), (y, x, b @ a), (x.mT, y, a.T @ b), (y, x.mT, b @ a.T), (x, y.mT, a @ b.T)):
        assert np.array_equal((left @ right).numpy(), want)
        assert np.array_equal((left @ right + x).numpy(), want + a)
