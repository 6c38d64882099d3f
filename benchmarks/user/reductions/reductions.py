"""Histograms, segmented sums, reductions of columns and ragged rows, and scans.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from tilewright.ir import Kernel, KernelBuilder, Node, cast, const, exp, float32, int32, log, maximum, minimum, uint8, where


def float_bins(n: int = 1 << 22, v: int = 128) -> Kernel:
    """How many numbers fall into each of equal bins; what lies outside counts in the first or the last."""
    kb = KernelBuilder("float_bins")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32, range=(-0.1, 1.1))
    at = minimum(maximum(cast(x[i] * float(v), int32), 0), v - 1)
    kb.store("y", int32, (v,), (i,), cast(1, int32), indices=(at,), combine="add")
    return kb.build()


def weights_in_2d(n: int = 1 << 21, v: int = 64) -> Kernel:
    """The sum of the weights that fall into each cell of a grid."""
    kb = KernelBuilder("weights_in_2d")
    i = kb.axis("n", n)
    a, b = kb.input("a", (n,), int32, range=(0, v - 1)), kb.input("b", (n,), int32, range=(0, v - 1))
    weight = kb.input("weight", (n,), float32)
    kb.store("y", float32, (v, v), (i,), weight[i], indices=(a[i], b[i]), combine="add")
    return kb.build()


def rows_by_label(n: int = 1 << 18, d: int = 8, v: int = 256) -> Kernel:
    """Short rows added up by label."""
    kb = KernelBuilder("rows_by_label")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(at[i], j), combine="add")
    return kb.build()


def histogram(n: int = 1 << 22, v: int = 256) -> Kernel:
    """How often each byte occurs."""
    kb = KernelBuilder("histogram")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), uint8, range=(0, v - 1))
    kb.store("y", int32, (v,), (i,), const(1, int32), indices=(x[i],), combine="add")
    return kb.build()


def weighted_histogram(n: int = 1 << 22, v: int = 1024) -> Kernel:
    """The sum of the weights that fall into each bin."""
    kb = KernelBuilder("weighted_histogram")
    i = kb.axis("n", n)
    at, weight = kb.input("at", (n,), int32, range=(0, v - 1)), kb.input("weight", (n,), float32)
    kb.store("y", float32, (v,), (i,), weight[i], indices=(at[i],), combine="add")
    return kb.build()


def segment_sum(n: int = 1 << 16, d: int = 64, v: int = 1024) -> Kernel:
    """Rows added up by segment; segments come in any order."""
    kb = KernelBuilder("segment_sum")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(at[i], j), combine="add")
    return kb.build()


def sums_by_bin(n: int = 1 << 22, v: int = 64) -> Kernel:
    """How many points each bin has, and their sum."""
    kb = KernelBuilder("sums_by_bin")
    i = kb.axis("i", n)
    at, x = kb.input("at", (n,), int32, range=(0, v - 1)), kb.input("x", (n,), float32)
    kb.store("count", int32, (v,), (i,), const(1, int32), indices=(at[i],), combine="add")
    kb.store("total", float32, (v,), (i,), x[i], indices=(at[i],), combine="add")
    return kb.build()


def joint_histogram(n: int = 1 << 22, v: int = 32) -> Kernel:
    """How often two bytes fall into a pair of bins together."""
    kb = KernelBuilder("joint_histogram")
    i = kb.axis("n", n)
    a, b = (kb.input(name, (n,), uint8, range=(0, v - 1)) for name in "ab")
    kb.store("y", int32, (v, v), (i,), const(1, int32), indices=(a[i], b[i]), combine="add")
    return kb.build()


def padded_mean(b: int = 64, t: int = 256, d: int = 128) -> Kernel:
    """The mean of each padded sequence's vectors."""
    kb = KernelBuilder("padded_mean")
    i, k, f = kb.axis("b", b), kb.axis("t", t), kb.axis("d", d)
    x, length = kb.input("x", (b, t, d), float32), kb.input("length", (b,), int32, range=(1, t))
    total = kb.sum("total", (i, f), k, where(cast(k, int32) < length[i], x[i, k, f], 0.0))
    kb.store("y", float32, (b, d), (i, f), total[i, f] / cast(length[i], float32))
    return kb.build()


def padded_squares(b: int = 2048, t: int = 512) -> Kernel:
    """The sum of squared differences of two padded sequences, over the length of each."""
    kb = KernelBuilder("padded_squares")
    i, k = kb.axis("b", b), kb.axis("t", t)
    x, z = kb.input("x", (b, t), float32), kb.input("z", (b, t), float32)
    length = kb.input("length", (b,), int32, range=(0, t))
    apart = x[i, k] - z[i, k]
    kb.store("y", float32, (b,), (i,), kb.sum("total", (i,), k, where(cast(k, int32) < length[i], apart * apart, 0.0))[i])
    return kb.build()


