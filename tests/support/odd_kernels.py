"""Small kernels of every structure that the named workloads do not have: each stresses one corner of scheduling and lowering."""

from __future__ import annotations

from collections.abc import Callable

import odd_borders
from tilewright.ir.buffer import Extent
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import bool_, float32, float64, int8, int32, int64, uint8
from tilewright.ir.functions import exp, maximum, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.operators import cast

Size = Extent


def transposed(m: Size, n: Size, t: object = float32) -> Kernel:
    """A pointwise value read across: lanes of its maker and of its reader differ."""
    kb = KernelBuilder("transposed")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("m@r", m)
    x = kb.input("x", (m, n), t)
    v = kb.value("v", (i, j), exp(x[i, j]))
    r = kb.sum("r", (j,), k, v[k, j])
    kb.store("y", t, (n, m), (j, i), v[i, j] + r[j])
    return kb.build()


def stencil(n: int, m: Size) -> Kernel:
    """Neighbours along an axis of another family, so that a kept value is read off its own axis."""
    kb = KernelBuilder("stencil")
    p, i, j = kb.axis("p", n + 2), kb.axis("n", n), kb.axis("m", m)
    x = kb.input("x", (m, n + 2), float32)
    v = kb.value("v", (j, p), exp(x[j, p] * 0.5))
    kb.store("y", float32, (m, n), (j, i), v[j, i] + v[j, i + 1] * 2.0 + v[j, i + 2])
    return kb.build()


def two_sums(m: Size, n: Size) -> Kernel:
    """Rows, then columns of what the rows scale: the second reduction needs all of the first."""
    kb = KernelBuilder("two_sums")
    i, j, i2, j2 = kb.axis("m", m), kb.axis("n", n), kb.axis("m@c", m), kb.axis("n@r", n)
    x = kb.input("x", (m, n), float32)
    r = kb.sum("r", (i,), j2, x[i, j2])
    c = kb.sum("c", (j,), i2, x[i2, j] * r[i2])
    kb.store("rows", float32, (m,), (i,), r[i])
    kb.store("cols", float32, (n,), (j,), c[j])
    return kb.build()


def min_max(m: Size, n: Size) -> Kernel:
    """Two reductions of one input, then a division."""
    kb = KernelBuilder("min_max")
    i, j1, j2, j = kb.axis("m", m), kb.axis("n@lo", n), kb.axis("n@hi", n), kb.axis("n@out", n)
    x = kb.input("x", (m, n), float64)
    lo, hi = kb.min("lo", (i,), j1, x[i, j1]), kb.max("hi", (i,), j2, x[i, j2])
    kb.store("y", float32, (m, n), (i, j), cast((x[i, j] - lo[i]) / (hi[i] - lo[i] + 1.0), float32))
    return kb.build()


def product(m: Size, n: Size) -> Kernel:
    """A product of integers, and their minimum and maximum."""
    kb = KernelBuilder("product")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("n@lo", n), kb.axis("n@hi", n)
    x = kb.input("x", (m, n), int8, range=(-3, 3))
    p = kb.reduce("mul", "p", (i,), j, cast(x[i, j], int32), int32)
    lo, hi = kb.min("lo", (i,), k, x[i, k]), kb.max("hi", (i,), l, x[i, l])
    kb.store("y", int32, (m,), (i,), p[i] + cast(lo[i], int32) * 7 - cast(hi[i], int32))
    return kb.build()


def triangle(m: Size, n: Size) -> Kernel:
    """A masked store: elements above the diagonal are never written."""
    kb = KernelBuilder("triangle")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * 2.0, mask=j <= i)
    return kb.build()


def scatter_max(n: Size, d: Size, v: int) -> Kernel:
    """Rows meet in a table, the largest stays."""
    kb = KernelBuilder("scatter_max")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, ids = kb.input("x", (n, d), float32), kb.input("ids", (n,), int64, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(ids[i], j), combine="max")
    return kb.build()


def histogram(n: Size, v: int) -> Kernel:
    """Counts: a scatter without a free axis."""
    kb = KernelBuilder("histogram")
    i = kb.axis("n", n)
    ids = kb.input("ids", (n,), uint8, range=(0, v - 1))
    kb.store("y", int32, (v,), (i,), const(1, int32), indices=(cast(ids[i], int64),), combine="add")
    return kb.build()


