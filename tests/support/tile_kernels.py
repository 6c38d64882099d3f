"""Kernels in tiles, of many kinds and of odd sizes. Those of `HELD_OUT` were written after the rest worked, without a look at how."""

from __future__ import annotations

from typing import Any

from tilewright import tile
from tilewright.ir import float32

NEG = float("-inf")


@tile.kernel
def matmul(t: Any, m: int = 19, n: int = 13, k: int = 21) -> None:
    """relu(a · b), with sizes that no block divides."""
    a, b = t.input("a", (m, k)), t.input("b", (k, n))
    c = t.output("c", (m, n))
    bm, bn, bk = t.block("bm", (16, 32)), t.block("bn", (16, 8)), t.block("bk", (8, 16))
    rows, cols = t.grid(m=(m, bm), n=(n, bn))
    acc = t.zeros((bm, bn))
    for ks in t.loop("k", k, bk):
        acc += t.dot(a[rows, ks], b[ks, cols])
    c[rows, cols] = tile.maximum(acc, 0.0)


@tile.kernel
def softmax(t: Any, m: int = 11, n: int = 23) -> None:
    """Whole rows in a block."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    rows = t.grid(m=(m, t.block("bm", (1, 2, 4))))
    cols = t.span("n", n)
    a = x[rows, cols]
    e = tile.exp(a - t.max(a, axis=1)[:, None])
    y[rows, cols] = e / t.sum(e, axis=1)[:, None]


@tile.kernel
def layernorm(t: Any, m: int = 11, n: int = 23) -> None:
    """Two outputs."""
    x, w, y = t.input("x", (m, n)), t.input("w", (n,)), t.output("y", (m, n))
    mean_o = t.output("mean", (m,))
    rows = t.grid(m=(m, t.block("bm", (1, 2, 4))))
    cols = t.span("n", n)
    a = x[rows, cols]
    mean = t.sum(a, axis=1) / n
    d = a - mean[:, None]
    var = t.sum(d * d, axis=1) / n
    y[rows, cols] = d * tile.rsqrt(var + 1e-5)[:, None] * w[cols][None, :]
    mean_o[rows] = mean


@tile.kernel
def flash(t: Any, h: int = 2, s: int = 11, d: int = 4) -> None:
    """Causal attention with online softmax."""
    q, k, v = (t.input(x, (h, s, d)) for x in "qkv")
    o = t.output("o", (h, s, d))
    bq, bk = t.block("bq", (8, 4)), t.block("bk", (8, 4))
    head, rows = t.grid(h=h, s=(s, bq))
    ds = t.span("d", d)
    qt = q[head, rows, ds]
    m, l, acc = t.full((bq,), NEG), t.zeros((bq,)), t.zeros((bq, d))
    for cols in t.loop("key", s, bk):
        sc = t.dot(qt, k[head, cols, ds].T) * (d**-0.5)
        sc = tile.where(cols[None, :] <= rows[:, None], sc, NEG)
        new = tile.maximum(m, t.max(sc, axis=1))
        alpha = tile.exp(m - new)
        p = tile.exp(sc - new[:, None])
        l[...] = l * alpha + t.sum(p, axis=1)
        acc[...] = acc * alpha[:, None] + t.dot(p, v[head, cols, ds])
        m[...] = new
    o[head, rows, ds] = acc / l[:, None]


@tile.kernel
def stencil(t: Any, m: int = 9, n: int = 11) -> None:
    """Zeros outside."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (8, 16))))
    total = 0.0
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            total = total + x.load(rows + di, cols + dj, other=0.0)
    y[rows, cols] = total / 9.0


