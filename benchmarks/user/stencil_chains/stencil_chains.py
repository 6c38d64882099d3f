"""Chains of stencils on padded images. The loops in C keep every intermediate in an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, float32

FIVE = (0.0625, 0.25, 0.375, 0.25, 0.0625)
NINE = (0.02, 0.06, 0.12, 0.18, 0.24, 0.18, 0.12, 0.06, 0.02)


def total(terms: Iterable[Any]) -> Any:
    """Their sum, from the left."""
    return reduce(add, terms)


def _fresh(kb: KernelBuilder, name: str, *extents: int) -> tuple[Node, ...]:
    return tuple(kb.axis(f"{axis}{name}", extent) for axis, extent in zip("zyx"[-len(extents) :], extents, strict=True))


def _gaussian(taps: Sequence[float], sums: bool = False, h: int = 2048, w: int = 2048) -> Kernel:
    """A separable blur; with `sums` as two reductions over taps, which are read."""
    r = len(taps) - 1
    kb = KernelBuilder("gaussian")
    a = kb.input("a", (h + r, w + r), float32)
    (y1, x1), (y, x) = _fresh(kb, "1", h + r, w), _fresh(kb, "", h, w)
    if sums:
        g, s, t = kb.input("g", (r + 1,), float32), kb.axis("s", r + 1), kb.axis("t", r + 1)
        rows = kb.sum("rows", (y1, x1), s, a[y1, x1 + s] * g[s])
        columns = kb.sum("columns", (y, x), t, rows[y + t, x] * g[t])
        kb.store("out", float32, (h, w), (y, x), columns[y, x])
    else:
        rows = kb.value("rows", (y1, x1), total(a[y1, x1 + d] * c for d, c in enumerate(taps)))
        kb.store("out", float32, (h, w), (y, x), total(rows[y + d, x] * c for d, c in enumerate(taps)))
    return kb.build()


gaussian5, gaussian9, gaussian5_sums = partial(_gaussian, FIVE), partial(_gaussian, NINE), partial(_gaussian, FIVE, True)


def unsharp(h: int = 2048, w: int = 2048) -> Kernel:
    """The image and 1.5 times what a blur takes away: three stages."""
    kb = KernelBuilder("unsharp")
    a = kb.input("a", (h + 4, w + 4), float32)
    (y1, x1), (y2, x2), (y, x) = _fresh(kb, "1", h + 4, w), _fresh(kb, "2", h, w), _fresh(kb, "", h, w)
    rows = kb.value("rows", (y1, x1), total(a[y1, x1 + d] * c for d, c in enumerate(FIVE)))
    blurred = kb.value("blurred", (y2, x2), total(rows[y2 + d, x2] * c for d, c in enumerate(FIVE)))
    centre = a[y + 2, x + 2]
    kb.store("out", float32, (h, w), (y, x), centre + (centre - blurred[y, x]) * 1.5)
    return kb.build()


def harris_corners(h: int = 2048, w: int = 2048) -> Kernel:
    """Corners: gradients, sums of their products over 3 × 3 places, determinant less trace squared."""
    kb = KernelBuilder("harris")
    a = kb.input("a", (h + 4, w + 4), float32)

    def value(name: str, extents: Sequence[int], make: Callable[[Node, Node], Node]) -> Any:
        y, x = _fresh(kb, f"_{name}", *extents)
        return kb.value(name, (y, x), make(y, x))

    def box(f: Callable[[Node, Node], Node]) -> Callable[[Node, Node], Node]:
        return lambda y, x: total(f(y + p, x + q) for p in range(3) for q in range(3))

    more = (h + 2, w + 2)
    gx = value("gx", more, lambda y, x: total((a[y + d, x + 2] - a[y + d, x]) * c for d, c in enumerate((1.0, 2.0, 1.0))))
    gy = value("gy", more, lambda y, x: total((a[y + 2, x + d] - a[y, x + d]) * c for d, c in enumerate((1.0, 2.0, 1.0))))
    sxx = value("sxx", (h, w), box(lambda y, x: gx[y, x] * gx[y, x]))
    syy = value("syy", (h, w), box(lambda y, x: gy[y, x] * gy[y, x]))
    sxy = value("sxy", (h, w), box(lambda y, x: gx[y, x] * gy[y, x]))
    y, x = _fresh(kb, "", h, w)
    trace = sxx[y, x] + syy[y, x]
    kb.store("out", float32, (h, w), (y, x), sxx[y, x] * syy[y, x] - sxy[y, x] * sxy[y, x] - trace * trace * 0.04)
    return kb.build()


def _jacobi(steps: int, h: int = 2048, w: int = 2048) -> Kernel:
    """Steps of a four-point average."""
    kb = KernelBuilder("jacobi")
    before: Any = kb.input("a", (h + 2 * steps, w + 2 * steps), float32)
    for i in range(1, steps + 1):
        r = 2 * (steps - i)
        y, x = _fresh(kb, str(i) if i < steps else "", h + r, w + r)
        new = (before[y, x + 1] + before[y + 2, x + 1] + before[y + 1, x] + before[y + 1, x + 2]) * 0.25
        if i < steps:
            before = kb.value(f"step{i}", (y, x), new)
        else:
            kb.store("out", float32, (h, w), (y, x), new)
    return kb.build()


jacobi2, jacobi3 = partial(_jacobi, 2), partial(_jacobi, 3)


def heat3d(d: int = 128, h: int = 256, w: int = 256) -> Kernel:
    """Two steps of heat in three dimensions."""
    kb = KernelBuilder("heat")
    a = kb.input("a", (d + 4, h + 4, w + 4), float32)
    around = ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2))

    def step(of: Any, z: Node, y: Node, x: Node) -> Node:
        return of[z + 1, y + 1, x + 1] * 0.4 + total(of[z + i, y + j, x + k] for i, j, k in around) * 0.1

    z1, y1, x1 = _fresh(kb, "1", d + 2, h + 2, w + 2)
    once = kb.value("once", (z1, y1, x1), step(a, z1, y1, x1))
    z, y, x = _fresh(kb, "", d, h, w)
    kb.store("out", float32, (d, h, w), (z, y, x), step(once, z, y, x))
    return kb.build()
