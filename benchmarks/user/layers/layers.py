"""Layers of networks: convolutions, pooling, norms, gates, adapters, recurrences and state spaces.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    bfloat16,
    cast,
    clip,
    const,
    erf,
    exp,
    float16,
    float32,
    floor,
    int8,
    int32,
    int64,
    log,
    log1p,
    maximum,
    minimum,
    round_even,
    rsqrt,
    sigmoid,
    trunc,
    uint8,
    where,
)


def grouped_conv(g: int = 8, c: int = 6, o: int = 6, h: int = 28, w: int = 37) -> Kernel:
    """A 3 × 3 convolution of stride 2 in groups of channels, with a bias and ReLU."""
    kb = KernelBuilder("grouped_conv")
    e, f, i, j = kb.axis("g", g), kb.axis("o", o), kb.axis("h", h), kb.axis("w", w)
    l, p, q = kb.axis("c", c), kb.axis("p", 3), kb.axis("q", 3)
    x = kb.input("x", (g, c, 2 * h + 1, 2 * w + 1), float32)
    weight, bias = kb.input("weight", (g, o, c, 3, 3), float32), kb.input("bias", (g, o), float32)
    acc = kb.sum("acc", (e, f, i, j), (l, p, q), x[e, l, 2 * i + p, 2 * j + q] * weight[e, f, l, p, q])
    kb.store("y", float32, (g, o, h, w), (e, f, i, j), maximum(acc[e, f, i, j] + bias[e, f], 0.0))
    return kb.build()


def conv1d_last(t: int = 300, i: int = 40, o: int = 44, k: int = 5) -> Kernel:
    """A convolution along time whose channels come last, with a bias and ReLU."""
    kb = KernelBuilder("conv1d_last")
    a, b, c, d = kb.axis("t", t), kb.axis("o", o), kb.axis("k", k), kb.axis("i", i)
    x, w = kb.input("x", (t + k - 1, i), float32), kb.input("w", (k, i, o), float32)
    bias = kb.input("bias", (o,), float32)
    acc = kb.sum("acc", (a, b), (c, d), x[a + c, d] * w[c, d, b])
    kb.store("y", float32, (t, o), (a, b), maximum(acc[a, b] + bias[b], 0.0))
    return kb.build()


def pool_with_places(c: int = 16, h: int = 55, w: int = 57) -> Kernel:
    """The greatest of 3 × 3 at a stride of 2, and which of the nine it was: the first of equals."""
    kb = KernelBuilder("pool_with_places")
    l, i, j = kb.axis("c", c), kb.axis("h", h), kb.axis("w", w)
    p, q, p2, q2 = kb.axis("p@max", 3), kb.axis("q@max", 3), kb.axis("p@at", 3), kb.axis("q@at", 3)
    x = kb.input("x", (c, 2 * h + 1, 2 * w + 1), float32)
    top = kb.max("top", (l, i, j), (p, q), x[l, 2 * i + p, 2 * j + q])
    same = x[l, 2 * i + p2, 2 * j + q2].eq(top[l, i, j])
    at = kb.min("at", (l, i, j), (p2, q2), where(same, cast(3 * p2 + q2, int32), 8))
    kb.store("y", float32, (c, h, w), (l, i, j), top[l, i, j])
    kb.store("place", uint8, (c, h, w), (l, i, j), cast(at[l, i, j], uint8))
    return kb.build()


def mean_pool_bytes(h: int = 80, w: int = 83, c: int = 48) -> Kernel:
    """The rounded mean of 2 × 2 int8 values, channels last."""
    kb = KernelBuilder("mean_pool_bytes")
    i, j, l = kb.axis("h", h), kb.axis("w", w), kb.axis("c", c)
    p, q = kb.axis("p", 2), kb.axis("q", 2)
    x = kb.input("x", (2 * h, 2 * w, c), int8)
    total = kb.sum("total", (i, j, l), (p, q), cast(x[2 * i + p, 2 * j + q, l], int32))
    kb.store("y", int8, (h, w, c), (i, j, l), cast((total[i, j, l] + 2) >> 2, int8))
    return kb.build()


def bn_upsample(c: int = 60, h: int = 45, w: int = 51) -> Kernel:
    """Batch norm as inference has it, leaky ReLU, and each pixel four times."""
    kb = KernelBuilder("bn_upsample")
    l, i, j = kb.axis("c", c), kb.axis("h", 2 * h), kb.axis("w", 2 * w)
    x = kb.input("x", (c, h, w), float32)
    g, b, mean = (kb.input(k, (c,), float32) for k in ("g", "b", "mean"))
    var = kb.input("var", (c,), float32, range=(0.1, 2.0))
    v = (x[l, i // 2, j // 2] - mean[l]) * (g[l] / (var[l] + 1e-5) ** 0.5) + b[l]
    kb.store("y", float32, (c, 2 * h, 2 * w), (l, i, j), maximum(v, 0.1 * v))
    return kb.build()


def lora_layer(m: int = 48, k: int = 320, n: int = 360, r: int = 8) -> Kernel:
    """x · w + 2 (x · a) · b, with narrow a and b."""
    kb = KernelBuilder("lora_layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k@w", k)
    la, ra, rb = kb.axis("k@a", k), kb.axis("r@a", r), kb.axis("r@b", r)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (k, n), float32)
    a, b = kb.input("a", (k, r), float32), kb.input("b", (r, n), float32)
    down = kb.sum("down", (i, ra), la, x[i, la] * a[la, ra])
    base = kb.sum("base", (i, j), l, x[i, l] * w[l, j])
    up = kb.sum("up", (i, j), rb, down[i, rb] * b[rb, j])
    kb.store("y", float32, (m, n), (i, j), base[i, j] + 2.0 * up[i, j])
    return kb.build()


def half_matvec(m: int = 500, n: int = 1111) -> Kernel:
    """tanh(w · x + b) with float16 weights whose rows are of an odd length."""
    kb = KernelBuilder("half_matvec")
    i, j = kb.axis("m", m), kb.axis("n", n)
    w, x, b = kb.input("w", (m, n), float16), kb.input("x", (n,), float32), kb.input("b", (m,), float16)
    acc = kb.sum("acc", (i,), j, cast(w[i, j], float32) * x[j])
    kb.store("y", float16, (m,), (i,), maximum(acc[i] * 0.05 + cast(b[i], float32), 0.0))
    return kb.build()


def geglu_groups(t: int = 200, f: int = 1536, g: int = 64) -> Kernel:
    """A gated unit (GELU of one half times the other, in bfloat16), as int8 with a scale for each g channels."""
    if f % g:
        raise ValueError(f"{f} channels in groups of {g}")
    kb = KernelBuilder("geglu_groups")
    i, a, b, c = kb.axis("t", t), kb.axis("group", f // g), kb.axis("g", g), kb.axis("g@most", g)
    x = kb.input("x", (t, 2 * f), "bfloat16")
    j = kb.axis("f", f)
    gate, up = cast(x[i, j], "float32"), cast(x[i, f + j], "float32")
    h = kb.value("h", (i, j), 0.5 * gate * (1.0 + erf(gate * 0.70710678)) * up)
    most = kb.max("most", (i, a), c, absolute(h[i, a * g + c]))
    scale = kb.value("step", (i, a), maximum(most[i, a] * (1.0 / 127.0), 1e-8))
    kb.store("y", "int8", (t, f), (i, a, b), cast(round_even(h[i, a * g + b] / scale[i, a]), "int8"), (i, a * g + b))
    kb.store("scale", "float32", (t, f // g), (i, a), scale[i, a])
    return kb.build()


def tenant_adapters(m: int = 29, k: int = 384, n: int = 512, r: int = 8, t: int = 6) -> Kernel:
    """A linear layer whose weights are bfloat16, plus what the adapter of rank r of each row's tenant adds, if it has one."""
    kb = KernelBuilder("tenant_adapters")
    i, o, a, b = kb.axis("m", m), kb.axis("n", n), kb.axis("k@base", k), kb.axis("k@down", k)
    c, f = kb.axis("r@down", r), kb.axis("r@up", r)
    x, w, bias = kb.input("x", (m, k), float32), kb.input("w", (n, k), bfloat16), kb.input("bias", (n,), float32)
    down, up = kb.input("down", (t, r, k), float32), kb.input("up", (t, n, r), float32)
    strength, who = kb.input("strength", (t,), float32), kb.input("who", (m,), int32, range=(-1, t - 1))
    base = kb.sum("base", (i, o), a, x[i, a] * cast(w[o, a], float32))
    mine = who[i] >= 0
    narrow = kb.sum("narrow", (i, c), b, x[i, b] * down.masked(mine, who[i], c, b))
    more = kb.sum("more", (i, o), f, narrow[i, f] * up.masked(mine, who[i], o, f))
    kb.store("y", float32, (m, n), (i, o), base[i, o] + bias[o] + strength.masked(mine, who[i]) * more[i, o])
    return kb.build()


