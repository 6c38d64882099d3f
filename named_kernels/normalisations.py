"""Rows that are normalised by what is reduced over them: softmax, its logarithm and the cross entropy, layer norm and RMS norm."""

from __future__ import annotations

from ..ir.buffer import Extent
from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int64
from ..ir.functions import exp, log, sqrt
from ..ir.kernel import Kernel
from ..ir.node import Node, as_node, const
from ..ir.operators import cast
from .definition import Shape, definition, ids_range

MATRIX, ROWS, ODD = {"m": 4096, "n": 4096}, {"m": 4096, "n": 1024}, {"m": 11, "n": 103}
LAYERNORM_EPSILON, RMSNORM_EPSILON = 1e-5, 1e-6


def _as_float(extent: Extent, dtype: DType) -> Node:
    """An extent as a number of the compute type (a constant unless it is symbolic)."""
    return const(float(extent), dtype.compute) if isinstance(extent, int) else cast(as_node(extent), dtype.compute)


@definition("y = softmax(x) along rows", MATRIX, ODD)
def softmax(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n), y = exp(x − max) / Σ exp(x − max). `e` is named, so that it can be kept between the sum and the store."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("softmax")
    i = kb.axis("m", m)
    j_max, j_exp, j_sum, j_out = (kb.axis(f"n@{site}", n) for site in ("max", "exp", "sum", "out"))
    x = kb.input("x", (m, n), dtype)
    top = kb.max("top", (i,), j_max, x[i, j_max])
    e = kb.value("e", (i, j_exp), exp(x[i, j_exp] - top[i]))
    total = kb.sum("total", (i,), j_sum, e[i, j_sum])
    kb.store("y", dtype, (m, n), (i, j_out), e[i, j_out] * (1.0 / total[i]))
    return kb.build()


@definition("y = log_softmax(x) along rows", MATRIX, ODD)
def log_softmax(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n), y = x − max − log Σ exp(x − max). The maximum and the logarithm are subtracted one after the other: of large
    x their sum would round the logarithm away."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("log_softmax")
    i = kb.axis("m", m)
    j_max, j_sum, j_out = (kb.axis(f"n@{site}", n) for site in ("max", "sum", "out"))
    x = kb.input("x", (m, n), dtype)
    top = kb.max("top", (i,), j_max, x[i, j_max])
    total = kb.sum("total", (i,), j_sum, exp(x[i, j_sum] - top[i]))
    kb.store("y", dtype, (m, n), (i, j_out), (x[i, j_out] - top[i]) - log(total[i]))
    return kb.build()


@definition("loss = logsumexp(x) - x[label] along rows", MATRIX, ODD)
def cross_entropy(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), label (m) int64 in [0, n) → loss (m), shifted by the row's maximum."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("cross_entropy")
    i, j_max, j_sum = kb.axis("m", m), kb.axis("n@max", n), kb.axis("n@sum", n)
    x, label = kb.input("x", (m, n), dtype), kb.input("label", (m,), int64, range=ids_range(n))
    top = kb.max("top", (i,), j_max, x[i, j_max])
    total = kb.sum("total", (i,), j_sum, exp(x[i, j_sum] - top[i]))
    kb.store("loss", dtype, (m,), (i,), log(total[i]) + (top[i] - x[i, label[i]]))
    return kb.build()


@definition("y = x / sqrt(mean(x²) + 1e-6) * weight along rows", ROWS, ODD)
def rmsnorm(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("rmsnorm")
    i, j_square, j_out = kb.axis("m", m), kb.axis("n@square", n), kb.axis("n@out", n)
    x, weight = kb.input("x", (m, n), dtype), kb.input("weight", (n,), dtype)
    square = kb.sum("square", (i,), j_square, x[i, j_square] * x[i, j_square])
    scale = 1.0 / sqrt(square[i] / _as_float(n, dtype) + RMSNORM_EPSILON)
    kb.store("y", dtype, (m, n), (i, j_out), x[i, j_out] * scale * weight[j_out])
    return kb.build()


@definition("y = (x - mean) / sqrt(var + 1e-5) * weight + bias along rows", ROWS, ODD)
def layernorm(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n), bias (n) → y (m, n)."""
    return _layernorm("layernorm", s, dtype, stats=False)


@definition("layernorm, with mean and rstd stored", ROWS, ODD)
def layernorm_stats(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n), bias (n) → y (m, n), mean_out (m), rstd_out (m); the last two, which its gradient needs, in the compute
    type."""
    return _layernorm("layernorm_stats", s, dtype, stats=True)


def _layernorm(name: str, s: Shape, dtype: DType, stats: bool) -> Kernel:
    """The kernel in two passes: the variance is taken of x − mean, never of squares. With `stats` mean and rstd are stored. Only then
    do they have names, as two loops read them (`ir.normal_form.tidy_kernel`)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder(name)
    i = kb.axis("m", m)
    j_mean, j_dev, j_var, j_out = (kb.axis(f"n@{site}", n) for site in ("mean", "dev", "var", "out"))
    x = kb.input("x", (m, n), dtype)
    weight, bias = kb.input("weight", (n,), dtype), kb.input("bias", (n,), dtype)
    total = kb.sum("total", (i,), j_mean, x[i, j_mean])
    mean = total[i] / _as_float(n, dtype)
    if stats:
        mean = kb.value("mean", (i,), mean)[i]
    dev = kb.value("dev", (i, j_dev), x[i, j_dev] - mean)
    square = kb.sum("square", (i,), j_var, dev[i, j_var] * dev[i, j_var])
    rstd = 1.0 / sqrt(square[i] / _as_float(n, dtype) + LAYERNORM_EPSILON)
    if stats:
        rstd = kb.value("rstd", (i,), rstd)[i]
    kb.store("y", dtype, (m, n), (i, j_out), dev[i, j_out] * rstd * weight[j_out] + bias[j_out])
    if stats:
        kb.store("mean_out", dtype.compute, (m,), (i,), mean)
        kb.store("rstd_out", dtype.compute, (m,), (i,), rstd)
    return kb.build()
