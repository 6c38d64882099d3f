"""Parts of kernels whose values are read at shifted places: equal to the same part of the whole, and as small as they can be."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32, float64, int32, maximum, minimum, sqrt
from tilewright.ir.dtypes import DType
from tilewright.ir.evaluation import evaluate_error, evaluate_kinds, evaluate_points
from tilewright.ir.evaluation.algebra import Algebra
from tilewright.ir.evaluation.array_math import ProductLayout, _matrices, contract, contract_exact
from tilewright.ir.evaluation.dense import Env
from tilewright.ir.evaluation.reference import checked_inputs
from tilewright.ir.evaluation.sampling import FIRST, RUN, reached, sampled_slices
from tilewright.ir.evaluation.stores import families, needed
from tilewright.measure.inputs import generate


def clamped(h: int, w: int) -> Kernel:
    """Two stencils, one after the other, with clamped borders."""
    kb = KernelBuilder("clamped")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    near = [(maximum(minimum(i + d, h - 1), 0), maximum(minimum(j - d, w - 1), 0)) for d in (-2, 0, 1)]
    a = kb.value("a", (i, j), sum(x[p, q] for p, q in near))
    kb.store("y", float32, (h, w), (i, j), a[near[0]] * a[near[2]] + a[i, j])
    return kb.build()


def wrapped(n: int, m: int) -> Kernel:
    """A stencil on a torus over another."""
    kb = KernelBuilder("wrapped")
    i, j = kb.axis("n", n), kb.axis("m", m)
    x = kb.input("x", (n, m), float32)
    a = kb.value("a", (i, j), x[(i + n - 1) % n, j] - x[i, j])
    kb.store("y", float32, (n, m), (i, j), a[i, (j + 1) % m] - a[(i + 1) % n, j])
    return kb.build()


def standardised(n: int, m: int) -> Kernel:
    """Columns and a total, which every part of the output needs all of."""
    kb = KernelBuilder("standardised")
    i, j = kb.axis("n", n), kb.axis("m", m)
    r, s, t = kb.axis("n@r", n), kb.axis("n@s", n), kb.axis("m@s", m)
    x = kb.input("x", (n, m), float32)
    top = kb.max("top", (j,), r, x[r, j])
    total = kb.sum("total", (), (s, t), exp(x[s, t] - top[t]))
    kb.store("y", float32, (n, m), (i, j), exp(x[i, j] - top[j]) / total[()])
    return kb.build()


def two_products(n: int, m: int) -> Kernel:
    """(A B) (C D): no axis that both inner products have."""
    kb = KernelBuilder("two_products")
    i, j, k, p, q = kb.axis("n", n), kb.axis("m", m), kb.axis("k", 7), kb.axis("p", 5), kb.axis("q", 6)
    a, b = kb.input("a", (n, 5), float32), kb.input("b", (5, 7), float32)
    c, d = kb.input("c", (7, 6), float32), kb.input("d", (6, m), float32)
    left = kb.sum("left", (i, k), p, a[i, p] * b[p, k])
    l = kb.axis("k@2", 7)
    right = kb.sum("right", (l, j), q, c[l, q] * d[q, j])
    s = kb.axis("k@3", 7)
    kb.store("y", float32, (n, m), (i, j), kb.sum("both", (i, j), s, left[i, s] * right[s, j])[i, j])
    return kb.build()


def running(n: int, m: int) -> Kernel:
    """Differences of a running sum, and what data picks of it."""
    kb = KernelBuilder("running")
    i, j = kb.axis("n", n), kb.axis("m", m)
    x = kb.input("x", (n, m), float32)
    at = kb.input("at", (n,), int32, range=(0, m - 1))
    up = kb.scan("add", "up", (i, j), j, x[i, j])
    kb.store("y", float32, (n, m), (i, j), up[i, minimum(j + 3, m - 1)] - up[i, at[i]])
    return kb.build()


CASES = [clamped(37, 53), wrapped(41, 19), standardised(23, 31), two_products(29, 33), running(34, 21)]


@pytest.mark.parametrize("kernel", CASES, ids=lambda k: k.name)
def test_points_are_parts_of_the_whole(kernel: Kernel) -> None:
    inputs = generate(kernel, {}, 1)
    value, scale = evaluate_error(kernel, inputs)["y"]
    at, some, scales = evaluate_points(kernel, inputs, 40, 2)["y"]
    assert len(at) > 20 and at[0] == 0 and at[-1] == value.size - 1, "the first point and the last are among them"
    np.testing.assert_allclose(some, value.reshape(-1)[at], rtol=1e-12)
    np.testing.assert_allclose(scales, scale.reshape(-1)[at], rtol=1e-9)


@pytest.mark.parametrize("kernel", [clamped(1000, 6), wrapped(900, 5)], ids=lambda k: k.name)
def test_slices_are_parts_of_the_whole(kernel: Kernel) -> None:
    inputs = generate(kernel, {}, 1)
    inputs["x"][::97, ::3] = np.inf
    slices = sampled_slices(kernel, inputs, {}, 0.1, 3)
    assert slices is not None
    seen = reached(kernel, inputs, {}, slices)["y"]
    assert 0.05 < seen.mean() < 0.4
    whole, part = (evaluate_kinds(kernel, inputs, slices=s)["y"] for s in (None, slices))
    np.testing.assert_array_equal(part[0].reshape(-1)[seen], whole[0].reshape(-1)[seen])


def test_a_part_needs_its_border_of_what_it_reads() -> None:
    kernel = clamped(100, 100)
    env = Env(Algebra(), checked_inputs(kernel, generate(kernel, {}, 1), {}), {})
    assert families(kernel, env) == [("h", 100), ("w", 100)]
    assert needed(kernel, env, {"h": (40, 42), "w": (0, 1)}) == {"a": {"h": (38, 43), "w": (0, 3)}}
    assert needed(kernel, env, {"h": (99, 100)}) == {"a": {"h": (97, 100)}}, "clamped, and all columns"


def test_what_every_part_needs_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.ir.evaluation import values

    seen: list[str] = []
    before = values.compute
    monkeypatch.setattr(values, "compute", lambda env, v, ranges: (seen.append(v.name), before(env, v, ranges))[1])
    kernel = standardised(23, 31)
    evaluate_points(kernel, generate(kernel, {}, 1), 40, 2)
    assert seen.count("total") == 1


def test_scatters_are_not_cut_where_values_do_not_share_the_axis() -> None:
    kb = KernelBuilder("spread")
    i, k = kb.axis("n", 50), kb.axis("n@2", 50)
    x = kb.input("x", (50,), float32)
    bins = kb.input("bins", (50,), int32, range=(0, 3))
    top = kb.max("top", (), k, x[k])
    kb.store("y", float32, (4,), (i,), x[i] / top[()], indices=(bins[i],), combine="add")
    kernel = kb.build()
    env = Env(Algebra(), checked_inputs(kernel, generate(kernel, {}, 1), {}), {})
    assert families(kernel, env) == []


# Parts of large kernels for references: how many there are, and that they are as much as was asked for.


N = 1 << 17


def thirds(n: int = N) -> Kernel:
    """Points of three numbers: an outer axis with little behind each place."""
    kb = KernelBuilder("thirds")
    i, c = kb.axis("n", n), kb.axis("c", 3)
    kb.store("y", float32, (n, 3), (i, c), kb.input("x", (n, 3), float32)[i, c] * 2.0)
    return kb.build()


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3])
def test_slices_are_few_and_reach_the_share_that_was_asked_for(share: float) -> None:
    """Each costs NumPy's calls: thousands of short ones once took a minute."""
    inputs = {"x": np.zeros((N, 3), np.float32)}
    slices = sampled_slices(thirds(), inputs, {}, share, 1)
    assert slices is not None and len(slices) <= 70
    spans = [s["n"] for s in slices]
    assert spans[0] == (0, FIRST) and spans[-1][1] == N, "the first places and the last"
    assert all(lo % RUN == 0 and a[1] <= lo for a, (lo, _) in pairwise(spans)), "whole runs that do not overlap"
    seen = reached(thirds(), inputs, {}, slices)["y"].mean()
    assert share / 2 < seen < 2 * share
    assert sampled_slices(thirds(), inputs, {}, share, 2) != slices, "others with another seed"


