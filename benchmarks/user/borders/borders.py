"""Stencils and windows with borders of every kind. The indices in C are written as in the kernel, which is how users write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.ir import DType, Kernel, KernelBuilder, Node, absolute, const, float32, int16, int32, maximum, minimum, uint8, where

Index = Callable[[Node, int, int], Node]
"""A neighbour's place: of the axis, how far, and the extent."""


def clamped(i: Node, by: int, n: int) -> Node:
    """The nearest place inside."""
    return i if by == 0 else maximum(i + by, 0) if by < 0 else minimum(i + by, n - 1)


def wrapped(i: Node, by: int, n: int) -> Node:
    """Around the end."""
    return i if by == 0 else (i + by + (n if by < 0 else 0)) % n


def reflected(i: Node, by: int, n: int) -> Node:
    """Mirrored at the first or last place."""
    return i if by == 0 else maximum(i + by, -(i + by)) if by < 0 else minimum(i + by, 2 * (n - 1) - (i + by))


INDEX: dict[str, Index] = {"clamp": clamped, "wrap": wrapped, "reflect": reflected}
FIVE = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
SEVEN = [(0, 0, 0), *(tuple(s if a == d else 0 for a in range(3)) for d in range(3) for s in (-1, 1))]
NINE = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
TWENTY_FIVE = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]


def points(taps: Sequence[tuple[int, ...]], shape: tuple[int, ...], kind: str) -> Kernel:
    """A weighted sum of neighbours at `taps`; 'zero': what is outside counts as 0."""
    kb = KernelBuilder(f"{kind}{len(taps)}")
    axes = [kb.axis(a, n) for a, n in zip("ijk", shape)]
    x, total = kb.input("x", shape, float32), None
    for place, t in enumerate(taps):
        if kind == "zero":
            conditions = [a + by >= 0 if by < 0 else a + by < n for a, by, n in zip(axes, t, shape) if by]
            at = [a + by for a, by in zip(axes, t)]
            mask = None
            for c in conditions:
                mask = c if mask is None else mask & c
            v = x[tuple(at)] if mask is None else x.masked(mask, *at)
        else:
            v = x[tuple(INDEX[kind](a, by, n) for a, by, n in zip(axes, t, shape))]
        term = v * round(0.5 + 0.01 * place, 3)
        total = term if total is None else total + term
    assert total is not None
    kb.store("y", float32, shape, axes, total)
    return kb.build()


def _image(taps: Sequence[tuple[int, ...]], kind: str, h: int = 512, w: int = 512) -> Kernel:
    return points(taps, (h, w), kind)


def _volume(taps: Sequence[tuple[int, ...]], kind: str, d: int = 64, h: int = 64, w: int = 128) -> Kernel:
    return points(taps, (d, h, w), kind)


five_clamp, five_wrap, five_reflect, five_zero = (partial(_image, FIVE, kind) for kind in ("clamp", "wrap", "reflect", "zero"))
nine_clamp, nine_wrap, nine_reflect, nine_zero = (partial(_image, NINE, kind) for kind in ("clamp", "wrap", "reflect", "zero"))
gauss25_clamp, gauss25_reflect = (partial(_image, TWENTY_FIVE, kind) for kind in ("clamp", "reflect"))
seven_clamp, seven_wrap, seven_zero = (partial(_volume, SEVEN, kind) for kind in ("clamp", "wrap", "zero"))


def _box(kind: str, dtype: DType, h: int = 512, w: int = 512, r: int = 2) -> Kernel:
    """The sum over a window, with weights that are read; of integers, divided by a power of two."""
    k = 2 * r + 1
    kb = KernelBuilder(f"box{k}_{kind}_{dtype.name}")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("dy", k), kb.axis("dx", k)
    x = kb.input("x", (h, w), dtype)
    at = i + p - r, j + q - r
    if kind == "zero":
        v = x.masked((at[0] >= 0) & (at[0] < h) & (at[1] >= 0) & (at[1] < w), *at)
    else:
        v = x[minimum(maximum(at[0], 0), h - 1), minimum(maximum(at[1], 0), w - 1)]
    if dtype is float32:
        g = kb.input("g", (k, k), float32)
        total = kb.sum("total", (i, j), (p, q), v * g[p, q])
        kb.store("y", dtype, (h, w), (i, j), total[i, j])
    else:
        total = kb.sum("total", (i, j), (p, q), v.cast(int32))
        kb.store("y", dtype, (h, w), (i, j), (total[i, j] >> const(5, int32)).cast(dtype))
    return kb.build()


box_clamp, box_zero = partial(_box, "clamp", float32), partial(_box, "zero", float32)
box_uint8, box_int16 = partial(_box, "clamp", uint8), partial(_box, "zero", int16)


def causal(c: int = 64, t: int = 4096, k: int = 4) -> Kernel:
    """A causal convolution of each channel, channels first."""
    kb = KernelBuilder("causal")
    i, j, q = kb.axis("c", c), kb.axis("t", t), kb.axis("k", k)
    x, w = kb.input("x", (c, t), float32), kb.input("w", (c, k), float32)
    total = kb.sum("total", (i, j), q, x.masked(j - q >= 0, i, j - q) * w[i, q])
    kb.store("y", float32, (c, t), (i, j), total[i, j])
    return kb.build()


def sobel(h: int = 512, w: int = 512) -> Kernel:
    """The gradient of an image of bytes, clamped borders."""
    gx = {(-1, -1): -1, (-1, 1): 1, (0, -1): -2, (0, 1): 2, (1, -1): -1, (1, 1): 1}
    kb = KernelBuilder("sobel")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint8)

    def total(turned: bool) -> Node:
        out: Node | None = None
        for (a, b), s in gx.items():
            dy, dx = (b, a) if turned else (a, b)
            v = x[clamped(i, dy, h), clamped(j, dx, w)].cast(int32) * s
            out = v if out is None else out + v
        assert out is not None
        return out

    size = absolute(total(False)) + absolute(total(True))
    kb.store("y", uint8, (h, w), (i, j), minimum(size, const(255, int32)).cast(uint8))
    return kb.build()


def halves(m: int = 64, n: int = 4096) -> Kernel:
    """Another expression in each third of an axis."""
    kb = KernelBuilder("halves")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, y = kb.input("a", (m, n), float32), kb.input("b", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), where(j < n // 3, x[i, j] * y[i, j], where(j < 2 * n // 3, x[i, j] - y[i, j], x[i, j])))
    return kb.build()
