"""Products of products of one array with itself: contractions that a fold computes in tiles, which are heads of others."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import grad, nn
from tilewright.tensor import Tensor


def weights(n: int) -> np.ndarray:
    return (np.arange(n * n) % 7 - 2.0).reshape(n, n) / 4


def norm_between(x: Tensor) -> Tensor:
    h = nn.rms_norm(x @ x.mT)
    return ((h @ h.mT) * Tensor(weights(x.shape[0]))).sum()


@pytest.mark.parametrize("n", [2, 7, 16])
def test_the_gradient_of_a_gram_matrix_of_a_norm_of_one(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.random.default_rng(n).standard_normal((n, n))
    found = grad(norm_between)(Tensor(x)).numpy()

    def plain(a: np.ndarray) -> float:
        p = a @ a.T
        h = p / np.sqrt((p * p).mean(-1, keepdims=True) + 1e-6)
        return float((h @ h.T * weights(n)).sum())

    for at in ((0, 0), (1, 0), (n - 1, n - 1)):
        d = np.zeros((n, n))
        d[at] = 1e-6
        assert np.isclose(found[at], (plain(x + d) - plain(x - d)) / 2e-6, rtol=1e-4, atol=1e-4)
