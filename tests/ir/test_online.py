"""What the rule derives beside attention: log-sum-exp and entropy of products, places of maxima, in one pass."""

from __future__ import annotations

import numpy as np
import pytest
from raw_kernels import C, Logits, M, N, Raw, agrees, both, components, folded, lse, numbers, softmax, wide
from tilewright.ir import (
    KernelBuilder,
    bool_,
    cast,
    exp,
    float32,
    float64,
    int32,
    int64,
    log,
    sym,
    where,
)
from tilewright.ir.evaluation import evaluate

pytestmark = pytest.mark.many
INF = float("inf")


@both
def test_log_sum_exp(product: bool) -> None:
    r = Logits(product)
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    r.store("y", (M,), lambda i: log(total(i)) + m(i))
    assert len(components(r.finished(y=lambda s, x: lse(s)))) == 2


def test_log_sum_exp_by_its_mean_instead_of_its_maximum() -> None:
    r = Logits()
    mean = r.sum((M,), N, r.at)
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - mean(i) / float(N)))
    r.store("y", (M,), lambda i: log(total(i)) + mean(i) / float(N))
    assert "count" in components(r.finished(y=lambda s, x: lse(s)))


def test_cross_entropy_of_a_product() -> None:
    """The label's logit is a sum of its own, and no logits are in memory."""
    r = Logits()
    h, w = r.kb._buffers[:2]
    label = r.input("label", M, dtype=int64, range=(0, N - 1))
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    own = r.sum((M,), C, lambda i, e: h[i, e] * w[label[i], e])
    r.store("y", (M,), lambda i: log(total(i)) + m(i) - own(i))
    kernel = r.finished(y=lambda s, x: lse(s) - s[np.arange(M), x["label"]])
    assert len(components(kernel)) == 2 and "r3" in kernel.values


@both
@pytest.mark.parametrize("how", ["logits", "logarithm"])
def test_entropy_of_a_softmax(product: bool, how: str) -> None:
    """−Σ p·log p: products of a difference and its exponential."""
    r = Logits(product)
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))

    def p(i, j):
        return exp(r.at(i, j) - m(i)) / total(i)

    def log_p(i, j):
        return r.at(i, j) - m(i) - log(total(i)) if how == "logits" else log(p(i, j))

    out = r.sum((M,), N, lambda i, j: p(i, j) * log_p(i, j))
    r.store("y", (M,), lambda i: -out(i))
    kernel = r.finished(y=lambda s, x: -(softmax(s) * np.log(softmax(s))).sum(-1))
    assert len(components(kernel)) == 3  # the maximum, Σ e and Σ e·(s − m)


def test_mean_and_variance_under_a_softmax() -> None:
    r = Logits()
    v = r.input("v", N, 3)
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))

    def p(i, j):
        return exp(r.at(i, j) - m(i)) / total(i)

    mean = r.sum((M, 3), N, lambda i, c, j: p(i, j) * v[j, c])
    var = r.sum((M, 3), N, lambda i, c, j: p(i, j) * (v[j, c] - mean(i, c)) * (v[j, c] - mean(i, c)))
    r.store("y", (M, 3), lambda i, c: var(i, c))

    def want(s, x):
        mu = softmax(s) @ x["v"]
        return (softmax(s)[:, :, None] * (x["v"][None] - mu[:, None]) ** 2).sum(1)

    assert len(components(r.finished(y=want))) == 4


def test_distance_of_two_softmaxes() -> None:
    """Kullback and Leibler's divergence of two products over one axis: two maxima, two sums, and products of both."""
    r = Logits()
    g = r.input("g", M, C)
    w = r.kb._buffers[1]
    other = r.sum((M, N), C, lambda i, j, e: g[i, e] * w[j, e])
    m, n = r.top(), r.max((M,), N, other)
    a = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    b = r.sum((M,), N, lambda i, j: exp(other(i, j) - n(i)))

    def element(i, j):
        return exp(r.at(i, j) - m(i)) / a(i) * ((r.at(i, j) - m(i) - log(a(i))) - (other(i, j) - n(i) - log(b(i))))

    out = r.sum((M,), N, element)
    r.store("y", (M,), out)

    def want(s, x):
        p, q = softmax(s), softmax(x["g"] @ x["w"].T)
        return (p * np.log(p / q)).sum(-1)

    r.finished(y=want)


@both
def test_largest_probability(product: bool) -> None:
    r = Logits(product)
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    best = r.max((M,), N, lambda i, j: exp(r.at(i, j) - m(i)) / total(i))
    r.store("y", (M,), best)
    r.finished(y=lambda s, x: softmax(s).max(-1))


def test_what_is_added_to_a_maximum_leaves_it() -> None:
    r = Logits()
    total = r.sum((M,), N, r.at)
    best = r.max((M,), N, lambda i, j: where(j < i + 3, r.at(i, j) - total(i), -INF))
    r.store("y", (M,), best)
    seen = np.arange(N)[None, :] < np.arange(M)[:, None] + 3
    r.finished(y=lambda s, x: np.where(seen, s - s.sum(-1, keepdims=True), -np.inf).max(-1))


