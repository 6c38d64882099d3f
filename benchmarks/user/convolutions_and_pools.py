"""Convolutions, pooling, and what follows them in a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float32, int8, int32, int64, maximum, minimum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "grouped_conv": ("convolution", {"g": 2, "c": 3, "o": 4, "h": 5, "w": 7}),
    "conv1d_last": ("convolution", {"t": 7, "i": 5, "o": 9, "k": 3}),
    "pool_with_places": ("pooling", {"c": 3, "h": 5, "w": 7}),
    "mean_pool_bytes": ("pooling", {"h": 3, "w": 5, "c": 7}),
    "bn_upsample": ("layouts", {"c": 3, "h": 5, "w": 7}),
    "requantise_shift": ("quantised layers", {"m": 5, "c": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def grouped_conv(g: int = 8, c: int = 6, o: int = 6, h: int = 28, w: int = 37) -> Kernel:
    """A 3 × 3 convolution of stride 2 in groups of channels, with a bias and ReLU."""
    kb = KernelBuilder("grouped_conv")
    e, f, i, j = kb.axis("g", g), kb.axis("o", o), kb.axis("h", h), kb.axis("w", w)
    l, p, q = kb.axis("c", c), kb.axis("p", 3), kb.axis("q", 3)
    x = kb.input("x", (g, c, 2 * h + 1, 2 * w + 1), float32)
    weight, bias = kb.input("weight", (g, o, c, 3, 3), float32), kb.input("bias", (g, o), float32)
    acc = kb.sum("acc", (e, f, i, j), (l, p, q), x[e, l, 2 * i + p, 2 * j + q] * weight[e, f, l, p, q])
    kb.store("y", float32, (g, o, h, w), (e, f, i, j), maximum(acc[e, f, i, j] + bias[e, f], 0.0))
    return kb.build()


C["grouped_conv"] = """
void kernel(const float (*restrict x)[C][2 * H + 1][2 * W + 1], const float (*restrict weight)[O][C][3][3],
            const float (*restrict bias)[O], float (*restrict y)[O][H][W]) {
#pragma omp parallel for collapse(2)
  for (int e = 0; e < G; e++)
    for (int f = 0; f < O; f++)
      for (int i = 0; i < H; i++) {
        float row[W];
        for (int j = 0; j < W; j++) row[j] = bias[e][f];
        for (int l = 0; l < C; l++)
          for (int p = 0; p < 3; p++)
            for (int j = 0; j < W; j++)
              row[j] += x[e][l][2 * i + p][2 * j] * weight[e][f][l][p][0] + x[e][l][2 * i + p][2 * j + 1] * weight[e][f][l][p][1] +
                        x[e][l][2 * i + p][2 * j + 2] * weight[e][f][l][p][2];
        for (int j = 0; j < W; j++) y[e][f][i][j] = row[j] > 0 ? row[j] : 0;
      }
}
"""


def grouped_conv_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A tap at a time."""
    import numpy as np

    a, wt, h, w = x["x"].astype(np.float64), x["weight"].astype(np.float64), s["h"], s["w"]
    y = np.zeros((s["g"], s["o"], h, w)) + x["bias"][:, :, None, None]
    for p, q in np.ndindex(3, 3):
        y += np.einsum("gchw,goc->gohw", a[:, :, p : p + 2 * h : 2, q : q + 2 * w : 2], wt[:, :, :, p, q])
    return {"y": np.maximum(y, 0)}


def conv1d_last(t: int = 300, i: int = 40, o: int = 44, k: int = 5) -> Kernel:
    """A convolution along time whose channels come last, with a bias and ReLU."""
    kb = KernelBuilder("conv1d_last")
    a, b, c, d = kb.axis("t", t), kb.axis("o", o), kb.axis("k", k), kb.axis("i", i)
    x, w = kb.input("x", (t + k - 1, i), float32), kb.input("w", (k, i, o), float32)
    bias = kb.input("bias", (o,), float32)
    acc = kb.sum("acc", (a, b), (c, d), x[a + c, d] * w[c, d, b])
    kb.store("y", float32, (t, o), (a, b), maximum(acc[a, b] + bias[b], 0.0))
    return kb.build()


