"""Search: distances by tables, scores of words, signatures of documents, and what a ranking learns from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    const,
    exp,
    float32,
    int32,
    int64,
    maximum,
    sign,
    uint8,
    uint32,
    uint64,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "pq_distances": ("gathers", {"q": 2, "n": 29, "m": 3, "d": 5}),
    "lambda_gradients": ("pairs", {"q": 3, "n": 14}),
    "bm25_scores": ("gathers and scatters", {"b": 3, "t": 2, "v": 9, "p": 13, "n": 31}),
    "bin_signatures": ("scatters", {"d": 5, "l": 17, "k": 6}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["pq_distances"] = """
void kernel(const float (*restrict query)[M * D], const float (*restrict book)[256][D], const unsigned char (*restrict code)[M],
            float (*restrict y)[N], float *restrict least) {
  for (int a = 0; a < Q; a++) {
    float table[M][256], best = 3e38f;
    for (int s = 0; s < M; s++)
      for (int c = 0; c < 256; c++) {
        float sum = 0;
        for (int f = 0; f < D; f++) {
          float v = query[a][s * D + f] - book[s][c][f];
          sum += v * v;
        }
        table[s][c] = sum;
      }
#pragma omp parallel for reduction(min : best)
    for (int i = 0; i < N; i++) {
      float sum = 0;
      for (int s = 0; s < M; s++) sum += table[s][code[i][s]];
      y[a][i] = sum;
      best = sum < best ? sum : best;
    }
    least[a] = best;
  }
}
"""


def pq_distances_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Distances from the vectors that the bytes stand for."""
    import numpy as np

    vectors = x["book"].astype(float)[np.arange(s["m"]), x["code"]].reshape(s["n"], -1)
    y = np.stack([((vectors - one) ** 2).sum(axis=1) for one in x["query"].astype(float)])
    return {"y": y, "least": y.min(axis=1)}


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


C["lambda_gradients"] = """
#include <math.h>
static void query(int many, const float *restrict score, const unsigned char *restrict grade, const float *restrict discount,
                  float *restrict slope, float *restrict curve) {
  float gain[N], by[N], ideal = 0;
  for (int i = 0; i < N; i++) slope[i] = curve[i] = 0;
  for (int i = 0; i < many; i++) {
    int rank = 0, best = 0;
    for (int j = 0; j < many; j++) {
      rank += (score[j] > score[i]) | ((score[j] == score[i]) & (j < i));
      best += (grade[j] > grade[i]) | ((grade[j] == grade[i]) & (j < i));
    }
    gain[i] = (1 << grade[i]) - 1, by[i] = discount[rank];
    ideal += gain[i] * discount[best];
  }
  float over = 1 / (ideal > 0.01f ? ideal : 0.01f);
  for (int i = 0; i < many; i++) {
    float s = 0, c = 0;
    for (int j = 0; j < i; j++) {
      float swap = fabsf((gain[i] - gain[j]) * (by[i] - by[j])) * over, up = gain[i] > gain[j] ? 1 : -1;
      float miss = 1 / (1 + expf(up * (score[i] - score[j]))), a = up * miss * swap, b = miss * (1 - miss) * swap;
      slope[j] += a, curve[j] += b, s += a, c += b;
    }
    slope[i] -= s, curve[i] += c;
  }
}
void kernel(const float (*restrict score)[N], const unsigned char (*restrict grade)[N], const int *restrict many,
            const float *restrict discount, float (*restrict slope)[N], float (*restrict curve)[N]) {
#pragma omp parallel for
  for (int g = 0; g < Q; g++) query(many[g], score[g], grade[g], discount, slope[g], curve[g]);
}
"""


