"""Arrays without elements in the middle of a graph: nothing reads what they were made from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright import grad, jit
from tilewright.tensor import Tensor


def products(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x.tanh() @ y, (y.mT.exp() @ x.mT).sum(0), (x @ x.mT / 2).softmax(-1) @ x, x.log_softmax(0)[:, 1:2] @ y[:1] + 1)


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize(("m", "n", "k"), [(2, 3, 0), (0, 3, 2), (2, 0, 3), (0, 0, 0)])
def test_products_of_what_has_no_elements(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, how: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x, y = np.ones((m, n), np.float32), np.ones((n, k), np.float32)
    given: Any = (Tensor(x), Tensor(y))
    found = (jit(products) if how == "jit" else products)(*given)
    assert [f.numpy().shape for f in found] == [(m, k), (m,), (m, n), (m, k)]
    assert np.allclose(found[0].numpy(), np.tanh(x) @ y) and np.allclose(found[1].numpy(), (np.exp(y.T) @ x.T).sum(0))
    assert (found[3].numpy() == (1 + np.full((m, k), -np.log(max(m, 1)) if n > 1 else 0.0))).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("function", ["prod", "cumprod", "sum", "cumsum", "softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_what_has_no_elements(function: str, shape: tuple[int, int], axis: int) -> None:
    found = grad(lambda x: getattr(x, function)(axis).sum())(Tensor(np.ones(shape, np.float32)))
    assert found.numpy().shape == shape
