"""Small kernels whose indices and masks hold clamps, reflections, wraps and comparisons of places: loops are cut at borders."""

from __future__ import annotations

from tilewright.ir.buffer import Buffer
from tilewright.ir.builder import KernelBuilder
from tilewright.ir.dtypes import float32, int16
from tilewright.ir.functions import maximum, minimum, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.operators import cast


def neighbour(x: Buffer, kind: int, at: tuple[Node, ...], by: tuple[int, ...]) -> Node:
    """An element of `x` so far from `at`, with one of six kinds of borders."""
    shape = [n for n in x.shape if isinstance(n, int)]
    there = [i + d for i, d in zip(at, by)]
    if kind % 6 == 0:
        return x[tuple(minimum(maximum(i, 0), n - 1) for i, n in zip(there, shape))]
    if kind % 6 == 1:
        return x[tuple((i + n * abs(d)) % n for i, d, n in zip(there, by, shape))]
    if kind % 6 == 2:  # mirrored once, and kept inside where the window is wider than the axis
        mirrored = (minimum(maximum(i, -i), 2 * (n - 1) - i) for i, n in zip(there, shape))
        return x[tuple(minimum(maximum(i, 0), n - 1) for i, n in zip(mirrored, shape))]
    if kind % 6 == 5:  # a selection of indices
        return x[tuple(where(i < 0, 0, where(i < n, i, n - 1)) for i, n in zip(there, shape))]
    inside = [c for i, n in zip(there, shape) for c in (i >= 0, i < n)]
    mask = inside[0]
    for c in inside[1:]:
        mask = mask & c
    v = x.masked(mask, *there)
    return v if kind % 6 == 3 else where(mask, v, 2.0)


def borders(m: int, n: int, kind: int, radius: int) -> Kernel:
    """Neighbours on all sides of an image, as far as `radius` says."""
    kb = KernelBuilder("borders")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    total = x[i, j] * 2.0
    for w, by in enumerate(((0, -radius), (0, 1), (-1, 0), (radius, 2))):
        total = total + neighbour(x, kind, (i, j), by) * (0.5 + w)
    kb.store("y", float32, (m, n), (i, j), total)
    return kb.build()


def bordered_sum(m: int, n: int, kind: int, width: int) -> Kernel:
    """A sum over a window of 16-bit numbers."""
    kb = KernelBuilder("bordered_sum")
    i, j, q = kb.axis("m", m), kb.axis("n", n), kb.axis("q", width)
    x, g = kb.input("x", (m, n), int16), kb.input("g", (width,), float32)
    r = width // 2
    at = j + q - r
    inside = (at >= 0) & (at < n)
    clamped = x[i, minimum(maximum(at, 0), n - 1)]
    v = [clamped, x.masked(inside, i, at), x.masked(j - q >= 0, i, j - q), x[i, (at + n * width) % n]][kind % 4]
    total = kb.sum("total", (i, j), q, cast(v, float32) * g[q])
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


def kept_neighbours(m: int, n: int, kind: int) -> Kernel:
    """A value that may be kept, read at its neighbours; another expression in each part of the axis; and a mask that leaves little."""
    kb = KernelBuilder("kept_neighbours")
    i, j, p = kb.axis("m", m), kb.axis("n", n), kb.axis("n@v", n)
    x = kb.input("x", (m, n), float32)
    v = kb.value("v", (i, p), x[i, p] * x[i, p])
    left, right = (v[i, maximum(j - 1, 0)], v[i, minimum(j + 1, n - 1)]) if kind % 2 else (v[i, (j + n - 1) % n], v[i, (j + 1) % n])
    one = where((j < n // 3) | (j >= n - 1), left, right)
    kb.store("y", float32, (m, n), (i, j), where(j.eq(kind), one * 3.0, one + v[i, j]), mask=None if kind % 3 else j < kind)
    return kb.build()


KERNELS = {
    "borders": (borders, (5, 37, 13, 3)),
    "bordered_sum": (bordered_sum, (5, 37, 8, 5)),
    "kept_neighbours": (kept_neighbours, (5, 37, 7)),
}
"""name → (make, sizes of a good odd shape), as `odd_kernels` has them."""
