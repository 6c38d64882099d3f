"""Retrieval and recommendation: embeddings, quantised search, ranking, sparse features.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    const,
    exp,
    float16,
    float32,
    int8,
    int32,
    int64,
    maximum,
    popcount,
    rsqrt,
    sign,
    sqrt,
    uint8,
    uint64,
    where,
)


def quantised_bags(n: int = 2503, l: int = 21, d: int = 64, r: int = 30_011) -> Kernel:
    """Weighted sums of the rows of a table that each bag names; a row is bytes, with a scale and a shift of 16 bits of its own."""
    kb = KernelBuilder("quantised_bags")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    table = kb.input("table", (r, d), uint8)
    scale, shift = kb.input("scale", (r,), float16, range=(0.001, 0.01)), kb.input("shift", (r,), float16, range=(-1.0, 0.0))
    at, weight = kb.input("at", (n, l), int32, range=(0, r - 1)), kb.input("weight", (n, l), float32, range=(0.0, 1.0))
    row = at[i, k]
    v = cast(table[row, f], float32) * cast(scale[row], float32) + cast(shift[row], float32)
    kb.store("y", float32, (n, d), (i, f), kb.sum("total", (i, f), k, weight[i, k] * v)[i, f])
    return kb.build()


def weighted_bags(b: int = 16384, l: int = 16, v: int = 50000, d: int = 64) -> Kernel:
    """Weighted sums of a few rows of a table for each of many bags."""
    kb = KernelBuilder("weighted_bags")
    i, k, j = kb.axis("b", b), kb.axis("l", l), kb.axis("d", d)
    table, at = kb.input("table", (v, d), float32), kb.input("at", (b, l), int32, range=(0, v - 1))
    weight = kb.input("weight", (b, l), float32)
    total = kb.sum("total", (i, j), k, weight[i, k] * table[at[i, k], j])
    kb.store("y", float32, (b, d), (i, j), total[i, j])
    return kb.build()


def bags_most(n: int = 8192, l: int = 20, d: int = 48) -> Kernel:
    """The greatest of each feature among the rows of a table that a bag names; empty bags have −1e30."""
    kb = KernelBuilder("bags_most")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    x, many = kb.input("x", (1000, d), float32), kb.input("many", (n,), int32, range=(0, l))
    at = kb.input("at", (n, l), int32, range=(0, 999))
    most = kb.max("most", (i, f), k, where(cast(k, int32) < many[i], x[cast(at[i, k], "int64"), f], float("-inf")))
    kb.store("y", float32, (n, d), (i, f), maximum(most[i, f], -1e30))
    return kb.build()


def bag_gradient(b: int = 1501, l: int = 7, v: int = 3000, d: int = 33) -> Kernel:
    """What a table of vectors gets back from bags of l of its rows, of which each used the mean, in half precision."""
    kb = KernelBuilder("bag_gradient")
    i, j, k = kb.axis("b", b), kb.axis("l", l), kb.axis("d", d)
    grad, ids = kb.input("grad", (b, d), float16), kb.input("ids", (b, l), int32, range=(0, v - 1))
    mine = cast(grad[i, k], float32) * (1.0 / l)
    kb.store("y", float32, (v, d), (i, j, k), mine, (cast(ids[i, j], int64), k), combine="add")
    return kb.build()


def pq_distances(q: int = 3, n: int = 60013, m: int = 12, d: int = 8) -> Kernel:
    """Squared distances of queries from vectors that are m bytes each (product quantisation), by tables made for each query.

    Also the least of each query."""
    kb = KernelBuilder("pq_distances")
    a, i, e, c, f = kb.axis("q", q), kb.axis("n", n), kb.axis("m@table", m), kb.axis("c", 256), kb.axis("d", d)
    s, nearest = kb.axis("m", m), kb.axis("n@least", n)
    query, book = kb.input("query", (q, m * d), float32), kb.input("book", (m, 256, d), float32)
    code = kb.input("code", (n, m), uint8)
    table = kb.sum("table", (a, e, c), f, (query[a, e * d + f] - book[e, c, f]) ** 2)
    far = kb.sum("far", (a, i), s, table[a, s, code[i, s]])
    least = kb.min("close", (a,), nearest, far[a, nearest])
    kb.store("y", float32, (q, n), (a, i), far[a, i])
    kb.store("least", float32, (q,), (a,), least[a])
    return kb.build()


def lambda_gradients(q: int = 130, n: int = 93) -> Kernel:
    """LambdaRank: gradients and curvatures of the scores of documents of q queries, by all pairs and what a swap does to NDCG."""
    kb = KernelBuilder("lambda_gradients")
    g, i = kb.axis("q", q), kb.axis("n", n)
    score, grade = kb.input("score", (q, n), float32), kb.input("grade", (q, n), uint8, range=(0, 4))
    many, discount = kb.input("many", (q,), int32, range=(1, n)), kb.input("discount", (n,), float32, range=(0.1, 1.0))

    def there(k: Any) -> Any:
        return cast(k, int32) < many[g]

    def gain(k: Any) -> Any:
        return cast((const(1, int32) << cast(grade[g, k], int32)) - 1, float32)

    def place(name: str, before: Any) -> Any:
        k, j = kb.axis(f"n@{name}", n), kb.axis(f"n@{name}_by", n)
        return kb.sum(name, (g, k), j, cast(there(j) & before(k, j), int32))

    rank = place("rank", lambda k, j: (score[g, j] > score[g, k]) | (score[g, j].eq(score[g, k]) & (j < k)))
    best = place("best", lambda k, j: (grade[g, j] > grade[g, k]) | (grade[g, j].eq(grade[g, k]) & (j < k)))
    b = kb.axis("n@ideal", n)
    ideal = kb.sum("ideal", (g,), b, where(there(b), gain(b) * discount[best[g, b]], 0.0))
    over = 1.0 / maximum(ideal[g], 0.01)

    def pair(k: Any, j: Any) -> tuple[Any, Any]:
        by = absolute((gain(k) - gain(j)) * (discount[rank[g, k]] - discount[rank[g, j]])) * over
        way = sign(gain(k) - gain(j))
        miss = 1.0 / (1.0 + exp(way * (score[g, k] - score[g, j])))
        both = there(k) & there(j)
        return where(both, way * miss * by, 0.0), where(both, miss * (1.0 - miss) * by, 0.0)

    u, v = kb.axis("n@slope", n), kb.axis("n@curve", n)
    slope, curve = kb.sum("down", (g, i), u, pair(i, u)[0]), kb.sum("bend", (g, i), v, pair(i, v)[1])
    kb.store("slope", float32, (q, n), (g, i), -slope[g, i])
    kb.store("curve", float32, (q, n), (g, i), curve[g, i])
    return kb.build()


def maxsim_bytes(d: int = 500, l: int = 48, q: int = 24, e: int = 96) -> Kernel:
    """Late interaction: for each word of a query its best match in a document of so many words, added up; the best document."""
    kb = KernelBuilder("maxsim_bytes")
    i, j, t, k, b = kb.axis("d", d), kb.axis("q", q), kb.axis("l", l), kb.axis("e", e), kb.axis("d@best", d)
    word, text = kb.input("word", (q, e), int8), kb.input("text", (d, l, e), int8)
    many = kb.input("many", (d,), int32, range=(1, l))
    dot = kb.sum("dot", (i, j, t), k, cast(word[j, k], int32) * cast(text[i, t, k], int32))
    most = kb.max("most", (i, j), t, where(cast(t, int32) < many[i], dot[i, j, t], -(2**31)))
    score = kb.sum("score", (i,), j, most[i, j])
    kb.store("y", int32, (d,), (i,), score[i])
    kb.store("best", int32, (1,), (), kb.argmax("top", (), b, score[b])[()], (0,))
    return kb.build()


def als_equations(u: int = 301, l: int = 50, n: int = 2003, f: int = 24) -> Kernel:
    """The equations of alternating least squares for each user: the matrix of all items plus those of the user's, and the right side."""
    kb = KernelBuilder("als_equations")
    i, p, q, a, b = kb.axis("u", u), kb.axis("f", f), kb.axis("f@column", f), kb.axis("l", l), kb.axis("l@right", l)
    items, every = kb.input("items", (n, f), float32), kb.input("every", (f, f), float32)
    ids, many = kb.input("ids", (u, l), int32, range=(0, n - 1)), kb.input("many", (u,), int32, range=(0, l))
    trust = kb.input("trust", (u, l), float32, range=(0.1, 5.0))

    def item(k: Any, c: Any) -> Any:
        return items[cast(ids[i, k], int64), c]

    own = kb.sum("own", (i, p, q), a, where(cast(a, int32) < many[i], trust[i, a] * item(a, p) * item(a, q), 0.0))
    right = kb.sum("side", (i, p), b, where(cast(b, int32) < many[i], (1.0 + trust[i, b]) * item(b, p), 0.0))
    kb.store("left", float32, (u, f, f), (i, p, q), every[p, q] + own[i, p, q] + where(p.eq(q), 0.1, 0.0))
    kb.store("right", float32, (u, f), (i, p), right[i, p])
    return kb.build()


