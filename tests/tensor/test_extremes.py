"""A value that is compared with an extreme of itself is the extreme in at least one place, and the extreme has its gradient, whatever
computes the value and in which kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import jit, nn, xp
from tilewright.tensor import Tensor, grad
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops.reduction import cumulative_max
from tilewright.tensor.partition.cost import Rule
from tilewright.tensor.partition.groups import partition

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


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_extreme_is_found_and_has_its_gradient(value: str, dtype: str) -> None:
    f = VALUES[value]

    def reached(x: Any) -> Any:
        y = f(x)
        return (y == y.max(axis=1, keepdims=True)).any(axis=1), (y == y.min()).any(), y

    for shape in SHAPES:
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
