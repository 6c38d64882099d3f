"""Contractions as users write them: operands that are computed, and products of several arrays. `contractions.c` has each in C."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import KernelBuilder, cast, erf, float16, float32, int8, int32, sqrt, uint8, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const

SIZE, GROUP = 1024, 64


def einsum(text: str, **sizes: int) -> Kernel:
    """The sum that `text` says, as `ij,jk->ik`, of inputs a0, b0 and so on; `sizes`: the extents."""
    left, out = text.split("->")
    kb = KernelBuilder("einsum")
    axes = {x: kb.axis(x, sizes[x]) for x in dict.fromkeys(left) if x != ","}
    expr: Node | None = None
    for name, term in zip("abcdefgh", left.split(","), strict=False):
        read = kb.input(f"{name}0", tuple(sizes[x] for x in term), float32)[tuple(axes[x] for x in term)]
        expr = read if expr is None else expr * read
    assert expr is not None
    at = tuple(axes[x] for x in out)
    acc = kb.sum("acc", at, tuple(a for x, a in axes.items() if x not in out), expr)
    kb.store("y", float32, tuple(sizes[x] for x in out), at, acc[at])
    return kb.build()


def _product(make: Callable[[KernelBuilder, Node, Node, Node], Node], m: int = SIZE, n: int = SIZE, k: int = SIZE) -> Kernel:
    """Σ over k of what `make` gives for (row, column, step)."""
    kb = KernelBuilder("product")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    acc = kb.sum("acc", (i, j), l, make(kb, i, j, l))
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def int8_kn(m: int = SIZE, n: int = SIZE, k: int = SIZE) -> Kernel:
    """Weights of int8 (k, n) with a scale for each group of k."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (m, k), float32), kb.input("w", (k, n), int8, range=(-127, 127))
        return x[i, l] * (cast(w[l, j], float32) * kb.input("s", (k // GROUP, n), float32)[l // GROUP, j])

    return _product(make, m, n, k)


def int8_nk() -> Kernel:
    """The same with weights (n, k)."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (SIZE, SIZE), float32), kb.input("w", (SIZE, SIZE), int8, range=(-127, 127))
        return x[i, l] * (cast(w[j, l], float32) * kb.input("s", (SIZE, SIZE // GROUP), float32)[j, l // GROUP])

    return _product(make)


def int4_kn() -> Kernel:
    """Weights of 4 bits (k, n), two of k in a byte, with scales and zero points."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (SIZE, SIZE), float32), kb.input("w", (SIZE // 2, SIZE), uint8, range=(0, 255))
        s, z = kb.input("s", (SIZE // GROUP, SIZE), float32), kb.input("z", (SIZE // GROUP, SIZE), uint8, range=(0, 15))
        bits = (cast(w[l // 2, j], int32) >> cast(l % 2 * 4, int32)) & 15
        return x[i, l] * (cast(bits - cast(z[l // GROUP, j], int32), float32) * s[l // GROUP, j])

    return _product(make)


def half_kn() -> Kernel:
    """Weights of float16."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        return kb.input("x", (SIZE, SIZE), float32)[i, l] * cast(kb.input("w", (SIZE, SIZE), float16)[l, j], float32)

    return _product(make)


def gelu_rows() -> Kernel:
    """gelu(a) @ w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a = kb.input("a", (SIZE, SIZE), float32)[i, l]
        return a * 0.5 * (1.0 + erf(a * 0.70710678)) * kb.input("w", (SIZE, SIZE), float32)[l, j]

    return _product(make)


def normed_rows() -> Kernel:
    """(a − mean) · rstd @ w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a, r, q = kb.input("a", (SIZE, SIZE), float32), kb.axis("k@mean", SIZE), kb.axis("k@var", SIZE)
        mean = kb.sum("mean", (i,), r, a[i, r] * (1.0 / SIZE))
        var = kb.sum("var", (i,), q, (a[i, q] - mean[i]) * (a[i, q] - mean[i]) * (1.0 / SIZE))
        return (a[i, l] - mean[i]) / sqrt(var[i] + 1e-5) * kb.input("w", (SIZE, SIZE), float32)[l, j]

    return _product(make)


def normed_columns() -> Kernel:
    """a @ (w / the length of each column of w)."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a, w, r = kb.input("a", (SIZE, SIZE), float32), kb.input("w", (SIZE, SIZE), float32), kb.axis("k@norm", SIZE)
        norm = kb.sum("norm", (j,), r, w[r, j] * w[r, j])
        return a[i, l] * (w[l, j] / sqrt(norm[j]))

    return _product(make)


def gathered_rows() -> Kernel:
    """Rows of a table that indices pick, times w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        ids, t = kb.input("ids", (SIZE,), int32, range=(0, 19999)), kb.input("t", (20000, 512), float32)
        return t[ids[i], l] * kb.input("w", (512, SIZE), float32)[l, j]

    return _product(make, k=512)


def nearest(products: bool) -> Kernel:
    """The nearest of 512 centres for each of 16384 points with 64 numbers: by products and norms, or by squared differences."""
    m, n, k = 16384, 512, 64
    kb = KernelBuilder("nearest")
    i, l, c, low_c, at_c = kb.axis("m", m), kb.axis("k", k), kb.axis("n", n), kb.axis("n@low", n), kb.axis("n@at", n)
    x, w = kb.input("x", (m, k), float32), kb.input("c", (n, k), float32)
    if products:
        norm_c, r = kb.axis("n@norm", n), kb.axis("k@norm", k)
        norm = kb.sum("norm", (norm_c,), r, w[norm_c, r] * w[norm_c, r])
        acc = kb.sum("acc", (i, c), l, x[i, l] * w[c, l])
    else:
        acc = kb.sum("acc", (i, c), l, (x[i, l] - w[c, l]) * (x[i, l] - w[c, l]))

    def distance(p: Node) -> Node:
        return norm[p] - 2.0 * acc[i, p] if products else acc[i, p]

    low = kb.min("low", (i,), low_c, distance(low_c))
    at = kb.min("at", (i,), at_c, where(distance(at_c).eq(low[i]), cast(at_c, int32), const(n, int32)))
    kb.store("y", int32, (m,), (i,), at[i])
    return kb.build()


CASES: dict[str, Callable[[], Kernel]] = {
    "int8_kn": int8_kn,
    "int8_nk": int8_nk,
    "int8_few_rows": lambda: int8_kn(8, 4096, 4096),
    "int4_kn": int4_kn,
    "half_kn": half_kn,
    "gelu_rows": gelu_rows,
    "normed_rows": normed_rows,
    "normed_columns": normed_columns,
    "gathered_rows": gathered_rows,
    "nearest_products": lambda: nearest(True),
    "nearest_squares": lambda: nearest(False),
    "chain3": lambda: einsum("ij,jk,kl->il", i=512, j=512, k=512, l=512),
    "chain4": lambda: einsum("ij,jk,kl,lm->im", i=512, j=512, k=512, l=512, m=512),
    "lowrank": lambda: einsum("ij,jr,rk->ik", i=2048, j=2048, r=16, k=2048),
    "bilinear": lambda: einsum("bi,ijk,bj->bk", b=64, i=128, j=128, k=128),
    "quadratic": lambda: einsum("bi,ij,bj->b", b=4096, i=256, j=256),
    "tucker": lambda: einsum("pqr,ip,jq,kr->ijk", p=24, q=24, r=24, i=160, j=160, k=160),
    "cp": lambda: einsum("ir,jr,kr->ijk", i=192, j=192, k=192, r=64),
    "mttkrp": lambda: einsum("ijk,jr,kr->ir", i=256, j=96, k=96, r=64),
}
