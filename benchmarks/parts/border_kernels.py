"""Stencils and windows with borders of every kind, each with the loops that one writes for it in C: `borders.py` sets one against the other.

`CASES` has a function that makes the kernel, and the body of the C function `void f(const T *x, ..., T *y)`, the parameters in the
kernel's order. The indices in C are written as in the kernel, which is how users write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir import DType, Kernel, KernelBuilder, Node, const, float32, int16, uint8, where
from tilewright.ir.functions import maximum, minimum

HEAD = "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n"
Index = Callable[[Node, int, int], Node]
"""A neighbour's place: of the axis, how far, and the extent."""


@dataclass(frozen=True)
class BorderCase:
    """A kernel, and the same in C: parameters and a body."""

    make: Callable[[], Kernel]
    params: str
    body: str


def clamped(i: Node, by: int, n: int) -> Node:
    """The nearest place inside."""
    return i if by == 0 else maximum(i + by, 0) if by < 0 else minimum(i + by, n - 1)


def wrapped(i: Node, by: int, n: int) -> Node:
    """Around the end."""
    return i if by == 0 else (i + by + (n if by < 0 else 0)) % n


def reflected(i: Node, by: int, n: int) -> Node:
    """Mirrored at the first or last place."""
    return i if by == 0 else maximum(i + by, -(i + by)) if by < 0 else minimum(i + by, 2 * (n - 1) - (i + by))


C_INDEX = {
    "clamp": lambda v, by, n: v if not by else f"MAX({v}{by}, 0)" if by < 0 else f"MIN({v}+{by}, {n}-1)",
    "wrap": lambda v, by, n: v if not by else f"({v}{by:+d}+{n})%{n}",
    "reflect": lambda v, by, n: v if not by else f"abs({v}{by})" if by < 0 else f"MIN({v}+{by}, 2*({n}-1)-({v}+{by}))",
}
INDEX: dict[str, Index] = {"clamp": clamped, "wrap": wrapped, "reflect": reflected}


def points(taps: list[tuple[int, ...]], weights: list[float], shape: tuple[int, ...], kind: str) -> BorderCase:
    """A weighted sum of neighbours at `taps`."""
    names = "ijk"[: len(shape)]

    def make() -> Kernel:
        kb = KernelBuilder(f"{kind}{len(taps)}")
        axes = [kb.axis(a, n) for a, n in zip(names, shape)]
        x, total = kb.input("x", shape, float32), None
        for t, w in zip(taps, weights):
            if kind == "zero":
                at = [a + by for a, by in zip(axes, t)]
                conds = [a + by >= 0 if by < 0 else a + by < n for a, by, n in zip(axes, t, shape) if by]
                mask = None
                for c in conds:
                    mask = c if mask is None else mask & c
                v = x[tuple(at)] if mask is None else x.masked(mask, *at)
            else:
                v = x[tuple(INDEX[kind](a, by, n) for a, by, n in zip(axes, t, shape))]
            total = v * w if total is None else total + v * w
        assert total is not None
        kb.store("y", float32, shape, axes, total)
        return kb.build()

    def flat(at: list[str]) -> str:
        out = at[0]
        for i, n in zip(at[1:], shape[1:]):
            out = f"({out})*{n}+{i}"
        return out

    terms = []
    for t, w in zip(taps, weights):
        if kind == "zero":
            cond = "&&".join([f"{v}{by:+d}>={0}" if by < 0 else f"{v}{by:+d}<{n}" for v, by, n in zip(names, t, shape) if by] or ["1"])
            terms.append(f"(({cond}) ? x[{flat([f'({v}{by:+d})' for v, by in zip(names, t)])}] : 0)*{w}f")
        else:
            terms.append(f"x[{flat([f'({C_INDEX[kind](v, by, n)})' for v, by, n in zip(names, t, shape)])}]*{w}f")
    loops = "".join(f"for (int {v} = 0; {v} < {n}; {v}++) " for v, n in zip(names, shape))
    return BorderCase(make, "const float *restrict x, float *restrict y", f"{loops} y[{flat(list(names))}] = {' + '.join(terms)};")


def box(radius: int, shape: tuple[int, int], kind: str, dtype: DType = float32) -> BorderCase:
    """The sum over a window, with weights that are read; of bytes, divided by a power of two."""
    h, w = shape
    k = 2 * radius + 1
    name = {"float32": "float", "uint8": "unsigned char", "int16": "short"}[dtype.name]

    def make() -> Kernel:
        kb = KernelBuilder(f"box{k}_{kind}_{dtype.name}")
        i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("dy", k), kb.axis("dx", k)
        x = kb.input("x", shape, dtype)
        at = i + p - radius, j + q - radius
        if kind == "zero":
            v = x.masked((at[0] >= 0) & (at[0] < h) & (at[1] >= 0) & (at[1] < w), *at)
        else:
            v = x[minimum(maximum(at[0], 0), h - 1), minimum(maximum(at[1], 0), w - 1)]
        if dtype is float32:
            g = kb.input("g", (k, k), float32)
            total = kb.sum("total", (i, j), (p, q), v * g[p, q])
            kb.store("y", dtype, shape, (i, j), total[i, j])
        else:
            from tilewright.ir import int32

            total = kb.sum("total", (i, j), (p, q), v.cast(int32))
            kb.store("y", dtype, shape, (i, j), (total[i, j] >> const(5, int32)).cast(dtype))
        return kb.build()

    if kind == "zero":
        value = f"((i+p-{radius} >= 0 && i+p-{radius} < {h} && j+q-{radius} >= 0 && j+q-{radius} < {w}) ? x[(i+p-{radius})*{w}+j+q-{radius}] : 0)"
    else:
        value = f"x[MIN(MAX(i+p-{radius}, 0), {h - 1})*{w}+MIN(MAX(j+q-{radius}, 0), {w - 1})]"
    acc = "float" if dtype is float32 else "int"
    weight, end = (f"*g[p*{k}+q]", "s") if dtype is float32 else ("", "s >> 5")
    params = f"const {name} *restrict x, {'const float *restrict g, ' if dtype is float32 else ''}{name} *restrict y"
    return BorderCase(
        make,
        params,
        f"for (int i = 0; i < {h}; i++) for (int j = 0; j < {w}; j++) {{ {acc} s = 0; for (int p = 0; p < {k}; p++) "
        f"for (int q = 0; q < {k}; q++) s += {value}{weight}; y[i*{w}+j] = {end}; }}",
    )


