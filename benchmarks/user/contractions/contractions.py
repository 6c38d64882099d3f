"""Contractions as users write them: operands that are computed, and products of several arrays.

Each function makes a kernel of its sizes; in C, computed operands are decoded once into an array, sums are in the best order with
temporary arrays, and one blocked product serves all (`contractions.h`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.ir import Kernel, KernelBuilder, Node, cast, const, erf, float16, float32, int8, int32, sqrt, uint8, where

Term = Callable[[KernelBuilder, Node, Node, Node], Node]
"""What is summed over k, of (row, column, step)."""


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


def _product(make: Term, m: int, n: int, k: int) -> Kernel:
    """Σ over k of what `make` gives for (row, column, step)."""
    kb = KernelBuilder("product")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    acc = kb.sum("acc", (i, j), l, make(kb, i, j, l))
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def int8_kn(m: int = 1024, n: int = 1024, k: int = 1024, g: int = 64) -> Kernel:
    """Weights of int8 (k, n) with a scale for each g of k."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (m, k), float32), kb.input("w", (k, n), int8, range=(-127, 127))
        return x[i, l] * (cast(w[l, j], float32) * kb.input("s", (k // g, n), float32)[l // g, j])

    return _product(make, m, n, k)


def int8_nk(m: int = 1024, n: int = 1024, k: int = 1024, g: int = 64) -> Kernel:
    """The same with weights (n, k)."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k), int8, range=(-127, 127))
        return x[i, l] * (cast(w[j, l], float32) * kb.input("s", (n, k // g), float32)[j, l // g])

    return _product(make, m, n, k)


def int4_kn(m: int = 1024, n: int = 1024, k: int = 1024, g: int = 64) -> Kernel:
    """Weights of 4 bits (k, n), two of k in a byte, with scales and zero points."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        x, w = kb.input("x", (m, k), float32), kb.input("w", (k // 2, n), uint8, range=(0, 255))
        s, z = kb.input("s", (k // g, n), float32), kb.input("z", (k // g, n), uint8, range=(0, 15))
        bits = (cast(w[l // 2, j], int32) >> cast(l % 2 * 4, int32)) & 15
        return x[i, l] * (cast(bits - cast(z[l // g, j], int32), float32) * s[l // g, j])

    return _product(make, m, n, k)


def half_kn(m: int = 1024, n: int = 1024, k: int = 1024) -> Kernel:
    """Weights of float16."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        return kb.input("x", (m, k), float32)[i, l] * cast(kb.input("w", (k, n), float16)[l, j], float32)

    return _product(make, m, n, k)


def gelu_rows(m: int = 1024, n: int = 1024, k: int = 1024) -> Kernel:
    """gelu(a) @ w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a = kb.input("a", (m, k), float32)[i, l]
        return a * 0.5 * (1.0 + erf(a * 0.70710678)) * kb.input("w", (k, n), float32)[l, j]

    return _product(make, m, n, k)


def normed_rows(m: int = 1024, n: int = 1024, k: int = 1024) -> Kernel:
    """(a - mean) · rstd @ w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a, r, q = kb.input("a", (m, k), float32), kb.axis("k@mean", k), kb.axis("k@var", k)
        mean = kb.sum("mean", (i,), r, a[i, r] * (1.0 / k))
        var = kb.sum("var", (i,), q, (a[i, q] - mean[i]) * (a[i, q] - mean[i]) * (1.0 / k))
        return (a[i, l] - mean[i]) / sqrt(var[i] + 1e-5) * kb.input("w", (k, n), float32)[l, j]

    return _product(make, m, n, k)


def normed_columns(m: int = 1024, n: int = 1024, k: int = 1024) -> Kernel:
    """a @ (w / the length of each column of w)."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        a, w, r = kb.input("a", (m, k), float32), kb.input("w", (k, n), float32), kb.axis("k@norm", k)
        norm = kb.sum("norm", (j,), r, w[r, j] * w[r, j])
        return a[i, l] * (w[l, j] / sqrt(norm[j]))

    return _product(make, m, n, k)


def gathered_rows(m: int = 1024, n: int = 1024, k: int = 512, v: int = 20000) -> Kernel:
    """Rows of a table that indices pick, times w."""

    def make(kb: KernelBuilder, i: Node, j: Node, l: Node) -> Node:
        ids, t = kb.input("ids", (m,), int32, range=(0, v - 1)), kb.input("t", (v, k), float32)
        return t[ids[i], l] * kb.input("w", (k, n), float32)[l, j]

    return _product(make, m, n, k)


def _nearest(products: bool, m: int = 16384, n: int = 512, k: int = 64) -> Kernel:
    """The nearest of n centres for each of m points with k numbers: by products and norms, or by squared differences."""
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


nearest_products, nearest_squares = partial(_nearest, True), partial(_nearest, False)


def chain3(i: int = 512, j: int = 512, k: int = 512, l: int = 512) -> Kernel:
    """Three matrices."""
    return einsum("ij,jk,kl->il", i=i, j=j, k=k, l=l)


def chain4(i: int = 512, j: int = 512, k: int = 512, l: int = 512, m: int = 512) -> Kernel:
    """Four matrices."""
    return einsum("ij,jk,kl,lm->im", i=i, j=j, k=k, l=l, m=m)


def lowrank(i: int = 2048, j: int = 2048, r: int = 16, k: int = 2048) -> Kernel:
    """A matrix times another of low rank."""
    return einsum("ij,jr,rk->ik", i=i, j=j, r=r, k=k)


def bilinear(b: int = 64, i: int = 128, j: int = 128, k: int = 128) -> Kernel:
    """A bilinear layer."""
    return einsum("bi,ijk,bj->bk", b=b, i=i, j=j, k=k)


def quadratic(b: int = 4096, i: int = 256, j: int = 256) -> Kernel:
    """Quadratic forms of pairs of vectors."""
    return einsum("bi,ij,bj->b", b=b, i=i, j=j)


def tucker_rebuild(p: int = 24, q: int = 24, r: int = 24, i: int = 160, j: int = 160, k: int = 160) -> Kernel:
    """A tensor from its Tucker decomposition."""
    return einsum("pqr,ip,jq,kr->ijk", p=p, q=q, r=r, i=i, j=j, k=k)


def cp(i: int = 192, j: int = 192, k: int = 192, r: int = 64) -> Kernel:
    """A tensor from its CP decomposition."""
    return einsum("ir,jr,kr->ijk", i=i, j=j, k=k, r=r)


def mttkrp_dense(i: int = 256, j: int = 96, k: int = 96, r: int = 64) -> Kernel:
    """The product of an unfolded tensor with the Khatri-Rao product of two factors."""
    return einsum("ijk,jr,kr->ir", i=i, j=j, k=k, r=r)
