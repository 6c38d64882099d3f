"""The rest of the fourth set (games_and_graphs.py): layers of models, volumes, and centres that are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, sqrt, uint8, where
from tilewright.ir.functions import exp, log
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "column_lse": ("row statistics", {"n": 19, "c": 21}),
    "masked_softmax": ("row statistics", {"m": 5, "n": 37}),
    "rms_rotary": ("pairs", {"s": 5, "d": 22}),
    "depthwise3d": ("convolution", {"c": 3, "d": 4, "h": 5, "w": 21}),
    "assign_and_count": ("products of computed operands", {"n": 19, "k": 7, "d": 5}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def column_lse(n: int = 2048, c: int = 1024) -> Kernel:
    """log Σ exp down the columns."""
    kb = KernelBuilder("column_lse")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@sum", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    total = kb.sum("total", (j,), b, exp(x[b, j] - top[j]))
    kb.store("y", float32, (c,), (j,), top[j] + log(total[j]))
    return kb.build()


C["column_lse"] = """
#include <math.h>
void kernel(const float (*restrict x)[C], float *restrict y) {
  float top[C], total[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], total[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++) top[j] = x[i][j] > top[j] ? x[i][j] : top[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) total[j] += expf(x[i][j] - top[j]);
  for (int j = 0; j < C; j++) y[j] = top[j] + logf(total[j]);
}
"""


def column_lse_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype(np.float64)
    top = a.max(axis=0)
    return {"y": top + np.log(np.exp(a - top).sum(axis=0))}


def masked_softmax(m: int = 1024, n: int = 2048) -> Kernel:
    """Softmax at a temperature of 0.8 of what a mask of bytes lets through."""
    kb = KernelBuilder("masked_softmax")
    i = kb.axis("m", m)
    a, b, c = (kb.axis(f"n@{site}", n) for site in ("top", "sum", "out"))
    x, seen = kb.input("x", (m, n), float32), kb.input("seen", (m, n), uint8, range=(0, 1))

    def score(at: Any) -> Any:
        return where(seen[i, at].eq(1), x[i, at] * (1.0 / 0.8), -1e9)

    top = kb.max("top", (i,), a, score(a))
    total = kb.sum("total", (i,), b, exp(score(b) - top[i]))
    kb.store("y", float32, (m, n), (i, c), exp(score(c) - top[i]) / total[i])
    return kb.build()


C["masked_softmax"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], const unsigned char (*restrict seen)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = -INFINITY, total = 0;
    for (int j = 0; j < N; j++) {
      y[i][j] = seen[i][j] ? x[i][j] * (1 / 0.8f) : -1e9f;
      top = y[i][j] > top ? y[i][j] : top;
    }
    for (int j = 0; j < N; j++) {
      y[i][j] = expf(y[i][j] - top);
      total += y[i][j];
    }
    for (int j = 0; j < N; j++) y[i][j] /= total;
  }
}
"""


