"""What else the rule derives: statistics of products and of rows in one pass; and what it leaves, with its reasons."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from raw_kernels import Raw, agrees, fold_of, folded, numbers, wide
from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    bool_,
    cast,
    exp,
    float32,
    float64,
    int32,
    int64,
    log,
    maximum,
    sqrt,
    sym,
    tanh,
    where,
)
from tilewright.ir.evaluation.reference import evaluate
from tilewright.tensor.online import NoFold, online

M, N, C = 6, 23, 5
INF = float("inf")


class Logits(Raw):
    """h @ w.T, or rows x in memory, called with (row, column)."""

    def __init__(self, product: bool = True) -> None:
        super().__init__()
        self.rows = not product
        if product:
            h, w = self.input("h", M, C), self.input("w", N, C)
            self.at = self.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])
        else:
            x = self.input("x", M, N)
            self.at = lambda i, j: x[i, j]

    def top(self) -> Any:
        """Its maximum."""
        return self.max((M,), N, self.at)

    def finished(self, **want: Any) -> Kernel:
        """The derived kernel, checked: `want` are functions of the logits and of all inputs, in float64."""
        kernel = folded(self.build(), self.rows)
        inputs = numbers(kernel)
        x = wide(inputs)
        s = x["x"] if self.rows else x["h"] @ x["w"].T
        agrees(kernel, inputs, {n: f(s, x) for n, f in want.items()})
        return kernel


def components(kernel: Kernel) -> tuple[str, ...]:
    return fold_of(kernel).components


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lse(s: Any) -> Any:
    return np.log(np.exp(s).sum(-1))


both = pytest.mark.parametrize("product", [True, False], ids=["product", "rows"])


# log-sum-exp and what comes of it ------------------------------------------------------------------------------------
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


# moments -------------------------------------------------------------------------------------------------------------
def means(r: Logits, at: Any = None) -> Any:
    total = r.sum((M,), N, at or r.at)
    return lambda i: total(i) * (1.0 / N)


@both
def test_variance_is_chans_merge(product: bool) -> None:
    r = Logits(product)
    mean = means(r)
    square = r.sum((M,), N, lambda i, j: (r.at(i, j) - mean(i)) * (r.at(i, j) - mean(i)))
    r.store("mean", (M,), mean)
    r.store("y", (M,), lambda i: 1.0 / sqrt(square(i) * (1.0 / N) + 1e-5))
    kernel = folded(r.build(), not product)
    inputs = numbers(kernel)
    x = wide(inputs)
    s = x["h"] @ x["w"].T if product else x["x"]
    agrees(kernel, inputs, {"y": 1 / np.sqrt(s.var(-1) + 1e-5), "mean": s.mean(-1)}, 1e-6)
    assert len(components(kernel)) == 3


def test_variance_of_numbers_far_from_zero() -> None:
    """Each tile's differences are from its own mean: no digits cancel, as they do between sums of squares."""
    r = Logits(False)
    total = r.sum((M,), N, r.at)
    square = r.sum((M,), N, lambda i, j: (r.at(i, j) - total(i) / float(N)) * (r.at(i, j) - total(i) / float(N)))
    r.store("y", (M,), lambda i: square(i) / float(N))
    kernel = folded(r.build(), True)
    inputs = {"x": (numbers(kernel)["x"] + np.float32(2.0**20)).astype(np.float32)}
    agrees(kernel, inputs, {"y": inputs["x"].astype(np.float64).var(-1)}, 1e-9)


@both
def test_higher_moments(product: bool) -> None:
    r = Logits(product)
    total = r.sum((M,), N, r.at)

    def dev(i, j):
        return r.at(i, j) - total(i) / float(N)

    two = r.sum((M,), N, lambda i, j: dev(i, j) * dev(i, j))

    def z(i, j):
        return dev(i, j) / sqrt(two(i) / float(N))

    three = r.sum((M,), N, lambda i, j: z(i, j) * z(i, j) * z(i, j))
    four = r.sum((M,), N, lambda i, j: (z(i, j) * z(i, j)) * (z(i, j) * z(i, j)))
    r.store("skew", (M,), lambda i: three(i) / float(N))
    r.store("kurt", (M,), lambda i: four(i) / float(N))

    def moment(s, k):
        return (((s - s.mean(-1, keepdims=True)) / s.std(-1, keepdims=True)) ** k).mean(-1)

    kernel = r.finished(skew=lambda s, x: moment(s, 3), kurt=lambda s, x: moment(s, 4))
    assert len(components(kernel)) == 5  # count, total, and the second to the fourth


def test_covariance() -> None:
    r = Logits(False)
    z = r.input("z", M, N)
    a, b = r.sum((M,), N, r.at), r.sum((M,), N, lambda i, j: z[i, j])
    cov = r.sum((M,), N, lambda i, j: (r.at(i, j) - a(i) / float(N)) * (z[i, j] - b(i) / float(N)))
    r.store("y", (M,), lambda i: cov(i) / float(N - 1))
    kernel = r.finished(y=lambda s, x: np.array([np.cov(p, q)[0, 1] for p, q in zip(s, x["z"])]))
    assert len(components(kernel)) == 4


def test_weighted_mean_and_variance() -> None:
    r = Logits(False)
    w = r.input("weight", M, N)

    def weight(i, j):
        return w[i, j] * w[i, j]

    n = r.sum((M,), N, weight)
    total = r.sum((M,), N, lambda i, j: weight(i, j) * r.at(i, j))
    var = r.sum((M,), N, lambda i, j: weight(i, j) * ((r.at(i, j) - total(i) / n(i)) * (r.at(i, j) - total(i) / n(i))))
    r.store("mean", (M,), lambda i: total(i) / n(i))
    r.store("y", (M,), lambda i: var(i) / n(i))

    def mean(s, x, about=0.0, k=1):
        return np.average((s - np.reshape(about, (-1, 1))) ** k, axis=-1, weights=x["weight"] ** 2)

    kernel = r.finished(mean=mean, y=lambda s, x: mean(s, x, mean(s, x), 2))
    assert len(components(kernel)) == 3


