"""Language models as they are served: states of heads, pages of a cache, norms and turns of queries and keys, mixed experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, exp, float16, float32, int32, log1p, rsqrt, sigmoid, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "headed_states": ("scans", {"t": 11, "h": 2, "p": 3, "n": 5}),
    "paged_query": ("attention", {"b": 2, "g": 2, "r": 3, "d": 8, "pages": 3, "page": 4, "blocks": 7}),
    "qk_norm_rope": ("row statistics", {"s": 5, "q": 3, "k": 2, "d": 12, "r": 8}),
    "combined_experts": ("gathers", {"n": 13, "rows": 9, "d": 7}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["headed_states"] = """
#include <math.h>
#include <string.h>
void kernel(const float (*restrict x)[H][P], const float (*restrict z)[H][P], const float (*restrict raw)[H],
            const float *restrict bias, const float *restrict rate, const float *restrict skip, const float (*restrict gain)[N],
            const float (*restrict read)[N], const float (*restrict start)[P][N], float (*restrict y)[H][P],
            float (*restrict last)[P][N]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float state[P][N];
    memcpy(state, start[a], sizeof state);
    for (int i = 0; i < T; i++) {
      float step = log1pf(expf(raw[i][a] + bias[a])), fade = expf(-step * rate[a]);
      for (int c = 0; c < P; c++) {
        float in = step * x[i][a][c], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int k = 0; k < N; k++) {
          state[c][k] = state[c][k] * fade + in * gain[i][k];
          sum += state[c][k] * read[i][k];
        }
        float g = z[i][a][c];
        y[i][a][c] = (sum + skip[a] * x[i][a][c]) * g / (1 + expf(-g));
      }
    }
    memcpy(last[a], state, sizeof state);
  }
}
"""


def headed_states_numpy(x: Arrays, s: Sizes) -> Arrays:
    """One step after the other, all heads at once."""
    import numpy as np

    v = {name: a.astype(float) for name, a in x.items()}
    step = np.log1p(np.exp(v["raw"] + v["bias"]))
    fade, state, y = np.exp(-step * v["rate"]), v["start"], np.empty(x["x"].shape)
    for i in range(s["t"]):
        state = fade[i, :, None, None] * state + (step[i, :, None] * v["x"][i])[..., None] * v["gain"][i]
        y[i] = state @ v["read"][i]
    return {"y": (y + v["skip"][:, None] * v["x"]) * v["z"] / (1 + np.exp(-v["z"])), "last": state}


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


C["paged_query"] = """
#include <math.h>
static float dot(const float *restrict a, const float *restrict b) {
  float sum = 0;
  for (int f = 0; f < D; f++) sum += a[f] * b[f];
  return sum;
}
void kernel(const float (*restrict q)[G][R][D], const _Float16 (*restrict key)[PAGE][G][D],
            const _Float16 (*restrict value)[PAGE][G][D], const int (*restrict table)[PAGES], const int *restrict length,
            float (*restrict y)[G][R][D]) {
#pragma omp parallel for collapse(2)
  for (int i = 0; i < B; i++)
    for (int a = 0; a < G; a++) {
      float p[R][PAGES * PAGE], wide[D], most[R], total[R] = {0}, out[R][D] = {0};
      int n = length[i];
      for (int e = 0; e < R; e++) most[e] = -INFINITY;
      for (int j = 0; j < n; j++) {
        for (int f = 0; f < D; f++) wide[f] = key[table[i][j / PAGE]][j % PAGE][a][f];
        for (int e = 0; e < R; e++) {
          p[e][j] = dot(q[i][a][e], wide) / sqrtf(D);
          most[e] = p[e][j] > most[e] ? p[e][j] : most[e];
        }
      }
      for (int e = 0; e < R; e++)
        for (int j = 0; j < n; j++) total[e] += p[e][j] = expf(p[e][j] - most[e]);
      for (int j = 0; j < n; j++) {
        for (int f = 0; f < D; f++) wide[f] = value[table[i][j / PAGE]][j % PAGE][a][f];
        for (int e = 0; e < R; e++)
          for (int f = 0; f < D; f++) out[e][f] += p[e][j] * wide[f];
      }
      for (int e = 0; e < R; e++)
        for (int f = 0; f < D; f++) y[i][a][e][f] = out[e][f] / total[e];
    }
}
"""


def paged_query_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The pages of a sequence gathered, and einsum."""
    import numpy as np

    y = np.empty(x["q"].shape)
    for i, n in enumerate(x["length"]):
        key, value = (x[c].astype(float)[x["table"][i]].reshape(-1, s["g"], s["d"])[:n] for c in ("key", "value"))
        score = np.einsum("grd,tgd->grt", x["q"][i], key) / np.sqrt(s["d"])
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        y[i] = np.einsum("grt,tgd->grd", p / p.sum(axis=-1, keepdims=True), value)
    return {"y": y}


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