def scanned(m: Size, n: Size) -> Kernel:
    """A scan of what a reduction feeds, reduced again."""
    kb = KernelBuilder("scanned")
    i, j1, j, j3, j4 = kb.axis("m", m), kb.axis("n@max", n), kb.axis("n", n), kb.axis("n@sum", n), kb.axis("n@out", n)
    x = kb.input("x", (m, n), float32)
    top = kb.max("top", (i,), j1, x[i, j1])
    run = kb.scan("add", "run", (i, j), j, exp(x[i, j] - top[i]))
    total = kb.sum("total", (i,), j3, run[i, j3] * 0.25)
    kb.store("y", float32, (m, n), (i, j4), run[i, j4] / total[i])
    return kb.build()


def scan_columns(m: Size, n: Size) -> Kernel:
    """A running maximum down the columns: lanes run across the scan."""
    kb = KernelBuilder("scan_columns")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    run = kb.scan("max", "run", (i, j), i, x[i, j])
    kb.store("y", float32, (m, n), (i, j), run[i, j] - x[i, j])
    return kb.build()


def middle(a: Size, b: Size, c: Size) -> Kernel:
    """Reduced over the outer and the inner axis, kept in the middle."""
    kb = KernelBuilder("middle")
    i, j, k = kb.axis("a", a), kb.axis("b", b), kb.axis("c", c)
    x, w = kb.input("x", (a, b, c), float32), kb.input("w", (c,), float32)
    s = kb.sum("s", (j,), (i, k), x[i, j, k] * w[k])
    kb.store("y", float32, (b,), (j,), s[j])
    return kb.build()