@both
@pytest.mark.parametrize("nan", [False, True])
def test_argmax(product: bool, nan: bool) -> None:
    r = Logits(product)
    m = r.top()

    def element(i, j):
        x = r.at(i, j)
        return where(x.eq(m(i)) | x.ne(x) if nan else x.eq(m(i)), cast(j, int32), 2**31 - 1)

    at = r.reduce("min", (M,), N, element)
    r.store("y", (M,), at, int32)
    r.finished(y=lambda s, x: s.argmax(-1))


def test_how_often_the_minimum_occurs() -> None:
    r = Raw()
    x = r.input("x", M, N, dtype=int32, range=(0, 3))
    low = r.reduce("min", (M,), N, lambda i, j: x[i, j])
    times = r.sum((M,), N, lambda i, j: where(x[i, j].eq(low(i)), cast(j * 0 + 1, int32), 0))
    r.store("y", (M,), times, int32)
    kernel = folded(r.build(), True)
    inputs = numbers(kernel)
    agrees(kernel, inputs, {"y": (inputs["x"] == inputs["x"].min(-1, keepdims=True)).sum(-1)})


@pytest.mark.parametrize("n", [1, 2, 0])
def test_short_rows(n: int) -> None:
    r = Raw()
    h, w = r.input("h", M, C), r.input("w", n, C)
    s = r.sum((M, n), C, lambda i, j, e: h[i, e] * w[j, e])
    m = r.max((M,), n, s)
    total = r.sum((M,), n, lambda i, j: exp(s(i, j) - m(i)))
    r.store("y", (M,), total)
    kernel = folded(r.build())
    x = wide(numbers(kernel))
    want = np.exp(x["h"] @ x["w"].T - (x["h"] @ x["w"].T).max(-1, keepdims=True)).sum(-1) if n else np.zeros(M)
    agrees(kernel, x, {"y": want})


def test_float64_and_a_mask_of_bools() -> None:
    r = Raw()
    h, w = r.input("h", M, C, dtype=float64), r.input("w", N, C, dtype=float64)
    seen = r.input("seen", M, N, dtype=bool_)
    s = r.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])

    def score(i, j):
        return where(seen[i, j] | j.eq(N - 1), s(i, j), -INF)

    m = r.max((M,), N, score)
    total = r.sum((M,), N, lambda i, j: exp(score(i, j) - m(i)))
    r.store("y", (M,), lambda i: log(total(i)) + m(i), float64)
    kernel = folded(r.build())
    x = numbers(kernel, scale=30.0)
    shown = x["seen"] | (np.arange(N) == N - 1)
    want = np.where(shown, x["h"] @ x["w"].T, -np.inf)
    agrees(kernel, x, {"y": np.logaddexp.reduce(want, axis=-1)})


def test_two_axes_at_once() -> None:
    """A sum over two axes of which the fold cuts one."""
    r = Raw()
    h, w = r.input("h", M, 3, C), r.input("w", N, C)
    s = r.sum((M, 3, N), C, lambda i, g, j, e: h[i, g, e] * w[j, e])
    m = r.max((M,), (3, N), lambda i, g, j: s(i, g, j))
    total = r.sum((M,), (3, N), lambda i, g, j: exp(s(i, g, j) - m(i)))
    r.store("y", (M,), lambda i: log(total(i)) + m(i))
    kernel = folded(r.build())
    inputs = numbers(kernel)
    x = wide(inputs)
    agrees(kernel, inputs, {"y": lse((x["h"] @ x["w"].T).reshape(M, -1))})


def test_symbolic_rows() -> None:
    n = sym("n", 1, 64)
    kb = KernelBuilder("k")
    x = kb.input("x", (M, n), float32)
    i, j, i2, j2, i3 = kb.axis("i", M), kb.axis("j", n), kb.axis("i2", M), kb.axis("j2", n), kb.axis("i3", M)
    total = kb.sum("total", (i,), j, x[i, j])
    dev = x[i2, j2] - total[i2] / cast(n, float32)
    square = kb.sum("square", (i2,), j2, dev * dev)
    kb.store("y", float32, (M,), (i3,), square[i3] / cast(n, float32))
    kernel = folded(kb.build(), True)
    assert len(components(kernel)) == 3
    a = np.random.default_rng(0).standard_normal((M, 19)).astype(np.float32)
    for tile in (None, 1, 7):
        got = evaluate(kernel, {"x": a}, {"n": 19}, tile=tile)["y"]
        np.testing.assert_allclose(got, a.astype(np.float64).var(-1), rtol=1e-9)


def test_the_mean_loss_is_summed_after_the_fold() -> None:
    """Rows are a chain of their own, over which nothing is folded."""
    r = Logits()
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    mean = r.sum((), M, lambda i: log(total(i)) + m(i))
    r.store("y", (), lambda: mean() / float(M))
    kernel = r.finished(y=lambda s, x: lse(s).mean())
    assert components(kernel) == ("r1", "r2")


def test_a_product_of_a_function_of_a_product() -> None:
    """As in attention's gradients: weights from a known log-sum-exp need no rescaling, and no memory."""
    r = Logits()
    v, known = r.input("v", N, 3), r.input("known", M)
    out = r.sum((M, 3), N, lambda i, c, j: exp(r.at(i, j) - known[i]) * v[j, c])
    r.store("y", (M, 3), out)
    assert len(components(r.finished(y=lambda s, x: np.exp(s - x["known"][:, None]) @ x["v"]))) == 1