def group_norm_last(b: int = 5, n: int = 3127, g: int = 8, c: int = 13) -> Kernel:
    """Group norm and SiLU of bfloat16 pictures whose channels come last: n pixels, g groups of c channels."""
    kb = KernelBuilder("group_norm_last")
    e, f = kb.axis("b", b), kb.axis("g", g)
    (p, l), (p2, l2), (p3, l3) = ((kb.axis(f"n@{s}", n), kb.axis(f"c@{s}", c)) for s in ("mean", "var", "out"))
    x, weight, bias = kb.input("x", (b, n, g, c), bfloat16), kb.input("weight", (g, c), float32), kb.input("bias", (g, c), float32)
    total = kb.sum("total", (e, f), (p, l), cast(x[e, p, f, l], float32))
    mean = kb.value("mean", (e, f), total[e, f] * (1.0 / (n * c)))
    off = cast(x[e, p2, f, l2], float32) - mean[e, f]
    var = kb.sum("var", (e, f), (p2, l2), off * off)
    over = kb.value("over", (e, f), rsqrt(var[e, f] * (1.0 / (n * c)) + 1e-5))
    v = (cast(x[e, p3, f, l3], float32) - mean[e, f]) * over[e, f] * weight[f, l3] + bias[f, l3]
    kb.store("y", bfloat16, (b, n, g, c), (e, p3, f, l3), v / (1.0 + exp(-v)))
    return kb.build()