@tile.kernel
def stencil_clamp(t: Any, m: int = 9, n: int = 11) -> None:
    """Places that stay inside."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (8, 16))))
    up, down = tile.clip(rows - 1, 0, m - 1), tile.clip(rows + 1, 0, m - 1)
    y[rows, cols] = 0.25 * x[up, cols] + 0.5 * x[rows, cols] + 0.25 * x[down, cols]


@tile.kernel
def paged(t: Any, b: int = 3, pages: int = 7, page: int = 4, most: int = 5, d: int = 8) -> None:
    """One query a sequence against keys in pages."""
    q = t.input("q", (b, d))
    kv = t.input("kv", (pages, page, d))
    table = t.input("table", (b, most), "int32", range=(0, pages - 1))
    lens = t.input("lens", (b,), "int32", range=(1, most * page))
    y = t.output("y", (b, d))
    i = t.grid(b=b)
    ds = t.span("d", d)
    m, l, acc = t.full((), NEG), t.zeros(()), t.zeros((d,))
    for p in t.loop("p", most):
        at = p * page + t.arange(page)
        kt = kv[table[i, p], :, ds]
        s = t.sum(kt * q[i, ds][None, :], axis=1)
        s = tile.where(at < lens[i], s, NEG)
        new = tile.maximum(m, t.max(s))
        alpha = tile.exp(m - new)
        w = tile.exp(s - new)
        l[...] = l * alpha + t.sum(w)
        acc[...] = acc * alpha + t.dot(w, kt)
        m[...] = new
    y[i, ds] = acc / l


@tile.kernel
def grouped(t: Any, g: int = 3, blocks: int = 4, k: int = 10, n: int = 9) -> None:
    """Blocks of rows whose weights a table names: the block is part of what is computed."""
    m = blocks * 8
    a, w = t.input("a", (m, k)), t.input("w", (g, k, n))
    ids = t.input("ids", (blocks,), "int32", range=(0, g - 1))
    c = t.output("c", (m, n))
    i, cols = t.grid(blk=blocks, n=(n, t.block("bn", (4, 8))))
    rows = t.ds(i * 8, 8)
    which = ids[i]
    acc = t.zeros((8, cols.size))
    for ks in t.loop("k", k, t.block("bk", (4, 8))):
        acc += t.dot(a[rows, ks], w[which, ks, cols])
    c[rows, cols] = acc


@tile.kernel
def ragged(t: Any, g: int = 3, m: int = 20, k: int = 10, n: int = 9) -> None:
    """Groups of rows of any length, by masks."""
    a, w = t.input("a", (m, k)), t.input("w", (g, k, n))
    off = t.input("off", (g + 1,), "int32", range=(0, m))
    c = t.output("c", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (4, 8))))
    acc = t.zeros((rows.size, cols.size))
    for e in t.loop("g", g):
        mine = (rows >= off[e]) & (rows < off[e + 1])
        for ks in t.loop("k", k, t.block("bk", (4, 8))):
            acc += t.dot(a.load(rows, ks, mask=mine[:, None]), w[e, ks, cols])
    c[rows, cols] = acc


@tile.kernel
def splitk(t: Any, m: int = 12, n: int = 9, k: int = 50) -> None:
    """The reduction on the grid."""
    a, b = t.input("a", (m, k)), t.input("b", (k, n))
    c = t.output("c", (m, n))
    rows, cols, ks = t.grid(m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (4, 8))), k=(k, t.block("bk", (8, 16))))
    c.add(t.dot(a[rows, ks], b[ks, cols]), rows, cols)


@tile.kernel
def partial_sums(t: Any, m: int = 12, n: int = 9, k: int = 50, chunk: int = 20) -> None:
    """Partial results, one for each chunk."""
    a, b = t.input("a", (m, k)), t.input("b", (k, n))
    c = t.output("c", (-(-k // chunk), m, n))
    s, rows, cols = t.grid(s=-(-k // chunk), m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (4, 8))))
    acc = t.zeros((rows.size, cols.size))
    for ks in t.loop("k", chunk, t.block("bk", (4, 8))):
        at = s * chunk + ks
        acc += t.dot(a.load(rows, at, other=0.0), b.load(at, cols, other=0.0))
    c[s, rows, cols] = acc


@tile.kernel
def quant(t: Any, m: int = 13, k: int = 24, n: int = 10) -> None:
    """int8 with scales for groups of 8."""
    a, b = t.input("a", (m, k), "int8"), t.input("b", (k, n), "int8")
    sa, sb = t.input("sa", (m, k // 8)), t.input("sb", (k // 8, n))
    c = t.output("c", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (8, 4))), n=(n, t.block("bn", (4, 8))))
    acc = t.zeros((rows.size, cols.size))
    for g in t.loop("g", k // 8):
        ks = t.ds(g * 8, 8)
        acc += t.dot(a[rows, ks], b[ks, cols]).cast(float32) * sa[rows, g][:, None] * sb[g, cols][None, :]
    c[rows, cols] = acc


@tile.kernel
def ema(t: Any, m: int = 5, n: int = 17) -> None:
    """A linear recurrence that is stored step by step."""
    x, y, last = t.input("x", (n, m)), t.output("y", (n, m)), t.output("last", (m,))
    a = t.input("a", (n, m), range=(0.0, 1.0))
    cols = t.grid(m=(m, t.block("bm", (2, 4))))
    h = t.full((cols.size,), 0.5)
    for i in t.loop("n", n):
        h[...] = h * a[i, cols] + x[i, cols]
        y[i, cols] = h
    last[cols] = h


@tile.kernel
def cumsum(t: Any, m: int = 5, n: int = 17) -> None:
    """What was before each step."""
    x, y = t.input("x", (n, m)), t.output("y", (n, m))
    cols = t.grid(m=(m, t.block("bm", (2, 4))))
    h = t.zeros((cols.size,))
    for i in t.loop("n", n):
        y[i, cols] = h * 2.0
        h += x[i, cols]


@tile.kernel
def gram_diag(t: Any, n: int = 16, d: int = 5) -> None:
    """Blocks on the diagonal alone."""
    x, y = t.input("x", (n, d)), t.output("y", (n // 4, 4, 4))
    i = t.grid(g=n // 4)
    a = x[i * 4 : i * 4 + 4, :]
    y[i, :, :] = t.dot(a, a.T)


@tile.kernel
def transpose(t: Any, m: int = 13, n: int = 9) -> None:
    """A tile, turned."""
    x, y = t.input("x", (m, n)), t.output("y", (n, m))
    rows, cols = t.grid(m=(m, t.block("bm", (2, 4))), n=(n, t.block("bn", (2, 4))))
    y[cols, rows] = x[rows, cols].T


# held out ----------------------------------------------------------------------------------------------------


@tile.kernel
def conv2d(t: Any, h: int = 3, w: int = 5, c: int = 3, f: int = 3) -> None:
    """Three loops, shifted places."""
    x, k, y = t.input("x", (h, w, c)), t.input("k", (3, 3, c, f)), t.output("y", (h, w, f))
    i, cols, fs = t.grid(h=h, w=(w, t.block("bw", (4, 8))), f=(f, t.block("bf", (2, 4))))
    acc = t.zeros((cols.size, fs.size))
    for dy in t.loop("dy", 3):
        for dx in t.loop("dx", 3):
            for cs in t.loop("c", c, 3):
                acc += t.dot(x.load(i + dy - 1, cols + dx - 1, cs, other=0.0), k[dy, dx, cs, fs])
    y[i, cols, fs] = acc


@tile.kernel
def w4(t: Any, m: int = 6, n: int = 10, k: int = 32) -> None:
    """Two 4-bit weights a byte."""
    x, w, s, y = t.input("x", (m, k)), t.input("w", (k // 2, n), "uint8"), t.input("s", (n,)), t.output("y", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (2, 4))), n=(n, t.block("bn", (4, 8))))
    acc = t.zeros((rows.size, cols.size))
    for ks in t.loop("k", k // 2, t.block("bk", (4, 8))):
        q = w[ks, cols]
        lo = (q & 15).cast("int32") - 8
        hi = (q >> 4).cast("int32") - 8
        acc += t.dot(x[rows, ks * 2], lo.cast("float32")) + t.dot(x[rows, ks * 2 + 1], hi.cast("float32"))
    y[rows, cols] = acc * s[cols][None, :]


@tile.kernel
def hist(t: Any, n: int = 50, bins: int = 7) -> None:
    """Places from memory, added up."""
    x, y = t.input("x", (n,), "int32", range=(0, bins - 1)), t.output("y", (bins,), "int32")
    rows = t.grid(n=(n, t.block("bn", (8, 16))))
    y.add(1, x[rows])


@tile.kernel
def degrees(t: Any, n: int = 50, nodes: int = 7) -> None:
    """Both ends of edges count, and all edges at the first node, in one output."""
    a, b = (t.input(x, (n,), "int32", range=(0, nodes - 1)) for x in "ab")
    y = t.output("y", (nodes,), "int32")
    rows = t.grid(n=(n, t.block("bn", (8, 16))))
    y.add(1, a[rows])
    y.add(1, b[rows])
    y.add(t.sum(a[rows]), 0)


@tile.kernel
def kmeans(t: Any, n: int = 20, c: int = 6, d: int = 5) -> None:
    """The nearest centre."""
    x, z, y = t.input("x", (n, d)), t.input("z", (c, d)), t.output("y", (n,), "int32")
    rows, cs, ds = t.grid(n=(n, t.block("bn", (4, 8)))), t.span("c", c), t.span("d", d)
    a, b = x[rows, ds], z[cs, ds]
    dist = t.sum(b * b, axis=1)[None, :] - 2.0 * t.dot(a, b.T)
    least = t.min(dist, axis=1)
    y[rows] = t.min(tile.where(dist <= least[:, None], cs[None, :].cast("int32"), 1 << 30), axis=1)


@tile.kernel
def xent(t: Any, m: int = 9, n: int = 13) -> None:
    """Log-sum-exp by blocks, and one gathered score."""
    x, lab, y = t.input("x", (m, n)), t.input("lab", (m,), "int32", range=(0, n - 1)), t.output("y", (m,))
    rows = t.grid(m=(m, t.block("bm", (2, 4))))
    mx, l = t.full((rows.size,), NEG), t.zeros((rows.size,))
    for cols in t.loop("n", n, t.block("bn", (4, 8))):
        a = x[rows, cols]
        new = tile.maximum(mx, t.max(a, axis=1))
        l[...] = l * tile.exp(mx - new) + t.sum(tile.exp(a - new[:, None]), axis=1)
        mx[...] = new
    at = lab[rows]
    y[rows] = tile.log(l) + mx - t.sum(x.load(rows[:, None], at[:, None]), axis=1)


@tile.kernel
def pool(t: Any, m: int = 10, n: int = 12) -> None:
    """Steps of two."""
    x, y = t.input("x", (m, n)), t.output("y", (m // 2, n // 2))
    rows, cols = t.grid(m=(m // 2, t.block("bm", (2, 4))), n=(n // 2, t.block("bn", (2, 4))))
    a = x[rows * 2, cols * 2]
    for i, j in ((0, 1), (1, 0), (1, 1)):
        a = tile.maximum(a, x[rows * 2 + i, cols * 2 + j])
    y[rows, cols] = a


@tile.kernel
def rotary(t: Any, m: int = 7, d: int = 8) -> None:
    """Two stores to one output."""
    x, c, s, y = t.input("x", (m, d)), t.input("c", (m, d // 2)), t.input("s", (m, d // 2)), t.output("y", (m, d))
    rows, ds = t.grid(m=(m, t.block("bm", (2, 4)))), t.span("d", d // 2)
    a, b = x[rows, ds * 2], x[rows, ds * 2 + 1]
    cc, ss = c[rows, ds], s[rows, ds]
    y[rows, ds * 2] = a * cc - b * ss
    y[rows, ds * 2 + 1] = a * ss + b * cc


@tile.kernel
def moments(t: Any, m: int = 7, n: int = 21) -> None:
    """Three accumulators."""
    x, mean, var, mx = t.input("x", (m, n)), t.output("mean", (m,)), t.output("var", (m,)), t.output("mx", (m,))
    rows = t.grid(m=(m, t.block("bm", (2, 4))))
    s, q, top = t.zeros(rows.size), t.zeros(rows.size), t.full(rows.size, NEG)
    for cols in t.loop("n", n, t.block("bn", (4, 8))):
        a = x[rows, cols]
        s += t.sum(a, axis=1)
        q += t.sum(a * a, axis=1)
        top[...] = tile.maximum(top, t.max(a, axis=1))
    mean[rows] = s / n
    var[rows] = q / n - (s / n) ** 2
    mx[rows] = top


@tile.kernel
def welford(t: Any, m: int = 5, n: int = 12) -> None:
    """A recurrence of a recurrence."""
    x, y = t.input("x", (m, n)), t.output("y", (m,))
    rows = t.grid(m=(m, 2))
    mean, m2 = t.zeros(rows.size), t.zeros(rows.size)
    for i in t.loop("n", n):
        a = x[rows, i]
        delta = a - mean
        mean += delta / (i + 1).cast("float32")
        m2 += delta * (a - mean)
    y[rows] = m2


@tile.kernel
def half(t: Any, m: int = 9, n: int = 10, k: int = 12) -> None:
    """16-bit floats in and out."""
    a, b, c = t.input("a", (m, k), "bfloat16"), t.input("b", (n, k), "bfloat16"), t.output("c", (m, n), "bfloat16")
    rows, cols = t.grid(m=(m, t.block("bm", (2, 4))), n=(n, t.block("bn", (2, 4))))
    acc = t.zeros((rows.size, cols.size))
    for ks in t.loop("k", k, t.block("bk", (4, 8))):
        acc += t.dot(a[rows, ks], b[cols, ks].T)
    c[rows, cols] = acc


@tile.kernel
def int8mm(t: Any, m: int = 9, n: int = 10, k: int = 12) -> None:
    """Whole numbers."""
    a, b, c = t.input("a", (m, k), "int8"), t.input("b", (k, n), "int8"), t.output("c", (m, n), "int32")
    rows, cols = t.grid(m=(m, t.block("bm", (2, 4))), n=(n, t.block("bn", (2, 4))))
    acc = t.zeros((rows.size, cols.size), "int32")
    for ks in t.loop("k", k, t.block("bk", (4, 8))):
        acc += t.dot(a[rows, ks], b[ks, cols])
    c[rows, cols] = acc


@tile.kernel
def inplace(t: Any, n: int = 33) -> None:
    """An output in an input's memory."""
    p, g = t.input("p", (n,)), t.input("g", (n,))
    out = t.output("out", (n,), in_place=p)
    rows = t.grid(n=(n, t.block("bn", (8, 16))))
    out[rows] = p[rows] - 0.1 * g[rows]


