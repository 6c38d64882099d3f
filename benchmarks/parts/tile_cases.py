"""Kernels in tiles beside the same kernels over indices and in NumPy, for tiles.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright import KernelBuilder, named_kernels, tile
from tilewright.ir import Kernel, float32

LOWEST = float("-inf")
ROWS, COLUMNS, BLOCKS = (16, 32, 64, 128), (32, 64, 128, 256), (64, 128, 256, 512)


@tile.kernel
def matmul(t: Any, m: int = 512, n: int = 512, k: int = 512) -> None:
    """c = a · b."""
    a, b, c = t.input("a", (m, k)), t.input("b", (k, n)), t.output("c", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", ROWS)), n=(n, t.block("bn", COLUMNS)))
    acc = t.zeros((rows.size, cols.size))
    for ks in t.loop("k", k, t.block("bk", BLOCKS)):
        acc += t.dot(a[rows, ks], b[ks, cols])
    c[rows, cols] = acc


@tile.kernel
def softmax(t: Any, m: int = 2048, n: int = 1024) -> None:
    """Rows of exp(x − max) over their sums."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (1, 2, 4, 8)))), t.span("n", n)
    a = x[rows, cols]
    e = tile.exp(a - t.max(a, axis=1)[:, None])
    y[rows, cols] = e * (1.0 / t.sum(e, axis=1))[:, None]


@tile.kernel
def layernorm(t: Any, m: int = 2048, n: int = 1000) -> None:
    """Rows less their mean, over their deviation, with weights."""
    x, w, y = t.input("x", (m, n)), t.input("w", (n,)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (1, 2, 4, 8)))), t.span("n", n)
    a = x[rows, cols]
    d = a - (t.sum(a, axis=1) * (1.0 / n))[:, None]
    y[rows, cols] = d * tile.rsqrt(t.sum(d * d, axis=1) * (1.0 / n) + 1e-5)[:, None] * w[cols][None, :]


@tile.kernel
def attention(t: Any, h: int = 8, s: int = 512, d: int = 64) -> None:
    """Causal attention with online softmax over blocks of keys."""
    q, k, v = (t.input(x, (h, s, d)) for x in "qkv")
    y = t.output("y", (h, s, d))
    head, rows = t.grid(h=h, s=(s, t.block("bq", (8, 16, 32, 64))))
    ds = t.span("d", d)
    top, total, acc = t.full(rows.size, LOWEST), t.zeros(rows.size), t.zeros((rows.size, d))
    for cols in t.loop("key", s, t.block("bk", (32, 64, 128))):
        score = t.dot(q[head, rows, ds], k[head, cols, ds].T) * d**-0.5
        score = tile.where(cols[None, :] <= rows[:, None], score, LOWEST)
        now = tile.maximum(top, t.max(score, axis=1))
        p, scale = tile.exp(score - now[:, None]), tile.exp(top - now)
        total[...] = total * scale + t.sum(p, axis=1)
        acc[...] = acc * scale[:, None] + t.dot(p, v[head, cols, ds])
        top[...] = now
    y[head, rows, ds] = acc * (1.0 / total)[:, None]


