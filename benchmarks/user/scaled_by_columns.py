"""Matrices scaled by functions of their own columns' sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, float32, float64, int32, log, rsqrt, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "tf_idf": ("rows by columns", {"n": 13, "t": 21}),
    "cosine_matrix": ("rows by columns", {"n": 11, "d": 7}),
    "two_way_scaled_step": ("rows by columns", {"n": 9, "m": 14}),
    "pearson_against": ("rows by columns", {"n": 12, "m": 10}),
    "laplacian_apply": ("rows by columns", {"n": 15}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def tf_idf(n: int = 700, t: int = 1201) -> Kernel:
    """Counts of terms in documents, weighted by how few documents have the term, each document scaled to length 1."""
    kb = KernelBuilder("tf_idf")
    i, j = kb.axis("n", n), kb.axis("t", t)
    d, s = kb.axis("n@df", n), kb.axis("t@norm", t)
    count = kb.input("count", (n, t), float32, range=(0.0, 9.0))
    df = kb.sum("df", (j,), d, where(count[d, j] > 2.0, 1.0, 0.0))
    idf = kb.value("idf", (j,), log((n + 1.0) / (df[j] + 1.0)) + 1.0)
    length = kb.sum("length", (i,), s, (count[i, s] * idf[s]) ** 2)
    kb.store("y", float32, (n, t), (i, j), count[i, j] * idf[j] * rsqrt(length[i] + 1e-12))
    return kb.build()


C["tf_idf"] = """
#include <math.h>
void kernel(const float (*restrict count)[T], float (*restrict y)[T]) {
  float idf[T];
  for (int j = 0; j < T; j++) idf[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < T; j++) idf[j] += count[i][j] > 2.0f;
  for (int j = 0; j < T; j++) idf[j] = logf((N + 1.0f) / (idf[j] + 1.0f)) + 1.0f;
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int j = 0; j < T; j++) {
      float v = count[i][j] * idf[j];
      s += v * v;
    }
    s = 1.0f / sqrtf(s + 1e-12f);
    for (int j = 0; j < T; j++) y[i][j] = count[i][j] * idf[j] * s;
  }
}
"""


def tf_idf_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole matrices."""
    import numpy as np

    c = x["count"]
    y = c * (np.log((s["n"] + 1.0) / ((c > 2.0).sum(axis=0) + 1.0)) + 1.0)
    return {"y": y / np.sqrt((y**2).sum(axis=1, keepdims=True) + 1e-12)}


def cosine_matrix(n: int = 331, d: int = 48) -> Kernel:
    """The cosines between all pairs of rows."""
    kb = KernelBuilder("cosine_matrix")
    i, j, k, l = kb.axis("n", n), kb.axis("n@other", n), kb.axis("d", d), kb.axis("d@norm", d)
    x = kb.input("x", (n, d), float32)
    norm = kb.sum("norm", (i,), l, x[i, l] * x[i, l])
    dot = kb.sum("dot", (i, j), k, x[i, k] * x[j, k])
    kb.store("y", float32, (n, n), (i, j), dot[i, j] * rsqrt(norm[i] + 1e-9) * rsqrt(norm[j] + 1e-9))
    return kb.build()


C["cosine_matrix"] = """
#include <math.h>
void kernel(const float (*restrict x)[D], float (*restrict y)[N]) {
  float r[N];
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int k = 0; k < D; k++) s += x[i][k] * x[i][k];
    r[i] = 1.0f / sqrtf(s + 1e-9f);
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float s = 0;
      for (int k = 0; k < D; k++) s += x[i][k] * x[j][k];
      y[i][j] = s * r[i] * r[j];
    }
}
"""


