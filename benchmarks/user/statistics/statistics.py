"""Statistics and classical machine learning: moments, ranks, densities, mixtures, trees, distances.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    Node,
    absolute,
    cast,
    exp,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    log,
    log1p,
    maximum,
    rsqrt,
    sqrt,
    uint8,
    where,
)


def bad_readings(m: int = 2003, n: int = 97) -> Kernel:
    """Sensors by time: where a row first leaves its bounds, how often, whether it is all bad, which sensors never fail, and a mask."""
    kb = KernelBuilder("bad_readings")
    i, o = kb.axis("m", m), kb.axis("n@mask", n)
    p, q, r = (kb.axis(f"n@{s}", n) for s in ("first", "count", "all"))
    j, k = kb.axis("n", n), kb.axis("m@fine", m)
    x, lo = kb.input("x", (m, n), float32), kb.input("lo", (n,), float32, range=(-3.0, -1.5))

    def bad(a: Any, b: Any) -> Any:
        return (x[a, b] < lo[b]) | (x[a, b] > 2.0)

    first = kb.min("first_bad", (i,), p, where(bad(i, p), cast(p, int32), n))
    count = kb.sum("bads", (i,), q, bad(i, q))
    whole = kb.min("whole", (i,), r, bad(i, r) | (x[i, r] < 0.5))
    fine = kb.min("never", (j,), k, ~bad(k, j))
    kb.store("first", int32, (m,), (i,), first[i])
    kb.store("count", int16, (m,), (i,), cast(count[i], int16))
    kb.store("low", "bool", (m,), (i,), whole[i])
    kb.store("fine", "bool", (n,), (j,), fine[j])
    kb.store("mask", uint8, (m, n), (i, o), where(bad(i, o) & (cast(o, int32) >= first[i]), 255, 0))
    return kb.build()


def copeland(n: int = 701) -> Kernel:
    """Ballots between pairs: how many each candidate beats less how many beat it, its worst defeat, who deals it first, and its votes."""
    kb = KernelBuilder("copeland")
    i = kb.axis("n", n)
    j, k, l, o = (kb.axis(f"n@{s}", n) for s in ("score", "worst", "who", "votes"))
    v = kb.input("v", (n, n), int16, range=(0, 300))

    def lead(a: Any, b: Any) -> Any:
        return cast(v[a, b], int32) - cast(v[b, a], int32)

    score = kb.sum("points", (i,), j, where(lead(i, j) > 0, 1, 0) - where(lead(j, i) > 0, 1, 0), dtype=int32)
    worst = kb.max("most", (i,), k, lead(k, i))
    who = kb.min("dealer", (i,), l, where(lead(l, i).eq(worst[i]) & (l.ne(i)), cast(l, int32), n))
    votes = kb.sum("all", (i,), o, cast(v[i, o], int32))
    kb.store("score", int32, (n,), (i,), score[i])
    kb.store("worst", int32, (n,), (i,), worst[i])
    kb.store("who", int32, (n,), (i,), who[i])
    kb.store("votes", int32, (n,), (i,), votes[i])
    return kb.build()


def equilibrated(n: int = 401) -> Kernel:
    """A step of Ruiz's scaling of a square matrix by the largest of rows and of columns, and how far its sums still are apart."""
    kb = KernelBuilder("equilibrated")
    i, j = kb.axis("n", n), kb.axis("n@other", n)
    p, q, u, v = (kb.axis(f"n@{s}", n) for s in ("rowmax", "colmax", "rowsum", "colsum"))
    a = kb.input("a", (n, n), float64)
    r = kb.max("r", (i,), p, absolute(a[i, p]))
    c = kb.max("c", (j,), q, absolute(a[q, j]))
    rows = kb.sum("rows", (i,), u, absolute(a[i, u]) * rsqrt(c[u]))
    columns = kb.sum("columns", (i,), v, absolute(a[v, i]) * rsqrt(r[v]))
    kb.store("y", float64, (n, n), (i, j), a[i, j] * rsqrt(r[i]) * rsqrt(c[j]))
    kb.store("apart", float64, (n,), (i,), rows[i] * rsqrt(r[i]) - columns[i] * rsqrt(c[i]))
    kb.store("trace", float64, (1,), (i,), a[i, i] * rsqrt(r[i] * c[i]), (0,), combine="add")
    return kb.build()