@tile.kernel
def dynamic_slice(t: Any, b: int = 3, n: int = 20, w: int = 4) -> None:
    """Slices that begin where a table says."""
    x, st, y = t.input("x", (n, 5)), t.input("st", (b,), "int32", range=(0, 16)), t.output("y", (b, w, 5))
    i = t.grid(b=b)
    s = st[i]
    y[i, :, :] = x[s : s + w, :] * 2.0


@tile.kernel
def sum_of_products(t: Any, n: int = 12, m: int = 5) -> None:
    """Products of all steps before."""
    x, y = t.input("x", (n, m)), t.output("y", (m,))
    cols = t.grid(m=(m, 5))
    p, c = t.full(cols.size, 1.0), t.zeros(cols.size)
    for i in t.loop("n", n):
        p *= 1.0 + 0.1 * x[i, cols]
        c += p
    y[cols] = c


@tile.kernel
def by_masks(t: Any, m: int = 11, n: int = 7, k: int = 13) -> None:
    """Written with numbers of cells and masks, as Triton has it."""
    a, b, c = t.input("a", (m, k)), t.input("b", (k, n)), t.output("c", (m, n))
    i, j = t.grid(i=-(-m // 4), j=-(-n // 4))
    ri, cj = i * 4 + t.arange(4), j * 4 + t.arange(4)
    acc = t.zeros((4, 4))
    for kk in t.loop("kk", -(-k // 8)):
        ks = kk * 8 + t.arange(8)
        acc += t.dot(a.load(ri, ks, mask=(ri[:, None] < m) & (ks[None, :] < k)), b.load(ks, cj, mask=(ks[:, None] < k) & (cj[None, :] < n)))
    c.store(acc, ri, cj, mask=(ri[:, None] < m) & (cj[None, :] < n))


@tile.kernel
def windowed(t: Any, hq: int = 4, hk: int = 2, s: int = 11, d: int = 4, win: int = 3) -> None:
    """A window of keys, heads in groups, and a loop that ends where the cell's rows do."""
    q, k, v = t.input("q", (hq, s, d)), t.input("k", (hk, s, d)), t.input("v", (hk, s, d))
    o = t.output("o", (hq, s, d))
    h, rows = t.grid(h=hq, s=(s, t.block("bq", (4, 8))))
    ds = t.span("d", d)
    m, l, acc = t.full((rows.size,), NEG), t.zeros((rows.size,)), t.zeros((rows.size, d))
    for cols in t.loop("key", s, t.block("bk", (8, 4)), upto=rows.start + rows.size):
        sc = t.dot(q[h, rows, ds], k[h // (hq // hk), cols, ds].T) * (d**-0.5)
        seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] > rows[:, None] - win)
        sc = tile.where(seen, sc, NEG)
        new = tile.maximum(m, t.max(sc, axis=1))
        safe = tile.where(new > NEG, new, 0.0)
        alpha = tile.exp(m - safe)
        p = tile.exp(sc - safe[:, None])
        l *= alpha
        l += t.sum(p, axis=1)
        acc *= alpha[:, None]
        acc += t.dot(p, v[h // (hq // hk), cols, ds])
        m[...] = new
    o[h, rows, ds] = acc / l[:, None]


@tile.kernel
def lanes_of_extremes(t: Any, m: int = 3, n: int = 21) -> None:
    """A maximum for each place of a block, the last of which is cut off, and the smallest so far of what a condition lets through."""
    x, top, low = t.input("x", (m, n)), t.output("top", (m,)), t.output("low", (m, n))
    i = t.grid(m=m)
    acc, least = t.full((8,), NEG), t.full((), 0.5)
    for cols in t.loop("n", n, 8):
        acc[...] = tile.maximum(acc, x[i, cols])
    for j in t.loop("j", n):
        least[...] = tile.where(x[i, j] > -1.0, tile.minimum(x[i, j], least), least)
        low[i, j] = least
    top[i] = t.max(acc)


@tile.kernel
def numbers_first(t: Any, n: int = 21) -> None:
    """Operators whose left side is a number."""
    x, y = t.input("x", (n,), "int32", range=(1, 9)), t.output("y", (n,))
    at = t.grid(n=(n, t.block("b", (4, 8))))
    y[at] = 2.0 ** (100 // x[at] + 7 % x[at]).cast("float32") * 1e-20


HELD_OUT = (
    windowed,
    conv2d,
    w4,
    hist,
    kmeans,
    xent,
    pool,
    rotary,
    moments,
    welford,
    half,
    int8mm,
    inplace,
    dynamic_slice,
    sum_of_products,
    by_masks,
)
KERNELS = (
    matmul,
    softmax,
    layernorm,
    flash,
    stencil,
    stencil_clamp,
    paged,
    grouped,
    ragged,
    splitk,
    partial_sums,
    quant,
    degrees,
    ema,
    cumsum,
    gram_diag,
    transpose,
    *HELD_OUT,
    lanes_of_extremes,
    numbers_first,
)
