"""Statistics down the columns of what lies in rows, and extremes of windows that slide, as users write them, with the same loops in C and
NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, sqrt, uint8, where
from tilewright.ir.functions import exp
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "column_softmax": ("columns", {"n": 19, "c": 21}),
    "column_standardise": ("columns", {"n": 19, "c": 21}),
    "column_totals": ("columns", {"n": 19, "c": 21}),
    "window_range": ("sliding windows", {"n": 70, "k": 9}),
    "dilate": ("sliding windows", {"h": 7, "w": 37, "k": 3}),
    "gradient_of_bytes": ("sliding windows", {"h": 5, "w": 37}),
    "column_argmax": ("columns", {"n": 19, "c": 21}),
    "box_mean": ("sliding windows", {"h": 7, "w": 37, "k": 3}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def column_softmax(n: int = 1024, c: int = 1024) -> Kernel:
    """Softmax down the columns."""
    kb = KernelBuilder("column_softmax")
    j, (a, b, d) = kb.axis("c", c), (kb.axis(f"n@{site}", n) for site in ("top", "sum", "out"))
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    total = kb.sum("total", (j,), b, exp(x[b, j] - top[j]))
    kb.store("y", float32, (n, c), (d, j), exp(x[d, j] - top[j]) / total[j])
    return kb.build()


C["column_softmax"] = """
#include <math.h>
void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
  float top[C], total[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], total[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++) top[j] = x[i][j] > top[j] ? x[i][j] : top[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) {
      y[i][j] = expf(x[i][j] - top[j]);
      total[j] += y[i][j];
    }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[i][j] /= total[j];
}
"""


def column_softmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype("float64")
    e = np.exp(a - a.max(axis=0))
    return {"y": e / e.sum(axis=0)}


def column_standardise(n: int = 4096, c: int = 512) -> Kernel:
    """Each column with its mean taken off, over its deviation, as a table is prepared for learning."""
    kb = KernelBuilder("column_standardise")
    j, (a, b, d) = kb.axis("c", c), (kb.axis(f"n@{site}", n) for site in ("mean", "square", "out"))
    x = kb.input("x", (n, c), float32)
    mean = kb.sum("mean", (j,), a, x[a, j] * (1.0 / n))
    square = kb.sum("square", (j,), b, (x[b, j] - mean[j]) * (x[b, j] - mean[j]) * (1.0 / n))
    kb.store("y", float32, (n, c), (d, j), (x[d, j] - mean[j]) / sqrt(square[j] + 1e-5))
    return kb.build()


C["column_standardise"] = """
#include <math.h>
void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
  float mean[C], square[C];
  for (int j = 0; j < C; j++) mean[j] = square[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) mean[j] += x[i][j];
  for (int j = 0; j < C; j++) mean[j] /= N;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) square[j] += (x[i][j] - mean[j]) * (x[i][j] - mean[j]);
  for (int j = 0; j < C; j++) square[j] = 1 / sqrtf(square[j] / N + 1e-5f);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[i][j] = (x[i][j] - mean[j]) * square[j];
}
"""


def column_standardise_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype("float64")
    return {"y": (a - a.mean(axis=0)) / np.sqrt(a.var(axis=0) + 1e-5)}


def column_totals(n: int = 3000, c: int = 1500) -> Kernel:
    """Sums down the columns."""
    kb = KernelBuilder("column_totals")
    j, a = kb.axis("c", c), kb.axis("n", n)
    x = kb.input("x", (n, c), float32)
    total = kb.sum("total", (j,), a, x[a, j])
    kb.store("y", float32, (c,), (j,), total[j])
    return kb.build()


C["column_totals"] = """
void kernel(const float (*restrict x)[C], float *restrict y) {
  for (int j = 0; j < C; j++) y[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[j] += x[i][j];
}
"""


def column_totals_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    return {"y": x["x"].astype("float64").sum(axis=0)}


def window_range(n: int = 1 << 20, k: int = 9) -> Kernel:
    """The largest less the smallest of the next k prices."""
    kb = KernelBuilder("window_range")
    i, a, b = kb.axis("n", n), kb.axis("k@hi", k), kb.axis("k@lo", k)
    x = kb.input("x", (n + k - 1,), float32)
    hi, lo = kb.max("hi", (i,), a, x[i + a]), kb.min("lo", (i,), b, x[i + b])
    kb.store("y", float32, (n,), (i,), hi[i] - lo[i])
    return kb.build()


C["window_range"] = """
void kernel(const float *restrict x, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float hi = x[i], lo = x[i];
    for (int l = 1; l < K; l++) {
      hi = x[i + l] > hi ? x[i + l] : hi;
      lo = x[i + l] < lo ? x[i + l] : lo;
    }
    y[i] = hi - lo;
  }
}
"""


def window_range_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By NumPy's windows."""
    import numpy as np

    w = np.lib.stride_tricks.sliding_window_view(x["x"].astype("float64"), s["k"])
    return {"y": w.max(axis=1) - w.min(axis=1)}