def scored_confusion(n: int = 8009, c: int = 37) -> Kernel:
    """Scores by class: counts of (label, best class), the surest mistake of each label, and the sum of its chances."""
    kb = KernelBuilder("scored_confusion")
    i, k, l, o = kb.axis("n", n), kb.axis("c@best", c), kb.axis("c@sum", c), kb.axis("c@flag", c)
    x, label = kb.input("x", (n, c), float32), kb.input("label", (n,), uint8, range=(0, c - 1))
    best = kb.argmax("best", (i,), k, x[i, k])
    total = kb.sum("total", (i,), l, exp(x[i, l]))
    wrong = kb.value("wrong", (i,), exp(x[i, best[i]]) / total[i])
    chance = exp(x[i, label[i]]) / total[i]
    kb.store("many", int32, (c, c), (i,), 1, (label[i], best[i]), combine="add")
    kb.store("worst", float32, (c,), (i,), where(best[i].eq(cast(label[i], int32)), 0.0, wrong[i]), (label[i],), combine="max")
    kb.store("mass", float32, (c,), (i,), chance, (label[i],), combine="add")
    kb.store("hit", uint8, (n, c), (i, o), cast(cast(o, int32).eq(best[i]), uint8))
    return kb.build()


def kernel_density(m: int = 512, n: int = 8192) -> Kernel:
    """The density of a sample at some places, smoothed by a normal curve 0.1 wide."""
    kb = KernelBuilder("kernel_density")
    i, j = kb.axis("m", m), kb.axis("n", n)
    at, x = kb.input("at", (m,), float32, range=(-3, 3)), kb.input("x", (n,), float32)
    off = (at[i] - x[j]) * 10.0
    total = kb.sum("total", (i,), j, exp(-0.5 * off * off))
    kb.store("y", float32, (m,), (i,), total[i] * (3.989422804 / n))
    return kb.build()


def kendall_tau(n: int = 3072) -> Kernel:
    """Kendall's tau: of all pairs, those that two rankings put in one order, less those that they do not."""
    kb = KernelBuilder("kendall_tau")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y = kb.input("x", (n,), float32), kb.input("y", (n,), float32)
    both = (x[i] - x[j]) * (y[i] - y[j])
    score = kb.sum("score", (), (i, j), where(j > i, cast(both > 0.0, int32) - cast(both < 0.0, int32), 0))
    kb.store("tau", float32, (1,), (), cast(score[()], float32) * (2.0 / (n * (n - 1))), (0,))
    return kb.build()


def mixture_responsibilities(n: int = 2000, k: int = 12, d: int = 6) -> Kernel:
    """The E step of a mixture of Gaussians with diagonal covariances, and the likelihood's logarithm."""
    kb = KernelBuilder("mixture_responsibilities")
    i, e, m = kb.axis("n", n), kb.axis("d", d), kb.axis("n@all", n)
    cd, ct, cs, co = (kb.axis(f"k@{s}", k) for s in ("dot", "top", "sum", "out"))
    x, mu = kb.input("x", (n, d), float32), kb.input("mu", (k, d), float32)
    iv = kb.input("iv", (k, d), float32, range=(0.2, 2.0))
    logw = kb.input("logw", (k,), float32)
    far = kb.sum("far", (i, cd), e, (x[i, e] - mu[cd, e]) * (x[i, e] - mu[cd, e]) * iv[cd, e])

    def score(c: Any) -> Any:
        return logw[c] - 0.5 * far[i, c]

    top = kb.max("top", (i,), ct, score(ct))
    total = kb.sum("total", (i,), cs, exp(score(cs) - top[i]))
    kb.store("r", float32, (n, k), (i, co), exp(score(co) - top[i]) / total[i])
    lse = kb.value("lse", (i,), top[i] + log(total[i]))
    every = kb.sum("every", (), m, lse[m])
    kb.store("likelihood", float32, (1,), (), every[()], (0,))
    return kb.build()