def masked_softmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = np.where(x["seen"] == 1, x["x"].astype(np.float64) * float(np.float32(1.0 / 0.8)), -1e9)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def rms_rotary(s: int = 4096, d: int = 512) -> Kernel:
    """RMS norm of a token, then its halves turned by an angle that depends on the place."""
    kb = KernelBuilder("rms_rotary")
    i, a, j = kb.axis("s", s), kb.axis("d", d), kb.axis("half", d // 2)
    x, g = kb.input("x", (s, d), float32), kb.input("g", (d,), float32)
    cos, sin = kb.input("cos", (s, d // 2), float32), kb.input("sin", (s, d // 2), float32)
    square = kb.sum("square", (i,), a, x[i, a] * x[i, a])
    scale = 1.0 / sqrt(square[i] * (1.0 / d) + 1e-5)
    left, right = x[i, j] * scale * g[j], x[i, j + d // 2] * scale * g[j + d // 2]
    kb.store("y", float32, (s, 2, d // 2), (i, j), left * cos[i, j] - right * sin[i, j], (i, 0, j))
    kb.store("y", float32, (s, 2, d // 2), (i, j), left * sin[i, j] + right * cos[i, j], (i, 1, j))
    return kb.build()


C["rms_rotary"] = """
#include <math.h>
void kernel(const float (*restrict x)[D], const float *restrict g, const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    float square = 0;
    for (int j = 0; j < D; j++) square += x[i][j] * x[i][j];
    float scale = 1 / sqrtf(square / D + 1e-5f);
    for (int j = 0; j < D / 2; j++) {
      float a = x[i][j] * scale * g[j], b = x[i][j + D / 2] * scale * g[j + D / 2];
      y[i][j] = a * co[i][j] - b * si[i][j];
      y[i][j + D / 2] = a * si[i][j] + b * co[i][j];
    }
  }
}
"""


def rms_rotary_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, half = x["x"].astype(np.float64), s["d"] // 2
    a = a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-5) * x["g"]
    left, right, cos, sin = a[:, :half], a[:, half:], x["cos"], x["sin"]
    return {"y": np.stack([left * cos - right * sin, left * sin + right * cos], axis=1)}


def depthwise3d(c: int = 8, d: int = 24, h: int = 64, w: int = 96) -> Kernel:
    """Each channel of a volume by 3 × 3 × 3 weights of its own."""
    kb = KernelBuilder("depthwise3d")
    l, k, i, j = kb.axis("c", c), kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    p, q, r = (kb.axis(f"d{n}", 3) for n in "zyx")
    x = kb.input("x", (c, d + 2, h + 2, w + 2), float32)
    weight, bias = kb.input("weight", (c, 3, 3, 3), float32), kb.input("bias", (c,), float32)
    total = kb.sum("total", (l, k, i, j), (p, q, r), x[l, k + p, i + q, j + r] * weight[l, p, q, r])
    kb.store("y", float32, (c, d, h, w), (l, k, i, j), total[l, k, i, j] + bias[l])
    return kb.build()


C["depthwise3d"] = """
void kernel(const float (*restrict x)[D + 2][H + 2][W + 2], const float (*restrict weight)[3][3][3],
            const float *restrict bias, float (*restrict y)[D][H][W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int k = 0; k < D; k++)
      for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) {
          float total = bias[l];
          for (int p = 0; p < 3; p++)
            for (int q = 0; q < 3; q++)
              for (int r = 0; r < 3; r++) total += x[l][k + p][i + q][j + r] * weight[l][p][q][r];
          y[l][k][i][j] = total;
        }
}
"""


def depthwise3d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A weight at a time."""
    import numpy as np

    a, d, h, w = x["x"].astype(np.float64), s["d"], s["h"], s["w"]
    y = np.zeros((s["c"], d, h, w)) + x["bias"][:, None, None, None]
    for p, q, r in np.ndindex(3, 3, 3):
        y += a[:, p : p + d, q : q + h, r : r + w] * x["weight"][:, p, q, r][:, None, None, None]
    return {"y": y}


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


C["assign_and_count"] = """
void kernel(const float (*restrict x)[D], const float (*restrict centre)[D], int *restrict label, int *restrict count) {
  for (int c = 0; c < K; c++) count[c] = 0;
#pragma omp parallel for reduction(+ : count[:K])
  for (int i = 0; i < N; i++) {
    float least = 1e30f;
    int at = 0;
    for (int c = 0; c < K; c++) {
      float far = 0;
      for (int e = 0; e < D; e++) far += (x[i][e] - centre[c][e]) * (x[i][e] - centre[c][e]);
      if (far < least) {
        least = far;
        at = c;
      }
    }
    label[i] = at;
    count[at]++;
  }
}
"""


def assign_and_count_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, in which the nearest may differ; argmin takes the first of equals."""
    import numpy as np

    a, c = x["x"].astype(np.float64), x["centre"].astype(np.float64)
    at = ((a[:, None, :] - c[None]) ** 2).sum(axis=-1).argmin(axis=1)
    return {"label": at.astype(np.int32), "count": np.bincount(at, minlength=s["k"]).astype(np.int32)}