def kan_layer(b: int = 96, i: int = 61, o: int = 52, g: int = 17) -> Kernel:
    """A layer of a Kolmogorov-Arnold network: each edge has a piecewise linear function of g points in half precision."""
    kb = KernelBuilder("kan_layer")
    e, l, m = kb.axis("b", b), kb.axis("i", i), kb.axis("o", o)
    x, table = kb.input("x", (b, i), float32, range=(-1.0, 1.0)), kb.input("table", (i, g, o), float16)
    place = kb.value("place", (e, l), (x[e, l] + 1.0) * (0.5 * (g - 1)))[e, l]
    cell = cast(minimum(trunc(place), g - 2.0), int32)
    part, at = place - cast(cell, float32), cast(clip(cell, 0, g - 2), int64)
    left, right = cast(table[l, at, m], float32), cast(table[l, at + 1, m], float32)
    total = kb.sum("total", (e, m), l, left + part * (right - left))
    kb.store("y", float32, (b, o), (e, m), total[e, m])
    return kb.build()


def wkv_recurrence(t: int = 701, c: int = 390) -> Kernel:
    """RWKV's time mixing: means of the values so far, weighted by exp(key) and fading, times a gate; kept in exponents."""
    kb = KernelBuilder("wkv_recurrence")
    i, j = kb.axis("t", t), kb.axis("c", c)
    k, v, r = (kb.input(n, (t, c), float32) for n in "kvr")
    w = kb.input("w", (c,), float32, range=(0.01, 1.0))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        faded = before[1] + after[0]
        top = maximum(faded, after[1])
        old, new = exp(faded - top), exp(after[1] - top)
        return before[0] + after[0], top, before[2] * old + after[2] * new, before[3] * old + after[3] * new

    start = (0.0, -1e30, 0.0, 0.0)
    _, _, num, den = kb.associative_scan(
        ("fade", "top", "num", "den"), (i, j), i, (-w[j], k[i, j], v[i, j], const(1.0, float32)), start, rule
    )
    kb.store("y", float32, (t, c), (i, j), sigmoid(r[i, j]) * num[i, j] / den[i, j])
    return kb.build()


