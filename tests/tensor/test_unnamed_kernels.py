"""Kernels that nobody named, as plain expressions: how many kernels they become, and that their values are NumPy's, NaN
and infinities included. Each function is written once, for `xp` and for NumPy; its comment says what an expert would write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tilewright import grad, xp
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.running.realise import realise

pytestmark = pytest.mark.usefixtures("graphs")

Shape = tuple[int, ...]
ROWS, SMALL_ROWS = (2048, 1024), (7, 13)
HEADS, SMALL_HEADS = (2, 8, 512, 64), (1, 2, 6, 8)


@dataclass(frozen=True)
class Written:
    """An expression: `kernels` of arrays of the shapes `large`; values are compared at `small`."""

    function: Callable[..., Any]
    kernels: int
    large: tuple[Shape, ...]
    small: tuple[Shape, ...]


CASES: dict[str, Written] = {}


def case(kernels: int, *large: Shape, small: tuple[Shape, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def of(f: Callable[..., Any]) -> Callable[..., Any]:
        CASES[f.__name__] = Written(f, kernels, large, small)
        return f

    return of


def softmax(p: Any, s: Any, axis: int = -1) -> Any:
    e = p.exp(s - p.max(s, axis=axis, keepdims=True))
    return e / p.sum(e, axis=axis, keepdims=True)


def turned(p: Any, x: Any) -> Any:
    return p.matrix_transpose(x)


def scores(p: Any, q: Any, k: Any) -> Any:
    return q @ turned(p, k) * q.shape[-1] ** -0.5


# rows -------------------------------------------------------------------------------------------------------------
@case(1, ROWS, (1024,), ROWS, small=(SMALL_ROWS, (13,), SMALL_ROWS))
def rmsnorm_gradient(p: Any, x: Any, w: Any, dy: Any) -> Any:
    """All of it is done while a row is in the cache."""
    r = 1 / p.sqrt(p.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return dy * w * r - x * (r * r * r * p.mean(dy * w * x, axis=-1, keepdims=True))


@case(2, ROWS, (1024,), ROWS, small=(SMALL_ROWS, (13,), SMALL_ROWS))
def rmsnorm_gradients(p: Any, x: Any, w: Any, dy: Any) -> Any:
    """The weight's gradient sums columns: a kernel of its own, which reads the rows' deviations."""
    r = 1 / p.sqrt(p.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    dx = dy * w * r - x * (r * r * r * p.mean(dy * w * x, axis=-1, keepdims=True))
    return dx, p.sum(dy * x * r, axis=0)


@case(1, (8, 32, 64, 64), (32,), (32,), small=((2, 4, 3, 5), (4,), (4,)))
def group_norm(p: Any, x: Any, w: Any, b: Any) -> Any:
    """A group is a row; weights go by channels inside of it."""
    y = p.reshape(x, (x.shape[0], 2, -1))
    d = y - p.mean(y, axis=-1, keepdims=True)
    y = p.reshape(d / p.sqrt(p.mean(d * d, axis=-1, keepdims=True) + 1e-5), x.shape)
    return y * p.reshape(w, (1, -1, 1, 1)) + p.reshape(b, (1, -1, 1, 1))


@case(1, ROWS, ROWS, small=(SMALL_ROWS, SMALL_ROWS))
def kl_divergence(p: Any, x: Any, y: Any) -> Any:
    """Two log-softmaxes over the same rows, and a sum."""

    def log_softmax(x: Any) -> Any:
        d = x - p.max(x, axis=-1, keepdims=True)
        return d - p.log(p.sum(p.exp(d), axis=-1, keepdims=True))

    a, b = log_softmax(x), log_softmax(y)
    return p.sum(p.exp(a) * (a - b), axis=-1)


@case(1, ROWS, ROWS, ROWS, small=(SMALL_ROWS,) * 3)
def triplet_loss(p: Any, a: Any, b: Any, c: Any) -> Any:
    """Two distances, one pass."""
    far = p.sqrt(p.sum((a - b) ** 2, axis=-1)) - p.sqrt(p.sum((a - c) ** 2, axis=-1)) + 0.5
    return p.maximum(far, p.asarray(0.0, dtype=a.dtype))


@case(1, ROWS, small=(SMALL_ROWS,))
def softmax_of_columns(p: Any, x: Any) -> Any:
    return softmax(p, x, 0)


@case(1, ROWS, small=(SMALL_ROWS,))
def cumulative_max(p: Any, x: Any) -> Any:
    """A scan. (NumPy has it as an accumulation.)"""
    return np.maximum.accumulate(x, axis=1) if p is np else running_max(x)


@case(1, ROWS, small=(SMALL_ROWS,))
def quantised(p: Any, x: Any) -> Any:
    """To int8 by the largest of a row and back: the bytes are never stored."""
    s = p.max(p.abs(x), axis=-1, keepdims=True) / 127.0
    s = p.where(s > 0, s, p.asarray(1.0, dtype=s.dtype))  # NaN becomes 1 here: an integer cannot hold it
    q = p.clip(p.round(p.where(p.isfinite(x), x, p.asarray(0.0, dtype=x.dtype)) / s), -127.0, 127.0)
    return p.astype(p.astype(q, p.int8), x.dtype) * s


@case(1, ROWS, small=(SMALL_ROWS,))
def top_1(p: Any, x: Any) -> Any:
    """Argmax in one pass, and one element read at its place."""
    return p.take_along_axis(x, p.expand_dims(p.argmax(x, axis=1), axis=1), axis=1)


@case(1, (8, 512, 64), small=((3, 4, 5),))
def variance_over_two_axes(p: Any, x: Any) -> Any:
    return p.var(x, axis=(1, 2))


@case(1, ROWS, ROWS, small=(SMALL_ROWS, SMALL_ROWS))
def huber_loss(p: Any, x: Any, y: Any) -> Any:
    """One number: elementwise work in a sum over everything."""
    a = p.abs(x - y)
    return p.mean(p.where(a <= 1.0, 0.5 * a * a, a - 0.5))


# elements and windows ---------------------------------------------------------------------------------------------
@case(2, HEADS, HEADS, (512, 32), (512, 32), small=(SMALL_HEADS, SMALL_HEADS, (6, 4), (6, 4)))
def rope(p: Any, q: Any, k: Any, c: Any, s: Any) -> Any:
    """Queries and keys are arrays of their own, which nothing reads together."""
    return rotated(p, q, c, s), rotated(p, k, c, s)


def rotated(p: Any, x: Any, c: Any, s: Any) -> Any:
    h = x.shape[-1] // 2
    a, b = x[..., :h], x[..., h:]
    return p.concat([a * c - b * s, b * c + a * s], axis=-1)


@case(1, (2048, 4096), small=((7, 10),))
def geglu(p: Any, h: Any) -> Any:
    """Both halves lie in one array."""
    n = h.shape[1] // 2
    a, b = h[:, :n], h[:, n:]
    return a * 0.5 * (1 + p.tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))) * b


@case(1, (2048, 2048), small=((6, 9),))
def stencil(p: Any, x: Any) -> Any:
    return (x[:, :-2] + x[:, 1:-1] * 2.0 + x[:, 2:]) * 0.25


@case(1, (8, 64, 56, 56), (64, 3, 3), small=((2, 3, 6, 7), (3, 3, 3)))
def depthwise(p: Any, x: Any, w: Any) -> Any:
    """Nine taps of one array."""
    y: Any = 0
    for i in range(3):
        for j in range(3):
            y = y + x[:, :, i : i + x.shape[2] - 2, j : j + x.shape[3] - 2] * p.reshape(w[:, i, j], (1, -1, 1, 1))
    return y


@case(1, (512, 64), (512, 64), small=((5, 4), (5, 6)))
def outer_products(p: Any, a: Any, b: Any) -> Any:
    return p.expand_dims(a, axis=2) * p.expand_dims(b, axis=1)


@case(1, (64, 4096), (9,), small=((3, 17), (4,)))
def convolution(p: Any, x: Any, w: Any) -> Any:
    n = x.shape[1] - w.shape[0] + 1
    return sum((x[:, i : i + n] * w[i] for i in range(1, w.shape[0])), x[:, :n] * w[0])


@case(1, (64, 4096), small=((3, 17),))
def moving_average(p: Any, x: Any) -> Any:
    """Padding is a mask, not an array."""
    n, zeros = x.shape[1], p.zeros((x.shape[0], 2), dtype=x.dtype)
    z = p.concat([zeros, x, zeros], axis=1)
    return (z[:, 0:n] + z[:, 1 : n + 1] + z[:, 2 : n + 2] + z[:, 3 : n + 3] + z[:, 4 : n + 4]) * 0.2


# products ---------------------------------------------------------------------------------------------------------
@case(2, ROWS, (1024, 4096), (1024, 4096), small=(SMALL_ROWS, (13, 9), (13, 9)))
def swiglu(p: Any, x: Any, w: Any, v: Any) -> Any:
    """One product, and the other with the gate behind it."""
    a = x @ w
    return a / (1 + p.exp(-a)) * (x @ v)


@case(1, (1024, 64), (1024, 64), small=((7, 5), (6, 5)))
def distances(p: Any, a: Any, b: Any) -> Any:
    """Differences are taken where they are summed."""
    d = p.expand_dims(a, axis=1) - p.expand_dims(b, axis=0)
    return p.sqrt(p.sum(d * d, axis=-1))


@case(3, (1024, 64), (1024, 64), small=((7, 5), (6, 5)))
def cosines(p: Any, a: Any, b: Any) -> Any:
    """The lengths of both, then the product with the division behind it."""
    lengths = p.sqrt(p.sum(a * a, axis=1, keepdims=True)) * p.reshape(p.sqrt(p.sum(b * b, axis=1)), (1, -1))
    return (a @ turned(p, b)) / lengths


@case(2, ROWS, (1024, 1024), small=(SMALL_ROWS, (13, 6)))
def normalised_product(p: Any, x: Any, w: Any) -> Any:
    """Rows first: a product reads each of its elements many times."""
    return (x / p.sqrt(p.sum(x * x, axis=-1, keepdims=True) + 1e-9)) @ w


@case(3, ROWS, (1024, 8), (2048, 8, 256), small=(SMALL_ROWS, (13, 3), (7, 3, 4)))
def gated_mixture(p: Any, x: Any, w: Any, experts: Any) -> Any:
    """The gates are sums of many products: they are computed in register tiles of their own, and stored."""
    return p.sum(p.expand_dims(softmax(p, x @ w), axis=-1) * experts, axis=1)


@case(6, HEADS, HEADS, HEADS, small=(SMALL_HEADS,) * 3)
def linear_attention(p: Any, q: Any, k: Any, v: Any) -> Any:
    """Two feature maps, kᵀv, Σk, q·Σk and the product; who writes it by hand makes q·Σk a column of that product."""
    q, k = (p.where(x > 0, x + 1, p.exp(x)) for x in (q, k))
    return (q @ (turned(p, k) @ v)) / (q @ p.expand_dims(p.sum(k, axis=-2), axis=-1))


# attention --------------------------------------------------------------------------------------------------------
@case(3, HEADS, HEADS, HEADS, (512, 32), (512, 32), small=(*(SMALL_HEADS,) * 3, (6, 4), (6, 4)))
def rotated_attention(p: Any, q: Any, k: Any, v: Any, c: Any, s: Any) -> Any:
    """Each rotation once, since attention reads keys many times."""
    return softmax(p, scores(p, rotated(p, q, c, s), rotated(p, k, c, s))) @ v


@case(1, HEADS, HEADS, HEADS, (8,), small=(*(SMALL_HEADS,) * 3, (2,)))
def alibi(p: Any, q: Any, k: Any, v: Any, slope: Any) -> Any:
    n = q.shape[-2]
    i, j = p.reshape(p.arange(n), (n, 1)), p.reshape(p.arange(n), (1, n))
    s = scores(p, q, k) + p.reshape(slope, (-1, 1, 1)) * p.astype(j - i, q.dtype)
    return softmax(p, p.where(j <= i, s, p.asarray(-np.inf, dtype=q.dtype))) @ v


@case(1, HEADS, HEADS, HEADS, small=(SMALL_HEADS,) * 3)
def soft_cap(p: Any, q: Any, k: Any, v: Any) -> Any:
    return softmax(p, p.tanh(scores(p, q, k) / 5.0) * 5.0) @ v


@case(1, HEADS, HEADS, HEADS, (512, 512), small=(*(SMALL_HEADS,) * 3, (6, 6)))
def biased(p: Any, q: Any, k: Any, v: Any, b: Any) -> Any:
    return softmax(p, scores(p, q, k) + b) @ v


@case(1, HEADS, HEADS, HEADS, (2, 8, 512, 512), small=(*(SMALL_HEADS,) * 3, (1, 2, 6, 6)))
def dropped(p: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
    """The mask is read where a weight is made."""
    w = softmax(p, scores(p, q, k))
    return (w * p.astype(m > 0, w.dtype) * 2.0) @ v


@case(1, HEADS, (2, 8, 77, 64), (2, 8, 77, 64), small=(SMALL_HEADS, (1, 2, 5, 8), (1, 2, 5, 8)))
def cross_attention(p: Any, q: Any, k: Any, v: Any) -> Any:
    return softmax(p, scores(p, q, k)) @ v


@case(1, HEADS, (2, 1, 512, 64), (2, 1, 512, 64), small=((1, 4, 6, 8), (1, 1, 6, 8), (1, 1, 6, 8)))
def multi_query(p: Any, q: Any, k: Any, v: Any) -> Any:
    return softmax(p, scores(p, q, k)) @ v


def running_max(x: Tensor) -> Tensor:
    from tilewright.tensor.ops.reduction import cumulative_max as running

    out: Tensor = Tensor.of(running(x.node, axis=1))
    return out


def several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.many
@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    w = CASES[name]
    outs = several(w.function(xp, *(Tensor(np.zeros(s, "f")) for s in w.large)))
    assert len(call_list([o.node for o in outs]).calls) == w.kernels


@pytest.mark.many
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By kernels, also where an input holds NaN and another infinity."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    w = CASES[name]
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(s).astype("f") for s in w.small]
    strange = [x.copy() for x in given]
    strange[0].flat[3] = np.nan
    strange[-1].flat[1] = np.inf
    for arrays in (given, strange):
        outs = several(w.function(xp, *map(Tensor, arrays)))
        realise([o.node for o in outs])
        with np.errstate(all="ignore"):
            wanted = several(w.function(np, *(x.astype("d") for x in arrays)))
        for found, want in zip(outs, wanted, strict=True):
            top = np.max(np.abs(want), initial=1e-3, where=np.isfinite(want))
            np.testing.assert_allclose(found.numpy().astype("d"), want, rtol=1e-5, atol=1e-5 * top, err_msg=name)


@pytest.mark.many
def test_segments_are_summed_by_one_scatter() -> None:
    values, segments = rng_rows(40, 6), np.random.default_rng(2).integers(0, 5, 40)
    out = Tensor(np.zeros((5, 6), "f")).scatter_add(Tensor(segments, range=(0, 4)), Tensor(values))
    want = np.zeros((5, 6))
    np.add.at(want, segments, values.astype("d"))
    np.testing.assert_allclose(out.numpy(), want, atol=1e-5)


def rng_rows(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype("f")


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
