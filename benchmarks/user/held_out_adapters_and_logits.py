"""Adapters that tenants of a model have, the choice of tokens, and losses of distilling and contrasting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, exp, float32, int32, log, maximum, rsqrt, uint8, uint32, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "tenant_adapters": ("products of three arrays", {"m": 5, "k": 19, "n": 13, "r": 3, "t": 4}),
    "sampler_logprobs": ("row statistics", {"b": 3, "w": 2}),
    "distilled_loss": ("losses", {"m": 7, "v": 23}),
    "supcon_loss": ("losses", {"n": 19, "d": 6, "k": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["tenant_adapters"] = """
typedef unsigned short bf16;
static inline float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
void kernel(const float (*restrict x)[K], const bf16 (*restrict w)[K], const float *restrict bias, const float (*restrict down)[R][K],
            const float (*restrict up)[N][R], const float *restrict strength, const int *restrict who, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float narrow[R];
    int t = who[i];
    for (int c = 0; c < R && t >= 0; c++) {
      narrow[c] = 0;
      for (int a = 0; a < K; a++) narrow[c] += x[i][a] * down[t][c][a];
      narrow[c] *= strength[t];
    }
    for (int o = 0; o < N; o++) {
      float v = 0;
      for (int a = 0; a < K; a++) v += x[i][a] * wide(w[o][a]);
      for (int c = 0; c < R && t >= 0; c++) v += narrow[c] * up[t][o][c];
      y[i][o] = v + bias[o];
    }
  }
}
"""


def tenant_adapters_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The rows of a tenant at a time."""
    import numpy as np

    a = x["x"].astype(np.float64)
    y = a @ x["w"].astype(np.float64).T + x["bias"]
    for t in range(s["t"]):
        rows = x["who"] == t
        y[rows] += x["strength"][t] * (a[rows] @ x["down"][t].T.astype(np.float64)) @ x["up"][t].T
    return {"y": y}