def kl_to_topics(n: int = 150, k: int = 50, d: int = 130) -> Kernel:
    """The Kullback-Leibler divergence of each of n distributions to each of k."""
    kb = KernelBuilder("kl_to_topics")
    i, j, e = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    p, q = kb.input("p", (n, d), float32, range=(0.01, 1.0)), kb.input("q", (k, d), float32, range=(0.01, 1.0))
    kl = kb.sum("kl", (i, j), e, p[i, e] * (log(p[i, e]) - log(q[j, e])))
    kb.store("y", float32, (n, k), (i, j), kl[i, j])
    return kb.build()


def forest_votes(n: int = 500, t: int = 40, f: int = 24) -> Kernel:
    """The mean of what the leaves say that a row reaches in t trees of five questions each."""
    kb = KernelBuilder("forest_votes")
    i, a = kb.axis("n", n), kb.axis("t", t)
    x = kb.input("x", (n, f), float32)
    which = kb.input("which", (t, 31), uint8, range=(0, f - 1))
    limit, leaf = kb.input("limit", (t, 31), float32), kb.input("leaf", (t, 32), float32)
    node: Any = cast(0 * a, int64)
    for depth in range(5):
        node = kb.value(f"node{depth}", (i, a), 2 * node + 1 + cast(x[i, cast(which[a, node], int64)] > limit[a, node], int64))[i, a]
    total = kb.sum("total", (i,), a, leaf[a, node - 31])
    kb.store("y", float32, (n,), (i,), total[i] * (1.0 / t))
    return kb.build()


def linear_svm_step(n: int = 4000, d: int = 150) -> Kernel:
    """One step of gradient descent on the hinge loss of a linear classifier."""
    kb = KernelBuilder("linear_svm_step")
    i, e, s, j = kb.axis("n", n), kb.axis("d@dot", d), kb.axis("n@grad", n), kb.axis("d", d)
    x, w = kb.input("x", (n, d), float32), kb.input("w", (d,), float32)
    label = kb.input("label", (n,), int8, range=(0, 1))
    dot = kb.sum("dot", (i,), e, x[i, e] * w[e])
    sign = cast(2 * label[i] - 1, float32)
    pull = kb.value("pull", (i,), where(sign * dot[i] < 1.0, sign, 0.0))
    grad = kb.sum("grad", (j,), s, pull[s] * x[s, j])
    kb.store("new", float32, (d,), (j,), w[j] * 0.999 + (0.1 / n) * grad[j])
    return kb.build()


def double_centred(n: int = 709) -> Kernel:
    """The matrix of products that classical scaling takes from distances: squares less means of rows and columns."""
    kb = KernelBuilder("double_centred")
    i, j, k, l, r = (kb.axis(a, n) for a in ("n@i", "n@j", "n@k", "n@l", "n@r"))
    d = kb.input("d", (n, n), float64, range=(0.0, 4.0))
    row = kb.sum("row", (i,), k, d[i, k] * d[i, k])
    column = kb.sum("column", (j,), l, d[l, j] * d[l, j])
    total = kb.sum("total", (), r, row[r])
    centred = d[i, j] * d[i, j] - (row[i] + column[j]) * (1.0 / n) + total[()] * (1.0 / n**2)
    kb.store("y", float64, (n, n), (i, j), -0.5 * centred)
    return kb.build()