def present_mean(n: int = 8192, l: int = 24, d: int = 128) -> Kernel:
    """The mean of the picked rows that are present: a number below 0 picks none."""
    kb = KernelBuilder("present_mean")
    i, k, f, m = kb.axis("n", n), kb.axis("l@k", l), kb.axis("d", d), kb.axis("l@m", l)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n, l), int32, range=(-n, n - 1))
    there = at[i, k] >= 0
    total = kb.sum("total", (i, f), k, where(there, x[cast(maximum(at[i, k], 0), "int64"), f], 0.0))
    count = kb.sum("count", (i,), m, where(at[i, m] >= 0, cast(1, int32), cast(0, int32)))
    kb.store("y", float32, (n, d), (i, f), total[i, f] / cast(maximum(count[i], 1), float32))
    return kb.build()


def column_lse(n: int = 2048, c: int = 1024) -> Kernel:
    """log Σ exp down the columns."""
    kb = KernelBuilder("column_lse")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@sum", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    total = kb.sum("total", (j,), b, exp(x[b, j] - top[j]))
    kb.store("y", float32, (c,), (j,), top[j] + log(total[j]))
    return kb.build()


def column_totals(n: int = 3000, c: int = 1500) -> Kernel:
    """Sums down the columns."""
    kb = KernelBuilder("column_totals")
    j, a = kb.axis("c", c), kb.axis("n", n)
    x = kb.input("x", (n, c), float32)
    total = kb.sum("total", (j,), a, x[a, j])
    kb.store("y", float32, (c,), (j,), total[j])
    return kb.build()


def column_argmax(n: int = 2048, c: int = 1000) -> Kernel:
    """Where the largest of each column is."""
    kb = KernelBuilder("column_argmax")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@at", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    at = kb.min("at", (j,), b, where(x[b, j].eq(top[j]), cast(b, int32), n))
    kb.store("y", int32, (c,), (j,), at[j])
    return kb.build()


def column_softmax(n: int = 1024, c: int = 1024) -> Kernel:
    """Softmax down the columns."""
    kb = KernelBuilder("column_softmax")
    j, (a, b, d) = kb.axis("c", c), (kb.axis(f"n@{site}", n) for site in ("top", "sum", "out"))
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    total = kb.sum("total", (j,), b, exp(x[b, j] - top[j]))
    kb.store("y", float32, (n, c), (d, j), exp(x[d, j] - top[j]) / total[j])
    return kb.build()


def column_sums(h: int = 2048, w: int = 1024) -> Kernel:
    """Running sums down the columns."""
    kb = KernelBuilder("column_sums")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    total = kb.scan("add", "total", (i, j), i, x[i, j])
    kb.store("y", float32, (h, w), (i, j), total[i, j])
    return kb.build()


def volume_integral(d: int = 96, h: int = 128, w: int = 160) -> Kernel:
    """Sums of all that lies before, above and to the left in a volume."""
    kb = KernelBuilder("volume_integral")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    row = kb.scan("add", "row", (k, i, j), j, x[k, i, j])
    plane = kb.scan("add", "plane", (k, i, j), i, row[k, i, j])
    total = kb.scan("add", "total", (k, i, j), k, plane[k, i, j])
    kb.store("y", float32, (d, h, w), (k, i, j), total[k, i, j])
    return kb.build()


def _leaky(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
    return before[0] * after[0], before[1] * after[0] + after[1]


def leaky_columns(t: int = 2048, n: int = 1024) -> Kernel:
    """h[t] = a[t] · h[t − 1] + x[t] of many channels; a row is a moment."""
    kb = KernelBuilder("leaky_columns")
    i, j = kb.axis("t", t), kb.axis("n", n)
    a, x = kb.input("a", (t, n), float32, range=(0, 1)), kb.input("x", (t, n), float32)
    _, h = kb.associative_scan(("product", "h"), (i, j), i, (a[i, j], x[i, j]), (1.0, 0.0), _leaky)
    kb.store("y", float32, (t, n), (i, j), h[i, j])
    return kb.build()


def long_scan(n: int = 10_000_000) -> Kernel:
    """Running sums of one long array."""
    kb = KernelBuilder("long_scan")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    total = kb.scan("add", "total", (i,), i, x[i])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def long_maximum(n: int = 10_000_000) -> Kernel:
    """The largest of all before, and the mean of that and of the element."""
    kb = KernelBuilder("long_maximum")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    top = kb.scan("max", "top", (i,), i, x[i])
    kb.store("y", float32, (n,), (i,), (top[i] + x[i]) * 0.5)
    return kb.build()


def linear_recurrence(b: int = 512, t: int = 4096) -> Kernel:
    """h[t] = a[t] · h[t − 1] + x[t]: a leaky sum whose leak changes."""
    kb = KernelBuilder("linear_recurrence")
    i, j = kb.axis("b", b), kb.axis("t", t)
    a, x = kb.input("a", (b, t), float32, range=(0, 1)), kb.input("x", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, h = kb.associative_scan(("product", "h"), (i, j), j, (a[i, j], x[i, j]), (1.0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), h[i, j])
    return kb.build()