def causal(c: int, t: int, k: int) -> BorderCase:
    """A causal convolution of each channel, channels first."""

    def make() -> Kernel:
        kb = KernelBuilder("causal")
        i, j, q = kb.axis("c", c), kb.axis("t", t), kb.axis("k", k)
        x, w = kb.input("x", (c, t), float32), kb.input("w", (c, k), float32)
        total = kb.sum("total", (i, j), q, x.masked(j - q >= 0, i, j - q) * w[i, q])
        kb.store("y", float32, (c, t), (i, j), total[i, j])
        return kb.build()

    return BorderCase(
        make,
        "const float *restrict x, const float *restrict w, float *restrict y",
        f"for (int i = 0; i < {c}; i++) for (int j = 0; j < {t}; j++) {{ float s = 0; for (int q = 0; q < {k}; q++) "
        f"if (j-q >= 0) s += x[i*{t}+j-q]*w[i*{k}+q]; y[i*{t}+j] = s; }}",
    )


def sobel(h: int, w: int) -> BorderCase:
    """The gradient of an image of bytes, clamped borders."""
    gx = {(-1, -1): -1, (-1, 1): 1, (0, -1): -2, (0, 1): 2, (1, -1): -1, (1, 1): 1}

    def make() -> Kernel:
        from tilewright.ir import int32
        from tilewright.ir.functions import absolute

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

    def text(turned: bool) -> str:
        each = [(((b, a) if turned else (a, b)), s) for (a, b), s in gx.items()]
        return "+".join(f"({s})*x[{C_INDEX['clamp']('i', dy, h)}*{w}+{C_INDEX['clamp']('j', dx, w)}]" for (dy, dx), s in each)

    return BorderCase(
        make,
        "const unsigned char *restrict x, unsigned char *restrict y",
        f"for (int i = 0; i < {h}; i++) for (int j = 0; j < {w}; j++) {{ int a = {text(False)}, b = {text(True)}; "
        f"int s = abs(a) + abs(b); y[i*{w}+j] = MIN(s, 255); }}",
    )


def halves(n: int) -> BorderCase:
    """Another expression in each part of an axis."""

    def make() -> Kernel:
        kb = KernelBuilder("halves")
        i, j = kb.axis("m", 64), kb.axis("n", n)
        x, y = kb.input("a", (64, n), float32), kb.input("b", (64, n), float32)
        kb.store("y", float32, (64, n), (i, j), where(j < n // 3, x[i, j] * y[i, j], where(j < 2 * n // 3, x[i, j] - y[i, j], x[i, j])))
        return kb.build()

    return BorderCase(
        make,
        "const float *restrict a, const float *restrict b, float *restrict y",
        f"for (int i = 0; i < 64; i++) for (int j = 0; j < {n}; j++) {{ int e = i*{n}+j; "
        f"y[e] = j < {n // 3} ? a[e]*b[e] : j < {2 * n // 3} ? a[e]-b[e] : a[e]; }}",
    )


FIVE = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
SEVEN = [(0, 0, 0), *(tuple(s if a == d else 0 for a in range(3)) for d in range(3) for s in (-1, 1))]
NINE = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
TWENTY_FIVE = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]
IMAGE, ODD, CUBE = (512, 512), (509, 517), (64, 64, 128)


def _weights(n: int) -> list[float]:
    return [round(0.5 + 0.01 * i, 3) for i in range(n)]


CASES: dict[str, BorderCase] = {
    **{f"five_{k}": points(FIVE, _weights(5), IMAGE, k) for k in ("clamp", "wrap", "reflect", "zero")},
    "five_odd": points(FIVE, _weights(5), ODD, "clamp"),
    **{f"nine_{k}": points(NINE, _weights(9), IMAGE, k) for k in ("clamp", "wrap", "reflect", "zero")},
    "gauss25_clamp": points(TWENTY_FIVE, _weights(25), IMAGE, "clamp"),
    "gauss25_reflect": points(TWENTY_FIVE, _weights(25), IMAGE, "reflect"),
    **{f"seven_{k}": points(SEVEN, _weights(7), CUBE, k) for k in ("clamp", "wrap", "zero")},  # type: ignore[arg-type]
    "box3_clamp": box(1, IMAGE, "clamp"),
    "box5_clamp": box(2, IMAGE, "clamp"),
    "box3_zero": box(1, IMAGE, "zero"),
    "box5_zero": box(2, IMAGE, "zero"),
    "box5_uint8": box(2, IMAGE, "clamp", uint8),
    "box5_int16": box(2, IMAGE, "zero", int16),
    "sobel": sobel(*IMAGE),
    "causal4": causal(64, 4096, 4),
    "causal16": causal(64, 4096, 16),
    "halves": halves(4096),
}
