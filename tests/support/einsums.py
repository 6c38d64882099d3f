"""Small sums of products of several arrays, and products whose operands are computed."""

from __future__ import annotations

from tilewright.ir import KernelBuilder, cast, float32, int8, int32, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const


def einsum(text: str, **sizes: int) -> Kernel:
    """The sum that `text` says, as `ij,jk->ik`; inputs are a, b, c and so on. `sizes`: the extents."""
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


def decoded(m: int, n: int, k: int, group: int) -> Kernel:
    """x @ w with int8 weights (k, n), and a scale for each group of k."""
    kb = KernelBuilder("decoded")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w, s = kb.input("x", (m, k), float32), kb.input("w", (k, n), int8, range=(-127, 127)), kb.input("s", (k // group, n), float32)
    acc = kb.sum("acc", (i, j), l, x[i, l] * (cast(w[l, j], float32) * s[l // group, j]))
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def normed(m: int, n: int, k: int) -> Kernel:
    """Rows of a divided by their lengths, times w."""
    kb = KernelBuilder("normed")
    i, j, l, r = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k), kb.axis("k@length", k)
    a, w = kb.input("a", (m, k), float32), kb.input("w", (k, n), float32)
    length = kb.sum("length", (i,), r, a[i, r] * a[i, r])
    acc = kb.sum("acc", (i, j), l, a[i, l] / sqrt(length[i] + 1.0) * w[l, j])
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def distances(m: int, n: int, k: int) -> Kernel:
    """The nearest of n centres for each of m points, by products and norms."""
    kb = KernelBuilder("distances")
    i, l, r = kb.axis("m", m), kb.axis("k", k), kb.axis("k@norm", k)
    c, low_c, at_c, norm_c = (kb.axis(name, n) for name in ("n", "n@low", "n@at", "n@norm"))
    x, w = kb.input("x", (m, k), float32), kb.input("c", (n, k), float32)
    norm = kb.sum("norm", (norm_c,), r, w[norm_c, r] * w[norm_c, r])
    acc = kb.sum("acc", (i, c), l, x[i, l] * w[c, l])
    low = kb.min("low", (i,), low_c, norm[low_c] - 2.0 * acc[i, low_c])
    same = (norm[at_c] - 2.0 * acc[i, at_c]).eq(low[i])
    at = kb.min("at", (i,), at_c, where(same, cast(at_c, int32), const(n, int32)))
    kb.store("y", int32, (m,), (i,), at[i])
    return kb.build()
