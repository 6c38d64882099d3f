"""Layers of networks that gather, scatter or remember (linear attention, convolutions), and tokens guessed ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bool_, cast, exp, float32, floor, int32, int64, maximum, minimum, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "linear_attention": ("attention", {"h": 2, "t": 13, "d": 5, "e": 6}),
    "deformable_conv": ("gathers", {"h": 5, "w": 7, "c": 3, "o": 4}),
    "batchnorm_backward": ("gradients", {"n": 3, "c": 5, "p": 21}),
    "transposed_conv": ("scatter", {"c": 3, "o": 4, "h": 3, "w": 5}),
    "speculative_accept": ("row statistics", {"b": 5, "k": 3, "v": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def linear_attention(h: int = 8, t: int = 257, d: int = 24, e: int = 32) -> Kernel:
    """Causal attention without a softmax: ELU + 1 of queries and keys, and running sums of keys times values."""
    kb = KernelBuilder("linear_attention")
    a, i, j, o, (p, r) = kb.axis("h", h), kb.axis("t", t), kb.axis("d", d), kb.axis("e", e), (kb.axis(f"d@{s}", d) for s in ("up", "low"))
    q, k = kb.input("q", (t, h, d), float32), kb.input("k", (t, h, d), float32)
    v = kb.input("v", (t, h, e), float32)

    def positive(x: Any) -> Any:
        return where(x > 0.0, x + 1.0, exp(x))

    state = kb.scan("add", "state", (a, i, j, o), i, positive(k[i, a, j]) * v[i, a, o])
    keys = kb.scan("add", "keys", (a, i, j), i, positive(k[i, a, j]))
    up = kb.sum("up", (a, i, o), p, positive(q[i, a, p]) * state[a, i, p, o])
    low = kb.sum("low", (a, i), r, positive(q[i, a, r]) * keys[a, i, r])
    kb.store("y", float32, (t, h, e), (i, a, o), up[a, i, o] / low[a, i])
    return kb.build()


C["linear_attention"] = """
#include <math.h>
static float positive(float v) { return v > 0 ? v + 1 : expf(v); }
void kernel(const float (*restrict q)[H][D], const float (*restrict k)[H][D], const float (*restrict v)[H][E], float (*restrict y)[H][E]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float state[D][E] = {0}, keys[D] = {0};
    for (int i = 0; i < T; i++) {
      float up[E] = {0}, low = 0;
      for (int j = 0; j < D; j++) {
        float f = positive(k[i][a][j]), g = positive(q[i][a][j]);
        keys[j] += f;
        low += g * keys[j];
        for (int o = 0; o < E; o++) {
          state[j][o] += f * v[i][a][o];
          up[o] += g * state[j][o];
        }
      }
      for (int o = 0; o < E; o++) y[i][a][o] = up[o] / low;
    }
  }
}
"""


def linear_attention_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs, of which those ahead count nothing."""
    import numpy as np

    q, k = (np.where(a > 0, a + 1, np.exp(np.minimum(a, 0))) for a in (x[n].astype(np.float64) for n in "qk"))
    w = np.tril(np.einsum("ihd,jhd->hij", q, k))
    return {"y": np.einsum("hij,jhe->ihe", w / w.sum(axis=2, keepdims=True), x["v"].astype(np.float64))}