def jaccard_bits(m: int = 150, n: int = 170, w: int = 16) -> Kernel:
    """The Jaccard similarity of all pairs of fingerprints, of w words of 64 bits."""
    kb = KernelBuilder("jaccard_bits")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("w@and", w), kb.axis("w@or", w)
    a, b = kb.input("a", (m, w), uint64), kb.input("b", (n, w), uint64)
    both = kb.sum("both", (i, j), k, cast(popcount(a[i, k] & b[j, k]), int32))
    any_ = kb.sum("any", (i, j), l, cast(popcount(a[i, l] | b[j, l]), int32))
    kb.store("y", float32, (m, n), (i, j), cast(both[i, j], float32) / cast(maximum(any_[i, j], 1), float32))
    return kb.build()


def click_gradient(n: int = 7001, l: int = 30, r: int = 100_003) -> Kernel:
    """Logistic regression on few of many hashed features: each example's error, the gradient, and how often each feature was there."""
    kb = KernelBuilder("click_gradient")
    i, k, e, c = kb.axis("n", n), kb.axis("l@dot", l), kb.axis("l@add", l), kb.axis("l@count", l)
    w, at = kb.input("w", (r,), float32, range=(-1.0, 1.0)), kb.input("at", (n, l), int32, range=(0, r - 1))
    value, y = kb.input("value", (n, l), float32, range=(0.0, 1.0)), kb.input("y", (n,), int8, range=(0, 1))
    dot = kb.sum("dot", (i,), k, w[at[i, k]] * value[i, k])
    off = kb.value("off", (i,), 1.0 / (exp(-dot[i]) + 1.0) - cast(y[i], float32))
    kb.store("error", float32, (n,), (i,), off[i])
    kb.store("gradient", float32, (r,), (i, e), off[i] * value[i, e], (at[i, e],), combine="add")
    kb.store("times", int32, (r,), (i, c), 1, (at[i, c],), combine="add")
    return kb.build()