def test_layernorm_into_a_product() -> None:
    """Σ ((x − mean)·rstd·g)·w: the mean and rstd are known only after the row, and the row is read once."""
    r = Logits(False)
    g, w = r.input("g", N), r.input("w", N, 4)
    total = r.sum((M,), N, r.at)

    def dev(i, j):
        return r.at(i, j) - total(i) / float(N)

    square = r.sum((M,), N, lambda i, j: dev(i, j) * dev(i, j))
    out = r.sum((M, 4), N, lambda i, o, j: dev(i, j) * (1.0 / sqrt(square(i) / float(N) + 0.5)) * g[j] * w[j, o])
    r.store("y", (M, 4), out)

    def want(s, x):
        return ((s - s.mean(-1, keepdims=True)) / np.sqrt(s.var(-1, keepdims=True) + 0.5) * x["g"]) @ x["w"]

    r.finished(y=want)


# maxima, places and counts -------------------------------------------------------------------------------------------
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


# what is left alone --------------------------------------------------------------------------------------------------
def refused(r: Raw, rows: bool = False) -> str:
    found = online(r.build(), rows)
    assert isinstance(found, NoFold) and not found
    return found.reason


def test_rows_in_memory_are_left_unless_asked_for() -> None:
    r = Logits(False)
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    r.store("y", (M,), lambda i: log(total(i)) + m(i))
    assert "spans the axis" in refused(r)


def test_products_alone() -> None:
    r = Logits()
    v = r.input("v", N, 4)
    out = r.sum((M, 4), N, lambda i, c, j: r.at(i, j) * v[j, c])
    r.store("y", (M, 4), out)
    assert "two kernels are faster" in refused(r)


def test_no_reduction_and_a_fold() -> None:
    r = Raw()
    x = r.input("x", 4)
    r.store("y", (4,), lambda i: x[i] + 1.0)
    assert "no reduction" in refused(r)
    r = Logits()
    m = r.top()
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - m(i)))
    r.store("y", (M,), total)
    found = online(folded(r.build()))
    assert isinstance(found, NoFold) and "already" in found.reason


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (lambda s, m: tanh(s - m), "tanh"),
        (lambda s, m: absolute(s - m), "abs"),
        (lambda s, m: exp(s * m), "at once"),
        (lambda s, m: exp(tanh(s - m)), "at once"),
        (lambda s, m: s / (s - m), "cannot|depends on an earlier"),
        (lambda s, m: where(s < m, s, 0.0), "condition"),
        (lambda s, m: where(s.eq(m), s, 1.0), "must be 0"),
        (lambda s, m: maximum(s, m), "max"),
        (lambda s, m: (s - m * m) * (s - m * m), "nearly equal"),
        (lambda s, m: log(s - m), "logarithm"),
        (lambda s, m: log(s * m), "may be negative"),
    ],
)
def test_inseparable(element: Any, reason: str) -> None:
    r = Logits()
    m = r.top()
    total = r.sum((M,), N, lambda i, j: element(r.at(i, j), m(i)))
    r.store("y", (M,), total)
    assert re.search(reason, refused(r))


def test_what_keeps_the_product_in_memory() -> None:
    r = Logits()
    m = r.top()
    r.store("y", (M, N), lambda i, j: r.at(i, j) - m(i))
    assert "has to be in memory" in refused(r)


def test_products_over_results_and_results_at_other_places() -> None:
    r = Logits()
    m = r.top()
    out = r.reduce("mul", (M,), N, lambda i, j: r.at(i, j) - m(i))
    r.store("y", (M,), out)
    assert "product over elements" in refused(r)
    r = Logits()
    m = r.top()
    out = r.sum((M - 1,), N, lambda i, j: exp(r.at(i, j) - m(i + 1)))
    r.store("y", (M - 1,), out)
    assert "another place" in refused(r)


def test_a_reduction_between() -> None:
    """The maximum over all rows lies between a row's maxima and its sums."""
    r = Logits()
    m = r.top()
    best = r.max((), M, m)
    total = r.sum((M,), N, lambda i, j: exp(r.at(i, j) - best()))
    r.store("y", (M,), total)
    assert "lies between" in refused(r)


def test_ranks_and_medians() -> None:
    """Ranks compare elements with each other: no product, so nothing is saved that memory would need."""
    r = Raw()
    x = r.input("x", M, N)
    rank = r.sum((M, N), N, lambda i, j, k: where(x[i, k] < x[i, j], 1.0, 0.0))
    out = r.sum((M,), N, lambda i, j: where(rank(i, j).eq(float(N // 2)), x[i, j], 0.0))
    r.store("y", (M,), out)
    assert "spans the axis" in refused(r)


def test_a_running_sum() -> None:
    kb = KernelBuilder("k")
    i, j, e, i2, j2, i3, j3 = (kb.axis(f"a{n}", s) for n, s in enumerate((M, N, C, M, N, M, N)))
    h, w = kb.input("h", (M, C), float32), kb.input("w", (N, C), float32)
    s = kb.sum("s", (i, j), e, h[i, e] * w[j, e])
    run = kb.scan("add", "run", (i2, j2), j2, s[i2, j2])
    top = kb.max("top", (i3,), j3, run[i3, j3])
    kb.store("y", float32, (M,), (i,), top[i])
    found = online(kb.build())
    assert isinstance(found, NoFold)


# shapes --------------------------------------------------------------------------------------------------------------
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
