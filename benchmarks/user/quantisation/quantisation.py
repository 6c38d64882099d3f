"""Quantised layers: integers of 2 to 8 bits, scales by group, requantisation.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    erf,
    float16,
    float32,
    int8,
    int32,
    int64,
    maximum,
    minimum,
    popcount,
    round_even,
    uint8,
    where,
)


def layer_quantised_by_row(m: int = 61, k: int = 512, n: int = 383) -> Kernel:
    """A layer of int8 weights (a scale each output): each row of x is made int8 by its largest first; the product is of integers."""
    kb = KernelBuilder("layer_quantised_by_row")
    i, j, p, a, b = kb.axis("m", m), kb.axis("n", n), kb.axis("k@dot", k), kb.axis("k@top", k), kb.axis("k@row", k)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k), int8)
    scale, bias = kb.input("scale", (n,), float32, range=(0.001, 0.01)), kb.input("bias", (n,), float32)
    top = kb.max("top", (i,), a, absolute(x[i, a]))
    step = kb.value("step", (i,), maximum(top[i], 1e-9) * (1 / 127))
    q = kb.value("q", (i, b), cast(round_even(x[i, b] / step[i]), int8))
    dot = kb.sum("dot", (i, j), p, cast(q[i, p], int32) * cast(w[j, p], int32))
    kb.store("y", float32, (m, n), (i, j), cast(dot[i, j], float32) * (step[i] * scale[j]) + bias[j])
    return kb.build()


def requantise_shift(m: int = 2500, c: int = 96) -> Kernel:
    """int32 sums to int8, as integer-only inference does it: a multiplier of 31 bits and a shift for each channel."""
    kb = KernelBuilder("requantise_shift")
    i, j = kb.axis("m", m), kb.axis("c", c)
    acc = kb.input("acc", (m, c), int32, range=(-(1 << 20), 1 << 20))
    by = kb.input("by", (c,), int32, range=(1 << 30, (1 << 31) - 1))
    shift = kb.input("shift", (c,), int32, range=(8, 14))
    high = (cast(acc[i, j], int64) * cast(by[j], int64) + (1 << 30)) >> 31
    low = cast(high, int32)
    v = ((low + (cast(1, int32) << (shift[j] - 1))) >> shift[j]) - 3
    kb.store("y", int8, (m, c), (i, j), cast(minimum(maximum(v, -128), 127), int8))
    return kb.build()


def depthwise_bytes(h: int = 29, w: int = 31, c: int = 72) -> Kernel:
    """A quantised 3 × 3 convolution of each channel by itself, channels last; outside lies the zero point, 121."""
    kb = KernelBuilder("depthwise_bytes")
    i, j, l, p, q = (kb.axis(a, e) for a, e in (("h", h), ("w", w), ("c", c), ("p", 3), ("q", 3)))
    x, weight = kb.input("x", (h, w, c), uint8), kb.input("weight", (3, 3, c), int8)
    bias, scale = kb.input("bias", (c,), int32, range=(-9999, 9999)), kb.input("scale", (c,), float32, range=(0.001, 0.003))
    inside = (i + p >= 1) & (i + p <= h) & (j + q >= 1) & (j + q <= w)
    v = where(inside, cast(x.masked(inside, i + p - 1, j + q - 1, l), int32) - 121, 0)
    acc = kb.sum("acc", (i, j, l), (p, q), v * cast(weight[p, q, l], int32))
    out = round_even(cast(acc[i, j, l] + bias[l], float32) * scale[l]) + 7.0
    kb.store("y", uint8, (h, w, c), (i, j, l), cast(clip(out, 0.0, 255.0), uint8))
    return kb.build()


def turned_int8(n: int = 1201, g: int = 8) -> Kernel:
    """Activations turned by Hadamard's matrix in blocks of 64, then rounded to bytes by the largest of their row."""
    kb = KernelBuilder("turned_int8")
    i, b, p, q = kb.axis("n", n), kb.axis("g", g), kb.axis("p", 8), kb.axis("q", 8)
    u, v, c, (e, f) = kb.axis("p@turn", 8), kb.axis("q@turn", 8), kb.axis("g@most", g), (kb.axis("p@most", 8), kb.axis("q@most", 8))
    x = kb.input("x", (n, g, 8, 8), float32)

    def signed(k: Any, m: Any, y: Any) -> Any:
        return where((popcount(cast(k & m, int32)) & 1).eq(1), -y, y)

    low = kb.sum("low", (i, b, p, q), v, signed(v, q, x[i, b, p, v]))
    both = kb.sum("both", (i, b, p, q), u, signed(u, p, low[i, b, u, q]))
    most = kb.max("most", (i,), (c, e, f), absolute(both[i, c, e, f]))
    scale = maximum(most[i] * (1 / 127), 1e-20)
    kb.store("y", int8, (n, g, 8, 8), (i, b, p, q), cast(round_even(both[i, b, p, q] / scale), int8))
    kb.store("scale", float32, (n,), (i,), scale * 0.125)
    return kb.build()