def lambda_gradients_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Orders by argsort, and all pairs of a query at once."""
    import numpy as np

    slope, curve = np.zeros((2, s["q"], s["n"]))
    for g, many in enumerate(x["many"]):
        score, grade = x["score"][g, :many].astype(float), x["grade"][g, :many].astype(int)
        gain, discount, by = 2.0**grade - 1, x["discount"].astype(float)[:many], np.empty(many)
        by[np.argsort(-score, kind="stable")] = discount
        ideal = max((-np.sort(-gain) * discount).sum(), 0.01)
        rise = gain[:, None] - gain
        swap, up = abs(rise * (by[:, None] - by)) / ideal, np.sign(rise)
        miss = 1 / (1 + np.exp(up * (score[:, None] - score)))
        slope[g, :many], curve[g, :many] = -(up * miss * swap).sum(axis=1), (miss * (1 - miss) * swap).sum(axis=1)
    return {"slope": slope, "curve": curve}


def bm25_scores(b: int = 50, t: int = 6, v: int = 400, p: int = 1501, n: int = 20011) -> Kernel:
    """BM25 scores of n documents for queries of t words: postings of a word are padded, lengths of documents are bytes into a table."""
    kb = KernelBuilder("bm25_scores")
    i, k, j = kb.axis("b", b), kb.axis("t", t), kb.axis("p", p)
    word = kb.input("word", (b, t), int32, range=(0, v - 1))
    doc, times = kb.input("doc", (v, p), int32, range=(0, n - 1)), kb.input("times", (v, p), uint8, range=(1, 30))
    many, rare = kb.input("many", (v,), int32, range=(0, p)), kb.input("rare", (v,), float32, range=(0.5, 9.0))
    size, norm = kb.input("size", (n,), uint8), kb.input("norm", (256,), float32, range=(0.3, 4.0))
    w = word[i, k]
    at, often = doc[w, j], cast(times[w, j], float32)
    score = rare[w] * 2.2 * often / (often + norm[size[at]])
    kb.store("y", float32, (b, n), (i, k, j), score, (i, cast(at, int64)), combine="add", mask=cast(j, int32) < many[w])
    return kb.build()


C["bm25_scores"] = """
#include <string.h>
void kernel(const int (*restrict word)[T], const int (*restrict doc)[P], const unsigned char (*restrict times)[P],
            const int *restrict many, const float *restrict rare, const unsigned char *restrict size,
            const float *restrict norm, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    memset(y[i], 0, sizeof y[i]);
    for (int k = 0; k < T; k++) {
      int w = word[i][k];
      for (int j = 0; j < many[w]; j++) {
        int at = doc[w][j];
        float often = times[w][j];
        y[i][at] += rare[w] * 2.2f * often / (often + norm[size[at]]);
      }
    }
  }
}
"""


def bm25_scores_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.bincount of one query's postings."""
    import numpy as np

    y, norm = np.zeros((s["b"], s["n"])), x["norm"].astype(float)[x["size"]]
    for i, words in enumerate(x["word"]):
        here = np.arange(s["p"]) < x["many"][words][:, None]
        at, often = x["doc"][words], x["times"][words].astype(float)
        score = x["rare"].astype(float)[words][:, None] * 2.2 * often / (often + norm[at])
        y[i] = np.bincount(at[here], score[here], s["n"])
    return {"y": y}


def bin_signatures(d: int = 2503, l: int = 130, k: int = 40) -> Kernel:
    """Signatures of sets of words by one hash (one-permutation MinHash): the least of what falls into each of k bins, and set sizes."""
    kb = KernelBuilder("bin_signatures")
    i, j = kb.axis("d", d), kb.axis("l", l)
    word, many = kb.input("word", (d, l), uint32, range=(0, 2**32 - 1)), kb.input("many", (d,), int32, range=(1, l))
    mixed = (word[i, j] ^ (word[i, j] >> 16)) * 0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35
    wide = cast(mixed ^ (mixed >> 16), uint64) * k
    at = cast(wide >> 32, int64)
    here = cast(j, int32) < many[i]
    kb.store("y", uint32, (d, k), (i, j), cast(wide, uint32), (i, at), combine="min", mask=here)
    kb.store("seen", uint64, (d,), (i, j), const(1, uint64) << cast(at, uint64), (i,), combine="or", mask=here)
    return kb.build()


C["bin_signatures"] = """
#include <string.h>
void kernel(const unsigned (*restrict word)[L], const int *restrict many, unsigned (*restrict y)[K], unsigned long *restrict seen) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    unsigned long set = 0;
    memset(y[i], 255, sizeof y[i]);
    for (int j = 0; j < many[i]; j++) {
      unsigned h = word[i][j];
      h = (h ^ h >> 16) * 0x85EBCA6Bu;
      h = (h ^ h >> 13) * 0xC2B2AE35u;
      unsigned long wide = (unsigned long)(h ^ h >> 16) * K;
      unsigned at = wide >> 32, rest = wide;
      y[i][at] = rest < y[i][at] ? rest : y[i][at];
      set |= 1ul << at;
    }
    seen[i] = set;
  }
}
"""


def bin_signatures_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.minimum.at."""
    import numpy as np

    h = x["word"].copy()
    for shift, by in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(by)
    wide = (h ^ (h >> np.uint32(16))).astype(np.uint64) * np.uint64(s["k"])
    here = np.arange(s["l"]) < x["many"][:, None]
    rows, at = np.nonzero(here)[0], (wide[here] >> np.uint64(32)).astype(int)
    y, seen = np.full((s["d"], s["k"]), 2**32 - 1, np.uint32), np.zeros(s["d"], np.uint64)
    np.minimum.at(y, (rows, at), wide[here].astype(np.uint32))
    np.bitwise_or.at(seen, rows, np.uint64(1) << at.astype(np.uint64))
    return {"y": y, "seen": seen}
