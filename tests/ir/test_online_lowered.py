"""Derived folds run as written: whole and in tiles, lowered and interpreted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checks import check_floats, check_twin
from raw_kernels import Raw, fold_of, folded
from tilewright import targets
from tilewright.ir import Kernel, cast, exp, int32, log, where
from tilewright.ir.normal_form import normalise
from tilewright.opts import parse

TARGET = targets.named("cascadelake")
M, N, C = 6, 21, 5
pytestmark = pytest.mark.many
KERNELS: dict[str, Callable[[], Kernel]] = {}


def kernel(make: Callable[[], Kernel]) -> Callable[[], Kernel]:
    KERNELS[make.__name__] = make
    return make


@kernel
def entropy() -> Kernel:
    """Log-sum-exp and entropy of the softmax of a product, under a mask."""
    r = Raw()
    h, w = r.input("h", M, C), r.input("w", N, C)
    dot = r.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])
    s = lambda i, j: where(j < i + 9, dot(i, j), float("-inf"))  # noqa: E731
    m = r.max((M,), N, s)
    total = r.sum((M,), N, lambda i, j: exp(s(i, j) - m(i)))
    p = lambda i, j: exp(s(i, j) - m(i)) / total(i)  # noqa: E731
    out = r.sum((M,), N, lambda i, j: p(i, j) * (dot(i, j) - m(i) - log(total(i))))
    r.store("lse", (M,), lambda i: log(total(i)) + m(i))
    r.store("y", (M,), out)
    return r.build()


@kernel
def moments() -> Kernel:
    """Mean, variance and third moment of rows."""
    r = Raw()
    x = r.input("x", M, N)
    total = r.sum((M,), N, lambda i, j: x[i, j])
    d = lambda i, j: x[i, j] - total(i) / float(N)  # noqa: E731
    two = r.sum((M,), N, lambda i, j: d(i, j) * d(i, j))
    three = r.sum((M,), N, lambda i, j: d(i, j) * d(i, j) * d(i, j))
    r.store("mean", (M,), lambda i: total(i) / float(N))
    r.store("var", (M,), lambda i: two(i) / float(N))
    r.store("third", (M,), lambda i: three(i) / float(N))
    return r.build()


@kernel
def argmax() -> Kernel:
    """The largest element of a product, and where it is."""
    r = Raw()
    h, w = r.input("h", M, C), r.input("w", N, C)
    s = r.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])
    m = r.max((M,), N, s)
    at = r.reduce("min", (M,), N, lambda i, j: where(s(i, j).eq(m(i)), cast(j, int32), 2**31 - 1))
    r.store("y", (M,), at, int32)
    r.store("best", (M,), m)
    return r.build()


@pytest.mark.parametrize("opts", [[], [["TILE", "j", 8]], [["TILE", "j", 4], ["UPCAST", "i", 2]]], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_lowered(name: str, opts: list[list[object]]) -> None:
    made = normalise(folded(KERNELS[name](), rows=True))
    fold = fold_of(made)
    names = {"j": fold.axis.arg.name, "i": fold.component(fold.components[0]).axes[0].arg.name}
    given = parse([[op, names[str(on)], n] for op, on, n in opts])
    check_floats(made, given, TARGET)

    check_twin(made, given, TARGET)
