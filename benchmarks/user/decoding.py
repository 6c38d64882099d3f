"""What a language model does for a token: positions, a cache of keys and values, and layers of narrow weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float16, float32, int8, int32, int64, maximum, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "rope_gathered": ("gathers", {"t": 5, "h": 3, "d": 10}),
    "cached_query_int8": ("attention", {"h": 2, "t": 37, "d": 12}),
    "jagged_softmax": ("rows of lengths from data", {"n": 19, "l": 13}),
    "lora_layer": ("products of three arrays", {"m": 5, "k": 19, "n": 21, "r": 4}),
    "half_matvec": ("matrix-vector products", {"m": 7, "n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["rope_gathered"] = """
void kernel(const _Float16 (*restrict x)[H][D], const int *restrict pos, const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], _Float16 (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++)
    for (int a = 0; a < H; a++)
      for (int j = 0; j < D / 2; j++) {
        float left = x[i][a][2 * j], right = x[i][a][2 * j + 1], c = co[pos[i]][j], s = si[pos[i]][j];
        y[i][a][2 * j] = left * c - right * s;
        y[i][a][2 * j + 1] = left * s + right * c;
      }
}
"""


def rope_gathered_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype(np.float64)
    c, n = (x[k].astype(np.float64)[x["pos"]][:, None] for k in ("co", "si"))
    left, right = a[..., ::2], a[..., 1::2]
    return {"y": np.stack([left * c - right * n, left * n + right * c], axis=-1).reshape(a.shape)}


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


C["cached_query_int8"] = """
#include <math.h>
void kernel(const float (*restrict q)[D], const signed char (*restrict k)[H][D], const signed char (*restrict v)[H][D],
            const float (*restrict ks)[H], const float (*restrict vs)[H], const int *restrict length, float (*restrict y)[D]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float score[T], top = -INFINITY, total = 0, mix[D] = {0};
    int many = length[0];
    for (int j = 0; j < many; j++) {
      float dot = 0;
      for (int e = 0; e < D; e++) dot += q[a][e] * k[j][a][e];
      score[j] = dot * ks[j][a] / sqrtf(D);
      top = score[j] > top ? score[j] : top;
    }
    for (int j = 0; j < many; j++) total += score[j] = expf(score[j] - top);
    for (int j = 0; j < many; j++) {
      float s = score[j] * vs[j][a];
      for (int e = 0; e < D; e++) mix[e] += s * v[j][a][e];
    }
    for (int e = 0; e < D; e++) y[a][e] = mix[e] / total;
  }
}
"""


def cached_query_int8_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    n = int(x["length"][0])
    k, v = x["k"][:n].astype(np.float64) * x["ks"][:n, :, None], x["v"][:n].astype(np.float64) * x["vs"][:n, :, None]
    score = np.einsum("hd,thd->ht", x["q"].astype(np.float64), k) * s["d"] ** -0.5
    p = np.exp(score - score.max(axis=1, keepdims=True))
    return {"y": np.einsum("ht,thd->hd", p / p.sum(axis=1, keepdims=True), v)}


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


C["jagged_softmax"] = """
#include <math.h>
void kernel(const float *restrict score, const float *restrict v, const int *restrict start, const int *restrict many,
            float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    const float *x = score + start[i], *z = v + start[i];
    float top = x[0], den = 0, num = 0;
    for (int k = 1; k < many[i]; k++) top = x[k] > top ? x[k] : top;
    for (int k = 0; k < many[i]; k++) {
      float e = expf(x[k] - top);
      den += e;
      num += e * z[k];
    }
    y[i] = num / den;
  }
}
"""


def jagged_softmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A mask over padded rows."""
    import numpy as np

    k = np.arange(s["l"])
    at, there = x["start"][:, None] + k, k[None, :] < x["many"][:, None]
    score = np.where(there, x["score"].astype(np.float64)[at], -np.inf)
    e = np.exp(score - score.max(axis=1, keepdims=True))
    return {"y": (e * x["v"][at]).sum(axis=1) / e.sum(axis=1)}


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


C["lora_layer"] = """
static void row(const float *restrict x, const float (*restrict w)[N], const float (*restrict a)[R], const float (*restrict b)[N],
                float *restrict y) {
  float down[R] = {0};
  for (int l = 0; l < K; l++)
    for (int r = 0; r < R; r++) down[r] += x[l] * a[l][r];
  for (int j = 0; j < N; j++) y[j] = 0;
  for (int r = 0; r < R; r++)
    for (int j = 0; j < N; j++) y[j] += 2 * down[r] * b[r][j];
  for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++) y[j] += x[l] * w[l][j];
}
void kernel(const float (*restrict x)[K], const float (*restrict w)[N], const float (*restrict a)[R],
            const float (*restrict b)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(x[i], w, a, b, y[i]);
}
"""


def lora_layer_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, w, p, q = (x[k].astype(np.float64) for k in "xwab")
    return {"y": a @ w + 2 * (a @ p) @ q}


def half_matvec(m: int = 500, n: int = 1111) -> Kernel:
    """tanh(w · x + b) with float16 weights whose rows are of an odd length."""
    kb = KernelBuilder("half_matvec")
    i, j = kb.axis("m", m), kb.axis("n", n)
    w, x, b = kb.input("w", (m, n), float16), kb.input("x", (n,), float32), kb.input("b", (m,), float16)
    acc = kb.sum("acc", (i,), j, cast(w[i, j], float32) * x[j])
    kb.store("y", float16, (m,), (i,), maximum(acc[i] * 0.05 + cast(b[i], float32), 0.0))
    return kb.build()


C["half_matvec"] = """
void kernel(const _Float16 (*restrict w)[N], const float *restrict x, const _Float16 *restrict b, _Float16 *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float acc = 0;
    for (int j = 0; j < N; j++) acc += (float)w[i][j] * x[j];
    acc = acc * 0.05f + (float)b[i];
    y[i] = acc > 0 ? acc : 0;
  }
}
"""


def half_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    return {"y": np.maximum(x["w"].astype(np.float64) @ x["x"] * 0.05 + x["b"], 0)}
