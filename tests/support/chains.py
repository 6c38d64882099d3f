"""Small chains of stencils, as users write them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add

from tilewright.ir import KernelBuilder, float32
from tilewright.ir import index as ix
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const

TAPS = (0.25, 0.5, 0.25)


def total(terms: Iterable[Node]) -> Node:
    """Their sum, from the left."""
    return reduce(add, terms)


def blur(h: int, w: int) -> Kernel:
    """Along rows, then along columns, of a padded image; the first as a pointwise value."""
    kb = KernelBuilder("blur")
    y1, x1, y, x = kb.axis("y1", h + 2), kb.axis("x1", w), kb.axis("y", h), kb.axis("x", w)
    a = kb.input("a", (h + 2, w + 2), float32)
    rows = kb.value("rows", (y1, x1), total(a[y1, x1 + d] * c for d, c in enumerate(TAPS)))
    kb.store("out", float32, (h, w), (y, x), total(rows[y + d, x] * c for d, c in enumerate(TAPS)))
    return kb.build()


def blur_sums(h: int, w: int) -> Kernel:
    """The same as two sums over taps that are an input."""
    kb = KernelBuilder("blur_sums")
    y1, x1, y, x = kb.axis("y1", h + 2), kb.axis("x1", w), kb.axis("y", h), kb.axis("x", w)
    s, t = kb.axis("s", 3), kb.axis("t", 3)
    a, g = kb.input("a", (h + 2, w + 2), float32), kb.input("g", (3,), float32)
    rows = kb.sum("rows", (y1, x1), s, a[y1, x1 + s] * g[s])
    columns = kb.sum("columns", (y, x), t, rows[y + t, x] * g[t])
    kb.store("out", float32, (h, w), (y, x), columns[y, x])
    return kb.build()


def clamp(i: Node, size: int) -> Node:
    """An index moved inside."""
    return ix.minmax("max", const(0), ix.minmax("min", i, const(size - 1)))


def clamped(h: int, w: int) -> Kernel:
    """Three steps of a five-point average with clamped borders; the steps are kept apart by their sites."""
    kb = KernelBuilder("clamped")
    a = kb.input("a", (h, w), float32)

    def step(of: object, y: Node, x: Node) -> Node:
        near = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
        return total(of[clamp(y + p, h), clamp(x + q, w)] for p, q in near) * 0.2  # type: ignore[index]

    before: object = a
    for name in ("one", "two"):
        y, x = kb.axis(f"y@{name}", h), kb.axis(f"x@{name}", w)
        before = kb.value(name, (y, x), step(before, y, x))
    y, x = kb.axis("y@out", h), kb.axis("x@out", w)
    kb.store("out", float32, (h, w), (y, x), step(before, y, x))
    return kb.build()


def halved(h: int, w: int) -> Kernel:
    """Every second place of a smoothed row, and the difference from the mean of all."""
    kb = KernelBuilder("halved")
    y1, x1, y, x, i, j = (kb.axis(n, e) for n, e in (("y1", 2 * h + 1), ("x1", w), ("y", h), ("x", w), ("i", 2 * h + 1), ("j", w)))
    a = kb.input("a", (2 * h + 1, w), float32)
    v = kb.value("v", (y1, x1), a[y1, x1] * 2.0 + 1.0)
    mean = kb.sum("mean", (), (i, j), a[i, j])
    kb.store("out", float32, (h, w), (y, x), v[y * 2, x] + v[y * 2 + 1, x] - v[y * 2 + 2, x] + mean[()] * 0.01)
    return kb.build()


def same_axes(h: int, w: int) -> Kernel:
    """Three steps over the same two axes, one of which reads two of those before."""
    kb = KernelBuilder("same_axes")
    y, x = kb.axis("y", h), kb.axis("x", w)
    a = kb.input("a", (h, w), float32)
    one = kb.value("one", (y, x), a[clamp(y - 1, h), x] + a[y, x] + a[clamp(y + 1, h), x])
    two = kb.value("two", (y, x), one[clamp(y - 2, h), x] + one[y, x] + one[clamp(y + 2, h), x])
    kb.store("out", float32, (h, w), (y, x), two[clamp(y - 1, h), x] + two[clamp(y + 1, h), x] - one[y, x])
    return kb.build()


def chained(h: int, w: int) -> Kernel:
    """Three averages of neighbouring rows of a padded image."""
    kb = KernelBuilder("chained")
    a = kb.input("a", (h + 6, w), float32)
    y, x = kb.axis("y1", h + 4), kb.axis("x1", w)
    one = kb.value("one", (y, x), a[y, x] + a[y + 1, x] * 2.0 + a[y + 2, x])
    y, x = kb.axis("y2", h + 2), kb.axis("x2", w)
    two = kb.value("two", (y, x), one[y, x] + one[y + 1, x] * 2.0 + one[y + 2, x])
    y, x = kb.axis("y", h), kb.axis("x", w)
    kb.store("out", float32, (h, w), (y, x), two[y, x] - two[y + 2, x] + one[y + 1, x])
    return kb.build()


def bordered(h: int, w: int) -> Kernel:
    """Rows of an image with clamped borders, smoothed twice; the first smoothing is read at its own place too, by what is named."""
    kb = KernelBuilder("bordered")
    a = kb.input("a", (h, w), float32)
    y, x = kb.axis("y1", h + 2), kb.axis("x1", w)
    one = kb.value("one", (y, x), a[clamp(y - 2, h), x] + a[clamp(y, h), x] * 2.0)
    y, x = kb.axis("y2", h + 2), kb.axis("x2", w)
    two = kb.value("two", (y, x), one[y, x] * one[y, x])
    y, x = kb.axis("y", h), kb.axis("x", w)
    kb.store("out", float32, (h, w), (y, x), two[y, x] - two[y + 2, x] + one[y + 1, x])
    return kb.build()