def sinkhorn_step(m: int = 1024, n: int = 1024) -> Kernel:
    """A step of Sinkhorn's way to transport: the scales with which rows of exponentials add up to their weights."""
    kb = KernelBuilder("sinkhorn_step")
    i, j = kb.axis("m", m), kb.axis("n", n)
    cost, v = kb.input("cost", (m, n), float32, range=(0.0, 1.0)), kb.input("v", (n,), float32, range=(0.1, 1.0))
    weight = kb.input("weight", (m,), float32, range=(0.1, 1.0))
    total = kb.sum("total", (i,), j, exp(cost[i, j] * -20.0) * v[j])
    kb.store("u", float32, (m,), (i,), weight[i] / total[i])
    return kb.build()


def cox_likelihood(t: int = 1511, b: int = 37) -> Kernel:
    """Cox's partial likelihood (its logarithm) of b models: people in order of time are at risk until their own."""
    kb = KernelBuilder("cox_likelihood")
    k, m = kb.axis("t", t), kb.axis("b", b)
    score, event = kb.input("score", (t, b), float64), kb.input("event", (t,), uint8, range=(0, 1))
    risk = kb.scan("add", "risk", (k, m), k, exp(score[t - 1 - k, m]))
    term = where(event[t - 1 - k].ne(0), score[t - 1 - k, m] - log(risk[k, m]), 0.0)
    kb.store("y", float64, (b,), (m,), kb.sum("total", (m,), k, term)[m])
    return kb.build()


def mahalanobis(b: int = 4096, d: int = 96) -> Kernel:
    """Squared distances from a mean in the metric of an inverse covariance."""
    kb = KernelBuilder("mahalanobis")
    e, i, j = kb.axis("b", b), kb.axis("i", d), kb.axis("j", d)
    x, mean, inverse = (kb.input(n, s, float32) for n, s in (("x", (b, d)), ("mean", (d,)), ("inverse", (d, d))))
    total = kb.sum("total", (e,), (i, j), (x[e, i] - mean[i]) * inverse[i, j] * (x[e, j] - mean[j]))
    kb.store("y", float32, (b,), (e,), total[e])
    return kb.build()


def covariance(n: int = 8192, d: int = 128) -> Kernel:
    """Covariances of the columns of a tall array."""
    kb = KernelBuilder("covariance")
    i, j, k, l, m = kb.axis("i", d), kb.axis("j", d), kb.axis("n@mean", n), kb.axis("n@sum", n), kb.axis("m", d)
    x = kb.input("x", (n, d), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / n))
    total = kb.sum("total", (i, j), l, (x[l, i] - mean[i]) * (x[l, j] - mean[j]))
    kb.store("y", float32, (d, d), (i, j), total[i, j] * (1.0 / (n - 1)))
    return kb.build()


def row_moments(m: int = 2048, n: int = 1000) -> Kernel:
    """Mean, deviation, skewness and excess kurtosis of every row."""
    kb = KernelBuilder("row_moments")
    i, j, c = kb.axis("m", m), kb.axis("n@mean", n), kb.axis("n@about", n)
    x = kb.input("x", (m, n), float32)
    mean = kb.sum("mean", (i,), j, x[i, j] * (1.0 / n))
    off = x[i, c] - mean[i]
    second = kb.sum("second", (i,), c, off * off * (1.0 / n))
    third = kb.sum("third", (i,), c, off * off * off * (1.0 / n))
    fourth = kb.sum("fourth", (i,), c, off * off * off * off * (1.0 / n))
    deviation = sqrt(second[i])
    kb.store("average", float32, (m,), (i,), mean[i])
    kb.store("deviation", float32, (m,), (i,), deviation)
    kb.store("skewness", float32, (m,), (i,), third[i] / (second[i] * deviation))
    kb.store("kurtosis", float32, (m,), (i,), fourth[i] / (second[i] * second[i]) - 3.0)
    return kb.build()


