"""ir.evaluate against plain NumPy, on kernels written by hand."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from tilewright import named_kernels
from tilewright.ir import (
    KernelBuilder,
    KernelError,
    OutOfRangeError,
    bfloat16,
    cast,
    const,
    erf,
    exp,
    float16,
    float32,
    float64,
    floor,
    int8,
    int32,
    int64,
    maximum,
    sqrt,
    sym,
    where,
)
from tilewright.ir.checks import operand_ranges
from tilewright.ir.dtypes import index
from tilewright.ir.evaluation import evaluate, evaluate_error, twin
from tilewright.ir.evaluation import reference as evaluate_module
from tilewright.measure.inputs import generate

INF = float("inf")


def rng(seed=0):
    return np.random.default_rng(seed)


def matmul(m, n, k, dtype=float32, out=None):
    kb = KernelBuilder("matmul")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (k, n), dtype)
    x, y = (a[i, l], b[l, j]) if dtype.is_float else (cast(a[i, l], int32), cast(b[l, j], int32))
    c = kb.sum("acc", (i, j), l, x * y)
    kb.store("c", out or (dtype if dtype.is_float else int32), (m, n), (i, j), c[i, j])
    return kb.build()


def softmax(m, n):
    kb = KernelBuilder("softmax")
    i, x = kb.axis("m", m), kb.input("x", (m, n), float32)
    a, b, c = kb.axis("n@max", n), kb.axis("n@sum", n), kb.axis("n@out", n)
    top = kb.max("top", (i,), a, x[i, a])
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    kb.store("y", float32, (m, n), (i, c), exp(x[i, c] - top[i]) / total[i])
    return kb.build()


def layernorm(m, n):
    kb = KernelBuilder("layernorm")
    i, x = kb.axis("m", m), kb.input("x", (m, n), float32)
    g, h = kb.input("gamma", (n,), float32), kb.input("beta", (n,), float32)
    a, b, c = kb.axis("n@mean", n), kb.axis("n@var", n), kb.axis("n@out", n)
    mean = kb.value("mean", (i,), kb.sum("s", (i,), a, x[i, a])[i] * (1.0 / n))
    var = kb.sum("var", (i,), b, (x[i, b] - mean[i]) * (x[i, b] - mean[i]))
    rstd = kb.value("rstd", (i,), 1.0 / sqrt(var[i] * (1.0 / n) + 1e-5))
    kb.store("y", float32, (m, n), (i, c), (x[i, c] - mean[i]) * rstd[i] * g[c] + h[c])
    kb.store("mean_out", float32, (m,), (i,), mean[i])
    kb.store("rstd_out", float32, (m,), (i,), rstd[i])
    return kb.build()


def attention(h, n, d, causal=True):
    """Masked scores are -1e30: a tile that masks a whole row must have a finite maximum, or exp(s - M) is NaN."""
    kb = KernelBuilder("attention")
    b, i, e = kb.axis("h", h), kb.axis("q", n), kb.axis("d", d)
    x = kb.axis("d@qk", d)
    q, k, v = (kb.input(name, (h, n, d), float32) for name in "qkv")
    j0, j1, j2, j3, j4 = (kb.axis(f"j@{s}", n) for s in ("s", "t", "max", "sum", "pv"))
    dot = kb.block_reduce("add", "dot", (b, i, j0), x, q[b, i, x] * k[b, j0, x])
    score = kb.block_value(
        "score", (b, i, j1), where(j1 <= i, dot[b, i, j1] * (1 / math.sqrt(d)), -1e30) if causal else dot[b, i, j1] * (1 / math.sqrt(d))
    )
    top = kb.block_reduce("max", "M", (b, i), j2, score[b, i, j2])
    p = exp(score[b, i, j3] - top[b, i])
    total = kb.block_reduce("add", "L", (b, i), j3, p)
    o = kb.block_reduce("add", "O", (b, i, e), j4, exp(score[b, i, j4] - top[b, i]) * v[b, j4, e])
    m = maximum(kb.lhs(top), kb.rhs(top))
    left, right = exp(kb.lhs(top) - m), exp(kb.rhs(top) - m)
    merge = [m, kb.lhs(total) * left + kb.rhs(total) * right, kb.lhs(o) * left + kb.rhs(o) * right]
    kb.fold("attend", kb.axis("j", n), [dot, score, top, total, o], [top, total, o], [-INF, 0.0, 0.0], merge)
    kb.store("out", float32, (h, n, d), (b, i, e), o[b, i, e] / total[b, i])
    return kb.build()


def argmax(m, n):
    kb = KernelBuilder("argmax")
    i, x = kb.axis("m", m), kb.input("x", (m, n), float32)
    a, b = kb.axis("n@max", n), kb.axis("n@at", n)
    top = kb.block_reduce("max", "top", (i,), a, x[i, a])
    at = kb.block_reduce("min", "at", (i,), b, where(x[i, b].eq(top[i]), cast(b, int64), const(2**62, int64)))
    la, lb, ia, ib = kb.lhs(top), kb.rhs(top), kb.lhs(at), kb.rhs(at)
    first = where(la < lb, ib, where(lb < la, ia, where(ia < ib, ia, ib)))
    kb.fold("arg", kb.axis("n", n), [top, at], [top, at], [-INF, 2**62], [maximum(la, lb), first])
    kb.store("y", int32, (m,), (i,), at[i])
    return kb.build()


def conv2d(n, c, h, w, k, r, stride=1, pad=1):
    oh, ow = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - r) // stride + 1
    kb = KernelBuilder("conv2d")
    b, o, y, x = kb.axis("n", n), kb.axis("k", k), kb.axis("y", oh), kb.axis("x", ow)
    ci, u, v = kb.axis("c", c), kb.axis("r", r), kb.axis("s", r)
    image, weight = kb.input("image", (n, c, h, w), float32), kb.input("weight", (k, c, r, r), float32)
    yy, xx = y * stride + u - pad, x * stride + v - pad
    inside = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
    acc = kb.sum("acc", (b, o, y, x), (ci, u, v), image.masked(inside, b, ci, yy, xx) * weight[o, ci, u, v])
    kb.store("out", float32, (n, k, oh, ow), (b, o, y, x), acc[b, o, y, x])
    return kb.build()


def conv2d_numpy(image, weight, stride, pad):
    image = np.pad(image.astype(float), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    r = weight.shape[2]
    windows = np.lib.stride_tricks.sliding_window_view(image, (r, r), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyxrs,kcrs->nkyx", windows, weight.astype(float), optimize=True)


# products ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16, float64], ids=str)
def test_matmul(dtype):
    a, b = rng().standard_normal((33, 17)).astype(dtype.np), rng(1).standard_normal((17, 9)).astype(dtype.np)
    c = evaluate(matmul(33, 9, 17, dtype), {"a": a, "b": b})["c"]
    assert c.dtype == np.float64
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-13, atol=1e-13)


def test_bfloat16_bits_are_accepted():
    a, b = rng().standard_normal((4, 5)).astype(ml_dtypes.bfloat16), rng(1).standard_normal((5, 3)).astype(ml_dtypes.bfloat16)
    kernel = matmul(4, 3, 5, bfloat16)
    assert np.array_equal(evaluate(kernel, {"a": a, "b": b})["c"], evaluate(kernel, {"a": a.view(np.uint16), "b": b.view(np.uint16)})["c"])


def test_int8_matmul_is_exact():
    a, b = rng().integers(-128, 128, (20, 300), np.int8), rng(1).integers(-128, 128, (300, 7), np.int8)
    c = evaluate(matmul(20, 7, 300, int8), {"a": a, "b": b})["c"]
    assert c.dtype == np.int64
    assert np.array_equal(c, a.astype(int) @ b.astype(int))


def test_int32_matmul_wraps():
    a, b = rng().integers(-(2**31), 2**31, (5, 40), np.int32), rng(1).integers(-(2**31), 2**31, (40, 6), np.int32)
    kb = KernelBuilder("imm")
    i, j, l = kb.axis("m", 5), kb.axis("n", 6), kb.axis("k", 40)
    x, y = kb.input("a", (5, 40), int32), kb.input("b", (40, 6), int32)
    kb.store("c", int32, (5, 6), (i, j), kb.sum("acc", (i, j), l, x[i, l] * y[l, j])[i, j])
    with np.errstate(over="ignore"):
        want = np.einsum("ik,kj->ij", a, b)
    assert np.array_equal(evaluate(kb.build(), {"a": a, "b": b})["c"], want)


def test_batched_matmul_with_transposed_operand_and_epilogue():
    b, m, n, k = 3, 5, 4, 7
    kb = KernelBuilder("bmm")
    z, i, j, l = kb.axis("b", b), kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, y, bias = kb.input("x", (b, m, k), float32), kb.input("y", (b, n, k), float32), kb.input("bias", (n,), float32)
    acc = kb.sum("acc", (z, i, j), l, x[z, i, l] * y[z, j, l])
    t = acc[z, i, j] + bias[j]
    kb.store("c", float32, (b, m, n), (z, i, j), 0.5 * t * (1.0 + erf(t * (1 / math.sqrt(2)))))
    u, v, w = rng().standard_normal((b, m, k)), rng(1).standard_normal((b, n, k)), rng(2).standard_normal(n)
    u, v, w = (q.astype(np.float32) for q in (u, v, w))
    t = u.astype(float) @ v.astype(float).transpose(0, 2, 1) + w
    want = 0.5 * t * (1 + np.vectorize(math.erf)(t * float(np.float32(1 / math.sqrt(2)))))
    np.testing.assert_allclose(evaluate(kb.build(), {"x": u, "y": v, "bias": w})["c"], want, rtol=1e-12, atol=1e-12)


def test_product_of_three_factors_and_missing_axes():
    kb = KernelBuilder("three")
    i, l, r = kb.axis("i", 4), kb.axis("l", 5), kb.axis("r", 3)
    a, b, s = kb.input("a", (4, 5), float32), kb.input("b", (5,), float32), kb.input("s", (4,), float32)
    kb.store("y", float32, (4,), (i,), kb.sum("acc", (i,), (l, r), a[i, l] * b[l] * s[i])[i])
    u, v, w = rng().standard_normal((4, 5)).astype("f"), rng(1).standard_normal(5).astype("f"), rng(2).standard_normal(4).astype("f")
    np.testing.assert_allclose(evaluate(kb.build(), {"a": u, "b": v, "s": w})["y"], 3 * (u.astype(float) @ v) * w, rtol=1e-12)


def test_matvec():
    kb = KernelBuilder("matvec")
    i, l = kb.axis("m", 30), kb.axis("k", 40)
    a, x = kb.input("a", (30, 40), float32), kb.input("x", (40,), float32)
    kb.store("y", float32, (30,), (i,), kb.sum("acc", (i,), l, a[i, l] * x[l])[i])
    u, v = rng().standard_normal((30, 40)).astype("f"), rng(1).standard_normal(40).astype("f")
    np.testing.assert_allclose(evaluate(kb.build(), {"a": u, "x": v})["y"], u.astype(float) @ v.astype(float), rtol=1e-12)


@pytest.mark.parametrize("stride,pad", [(1, 1), (2, 1), (1, 0), (2, 3)])
def test_conv2d(stride, pad):
    image, weight = rng().standard_normal((2, 3, 9, 8)).astype("f"), rng(1).standard_normal((4, 3, 3, 3)).astype("f")
    got = evaluate(conv2d(2, 3, 9, 8, 4, 3, stride, pad), {"image": image, "weight": weight})["out"]
    np.testing.assert_allclose(got, conv2d_numpy(image, weight, stride, pad), rtol=1e-12, atol=1e-12)


def test_grouped_conv_indexes_with_division():
    kb = KernelBuilder("group")
    o, y, ci, u = kb.axis("k", 6), kb.axis("y", 5), kb.axis("c", 2), kb.axis("r", 3)
    image, weight = kb.input("image", (6, 7), float32), kb.input("weight", (6, 2, 3), float32)
    acc = kb.sum("acc", (o, y), (ci, u), image[(o // 2) * 2 + ci, y + u] * weight[o, ci, u])
    kb.store("out", float32, (6, 5), (o, y), acc[o, y])
    x, w = rng().standard_normal((6, 7)), rng(1).standard_normal((6, 2, 3))
    x, w = x.astype("f"), w.astype("f")
    want = np.zeros((6, 5))
    for k in range(6):
        for c in range(2):
            for r in range(3):
                want[k] += x[(k // 2) * 2 + c, r : r + 5].astype(float) * w[k, c, r]
    np.testing.assert_allclose(evaluate(kb.build(), {"image": x, "weight": w})["out"], want, rtol=1e-12)


# rows -------------------------------------------------------------------------------------------------------------
def test_softmax():
    x = rng().standard_normal((6, 11)).astype("f")
    want = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(evaluate(softmax(6, 11), {"x": x})["y"], want / want.sum(1, keepdims=True), rtol=1e-13)


def test_layernorm_stores_three_outputs():
    x, g, h = rng().standard_normal((5, 12)).astype("f"), rng(1).standard_normal(12).astype("f"), rng(2).standard_normal(12).astype("f")
    got = evaluate(layernorm(5, 12), {"x": x, "gamma": g, "beta": h})
    y = x.astype(float)
    mean, rstd = y.mean(1), 1 / np.sqrt(y.var(1) + 1e-5)
    np.testing.assert_allclose(got["mean_out"], mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(got["rstd_out"], rstd, rtol=1e-6)
    np.testing.assert_allclose(got["y"], (y - mean[:, None]) * rstd[:, None] * g + h, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("combine,want", [("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min)])
def test_reduce_over_several_axes(combine, want):
    kb = KernelBuilder("r")
    i, j, l = kb.axis("i", 3), kb.axis("j", 4), kb.axis("k", 5)
    x = kb.input("x", (4, 3, 5), float32)
    kb.store("y", float32, (3,), (i,), kb.reduce(combine, "acc", (i,), (j, l), x[j, i, l])[i])
    u = rng().standard_normal((4, 3, 5)).astype("f")
    np.testing.assert_allclose(evaluate(kb.build(), {"x": u})["y"], want(u.astype(float), axis=(0, 2)), rtol=1e-12)


def test_reduce_of_an_expression_that_misses_its_axis():
    kb = KernelBuilder("r")
    i, j = kb.axis("i", 3), kb.axis("j", 4)
    x = kb.input("x", (3,), float32)
    kb.store("y", float32, (3,), (i,), kb.sum("acc", (i,), j, x[i])[i])
    assert np.array_equal(evaluate(kb.build(), {"x": np.arange(3, dtype="f")})["y"], [0, 4, 8])


def test_scalar_output():
    kb = KernelBuilder("sum")
    j = kb.axis("j", 9)
    x = kb.input("x", (9,), float32)
    kb.store("y", float32, (), (), kb.sum("acc", (), j, x[j])[()])
    assert evaluate(kb.build(), {"x": np.arange(9, dtype="f")})["y"] == 36


def test_maxpool():
    kb = KernelBuilder("pool")
    y, x, u, v = kb.axis("y", 4), kb.axis("x", 3), kb.axis("u", 3), kb.axis("v", 3)
    image = kb.input("image", (8, 6), float32)
    yy, xx = 2 * y + u - 1, 2 * x + v - 1
    inside = (yy >= 0) & (yy < 8) & (xx >= 0) & (xx < 6)
    kb.store("out", float32, (4, 3), (y, x), kb.max("m", (y, x), (u, v), where(inside, image.masked(inside, yy, xx), -INF))[y, x])
    a = rng().standard_normal((8, 6)).astype("f")
    padded = np.pad(a, 1, constant_values=-np.inf)
    want = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))[::2, ::2].max((2, 3))
    assert np.array_equal(evaluate(kb.build(), {"image": a})["out"], want)


@pytest.mark.parametrize("combine,want", [("add", np.cumsum), ("max", np.maximum.accumulate)])
def test_scan(combine, want):
    kb = KernelBuilder("scan")
    i, j = kb.axis("i", 3), kb.axis("j", 7)
    x = kb.input("x", (3, 7), float32)
    kb.store("y", float32, (3, 7), (i, j), kb.scan(combine, "s", (i, j), j, x[i, j])[i, j])
    a = rng().standard_normal((3, 7)).astype("f")
    np.testing.assert_allclose(evaluate(kb.build(), {"x": a})["y"], want(a.astype(float), axis=1), rtol=1e-12)


# folds ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tile", [None, 1, 5, 16, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_cut_and_merged(tile, causal):
    q, k, v = (rng(s).standard_normal((2, 23, 8)).astype("f") for s in range(3))
    got = evaluate(attention(2, 23, 8, causal), {"q": q, "k": k, "v": v}, tile=tile)["out"]
    s = np.einsum("hqd,hjd->hqj", q.astype(float), k) * float(np.float32(1 / math.sqrt(8)))
    if causal:
        s = np.where(np.tri(23, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(2, keepdims=True))
    np.testing.assert_allclose(got, p @ v / p.sum(2, keepdims=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tile", [None, 1, 4, 9])
def test_argmax_takes_the_first(tile):
    x = rng().integers(0, 4, (50, 9)).astype("f")
    got = evaluate(argmax(50, 9), {"x": x}, tile=tile)["y"]
    assert got.dtype == np.int64
    assert np.array_equal(got, x.argmax(1))


def test_fold_over_nothing_is_the_identity():
    got = evaluate(argmax(3, 0), {"x": np.zeros((3, 0), "f")})["y"]
    assert np.array_equal(got, np.full(3, 2**62).astype(np.int32))


@pytest.mark.parametrize("tile", [1, 2, 7, 16])
def test_twin_of_attention_is_bit_equal_however_it_is_cut(tile):
    kernel = attention(2, 19, 4)
    inputs = {name: twin.draw((2, 19, 4), s) for s, name in enumerate("qkv")}
    assert np.array_equal(evaluate(kernel, inputs, mode="twin")["out"], evaluate(kernel, inputs, mode="twin", tile=tile)["out"])


# memory -----------------------------------------------------------------------------------------------------------
def embedding(n, v, d):
    kb = KernelBuilder("embedding")
    i, j = kb.axis("n", n), kb.axis("d", d)
    ids, table = kb.input("ids", (n,), int32, range=(0, v - 1)), kb.input("table", (v, d), float32)
    kb.store("y", float32, (n, d), (i, j), table[cast(ids[i], index), j])
    return kb.build()


def test_embedding():
    ids, table = rng().integers(0, 7, 20, np.int32), rng(1).standard_normal((7, 3)).astype("f")
    assert np.array_equal(evaluate(embedding(20, 7, 3), {"ids": ids, "table": table})["y"], table[ids])


def test_embedding_outside_the_table_is_an_error():
    with pytest.raises(OutOfRangeError, match=r"ids has the element 9, outside of 0\.\.6"):
        evaluate(embedding(2, 7, 3), {"ids": np.array([1, 9], np.int32), "table": np.zeros((7, 3), "f")})


@pytest.mark.parametrize("wrong", [-1, -56, 127])
@pytest.mark.parametrize("high", [100, 126, 299])
def test_places_in_bytes_with_a_sign_are_looked_at_as_such(wrong: int, high: int):
    ids = np.array([3, wrong, 0], np.int8)
    check = operand_ranges.OperandRange(0, "ids", 0, high).check
    check("k", ids[::2], high)
    if wrong == 127 < high:
        return check("k", ids, high)
    with pytest.raises(OutOfRangeError, match=f"ids has the element {wrong}, outside of 0..{high}"):
        check("k", ids, high)


def test_places_in_foreign_byte_order_are_looked_at_as_they_are():
    check = operand_ranges.OperandRange(0, "ids", 0, 1000).check
    check("k", np.array([768, 3], ">i4"), 1000)
    with pytest.raises(OutOfRangeError, match=r"ids has the element 16777216, outside of 0\.\.1000"):
        check("k", np.array([1 << 24, 0], ">i4"), 1000)


def test_embedding_gradient_scatters():
    kb = KernelBuilder("grad")
    i, j = kb.axis("n", 40), kb.axis("d", 3)
    ids, g = kb.input("ids", (40,), int32, range=(0, 6)), kb.input("g", (40, 3), float32)
    kb.store("dtable", float32, (7, 3), (i, j), g[i, j], indices=(cast(ids[i], index), j), combine="add")
    kernel = kb.build()
    u, w = rng().integers(0, 6, 40, np.int32), rng(1).standard_normal((40, 3)).astype("f")
    want = np.zeros((7, 3))
    np.add.at(want, u, w.astype(float))
    np.testing.assert_allclose(evaluate(kernel, {"ids": u, "g": w})["dtable"], want, rtol=1e-12)
    value, scale = evaluate_error(kernel, {"ids": u, "g": w})["dtable"]
    assert scale[6].max() < 1e-30
    sequential = np.zeros((7, 3), "f")
    np.add.at(sequential, u, w)
    assert (np.abs(sequential - value) <= evaluate_error_bound(scale)).all()


def test_masked_store_leaves_the_rest_unwritten():
    kb = KernelBuilder("masked")
    i = kb.axis("i", 6)
    x = kb.input("x", (6,), float32)
    kb.store("y", float32, (3,), (i,), x[i], indices=(i - 2,), mask=(i >= 2) & (i < 4))
    y = evaluate(kb.build(), {"x": np.arange(6, dtype="f")})["y"]
    assert np.array_equal(y[:2], [2, 3]) and np.isnan(y[2])


@pytest.fixture
def unchecked(monkeypatch):
    """Kernels are made without a look at their indices."""
    monkeypatch.setattr("tilewright.ir.kernel.unproved", lambda kernel: frozenset())


@pytest.mark.usefixtures("unchecked")
def test_store_outside_is_an_error():
    kb = KernelBuilder("bad")
    i = kb.axis("i", 6)
    x = kb.input("x", (6,), float32)
    kb.store("y", float32, (5,), (i,), x[i])
    with pytest.raises(KernelError, match="store to y: index 5 of dimension 0 is outside its 5 elements"):
        evaluate(kb.build(), {"x": np.zeros(6, "f")})


@pytest.mark.usefixtures("unchecked")
def test_load_outside_is_an_error():
    kb = KernelBuilder("bad")
    i = kb.axis("i", 6)
    x = kb.input("x", (6,), float32)
    kb.store("y", float32, (6,), (i,), x[i + 1])
    with pytest.raises(KernelError, match=r"load from x: index .* runs over 1\.\.6, but dimension 0 has 6 elements"):
        evaluate(kb.build(), {"x": np.zeros(6, "f")})


def test_transposed_reversed_and_diagonal_loads():
    kb = KernelBuilder("views")
    i, j = kb.axis("i", 4), kb.axis("j", 4)
    x = kb.input("x", (4, 4), float32)
    t = kb.value("t", (i, j), x[j, 3 - i])
    kb.store("y", float32, (4, 4), (i, j), t[j, i] + x[i, i] + t[i, i])
    a = rng().standard_normal((4, 4)).astype("f")
    t = a.T.astype(float)[::-1]
    np.testing.assert_allclose(evaluate(kb.build(), {"x": a})["y"], t.T + np.diag(a)[:, None].astype(float) + np.diag(t)[:, None])


def test_missing_and_misshapen_inputs():
    with pytest.raises(KernelError, match="input b is missing; give a, b"):
        evaluate(matmul(2, 2, 2), {"a": np.zeros((2, 2), "f")})
    with pytest.raises(KernelError, match=r"input b has shape \(3, 2\), expected \(2, 2\)"):
        evaluate(matmul(2, 2, 2), {"a": np.zeros((2, 2), "f"), "b": np.zeros((3, 2), "f")})
    with pytest.raises(KernelError, match="float32 buffer is a uint32 array"):
        evaluate(matmul(2, 2, 2), {"a": np.zeros((2, 2), "f"), "b": np.zeros((2, 2), "f")}, mode="twin")


# extents ----------------------------------------------------------------------------------------------------------
def test_symbolic_extents():
    n = sym("n", 0, 100)
    kb = KernelBuilder("rows")
    i, j = kb.axis("i", n), kb.axis("j", n * 2)
    x = kb.input("x", (n, n * 2), float32)
    kb.store("y", float32, (n,), (i,), kb.sum("s", (i,), j, x[i, j] * cast(n, float32))[i])
    kernel = kb.build()
    for size in (0, 1, 5):
        a = rng().standard_normal((size, 2 * size)).astype("f")
        for given in ({"n": size}, {}):
            np.testing.assert_allclose(evaluate(kernel, {"x": a}, given)["y"], a.astype(float).sum(1) * size, atol=1e-12)
    with pytest.raises(KernelError, match=r"n=101 is outside \[0, 100\]"):
        evaluate(kernel, {"x": np.zeros((101, 202), "f")})


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_zero_extents(shape):
    m, n, k = shape
    c = evaluate(matmul(m, n, k), {"a": np.zeros((m, k), "f"), "b": np.zeros((k, n), "f")})["c"]
    assert c.shape == (m, n) and not c.any()


@pytest.mark.slow
def test_pieces_and_slices_change_nothing(monkeypatch):
    from tilewright.ir.evaluation import stores, values

    q, k, v = (rng(s).standard_normal((3, 17, 6)).astype("f") for s in range(3))
    x, g, h = rng(3).standard_normal((5, 12)).astype("f"), rng(4).standard_normal(12).astype("f"), rng(5).standard_normal(12).astype("f")
    cases = [(attention(3, 17, 6), {"q": q, "k": k, "v": v}), (layernorm(5, 12), {"x": x, "gamma": g, "beta": h})]
    whole = [evaluate_error(kernel, inputs) for kernel, inputs in cases]
    for module, name, small in ((values, "PIECE", 7), (stores, "PIECE", 7), (values, "OPERAND", 9), (evaluate_module, "_KEPT", 20)):
        monkeypatch.setattr(module, name, small)
        for (kernel, inputs), expected in zip(cases, whole, strict=True):
            for name, (value, scale) in evaluate_error(kernel, inputs).items():
                np.testing.assert_allclose(value, expected[name][0], rtol=1e-12, atol=1e-14)
                np.testing.assert_allclose(scale, expected[name][1], rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("name", ["softmax", "layernorm", "attention", "gelu", "transpose", "cumsum", "argmax", "embedding_grad", "conv2d"])
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr(evaluate_module, "_SHARED", 1)
    shapes = {
        "embedding_grad": {"v": 5, "n": 40, "d": 6},
        "attention": {"b": 1, "h": 5, "s": 9, "d": 4},
        "conv2d": {"n": 3, "c": 4, "h": 7, "w": 6, "oc": 5},
    }
    kernel = named_kernels.make(name, shapes.get(name, {"m": 11, "n": 13}))
    inputs = generate(kernel, {}, 0)
    threads = []
    monkeypatch.setattr(evaluate_module, "ThreadPoolExecutor", lambda n: threads.append(n) or ThreadPoolExecutor(n))
    shared = evaluate_error(kernel, inputs, threads=3)
    assert threads == ([] if name == "embedding_grad" else [3])  # a scatter adds up in order
    for b, (value, scale) in evaluate_error(kernel, inputs).items():
        np.testing.assert_allclose(shared[b][0], value, rtol=1e-14)  # BLAS may add up slices otherwise
        np.testing.assert_allclose(shared[b][1], scale, rtol=1e-9)


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(evaluate_module, "_SHARED", 1)
    monkeypatch.setenv("TILEWRIGHT_INDEX_CHECKS", "0")  # so that a thread finds it
    kernel = named_kernels.make("embedding", {"v": 5, "n": 40, "d": 6})
    inputs = generate(kernel, {}, 0)
    (at,) = [b.name for b in kernel.inputs if not b.dtype.is_float]
    inputs[at][-1] = 5
    with pytest.raises(KernelError, match="outside"):
        evaluate_error(kernel, inputs, threads=2)


# error bounds -----------------------------------------------------------------------------------------------------
def evaluate_error_bound(scale, eps=2.0**-23):
    return evaluate_module.SLACK * eps * scale


def sequential_dot(a, b, order):
    """float32 dot products accumulated one term at a time."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for l in order:
        acc += a[:, l : l + 1] * b[l : l + 1]
    return acc


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("k", [1, 2, 64, 1024])
def test_bound_of_a_dot_product_holds_in_any_order_and_catches_a_dropped_term(k, positive):
    a, b = rng().standard_normal((32, k)).astype("f"), rng(1).standard_normal((k, 48)).astype("f")
    if positive:
        a, b = np.abs(a), np.abs(b)
    value, scale = evaluate_error(matmul(32, 48, k), {"a": a, "b": b})["c"]
    bound = evaluate_error_bound(scale)
    by_size = np.argsort(np.abs(a).sum(0))
    for order in (range(k), range(k - 1, -1, -1), by_size, by_size[::-1]):
        assert (np.abs(sequential_dot(a, b, order) - value) <= bound).all()
    if k > 1:
        dropped = sequential_dot(a, b, range(k - 1))
        assert (np.abs(dropped - value) > bound).mean() > 0.9