def two_bit_rows(m: int = 512, n: int = 516) -> Kernel:
    """Rows in two bits a number, four in a byte, with a step and a least value for each row."""
    kb = KernelBuilder("two_bit_rows")
    i, p, q, j = kb.axis("m", m), kb.axis("n@hi", n), kb.axis("n@lo", n), kb.axis("byte", n // 4)
    x = kb.input("x", (m, n), float32)
    hi, lo = kb.max("hi", (i,), p, x[i, p]), kb.min("lo", (i,), q, x[i, q])
    step = kb.value("step", (i,), (hi[i] - lo[i]) * (1.0 / 3.0) + 1e-9)
    byte = None
    for k in range(4):
        code = clip(cast(round_even((x[i, 4 * j + k] - lo[i]) / step[i]), int32), 0, 3) << (2 * k)
        byte = code if byte is None else byte | code
    kb.store("y", uint8, (m, n // 4), (i, j), cast(byte, uint8))
    kb.store("scale", float32, (m,), (i,), step[i])
    kb.store("zero", float32, (m,), (i,), lo[i])
    return kb.build()


def matmul_int8_groups(m: int = 32, n: int = 2048, k: int = 2048, g: int = 64) -> Kernel:
    """y = x · w with int8 weights (k, n), which have a scale for each column and group of g rows."""
    kb = KernelBuilder("matmul_int8_groups")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (k, n), int8)
    scale = kb.input("scale", (k // g, n), float32)
    total = kb.sum("total", (i, j), l, x[i, l] * (cast(w[l, j], float32) * scale[l // g, j]))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


def quantised_layer(m: int = 256, n: int = 1024, k: int = 1024) -> Kernel:
    """A layer in int8: sums in int32, a bias, a scale a channel, and rounding back to int8."""
    kb = KernelBuilder("quantised_layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), int8), kb.input("w", (n, k), int8)
    bias, scale = kb.input("bias", (n,), int32, range=(-10000, 10000)), kb.input("scale", (n,), float32)
    total = kb.sum("total", (i, j), l, cast(x[i, l], int32) * cast(w[j, l], int32))
    scaled = round_even(cast(total[i, j] + bias[j], float32) * (scale[j] * 0.0005)) + 3.0
    kb.store("y", int8, (m, n), (i, j), cast(minimum(maximum(scaled, -128.0), 127.0), int8))
    return kb.build()


def int4_layer(m: int = 16, n: int = 1024, k: int = 1024, g: int = 64) -> Kernel:
    """gelu(x · w + bias): weights of four bits, two in a byte, with a scale for each g of them."""
    kb = KernelBuilder("int4_layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, bias = kb.input("x", (m, k), float32), kb.input("bias", (n,), float32)
    w, scale = kb.input("w", (n, k // 2), uint8, constant=True), kb.input("scale", (n, k // g), float32, range=(0.0, 0.1))
    bits = (cast(w[j, l // 2], int32) >> cast(4 * (l % 2), int32)) & 15
    acc = kb.sum("acc", (i, j), l, x[i, l] * (cast(bits - 8, float32) * scale[j, l // g]))
    v = acc[i, j] + bias[j]
    kb.store("y", float32, (m, n), (i, j), 0.5 * v * (1.0 + erf(v * 0.70710678)))
    return kb.build()


def nf4_matvec(n: int = 2048, k: int = 2048, g: int = 64) -> Kernel:
    """w · x, where four bits of a weight say which of sixteen numbers it is, times a scale for each g of them."""
    kb = KernelBuilder("nf4_matvec")
    j, l = kb.axis("n", n), kb.axis("k", k // 2)
    x, table = kb.input("x", (k,), float32), kb.input("table", (16,), float32, constant=True)
    w, scale = kb.input("w", (n, k // 2), uint8, constant=True), kb.input("scale", (n, k // g), float16, range=(0.0, 0.5))
    low, high = table[cast(w[j, l] & 15, "int64")], table[cast(w[j, l] >> 4, "int64")]
    acc = kb.sum("acc", (j,), l, (x[2 * l] * low + x[2 * l + 1] * high) * scale[j, 2 * l // g])
    kb.store("y", float32, (n,), (j,), acc[j])
    return kb.build()


def sparse_2_4(m: int = 64, n: int = 512, k: int = 1024) -> Kernel:
    """x · wᵀ, of which two of every four weights are kept, with two bits for each that say which."""
    kb = KernelBuilder("sparse_2_4")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k // 2)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k // 2), float32)
    place = kb.input("place", (n, k // 2), uint8, range=(0, 3))
    acc = kb.sum("acc", (i, j), l, w[j, l] * x[i, 4 * (l // 2) + cast(place[j, l], "int64")])
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def int4_matvec(n: int = 4096, k: int = 4096, g: int = 64) -> Kernel:
    """y = w · x; two weights of four bits lie in a byte, and each row has a scale and a zero point for g of them."""
    kb = KernelBuilder("int4_matvec")
    i, l = kb.axis("n", n), kb.axis("k", k // 2)
    w, x = kb.input("w", (n, k // 2), uint8), kb.input("x", (k,), float32)
    scale, zero = kb.input("scale", (n, k // g), float32), kb.input("zero", (n, k // g), uint8, range=(0, 15))
    both, group = cast(w[i, l], int32), l // (g // 2)
    middle = cast(zero[i, group], float32)
    low, high = cast(both & 15, float32) - middle, cast(both >> 4, float32) - middle
    total = kb.sum("total", (i,), l, scale[i, group] * (low * x[2 * l] + high * x[2 * l + 1]))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def add_requantised(n: int = 1 << 15, c: int = 64) -> Kernel:
    """Two int8 arrays with scales a channel, added and brought to a third scale, rounded and clipped."""
    kb = KernelBuilder("add_requantised")
    i, j = kb.axis("n", n), kb.axis("c", c)
    a, b = kb.input("a", (n, c), int8), kb.input("b", (n, c), int8)
    p, q = kb.input("p", (c,), float32, range=(0.1, 1.0)), kb.input("q", (c,), float32, range=(0.1, 1.0))
    total = cast(a[i, j], float32) * p[j] + cast(b[i, j], float32) * q[j]
    kb.store("y", int8, (n, c), (i, j), cast(minimum(maximum(round_even(total), -128.0), 127.0), int8))
    return kb.build()