@tile.kernel
def blur(t: Any, m: int = 1000, n: int = 1500) -> None:
    """The mean of 3 × 3 neighbours; outside of the image is 0."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", ROWS)), n=(n, t.block("bn", BLOCKS)))
    total = 0.0
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            total = total + x.load(rows + i, cols + j, other=0.0)
    y[rows, cols] = total * (1.0 / 9.0)


@tile.kernel
def gathered(t: Any, tokens: int = 256, rows: int = 4096, d: int = 512, heads: int = 16) -> None:
    """Sums of rows whose numbers are in a table."""
    x, y = t.input("x", (rows, d)), t.output("y", (tokens, d))
    table = t.input("table", (tokens, heads), "int32", range=(0, rows - 1))
    i, cols = t.grid(i=tokens, d=(d, t.block("bd", (64, 128, 256, 512))))
    acc = t.zeros(cols.size)
    for j in t.loop("j", heads):
        acc += x[table[i, j], cols]
    y[i, cols] = acc


@tile.kernel
def splitk(t: Any, m: int = 64, n: int = 64, k: int = 16384) -> None:
    """c = a · b, where cells of the grid share one block of c."""
    a, b, c = t.input("a", (m, k)), t.input("b", (k, n)), t.output("c", (m, n))
    rows, cols, ks = t.grid(m=(m, t.block("bm", ROWS)), n=(n, t.block("bn", COLUMNS)), k=(k, t.block("bk", BLOCKS)))
    c.add(t.dot(a[rows, ks], b[ks, cols]), rows, cols)


# over indices ---------------------------------------------------------------------------------------------------------
def layernorm_index(m: int = 2048, n: int = 1000) -> Kernel:
    """The same as `layernorm`."""
    kb = KernelBuilder("layernorm")
    i, (a, b, c) = kb.axis("m", m), (kb.axis(f"n@{s}", n) for s in ("mean", "var", "y"))
    x, w = kb.input("x", (m, n), float32), kb.input("w", (n,), float32)
    total = kb.sum("total", (i,), a, x[i, a])
    square = kb.sum("square", (i,), b, (x[i, b] - total[i] * (1.0 / n)) ** 2)
    y = (x[i, c] - total[i] * (1.0 / n)) * tile.rsqrt(square[i] * (1.0 / n) + 1e-5).node * w[c]
    kb.store("y", float32, (m, n), (i, c), y)
    return kb.build()


def blur_index(m: int = 1000, n: int = 1500) -> Kernel:
    """The same as `blur`."""
    kb = KernelBuilder("blur")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    total: Any = 0.0
    for p in (i - 1, i, i + 1):
        for q in (j - 1, j, j + 1):
            total = total + x.masked((p >= 0) & (p < m) & (q >= 0) & (q < n), p, q)
    kb.store("y", float32, (m, n), (i, j), total * (1.0 / 9.0))
    return kb.build()


def gathered_index(tokens: int = 256, rows: int = 4096, d: int = 512, heads: int = 16) -> Kernel:
    """The same as `gathered`."""
    kb = KernelBuilder("gathered")
    i, c, j = kb.axis("i", tokens), kb.axis("d", d), kb.axis("j", heads)
    x, table = kb.input("x", (rows, d), float32), kb.input("table", (tokens, heads), "int32", range=(0, rows - 1))
    acc = kb.sum("acc", (i, c), j, x[table[i, j].cast("int64"), c])
    kb.store("y", float32, (tokens, d), (i, c), acc[i, c])
    return kb.build()


def attention_index(h: int = 8, s: int = 512, d: int = 64) -> Kernel:
    """The named kernel, with one batch."""
    return named_kernels.make("attention", {"b": 1, "h": h, "s": s, "d": d}, "float32")


# NumPy ----------------------------------------------------------------------------------------------------------------
def softmax_np(x: Any) -> Any:
    """In NumPy."""
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layernorm_np(x: Any, w: Any) -> Any:
    """In NumPy."""
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + np.float32(1e-5)) * w


def attention_np(q: Any, k: Any, v: Any) -> Any:
    """In NumPy."""
    score = q @ k.swapaxes(1, 2) * np.float32(q.shape[2] ** -0.5)
    score = np.where(np.tri(q.shape[1], dtype=bool), score, np.float32(LOWEST))
    return np.stack([softmax_np(s) for s in score]) @ v


def blur_np(x: Any) -> Any:
    """In NumPy."""
    p = np.pad(x, 1)
    m, n = x.shape
    return sum(p[i : i + m, j : j + n] for i in range(3) for j in range(3)) * np.float32(1 / 9)


@dataclass(frozen=True)
class TileCase:
    """A kernel in tiles, the same over indices, and in NumPy (arguments in the order of the inputs)."""

    tiles: tile.TileKernel
    indices: Callable[[], Kernel]
    numpy: Callable[..., Any]


CASES = {
    "matmul": TileCase(matmul, lambda: named_kernels.make("matmul", {"m": 512, "n": 512, "k": 512}, "float32"), lambda a, b: a @ b),
    "softmax": TileCase(softmax, lambda: named_kernels.make("softmax", {"m": 2048, "n": 1024}, "float32"), softmax_np),
    "layernorm": TileCase(layernorm, layernorm_index, layernorm_np),
    "attention": TileCase(attention, attention_index, attention_np),
    "blur": TileCase(blur, blur_index, blur_np),
    "gathered": TileCase(gathered, gathered_index, lambda x, table: x[table].sum(1)),
    "splitk": TileCase(splitk, lambda: named_kernels.make("matmul", {"m": 64, "n": 64, "k": 16384}, "float32"), lambda a, b: a @ b),
}
