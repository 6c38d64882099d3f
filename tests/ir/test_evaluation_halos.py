"""Parts of kernels whose values are read at shifted places: equal to the same part of the whole, and as small as they can be."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.ir import Kernel, KernelBuilder, exp, float32, int32, maximum, minimum
from tilewright.ir.evaluation import evaluate_error, evaluate_kinds, evaluate_points
from tilewright.ir.evaluation.algebra import Algebra
from tilewright.ir.evaluation.dense import Env
from tilewright.ir.evaluation.reference import checked_inputs
from tilewright.ir.evaluation.sampling import reached, sampled_slices
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