def test_bound_of_softmax_in_float32():
    x = (rng().standard_normal((64, 300)) * 5).astype("f")
    value, scale = evaluate_error(softmax(64, 300), {"x": x})["y"]
    p = np.exp(x - x.max(1, keepdims=True))
    total = np.zeros((64, 1), "f")
    for j in range(300):
        total += p[:, j : j + 1]
    error = np.abs(p / total - value)
    bound = evaluate_error_bound(scale)
    assert (error <= bound).all()
    assert (bound <= 1e-3 * value + 1e-40).all()


def test_bound_of_layernorm_in_float32():
    x, g, h = rng().standard_normal((40, 256)).astype("f"), rng(1).standard_normal(256).astype("f"), rng(2).standard_normal(256).astype("f")
    got = evaluate_error(layernorm(40, 256), {"x": x, "gamma": g, "beta": h})
    mean = np.zeros(40, "f")
    for j in range(256):
        mean += x[:, j]
    mean = mean * np.float32(1 / 256)
    d = x - mean[:, None]
    var = np.zeros(40, "f")
    for j in range(256):
        var += d[:, j] * d[:, j]
    rstd = np.float32(1) / np.sqrt(var * np.float32(1 / 256) + np.float32(1e-5))
    for name, r in (("mean_out", mean), ("rstd_out", rstd), ("y", d * rstd[:, None] * g + h)):
        value, scale = got[name]
        assert (np.abs(r - value) <= evaluate_error_bound(scale)).all()
        assert evaluate_error_bound(scale).max() < 1e-2


