"""Chains of stencils: each as a kernel, and as C loops that keep every intermediate in an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node

FIVE = (0.0625, 0.25, 0.375, 0.25, 0.0625)
NINE = (0.02, 0.06, 0.12, 0.18, 0.24, 0.18, 0.12, 0.06, 0.02)


@dataclass(frozen=True)
class Case:
    """A kernel and its C text, a function `run(in, out, keep)`; `keep` has room for so many arrays as large as the input."""

    name: str
    kernel: Kernel
    source: str
    kept: int


def total(terms: Iterable[Any]) -> Any:
    """Their sum, from the left."""
    return reduce(add, terms)


def _fresh(kb: KernelBuilder, name: str, *extents: int) -> tuple[Node, ...]:
    return tuple(kb.axis(f"{axis}{name}", extent) for axis, extent in zip("zyx"[-len(extents) :], extents, strict=True))


def _text(body: str, **sizes: object) -> str:
    text = "void run(const float *restrict a, float *restrict out, float *restrict keep) {\n" + body + "}\n"
    for name, value in sizes.items():
        text = text.replace(f"@{name}", str(value))
    return text


LOOP = "#pragma omp parallel for\n  for (int y = 0; y < %s; y++) for (int x = 0; x < %s; x++)\n"


def gaussian(h: int, w: int, taps: Sequence[float], sums: bool = False) -> Case:
    """A separable blur of a padded image; with `sums` as two reductions over taps."""
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
    first = " + ".join(f"a[y * {w + r} + x + {d}] * {c}f" for d, c in enumerate(taps))
    second = " + ".join(f"keep[(y + {d}) * {w} + x] * {c}f" for d, c in enumerate(taps))
    body = LOOP % (h + r, w) + f"    keep[y * {w} + x] = {first};\n" + LOOP % (h, w) + f"    out[y * {w} + x] = {second};\n"
    return Case(f"gaussian{r + 1}{'_sums' if sums else ''}", kb.build(), _text(body), 1)


def unsharp(h: int, w: int) -> Case:
    """The image and 1.5 times what a blur takes away: three stages."""
    kb = KernelBuilder("unsharp")
    a = kb.input("a", (h + 4, w + 4), float32)
    (y1, x1), (y2, x2), (y, x) = _fresh(kb, "1", h + 4, w), _fresh(kb, "2", h, w), _fresh(kb, "", h, w)
    rows = kb.value("rows", (y1, x1), total(a[y1, x1 + d] * c for d, c in enumerate(FIVE)))
    blurred = kb.value("blurred", (y2, x2), total(rows[y2 + d, x2] * c for d, c in enumerate(FIVE)))
    centre = a[y + 2, x + 2]
    kb.store("out", float32, (h, w), (y, x), centre + (centre - blurred[y, x]) * 1.5)
    first = " + ".join(f"a[y * {w + 4} + x + {d}] * {c}f" for d, c in enumerate(FIVE))
    second = " + ".join(f"keep[(y + {d}) * {w} + x] * {c}f" for d, c in enumerate(FIVE))
    body = LOOP % (h + 4, w) + f"    keep[y * {w} + x] = {first};\n" + LOOP % (h, w) + f"    b[y * {w} + x] = {second};\n"
    body += LOOP % (h, w) + f"    {{ float c = a[(y + 2) * {w + 4} + x + 2]; out[y * {w} + x] = c + (c - b[y * {w} + x]) * 1.5f; }}\n"
    return Case("unsharp", kb.build(), _text(f"  float *restrict b = keep + {(h + 4) * (w + 4)};\n{body}"), 2)


def harris(h: int, w: int) -> Case:
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
    n = (h + 4) * (w + 4)
    taps = enumerate((1.0, 2.0, 1.0))
    lines = [
        (
            f"(a[(y + {d}) * {w + 4} + x + 2] - a[(y + {d}) * {w + 4} + x]) * {c}f",
            f"(a[(y + 2) * {w + 4} + x + {d}] - a[y * {w + 4} + x + {d}]) * {c}f",
        )
        for d, c in taps
    ]
    body = "".join(f"  float *restrict {name} = keep + {i * n};\n" for i, name in enumerate(("gx", "gy", "sxx", "syy", "sxy")))
    for name, k in (("gx", 0), ("gy", 1)):
        body += LOOP % more + f"    {name}[y * {w + 2} + x] = {' + '.join(each[k] for each in lines)};\n"
    for name, p, q in (("sxx", "gx", "gx"), ("syy", "gy", "gy"), ("sxy", "gx", "gy")):
        near = [f"(y + {i}) * {w + 2} + x + {j}" for i in range(3) for j in range(3)]
        body += LOOP % (h, w) + f"    {name}[y * {w} + x] = {' + '.join(f'{p}[{at}] * {q}[{at}]' for at in near)};\n"
    body += (
        LOOP % (h, w)
        + f"    {{ int i = y * {w} + x; float t = sxx[i] + syy[i]; out[i] = sxx[i] * syy[i] - sxy[i] * sxy[i] - t * t * 0.04f; }}\n"
    )
    return Case("harris", kb.build(), _text(body), 5)


def jacobi(h: int, w: int, steps: int) -> Case:
    """Steps of a four-point average."""
    kb = KernelBuilder("jacobi")
    before: Any = kb.input("a", (h + 2 * steps, w + 2 * steps), float32)
    body, source = "", "a"
    n = (h + 2 * steps) * (w + 2 * steps)
    for i in range(1, steps + 1):
        r = 2 * (steps - i)
        y, x = _fresh(kb, str(i) if i < steps else "", h + r, w + r)
        new = (before[y, x + 1] + before[y + 2, x + 1] + before[y + 1, x] + before[y + 1, x + 2]) * 0.25
        row, to = w + r + 2, "out" if i == steps else f"(keep + {(i - 1) * n})"
        at = " + ".join(f"{source}[(y + {p}) * {row} + x + {q}]" for p, q in ((0, 1), (2, 1), (1, 0), (1, 2)))
        body += LOOP % (h + r, w + r) + f"    {to}[y * {w + r} + x] = ({at}) * 0.25f;\n"
        source = to
        if i < steps:
            before = kb.value(f"step{i}", (y, x), new)
        else:
            kb.store("out", float32, (h, w), (y, x), new)
    return Case(f"jacobi{steps}", kb.build(), _text(body), steps - 1)


def heat(d: int, h: int, w: int) -> Case:
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
    loop = "#pragma omp parallel for\n  for (int z = 0; z < %d; z++) for (int y = 0; y < %d; y++) for (int x = 0; x < %d; x++)\n"

    def text(source: str, to: str, *size: int) -> str:
        rows, row = size[1] + 2, size[2] + 2
        at = [f"{source}[((z + {i}) * {rows} + y + {j}) * {row} + x + {k}]" for i, j, k in ((1, 1, 1), *around)]
        return loop % size + f"    {to}[(z * {size[1]} + y) * {size[2]} + x] = {at[0]} * 0.4f + ({' + '.join(at[1:])}) * 0.1f;\n"

    body = text("a", "keep", d + 2, h + 2, w + 2) + text("keep", "out", d, h, w)
    return Case("heat3d", kb.build(), _text(body), 1)


def cases(size: int = 2048) -> list[Case]:
    """Every chain, of images of `size` × `size` elements."""
    return [
        gaussian(size, size, FIVE),
        gaussian(size, size, NINE),
        gaussian(size, size, FIVE, sums=True),
        unsharp(size, size),
        harris(size, size),
        jacobi(size, size, 2),
        jacobi(size, size, 3),
        heat(size // 16, size // 8, size // 8),
    ]