def selective_scan(t: int = 307, d: int = 130, n: int = 16) -> Kernel:
    """A layer of Mamba: states fade by exp(step · a), gain step · b · x, and c reads them; b and c change with time."""
    kb = KernelBuilder("selective_scan")
    i, j, k, o = kb.axis("t", t), kb.axis("d", d), kb.axis("n", n), kb.axis("n@out", n)
    x, step = kb.input("x", (t, d), float32), kb.input("step", (t, d), float32, range=(0.001, 0.1))
    a, skip = kb.input("a", (d, n), float32, range=(-8.0, -0.5)), kb.input("skip", (d,), float32)
    b, c = kb.input("b", (t, n), float32), kb.input("c", (t, n), float32)

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    gain = step[i, j] * x[i, j] * b[i, k]
    _, state = kb.associative_scan(("fade", "state"), (i, j, k), i, (exp(step[i, j] * a[j, k]), gain), (1.0, 0.0), rule)
    read = kb.sum("read", (i, j), o, c[i, o] * state[i, j, o])
    kb.store("y", float32, (t, d), (i, j), read[i, j] + skip[j] * x[i, j])
    return kb.build()


def mixture_of_softmaxes(b: int = 200, k: int = 3, v: int = 1009) -> Kernel:
    """log of the mean of k softmaxes over words, weighted by a softmax of their own: a language model's last layer."""
    kb = KernelBuilder("mixture_of_softmaxes")
    i, j, m = kb.axis("b", b), kb.axis("k", k), kb.axis("k@mix", k)
    p, q, o, r, u = kb.axis("v@top", v), kb.axis("v@sum", v), kb.axis("v@out", v), kb.axis("k@top", k), kb.axis("k@sum", k)
    x, prior = kb.input("x", (b, k, v), float32), kb.input("prior", (b, k), float32)
    most = kb.max("most", (i,), r, prior[i, r])
    all_of = kb.sum("all", (i,), u, exp(prior[i, u] - most[i]))
    top = kb.max("top", (i, j), p, x[i, j, p])
    total = kb.sum("total", (i, j), q, exp(x[i, j, q] - top[i, j]))
    share = kb.value("share", (i, j), exp(prior[i, j] - most[i]) / (all_of[i] * total[i, j]))
    mix = kb.sum("mix", (i, o), m, share[i, m] * exp(x[i, m, o] - top[i, m]))
    kb.store("y", float32, (b, v), (i, o), log(mix[i, o]))
    return kb.build()


def headed_states(t: int = 500, h: int = 6, p: int = 20, n: int = 16) -> Kernel:
    """A chunk of Mamba 2: matrices of heads fade by one number a step and gain x ⊗ b; c reads them, z gates, the last state is kept."""
    kb = KernelBuilder("headed_states")
    i, a, c, k, o = kb.axis("t", t), kb.axis("h", h), kb.axis("p", p), kb.axis("n", n), kb.axis("n@out", n)
    x, z = kb.input("x", (t, h, p), float32), kb.input("z", (t, h, p), float32)
    raw, bias = kb.input("raw", (t, h), float32), kb.input("bias", (h,), float32, range=(-5.0, -2.0))
    rate, skip = kb.input("rate", (h,), float32, range=(0.5, 8.0)), kb.input("skip", (h,), float32)
    gain, read = kb.input("gain", (t, n), float32), kb.input("read", (t, n), float32)
    start = kb.input("start", (h, p, n), float32)
    i0, a0, i1, a1 = kb.axis("t@step", t), kb.axis("h@step", h), kb.axis("t@fade", t), kb.axis("h@fade", h)
    step = kb.value("step", (i0, a0), log1p(exp(raw[i0, a0] + bias[a0])))
    fade = kb.value("fade", (i1, a1), exp(-step[i1, a1] * rate[a1]))
    more = step[i, a] * x[i, a, c] * gain[i, k] + where(i.eq(0), fade[i, a] * start[a, c, k], 0.0)

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, state = kb.associative_scan(("left", "state"), (i, a, c, k), i, (fade[i, a], more), (1.0, 0.0), rule)
    seen = kb.sum("seen", (i, a, c), o, read[i, o] * state[i, a, c, o])
    y = (seen[i, a, c] + skip[a] * x[i, a, c]) * z[i, a, c] * sigmoid(z[i, a, c])
    kb.store("y", float32, (t, h, p), (i, a, c), y)
    kb.store("last", float32, (h, p, n), (a, c, k), state[t - 1, a, c, k])
    return kb.build()


