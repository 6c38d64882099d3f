"""Models that are no networks: mixtures, topics, trees, and a linear classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, int8, int64, log, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "mixture_responsibilities": ("distances", {"n": 19, "k": 5, "d": 3}),
    "kl_to_topics": ("products of computed operands", {"n": 5, "k": 7, "d": 21}),
    "forest_votes": ("gathers", {"n": 19, "t": 5, "f": 7}),
    "linear_svm_step": ("gradients", {"n": 19, "d": 7}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["mixture_responsibilities"] = """
#include <math.h>
void kernel(const float (*restrict x)[D], const float (*restrict mu)[D], const float (*restrict iv)[D],
            const float *restrict logw, float (*restrict r)[K], float *restrict likelihood) {
  float every = 0;
#pragma omp parallel for reduction(+ : every)
  for (int i = 0; i < N; i++) {
    float score[K], top = -INFINITY, total = 0;
    for (int c = 0; c < K; c++) {
      float far = 0;
      for (int e = 0; e < D; e++) far += (x[i][e] - mu[c][e]) * (x[i][e] - mu[c][e]) * iv[c][e];
      score[c] = logw[c] - 0.5f * far;
      top = score[c] > top ? score[c] : top;
    }
    for (int c = 0; c < K; c++) total += score[c] = expf(score[c] - top);
    for (int c = 0; c < K; c++) r[i][c] = score[c] / total;
    every += top + logf(total);
  }
  likelihood[0] = every;
}
"""


def mixture_responsibilities_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, mu, iv, w = (x[k].astype(np.float64) for k in ("x", "mu", "iv", "logw"))
    score = w - 0.5 * ((a[:, None] - mu) ** 2 * iv).sum(axis=2)
    top = score.max(axis=1, keepdims=True)
    e = np.exp(score - top)
    total = e.sum(axis=1, keepdims=True)
    return {"r": e / total, "likelihood": (top + np.log(total)).sum(keepdims=True)[0]}


def kl_to_topics(n: int = 150, k: int = 50, d: int = 130) -> Kernel:
    """The Kullback-Leibler divergence of each of n distributions to each of k."""
    kb = KernelBuilder("kl_to_topics")
    i, j, e = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    p, q = kb.input("p", (n, d), float32, range=(0.01, 1.0)), kb.input("q", (k, d), float32, range=(0.01, 1.0))
    kl = kb.sum("kl", (i, j), e, p[i, e] * (log(p[i, e]) - log(q[j, e])))
    kb.store("y", float32, (n, k), (i, j), kl[i, j])
    return kb.build()


C["kl_to_topics"] = """
#include <math.h>
static float lq[K][D];
static void row(const float *restrict p, float *restrict y) {
  float own = 0;
  for (int e = 0; e < D; e++) own += p[e] * logf(p[e]);
  for (int j = 0; j < K; j++) {
    float cross = 0;
    for (int e = 0; e < D; e++) cross += p[e] * lq[j][e];
    y[j] = own - cross;
  }
}
void kernel(const float (*restrict p)[D], const float (*restrict q)[D], float (*restrict y)[K]) {
  for (int j = 0; j < K; j++)
    for (int e = 0; e < D; e++) lq[j][e] = logf(q[j][e]);
#pragma omp parallel for
  for (int i = 0; i < N; i++) row(p[i], y[i]);
}
"""


def kl_to_topics_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    p, q = x["p"].astype(np.float64), x["q"].astype(np.float64)
    return {"y": (p * np.log(p)).sum(axis=1)[:, None] - p @ np.log(q).T}


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


C["forest_votes"] = """
void kernel(const float (*restrict x)[F], const unsigned char (*restrict which)[31], const float (*restrict limit)[31],
            const float (*restrict leaf)[32], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int a = 0; a < T; a++) {
      int node = 0;
      for (int depth = 0; depth < 5; depth++) node = 2 * node + 1 + (x[i][which[a][node]] > limit[a][node]);
      total += leaf[a][node - 31];
    }
    y[i] = total / T;
  }
}
"""


def forest_votes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All rows and trees, a question at a time."""
    import numpy as np

    i, a = np.arange(s["n"])[:, None], np.arange(s["t"])[None, :]
    node = np.zeros((s["n"], s["t"]), np.int64)
    for _ in range(5):
        node = 2 * node + 1 + (x["x"][i, x["which"][a, node]] > x["limit"][a, node])
    return {"y": x["leaf"].astype(np.float64)[a, node - 31].mean(axis=1)}


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


C["linear_svm_step"] = """
void kernel(const float (*restrict x)[D], const float *restrict w, const signed char *restrict label, float *restrict new) {
  float grad[D] = {0};
#pragma omp parallel for reduction(+ : grad[:D])
  for (int i = 0; i < N; i++) {
    float dot = 0, sign = 2 * label[i] - 1;
    for (int j = 0; j < D; j++) dot += x[i][j] * w[j];
    if (sign * dot < 1)
      for (int j = 0; j < D; j++) grad[j] += sign * x[i][j];
  }
  for (int j = 0; j < D; j++) new[j] = w[j] * 0.999f + 0.1f / N * grad[j];
}
"""


def linear_svm_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, w, sign = x["x"].astype(np.float64), x["w"].astype(np.float64), 2.0 * x["label"] - 1
    pull = np.where(sign * (a @ w) < 1, sign, 0)
    return {"new": w * 0.999 + 0.1 / s["n"] * (pull @ a)}
