"""Attention: masks, caches, rotary positions, softmax over groups and ragged rows.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    bfloat16,
    cast,
    cos,
    exp,
    float16,
    float32,
    int8,
    int32,
    int64,
    maximum,
    rsqrt,
    sin,
    sqrt,
    uint8,
    where,
)


def rope_gathered(t: int = 300, h: int = 12, d: int = 64) -> Kernel:
    """Neighbouring numbers of float16 heads turned by the angles of each token's position, which is data."""
    kb = KernelBuilder("rope_gathered")
    i, a, j = kb.axis("t", t), kb.axis("h", h), kb.axis("half", d // 2)
    x, pos = kb.input("x", (t, h, d), float16), kb.input("pos", (t,), int32, range=(0, 2047))
    co, si = kb.input("co", (2048, d // 2), float32), kb.input("si", (2048, d // 2), float32)
    p = cast(pos[i], "int64")
    left, right = cast(x[i, a, 2 * j], float32), cast(x[i, a, 2 * j + 1], float32)
    kb.store("y", float16, (t, h, d), (i, a, j), left * co[p, j] - right * si[p, j], (i, a, 2 * j))
    kb.store("y", float16, (t, h, d), (i, a, j), left * si[p, j] + right * co[p, j], (i, a, 2 * j + 1))
    return kb.build()


def cached_query_int8(h: int = 8, t: int = 1000, d: int = 64) -> Kernel:
    """One query a head over a cache of int8 keys and values, each with a scale; only `length` of them are there."""
    kb = KernelBuilder("cached_query_int8")
    a, o, e = kb.axis("h", h), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jm, js, jo = (kb.axis(f"t@{n}", t) for n in ("dot", "max", "sum", "out"))
    q, k, v = kb.input("q", (h, d), float32), kb.input("k", (t, h, d), int8), kb.input("v", (t, h, d), int8)
    ks, vs = (kb.input(n, (t, h), float32, range=(0.001, 0.02)) for n in ("ks", "vs"))
    length = kb.input("length", (1,), int32, range=(t // 2, t))
    dot = kb.sum("dot", (a, jd), e, q[a, e] * cast(k[jd, a, e], float32))

    def score(j: Any) -> Any:
        return where(cast(j, int32) < length[0], dot[a, j] * ks[j, a] * d**-0.5, float("-inf"))

    top = kb.max("top", (a,), jm, score(jm))
    total = kb.sum("total", (a,), js, exp(score(js) - top[a]))
    mix = kb.sum("mix", (a, o), jo, exp(score(jo) - top[a]) * vs[jo, a] * cast(v[jo, a, o], float32))
    kb.store("y", float32, (h, d), (a, o), mix[a, o] / total[a])
    return kb.build()


def squared_relu_attention(s: int = 271, h: int = 3, d: int = 48) -> Kernel:
    """Causal attention with the square of ReLU in place of softmax, over how many tokens there are; tokens, then heads."""
    kb = KernelBuilder("squared_relu_attention")
    a, i, o, e = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jo = kb.axis("s@dot", s), kb.axis("s@out", s)
    q, k, v = (kb.input(n, (s, h, d), float32) for n in "qkv")
    dot = kb.sum("dot", (a, i, jd), e, q[i, a, e] * k[jd, a, e])
    held = maximum(dot[a, i, jo] * d**-0.5, 0.0)
    mix = kb.sum("mix", (i, a, o), jo, where(jo <= i, held * held, 0.0) * v[jo, a, o])
    kb.store("y", float32, (s, h, d), (i, a, o), mix[i, a, o] / cast(i + 1, float32))
    return kb.build()


def shifted_windows(r: int = 4, c: int = 5, h: int = 3, d: int = 32) -> Kernel:
    """Attention within windows of 7 x 7 pixels of a picture that is turned by 3 both ways; what met only by turning does not attend."""
    kb = KernelBuilder("shifted_windows")
    a, b, g, p = kb.axis("r", r), kb.axis("c", c), kb.axis("h", h), kb.axis("p", 49)
    qkv, bias = kb.input("qkv", (7 * r, 7 * c, 3, h, d), float32), kb.input("bias", (169, h), float32)
    j = {site: kb.axis(f"key@{site}", 49) for site in ("dot", "top", "sum", "mix")}
    e, o = kb.axis("d@dot", d), kb.axis("d", d)

    def row(k: Any) -> Any:
        return (7 * a + k // 7 + 3) % (7 * r)

    def col(k: Any) -> Any:
        return (7 * b + k % 7 + 3) % (7 * c)

    k = j["dot"]
    dot = kb.sum("dot", (a, b, g, p, k), e, qkv[row(p), col(p), 0, g, e] * qkv[row(k), col(k), 1, g, e])

    def score(k: Any) -> Any:
        down, across = p // 7 - k // 7 + 6, p % 7 - k % 7 + 6
        torn = (a.eq(r - 1) & (p // 7 < 4).ne(k // 7 < 4)) | (b.eq(c - 1) & (p % 7 < 4).ne(k % 7 < 4))
        return where(torn, float("-inf"), dot[a, b, g, p, k] * d**-0.5 + bias[13 * down + across, g])

    top = kb.max("top", (a, b, g, p), j["top"], score(j["top"]))
    total = kb.sum("total", (a, b, g, p), j["sum"], exp(score(j["sum"]) - top[a, b, g, p]))
    m = j["mix"]
    mix = kb.sum("mix", (a, b, g, p, o), m, exp(score(m) - top[a, b, g, p]) * qkv[row(m), col(m), 2, g, o])
    y = mix[a, b, g, p, o] / total[a, b, g, p]
    kb.store("y", float32, (7 * r, 7 * c, h, d), (a, b, g, p, o), y, (row(p), col(p), g, o))
    return kb.build()


def latent_decode(h: int = 16, t: int = 1021, l: int = 384, r: int = 48) -> Kernel:
    """A token's attention over a cache that all heads share: latent vectors, which are the values too, and a part with positions."""
    kb = KernelBuilder("latent_decode")
    i, j, a, b = kb.axis("h", h), kb.axis("t", t), kb.axis("l@dot", l), kb.axis("r", r)
    top, every, mix, o = kb.axis("t@top", t), kb.axis("t@all", t), kb.axis("t@mix", t), kb.axis("l", l)
    q, turned = kb.input("q", (h, l), float32), kb.input("turned", (h, r), float32)
    latent, place = kb.input("latent", (t, l), float16), kb.input("place", (t, r), float16)
    near = kb.sum("near", (i, j), a, q[i, a] * cast(latent[j, a], float32))
    there = kb.sum("there", (i, j), b, turned[i, b] * cast(place[j, b], float32))
    score = kb.value("score", (i, j), (near[i, j] + there[i, j]) * (l + r) ** -0.5)
    most = kb.max("most", (i,), top, score[i, top])
    total = kb.sum("total", (i,), every, exp(score[i, every] - most[i]))
    out = kb.sum("out", (i, o), mix, exp(score[i, mix] - most[i]) * cast(latent[mix, o], float32))
    kb.store("y", float32, (h, l), (i, o), out[i, o] / total[i])
    return kb.build()


def linear_attention(h: int = 8, t: int = 257, d: int = 24, e: int = 32) -> Kernel:
    """Causal attention without a softmax: ELU + 1 of queries and keys, and running sums of keys times values."""
    kb = KernelBuilder("linear_attention")
    a, i, j, o, (p, r) = kb.axis("h", h), kb.axis("t", t), kb.axis("d", d), kb.axis("e", e), (kb.axis(f"d@{s}", d) for s in ("up", "low"))
    q, k = kb.input("q", (t, h, d), float32), kb.input("k", (t, h, d), float32)
    v = kb.input("v", (t, h, e), float32)

    def positive(x: Any) -> Any:
        return where(x > 0.0, x + 1.0, exp(x))

    state = kb.scan("add", "state", (a, i, j, o), i, positive(k[i, a, j]) * v[i, a, o])
    keys = kb.scan("add", "keys", (a, i, j), i, positive(k[i, a, j]))
    up = kb.sum("up", (a, i, o), p, positive(q[i, a, p]) * state[a, i, p, o])
    low = kb.sum("low", (a, i), r, positive(q[i, a, r]) * keys[a, i, r])
    kb.store("y", float32, (t, h, e), (i, a, o), up[a, i, o] / low[a, i])
    return kb.build()


def paged_query(b: int = 7, g: int = 2, r: int = 5, d: int = 64, pages: int = 19, page: int = 16, blocks: int = 120) -> Kernel:
    """One query a sequence, groups of r heads to one of keys, over a float16 cache in pages that a table finds."""
    kb = KernelBuilder("paged_query")
    i, a, e, o, f = kb.axis("b", b), kb.axis("g", g), kb.axis("r", r), kb.axis("d@out", d), kb.axis("d@dot", d)
    t = pages * page
    jd, jm, js, jo = (kb.axis(f"t@{name}", t) for name in ("dot", "most", "sum", "out"))
    q = kb.input("q", (b, g, r, d), float32)
    key, value = (kb.input(name, (blocks, page, g, d), float16) for name in ("key", "value"))
    table, length = kb.input("table", (b, pages), int32, range=(0, blocks - 1)), kb.input("length", (b,), int32, range=(t // 2, t))
    found = cast(key[table[i, jd // page], jd % page, a, f], float32)
    dot = kb.sum("dot", (i, a, e, jd), f, q[i, a, e, f] * found)

    def score(j: Any) -> Any:
        return where(cast(j, int32) < length[i], dot[i, a, e, j] * d**-0.5, float("-inf"))

    most = kb.max("most", (i, a, e), jm, score(jm))
    total = kb.sum("total", (i, a, e), js, exp(score(js) - most[i, a, e]))
    taken = cast(value[table[i, jo // page], jo % page, a, o], float32)
    mix = kb.sum("mix", (i, a, e, o), jo, exp(score(jo) - most[i, a, e]) * taken)
    kb.store("y", float32, (b, g, r, d), (i, a, e, o), mix[i, a, e, o] / total[i, a, e])
    return kb.build()


def qk_norm_rope(s: int = 701, q: int = 7, k: int = 2, d: int = 96, r: int = 64) -> Kernel:
    """Heads of float16 queries and keys, out of a product that has values too: RMS norm, then r numbers turned by a token's position."""
    kb = KernelBuilder("qk_norm_rope")
    x, place = kb.input("x", (s, q + 2 * k, d), float16), kb.input("place", (s,), int32, range=(0, 4095))
    turn = [kb.input(name, (4096, r // 2), float32, range=(-1.0, 1.0)) for name in ("cosine", "sine")]
    for name, heads, first in (("q", q, 0), ("k", k, q)):
        w = kb.input(f"weight_{name}", (d,), float32, range=(0.5, 2.0))
        i, a, c, low, rest = (
            kb.axis(f"{n}@{name}", e) for n, e in (("s", s), (f"heads_{name}", heads), ("d", d), ("half", r // 2), ("rest", d - r))
        )
        mean = kb.sum(f"mean_{name}", (i, a), c, cast(x[i, a + first, c], float32) ** 2)
        over = rsqrt(mean[i, a] * (1.0 / d) + 1e-6)

        def normed(c: Any, i: Any = i, a: Any = a, first: int = first, over: Any = over, w: Any = w) -> Any:
            return cast(x[i, a + first, c], float32) * over * w[c]

        u, v, (co, si) = normed(low), normed(low + r // 2), (t[place[i], low] for t in turn)
        shape = (s, heads, d)
        kb.store(f"{name}_out", float16, shape, (i, a, low), u * co - v * si, (i, a, low))
        kb.store(f"{name}_out", float16, shape, (i, a, low), v * co + u * si, (i, a, low + r // 2))
        kb.store(f"{name}_out", float16, shape, (i, a, rest), normed(rest + r), (i, a, rest + r))
    return kb.build()


def alibi_attention(h: int = 4, s: int = 256, d: int = 64) -> Kernel:
    """Causal attention whose scores fall with the distance, by a slope that each head has for itself."""
    kb = KernelBuilder("alibi_attention")
    a, i, o = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d)
    j = [kb.axis(f"key@{n}", s) for n in ("max", "sum", "out")]
    e = kb.axis("d@dot", d)
    jd = kb.axis("key@dot", s)
    q, k, v = (kb.input(x, (h, s, d), float32) for x in "qkv")
    slope = kb.input("slope", (h,), float32, range=(0.0, 0.5))
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[a, jd, e])

    def score(j: Any) -> Any:
        return where(j <= i, dot[a, i, j] * d**-0.5 - slope[a] * cast(i - j, float32), float("-inf"))

    top = kb.max("top", (a, i), j[0], score(j[0]))
    total = kb.sum("total", (a, i), j[1], exp(score(j[1]) - top[a, i]))
    mix = kb.sum("mix", (a, i, o), j[2], exp(score(j[2]) - top[a, i]) * v[a, j[2], o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] / total[a, i])
    return kb.build()


def rotary_pairs(s: int = 2048, h: int = 16, d: int = 128) -> Kernel:
    """Neighbouring elements of a head turned by an angle that depends on the place (rotary embedding, interleaved)."""
    kb = KernelBuilder("rotary_pairs")
    i, c, j, e = kb.axis("s", s), kb.axis("h", h), kb.axis("d", d // 2), kb.axis("pair", 2)
    x = kb.input("x", (s, h, d), float32)
    cos, sin = kb.input("cos", (s, d // 2), float32), kb.input("sin", (s, d // 2), float32)
    other = where(e.eq(0), -x[i, c, 2 * j + 1], x[i, c, 2 * j])
    turned = x[i, c, 2 * j + e] * cos[i, j] + other * sin[i, j]
    kb.store("y", float32, (s, h, d), (i, c, j, e), turned, indices=(i, c, 2 * j + e))
    return kb.build()


def rms_rotary(s: int = 4096, d: int = 512) -> Kernel:
    """RMS norm of a token, then its halves turned by an angle that depends on the place."""
    kb = KernelBuilder("rms_rotary")
    i, a, j = kb.axis("s", s), kb.axis("d", d), kb.axis("half", d // 2)
    x, g = kb.input("x", (s, d), float32), kb.input("g", (d,), float32)
    cos, sin = kb.input("cos", (s, d // 2), float32), kb.input("sin", (s, d // 2), float32)
    square = kb.sum("square", (i,), a, x[i, a] * x[i, a])
    scale = 1.0 / sqrt(square[i] * (1.0 / d) + 1e-5)
    left, right = x[i, j] * scale * g[j], x[i, j + d // 2] * scale * g[j + d // 2]
    kb.store("y", float32, (s, 2, d // 2), (i, j), left * cos[i, j] - right * sin[i, j], (i, 0, j))
    kb.store("y", float32, (s, 2, d // 2), (i, j), left * sin[i, j] + right * cos[i, j], (i, 1, j))
    return kb.build()


def time_and_class(s: int = 509, d: int = 194) -> Kernel:
    """A model's positions in bfloat16: sines and cosines of halves, interleaved, times a gain, and a bias of distance down to the end."""
    kb = KernelBuilder("time_and_class")
    i, j, p = kb.axis("s", s), kb.axis("half", d // 2), kb.axis("half@sum", d // 2)
    rate, gain = kb.input("rate", (d // 2,), float32, range=(0.0, 0.1)), kb.input("gain", (d,), bfloat16)
    turn = cast(i, float32) * rate[j]
    last = i.eq(s - 1)
    kb.store("y", bfloat16, (s, d), (i, j), sin(turn) * gain[2 * j], (i, 2 * j))
    kb.store("y", bfloat16, (s, d), (i, j), cos(turn) * gain[2 * j + 1], (s - 1 - i, d - 1 - 2 * j))
    power = kb.sum("power", (i,), p, (cast(i, float32) * rate[p] + cast(p, float32)) * where(last, 2.0, 1.0))
    kb.store("slope", float32, (s,), (i,), maximum(power[i], cast(s - i, float32)), (s - 1 - i,))
    return kb.build()


def masked_softmax(m: int = 1024, n: int = 2048) -> Kernel:
    """Softmax at a temperature of 0.8 of what a mask of bytes lets through."""
    kb = KernelBuilder("masked_softmax")
    i = kb.axis("m", m)
    a, b, c = (kb.axis(f"n@{site}", n) for site in ("top", "sum", "out"))
    x, seen = kb.input("x", (m, n), float32), kb.input("seen", (m, n), uint8, range=(0, 1))

    def score(at: Any) -> Any:
        return where(seen[i, at].eq(1), x[i, at] * (1.0 / 0.8), -1e9)

    top = kb.max("top", (i,), a, score(a))
    total = kb.sum("total", (i,), b, exp(score(b) - top[i]))
    kb.store("y", float32, (m, n), (i, c), exp(score(c) - top[i]) / total[i])
    return kb.build()


def jagged_softmax(n: int = 2000, l: int = 61) -> Kernel:
    """The mean of the values of each row, weighted by the softmax of its scores: rows begin anywhere, of 1 to l."""
    kb = KernelBuilder("jagged_softmax")
    total = 30000
    i, a, b, c = kb.axis("n", n), kb.axis("l@top", l), kb.axis("l@sum", l), kb.axis("l@mix", l)
    x, v = kb.input("score", (total,), float32), kb.input("v", (total,), float32)
    start = kb.input("start", (n,), int32, range=(0, total - l))
    many = kb.input("many", (n,), int32, range=(1, l))

    def at(k: Any) -> Any:
        return cast(start[i], int64) + k

    def there(k: Any) -> Any:
        return cast(k, int32) < many[i]

    top = kb.max("top", (i,), a, where(there(a), x[at(a)], float("-inf")))
    den = kb.sum("den", (i,), b, where(there(b), exp(x[at(b)] - top[i]), 0.0))
    num = kb.sum("num", (i,), c, where(there(c), exp(x[at(c)] - top[i]) * v[at(c)], 0.0))
    kb.store("y", float32, (n,), (i,), num[i] / den[i])
    return kb.build()


def group_softmax(m: int = 1501, g: int = 12, k: int = 7) -> Kernel:
    """Softmax within groups of k scores, each group at a temperature of its own, in bfloat16."""
    kb = KernelBuilder("group_softmax")
    i, a, (p, q, r) = kb.axis("m", m), kb.axis("g", g), (kb.axis(f"k@{n}", k) for n in ("top", "sum", "out"))
    x, heat = kb.input("x", (m, g, k), bfloat16), kb.input("heat", (g,), float32, range=(0.5, 2.0))

    def score(j: Any) -> Any:
        return cast(x[i, a, j], float32) * heat[a]

    top = kb.max("top", (i, a), p, score(p))
    total = kb.sum("total", (i, a), q, exp(score(q) - top[i, a]))
    kb.store("y", bfloat16, (m, g, k), (i, a, r), exp(score(r) - top[i, a]) / total[i, a])
    return kb.build()