def gathered(n: Size, v: int) -> Kernel:
    """Indices from memory and from arithmetic that is not linear."""
    kb = KernelBuilder("gathered")
    i = kb.axis("n", n)
    x, ids = kb.input("x", (v,), float32), kb.input("ids", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (n,), (i,), x[cast(ids[i], int64)] + x[i * 7 % v] + x[i // 3 % v])
    return kb.build()


def reshaped(m: int, n: int) -> Kernel:
    """A kept value walked through div and mod."""
    kb = KernelBuilder("reshaped")
    i, j, f = kb.axis("m", m), kb.axis("n", n), kb.axis("f", m * n)
    x = kb.input("x", (n, m), float32)
    v = kb.value("v", (i, j), exp(x[j, i]))
    kb.store("y", float32, (m * n,), (f,), v[f // n, f % n] + v[f % m, f // m])
    return kb.build()


def gram(n: Size, k: Size) -> Kernel:
    """Both sides of the product from one input: two sites of a family in one value."""
    kb = KernelBuilder("gram")
    i, j, l = kb.axis("n@i", n), kb.axis("n@j", n), kb.axis("k", k)
    x = kb.input("x", (n, k), float32)
    g = kb.sum("g", (i, j), l, x[i, l] * x[j, l])
    kb.store("y", float32, (n, n), (i, j), g[i, j] + g[j, i])
    return kb.build()


def chain(m: Size, n: Size, k: Size) -> Kernel:
    """Two products in a row with a row maximum between."""
    kb = KernelBuilder("chain")
    i, j, l, l2, l3 = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k), kb.axis("n@max", n), kb.axis("n@in", n)
    a, b, c = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32), kb.input("c", (n, k), float32)
    first = kb.sum("first", (i, j), l, a[i, l] * b[l, j])
    top = kb.max("top", (i,), l2, first[i, l2])
    o = kb.axis("k@out", k)
    second = kb.sum("second", (i, o), l3, maximum(first[i, l3] - top[i] * 0.5, 0.0) * c[l3, o])
    kb.store("y", float32, (m, k), (i, o), second[i, o])
    return kb.build()


def moments(m: Size, n: Size) -> Kernel:
    """A fold whose components are a pointwise value and two reductions (count, mean, spread: Chan, Golub and LeVeque 1983)."""
    kb = KernelBuilder("moments")
    i, j1, j2, j3 = kb.axis("m", m), kb.axis("n@count", n), kb.axis("n@sum", n), kb.axis("n@square", n)
    x = kb.input("x", (m, n), float32)
    count = kb.block_reduce("add", "count", (), j1, const(1.0, float32))
    total = kb.block_reduce("add", "total", (i,), j2, x[i, j2])
    mean = kb.block_value("mean", (i,), total[i] / count[()])
    spread = kb.block_reduce("add", "spread", (i,), j3, (x[i, j3] - mean[i]) * (x[i, j3] - mean[i]))
    n1, n2 = kb.lhs(count), kb.rhs(count)
    delta = kb.rhs(mean) - kb.lhs(mean)
    both = n1 + n2
    merge = (both, (kb.lhs(mean) * n1 + kb.rhs(mean) * n2) / both, kb.lhs(spread) + kb.rhs(spread) + delta * delta * (n1 * n2 / both))
    kb.fold("stats", kb.axis("n", n), (count, total, mean, spread), (count, mean, spread), (0.0, 0.0, 0.0), merge)
    kb.store("mu", float32, (m,), (i,), mean[i])
    kb.store("sd", float32, (m,), (i,), sqrt(spread[i] / count[()]))
    return kb.build()


def log_sum(m: Size, n: Size) -> Kernel:
    """An online softmax's (maximum, sum) as a fold, used again by the store."""
    kb = KernelBuilder("log_sum")
    i, j1, j2, j3 = kb.axis("m", m), kb.axis("n@max", n), kb.axis("n@sum", n), kb.axis("w", n)
    x = kb.input("x", (m, n), float32)
    top = kb.block_reduce("max", "top", (i,), j1, x[i, j1])
    total = kb.block_reduce("add", "total", (i,), j2, exp(x[i, j2] - top[i]))
    best = maximum(kb.lhs(top), kb.rhs(top))
    merged = kb.lhs(total) * exp(_finite(kb.lhs(top)) - best) + kb.rhs(total) * exp(_finite(kb.rhs(top)) - best)
    kb.fold("lse", kb.axis("n", n), (top, total), (top, total), (float("-inf"), 0.0), (best, merged))
    kb.store("y", float32, (m, n), (i, j3), exp(x[i, j3] - top[i]) / total[i])
    return kb.build()


def _finite(x: object) -> object:
    return maximum(x, -3.4028234663852886e38)


def scalar(n: Size) -> Kernel:
    """An output of one element, no axes left."""
    kb = KernelBuilder("scalar")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    s, t = kb.sum("s", (), i, x[i] * x[i]), kb.max("t", (), kb.axis("n@t", n), x[kb.axis("n@t", n)])
    kb.store("y", float32, (), (), s[()] + t[()], indices=())
    return kb.build()


def flags(m: Size, n: Size) -> Kernel:
    """bool and uint8 outputs, from comparisons of values and of places; no input is read by the second."""
    kb = KernelBuilder("flags")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    kb.store("y", bool_, (m, n), (i, j), x[i, j] > 0.25)
    kb.store("z", uint8, (m, n), (i, j), cast(where(j <= i, cast(i * 3 + j, int32), 5), uint8))
    return kb.build()


def window(n: int, m: Size) -> Kernel:
    """A masked window sum, its mask reaching out of the input on both sides."""
    kb = KernelBuilder("window")
    i, j, r = kb.axis("m", m), kb.axis("n", n), kb.axis("r", 3)
    x = kb.input("x", (m, n), float32)
    at = j + r - 1
    s = kb.sum("s", (i, j), r, x.masked((at >= 0) & (at < n), i, at))
    kb.store("y", float32, (m, n), (i, j), s[i, j] * (1.0 / 3.0))
    return kb.build()


def mixed(m: Size, n: Size) -> Kernel:
    """Outputs of different axes and types from shared values."""
    kb = KernelBuilder("mixed")
    i, j, j2 = kb.axis("m", m), kb.axis("n", n), kb.axis("n@s", n)
    x, b = kb.input("x", (m, n), float32), kb.input("b", (n,), float64)
    e = kb.value("e", (i, j), exp(x[i, j] * 0.5))
    s = kb.sum("s", (i,), j2, e[i, j2])
    kb.store("y", float64, (m, n), (i, j), cast(e[i, j] / s[i], float64) + b[j])
    kb.store("s_out", float32, (m,), (i,), s[i])
    return kb.build()


KERNELS: dict[str, tuple[Callable[..., Kernel], tuple[int, ...]]] = {
    "transposed": (transposed, (13, 19)), "stencil": (stencil, (21, 5)), "two_sums": (two_sums, (11, 23)), "min_max": (min_max, (7, 29)),
    "product": (product, (9, 19)), "triangle": (triangle, (17, 19)), "scatter_max": (scatter_max, (23, 17, 9)), "histogram": (histogram, (67, 7)),
    "scanned": (scanned, (9, 23)), "scan_columns": (scan_columns, (13, 21)), "middle": (middle, (7, 11, 13)), "gathered": (gathered, (61, 37)),
    "reshaped": (reshaped, (7, 11)), "gram": (gram, (19, 11)), "chain": (chain, (11, 17, 13)), "moments": (moments, (9, 31)),
    "log_sum": (log_sum, (9, 33)), "scalar": (scalar, (67,)), "flags": (flags, (13, 21)), "window": (window, (19, 7)), "mixed": (mixed, (9, 23)),
}  # fmt: skip
"""name → (make, sizes of a good odd shape)."""
SYMBOLIC: dict[str, tuple[int, ...]] = {
    "transposed": (0, 1), "stencil": (1,), "two_sums": (0, 1), "min_max": (0, 1), "product": (0, 1), "triangle": (0, 1), "scatter_max": (0, 1),
    "histogram": (0,), "scanned": (0, 1), "scan_columns": (0, 1), "middle": (0, 1, 2), "gathered": (0,), "gram": (0, 1), "chain": (0, 1, 2),
    "moments": (0, 1), "log_sum": (0, 1), "scalar": (0,), "flags": (0, 1), "window": (1,), "mixed": (0, 1), "fold_reads": (0, 1), "staircase": (0, 1),
}  # fmt: skip
"""Which of their sizes may be symbols."""


def fold_reads(m: Size, n: Size) -> Kernel:
    """A value that a fold reads, and a store after it."""
    kb = KernelBuilder("fold_reads")
    i, v_n, j1, j2, j3 = kb.axis("m", m), kb.axis("n@v", n), kb.axis("n@max", n), kb.axis("n@sum", n), kb.axis("w", n)
    x = kb.input("x", (m, n), float32)
    v = kb.value("v", (i, v_n), exp(x[i, v_n] * 0.5))
    top = kb.block_reduce("max", "top", (i,), j1, v[i, j1])
    total = kb.block_reduce("add", "total", (i,), j2, exp(v[i, j2] - top[i]))
    best = maximum(kb.lhs(top), kb.rhs(top))
    merged = kb.lhs(total) * exp(_finite(kb.lhs(top)) - best) + kb.rhs(total) * exp(_finite(kb.rhs(top)) - best)
    kb.fold("lse", kb.axis("n", n), (top, total), (top, total), (float("-inf"), 0.0), (best, merged))
    kb.store("y", float32, (m, n), (i, j3), v[i, j3] / total[i])
    return kb.build()


def staircase(m: Size, n: Size) -> Kernel:
    """Three pointwise values, each read twice by the next in another way."""
    kb = KernelBuilder("staircase")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("n@s", n)
    x, b = kb.input("x", (m, n), float32), kb.input("b", (n,), float32)
    e = kb.value("e", (i, j), exp(x[i, j] * 0.5))
    f = kb.value("f", (i, j), e[i, j] * b[j] + e[i, j] * e[i, j])
    g = kb.value("g", (i, j), f[i, j] + e[i, j] * f[i, j])
    s = kb.sum("s", (i,), k, g[i, k] * f[i, k])
    kb.store("y", float32, (m, n), (i, j), g[i, j] + s[i] * e[i, j])
    return kb.build()


KERNELS |= {"fold_reads": (fold_reads, (7, 29)), "staircase": (staircase, (9, 23)), **odd_borders.KERNELS}


def three_factors(m: Size, n: Size, k: Size) -> Kernel:
    """A sum over two axes of a product of three arrays, scaled by a fourth."""
    kb = KernelBuilder("three_factors")
    i, j, l, p = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k), kb.axis("p", 5)
    a, b, c, s = (
        kb.input("a", (m, k), float32),
        kb.input("b", (k, 5), float32),
        kb.input("c", (5, n), float32),
        kb.input("s", (n,), float32),
    )
    acc = kb.sum("acc", (i, j), (l, p), a[i, l] * (b[l, p] * 0.5) * c[p, j])
    kb.store("y", float32, (m, n), (i, j), acc[i, j] * s[j])
    return kb.build()


KERNELS |= {"three_factors": (three_factors, (7, 9, 11))}
SYMBOLIC |= {"three_factors": (0, 1, 2)}