def test_most_of_it_is_all_of_it() -> None:
    assert sampled_slices(thirds(), {"x": np.zeros((N, 3), np.float32)}, {}, 0.6, 1) is None


# Sums of products as matrix products: along what only one factor varies, that one is added up before.


def drawn(r: random.Random) -> tuple[ProductLayout, list[int], list[int]]:
    """A layout, and the shapes of two factors that vary along some of it."""
    shape = [r.choice([1, 2, 3, 4]) for _ in range(r.randint(1, 6))]
    x, y = ([n if r.random() < 0.6 else 1 for n in shape] for _ in range(2))
    return ProductLayout(tuple(shape), r.randint(0, len(shape))), x, y


def summed(x: np.ndarray, y: np.ndarray, layout: ProductLayout) -> np.ndarray:
    """Every product by itself, in the type of the factors or in Python's integers."""
    products = x * y
    whole = (*products.shape[: layout.spatial], *layout.shape[layout.spatial :])
    return np.asarray(np.broadcast_to(products, whole).sum(axis=tuple(range(layout.spatial, len(layout.shape)))))


def test_sums_of_products() -> None:
    r, rng = random.Random(1), np.random.default_rng(1)
    for _ in range(200):
        layout, sx, sy = drawn(r)
        x, y = rng.standard_normal(sx), rng.standard_normal(sy)
        got, want = contract(x, y, layout), summed(x, y, layout)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_integers_wrap(dtype: str) -> None:
    r, rng, ends = random.Random(2), np.random.default_rng(2), np.iinfo(dtype)
    for _ in range(100):
        layout, sx, sy = drawn(r)
        x, y = (rng.integers(ends.min, ends.max, s, dtype=dtype, endpoint=True) for s in (sx, sy))
        got = contract_exact(x, y, layout, np.dtype(np.int32)).reshape(-1)
        want = summed(x.astype(object), y.astype(object), layout).reshape(-1)
        assert [int(g) % 2**32 for g in got] == [int(w) % 2**32 for w in want]


