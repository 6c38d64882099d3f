"""Gradients at kinks and poles, which docs/gradients.md lists: the numbers are PyTorch 2.13's, of float64."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import numpy as np
import pytest
import tilewright as tw
from tilewright import grad, nn, vmap, xp
from tilewright.tensor import Tensor
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops import reduction

cumulative_max, cumulative_min = lifted(reduction.cumulative_max), lifted(reduction.cumulative_min)


def row(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float64))


Row = tuple[Callable[[Tensor], Tensor], list[float], list[float]]
"""(function, where, the gradient of the sum of its results)."""
ROWS: dict[str, Row] = {
    "abs": (lambda x: x.abs(), [0, -0.0, 1], [0, 0, 1]),
    "relu": (lambda x: x.relu(), [0, -0.0, nan, 1], [0, 0, 1, 1]),
    "leaky": (lambda x: nn.leaky_relu(x, 0.1), [0, -0.0, 1, -1], [0.1, 0.1, 1, 0.1]),
    "elu": (lambda x: nn.elu(x, 1.5), [0, -0.0, 1, -1], [1.5, 1.5, 1, 0.551819162]),
    "softplus": (lambda x: x.softplus(), [0, -0.0, 1], [0.5, 0.5, 0.731058579]),
    "softsign": (lambda x: x.softsign(), [0, -0.0], [1, 1]),
    "hardswish": (lambda x: x.hardswish(), [0, -3, 3, 4], [0.5, 0, 1, 1]),
    "silu": (lambda x: x.silu(), [0, -0.0], [0.5, 0.5]),
    "mish": (lambda x: x.mish(), [0, 1], [0.6, 1.04903622]),
    "gelu": (lambda x: x.gelu(), [0, 1], [0.5, 1.08331547]),
    "sigmoid": (lambda x: x.sigmoid(), [0, inf, -inf], [0.25, 0, 0]),
    "clip": (lambda x: x.clip(-1.0, 1.0), [-1, 1, 0, 2, -3, nan], [1, 1, 1, 0, 0, 0]),
    "clip_min": (lambda x: x.clip(min=0.0), [0, -0.0, 1], [1, 1, 1]),
    "clip_same": (lambda x: x.clip(1.0, 1.0), [0, 1, 2], [0, 1, 0]),
    "maximum of equal tensors": (lambda x: xp.maximum(x, x * 1.0), [0, 1], [1, 1]),
    "maximum with a number": (lambda x: xp.maximum(x, 0.0), [0, -1, 1], [0.5, 0, 1]),
    "minimum with a number": (lambda x: xp.minimum(x, 1.0), [1, 0, 2], [0.5, 1, 0]),
    "sqrt": (lambda x: x.sqrt(), [0, 1, inf], [inf, 0.5, 0]),
    "rsqrt": (lambda x: x.rsqrt(), [0, 1], [-inf, -0.5]),
    "log": (lambda x: x.log(), [0, 1], [inf, 1]),
    "log1p": (lambda x: x.log1p(), [-1, 0], [inf, 1]),
    "log2": (lambda x: x.log2(), [0, 1], [inf, 1.44269504]),
    "where_sqrt": (lambda x: xp.where(x > 0, x.sqrt(), 0.0), [0, 1], [nan, 0.5]),
    "where_log": (lambda x: xp.where(x > 0, x.log(), 0.0), [0, 1], [nan, 1]),
    "where_safe": (lambda x: xp.where(x > 0, xp.where(x > 0, x, 1.0).sqrt(), 0.0), [0, 1], [0, 0.5]),
    "reciprocal": (lambda x: x.reciprocal(), [0, 1], [-inf, -1]),
    "pow.5": (lambda x: x ** 0.5, [0, 1], [inf, 0.5]),
    "pow0": (lambda x: x ** 0, [0, 1], [0, 0]),
    "pow0.": (lambda x: x ** 0.0, [0, nan], [0, 0]),
    "pow1": (lambda x: x ** 1.0, [0, 1], [1, 1]),
    "pow2": (lambda x: x ** 2, [0, -0.0], [0, 0]),
    "pow1.5": (lambda x: x ** 1.5, [0, 1], [0, 1.5]),
    "pow.3": (lambda x: x ** 0.3, [0, 1], [inf, 0.3]),
    "pow-1": (lambda x: x ** (-1), [0, 1], [-inf, -1]),
    "pow-2": (lambda x: x ** (-2), [0, -0.0, 1e-110, -2], [-inf, inf, -inf, 0.25]),
    "pow-3": (lambda x: x ** -3.0, [0, 1e-60, 2], [-inf, -3e240, -0.1875]),
    "pow-1.5": (lambda x: x ** (-1.5), [0, 1], [-inf, -1.5]),
    "pow_b": (lambda x: x ** row(0.0, 0.0, 1.0, 2.0, 0.5, 3.0), [0, 2, 0, 0, 0, -2], [0, 0, 1, 0, inf, 12]),
    "pow_e": (lambda x: row(0.0, 0.0, 0.0, 2.0, -2.0, 1.0, inf) ** x, [0, 1, -1, 0, 2, 0, 0], [0, 0, -inf, 0.693147181, nan, 0, inf]),
    "rpow": (lambda x: 0.0 ** x, [0, 1, 2], [0, 0, 0]),
    "rpow2": (lambda x: 2.0 ** x, [0, 1], [0.693147181, 1.38629436]),
    "atan2_y": (lambda x: xp.atan2(x, row(0.0, 1.0, -1.0)), [0, 0, 0], [0, 1, -1]),
    "atan2_x": (lambda x: xp.atan2(row(0.0, 1.0, -1.0), x), [0, 0, 0], [0, -1, 1]),
    "hypot": (lambda x: xp.hypot(x, x * 0.0), [0, 3], [nan, 1]),
    "hypot2": (lambda x: xp.hypot(x, row(0.0, 4.0)), [0, 0], [nan, 0]),
    "hypot_eq": (lambda x: xp.hypot(x, row(3.0, -3.0)), [3, 3], [0.707106781, 0.707106781]),
    "logaddexp": (lambda x: xp.logaddexp(x, row(0.0, -inf, -inf, inf, 0.0)), [0, 0, -inf, 0, -inf], [0.5, 1, nan, 0, 0]),
    "asin": (lambda x: x.asin(), [1, 0, -1], [inf, 1, inf]),
    "acos": (lambda x: x.acos(), [1, -1], [-inf, -inf]),
    "acosh": (lambda x: x.acosh(), [1, 2], [inf, 0.577350269]),
    "atanh": (lambda x: x.atanh(), [1, 0], [inf, 1]),
    "tanh": (lambda x: x.tanh(), [inf, 0], [0, 1]),
    "sign": (lambda x: x.sign() + x * 0.0, [0, 1], [0, 0]),
    "floor": (lambda x: x.floor() + x * 0.0, [1, 0.5], [0, 0]),
    "round": (lambda x: x.round() + x * 0.0, [0.5], [0]),
    "trunc": (lambda x: x.trunc() + x * 0.0, [1], [0]),
    "copysign": (lambda x: xp.copysign(x, row(1.0, -1.0, -1.0)), [0, 0, 2], [0, 0, -1]),
    "remainder": (lambda x: x % 2.0, [0, 2, -2], [1, 1, 1]),
    "remainder2": (lambda x: row(4.0, -3.0, 0.0) % x, [2, 2, 2], [-2, 2, 0]),
    "remainder3": (lambda x: row(5.0, -1.0, 3.0, 1e-30) % x, [-inf, inf, inf, -1e30], [1, 1, 0, 1]),
    "max_ties": (lambda x: x.max(), [1, 3, 3, 2, 3], [0, 0.333333333, 0.333333333, 0, 0.333333333]),
    "min_ties": (lambda x: x.min(0), [1, 3, 1], [0.5, 0, 0.5]),
    "max_all": (lambda x: x.max(), [2, 2], [0.5, 0.5]),
    "max_inf": (lambda x: x.max(), [-inf, -inf], [0.5, 0.5]),
    "cummax": (lambda x: cumulative_max(x, axis=0), [1, 3, 3, 2, 3], [1, 1, 2, 0, 1]),
    "cummin": (lambda x: cumulative_min(x, axis=0), [1, 1, 0, 0], [1, 1, 1, 1]),
    "sort": (lambda x: xp.sort(x) * row(1.0, 2.0, 3.0, 4.0), [3, 1, 3, 1], [3, 1, 4, 2]),
    "sort_desc": (lambda x: xp.sort(x, descending=True) * row(1.0, 2.0, 3.0, 4.0), [3, 1, 3, 1], [1, 3, 2, 4]),
    "topk": (lambda x: x.topk(2)[0] * row(1.0, 2.0), [3, 1, 3, 1], [1, 0, 2, 0]),
    "prod0": (lambda x: x.prod(), [0, 2, 3], [6, 0, 0]),
    "prod00": (lambda x: x.prod(), [0, 0, 3], [0, 0, 0]),
    "cumprod": (lambda x: x.cumprod(0), [2, 0, 3, 4], [1, 32, 0, 0]),
    "cumprod2": (lambda x: x.cumprod(0), [2, 0, 3, 0, 5], [1, 8, 0, 0, 0]),
    "cumprod0": (lambda x: x.cumprod(0), [0, 2, 3], [9, 0, 0]),
    "norm": (lambda x: xp.linalg.vector_norm(x), [0, 0], [0, 0]),
    "norm_v": (lambda x: xp.linalg.vector_norm(x), [0, 2], [0, 1]),
    "norm1": (lambda x: xp.linalg.vector_norm(x, ord=1), [0, 2], [0, 1]),
    "norm3": (lambda x: xp.linalg.vector_norm(x, ord=3), [0, 0], [0, 0]),
    "norm3v": (lambda x: xp.linalg.vector_norm(x, ord=3), [0, 2], [0, 1]),
    "norm.5": (lambda x: xp.linalg.vector_norm(x, ord=0.5), [0, 2], [0, 1]),
    "norm1.5": (lambda x: xp.linalg.vector_norm(x, ord=1.5), [0, 2, -1], [0, 0.904013403, -0.639234008]),
    "norminf": (lambda x: xp.linalg.vector_norm(x, ord=inf), [0, 2, -2], [0, 0.5, -0.5]),
    "norminf0": (lambda x: xp.linalg.vector_norm(x, ord=inf), [0, 0], [0, 0]),
    "norm-inf": (lambda x: xp.linalg.vector_norm(x, ord=-inf), [0, 2], [0, 0]),
    "fro": (lambda x: xp.linalg.matrix_norm(x.reshape(2, 2)), [0, 0, 0, 0], [0, 0, 0, 0]),
    "mnorm1": (lambda x: xp.linalg.matrix_norm(x.reshape(2, 2), ord=1), [1, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]),
    "norm_neg": (lambda x: xp.linalg.vector_norm(x, ord=-1), [1, 2], [0.444444444, 0.111111111]),
    "std": (lambda x: x.std(), [2, 2, 2], [0, 0, 0]),
    "std1": (lambda x: x.std(correction=1), [2, 2, 2], [0, 0, 0]),
    "var": (lambda x: x.var(correction=1), [2, 2], [0, 0]),
    "std_v": (lambda x: x.std(correction=1), [1, 2, 4], [-0.43643578, -0.109108945, 0.545544726]),
    "std_one": (lambda x: x.std(), [1], [0]),
    "normalize": (lambda x: nn.normalize(x) * row(1.0, 2.0), [0, 0], [1000000000000.0, 2000000000000.0]),
    "normalize_v": (lambda x: nn.normalize(x) * row(1.0, 2.0), [3, 4], [-0.064, 0.048]),
    "layer_norm": (lambda x: nn.layer_norm(x) * row(1.0, 2.0), [3, 3], [-158.113883, 158.113883]),
    "lse": (lambda x: x.logsumexp(0), [-inf, -inf], [nan, nan]),
    "lse_v": (lambda x: x.logsumexp(0), [-inf, 0], [0, 1]),
    "softmax": (lambda x: x.softmax(0) * row(1.0, 2.0), [-inf, 0], [0, 0]),
    "l1": (lambda x: nn.l1_loss(x, 0.0, reduction="sum"), [0, 1], [0, 1]),
    "huber": (lambda x: nn.huber_loss(x, 0.0, reduction="sum"), [0, 1, -1, 2], [0, 1, -1, 1]),
    "bce0": (lambda x: nn.bce_loss(x, row(0.0, 1.0, 1.0, 0.0, 0.5), reduction="sum"), [0, 1, 0.5, 0.5, 0.5], [0, 0, -2, 2, 0]),
    "bce_bad": (lambda x: nn.bce_loss(x, row(1.0, 0.0), reduction="sum"), [0, 1], [-1000000000000.0, 1000000000000.0]),
    "bcel": (lambda x: nn.bce_with_logits(x, row(0.0, 1.0, 0.5), reduction="sum"), [0, 0, 0], [0.5, -0.5, 0]),
    "kl": (lambda x: nn.kl_divergence(row(0.0, -1.0), x, reduction="sum"), [0, 1], [nan, 2]),
    "kl_in": (lambda x: nn.kl_divergence(x, row(0.0, 1.0), reduction="sum"), [-1, -1], [0, -1]),
    "max_pool": (lambda x: nn.max_pool(x.reshape(1, 1, 2, 2), 2), [1, 1, 0, 1], [1, 0, 0, 0]),
    "xlogx": (lambda x: x * x.log(), [0, 1], [nan, 1]),
}  # fmt: skip


@pytest.mark.many
@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    f, at, want = ROWS[name]
    gradient = tw.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(gradient(row(*at)).numpy(), want, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(tw.jit(lambda x: gradient(x))(row(*at)).numpy(), want, rtol=1e-6, atol=1e-9)


@pytest.mark.many
@pytest.mark.parametrize("name", ["relu", "clip", "sigmoid", "norm", "max_ties", "std", "max_pool"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.covering
def test_other_types_and_batches(name: str, dtype: str) -> None:
    f, at, want = ROWS[name]
    x = row(*at).astype(dtype)
    gradient = tw.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(gradient(x).numpy(), np.array(want, dtype), rtol=1e-3)
    both = tw.vmap(gradient)(xp.stack([x, x * 2.0, x])).numpy()
    np.testing.assert_allclose(both[::2], np.array([want, want], dtype), rtol=1e-3)
    summed = tw.grad(lambda x: tw.vmap(f)(xp.stack([x, x])).sum())(x).numpy()
    np.testing.assert_allclose(summed, 2 * np.array(want, dtype), rtol=1e-3)


@pytest.mark.many
def test_a_parameter_is_a_bound_as_a_constant_is() -> None:
    x = row(0.0, 1.0, 2.0)
    for f in (lambda x, k: x.clip(0.0, k), lambda x, k: xp.maximum(x, k), lambda x, k: x.clip(min=k), lambda x, k: nn.leaky_relu(x - k, k)):
        g = tw.jit(lambda x, k, f=f: tw.grad(lambda x: f(x, k).sum())(x))
        for k in (0.5, 2.0, 1.0, 0.0):
            assert g(x, k).tolist() == tw.grad(lambda x, k=k, f=f: f(x, k).sum())(x).tolist()


@pytest.mark.many
def test_bounds_that_are_tensors_have_gradients() -> None:
    x, lo, hi = row(0.0, 1.0, 2.0, 3.0, 9.0), row(1.0, 1.0, 1.0, 1.0, 4.0), row(2.0, 2.0, 2.0, 2.0, 3.0)
    got = tw.grad(lambda x, lo, hi: x.clip(lo, hi).sum(), argnums=(0, 1, 2))(x, lo, hi)
    assert [g.tolist() for g in got] == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    one = tw.grad(lambda x, lo: x.clip(lo).sum(), argnums=1)(x, Tensor(np.float64(1.5)))
    assert one.tolist() == 2.0


@pytest.mark.many
def test_second_derivatives_and_checkpoints() -> None:
    x = row(-1.0, 0.5, 2.0)
    s = 1 / (1 + np.exp(-x.numpy()))
    second = tw.grad(lambda x: tw.grad(lambda x: x.sigmoid().sum())(x).sum())(x)
    np.testing.assert_allclose(second.numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-12)
    again = tw.grad(lambda x: tw.checkpoint(lambda x: (x.relu() * x.sigmoid()).clip(0.1, 1.5))(x).sum())(x)
    np.testing.assert_allclose(again.numpy(), tw.grad(lambda x: (x.relu() * x.sigmoid()).clip(0.1, 1.5).sum())(x).numpy())
    moved = tw.jvp(lambda x: x.clip(0.0, 1.0), [x], [row(1.0, 2.0, 3.0)])[1]
    assert moved.tolist() == [0, 2, 0]


SMOOTH: dict[str, Row] = {
    "softplus": (lambda x: x.softplus(), [0, -0.0, 1], [0.25, 0.25, 0.196611933]),
    "mish": (lambda x: x.mish(), [0, 1], [0.64, 0.184685764]),
    "logaddexp": (lambda x: xp.logaddexp(x, row(1.0, 0.0, 900.0)), [1, 1, 0], [0.25, 0.196611933, 0]),
    "hypot": (lambda x: xp.hypot(x, row(1.0, -1.0, 2.0)), [1, 1, 0], [0.353553391, 0.353553391, 0.5]),
    "huber": (lambda x: nn.huber_loss(x, 0.0, reduction="sum"), [0, 0.5, 1, -1, 2], [1, 1, 0, 0, 0]),
    "bcel": (lambda x: nn.bce_with_logits(x, row(0.0, 1.0, 0.5), reduction="sum"), [0, 0, 1], [0.25, 0.25, 0.196611933]),
    "norm.5": (lambda x: xp.linalg.vector_norm(x, ord=0.5), [1, 1, 0], [0, 0, 0]),
}  # fmt: skip


@pytest.mark.many
@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_of_what_is_smooth_but_computed_by_sizes(name: str) -> None:
    """Formulas that avoid overflow by a maximum or a size have kinks where the function has none. (A norm's zeros count as 0.)"""
    f, at, want = SMOOTH[name]
    second = tw.grad(lambda x: tw.grad(lambda x: f(x).sum())(x).sum())
    np.testing.assert_allclose(second(row(*at)).numpy(), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("extreme", ["max", "min"])
def test_an_extreme_of_what_is_computed_passes_its_gradient_on(monkeypatch: pytest.MonkeyPatch, extreme: str, dtype: str) -> None:
    """The extreme may be stored rounded, and the elements be computed again in a wider type. The columns' extremes are chosen to be
    apart, so that each has one place."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.random.default_rng(3).standard_normal((40, 3, 5)).astype(np.float32)
    found, exact = (
        grad(lambda t: getattr(nn.layer_norm(t), extreme)(axis=1).sum().astype("float32"))(Tensor(x).astype(kind).realise())
        .astype("float32")
        .numpy()
        for kind in (dtype, "float32")
    )
    assert np.mean(np.abs(found - exact) > 0.1 * np.abs(exact).max()) < 0.05


@pytest.mark.parametrize("to", ["bfloat16", "float16"])
def test_vmap_keeps_a_conversion(to: str) -> None:
    x = Tensor(np.linspace(1, 2, 12, dtype=np.float32).reshape(4, 3))
    there = vmap(lambda row: row.astype(to))(x)
    back = vmap(lambda row: row.astype(to).astype("float32"))(x)
    assert there.dtype.name == to
    assert np.array_equal(back.numpy(), x.astype(to).numpy().astype(np.float32)) and not np.array_equal(back.numpy(), x.numpy())