def test_bound_of_attention_in_float32_by_tiles():
    n, d = 96, 16
    q, k, v = (rng(s).standard_normal((1, n, d)).astype("f") for s in range(3))
    value, scale = evaluate_error(attention(1, n, d), {"q": q, "k": k, "v": v})["out"]
    top, total, o = np.full((n, 1), -np.inf, "f"), np.zeros((n, 1), "f"), np.zeros((n, d), "f")
    s = np.where(np.tri(n, dtype=bool), sequential_dot(q[0], k[0].T, range(d)) * np.float32(1 / math.sqrt(d)), np.float32(-1e30))
    for j in range(n):
        m = np.maximum(top, s[:, j : j + 1])
        old, p = np.exp(top - m), np.exp(s[:, j : j + 1] - m)
        top, total, o = m, total * old + p, o * old + p * v[0, j]
    bound = evaluate_error_bound(scale[0])
    assert (np.abs(o / total - value[0]) <= bound).all()
    assert bound.max() < 1e-2


def test_bound_of_a_scan():
    kb = KernelBuilder("scan")
    j = kb.axis("j", 2000)
    x = kb.input("x", (2000,), float32)
    kb.store("y", float32, (2000,), (j,), kb.scan("add", "s", (j,), j, x[j])[j])
    a = rng().standard_normal(2000).astype("f")
    value, scale = evaluate_error(kb.build(), {"x": a})["y"]
    assert (np.abs(np.cumsum(a) - value) <= evaluate_error_bound(scale)).all()
    assert evaluate_error_bound(scale).max() < 0.05


