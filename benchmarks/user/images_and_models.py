"""A third set, of which nobody had named a kernel before: images, dynamics, moments, gathers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32
from tilewright.ir.functions import exp, sqrt
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "bilateral": ("filters with weights by data", {"h": 5, "w": 21}),
    "lorenz96": ("chain of stencils", {"n": 5, "k": 12}),
    "row_moments": ("row statistics", {"m": 5, "n": 37}),
    "haar2d": ("wavelets", {"h": 6, "w": 22}),
    "ell_matvec": ("gathers and scatters", {"m": 37, "l": 5, "n": 50}),
    "viterbi_step": ("products in other semirings", {"b": 7, "p": 9, "s": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def bilateral(h: int = 768, w: int = 768) -> Kernel:
    """Means of 5 × 5 neighbours that look alike: weights fall with the distance and with the difference. Padded by two."""
    kb = KernelBuilder("bilateral")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("p", 5), kb.axis("q", 5)
    p2, q2 = kb.axis("p@sum", 5), kb.axis("q@sum", 5)
    x, near = kb.input("x", (h + 4, w + 4), float32, range=(0, 1)), kb.input("near", (5, 5), float32, range=(0, 1))
    c = x[i + 2, j + 2]

    def weight(a: Any, b: Any) -> Any:
        d = x[i + a, j + b] - c
        return near[a, b] * exp(d * d * -12.5)

    total = kb.sum("total", (i, j), (p, q), weight(p, q))
    mixed = kb.sum("mixed", (i, j), (p2, q2), weight(p2, q2) * x[i + p2, j + q2])
    kb.store("y", float32, (h, w), (i, j), mixed[i, j] / (total[i, j] + 1e-6))
    return kb.build()


C["bilateral"] = """
#include <math.h>
void kernel(const float (*restrict x)[W + 4], const float (*restrict near)[5], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float c = x[i + 2][j + 2], total = 0, mixed = 0;
      for (int p = 0; p < 5; p++)
        for (int q = 0; q < 5; q++) {
          float v = x[i + p][j + q], d = v - c, weight = near[p][q] * expf(d * d * -12.5f);
          total += weight;
          mixed += weight * v;
        }
      y[i][j] = mixed / (total + 1e-6f);
    }
}
"""


def bilateral_numpy(x: Arrays, s: Sizes) -> Arrays:
    """One of 25 shifts after the other."""
    import numpy as np

    a, near, h, w = x["x"].astype(np.float64), x["near"].astype(np.float64), s["h"], s["w"]
    c, total, mixed = a[2 : h + 2, 2 : w + 2], 0.0, 0.0
    for p in range(5):
        for q in range(5):
            v = a[p : p + h, q : q + w]
            weight = near[p, q] * np.exp((v - c) ** 2 * -12.5)
            total, mixed = total + weight, mixed + weight * v
    return {"y": mixed / (total + 1e-6)}


def lorenz96(n: int = 16384, k: int = 40) -> Kernel:
    """A midpoint step of many systems of Lorenz's model of 1996: dx_k = (x_(k+1) − x_(k−2)) x_(k−1) − x_k + 8, in a ring."""
    kb = KernelBuilder("lorenz96")
    i, j, m = kb.axis("n", n), kb.axis("k", k), kb.axis("k@mid", k)
    x = kb.input("x", (n, k), float32)

    def rate(v: Any, at: Any) -> Any:
        return (v[i, (at + 1) % k] - v[i, (at + k - 2) % k]) * v[i, (at + k - 1) % k] - v[i, at] + 8.0

    mid = kb.value("mid", (i, m), x[i, m] + 0.005 * rate(x, m))
    kb.store("y", float32, (n, k), (i, j), x[i, j] + 0.01 * rate(mid, j))
    return kb.build()


C["lorenz96"] = """
void kernel(const float (*restrict x)[K], float (*restrict y)[K]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float ring[K + 3], mid[K + 3];
    ring[0] = x[i][K - 2], ring[1] = x[i][K - 1], ring[K + 2] = x[i][0];
    for (int j = 0; j < K; j++) ring[j + 2] = x[i][j];
    for (int j = 0; j < K; j++)
      mid[j + 2] = ring[j + 2] + 0.005f * ((ring[j + 3] - ring[j]) * ring[j + 1] - ring[j + 2] + 8.0f);
    mid[0] = mid[K], mid[1] = mid[K + 1], mid[K + 2] = mid[2];
    for (int j = 0; j < K; j++)
      y[i][j] = ring[j + 2] + 0.01f * ((mid[j + 3] - mid[j]) * mid[j + 1] - mid[j + 2] + 8.0f);
  }
}
"""


def lorenz96_numpy(x: Arrays, s: Sizes) -> Arrays:
    """With rolled copies."""
    import numpy as np

    def rate(v: Any) -> Any:
        return (np.roll(v, -1, 1) - np.roll(v, 2, 1)) * np.roll(v, 1, 1) - v + 8.0

    a = x["x"].astype(np.float64)
    return {"y": a + 0.01 * rate(a + 0.005 * rate(a))}


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


C["row_moments"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], float *restrict average, float *restrict deviation, float *restrict skewness,
            float *restrict kurtosis) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float mean = 0, second = 0, third = 0, fourth = 0;
    for (int j = 0; j < N; j++) mean += x[i][j];
    mean /= N;
    for (int j = 0; j < N; j++) {
      float d = x[i][j] - mean, dd = d * d;
      second += dd;
      third += dd * d;
      fourth += dd * dd;
    }
    second /= N, third /= N, fourth /= N;
    average[i] = mean;
    deviation[i] = sqrtf(second);
    skewness[i] = third / (second * sqrtf(second));
    kurtosis[i] = fourth / (second * second) - 3;
  }
}
"""


def row_moments_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By powers."""
    a = x["x"].astype("float64")
    mean = a.mean(axis=1)
    second, third, fourth = (((a - mean[:, None]) ** k).mean(axis=1) for k in (2, 3, 4))
    return {"average": mean, "deviation": second**0.5, "skewness": third / second**1.5, "kurtosis": fourth / second**2 - 3}


