"""Sums of powers of differences from a mean, in one pass by Chan's merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from raw_kernels import Logits, M, N, Raw, agrees, both, components, fold_of, folded, numbers, wide
from tilewright.ir import (
    sqrt,
)

pytestmark = pytest.mark.many


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


def test_values_with_their_axes_in_another_order() -> None:
    """The states have one order: a merge replaces at once those that read each other."""
    r = Raw()
    x = r.input("x", M, N, 3)
    total = r.sum((M, 3), N, lambda i, c, j: x[i, j, c])

    def dev(i, c, j):
        return x[i, j, c] - total(i, c) / float(N)

    square = r.sum((3, M), N, lambda c, i, j: dev(i, c, j) * dev(i, c, j))
    r.store("y", (M, 3), lambda i, c: square(c, i) / float(N))
    kernel = folded(r.build(), True)
    inputs = numbers(kernel)
    agrees(kernel, inputs, {"y": wide(inputs)["x"].var(1)})
    fold = fold_of(kernel)
    assert len({fold.component(c).axes for c in components(kernel) if len(fold.component(c).axes) == 2}) == 1