def test_cast_to_sixteen_bits_inside_an_expression_adds_its_rounding():
    def kernel(to):
        kb = KernelBuilder("k")
        i = kb.axis("i", 500)
        x = kb.input("x", (500,), float32)
        kb.store("y", float32, (500,), (i,), cast(cast(x[i], to), float32) * 3.0)
        return kb.build()

    x = rng().standard_normal(500).astype("f")
    for to in (float16, bfloat16):
        value, scale = evaluate_error(kernel(to), {"x": x})["y"]
        error = np.abs(x.astype(to.np).astype("f") * np.float32(3) - value)
        assert (error <= evaluate_error_bound(scale)).all()
        assert (evaluate_error_bound(scale) <= to.eps * np.abs(value) + 1e-6).all()


def test_the_stored_rounding_is_left_to_the_verifier():
    kb = KernelBuilder("k")
    i = kb.axis("i", 5)
    x = kb.input("x", (5,), float32)
    kb.store("y", float16, (5,), (i,), x[i])
    a = rng().standard_normal(5).astype("f")
    value, scale = evaluate_error(kb.build(), {"x": a})["y"]
    assert np.array_equal(value, a.astype(float)) and not scale.any()


def test_a_floor_near_a_whole_number_may_fall_either_way():
    kb = KernelBuilder("k")
    i = kb.axis("i", 3)
    x = kb.input("x", (3,), float32)
    kb.store("y", int32, (3,), (i,), cast(floor(x[i] * 3.0), int32))
    value, scale = evaluate_error(kb.build(), {"x": np.array([1 / 3, 0.5, 10.1], "f")})["y"]
    assert np.array_equal(scale >= 1, [True, False, False]) and np.array_equal(value, [1, 1, 30])


def test_a_masked_row_does_not_poison_the_bound():
    kb = KernelBuilder("k")
    i, j = kb.axis("i", 4), kb.axis("j", 4)
    x = kb.input("x", (4, 4), float32)
    s = kb.value("s", (i, j), where(j <= i, x[i, j] * 2.0, -INF))
    kb.store("y", float32, (4,), (i,), kb.sum("t", (i,), j, exp(s[i, j]))[i])
    value, scale = evaluate_error(kb.build(), {"x": np.ones((4, 4), "f")})["y"]
    assert np.isfinite(value).all() and np.isfinite(scale).all()


def test_erf_is_accurate():
    from tilewright.ir.evaluation.array_math import erf as array_erf

    x = np.concatenate([np.linspace(-7, 7, 5001), [0.0, -0.0, 1e-300, 1e-20, np.inf, -np.inf]])
    want = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(array_erf(x), want, rtol=1e-15)
    assert np.isnan(array_erf(np.array([np.nan]))[0])