def combined_experts(n: int = 4001, rows: int = 7200, d: int = 200) -> Kernel:
    """What the two experts of each token gave (bfloat16 rows, found by number; -1 where an expert was full), by their shares, and the rest."""
    kb = KernelBuilder("combined_experts")
    i, j, k, o = kb.axis("n", n), kb.axis("two", 2), kb.axis("two@mix", 2), kb.axis("d", d)
    rest, given = kb.input("rest", (n, d), bfloat16), kb.input("given", (rows, d), bfloat16)
    at, share = kb.input("at", (n, 2), int32, range=(-1, rows - 1)), kb.input("share", (n, 2), float32, range=(0.05, 1.0))
    total = kb.sum("total", (i,), j, where(at[i, j] >= 0, share[i, j], 0.0))
    row = cast(given.masked(at[i, k] >= 0, at[i, k], o), float32)
    mix = kb.sum("mix", (i, o), k, share[i, k] * row)
    y = cast(rest[i, o], float32) + where(total[i] > 0.0, mix[i, o] / total[i], 0.0)
    kb.store("y", bfloat16, (n, d), (i, o), y)
    return kb.build()


def deformable_conv(h: int = 31, w: int = 43, c: int = 16, o: int = 12) -> Kernel:
    """A 3 × 3 convolution each of whose nine taps reads where an offset of its own says, between pixels; outside is 0."""
    kb = KernelBuilder("deformable_conv")
    i, j, out, k, e = kb.axis("h", h), kb.axis("w", w), kb.axis("o", o), kb.axis("tap", 9), kb.axis("c", c)
    x, weight = kb.input("x", (h, w, c), float32), kb.input("weight", (9, c, o), float32)
    offset, bias = kb.input("offset", (h, w, 9, 2), float32, range=(-2.0, 2.0)), kb.input("bias", (o,), float32)
    t, f = kb.axis("tap@at", 9), kb.axis("c@at", c)
    y = cast(i + t // 3 - 1, float32) + offset[i, j, t, 0]
    z = cast(j + t % 3 - 1, float32) + offset[i, j, t, 1]
    p, q = floor(y), floor(z)
    sample: Any = 0.0
    for dy in range(2):
        for dx in range(2):
            r, s = cast(p, int64) + dy, cast(q, int64) + dx
            inside = (r >= 0) & (r < h) & (s >= 0) & (s < w)
            share = (y - p if dy else 1.0 - (y - p)) * (z - q if dx else 1.0 - (z - q))
            sample = x.masked(inside, r, s, f) * share + sample
    read = kb.value("read", (i, j, t, f), sample)
    total = kb.sum("total", (i, j, out), (k, e), read[i, j, k, e] * weight[k, e, out])
    kb.store("y", float32, (h, w, o), (i, j, out), total[i, j, out] + bias[out])
    return kb.build()


def transposed_conv(c: int = 24, o: int = 12, h: int = 20, w: int = 27) -> Kernel:
    """A transposed 4 × 4 convolution of stride 2: each pixel adds to a square of the picture of twice the size."""
    kb = KernelBuilder("transposed_conv")
    e, k, i, j, p, q = kb.axis("c", c), kb.axis("o", o), kb.axis("h", h), kb.axis("w", w), kb.axis("ky", 4), kb.axis("kx", 4)
    x, weight, bias = kb.input("x", (c, h, w), float32), kb.input("weight", (c, o, 4, 4), float32), kb.input("bias", (o,), float32)
    part = kb.sum("part", (k, i, j, p, q), e, x[e, i, j] * weight[e, k, p, q])
    r, s, shape = 2 * i + p - 1, 2 * j + q - 1, (o, 2 * h, 2 * w)
    inside = (r >= 0) & (r < 2 * h) & (s >= 0) & (s < 2 * w)
    kb.store("y", float32, shape, (k, i, j, p, q), part[k, i, j, p, q], (k, r, s), combine="add", mask=inside)
    g, u, v = kb.axis("o@bias", o), kb.axis("h2", 2 * h), kb.axis("w2", 2 * w)
    kb.store("y", float32, shape, (g, u, v), bias[g], combine="add")
    return kb.build()


def depthwise3d(c: int = 8, d: int = 24, h: int = 64, w: int = 96) -> Kernel:
    """Each channel of a volume by 3 × 3 × 3 weights of its own."""
    kb = KernelBuilder("depthwise3d")
    l, k, i, j = kb.axis("c", c), kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    p, q, r = (kb.axis(f"d{n}", 3) for n in "zyx")
    x = kb.input("x", (c, d + 2, h + 2, w + 2), float32)
    weight, bias = kb.input("weight", (c, 3, 3, 3), float32), kb.input("bias", (c,), float32)
    total = kb.sum("total", (l, k, i, j), (p, q, r), x[l, k + p, i + q, j + r] * weight[l, p, q, r])
    kb.store("y", float32, (c, d, h, w), (l, k, i, j), total[l, k, i, j] + bias[l])
    return kb.build()


def shuffled_pixels(c: int = 3, h: int = 90, w: int = 107, r: int = 3) -> Kernel:
    """The last layer of a network that enlarges pictures: r · r channels become pixels, and numbers bytes."""
    kb = KernelBuilder("shuffled_pixels")
    l, i, p, j, q = kb.axis("c", c), kb.axis("h", h), kb.axis("p", r), kb.axis("w", w), kb.axis("q", r)
    x = kb.input("x", (c * r * r, h, w), float32)
    v = round_even(x[l * (r * r) + p * r + q, i, j] * 64.0 + 128.0)
    byte = cast(minimum(maximum(v, 0.0), 255.0), uint8)
    kb.store("y", uint8, (c, h * r, w * r), (l, i, p, j, q), byte, (l, i * r + p, j * r + q))
    return kb.build()


def half_gates(m: int = 2048, n: int = 512) -> Kernel:
    """A gated layer's halves in float16: what follows a gate's sigmoid times itself."""
    kb = KernelBuilder("half_gates")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, 2 * n), float16)
    gate = x[i, j]
    kb.store("y", float16, (m, n), (i, j), gate / (1.0 + exp(-gate)) * x[i, j + n])
    return kb.build()