def row_statistics(m: int = 2048, n: int = 2048) -> Kernel:
    """Mean, variance, least and largest element of every row."""
    kb = KernelBuilder("row_statistics")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("mean", "var", "min", "max"))
    x = kb.input("x", (m, n), float32)
    mean = kb.value("mean", (i,), kb.sum("total", (i,), a, x[i, a])[i] * (1.0 / n))
    var = kb.sum("squares", (i,), b, (x[i, b] - mean[i]) * (x[i, b] - mean[i]))
    least, largest = kb.min("least", (i,), c, x[i, c]), kb.max("largest", (i,), d, x[i, d])
    kb.store("means", float32, (m,), (i,), mean[i])
    kb.store("variances", float32, (m,), (i,), var[i] * (1.0 / n))
    kb.store("minima", float32, (m,), (i,), least[i])
    kb.store("maxima", float32, (m,), (i,), largest[i])
    return kb.build()


def percent_ranks(n: int = 1201) -> Kernel:
    """What share of all scores lies below each, equal ones by half."""
    kb = KernelBuilder("percent_ranks")
    i, j, k = kb.axis("n", n), kb.axis("n@less", n), kb.axis("n@same", n)
    x = kb.input("x", (n,), int16, range=(0, 1000))
    less = kb.sum("less", (i,), j, cast(x[j] < x[i], int32))
    same = kb.sum("same", (i,), k, cast(x[k].eq(x[i]), int32))
    kb.store("y", float32, (n,), (i,), cast(2 * less[i] + same[i], float32) * (0.5 / n))
    return kb.build()


def gini_of_rows(m: int = 12, n: int = 301) -> Kernel:
    """The Gini index of each row: the mean of all absolute differences over twice the mean."""
    kb = KernelBuilder("gini_of_rows")
    r, i, j, k = kb.axis("m", m), kb.axis("n@i", n), kb.axis("n@j", n), kb.axis("n@sum", n)
    x = kb.input("x", (m, n), float64, range=(0.1, 5.0))
    apart = kb.sum("apart", (r,), (i, j), absolute(x[r, i] - x[r, j]))
    total = kb.sum("total", (r,), k, x[r, k])
    kb.store("y", float64, (m,), (r,), apart[r] / (2.0 * n * total[r]))
    return kb.build()


def below_edges(n: int = 6000, q: int = 19, c: int = 12) -> Kernel:
    """How many numbers of each column lie below each of the column's edges, as for quantile sketches."""
    kb = KernelBuilder("below_edges")
    j, e, i = kb.axis("c", c), kb.axis("q", q), kb.axis("n", n)
    x, edge = kb.input("x", (n, c), float32), kb.input("edge", (q, c), float32)
    many = kb.sum("many", (e, j), i, cast(x[i, j] < edge[e, j], int32))
    kb.store("y", int32, (q, c), (e, j), many[e, j])
    return kb.build()


def rolling_zscore(s: int = 40, n: int = 1500, w: int = 20) -> Kernel:
    """How many deviations each number of a series lies from the mean of the last w, by running sums."""
    kb = KernelBuilder("rolling_zscore")
    i, t, o = kb.axis("s", s), kb.axis("n", n), kb.axis("out", n - w)
    x = kb.input("x", (s, n), float64)
    one = kb.scan("add", "one", (i, t), t, x[i, t])
    two = kb.scan("add", "two", (i, t), t, x[i, t] * x[i, t])
    mean = (one[i, o + w] - one[i, o]) * (1.0 / w)
    var = (two[i, o + w] - two[i, o]) * (1.0 / w) - mean * mean
    kb.store("y", float64, (s, n - w), (i, o), (x[i, o + w] - mean) / sqrt(maximum(var, 1e-12)))
    return kb.build()