def test_a_chain_makes_no_array_over_all_that_is_summed() -> None:
    """Σ ab[i, j, k]·cd[k, l, m] over j, k and l meets along k alone."""
    x, y = np.ones((5, 1, 7, 3, 1)), np.ones((1, 6, 1, 3, 9))
    left, right, _ = _matrices(x, y, ProductLayout((5, 6, 7, 3, 9), 2))
    assert left.shape == (1, 5, 3) and right.shape == (1, 3, 6)
    assert (contract(x, y, ProductLayout((5, 6, 7, 3, 9), 2)) == 7 * 3 * 9).all()


# What is certain to the bit: a difference of equal products is 0, and its root too, in every schedule.


def kernel(kind: DType, summed: bool) -> Kernel:
    kb = KernelBuilder("k")
    i, j = kb.axis("i", 16), kb.axis("j", 8)
    x, y = (kb.input(n, (16, 8), kind) for n in "xy")

    def difference(a: Node, b: Node) -> Node:
        return a * a - b * b

    if summed:
        total = [kb.sum(n, (i,), j, v[i, j] * v[i, j])[i] for n, v in (("p", x), ("q", y))]
        kb.store("out", kind, (16,), (i,), sqrt(total[0] - total[1]))
    else:
        kb.store("out", kind, (16, 8), (i, j), sqrt(difference(x[i, j], y[i, j])))
    return kb.build()


@pytest.mark.parametrize("kind", [float32, float64])
def test_the_root_of_a_difference_of_equal_products_is_zero(kind: DType) -> None:
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(kind.np)
    value, scale, loose, unsure = evaluate_kinds(kernel(kind, False), {"x": x, "y": -x})["out"]
    assert loose is None or not loose.any()
    assert not value.any() and np.max(scale) * kind.eps < 1e-40 and (unsure is None or not unsure.any())


def test_of_sums_nothing_is_certain() -> None:
    """Their order is free."""
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    _, _, loose, _ = evaluate_kinds(kernel(float32, True), {"x": x, "y": -x})["out"]
    assert loose is not None and loose.all()


def test_values_are_those_of_the_type() -> None:
    """1 + 2⁻³⁰ − 1 is 0 in float32."""
    kb = KernelBuilder("k")
    i = kb.axis("i", 2)
    x = kb.input("x", (2,), float32)[i]
    kb.store("out", float32, (2,), (i,), (x + 1.0) - 1.0)
    value, scale, _, _ = evaluate_kinds(kb.build(), {"x": np.array([2.0**-30, 0.5], np.float32)})["out"]
    np.testing.assert_array_equal(value, [0.0, 0.5])
    assert not np.any(scale)