C["qk_norm_rope"] = """
#include <math.h>
static void head(const _Float16 *restrict x, const float *restrict w, const float *restrict cosine, const float *restrict sine,
                 _Float16 *restrict y) {
  float sum = 0, v[D];
  for (int c = 0; c < D; c++) v[c] = x[c];
  for (int c = 0; c < D; c++) sum += v[c] * v[c];
  float over = 1 / sqrtf(sum / D + 1e-6f);
  for (int c = 0; c < D; c++) v[c] *= over * w[c];
  for (int c = 0; c < R / 2; c++) {
    float a = v[c], b = v[c + R / 2];
    v[c] = a * cosine[c] - b * sine[c], v[c + R / 2] = b * cosine[c] + a * sine[c];
  }
  for (int c = 0; c < D; c++) y[c] = v[c];
}
void kernel(const _Float16 (*restrict x)[Q + 2 * K][D], const int *restrict place, const float (*restrict cosine)[R / 2],
            const float (*restrict sine)[R / 2], const float *restrict weight_q, const float *restrict weight_k,
            _Float16 (*restrict q_out)[Q][D], _Float16 (*restrict k_out)[K][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    const float *c = cosine[place[i]], *s = sine[place[i]];
    for (int a = 0; a < Q; a++) head(x[i][a], weight_q, c, s, q_out[i][a]);
    for (int a = 0; a < K; a++) head(x[i][Q + a], weight_k, c, s, k_out[i][a]);
  }
}
"""


def qk_norm_rope_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Complex numbers turn the pairs."""
    import numpy as np

    q, k, half, out = s["q"], s["k"], s["r"] // 2, {}
    turn = (x["cosine"] + 1j * x["sine"].astype(float))[x["place"]][:, None]
    for name, part in (("q", x["x"][:, :q]), ("k", x["x"][:, q : q + k])):
        v = part.astype(float)
        v = v / np.sqrt((v * v).mean(axis=-1, keepdims=True) + 1e-6) * x[f"weight_{name}"]
        z = (v[..., :half] + 1j * v[..., half : 2 * half]) * turn
        out[f"{name}_out"] = np.concatenate([z.real, z.imag, v[..., 2 * half :]], axis=-1)
    return out


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


C["combined_experts"] = """
typedef unsigned short half;
static float wide(half v) {
  union { unsigned u; float f; } a = {.u = (unsigned)v << 16};
  return a.f;
}
static half narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static void token(const half *restrict rest, const half *restrict p, const half *restrict q, float a, float b, half *restrict y) {
  for (int o = 0; o < D; o++) y[o] = narrow(wide(rest[o]) + a * wide(p[o]) + b * wide(q[o]));
}
void kernel(const half (*restrict rest)[D], const half (*restrict given)[D], const int (*restrict at)[2],
            const float (*restrict share)[2], half (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int p = at[i][0], q = at[i][1];
    float a = p < 0 ? 0 : share[i][0], b = q < 0 ? 0 : share[i][1], over = a + b > 0 ? 1 / (a + b) : 0;
    token(rest[i], given[p < 0 ? 0 : p], given[q < 0 ? 0 : q], a * over, b * over, y[i]);
  }
}
"""


def combined_experts_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Gathered rows, and einsum."""
    import numpy as np

    share = np.where(x["at"] >= 0, x["share"].astype(float), 0)
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-9)
    return {"y": x["rest"].astype(float) + np.einsum("nk,nkd->nd", share, x["given"].astype(float)[x["at"]])}