def haar2d(h: int = 2048, w: int = 2048) -> Kernel:
    """A step of Haar's transform in two dimensions: means and differences of blocks of 2 × 2, in four quarters."""
    kb = KernelBuilder("haar2d")
    i, j = kb.axis("h", h // 2), kb.axis("w", w // 2)
    x = kb.input("x", (h, w), float32)
    a, b, c, d = x[2 * i, 2 * j], x[2 * i, 2 * j + 1], x[2 * i + 1, 2 * j], x[2 * i + 1, 2 * j + 1]
    for name, value in (("ll", a + b + c + d), ("lh", a - b + c - d), ("hl", a + b - c - d), ("hh", a - b - c + d)):
        kb.store(name, float32, (h // 2, w // 2), (i, j), 0.5 * value)
    return kb.build()


C["haar2d"] = """
void kernel(const float (*restrict x)[W], float (*restrict ll)[W / 2], float (*restrict lh)[W / 2],
            float (*restrict hl)[W / 2], float (*restrict hh)[W / 2]) {
#pragma omp parallel for
  for (int i = 0; i < H / 2; i++)
    for (int j = 0; j < W / 2; j++) {
      float a = x[2 * i][2 * j], b = x[2 * i][2 * j + 1], c = x[2 * i + 1][2 * j], d = x[2 * i + 1][2 * j + 1];
      ll[i][j] = 0.5f * (a + b + c + d);
      lh[i][j] = 0.5f * (a - b + c - d);
      hl[i][j] = 0.5f * (a + b - c - d);
      hh[i][j] = 0.5f * (a - b - c + d);
    }
}
"""


def haar2d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Strided views."""
    v = x["x"].astype("float64")
    a, b, c, d = v[::2, ::2], v[::2, 1::2], v[1::2, ::2], v[1::2, 1::2]
    return {"ll": 0.5 * (a + b + c + d), "lh": 0.5 * (a - b + c - d), "hl": 0.5 * (a + b - c - d), "hh": 0.5 * (a - b - c + d)}


def ell_matvec(m: int = 65536, l: int = 16, n: int = 65536) -> Kernel:
    """A sparse matrix times a vector; each row has l entries, which are kept column after column (ELLPACK)."""
    kb = KernelBuilder("ell_matvec")
    i, k = kb.axis("m", m), kb.axis("l", l)
    value, at = kb.input("value", (l, m), float32), kb.input("at", (l, m), int32, range=(0, n - 1))
    x = kb.input("x", (n,), float32)
    total = kb.sum("total", (i,), k, value[k, i] * x[at[k, i]])
    kb.store("y", float32, (m,), (i,), total[i])
    return kb.build()


C["ell_matvec"] = """
void kernel(const float (*restrict value)[M], const int (*restrict at)[M], const float *restrict x, float *restrict y) {
#pragma omp parallel for simd
  for (int i = 0; i < M; i++) {
    float total = 0;
    for (int k = 0; k < L; k++) total += value[k][i] * x[at[k][i]];
    y[i] = total;
  }
}
"""


def ell_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A gather, then a sum."""
    import numpy as np

    return {"y": (x["value"].astype(np.float64) * x["x"][x["at"]]).sum(axis=0)}


def viterbi_step(b: int = 1024, p: int = 96, s: int = 96) -> Kernel:
    """A step of Viterbi's algorithm for many sequences: the best way into every state, and the first state that it is from."""
    kb = KernelBuilder("viterbi_step")
    i, t, r, r2 = kb.axis("b", b), kb.axis("s", s), kb.axis("p@best", p), kb.axis("p@from", p)
    score, move = kb.input("score", (b, p), float32), kb.input("move", (p, s), float32)
    seen = kb.input("seen", (b, s), float32)
    best = kb.max("best", (i, t), r, score[i, r] + move[r, t])
    came = kb.min("came", (i, t), r2, _first((score[i, r2] + move[r2, t]).eq(best[i, t]), r2, p))
    kb.store("next", float32, (b, s), (i, t), best[i, t] + seen[i, t])
    kb.store("back", int32, (b, s), (i, t), came[i, t])
    return kb.build()


def _first(found: Any, at: Any, end: int) -> Any:
    from tilewright.ir import where

    return where(found, cast(at, int32), end)


C["viterbi_step"] = """
void kernel(const float (*restrict score)[P], const float (*restrict move)[S], const float (*restrict seen)[S],
            float (*restrict next)[S], int (*restrict back)[S]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float best[S];
    int from[S];
    for (int t = 0; t < S; t++) best[t] = score[i][0] + move[0][t], from[t] = 0;
    for (int r = 1; r < P; r++)
      for (int t = 0; t < S; t++) {
        float v = score[i][r] + move[r][t];
        from[t] = v > best[t] ? r : from[t];
        best[t] = v > best[t] ? v : best[t];
      }
    for (int t = 0; t < S; t++) next[i][t] = best[t] + seen[i][t], back[i][t] = from[t];
  }
}
"""


def viterbi_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, whose ties count."""
    import numpy as np

    rows = [(row[:, None] + x["move"]) for row in x["score"]]
    return {
        "next": np.stack([r.max(axis=0) for r in rows]) + x["seen"],
        "back": np.stack([r.argmax(axis=0) for r in rows]).astype(np.int32),
    }
