"""What the rule leaves alone, and the reasons that users read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from raw_kernels import C, Logits, M, N, Raw, folded
from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    exp,
    float32,
    int32,
    log,
    maximum,
    tanh,
    where,
)
from tilewright.ir.online import NoFold, online

INF = float("inf")


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
    assert isinstance(online(r.build(), products=True), Kernel)


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


def test_a_product_of_a_product_between() -> None:
    """The first product is one kernel, and the second one's chain another; neither axis is folded over both."""
    r = Logits()
    u = r.input("u", M, 3)
    second = r.sum((N, 3), M, lambda j, c, i: r.at(i, j) * u[i, c])
    m = r.max((3,), N, lambda c, j: second(j, c))
    total = r.sum((3,), N, lambda c, j: exp(second(j, c) - m(c)))
    r.store("y", (3,), total)
    assert "two kernels are faster" in refused(r)


def test_argmax_of_rows_is_one_pass() -> None:
    """The only chain over rows in memory that is folded without being asked for."""
    r = Logits(False)
    m = r.top()
    at = r.reduce("min", (M,), N, lambda i, j: where(r.at(i, j).eq(m(i)), cast(j, int32), 2**31 - 1))
    r.store("y", (M,), at, int32)
    assert isinstance(online(r.build()), Kernel)


def test_reasons_stay_short() -> None:
    """An expression that would be written out a million times over is named by its operator."""
    r = Logits()
    m = r.top()

    def element(i, j):
        x = tanh(r.at(i, j) - m(i))
        for _ in range(20):
            x = x * x
        return absolute(x)

    r.store("y", (M,), r.sum((M,), N, element))
    assert len(refused(r)) < 200
