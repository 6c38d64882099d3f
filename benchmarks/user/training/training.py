"""Training: losses, gradients of layers, steps of optimisers.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    bfloat16,
    bool_,
    cast,
    exp,
    float32,
    int16,
    int32,
    int64,
    log,
    log1p,
    maximum,
    minimum,
    rsqrt,
    sqrt,
    uint8,
    where,
)


def distilled_loss(m: int = 157, v: int = 1009) -> Kernel:
    """Half what a student's warm scores lack of a teacher's, half the cross-entropy of smoothed labels (-1: none); the gradient."""
    kb = KernelBuilder("distilled_loss")
    i, j, o = kb.axis("m", m), kb.axis("v", v), kb.axis("m@loss", m)
    at = [kb.axis(f"v@{name}", v) for name in ("tops", "topt", "cold", "warm", "from", "both", "mean")]
    x, z = kb.input("x", (m, v), float32), kb.input("z", (m, v), float32)
    label, count = kb.input("label", (m,), int32, range=(-1, v - 1)), kb.axis("m@count", m)
    tops, topt = kb.max("tops", (i,), at[0], x[i, at[0]]), kb.max("topt", (i,), at[1], z[i, at[1]])
    cold = kb.sum("cold", (i,), at[2], exp(x[i, at[2]] - tops[i]))
    warm = kb.sum("warm", (i,), at[3], exp((x[i, at[3]] - tops[i]) * 0.5))
    given = kb.sum("given", (i,), at[4], exp((z[i, at[4]] - topt[i]) * 0.5))
    both = kb.sum("both", (i,), at[5], exp((z[i, at[5]] - topt[i]) * 0.5) * (z[i, at[5]] - x[i, at[5]]))
    mean = kb.sum("mean", (i,), at[6], x[i, at[6]])
    many = kb.sum("counted", (), count, label[count] >= 0)
    over = 1.0 / cast(maximum(many[()], 1), float32)
    lack = both[i] / given[i] * 0.5 - topt[i] * 0.5 - log(given[i]) + tops[i] * 0.5 + log(warm[i])
    hard = tops[i] + log(cold[i]) - 0.9 * x.masked(label[i] >= 0, i, label[i]) - mean[i] * (0.1 / v)
    each = kb.value("each", (i,), where(label[i] >= 0, 2.0 * lack + 0.5 * hard, 0.0))
    loss = kb.sum("losses", (), o, each[o])
    s, t = x[i, j] - tops[i], z[i, j] - topt[i]
    slope = exp(s * 0.5) / warm[i] - exp(t * 0.5) / given[i] + 0.5 * (exp(s) / cold[i] - 0.1 / v)
    slope = slope - where(cast(j, int32).eq(label[i]), 0.45, 0.0)
    kb.store("dx", float32, (m, v), (i, j), where(label[i] >= 0, slope * over, 0.0))
    kb.store("loss", float32, (1,), (), loss[()] * over, (0,))
    return kb.build()


def supcon_loss(n: int = 301, d: int = 96, k: int = 20) -> Kernel:
    """How much less alike vectors of one label are than they might be, of all pairs: the supervised contrastive loss."""
    kb = KernelBuilder("supcon_loss")
    i, o, q = kb.axis("n", n), kb.axis("n@mean", n), kb.axis("n@many", n)
    j = [kb.axis(f"n2@{name}", n) for name in ("dot", "top", "sum", "same", "count")]
    e = [kb.axis(f"d@{name}", d) for name in ("size", "dot")]
    z, label = kb.input("z", (n, d), float32), kb.input("label", (n,), int32, range=(0, k - 1))
    size = kb.sum("size", (i,), e[0], z[i, e[0]] ** 2)
    over = kb.value("over", (i,), rsqrt(size[i] + 1e-6))
    dot = kb.sum("dot", (i, j[0]), e[1], z[i, e[1]] * z[j[0], e[1]])

    def alike(b: Any) -> Any:
        return dot[i, b] * over[i] * over[b] * 5.0

    def same(b: Any) -> Any:
        return label[i].eq(label[b]) & ~i.eq(b)

    top = kb.max("top", (i,), j[1], where(i.eq(j[1]), float("-inf"), alike(j[1])))
    total = kb.sum("total", (i,), j[2], where(i.eq(j[2]), 0.0, exp(alike(j[2]) - top[i])))
    near = kb.sum("near", (i,), j[3], where(same(j[3]), alike(j[3]), 0.0))
    many = kb.sum("many", (i,), j[4], same(j[4]))
    lse = top[i] + log(total[i])
    each = kb.value("each", (i,), where(many[i] > 0, lse - near[i] / cast(maximum(many[i], 1), float32), 0.0))
    kb.store("loss", float32, (n,), (i,), each[i])
    sums, counted = kb.sum("sums", (), o, each[o]), kb.sum("counted", (), q, many[q] > 0)
    kb.store("mean", float32, (1,), (), sums[()] / cast(maximum(counted[()], 1), float32), (0,))
    return kb.build()


def adafactor_step(m: int = 1000, n: int = 770) -> Kernel:
    """A step of Adafactor: means of squared gradients by row and by column stand for all; the step's size is bounded, and the weights'."""
    kb = KernelBuilder("adafactor_step")
    i, j = kb.axis("m", m), kb.axis("n", n)
    s = [(kb.axis(f"m@{k}", m), kb.axis(f"n@{k}", n)) for k in ("column", "row", "step", "weight")]
    w, g = kb.input("w", (m, n), float32), kb.input("g", (m, n), float32)
    row, col = (kb.input(k, (x,), float32, range=(0.1, 2.0)) for k, x in (("row", m), ("col", n)))
    squares = [kb.sum("by_row", (i,), s[1][1], g[i, s[1][1]] ** 2), kb.sum("by_col", (j,), s[0][0], g[s[0][0], j] ** 2)]
    r = kb.value("r", (i,), 0.99 * row[i] + (0.01 / n) * squares[0][i])
    c = kb.value("c", (j,), 0.99 * col[j] + (0.01 / m) * squares[1][j])
    mean = kb.sum("mean", (), s[1][0], r[s[1][0]] * (1.0 / m))

    def step(a: Any, b: Any) -> Any:
        return g[a, b] / sqrt(r[a] * c[b] / mean[()] + 1e-30)

    size = kb.sum("size", (), s[2], step(*s[2]) ** 2)
    heavy = kb.sum("heavy", (), s[3], w[s[3][0], s[3][1]] ** 2)
    rate = 0.01 * maximum(sqrt(heavy[()] * (1 / (m * n))), 1e-3) / maximum(sqrt(size[()] * (1 / (m * n))), 1.0)
    kb.store("new_w", float32, (m, n), (i, j), w[i, j] - rate * step(i, j))
    kb.store("new_row", float32, (m,), (i,), r[i])
    kb.store("new_col", float32, (n,), (j,), c[j])
    return kb.build()


def batchnorm_backward(n: int = 16, c: int = 67, p: int = 784) -> Kernel:
    """Gradients of a batch norm that a ReLU follows (whose mask is kept), in what it was given, its scale and its bias."""
    kb = KernelBuilder("batchnorm_backward")
    i, j, k = kb.axis("n", n), kb.axis("c", c), kb.axis("p", p)
    x, dy = kb.input("x", (n, c, p), float32), kb.input("dy", (n, c, p), float32)
    mask, mean = kb.input("mask", (n, c, p), bool_), kb.input("mean", (c,), float32)
    rstd, gamma = kb.input("rstd", (c,), float32, range=(0.5, 2.0)), kb.input("gamma", (c,), float32)
    d = kb.value("d", (i, j, k), where(mask[i, j, k], dy[i, j, k], 0.0))
    hat = kb.value("hat", (i, j, k), (x[i, j, k] - mean[j]) * rstd[j])
    e, f, g, m = kb.axis("n@bias", n), kb.axis("p@bias", p), kb.axis("n@scale", n), kb.axis("p@scale", p)
    bias = kb.sum("bias", (j,), (e, f), d[e, j, f])
    scale = kb.sum("scale", (j,), (g, m), d[g, j, m] * hat[g, j, m])
    dx = gamma[j] * rstd[j] * (d[i, j, k] - (bias[j] + hat[i, j, k] * scale[j]) * (1.0 / (n * p)))
    kb.store("dx", float32, (n, c, p), (i, j, k), dx)
    kb.store("dgamma", float32, (c,), (j,), scale[j])
    kb.store("dbeta", float32, (c,), (j,), bias[j])
    return kb.build()


def layernorm_grads(m: int = 301, n: int = 768) -> Kernel:
    """Gradients of a layer norm in what it was given, its weights and its bias; mean and 1/deviation were kept."""
    kb = KernelBuilder("layernorm_grads")
    i, a, b, o = kb.axis("m", m), kb.axis("n@a", n), kb.axis("n@b", n), kb.axis("n@out", n)
    jg, ig = kb.axis("n@g", n), kb.axis("m@g", m)
    jb, ib = kb.axis("n@beta", n), kb.axis("m@beta", m)
    x, dy = kb.input("x", (m, n), float32), kb.input("dy", (m, n), float32)
    g, mean = kb.input("g", (n,), float32), kb.input("mean", (m,), float32)
    r = kb.input("r", (m,), float32, range=(0.5, 2.0))
    s1 = kb.sum("s1", (i,), a, dy[i, a] * g[a])
    s2 = kb.sum("s2", (i,), b, dy[i, b] * g[b] * ((x[i, b] - mean[i]) * r[i]))
    hat = (x[i, o] - mean[i]) * r[i]
    kb.store("dx", float32, (m, n), (i, o), r[i] * (dy[i, o] * g[o] - s1[i] * (1.0 / n) - hat * s2[i] * (1.0 / n)))
    dg = kb.sum("sg", (jg,), ig, dy[ig, jg] * ((x[ig, jg] - mean[ig]) * r[ig]))
    kb.store("dg", float32, (n,), (jg,), dg[jg])
    db = kb.sum("sb", (jb,), ib, dy[ib, jb])
    kb.store("db", float32, (n,), (jb,), db[jb])
    return kb.build()


def swiglu_backward(m: int = 200, n: int = 688) -> Kernel:
    """Gradients of silu(gate) · up in both, bfloat16."""
    kb = KernelBuilder("swiglu_backward")
    i, j = kb.axis("m", m), kb.axis("n", n)
    gate, up, dy = (kb.input(k, (m, n), bfloat16) for k in ("gate", "up", "dy"))
    g, u, d = cast(gate[i, j], float32), cast(up[i, j], float32), cast(dy[i, j], float32)
    s = 1.0 / (1.0 + exp(-g))
    kb.store("dgate", bfloat16, (m, n), (i, j), d * u * s * (1.0 + g * (1.0 - s)))
    kb.store("dup", bfloat16, (m, n), (i, j), d * g * s)
    return kb.build()


def focal_loss(n: int = 40001) -> Kernel:
    """The focal loss (γ = 2) of logits, its gradient, and the mean."""
    kb = KernelBuilder("focal_loss")
    i, m = kb.axis("n", n), kb.axis("n@mean", n)
    x, label = kb.input("x", (n,), float32), kb.input("label", (n,), uint8, range=(0, 1))
    z = where(label[i].eq(1), x[i], -x[i])
    e = exp(-absolute(z))
    lp = minimum(z, 0.0) - log1p(e)  # log of the probability of what is right
    p = exp(lp)
    loss = kb.value("each", (i,), -((1.0 - p) * (1.0 - p)) * lp)
    slope = (1.0 - p) * (1.0 - p) * (2.0 * p * lp - (1.0 - p))
    kb.store("dx", float32, (n,), (i,), where(label[i].eq(1), slope, -slope) * (1.0 / n))
    total = kb.sum("total", (), m, loss[m])
    kb.store("mean", float32, (1,), (), total[()] * (1.0 / n), (0,))
    return kb.build()


def triplet_loss(b: int = 2500, d: int = 96, v: int = 4000) -> Kernel:
    """The hinge of each triplet of rows of a table, their mean, and how many are above 0."""
    kb = KernelBuilder("triplet_loss")
    i, j, k = kb.axis("b", b), kb.axis("d@near", d), kb.axis("d@far", d)
    m, c = kb.axis("b@mean", b), kb.axis("b@count", b)
    e = kb.input("e", (v, d), float32)
    a, p, n = (kb.input(s, (b,), int32, range=(0, v - 1)) for s in "apn")
    ia, ip, il = cast(a[i], "int64"), cast(p[i], "int64"), cast(n[i], "int64")
    near = kb.sum("near", (i,), j, (e[ia, j] - e[ip, j]) ** 2)
    far = kb.sum("far", (i,), k, (e[ia, k] - e[il, k]) ** 2)
    loss = kb.value("hinge", (i,), maximum(near[i] - far[i] + 0.3, 0.0))
    kb.store("loss", float32, (b,), (i,), loss[i])
    mean = kb.sum("total", (), m, loss[m])
    kb.store("mean", float32, (1,), (), mean[()] * (1.0 / b), (0,))
    count = kb.sum("active", (), c, cast(loss[c] > 0.0, int32))
    kb.store("count", int32, (1,), (), count[()], (0,))
    return kb.build()


def rms_norm_backward(m: int = 1024, n: int = 1024) -> Kernel:
    """The gradient of an RMS norm in what it was given, and what each row adds to that of its weights, in bfloat16."""
    kb = KernelBuilder("rms_norm_backward")
    i, j, k, o = kb.axis("m", m), kb.axis("n@square", n), kb.axis("n@dot", n), kb.axis("n@out", n)
    x, dy = kb.input("x", (m, n), bfloat16), kb.input("dy", (m, n), bfloat16)
    w = kb.input("w", (n,), float32)
    square = kb.sum("square", (i,), j, x[i, j] * x[i, j])
    dot = kb.sum("dot", (i,), k, x[i, k] * (dy[i, k] * w[k]))
    r = rsqrt(square[i] * (1.0 / n) + 1e-5)
    dx = r * (dy[i, o] * w[o] - x[i, o] * (r * r * dot[i] * (1.0 / n)))
    kb.store("dx", bfloat16, (m, n), (i, o), dx)
    kb.store("dw", bfloat16, (m, n), (i, o), dy[i, o] * x[i, o] * r)
    return kb.build()


def two_way_scaled_step(n: int = 384, m: int = 640) -> Kernel:
    """A step of weights by gradients over the roots of their rows' and columns' mean squares, no longer than the weights are large."""
    kb = KernelBuilder("two_way_scaled_step")
    i, j = kb.axis("n", n), kb.axis("m", m)
    a, b, c, d, e = kb.axis("m@row", m), kb.axis("n@column", n), kb.axis("n@all", n), kb.axis("n@size", n), kb.axis("m@size", m)
    w, g = kb.input("w", (n, m), float32), kb.input("g", (n, m), float32)
    row = kb.sum("row", (i,), a, g[i, a] * g[i, a] + 1e-30)
    column = kb.sum("column", (j,), b, g[b, j] * g[b, j] + 1e-30)
    whole = kb.sum("whole", (), c, row[c])

    def step(p: Any, q: Any) -> Any:
        return g[p, q] * rsqrt(row[p] / whole[()]) * rsqrt(column[q] * (1.0 / n))

    size = kb.sum("size", (), (d, e), step(d, e) ** 2)
    limit = where(size[()] > 1.0 * n * m, rsqrt(size[()] * (1.0 / (n * m))), 1.0)
    kb.store("y", float32, (n, m), (i, j), w[i, j] - 0.01 * step(i, j) * limit)
    return kb.build()


def adamw_bf16(n: int = 1 << 20) -> Kernel:
    """A step of AdamW whose weights decay by themselves: gradients and a copy of the weights are bfloat16."""
    kb = KernelBuilder("adamw_bf16")
    i = kb.axis("n", n)
    w, m = kb.input("w", (n,), float32), kb.input("m", (n,), float32)
    v, g = kb.input("v", (n,), float32, range=(0.0, 1.0)), kb.input("g", (n,), bfloat16)
    m2 = 0.9 * m[i] + 0.1 * g[i]
    v2 = 0.999 * v[i] + 0.001 * g[i] * g[i]
    w2 = kb.value("w2", (i,), w[i] * (1 - 1e-3 * 0.01) - 1e-3 * (m2 * 1.1) / (sqrt(v2 * 1.01) + 1e-8))
    kb.store("new_w", float32, (n,), (i,), w2[i])
    kb.store("new_m", float32, (n,), (i,), m2)
    kb.store("new_v", float32, (n,), (i,), v2)
    kb.store("half", bfloat16, (n,), (i,), w2[i])
    return kb.build()


def smoothed_loss(m: int = 512, n: int = 4096) -> Kernel:
    """Cross-entropy with smoothed labels, and its gradient in the scores."""
    kb = KernelBuilder("smoothed_loss")
    i = kb.axis("m", m)
    a, b, c, o = (kb.axis(f"n@{s}", n) for s in ("max", "sum", "mean", "out"))
    x, label = kb.input("x", (m, n), float32), kb.input("label", (m,), int32, range=(0, n - 1))
    top = kb.max("top", (i,), a, x[i, a])
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    mean = kb.sum("mean", (i,), c, x[i, c] * (1.0 / n))
    lse = top[i] + log(total[i])
    kb.store("loss", float32, (m,), (i,), lse - 0.9 * x[i, cast(label[i], "int64")] - 0.1 * mean[i])
    want = where(cast(o, int32).eq(label[i]), 0.9 + 0.1 / n, 0.1 / n)
    kb.store("dx", float32, (m, n), (i, o), exp(x[i, o] - top[i]) / total[i] - want)
    return kb.build()


def clip_loss(n: int = 250, d: int = 64) -> Kernel:
    """The contrastive loss of pictures and their captions, over both rows and columns, and how many captions come first."""
    kb = KernelBuilder("clip_loss")
    i, j, k = kb.axis("n", n), kb.axis("o", n), kb.axis("d", d)
    a, b = kb.input("a", (n, d), float32), kb.input("b", (n, d), float32)
    s = kb.sum("s", (i, j), k, a[i, k] * b[j, k] * 0.25)
    p, q, u, v, w = kb.axis("o@max", n), kb.axis("o@exp", n), kb.axis("n@max", n), kb.axis("n@exp", n), kb.axis("o@best", n)
    row = kb.max("row", (i,), p, s[i, p])
    across = kb.sum("across", (i,), q, exp(s[i, q] - row[i]))
    column = kb.max("column", (j,), u, s[u, j])
    down = kb.sum("down", (j,), v, exp(s[v, j] - column[j]))
    best = kb.argmax("best", (i,), w, s[i, w])
    loss = kb.value("each", (i,), (row[i] + log(across[i]) + column[i] + log(down[i])) * 0.5 - s[i, i])
    e, f = kb.axis("n@mean", n), kb.axis("n@hits", n)
    mean = kb.sum("total", (), e, loss[e] * (1.0 / n))
    hits = kb.sum("first", (), f, best[f].eq(cast(f, int32)))
    kb.store("loss", float32, (n,), (i,), loss[i])
    kb.store("mean", float32, (1,), (), mean[()], (0,))
    kb.store("hits", int32, (1,), (), hits[()], (0,))
    return kb.build()


def multiclass_hinge(m: int = 901, n: int = 101) -> Kernel:
    """The hinge loss of Weston and Watkins for scores of n classes, and its gradient in bfloat16."""
    kb = KernelBuilder("multiclass_hinge")
    i, p, q, j = kb.axis("m", m), kb.axis("n@loss", n), kb.axis("n@hits", n), kb.axis("n@grad", n)
    x, label = kb.input("x", (m, n), float32), kb.input("label", (m,), int16, range=(0, n - 1))
    mine = kb.value("mine", (i,), x[i, cast(label[i], int64)])

    def over(k: Any) -> Any:
        return where(cast(k, int32).eq(cast(label[i], int32)), 0.0, maximum(x[i, k] - mine[i] + 1.0, 0.0))

    loss = kb.sum("total", (i,), p, over(p))
    hits = kb.sum("hits", (i,), q, cast(over(q) > 0.0, int32))
    grad = where(cast(j, int32).eq(cast(label[i], int32)), -cast(hits[i], float32), cast(over(j) > 0.0, float32))
    kb.store("loss", float32, (m,), (i,), loss[i])
    kb.store("grad", bfloat16, (m, n), (i, j), grad * (1.0 / m))
    return kb.build()
