"""Activations, norms, losses, convolutions and pooling against NumPy and SciPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import special
from tilewright import Tensor
from tilewright.ir.errors import UsageError
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.lift import lifted
from tilewright.tensor.ops import convolution as C
from tilewright.tensor.ops import convolution as P
from tilewright.tensor.ops import neural as A
from tilewright.tensor.ops import neural as L
from tilewright.tensor.ops import neural as N

from tests.tensor.agree import Agree

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(6)
conv, conv_transpose = lifted(C.conv), lifted(C.conv_transpose)
max_pool, avg_pool = lifted(P.max_pool), lifted(P.avg_pool)


def of(*shape: int) -> tuple[Any, Tensor]:
    x = RNG.standard_normal(shape).astype(np.float32)
    return x, Tensor(x)


def test_activations(agree: Agree) -> None:
    x = np.array([-100, -3, -1, -0.1, 0, 0.1, 1, 3, 100], np.float32)
    t = Tensor(x)
    sigmoid = special.expit(x)
    for name, found, expected in (
        ("relu", t.relu(), np.maximum(x, 0)),
        ("gelu", t.gelu(), 0.5 * x * (1 + special.erf(x / np.sqrt(2)))),
        ("gelu tanh", t.gelu("tanh"), 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ("silu", t.silu(), x * sigmoid),
        ("sigmoid", t.sigmoid(), sigmoid),
        ("softplus", t.softplus(), np.logaddexp(x, 0)),
        ("elu", t.elu(), np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
        ("leaky", t.leaky_relu(), np.where(x < 0, 0.01 * x, x)),
        ("mish", t.mish(), x * np.tanh(np.logaddexp(x, 0))),
        ("hardswish", t.hardswish(), x * np.clip(x + 3, 0, 6) / 6),
        ("softsign", t.softsign(), x / (1 + abs(x))),
    ):
        agree(name, found, expected.astype(np.float32))


def test_softmax_and_norms(agree: Agree) -> None:
    (x, t), (w, u), (b, v) = of(4, 6, 10), of(10), of(10)
    agree("softmax", t.softmax(-1), special.softmax(x, -1))
    agree("softmax of two dimensions", t.softmax((0, 1)), special.softmax(x, (0, 1)))
    agree("log_softmax", t.log_softmax(1), special.log_softmax(x, 1))
    row = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    agree("layer_norm", lifted(N.layer_norm)(t, u, v), row * w + b)
    agree("rms_norm", lifted(N.rms_norm)(t, u), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w)
    groups = x.reshape(4, 2, 30)
    groups = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    (s, p), (o, q) = of(6), of(6)
    agree("group_norm", lifted(N.group_norm)(t, 2, p, q), groups.reshape(x.shape) * s[:, None] + o[:, None])
    mean, var = x.mean((0, 2)), x.var((0, 2))
    batch = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5) * s[:, None] + o[:, None]
    agree("statistics", list(lifted(N.batch_statistics)(t)), [mean, var])
    agree("batch_norm", lifted(N.batch_norm)(t, Tensor(mean), Tensor(var), p, q), batch, 32)
    agree("normalize", lifted(N.normalize)(t), x / np.linalg.norm(x, axis=-1, keepdims=True))
    with pytest.raises(UsageError, match="does not fit"):
        lifted(N.layer_norm)(t, Tensor(np.ones(7, np.float32)))


def test_losses(agree: Agree) -> None:
    (x, t), (y, u) = of(5, 7), of(5, 7)
    labels = np.array([0, 3, 6, 3, 1])
    k = Tensor(labels)
    log_p = special.log_softmax(x, 1)
    each = -log_p[np.arange(5), labels]
    agree("cross_entropy", lifted(L.cross_entropy)(t, k), each.mean())
    agree("none", lifted(L.cross_entropy)(t, k, reduction="none"), each)
    agree("ignored", lifted(L.cross_entropy)(t, k, ignore_index=3), each[labels != 3].mean())
    smooth = 0.9 * each.mean() + 0.1 * -log_p.mean()
    agree("smoothed", lifted(L.cross_entropy)(t, k, label_smoothing=0.1), np.float32(smooth))
    goal = special.softmax(y, 1)
    agree("probabilities", lifted(L.cross_entropy)(t, Tensor(goal)), -(goal * log_p).sum(1).mean())
    agree("nll", lifted(L.nll_loss)(Tensor(log_p), k, reduction="sum"), each.sum())
    agree("mse", lifted(L.mse_loss)(t, u), ((x - y) ** 2).mean())
    agree("l1", lifted(L.l1_loss)(t, u, reduction="sum"), abs(x - y).sum())
    far = abs(x - y)
    agree("huber", lifted(L.huber_loss)(t, u), np.where(far <= 1, 0.5 * far**2, far - 0.5).mean())
    p, z = special.expit(x), (y > 0).astype(np.float32)
    bce = -(z * np.log(p) + (1 - z) * np.log1p(-p)).mean()
    agree("bce", lifted(L.bce_loss)(Tensor(p), Tensor(z)), bce, 64)
    agree("bce of logits", lifted(L.bce_with_logits)(t, Tensor(z)), bce, 64)
    agree("kl", lifted(L.kl_divergence)(Tensor(log_p), Tensor(goal)), (goal * (np.log(goal) - log_p)).mean())
    agree("one_hot", lifted(L.one_hot)(k, 7), np.eye(7, dtype=int)[labels])
    with pytest.raises(UsageError, match="cross_entropy: int64 targets of"):
        lifted(L.cross_entropy)(t, Tensor(np.zeros((5, 7), int)))


def reference(x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Any:
    """A convolution by loops over its taps, in float64."""
    rank = w.ndim - 2
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    out = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:])]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    a, b = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        for tap in product(*map(range, w.shape[2:])):
            at = tuple(slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride) for t, n in zip(tap, out))
            part = x[(slice(None), slice(g * a, g * a + a), *at)]
            y[:, g * b : g * b + b] += np.einsum("bc...,oc->bo...", part, w[(slice(g * b, g * b + b), slice(None), *tap)])
    return y


CONVOLUTIONS = [
    ((2, 3, 9), (4, 3, 3), {}), ((2, 4, 9), (6, 2, 2), {"stride": 2, "padding": 1, "groups": 2}), ((1, 2, 7, 8), (3, 2, 3, 2), {"padding": 1}),
    ((2, 4, 9, 9), (4, 1, 3, 3), {"groups": 4, "stride": 2}), ((1, 2, 8, 7), (2, 2, 2, 3), {"dilation": 2, "padding": 2}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"stride": 2, "padding": 1}), ((1, 3, 5, 5), (2, 3, 1, 1), {}),
]  # fmt: skip


def test_convolutions(agree: Agree) -> None:
    for xs, ws, how in CONVOLUTIONS:
        (x, t), (w, u), (b, v) = of(*xs), of(*ws), of(ws[0])
        expected = reference(x, w, **how) + b.reshape(-1, *[1] * (len(ws) - 2))
        agree(f"{xs} {ws} {how}", conv(t, u, v, **how), expected.astype(np.float32), 32)
    x, t = of(1, 1, 6, 6)
    w, u = of(1, 1, 3, 3)
    agree("same", conv(t, u, padding="same"), reference(x, w, padding=1).astype(np.float32), 32)
    agree("one image", conv(t[0], u), reference(x, w)[0].astype(np.float32), 32)


def test_transposed_convolutions_are_the_transposes(agree: Agree) -> None:
    """⟨conv(x), y⟩ = ⟨x, conv_transpose(y)⟩ for every y: the transpose is built column by column."""
    for xs, ws, how in (
        ((2, 6), (3, 2, 3), {"stride": 2}),
        ((4, 5), (2, 2, 3), {"padding": 1, "groups": 2}),
        ((2, 4, 5), (4, 2, 2, 2), {"stride": 2}),
    ):
        w, u = of(*ws)
        groups = how.get("groups", 1)
        unit = np.eye(int(np.prod(xs)), dtype=np.float32).reshape(-1, *xs)
        columns = reference(unit, w, **how)
        y, t = of(2, *columns.shape[1:])
        expected = (y.astype(np.float64).reshape(2, -1) @ columns.reshape(len(columns), -1).T).reshape(2, *xs)
        more = [n - (m - 1) * how.get("stride", 1) - k + 2 * how.get("padding", 0) for n, m, k in zip(xs[1:], y.shape[2:], ws[2:])]
        found = conv_transpose(t, u, output_padding=more, **how)
        assert u.shape[0] % groups == 0
        agree(f"{xs} {ws} {how}", found, expected.astype(np.float32), 32)


def test_pooling(agree: Agree) -> None:
    x, t = of(2, 3, 6, 7)
    view = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, ::2, ::2]
    agree("max", max_pool(t, (2, 3), stride=2), view.max((-1, -2)))
    agree("average", avg_pool(t, (2, 3), stride=2), view.mean((-1, -2)))
    padded = np.pad(x - 9, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    agree(
        "padding is smallest",
        max_pool(t - 9, 3, stride=1, padding=1),
        np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((-1, -2)),
    )
    ones = np.lib.stride_tricks.sliding_window_view(np.pad(np.ones_like(x), [(0, 0), (0, 0), (1, 1), (1, 1)]), (3, 3), (2, 3)).sum((-1, -2))
    sums = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), (3, 3), (2, 3)).sum((-1, -2))
    agree("average without padding", avg_pool(t, 3, stride=1, padding=1, count_padding=False), sums / ones)
    integers = np.arange(-12, 12, dtype=np.int32).reshape(1, 4, 6)
    agree("integers", max_pool(Tensor(integers), 2), integers.reshape(1, 2, 2, 3, 2).max((2, 4)))
    agree("global", lifted(P.global_avg_pool)(t), x.mean((2, 3)))


def test_wrong_windows_name_what_is_wrong() -> None:
    x, w = Tensor(np.ones((1, 3, 5), np.float32)), Tensor(np.ones((2, 3, 9), np.float32))
    with pytest.raises(UsageError, match=r"windows of \[9\].*are larger than \[5\]"):
        conv(x, w)
    with pytest.raises(UsageError, match=r"conv of \[1, 3, 5\] with weights \[2, 3, 9\]: 3 channels in 2 groups"):
        conv(x, w, groups=2)
    with pytest.raises(UsageError, match="padding"):
        conv(x, w, padding="some")


@pytest.mark.usefixtures("graphs")
def test_activations_keep_their_kernels_few() -> None:
    x = Tensor(np.ones((64, 32), np.float32))
    calls = len(call_list([(x.gelu() * 2 + x.silu()).softmax(-1).node]).calls)
    assert calls == 1
    w = Tensor(np.ones((8, 4, 3, 3), np.float32))
    image = Tensor(np.ones((2, 4, 16, 16), np.float32))
    calls = len(call_list([conv(image, w, padding=1).relu().node]).calls)
    assert calls == 1


def test_a_kind_of_activation_that_is_unknown_is_an_error() -> None:
    with pytest.raises(UsageError, match="gelu: approximate"):
        lifted(A.gelu)(Tensor([1.0]), approximate="some")
