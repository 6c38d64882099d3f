"""What is read under a condition stays under it when products behind a softmax are folded: rows that are masked, infinite or no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import jit, xp
from tilewright.tensor import Tensor
from tilewright.tensor.graph import numpy_evaluation as small

INF = float("inf")
where = xp.where
Pattern = Callable[[Any, Any, Any, Any, Any], Any]


def weights(s: Any) -> Any:
    return (s - s.max(-1, keepdims=True)).exp()


def numbers(p: Any) -> Any:
    return where(p != p, 0.0, p)


PATTERNS: dict[str, Pattern] = {
    "rows": lambda s, v, c, m, b: where(c, 0.0, (s + b).softmax(-1)) @ v,
    "elements": lambda s, v, c, m, b: where(m, (s + b).softmax(-1), 0.0) @ v,
    "dropout": lambda s, v, c, m, b: where(m, (s + b).softmax(-1) * 1.25, 0.0) @ v,
    "safe softmax": lambda s, v, c, m, b: where(m, where(m, s + b, -INF).softmax(-1), 0.0) @ v,
    "elements in rows": lambda s, v, c, m, b: where(c, 0.0, where(m, (s + b).softmax(-1), 0.0)) @ v,
    "rows in elements": lambda s, v, c, m, b: where(m, where(c, 0.0, (s + b).softmax(-1)), 0.0) @ v,
    "large negative scores": lambda s, v, c, m, b: where(m, s + b, -1e9).softmax(-1) @ v,
    "infinite scores": lambda s, v, c, m, b: where(m, s + b, -INF).softmax(-1) @ v,
    "around the product": lambda s, v, c, m, b: where(c, 0.0, where(m, s, -INF).softmax(-1) @ v),
    "of what is read": lambda s, v, c, m, b: (s + b).softmax(-1) @ where(v > 0, v, 0.0),
    "rows that see nothing": lambda s, v, c, m, b: (
        where(where(m, s, -INF).max(-1, keepdims=True) == -INF, 0.0, where(m, s, -INF).softmax(-1)) @ v
    ),
    "no numbers": lambda s, v, c, m, b: numbers(where(m, s + b, -INF).softmax(-1)) @ v,
    "differences": lambda s, v, c, m, b: where(m, (s + b) - (s + b).max(-1, keepdims=True), 0.0).sum(-1),
    "largest difference": lambda s, v, c, m, b: where(m, (s + b) - (s + b).max(-1, keepdims=True), -INF).max(-1),
    "squares": lambda s, v, c, m, b: where(m, ((s + b) - (s + b).mean(-1, keepdims=True)) ** 2, 0.0).sum(-1),
    "causal and dropout": lambda s, v, c, m, b: (
        where(m, where(xp.arange(s.shape[1]) <= xp.arange(s.shape[0]).reshape(-1, 1), s + b, -INF).softmax(-1), 0.0) @ v
    ),
}


def operands(keys: int) -> list[np.ndarray]:
    """q, k, v, a condition for rows, one for elements, a bias: rows of −∞, of NaN and with ∞, under conditions and not."""
    r = np.random.default_rng(1)
    q, k, v = (r.standard_normal((n, 8)).astype(np.float32) for n in (16, keys, keys))
    rows, elements = r.random((16, 1)) < 0.5, r.random((16, keys)) < 0.7
    bias = np.zeros((16, keys), np.float32)
    elements[0], elements[1], elements[2] = False, True, np.arange(keys) == keys // 2
    bias[3], bias[4, ::3], bias[5, 1], bias[6], bias[7, : keys // 2], bias[8, 2], bias[9], bias[10, 0], bias[11] = (
        -INF, -INF, np.nan, np.nan, -INF, np.nan, -INF, INF, -INF,
    )  # fmt: skip
    elements[5, 1] = elements[10, 0] = False
    elements[6] = elements[8] = elements[9] = False
    rows[[0, 6, 11]], rows[3] = True, False
    return [q, k, v, rows, elements, bias]


def kinds(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), np.where(x > 0, 1, 2), 0))


@pytest.mark.parametrize("name", PATTERNS)
def test_a_guard_stays(name: str) -> None:
    for keys in (37, 200):
        given = [Tensor(a) for a in operands(keys)]

        def f(q: Any, k: Any, v: Any, c: Any, m: Any, b: Any) -> Any:
            return PATTERNS[name](q @ k.mT, v, c, m, b)

        got = jit(f)(*given).numpy()
        (want,) = small.evaluate([f(*given).node])
        np.testing.assert_array_equal(kinds(got), kinds(want))
        finite = kinds(want) == 0
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)
