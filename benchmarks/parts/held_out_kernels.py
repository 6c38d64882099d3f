"""Ten small kernels of kinds that no named workload has: start schedules and cost models are judged on them, and never fitted to them.

Each is a function of its sizes that returns a Kernel, so `tune run --kernel benchmarks/parts/held_out_kernels.py:blur` works as well."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import Kernel, KernelBuilder, float32, int64, sqrt, where


def grouped_norm(b: int = 16, g: int = 32, n: int = 4096) -> Kernel:
    """Groups of channels, each to mean 0 and variance 1."""
    kb = KernelBuilder("grouped_norm")
    z, c = kb.axis("b", b), kb.axis("g", g)
    j, j2, j3 = (kb.axis(f"n@{s}", n) for s in ("mean", "var", "out"))
    x = kb.input("x", (b, g, n), float32)
    mean = kb.sum("mean", (z, c), j, x[z, c, j] * (1.0 / n))
    var = kb.sum("var", (z, c), j2, (x[z, c, j2] - mean[z, c]) * (x[z, c, j2] - mean[z, c]) * (1.0 / n))
    kb.store("y", float32, (b, g, n), (z, c, j3), (x[z, c, j3] - mean[z, c]) / sqrt(var[z, c] + 1e-5))
    return kb.build()


def outer_product(m: int = 1024, n: int = 1536) -> Kernel:
    """y[i, j] = a[i] · b[j] + y0[i, j]: a rank-one update."""
    kb = KernelBuilder("outer_product")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b, c = kb.input("a", (m,), float32), kb.input("b", (n,), float32), kb.input("c", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), a[i] * b[j] + c[i, j])
    return kb.build()


def rotation(s: int = 1024, h: int = 16, d: int = 64) -> Kernel:
    """Pairs of a head's halves turned by an angle that depends on the place (as in RoPE)."""
    kb = KernelBuilder("rotation")
    i, c, j = kb.axis("s", s), kb.axis("h", h), kb.axis("d", d)
    x = kb.input("x", (s, h, 2, d), float32)
    cos, sin = kb.input("cos", (s, d), float32), kb.input("sin", (s, d), float32)
    kb.store("left", float32, (s, h, d), (i, c, j), x[i, c, 0, j] * cos[i, j] - x[i, c, 1, j] * sin[i, j])
    kb.store("right", float32, (s, h, d), (i, c, j), x[i, c, 0, j] * sin[i, j] + x[i, c, 1, j] * cos[i, j])
    return kb.build()


def blur(h: int = 1024, w: int = 1024) -> Kernel:
    """The mean of 3 × 3 neighbours."""
    kb = KernelBuilder("blur")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("dy", 3), kb.axis("dx", 3)
    x = kb.input("x", (h + 2, w + 2), float32)
    total = kb.sum("total", (i, j), (p, q), x[i + p, j + q])
    kb.store("y", float32, (h, w), (i, j), total[i, j] * (1.0 / 9.0))
    return kb.build()


def gram(n: int = 4096, d: int = 192) -> Kernel:
    """xᵀ·x of a tall matrix: both operands are read across."""
    kb = KernelBuilder("gram")
    i, j, k = kb.axis("i", d), kb.axis("j", d), kb.axis("n", n)
    x = kb.input("x", (n, d), float32)
    total = kb.sum("total", (i, j), k, x[k, i] * x[k, j])
    kb.store("y", float32, (d, d), (i, j), total[i, j])
    return kb.build()


def distances(m: int = 512, n: int = 512, d: int = 64) -> Kernel:
    """Squared distances of two sets of points."""
    kb = KernelBuilder("distances")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("d", d)
    a, b = kb.input("a", (m, d), float32), kb.input("b", (n, d), float32)
    total = kb.sum("total", (i, j), k, (a[i, k] - b[j, k]) * (a[i, k] - b[j, k]))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


def segment_max(n: int = 8192, d: int = 128, v: int = 256) -> Kernel:
    """The largest of the rows of each segment, which come in any order."""
    kb = KernelBuilder("segment_max")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, ids = kb.input("x", (n, d), float32), kb.input("ids", (n,), int64, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(ids[i], j), combine="max")
    return kb.build()


def polynomial(n: int = 1 << 20) -> Kernel:
    """A polynomial of degree 8 by Horner's rule: one chain of products and sums."""
    kb = KernelBuilder("polynomial")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    y = x[i] * 0.011 - 0.23
    for c in (0.51, -0.07, 1.3, -0.9, 0.25, 0.6, -1.1):
        y = y * x[i] + c
    kb.store("y", float32, (n,), (i,), y)
    return kb.build()


def complex_product(m: int = 256, n: int = 4096) -> Kernel:
    """Rows of complex numbers times one row, real and imaginary parts next to each other."""
    kb = KernelBuilder("complex_product")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (m, n, 2), float32), kb.input("b", (n, 2), float32)
    kb.store("re", float32, (m, n), (i, j), a[i, j, 0] * b[j, 0] - a[i, j, 1] * b[j, 1])
    kb.store("im", float32, (m, n), (i, j), a[i, j, 0] * b[j, 1] + a[i, j, 1] * b[j, 0])
    return kb.build()


def triangular_step(m: int = 768, n: int = 256) -> Kernel:
    """One step of a triangular solve by blocks: what the lower triangle multiplies, taken from the right-hand side."""
    kb = KernelBuilder("triangular_step")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", m)
    a, x, b = kb.input("a", (m, m), float32), kb.input("x", (m, n), float32), kb.input("b", (m, n), float32)
    total = kb.sum("total", (i, j), k, where(k < i, a[i, k], 0.0) * x[k, j])
    kb.store("y", float32, (m, n), (i, j), b[i, j] - total[i, j])
    return kb.build()


KERNELS: tuple[Callable[[], Kernel], ...] = (
    grouped_norm,
    outer_product,
    rotation,
    blur,
    gram,
    distances,
    segment_max,
    polynomial,
    complex_product,
    triangular_step,
)