def thin_norm(b: int = 211, c: int = 13, h: int = 1, w: int = 193) -> Kernel:
    """A group norm of arrays of which a dimension is 1, with each channel's mean over the batch, and where a sample is first positive."""
    kb = KernelBuilder("thin_norm")
    i, j, y, z = kb.axis("b", b), kb.axis("c", c), kb.axis("h", h), kb.axis("w", w)

    def over(site: str) -> Any:
        return kb.axis(f"c@{site}", c), kb.axis(f"h@{site}", h), kb.axis(f"w@{site}", w)

    x, g = kb.input("x", (b, c, h, w), float32), kb.input("g", (c, 1), float32)
    p, q, f = over("mean"), over("square"), over("first")
    mean = kb.sum("mean", (i,), p, x[i, *p] * (1.0 / (c * h * w)))
    var = kb.sum("var", (i,), q, (x[i, *q] - mean[i]) ** 2 * (1.0 / (c * h * w)))
    d = kb.axis("b@down", b), kb.axis("h@down", h), kb.axis("w@down", w)
    down = kb.sum("down", (j,), d, x[d[0], j, d[1], d[2]])
    first = kb.min("lead", (i,), f, where(x[i, *f] > mean[i], (f[0] * h + f[1]) * w + f[2], c * h * w))
    kb.store("y", float32, (b, c, h, w), (i, j, y, z), (x[i, j, y, z] - mean[i]) * rsqrt(var[i] + 1e-5) * g[j, 0])
    kb.store("channel", float32, (1, c), (j,), down[j] * (1.0 / (b * h * w)), (0, j))
    kb.store("first", int64, (b, 1), (i,), first[i], (i, 0))
    return kb.build()


def expert_gates(n: int = 1 << 15, e: int = 16) -> Kernel:
    """The two likeliest experts of each token, and their shares of its softmax, which add up to 1."""
    kb = KernelBuilder("expert_gates")
    i = kb.axis("n", n)
    a, b, c, d = (kb.axis(f"e@{s}", e) for s in ("first", "at", "second", "at2"))
    x = kb.input("x", (n, e), float32)
    first = kb.max("first", (i,), a, x[i, a])
    at = kb.min("at", (i,), b, where(x[i, b].eq(first[i]), cast(b, int32), e))
    second = kb.max("second", (i,), c, where(cast(c, int32).eq(at[i]), float("-inf"), x[i, c]))
    at2 = kb.min("at2", (i,), d, where(x[i, d].eq(second[i]) & cast(d, int32).ne(at[i]), cast(d, int32), e))
    share = 1.0 / (1.0 + exp(second[i] - first[i]))
    kb.store("which", int32, (n, 2), (i,), at[i], (i, 0))
    kb.store("which", int32, (n, 2), (i,), at2[i], (i, 1))
    kb.store("share", float32, (n, 2), (i,), share, (i, 0))
    kb.store("share", float32, (n, 2), (i,), 1.0 - share, (i, 1))
    return kb.build()