def cosine_matrix(n: int = 331, d: int = 48) -> Kernel:
    """The cosines between all pairs of rows."""
    kb = KernelBuilder("cosine_matrix")
    i, j, k, l = kb.axis("n", n), kb.axis("n@other", n), kb.axis("d", d), kb.axis("d@norm", d)
    x = kb.input("x", (n, d), float32)
    norm = kb.sum("norm", (i,), l, x[i, l] * x[i, l])
    dot = kb.sum("dot", (i, j), k, x[i, k] * x[j, k])
    kb.store("y", float32, (n, n), (i, j), dot[i, j] * rsqrt(norm[i] + 1e-9) * rsqrt(norm[j] + 1e-9))
    return kb.build()


def cosine_similarity(m: int = 4096, n: int = 1024) -> Kernel:
    """A dot product and two norms of each pair of rows."""
    kb = KernelBuilder("cosine_similarity")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, y = kb.input("x", (m, n), float32), kb.input("y", (m, n), float32)
    dot = kb.sum("dot", (i,), j, x[i, j] * y[i, j])
    one, other = kb.sum("one", (i,), j, x[i, j] * x[i, j]), kb.sum("other", (i,), j, y[i, j] * y[i, j])
    kb.store("z", float32, (m,), (i,), dot[i] / sqrt(one[i] * other[i] + 1e-8))
    return kb.build()