C["conv1d_last"] = """
void kernel(const float (*restrict x)[I], const float (*restrict w)[I][O], const float *restrict bias, float (*restrict y)[O]) {
#pragma omp parallel for
  for (int a = 0; a < T; a++) {
    float row[O];
    for (int b = 0; b < O; b++) row[b] = bias[b];
    for (int c = 0; c < K; c++)
      for (int d = 0; d < I; d++)
        for (int b = 0; b < O; b++) row[b] += x[a + c][d] * w[c][d][b];
    for (int b = 0; b < O; b++) y[a][b] = row[b] > 0 ? row[b] : 0;
  }
}
"""


def conv1d_last_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A tap at a time."""
    import numpy as np

    a, w = x["x"].astype(np.float64), x["w"].astype(np.float64)
    return {"y": np.maximum(sum(a[c : c + s["t"]] @ w[c] for c in range(s["k"])) + x["bias"], 0)}


def pool_with_places(c: int = 16, h: int = 55, w: int = 57) -> Kernel:
    """The greatest of 3 × 3 at a stride of 2, and which of the nine it was: the first of equals."""
    kb = KernelBuilder("pool_with_places")
    l, i, j = kb.axis("c", c), kb.axis("h", h), kb.axis("w", w)
    p, q, p2, q2 = kb.axis("p@max", 3), kb.axis("q@max", 3), kb.axis("p@at", 3), kb.axis("q@at", 3)
    x = kb.input("x", (c, 2 * h + 1, 2 * w + 1), float32)
    top = kb.max("top", (l, i, j), (p, q), x[l, 2 * i + p, 2 * j + q])
    same = x[l, 2 * i + p2, 2 * j + q2].eq(top[l, i, j])
    at = kb.min("at", (l, i, j), (p2, q2), where(same, cast(3 * p2 + q2, int32), 8))
    kb.store("y", float32, (c, h, w), (l, i, j), top[l, i, j])
    kb.store("place", uint8, (c, h, w), (l, i, j), cast(at[l, i, j], uint8))
    return kb.build()


C["pool_with_places"] = """
void kernel(const float (*restrict x)[2 * H + 1][2 * W + 1], float (*restrict y)[H][W], unsigned char (*restrict place)[H][W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) {
        float top = x[l][2 * i][2 * j];
        int at = 0;
        for (int p = 0; p < 3; p++)
          for (int q = 0; q < 3; q++) {
            float v = x[l][2 * i + p][2 * j + q];
            at = v > top ? 3 * p + q : at;
            top = v > top ? v : top;
          }
        y[l][i][j] = top;
        place[l][i][j] = at;
      }
}
"""


def pool_with_places_numpy(x: Arrays, s: Sizes) -> Arrays:
    """argmax over nine shifted views."""
    import numpy as np

    h, w = s["h"], s["w"]
    taps = np.stack([x["x"][:, p : p + 2 * h : 2, q : q + 2 * w : 2] for p in range(3) for q in range(3)])
    return {"y": taps.max(axis=0), "place": taps.argmax(axis=0).astype(np.uint8)}


def mean_pool_bytes(h: int = 80, w: int = 83, c: int = 48) -> Kernel:
    """The rounded mean of 2 × 2 int8 values, channels last."""
    kb = KernelBuilder("mean_pool_bytes")
    i, j, l = kb.axis("h", h), kb.axis("w", w), kb.axis("c", c)
    p, q = kb.axis("p", 2), kb.axis("q", 2)
    x = kb.input("x", (2 * h, 2 * w, c), int8)
    total = kb.sum("total", (i, j, l), (p, q), cast(x[2 * i + p, 2 * j + q, l], int32))
    kb.store("y", int8, (h, w, c), (i, j, l), cast((total[i, j, l] + 2) >> 2, int8))
    return kb.build()


C["mean_pool_bytes"] = """
void kernel(const signed char (*restrict x)[2 * W][C], signed char (*restrict y)[W][C]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int l = 0; l < C; l++)
        y[i][j][l] = (x[2 * i][2 * j][l] + x[2 * i][2 * j + 1][l] + x[2 * i + 1][2 * j][l] + x[2 * i + 1][2 * j + 1][l] + 2) >> 2;
}
"""


def mean_pool_bytes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int32."""
    import numpy as np

    total = x["x"].astype(np.int32).reshape(s["h"], 2, s["w"], 2, s["c"]).sum(axis=(1, 3))
    return {"y": ((total + 2) >> 2).astype(np.int8)}