def zscores_by_group(n: int = 20000, g: int = 10) -> Kernel:
    """Each number less the mean of its group, over the group's deviation: sums under a mask, then a gather."""
    kb = KernelBuilder("zscores_by_group")
    i, c = kb.axis("n", n), kb.axis("g", g)
    a, b, d = kb.axis("n@count", n), kb.axis("n@sum", n), kb.axis("n@square", n)
    x, key = kb.input("x", (n,), float32), kb.input("key", (n,), int32, range=(0, g - 1))
    count = kb.sum("count", (c,), a, where(key[a].eq(cast(c, int32)), 1.0, 0.0))
    one = kb.sum("one", (c,), b, where(key[b].eq(cast(c, int32)), x[b], 0.0))
    two = kb.sum("two", (c,), d, where(key[d].eq(cast(c, int32)), x[d] * x[d], 0.0))
    at = cast(key[i], int64)
    mean = one[at] / count[at]
    kb.store("z", float32, (n,), (i,), (x[i] - mean) / sqrt(two[at] / count[at] - mean * mean + 1e-6))
    return kb.build()


def bootstrap_means(b: int = 200, n: int = 700) -> Kernel:
    """The mean of each of b resamples of a sample, and its standard error."""
    kb = KernelBuilder("bootstrap_means")
    i, j, k = kb.axis("b", b), kb.axis("n@mean", n), kb.axis("n@square", n)
    x, at = kb.input("x", (n,), float64), kb.input("at", (b, n), int32, range=(0, n - 1))
    one = kb.sum("one", (i,), j, x[cast(at[i, j], int64)])
    mean = kb.value("mean_of", (i,), one[i] * (1.0 / n))
    two = kb.sum("two", (i,), k, (x[cast(at[i, k], int64)] - mean[i]) ** 2)
    kb.store("mean", float64, (b,), (i,), mean[i])
    kb.store("error", float64, (b,), (i,), sqrt(two[i] * (1.0 / (n - 1) / n)))
    return kb.build()


def pearson_against(n: int = 500, m: int = 777) -> Kernel:
    """The correlation of each column with a target."""
    kb = KernelBuilder("pearson_against")
    j, p, q, r = kb.axis("m", m), kb.axis("n@mean", n), kb.axis("n@cross", n), kb.axis("n@spread", n)
    o, u = kb.axis("n@target", n), kb.axis("n@targets", n)
    x, t = kb.input("x", (n, m), float64), kb.input("t", (n,), float64)
    mean = kb.sum("mean", (j,), p, x[p, j])
    middle = kb.sum("middle", (), o, t[o])
    cross = kb.sum("cross", (j,), q, (x[q, j] - mean[j] * (1.0 / n)) * (t[q] - middle[()] * (1.0 / n)))
    spread = kb.sum("spread", (j,), r, (x[r, j] - mean[j] * (1.0 / n)) ** 2)
    wide = kb.sum("wide", (), u, (t[u] - middle[()] * (1.0 / n)) ** 2)
    kb.store("y", float64, (m,), (j,), cross[j] / sqrt(spread[j] * wide[()]))
    return kb.build()


def table_information(b: int = 1201, r: int = 7, c: int = 9) -> Kernel:
    """The mutual information of rows and columns of many contingency tables of counts, in float64."""
    kb = KernelBuilder("table_information")
    i, (p, q, u, v) = kb.axis("b", b), (kb.axis(f"r@{k}", r) for k in ("all", "column", "row", "out"))
    (pc, qc, uc, vc) = (kb.axis(f"c@{k}", c) for k in ("all", "column", "row", "out"))
    x = kb.input("x", (b, r, c), int32, range=(1, 200))
    total = kb.sum("total", (i,), (p, pc), x[i, p, pc])
    column, row = kb.sum("column", (i, qc), q, x[i, q, qc]), kb.sum("row", (i, u), uc, x[i, u, uc])

    def real(a: Any) -> Any:
        return cast(a, float64)

    n, k = real(total[i]), real(x[i, v, vc])
    info = kb.sum("info", (i,), (v, vc), k / n * log(k * n / (real(row[i, v]) * real(column[i, vc]))))
    kb.store("y", float64, (b,), (i,), info[i])
    return kb.build()