def deformable_conv(h: int = 31, w: int = 43, c: int = 16, o: int = 12) -> Kernel:
    """A 3 × 3 convolution each of whose nine taps reads where an offset of its own says, between pixels; outside is 0."""
    kb = KernelBuilder("deformable_conv")
    i, j, out, k, e = kb.axis("h", h), kb.axis("w", w), kb.axis("o", o), kb.axis("tap", 9), kb.axis("c", c)
    x, weight = kb.input("x", (h, w, c), float32), kb.input("weight", (9, c, o), float32)
    offset, bias = kb.input("offset", (h, w, 9, 2), float32, range=(-2.0, 2.0)), kb.input("bias", (o,), float32)
    t, f = kb.axis("tap@at", 9), kb.axis("c@at", c)
    y = cast(i + t // 3 - 1, float32) + offset[i, j, t, 0]
    z = cast(j + t % 3 - 1, float32) + offset[i, j, t, 1]
    p, q = floor(y), floor(z)
    sample: Any = 0.0
    for dy in range(2):
        for dx in range(2):
            r, s = cast(p, int64) + dy, cast(q, int64) + dx
            inside = (r >= 0) & (r < h) & (s >= 0) & (s < w)
            share = (y - p if dy else 1.0 - (y - p)) * (z - q if dx else 1.0 - (z - q))
            sample = x.masked(inside, r, s, f) * share + sample
    read = kb.value("read", (i, j, t, f), sample)
    total = kb.sum("total", (i, j, out), (k, e), read[i, j, k, e] * weight[k, e, out])
    kb.store("y", float32, (h, w, o), (i, j, out), total[i, j, out] + bias[out])
    return kb.build()


C["deformable_conv"] = """
#include <math.h>
static void corner(const float (*restrict x)[W][C], int r, int s, float share, float *restrict read) {
  if (r < 0 || r >= H || s < 0 || s >= W) return;
  for (int e = 0; e < C; e++) read[e] += share * x[r][s][e];
}
void kernel(const float (*restrict x)[W][C], const float (*restrict weight)[C][O], const float (*restrict offset)[W][9][2],
            const float *restrict bias, float (*restrict y)[W][O]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float sum[O];
      for (int o = 0; o < O; o++) sum[o] = bias[o];
      for (int k = 0; k < 9; k++) {
        float v = i + k / 3 - 1 + offset[i][j][k][0], u = j + k % 3 - 1 + offset[i][j][k][1], read[C] = {0};
        int r = (int)floorf(v), s = (int)floorf(u);
        float a = v - r, b = u - s;
        corner(x, r, s, (1 - a) * (1 - b), read);
        corner(x, r, s + 1, (1 - a) * b, read);
        corner(x, r + 1, s, a * (1 - b), read);
        corner(x, r + 1, s + 1, a * b, read);
        for (int e = 0; e < C; e++)
          for (int o = 0; o < O; o++) sum[o] += read[e] * weight[k][e][o];
      }
      for (int o = 0; o < O; o++) y[i][j][o] = sum[o];
    }
}
"""


def deformable_conv_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Four gathers from a wide padding; places in float32."""
    import numpy as np

    i, j, k = np.ogrid[: s["h"], : s["w"], :9]
    y = (i + k // 3 - 1).astype(np.float32) + x["offset"][..., 0]
    z = (j + k % 3 - 1).astype(np.float32) + x["offset"][..., 1]
    p, q, a = np.floor(y).astype(int), np.floor(z).astype(int), np.pad(x["x"].astype(np.float64), ((4, 4), (4, 4), (0, 0)))
    read = 0
    for dy, dx in np.ndindex(2, 2):
        share = np.abs(1 - dy - (y.astype(np.float64) - p)) * np.abs(1 - dx - (z.astype(np.float64) - q))
        read = read + a[p + dy + 4, q + dx + 4] * share[..., None]
    return {"y": np.einsum("hwkc,kco->hwo", read, x["weight"].astype(np.float64)) + x["bias"]}


def batchnorm_backward(n: int = 16, c: int = 67, p: int = 784) -> Kernel:
    """Gradients of a batch norm that a ReLU follows (whose mask is kept), in what it was given, its scale and its bias."""
    kb = KernelBuilder("batchnorm_backward")
    i, j, k = kb.axis("n", n), kb.axis("c", c), kb.axis("p", p)
    x, dy = kb.input("x", (n, c, p), float32), kb.input("dy", (n, c, p), float32)
    mask, mean = kb.input("mask", (n, c, p), bool_), kb.input("mean", (c,), float32)
    rstd, gamma = kb.input("rstd", (c,), float32, range=(0.5, 2.0)), kb.input("gamma", (c,), float32)
    d = kb.value("d", (i, j, k), where(mask[i, j, k], dy[i, j, k], 0.0))
    hat = kb.value("hat", (i, j, k), (x[i, j, k] - mean[j]) * rstd[j])
    e, f, g, m = kb.axis("n@bias", n), kb.axis("p@bias", p), kb.axis("n@scale", n), kb.axis("p@scale", p)
    bias = kb.sum("bias", (j,), (e, f), d[e, j, f])
    scale = kb.sum("scale", (j,), (g, m), d[g, j, m] * hat[g, j, m])
    dx = gamma[j] * rstd[j] * (d[i, j, k] - (bias[j] + hat[i, j, k] * scale[j]) * (1.0 / (n * p)))
    kb.store("dx", float32, (n, c, p), (i, j, k), dx)
    kb.store("dgamma", float32, (c,), (j,), scale[j])
    kb.store("dbeta", float32, (c,), (j,), bias[j])
    return kb.build()


C["batchnorm_backward"] = """
void kernel(const float (*restrict x)[C][P], const float (*restrict dy)[C][P], const unsigned char (*restrict mask)[C][P],
            const float *restrict mean, const float *restrict rstd, const float *restrict gamma, float (*restrict dx)[C][P],
            float *restrict dgamma, float *restrict dbeta) {
#pragma omp parallel for
  for (int j = 0; j < C; j++) {
    float scale = 0, bias = 0, mu = mean[j], r = rstd[j], g = gamma[j];
    for (int i = 0; i < N; i++)
      for (int k = 0; k < P; k++) {
        float d = mask[i][j][k] ? dy[i][j][k] : 0;
        bias += d;
        scale += d * (x[i][j][k] - mu) * r;
      }
    for (int i = 0; i < N; i++)
#pragma omp simd
      for (int k = 0; k < P; k++) {
        float d = mask[i][j][k] ? dy[i][j][k] : 0;
        dx[i][j][k] = g * r * (d - (bias + (x[i][j][k] - mu) * r * scale) / (N * P));
      }
    dgamma[j] = scale;
    dbeta[j] = bias;
  }
}
"""


def batchnorm_backward_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    mean, rstd, gamma = (x[n].astype(np.float64)[:, None] for n in ("mean", "rstd", "gamma"))
    d, hat = x["dy"].astype(np.float64) * x["mask"], (x["x"] - mean) * rstd
    bias, scale = d.sum(axis=(0, 2)), (d * hat).sum(axis=(0, 2))
    dx = gamma * rstd * (d - (bias[:, None] + hat * scale[:, None]) / (s["n"] * s["p"]))
    return {"dx": dx, "dgamma": scale, "dbeta": bias}


def transposed_conv(c: int = 24, o: int = 12, h: int = 20, w: int = 27) -> Kernel:
    """A transposed 4 × 4 convolution of stride 2: each pixel adds to a square of the picture of twice the size."""
    kb = KernelBuilder("transposed_conv")
    e, k, i, j, p, q = kb.axis("c", c), kb.axis("o", o), kb.axis("h", h), kb.axis("w", w), kb.axis("ky", 4), kb.axis("kx", 4)
    x, weight, bias = kb.input("x", (c, h, w), float32), kb.input("weight", (c, o, 4, 4), float32), kb.input("bias", (o,), float32)
    part = kb.sum("part", (k, i, j, p, q), e, x[e, i, j] * weight[e, k, p, q])
    r, s, shape = 2 * i + p - 1, 2 * j + q - 1, (o, 2 * h, 2 * w)
    inside = (r >= 0) & (r < 2 * h) & (s >= 0) & (s < 2 * w)
    kb.store("y", float32, shape, (k, i, j, p, q), part[k, i, j, p, q], (k, r, s), combine="add", mask=inside)
    g, u, v = kb.axis("o@bias", o), kb.axis("h2", 2 * h), kb.axis("w2", 2 * w)
    kb.store("y", float32, shape, (g, u, v), bias[g], combine="add")
    return kb.build()


C["transposed_conv"] = """
void kernel(const float (*restrict x)[H][W], const float (*restrict weight)[O][4][4], const float *restrict bias,
            float (*restrict y)[2 * H][2 * W]) {
#pragma omp parallel for
  for (int k = 0; k < O; k++) {
    for (int r = 0; r < 2 * H; r++)
      for (int s = 0; s < 2 * W; s++) y[k][r][s] = bias[k];
    for (int e = 0; e < C; e++)
      for (int i = 0; i < H; i++)
        for (int p = 0; p < 4; p++) {
          int r = 2 * i + p - 1;
          if (r < 0 || r >= 2 * H) continue;
          for (int j = 0; j < W; j++)
            for (int q = 0; q < 4; q++) {
              int s = 2 * j + q - 1;
              if (s >= 0 && s < 2 * W) y[k][r][s] += x[e][i][j] * weight[e][k][p][q];
            }
        }
  }
}
"""


def transposed_conv_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Sixteen strided sums in a wider picture."""
    import numpy as np

    h, w = s["h"], s["w"]
    y = np.zeros((s["o"], 2 * h + 2, 2 * w + 2))
    for p, q in np.ndindex(4, 4):
        y[:, p : p + 2 * h : 2, q : q + 2 * w : 2] += np.einsum("chw,co->ohw", x["x"].astype(np.float64), x["weight"][:, :, p, q])
    return {"y": y[:, 1:-1, 1:-1] + x["bias"][:, None, None]}


def speculative_accept(b: int = 29, k: int = 5, v: int = 32003) -> Kernel:
    """How many of a small model's k tokens the large one takes, and what the next is drawn from after the first refused."""
    kb = KernelBuilder("speculative_accept")
    i, j, o, (m, n) = kb.axis("b", b), kb.axis("k", k), kb.axis("v", v), (kb.axis("k@many", k), kb.axis("v@sum", v))
    p, q = (kb.input(name, (b, k, v), float32, range=(0.0, 1.0)) for name in "pq")
    token, u = kb.input("token", (b, k), int32, range=(0, v - 1)), kb.input("u", (b, k), float32, range=(0.0, 1.0))
    taken = kb.scan("min", "taken", (i, j), j, u[i, j] * q[i, j, token[i, j]] <= p[i, j, token[i, j]])
    many = kb.sum("many", (i,), m, taken[i, m])
    at = minimum(many[i], k - 1)
    total = kb.sum("total", (i,), n, maximum(p[i, at, n] - q[i, at, n], 0.0))
    kb.store("accepted", int32, (b,), (i,), many[i])
    kb.store("rest", float32, (b, v), (i, o), maximum(p[i, at, o] - q[i, at, o], 0.0) / total[i])
    return kb.build()


C["speculative_accept"] = """
void kernel(const float (*restrict p)[K][V], const float (*restrict q)[K][V], const int (*restrict token)[K], const float (*restrict u)[K],
            int *restrict accepted, float (*restrict rest)[V]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int many = 0;
    while (many < K && u[i][many] * q[i][many][token[i][many]] <= p[i][many][token[i][many]]) many++;
    int at = many < K ? many : K - 1;
    float total = 0;
    for (int j = 0; j < V; j++) {
      float d = p[i][at][j] - q[i][at][j];
      total += rest[i][j] = d > 0 ? d : 0;
    }
    for (int j = 0; j < V; j++) rest[i][j] /= total;
    accepted[i] = many;
  }
}
"""


def speculative_accept_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The test in float32, what is left in float64."""
    import numpy as np

    i = np.arange(s["b"])
    p, q = (np.take_along_axis(x[n], x["token"][:, :, None], axis=2)[:, :, 0] for n in "pq")
    many = np.logical_and.accumulate(x["u"] * q <= p, axis=1).sum(axis=1)
    at = np.minimum(many, s["k"] - 1)
    rest = np.maximum(x["p"][i, at].astype(np.float64) - x["q"][i, at], 0)
    return {"accepted": many.astype(np.int32), "rest": rest / rest.sum(axis=1, keepdims=True)}