def sampler_logprobs(b: int = 7, w: int = 1001) -> Kernel:
    """Log-probabilities of 32 w tokens, after what was said already is made less likely and what a grammar forbids has none."""
    kb = KernelBuilder("sampler_logprobs")
    v = 32 * w
    i, o, arg_v, top_v, sum_v = kb.axis("b", b), *(kb.axis(f"v@{name}", v) for name in ("out", "arg", "top", "sum"))
    x, said = kb.input("x", (b, v), float32), kb.input("said", (b, v), uint8, range=(0, 3))
    may, heat = kb.input("may", (b, w), uint32, range=(0, 2**32 - 1)), kb.input("heat", (b,), float32, range=(0.5, 1.5))
    again = kb.input("again", (b,), float32, range=(1.0, 1.3))
    once, each = (kb.input(name, (b,), float32, range=(0.0, 0.5)) for name in ("once", "each"))

    def score(j: Any) -> Any:
        many = said[i, j]
        there = many > 0
        z = where(there, where(x[i, j] > 0.0, x[i, j] / again[i], x[i, j] * again[i]), x[i, j])
        z = z - each[i] * cast(many, float32) - where(there, once[i], 0.0)
        bit = (may[i, j // 32] >> cast(j % 32, uint32)) & 1
        return where(bit > 0, z / heat[i], float("-inf"))

    token, most = kb.argmax("best", (i,), arg_v, score(arg_v)), kb.max("most", (i,), top_v, score(top_v))
    total = kb.sum("total", (i,), sum_v, exp(score(sum_v) - most[i]))
    kb.store("y", float32, (b, v), (i, o), score(o) - (most[i] + log(total[i])))
    kb.store("token", int32, (b,), (i,), token[i])
    return kb.build()


C["sampler_logprobs"] = """
#include <math.h>
enum { V = 32 * W };
static int row(const float *restrict x, const unsigned char *restrict said, const unsigned *restrict may, float heat, float again,
               float once, float each, float *restrict y) {
  float most = -INFINITY, total = 0;
  int token = 0;
  for (int j = 0; j < V; j++) {
    float z = x[j];
    if (said[j]) z = (z > 0 ? z / again : z * again) - each * said[j] - once;
    y[j] = may[j / 32] >> j % 32 & 1 ? z / heat : -INFINITY;
  }
  for (int j = 0; j < V; j++)
    if (y[j] > most) most = y[j], token = j;
  for (int j = 0; j < V; j++) total += expf(fmaxf(y[j] - most, -87)); // what is forbidden adds nothing, and is quick
  float lse = most + logf(total);
  for (int j = 0; j < V; j++) y[j] -= lse;
  return token;
}
void kernel(const float (*restrict x)[V], const unsigned char (*restrict said)[V], const unsigned (*restrict may)[W],
            const float *restrict heat, const float *restrict again, const float *restrict once, const float *restrict each,
            float (*restrict y)[V], int *restrict token) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) token[i] = row(x[i], said[i], may[i], heat[i], again[i], once[i], each[i], y[i]);
}
"""


def sampler_logprobs_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.unpackbits, in float64."""
    import numpy as np

    heat, again, once, each = (x[k].astype(np.float64)[:, None] for k in ("heat", "again", "once", "each"))
    z, said = x["x"].astype(np.float64), x["said"]
    z = np.where(said > 0, np.where(z > 0, z / again, z * again), z) - each * said - once * (said > 0)
    may = np.unpackbits(x["may"].view(np.uint8), axis=1, bitorder="little")
    z = np.where(may == 1, z / heat, -np.inf)
    most = z.max(axis=1, keepdims=True)
    lse = most + np.log(np.exp(z - most).sum(axis=1, keepdims=True))
    return {"y": z - lse, "token": z.argmax(axis=1).astype(np.int32)}


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


C["distilled_loss"] = """
#include <math.h>
static float row(const float *restrict x, const float *restrict z, int label, float over, float *restrict dx) {
  float tops = -INFINITY, topt = -INFINITY, cold = 0, warm = 0, given = 0, both = 0, mean = 0, p[V], q[V], r[V];
  for (int j = 0; j < V; j++) {
    tops = x[j] > tops ? x[j] : tops;
    topt = z[j] > topt ? z[j] : topt;
    mean += x[j];
  }
  for (int j = 0; j < V; j++) {
    p[j] = expf(x[j] - tops), q[j] = expf((x[j] - tops) / 2), r[j] = expf((z[j] - topt) / 2);
    cold += p[j], warm += q[j], given += r[j], both += r[j] * (z[j] - x[j]);
  }
  for (int j = 0; j < V; j++) dx[j] = over * (q[j] / warm - r[j] / given + 0.5f * (p[j] / cold - 0.1f / V));
  dx[label] -= 0.45f * over;
  float lack = both / given / 2 - topt / 2 - logf(given) + tops / 2 + logf(warm);
  return 2 * lack + 0.5f * (tops + logf(cold) - 0.9f * x[label] - 0.1f * mean / V);
}
void kernel(const float (*restrict x)[V], const float (*restrict z)[V], const int *restrict label, float (*restrict dx)[V],
            float *restrict loss) {
  int many = 0;
  float total = 0;
  for (int i = 0; i < M; i++) many += label[i] >= 0;
  float over = 1.0f / (many > 1 ? many : 1);
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < M; i++)
    if (label[i] >= 0) total += row(x[i], z[i], label[i], over, dx[i]);
    else for (int j = 0; j < V; j++) dx[i][j] = 0;
  *loss = total * over;
}
"""


def distilled_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Log-softmaxes in float64."""
    import numpy as np

    def logp(a: Any, heat: float) -> Any:
        a = a.astype(np.float64) / heat
        a = a - a.max(axis=1, keepdims=True)
        return a - np.log(np.exp(a).sum(axis=1, keepdims=True))

    there, v = x["label"] >= 0, s["v"]
    cold, warm, given = logp(x["x"], 1), logp(x["x"], 2), logp(x["z"], 2)
    want = np.full(cold.shape, 0.1 / v)
    want[np.arange(s["m"]), x["label"]] += 0.9
    each = 2 * (np.exp(given) * (given - warm)).sum(axis=1) - 0.5 * (want * cold).sum(axis=1)
    many = max(there.sum(), 1)
    dx = (np.exp(warm) - np.exp(given) + 0.5 * (np.exp(cold) - want)) * there[:, None] / many
    return {"dx": dx, "loss": np.array([(each * there).sum() / many])}


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


C["supcon_loss"] = """
#include <math.h>
void kernel(const float (*restrict z)[D], const int *restrict label, float *restrict loss, float *restrict mean) {
  static float u[N][D];
  float sum = 0;
  int counted = 0;
  for (int i = 0; i < N; i++) {
    float size = 1e-6f;
    for (int e = 0; e < D; e++) size += z[i][e] * z[i][e];
    for (int e = 0; e < D; e++) u[i][e] = z[i][e] / sqrtf(size);
  }
#pragma omp parallel for reduction(+ : sum, counted)
  for (int i = 0; i < N; i++) {
    float alike[N], top = -INFINITY, total = 0, near = 0;
    int many = 0;
    for (int j = 0; j < N; j++) {
      float v = 0;
      for (int e = 0; e < D; e++) v += u[i][e] * u[j][e];
      alike[j] = 5 * v;
    }
    alike[i] = -INFINITY;
    for (int j = 0; j < N; j++) top = alike[j] > top ? alike[j] : top;
    for (int j = 0; j < N; j++) total += expf(alike[j] - top);
    for (int j = 0; j < N; j++)
      if (label[i] == label[j] && i != j) near += alike[j], many++;
    loss[i] = many ? top + logf(total) - near / many : 0;
    sum += loss[i], counted += many > 0;
  }
  *mean = sum / (counted > 1 ? counted : 1);
}
"""


def supcon_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A matrix of likenesses, in float64."""
    import numpy as np

    z = x["z"].astype(np.float64)
    z = z / np.sqrt((z * z).sum(axis=1, keepdims=True) + 1e-6)
    alike, other = 5 * z @ z.T, ~np.eye(s["n"], dtype=bool)
    same = (x["label"][:, None] == x["label"]) & other
    lse, many = np.log((np.exp(alike) * other).sum(axis=1)), same.sum(axis=1)
    loss = np.where(many > 0, lse - (alike * same).sum(axis=1) / np.maximum(many, 1), 0)
    return {"loss": loss, "mean": np.array([loss.sum() / max((many > 0).sum(), 1)])}
