"""Statistics of samples: ranks, inequality, scores by window and by group, counts below edges, and resamples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, float64, int16, int32, int64, maximum, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "percent_ranks": ("all pairs", {"n": 37}),
    "gini_of_rows": ("all pairs", {"m": 3, "n": 21}),
    "below_edges": ("histograms", {"n": 101, "q": 5, "c": 3}),
    "rolling_zscore": ("scans", {"s": 3, "n": 41, "w": 5}),
    "zscores_by_group": ("histograms", {"n": 101, "g": 5}),
    "bootstrap_means": ("gathers", {"b": 5, "n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def percent_ranks(n: int = 1201) -> Kernel:
    """What share of all scores lies below each, equal ones by half."""
    kb = KernelBuilder("percent_ranks")
    i, j, k = kb.axis("n", n), kb.axis("n@less", n), kb.axis("n@same", n)
    x = kb.input("x", (n,), int16, range=(0, 1000))
    less = kb.sum("less", (i,), j, cast(x[j] < x[i], int32))
    same = kb.sum("same", (i,), k, cast(x[k].eq(x[i]), int32))
    kb.store("y", float32, (n,), (i,), cast(2 * less[i] + same[i], float32) * (0.5 / n))
    return kb.build()


C["percent_ranks"] = """
void kernel(const short *restrict x, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int twice = 0;
    for (int j = 0; j < N; j++) twice += (x[j] < x[i]) + (x[j] <= x[i]);
    y[i] = twice * (0.5f / N);
  }
}
"""


def percent_ranks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Searches in what is sorted."""
    import numpy as np

    o = np.sort(x["x"])
    return {"y": (np.searchsorted(o, x["x"]) + np.searchsorted(o, x["x"], "right")) * 0.5 / s["n"]}


def gini_of_rows(m: int = 12, n: int = 301) -> Kernel:
    """The Gini index of each row: the mean of all absolute differences over twice the mean."""
    kb = KernelBuilder("gini_of_rows")
    r, i, j, k = kb.axis("m", m), kb.axis("n@i", n), kb.axis("n@j", n), kb.axis("n@sum", n)
    x = kb.input("x", (m, n), float64, range=(0.1, 5.0))
    apart = kb.sum("apart", (r,), (i, j), absolute(x[r, i] - x[r, j]))
    total = kb.sum("total", (r,), k, x[r, k])
    kb.store("y", float64, (m,), (r,), apart[r] / (2.0 * n * total[r]))
    return kb.build()


C["gini_of_rows"] = """
#include <math.h>
void kernel(const double (*restrict x)[N], double *restrict y) {
#pragma omp parallel for
  for (int r = 0; r < M; r++) {
    double apart = 0, total = 0;
    for (int i = 0; i < N; i++) {
      total += x[r][i];
      for (int j = 0; j < i; j++) apart += fabs(x[r][i] - x[r][j]);
    }
    y[r] = apart / (N * total);
  }
}
"""


def gini_of_rows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All differences."""
    import numpy as np

    a = x["x"]
    return {"y": np.abs(a[:, :, None] - a[:, None, :]).sum(axis=(1, 2)) / (2 * s["n"] * a.sum(axis=1))}


def below_edges(n: int = 6000, q: int = 19, c: int = 12) -> Kernel:
    """How many numbers of each column lie below each of the column's edges, as for quantile sketches."""
    kb = KernelBuilder("below_edges")
    j, e, i = kb.axis("c", c), kb.axis("q", q), kb.axis("n", n)
    x, edge = kb.input("x", (n, c), float32), kb.input("edge", (q, c), float32)
    many = kb.sum("many", (e, j), i, cast(x[i, j] < edge[e, j], int32))
    kb.store("y", int32, (q, c), (e, j), many[e, j])
    return kb.build()


C["below_edges"] = """
void kernel(const float (*restrict x)[C], const float (*restrict edge)[C], int (*restrict y)[C]) {
#pragma omp parallel for
  for (int e = 0; e < Q; e++) {
    int many[C] = {0};
    for (int i = 0; i < N; i++)
      for (int j = 0; j < C; j++) many[j] += x[i][j] < edge[e][j];
    for (int j = 0; j < C; j++) y[e][j] = many[j];
  }
}
"""


def below_edges_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All comparisons."""
    import numpy as np

    return {"y": np.stack([(x["x"] < row).sum(axis=0) for row in x["edge"]]).astype(np.int32)}


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


C["rolling_zscore"] = """
#include <math.h>
void kernel(const double (*restrict x)[N], double (*restrict y)[N - W]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    double one = 0, two = 0;
    for (int t = 0; t < W; t++) {
      one += x[i][t];
      two += x[i][t] * x[i][t];
    }
    for (int t = 0; t < N - W; t++) {
      double in = x[i][t + W], out = x[i][t];
      one += in - out;
      two += in * in - out * out;
      double mean = one / W, var = two / W - mean * mean;
      y[i][t] = (in - mean) / sqrt(var > 1e-12 ? var : 1e-12);
    }
  }
}
"""


def rolling_zscore_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Views of windows."""
    import numpy as np

    v = np.lib.stride_tricks.sliding_window_view(x["x"], s["w"], axis=1)[:, 1:]
    mean = v.mean(axis=2)
    return {"y": (x["x"][:, s["w"] :] - mean) / np.sqrt(np.maximum(v.var(axis=2), 1e-12))}


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


C["zscores_by_group"] = """
#include <math.h>
void kernel(const float *restrict x, const int *restrict key, float *restrict z) {
  float count[G] = {0}, one[G] = {0}, two[G] = {0}, scale[G];
#pragma omp parallel for reduction(+ : count[:G], one[:G], two[:G])
  for (int i = 0; i < N; i++) {
    count[key[i]]++;
    one[key[i]] += x[i];
    two[key[i]] += x[i] * x[i];
  }
  for (int c = 0; c < G; c++) {
    one[c] /= count[c];
    scale[c] = 1 / sqrtf(two[c] / count[c] - one[c] * one[c] + 1e-6f);
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) z[i] = (x[i] - one[key[i]]) * scale[key[i]];
}
"""


def zscores_by_group_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    v, k, g = x["x"].astype(np.float64), x["key"], s["g"]
    count = np.bincount(k, minlength=g)
    mean = np.bincount(k, v, g) / count
    return {"z": (v - mean[k]) / np.sqrt((np.bincount(k, v * v, g) / count - mean**2)[k] + 1e-6)}


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


C["bootstrap_means"] = """
#include <math.h>
void kernel(const double *restrict x, const int (*restrict at)[N], double *restrict mean, double *restrict error) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double picked[N], one = 0, two = 0;
    for (int j = 0; j < N; j++) one += picked[j] = x[at[i][j]];
    one /= N;
    for (int j = 0; j < N; j++) two += (picked[j] - one) * (picked[j] - one);
    mean[i] = one;
    error[i] = sqrt(two / (N - 1) / N);
  }
}
"""


def bootstrap_means_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A gather."""
    import numpy as np

    v = x["x"][x["at"]]
    return {"mean": v.mean(axis=1), "error": v.std(axis=1, ddof=1) / np.sqrt(s["n"])}