def crps_ensemble(n: int = 7553, m: int = 51) -> Kernel:
    """How good forecasts of m members are (their distance to what came, less half of that among them); how often what came has each rank."""
    kb = KernelBuilder("crps_ensemble")
    i, a, b, c, d = kb.axis("n", n), kb.axis("m@far", m), kb.axis("m@one", m), kb.axis("m@other", m), kb.axis("m@below", m)
    x, y = kb.input("x", (n, m), float32), kb.input("y", (n,), float32)
    far = kb.sum("far", (i,), a, absolute(x[i, a] - y[i]))
    apart = kb.sum("apart", (i,), (b, c), where(c > b, absolute(x[i, b] - x[i, c]), 0.0))
    rank = kb.sum("rank", (i,), d, x[i, d] < y[i])
    kb.store("score", float32, (n,), (i,), far[i] * (1 / m) - apart[i] * (1 / m**2))
    kb.store("ranks", int32, (m + 1,), (i,), 1, (rank[i],), combine="add")
    return kb.build()


def logistic_normal_equations(n: int = 20_011, d: int = 17) -> Kernel:
    """What a step of logistic regression by Newton's method solves: the columns' weighted products, the gradient, and the likelihood."""
    kb = KernelBuilder("logistic_normal_equations")
    i, c, p, q = kb.axis("n", n), kb.axis("d@dot", d), kb.axis("d@p", d), kb.axis("d@q", d)
    a, b, e, r = kb.axis("n@h", n), kb.axis("n@g", n), kb.axis("n@l", n), kb.axis("d@r", d)
    x, w = kb.input("x", (n, d), float64), kb.input("w", (d,), float64, range=(-0.5, 0.5))
    y = kb.input("y", (n,), int8, range=(0, 1))
    eta = kb.sum("eta", (i,), c, x[i, c] * w[c])
    mu = kb.value("mu", (i,), 1.0 / (exp(-eta[i]) + 1.0))
    h = kb.sum("h", (p, q), a, mu[a] * (1.0 - mu[a]) * x[a, p] * x[a, q])
    g = kb.sum("g", (r,), b, (cast(y[b], float64) - mu[b]) * x[b, r])
    size = absolute(eta[e])
    l = kb.sum("l", (), e, cast(y[e], float64) * eta[e] - (eta[e] + size) * 0.5 - log1p(exp(-size)))
    kb.store("hessian", float64, (d, d), (p, q), h[p, q])
    kb.store("gradient", float64, (d,), (r,), g[r])
    kb.store("likely", float64, (1,), (), l[()], (0,))
    return kb.build()


def column_standardise(n: int = 4096, c: int = 512) -> Kernel:
    """Each column with its mean taken off, over its deviation, as a table is prepared for learning."""
    kb = KernelBuilder("column_standardise")
    j, (a, b, d) = kb.axis("c", c), (kb.axis(f"n@{site}", n) for site in ("mean", "square", "out"))
    x = kb.input("x", (n, c), float32)
    mean = kb.sum("mean", (j,), a, x[a, j] * (1.0 / n))
    square = kb.sum("square", (j,), b, (x[b, j] - mean[j]) * (x[b, j] - mean[j]) * (1.0 / n))
    kb.store("y", float32, (n, c), (d, j), (x[d, j] - mean[j]) / sqrt(square[j] + 1e-5))
    return kb.build()


def any_or_all(m: int = 1500, n: int = 301) -> Kernel:
    """Of each row, whether any number is beyond a limit, and whether all are above another, as 1 and 0."""
    kb = KernelBuilder("any_or_all")
    i, p, q = kb.axis("m", m), kb.axis("n@any", n), kb.axis("n@all", n)
    x = kb.input("x", (m, n), float32)
    some, every = kb.max("some", (i,), p, x[i, p] > 3.0), kb.min("every", (i,), q, x[i, q] > -2.5)
    kb.store("any", uint8, (m,), (i,), some[i])
    kb.store("all", uint8, (m,), (i,), every[i])
    return kb.build()