def bn_upsample(c: int = 60, h: int = 45, w: int = 51) -> Kernel:
    """Batch norm as inference has it, leaky ReLU, and each pixel four times."""
    kb = KernelBuilder("bn_upsample")
    l, i, j = kb.axis("c", c), kb.axis("h", 2 * h), kb.axis("w", 2 * w)
    x = kb.input("x", (c, h, w), float32)
    g, b, mean = (kb.input(k, (c,), float32) for k in ("g", "b", "mean"))
    var = kb.input("var", (c,), float32, range=(0.1, 2.0))
    v = (x[l, i // 2, j // 2] - mean[l]) * (g[l] / (var[l] + 1e-5) ** 0.5) + b[l]
    kb.store("y", float32, (c, 2 * h, 2 * w), (l, i, j), maximum(v, 0.1 * v))
    return kb.build()


C["bn_upsample"] = """
#include <math.h>
void kernel(const float (*restrict x)[H][W], const float *restrict g, const float *restrict b, const float *restrict mean,
            const float *restrict var, float (*restrict y)[2 * H][2 * W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++) {
    float scale = g[l] / sqrtf(var[l] + 1e-5f), shift = b[l] - mean[l] * scale;
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) {
        float v = x[l][i][j] * scale + shift;
        v = v > 0.1f * v ? v : 0.1f * v;
        y[l][2 * i][2 * j] = y[l][2 * i][2 * j + 1] = y[l][2 * i + 1][2 * j] = y[l][2 * i + 1][2 * j + 1] = v;
      }
  }
}
"""


def bn_upsample_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, g, b, m, v = (x[k].astype(np.float64) for k in ("x", "g", "b", "mean", "var"))
    y = (a - m[:, None, None]) * (g / np.sqrt(v + 1e-5))[:, None, None] + b[:, None, None]
    return {"y": np.maximum(y, 0.1 * y).repeat(2, axis=1).repeat(2, axis=2)}


def requantise_shift(m: int = 2500, c: int = 96) -> Kernel:
    """int32 sums to int8, as integer-only inference does it: a multiplier of 31 bits and a shift for each channel."""
    kb = KernelBuilder("requantise_shift")
    i, j = kb.axis("m", m), kb.axis("c", c)
    acc = kb.input("acc", (m, c), int32, range=(-(1 << 20), 1 << 20))
    by = kb.input("by", (c,), int32, range=(1 << 30, (1 << 31) - 1))
    shift = kb.input("shift", (c,), int32, range=(8, 14))
    high = (cast(acc[i, j], int64) * cast(by[j], int64) + (1 << 30)) >> 31
    low = cast(high, int32)
    v = ((low + (cast(1, int32) << (shift[j] - 1))) >> shift[j]) - 3
    kb.store("y", int8, (m, c), (i, j), cast(minimum(maximum(v, -128), 127), int8))
    return kb.build()


C["requantise_shift"] = """
static void row(const int *restrict acc, const int *restrict by, const int *restrict shift, signed char *restrict y) {
  for (int j = 0; j < C; j++) {
    int low = ((long long)acc[j] * by[j] + (1 << 30)) >> 31;
    int v = ((low + (1 << (shift[j] - 1))) >> shift[j]) - 3;
    y[j] = v < -128 ? -128 : v > 127 ? 127 : v;
  }
}
void kernel(const int (*restrict acc)[C], const int *restrict by, const int *restrict shift, signed char (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(acc[i], by, shift, y[i]);
}
"""


def requantise_shift_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int64."""
    import numpy as np

    low = (x["acc"].astype(np.int64) * x["by"] + (1 << 30)) >> 31
    k = x["shift"].astype(np.int64)
    return {"y": np.clip(((low + (1 << (k - 1))) >> k) - 3, -128, 127).astype(np.int8)}