def dilate(h: int = 1024, w: int = 1024, k: int = 5) -> Kernel:
    """The largest of each k × k neighbourhood of an image with its border."""
    kb = KernelBuilder("dilate")
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("p", k), kb.axis("q", k)
    x = kb.input("x", (h + k - 1, w + k - 1), float32)
    top = kb.max("top", (i, j), (a, b), x[i + a, j + b])
    kb.store("y", float32, (h, w), (i, j), top[i, j])
    return kb.build()


C["dilate"] = """
void kernel(const float (*restrict x)[W + K - 1], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float top = x[i][j];
      for (int p = 0; p < K; p++)
        for (int q = 0; q < K; q++) top = x[i + p][j + q] > top ? x[i + p][j + q] : top;
      y[i][j] = top;
    }
}
"""


def dilate_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By NumPy's windows."""
    import numpy as np

    return {"y": np.lib.stride_tricks.sliding_window_view(x["x"], (s["k"], s["k"])).max(axis=(2, 3))}


def gradient_of_bytes(h: int = 1024, w: int = 1024) -> Kernel:
    """The largest less the smallest grey of each 3 × 3 neighbourhood: a picture's edges."""
    kb = KernelBuilder("gradient_of_bytes")
    i, j = kb.axis("h", h), kb.axis("w", w)
    (a, b), (c, d) = ((kb.axis(f"p@{site}", 3), kb.axis(f"q@{site}", 3)) for site in ("hi", "lo"))
    x = kb.input("x", (h + 2, w + 2), uint8)
    hi, lo = kb.max("hi", (i, j), (a, b), x[i + a, j + b]), kb.min("lo", (i, j), (c, d), x[i + c, j + d])
    kb.store("y", uint8, (h, w), (i, j), hi[i, j] - lo[i, j])
    return kb.build()


C["gradient_of_bytes"] = """
void kernel(const unsigned char (*restrict x)[W + 2], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      unsigned char hi = 0, lo = 255;
      for (int p = 0; p < 3; p++)
        for (int q = 0; q < 3; q++) {
          hi = x[i + p][j + q] > hi ? x[i + p][j + q] : hi;
          lo = x[i + p][j + q] < lo ? x[i + p][j + q] : lo;
        }
      y[i][j] = hi - lo;
    }
}
"""


def gradient_of_bytes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By NumPy's windows."""
    import numpy as np

    w = np.lib.stride_tricks.sliding_window_view(x["x"], (3, 3))
    return {"y": w.max(axis=(2, 3)) - w.min(axis=(2, 3))}


def column_argmax(n: int = 2048, c: int = 1000) -> Kernel:
    """Where the largest of each column is."""
    kb = KernelBuilder("column_argmax")
    j, a, b = kb.axis("c", c), kb.axis("n@top", n), kb.axis("n@at", n)
    x = kb.input("x", (n, c), float32)
    top = kb.max("top", (j,), a, x[a, j])
    at = kb.min("at", (j,), b, where(x[b, j].eq(top[j]), cast(b, int32), n))
    kb.store("y", int32, (c,), (j,), at[j])
    return kb.build()


C["column_argmax"] = """
void kernel(const float (*restrict x)[C], int *restrict y) {
  float top[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], y[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++)
      if (x[i][j] > top[j]) top[j] = x[i][j], y[j] = i;
}
"""


def column_argmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """argmax."""
    return {"y": x["x"].argmax(axis=0).astype("int32")}


def box_mean(h: int = 1024, w: int = 1024, k: int = 5) -> Kernel:
    """The mean of each k × k neighbourhood of an image with its border."""
    kb = KernelBuilder("box_mean")
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("p", k), kb.axis("q", k)
    x = kb.input("x", (h + k - 1, w + k - 1), float32)
    total = kb.sum("total", (i, j), (a, b), x[i + a, j + b])
    kb.store("y", float32, (h, w), (i, j), total[i, j] * (1.0 / (k * k)))
    return kb.build()


C["box_mean"] = """
void kernel(const float (*restrict x)[W + K - 1], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float total = 0;
      for (int p = 0; p < K; p++)
        for (int q = 0; q < K; q++) total += x[i + p][j + q];
      y[i][j] = total / (K * K);
    }
}
"""


def box_mean_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By NumPy's windows."""
    import numpy as np

    w = np.lib.stride_tricks.sliding_window_view(x["x"].astype("float64"), (s["k"], s["k"]))
    return {"y": w.mean(axis=(2, 3))}