def gathered_lse(b: int = 2048, v: int = 8192, l: int = 512) -> Kernel:
    """log of the sum of exponentials of some chosen scores of each row."""
    kb = KernelBuilder("gathered_lse")
    i, k, m = kb.axis("b", b), kb.axis("l@max", l), kb.axis("l@sum", l)
    x, at = kb.input("x", (b, v), float32), kb.input("at", (b, l), int32, range=(0, v - 1))
    top = kb.max("top", (i,), k, x[i, at[i, k]])
    total = kb.sum("total", (i,), m, exp(x[i, at[i, m]] - top[i]))
    kb.store("y", float32, (b,), (i,), top[i] + log(total[i]))
    return kb.build()


def assign_and_count(n: int = 65536, k: int = 48, d: int = 8) -> Kernel:
    """The nearest of k centres for every point, by squared differences, and how many points each centre has."""
    kb = KernelBuilder("assign_and_count")
    i, c, c2, e = kb.axis("n", n), kb.axis("k@least", k), kb.axis("k@at", k), kb.axis("d", d)
    x, centre = kb.input("x", (n, d), float32), kb.input("centre", (k, d), float32)
    far = kb.sum("far", (i, c), e, (x[i, e] - centre[c, e]) * (x[i, e] - centre[c, e]))
    least = kb.min("least", (i,), c, far[i, c])
    at = kb.min("at", (i,), c2, where(far[i, c2].eq(least[i]), cast(c2, int32), k - 1))
    kb.store("label", int32, (n,), (i,), at[i])
    kb.store("count", int32, (k,), (i,), cast(at[i] >= 0, int32), indices=(at[i],), combine="add")
    return kb.build()


def kmeans(n: int = 16384, k: int = 128, d: int = 64) -> Kernel:
    """The nearest of k centres for every point, by products: |c|² − 2·x·c is least where |x − c| is."""
    kb = KernelBuilder("kmeans")
    i, c, c2 = kb.axis("n", n), kb.axis("k@least", k), kb.axis("k@at", k)
    e, e2 = kb.axis("d@dot", d), kb.axis("d@norm", d)
    x, centre = kb.input("x", (n, d), float32), kb.input("centre", (k, d), float32)
    kc = kb.axis("k@norm", k)
    norm = kb.sum("norm", (kc,), e2, centre[kc, e2] * centre[kc, e2])
    dot = kb.sum("dot", (i, c), e, x[i, e] * centre[c, e])
    far = kb.value("far", (i, c), norm[c] - 2.0 * dot[i, c])
    least = kb.min("least", (i,), c, far[i, c])
    at = kb.min("at", (i,), c2, where(far[i, c2].eq(least[i]), cast(c2, int32), k))
    kb.store("y", int32, (n,), (i,), at[i])
    return kb.build()


def pairwise_l1(m: int = 768, n: int = 768, d: int = 128) -> Kernel:
    """Sums of absolute differences of two sets of vectors."""
    kb = KernelBuilder("pairwise_l1")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("d", d)
    a, b = kb.input("a", (m, d), float32), kb.input("b", (n, d), float32)
    total = kb.sum("total", (i, j), k, absolute(a[i, k] - b[j, k]))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


def ewma_covariance(b: int = 512, t: int = 2048) -> Kernel:
    """The covariance of two series so far, the past fading by six percent a day: means and products fade alike."""
    kb = KernelBuilder("ewma_covariance")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x, y = kb.input("x", (b, t), float32), kb.input("y", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, ...]:
        return before[0] * after[0], *(p * after[0] + q for p, q in zip(before[1:], after[1:], strict=True))

    parts = (x[i, j] * 0.0 + 0.94, 0.06 * x[i, j], 0.06 * y[i, j], 0.06 * x[i, j] * y[i, j])
    _, mx, my, mxy = kb.associative_scan(("f", "mx", "my", "mxy"), (i, j), j, parts, (1.0, 0.0, 0.0, 0.0), rule)
    kb.store("cov", float32, (b, t), (i, j), mxy[i, j] - mx[i, j] * my[i, j])
    return kb.build()