def cosine_matrix_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A product."""
    import numpy as np

    v = x["x"] / np.sqrt((x["x"] ** 2).sum(axis=1, keepdims=True) + 1e-9)
    return {"y": v @ v.T}


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


C["two_way_scaled_step"] = """
#include <math.h>
void kernel(const float (*restrict w)[M], const float (*restrict g)[M], float (*restrict y)[M]) {
  float row[N], column[M], whole = 0, size = 0;
  for (int j = 0; j < M; j++) column[j] = 0;
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int j = 0; j < M; j++) {
      float v = g[i][j] * g[i][j] + 1e-30f;
      s += v, column[j] += v;
    }
    row[i] = s, whole += s;
  }
  for (int i = 0; i < N; i++) row[i] = 1 / sqrtf(row[i] / whole);
  for (int j = 0; j < M; j++) column[j] = 1 / sqrtf(column[j] * (1.0f / N));
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      float u = g[i][j] * row[i] * column[j];
      size += u * u;
    }
  float limit = size > N * M ? 1 / sqrtf(size / (N * M)) : 1;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) y[i][j] = w[i][j] - 0.01f * g[i][j] * row[i] * column[j] * limit;
}
"""


def two_way_scaled_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole matrices."""
    import numpy as np

    g2 = x["g"] ** 2 + 1e-30
    u = x["g"] / np.sqrt(g2.sum(axis=1, keepdims=True) / g2.sum() * g2.mean(axis=0))
    return {"y": x["w"] - 0.01 * u / max(1.0, np.sqrt((u**2).mean()))}


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


C["pearson_against"] = """
#include <math.h>
void kernel(const double (*restrict x)[M], const double *restrict t, double *restrict y) {
  double mean[M], cross[M], spread[M], middle = 0, wide = 0;
  for (int j = 0; j < M; j++) mean[j] = cross[j] = spread[j] = 0;
  for (int i = 0; i < N; i++) {
    middle += t[i];
    for (int j = 0; j < M; j++) mean[j] += x[i][j];
  }
  middle /= N;
  for (int j = 0; j < M; j++) mean[j] /= N;
  for (int i = 0; i < N; i++) {
    double e = t[i] - middle;
    wide += e * e;
    for (int j = 0; j < M; j++) {
      double d = x[i][j] - mean[j];
      cross[j] += d * e, spread[j] += d * d;
    }
  }
  for (int j = 0; j < M; j++) y[j] = cross[j] / sqrt(spread[j] * wide);
}
"""


def pearson_against_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole columns."""
    import numpy as np

    d, e = x["x"] - x["x"].mean(axis=0), x["t"] - x["t"].mean()
    return {"y": (d * e[:, None]).sum(axis=0) / np.sqrt((d**2).sum(axis=0) * (e**2).sum())}


def laplacian_apply(n: int = 601) -> Kernel:
    """A vector smoothed by a graph's matrix, scaled by the roots of both nodes' degrees; how many neighbours each has."""
    kb = KernelBuilder("laplacian_apply")
    i, d, k, c = kb.axis("n", n), kb.axis("n@degree", n), kb.axis("n@near", n), kb.axis("n@count", n)
    w, v = kb.input("w", (n, n), float64, range=(-1.0, 1.0)), kb.input("v", (n,), float64)
    degree = kb.sum("degree", (i,), d, absolute(w[i, d]))
    near = kb.sum("near", (i,), k, w[i, k] * v[k] * rsqrt(degree[k]))
    many = kb.sum("many", (i,), c, where(w[i, c] > 0.5, 1, 0))
    kb.store("y", float64, (n,), (i,), v[i] - near[i] * rsqrt(degree[i]))
    kb.store("neighbours", int32, (n,), (i,), many[i])
    return kb.build()


C["laplacian_apply"] = """
#include <math.h>
void kernel(const double (*restrict w)[N], const double *restrict v, double *restrict y, int *restrict neighbours) {
  double r[N], u[N];
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double s = 0;
    int many = 0;
    for (int k = 0; k < N; k++) s += fabs(w[i][k]), many += w[i][k] > 0.5;
    r[i] = 1 / sqrt(s), u[i] = v[i] * r[i], neighbours[i] = many;
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double s = 0;
    for (int k = 0; k < N; k++) s += w[i][k] * u[k];
    y[i] = v[i] - s * r[i];
  }
}
"""


def laplacian_apply_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole matrices."""
    import numpy as np

    r = 1 / np.sqrt(np.abs(x["w"]).sum(axis=1))
    return {"y": x["v"] - x["w"] @ (x["v"] * r) * r, "neighbours": (x["w"] > 0.5).sum(axis=1).astype(np.int32)}
