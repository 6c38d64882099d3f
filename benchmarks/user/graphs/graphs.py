"""Graphs: neighbours, shortest paths, PageRank, graph networks.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    exp,
    expm1,
    float32,
    float64,
    int32,
    int64,
    maximum,
    minimum,
    popcount,
    rsqrt,
    uint64,
    where,
)


def triangle_edges(v: int = 600, e: int = 9001, w: int = 10) -> Kernel:
    """In how many triangles each edge of a graph lies: neighbours of both ends, by rows of bits."""
    kb = KernelBuilder("triangle_edges")
    i, k = kb.axis("e", e), kb.axis("w", w)
    bits = kb.input("bits", (v, w), uint64)
    a, b = kb.input("a", (e,), int32, range=(0, v - 1)), kb.input("b", (e,), int32, range=(0, v - 1))
    both = bits[cast(a[i], int64), k] & bits[cast(b[i], int64), k]
    many = kb.sum("many", (i,), k, cast(popcount(both), int32))
    kb.store("y", int32, (e,), (i,), many[i])
    return kb.build()


def least_labels(n: int = 20011, l: int = 9) -> Kernel:
    """A step of finding a graph's parts: the least label of each node and its neighbours, kept neighbour after neighbour."""
    kb = KernelBuilder("least_labels")
    i, j, k = kb.axis("n", n), kb.axis("l", l), kb.axis("n@changed", n)
    label, near = kb.input("label", (n,), int32, range=(0, n - 1)), kb.input("near", (l, n), int32, range=(-1, n - 1))
    other = near[j, i]
    theirs = where(other < 0, n, label.masked(other >= 0, cast(other, int64)))
    least = kb.min("least", (i,), j, theirs)
    kb.store("y", int32, (n,), (i,), minimum(least[i], label[i]))
    changed = kb.sum("many", (), k, cast(least[k] < label[k], int32))
    kb.store("changed", int32, (1,), (), changed[()], (0,))
    return kb.build()


def pagerank_step(n: int = 12000, l: int = 10) -> Kernel:
    """A step of PageRank: what each page gets from l others, and how much all changed."""
    kb = KernelBuilder("pagerank_step")
    i, k, s, m = kb.axis("n", n), kb.axis("l", l), kb.axis("n@share", n), kb.axis("n@change", n)
    rank = kb.input("rank", (n,), float64, range=(0.0, 1.0))
    degree = kb.input("degree", (n,), int32, range=(1, 60))
    of = kb.input("of", (n, l), int32, range=(0, n - 1))
    share = kb.value("share", (s,), rank[s] / cast(degree[s], float64))
    got = kb.sum("got", (i,), k, share[cast(of[i, k], int64)])
    new = kb.value("next", (i,), 0.15 / n + 0.85 * got[i])
    kb.store("y", float64, (n,), (i,), new[i])
    change = kb.sum("moved", (), m, absolute(new[m] - rank[m]))
    kb.store("change", float64, (1,), (), change[()], (0,))
    return kb.build()


def min_plus(m: int = 384, n: int = 384, k: int = 384) -> Kernel:
    """The shortest ways of two legs between all pairs: a product of matrices whose sum is a minimum."""
    kb = KernelBuilder("min_plus")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
    least = kb.min("least", (i, j), l, a[i, l] + b[l, j])
    kb.store("y", float32, (m, n), (i, j), least[i, j])
    return kb.build()


def neighbours_mean(n: int = 8192, l: int = 24, d: int = 64) -> Kernel:
    """The mean of the rows of each node's neighbours, of which it has at most l."""
    kb = KernelBuilder("neighbours_mean")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    x, many = kb.input("x", (n, d), float32), kb.input("many", (n,), int32, range=(0, l))
    at = kb.input("at", (n, l), int32, range=(0, n - 1))
    total = kb.sum("total", (i, f), k, where(cast(k, int32) < many[i], x[cast(at[i, k], "int64"), f], 0.0))
    kb.store("y", float32, (n, d), (i, f), total[i, f] / cast(maximum(many[i], 1), float32))
    return kb.build()


def laplacian_apply(n: int = 601) -> Kernel:
    """A vector smoothed by a graph's matrix, scaled by the roots of both nodes' degrees; how many neighbours each has."""
    kb = KernelBuilder("laplacian_apply")
    i, d, k, c = kb.axis("n", n), kb.axis("n@degree", n), kb.axis("n@near", n), kb.axis("n@count", n)
    w, v = kb.input("w", (n, n), float64, range=(-1.0, 1.0)), kb.input("v", (n,), float64)
    degree = kb.sum("degree", (i,), d, absolute(w[i, d]))
    near = kb.sum("near", (i,), k, w[i, k] * v[k] * rsqrt(degree[k]))
    many = kb.sum("many", (i,), c, where(w[i, c] > 0.5, 1, 0))
    kb.store("y", float64, (n,), (i,), v[i] - near[i] * rsqrt(degree[i]))
    kb.store("neighbours", int32, (n,), (i,), many[i])
    return kb.build()


def gat_layer(n: int = 1201, l: int = 12, h: int = 4, d: int = 16) -> Kernel:
    """A layer of a graph attention network: each node's heads weigh its neighbours (l at most) by a softmax, then ELU."""
    kb = KernelBuilder("gat_layer")
    i, a, o = kb.axis("n", n), kb.axis("h", h), kb.axis("d", d)
    e, g, (p, q, r) = kb.axis("d@left", d), kb.axis("d@right", d), (kb.axis(f"l@{s}", l) for s in ("top", "sum", "mix"))
    x, many = kb.input("x", (n, h, d), "float32"), kb.input("many", (n,), "int32", range=(1, l))
    near = kb.input("near", (n, l), "int32", range=(0, n - 1))
    to, of = kb.input("to", (h, d), "float32"), kb.input("of", (h, d), "float32")
    left = kb.sum("left", (i, a), e, x[i, a, e] * to[a, e])
    right = kb.sum("right", (i, a), g, x[i, a, g] * of[a, g])

    def score(j: Any) -> Any:
        v = left[i, a] + right[near[i, j], a]
        return where(cast(j, "int32") < many[i], where(v > 0.0, v, v * 0.2), float("-inf"))

    top = kb.max("top", (i, a), p, score(p))
    total = kb.sum("total", (i, a), q, exp(score(q) - top[i, a]))
    mix = kb.sum("mix", (i, a, o), r, exp(score(r) - top[i, a]) * x[near[i, r], a, o])
    v = mix[i, a, o] / total[i, a]
    kb.store("y", "float32", (n, h, d), (i, a, o), where(v > 0.0, v, expm1(v)))
    return kb.build()


def gine_messages(n: int = 9001, e: int = 60013, d: int = 24) -> Kernel:
    """Edges of a graph bring ReLU(features of their source + their own) to their target, onto 1 + eps times what it has."""
    kb = KernelBuilder("gine_messages")
    i, j, k, o = kb.axis("e", e), kb.axis("n", n), kb.axis("d", d), kb.axis("d@own", d)
    x, w, eps = kb.input("x", (n, d), "float32"), kb.input("w", (e, d), "float32"), kb.input("eps", (), "float32")
    a, b = (kb.input(name, (e,), "int32", range=(0, n - 1)) for name in ("source", "target"))
    kb.store("y", "float32", (n, d), (j, o), x[j, o] * (eps[()] + 1.0), combine="add")
    kb.store("y", "float32", (n, d), (i, k), maximum(x[a[i], k] + w[i, k], 0.0), (b[i], k), combine="add")
    return kb.build()
