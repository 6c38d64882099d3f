"""A value that is compared with an extreme of itself is the extreme in at least one place, and the extreme has its gradient, whatever
computes the value and in which kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from thorough import amount
from tilewright import jit, nn, xp
from tilewright.tensor import Tensor, grad
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops.reduction import cumulative_max
from tilewright.tensor.partition.kernel_groups import partition
from tilewright.tensor.partition.store_rules import Rule
from tilewright.tensor.running import numpy_evaluation as small

VALUES: dict[str, Callable[[Any], Any]] = {
    "log1p": lambda x: abs(x).log1p(),
    "sin": lambda x: xp.sin(x * 3),
    "cos": lambda x: xp.cos(x * 3),
    "tan": lambda x: xp.tan(x * 3),
    "a tangent and its sine": lambda x: xp.sin(x * 3) / xp.cos(x * 3) + xp.sin(x * 3),
    "asin": lambda x: xp.asin(x / 5),
    "acos": lambda x: xp.acos(x / 5),
    "atan2": lambda x: xp.atan2(x, x + 2),
    "power": lambda x: abs(x) ** 1.7,
    "root": lambda x: (abs(x) + 0.3).rsqrt(),
    "over a root": lambda x: x / xp.sqrt(x * x + 1),
    "over a length": lambda x: x / xp.sqrt((x * x).sum(-1, keepdims=True) + x * x),
    "rms_norm": lambda x: nn.rms_norm(x) * (1 + abs(x)),
    "layer_norm": lambda x: nn.layer_norm(x) * (1 + abs(x)),
    "mish": lambda x: nn.mish(x),
    "softmax of a product": lambda x: nn.softmax(x @ x.mT * 0.1),
}
SHAPES = [(1, 2), (3, 5), (7, 33), (64, 130)]


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")


def given(shape: tuple[int, int], dtype: str) -> Tensor:
    return Tensor(np.random.default_rng(5).standard_normal(shape).astype(dtype))


@pytest.mark.many
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.covering(each=2)
def test_an_extreme_is_found_and_has_its_gradient(value: str, dtype: str, request: pytest.FixtureRequest) -> None:
    """Of the larger shapes a quick run takes some in one type and the others in the other. (A planted fault shows in the smallest one.)"""
    f = VALUES[value]

    def reached(x: Any) -> Any:
        y = f(x)
        return (y == y.max(axis=1, keepdims=True)).any(axis=1), (y == y.min()).any(), y

    for shape in SHAPES if amount(request, 1, 2) > 1 else (SHAPES[0], *SHAPES[1 + (dtype == "float64") :: 2]):
        x = given(shape, dtype)
        for way in (reached, jit(reached)):
            assert all(part.numpy().all() for part in way(x)[:2]), (shape, way)
        # the directional derivative of Σ max, by differences of NumPy's values of the same function
        way = jit(lambda x: grad(lambda x: f(x).max(axis=1).sum())(x))
        got, h = way(x).numpy().astype(np.float64), 1e-6
        along = np.random.default_rng(6).standard_normal(shape)
        wide = x.numpy().astype(np.float64)
        sides = [float(f(Tensor(wide + s * along)).max(axis=1).sum().numpy()) for s in (h, -h)]
        np.testing.assert_allclose((got * along).sum(), (sides[0] - sides[1]) / (2 * h), rtol=1e-3, atol=1e-4 * np.abs(got).max())


RUNNING = lifted(cumulative_max)
EXTREMES: dict[str, Callable[[Any], Any]] = {
    "several axes": lambda y: xp.max(y, axis=(0, 1)),
    "running": lambda y: RUNNING(y, axis=1),
    "of a pair": lambda y: xp.maximum(y, xp.max(y, axis=1, keepdims=True) - 0.25),
    "pooled": lambda y: nn.max_pool(y, (1, 2)),
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("value", ["log1p", "sin", "over a root", "rms_norm"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.covering(pairs=True)
def test_every_extreme_passes_its_gradient_on(value: str, extreme: str, dtype: str) -> None:
    """As where the values are stored, which the gradient of a copy is taken of."""
    x = given((6, 40), dtype)
    y = Tensor(VALUES[value](x).numpy())
    weights = grad(lambda y: EXTREMES[extreme](y).sum())(y)
    want = grad(lambda x: (VALUES[value](x) * weights).sum())(x).numpy()
    for way in (grad(lambda x: EXTREMES[extreme](VALUES[value](x)).sum()), jit(grad(lambda x: EXTREMES[extreme](VALUES[value](x)).sum()))):
        np.testing.assert_allclose(way(x).numpy(), want, rtol=2e-4, atol=1e-5)


def test_only_what_may_differ_is_stored() -> None:
    x = given((64, 130), "float32")

    def rules(y: Tensor) -> list[Rule]:
        return [r for g in partition([(y == y.max(axis=1, keepdims=True)).node]).groups for r in g.rules]

    assert Rule.steady not in rules(x.exp()) + rules(xp.sin(x)) + rules(x / (1 + x)) + rules(nn.gelu(x))
    assert rules(x / xp.sqrt(x * x + 1)).count(Rule.steady) == 1
    assert Rule.steady not in [r for g in partition([nn.rms_norm(x).node, (nn.rms_norm(x) > 0).node]).groups for r in g.rules]


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
