"""Layers of networks with channels last, and what databases and samples need: deltas, hash tables, tables of distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    bfloat16,
    cast,
    clip,
    exp,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    minimum,
    round_even,
    rsqrt,
    trunc,
    uint8,
    uint16,
    uint64,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "group_norm_last": ("rows", {"b": 2, "n": 17, "g": 3, "c": 5}),
    "kan_layer": ("gathers", {"b": 5, "i": 7, "o": 11, "g": 9}),
    "depthwise_bytes": ("narrow integers", {"h": 5, "w": 7, "c": 11}),
    "delta_decode": ("scans", {"m": 5, "n": 23}),
    "swiss_probe": ("bit operations", {"n": 101}),
    "double_centred": ("rows and columns", {"n": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def group_norm_last(b: int = 5, n: int = 3127, g: int = 8, c: int = 13) -> Kernel:
    """Group norm and SiLU of bfloat16 pictures whose channels come last: n pixels, g groups of c channels."""
    kb = KernelBuilder("group_norm_last")
    e, f = kb.axis("b", b), kb.axis("g", g)
    (p, l), (p2, l2), (p3, l3) = ((kb.axis(f"n@{s}", n), kb.axis(f"c@{s}", c)) for s in ("mean", "var", "out"))
    x, weight, bias = kb.input("x", (b, n, g, c), bfloat16), kb.input("weight", (g, c), float32), kb.input("bias", (g, c), float32)
    total = kb.sum("total", (e, f), (p, l), cast(x[e, p, f, l], float32))
    mean = kb.value("mean", (e, f), total[e, f] * (1.0 / (n * c)))
    off = cast(x[e, p2, f, l2], float32) - mean[e, f]
    var = kb.sum("var", (e, f), (p2, l2), off * off)
    over = kb.value("over", (e, f), rsqrt(var[e, f] * (1.0 / (n * c)) + 1e-5))
    v = (cast(x[e, p3, f, l3], float32) - mean[e, f]) * over[e, f] * weight[f, l3] + bias[f, l3]
    kb.store("y", bfloat16, (b, n, g, c), (e, p3, f, l3), v / (1.0 + exp(-v)))
    return kb.build()


C["group_norm_last"] = """
#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static void picture(const bf16 (*restrict x)[G * C], const float *restrict weight, const float *restrict bias, bf16 (*restrict y)[G * C]) {
  float one[G * C] = {0}, two[G * C] = {0}, scale[G * C], shift[G * C];
  for (int p = 0; p < N; p++)
    for (int l = 0; l < G * C; l++) {
      float v = wide(x[p][l]);
      one[l] += v, two[l] += v * v;
    }
  for (int f = 0; f < G; f++) {
    float total = 0, squares = 0;
    for (int l = f * C; l < (f + 1) * C; l++) total += one[l], squares += two[l];
    float mean = total / (N * C), over = 1 / sqrtf(squares / (N * C) - mean * mean + 1e-5f);
    for (int l = f * C; l < (f + 1) * C; l++) scale[l] = over * weight[l], shift[l] = bias[l] - mean * scale[l];
  }
  for (int p = 0; p < N; p++)
    for (int l = 0; l < G * C; l++) {
      float v = wide(x[p][l]) * scale[l] + shift[l];
      y[p][l] = narrow(v / (1 + expf(-v)));
    }
}
void kernel(const bf16 (*restrict x)[N][G * C], const float *restrict weight, const float *restrict bias, bf16 (*restrict y)[N][G * C]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) picture(x[e], weight, bias, y[e]);
}
"""


def group_norm_last_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype(np.float64)
    off = a - a.mean(axis=(1, 3), keepdims=True)
    v = off / np.sqrt((off * off).mean(axis=(1, 3), keepdims=True) + 1e-5) * x["weight"] + x["bias"]
    return {"y": v / (1 + np.exp(-v))}


def kan_layer(b: int = 96, i: int = 61, o: int = 52, g: int = 17) -> Kernel:
    """A layer of a Kolmogorov-Arnold network: each edge has a piecewise linear function of g points in half precision."""
    kb = KernelBuilder("kan_layer")
    e, l, m = kb.axis("b", b), kb.axis("i", i), kb.axis("o", o)
    x, table = kb.input("x", (b, i), float32, range=(-1.0, 1.0)), kb.input("table", (i, g, o), float16)
    place = kb.value("place", (e, l), (x[e, l] + 1.0) * (0.5 * (g - 1)))[e, l]
    cell = cast(minimum(trunc(place), g - 2.0), int32)
    part, at = place - cast(cell, float32), cast(clip(cell, 0, g - 2), int64)
    left, right = cast(table[l, at, m], float32), cast(table[l, at + 1, m], float32)
    total = kb.sum("total", (e, m), l, left + part * (right - left))
    kb.store("y", float32, (b, o), (e, m), total[e, m])
    return kb.build()


C["kan_layer"] = """
static float table[I][G][O];
static void row(const float *restrict x, float *restrict y) {
  float total[O];
  for (int m = 0; m < O; m++) total[m] = 0;
  for (int l = 0; l < I; l++) {
    float place = (x[l] + 1) * (0.5f * (G - 1));
    int cell = place < G - 2 ? (int)place : G - 2;
    float part = place - cell;
    const float *left = table[l][cell], *right = table[l][cell + 1];
    for (int m = 0; m < O; m++) total[m] += (1 - part) * left[m] + part * right[m];
  }
  for (int m = 0; m < O; m++) y[m] = total[m];
}
void kernel(const float (*restrict x)[I], const _Float16 (*restrict half)[G][O], float (*restrict y)[O]) {
#pragma omp parallel for
  for (int l = 0; l < I; l++)
    for (int k = 0; k < G; k++)
      for (int m = 0; m < O; m++) table[l][k][m] = half[l][k][m];
#pragma omp parallel for
  for (int e = 0; e < B; e++) row(x[e], y[e]);
}
"""


def kan_layer_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Gathered rows."""
    import numpy as np

    place = (x["x"].astype(np.float64) + 1) * (0.5 * (s["g"] - 1))
    cell = np.clip(place.astype(np.int64), 0, s["g"] - 2)
    part, t, l = (place - cell)[..., None], x["table"].astype(np.float64), np.arange(s["i"])
    return {"y": ((1 - part) * t[l, cell] + part * t[l, cell + 1]).sum(axis=1)}


def depthwise_bytes(h: int = 29, w: int = 31, c: int = 72) -> Kernel:
    """A quantised 3 × 3 convolution of each channel by itself, channels last; outside lies the zero point, 121."""
    kb = KernelBuilder("depthwise_bytes")
    i, j, l, p, q = (kb.axis(a, e) for a, e in (("h", h), ("w", w), ("c", c), ("p", 3), ("q", 3)))
    x, weight = kb.input("x", (h, w, c), uint8), kb.input("weight", (3, 3, c), int8)
    bias, scale = kb.input("bias", (c,), int32, range=(-9999, 9999)), kb.input("scale", (c,), float32, range=(0.001, 0.003))
    inside = (i + p >= 1) & (i + p <= h) & (j + q >= 1) & (j + q <= w)
    v = where(inside, cast(x.masked(inside, i + p - 1, j + q - 1, l), int32) - 121, 0)
    acc = kb.sum("acc", (i, j, l), (p, q), v * cast(weight[p, q, l], int32))
    out = round_even(cast(acc[i, j, l] + bias[l], float32) * scale[l]) + 7.0
    kb.store("y", uint8, (h, w, c), (i, j, l), cast(clip(out, 0.0, 255.0), uint8))
    return kb.build()


C["depthwise_bytes"] = """
#include <math.h>
static void row(const unsigned char (*restrict x)[W][C], const signed char (*restrict weight)[3][C], const int *restrict bias,
                const float *restrict scale, unsigned char (*restrict y)[C], int i) {
  for (int j = 0; j < W; j++) {
    int acc[C];
    for (int l = 0; l < C; l++) acc[l] = bias[l];
    for (int p = i ? 0 : 1; p < (i == H - 1 ? 2 : 3); p++)
      for (int q = j ? 0 : 1; q < (j == W - 1 ? 2 : 3); q++)
        for (int l = 0; l < C; l++) acc[l] += (x[i + p - 1][j + q - 1][l] - 121) * weight[p][q][l];
    for (int l = 0; l < C; l++) {
      float v = rintf(acc[l] * scale[l]) + 7;
      y[j][l] = (int)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
  }
}
void kernel(const unsigned char (*restrict x)[W][C], const signed char (*restrict weight)[3][C], const int *restrict bias,
            const float *restrict scale, unsigned char (*restrict y)[W][C]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x, weight, bias, scale, y[i], i);
}
"""


def depthwise_bytes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A tap at a time; the scale in float32, of which a rounding may hang."""
    import numpy as np

    a, h, w = np.pad(x["x"].astype(np.int64) - 121, ((1, 1), (1, 1), (0, 0))), s["h"], s["w"]
    acc = sum(a[p : p + h, q : q + w] * x["weight"][p, q].astype(np.int64) for p in range(3) for q in range(3)) + x["bias"]
    return {"y": np.clip(np.rint(acc.astype(np.float32) * x["scale"]) + 7, 0, 255).astype(np.uint8)}


def delta_decode(m: int = 6007, n: int = 128) -> Kernel:
    """A column of times from blocks of a first one and of 16-bit differences whose sign is the lowest bit (zigzag)."""
    kb = KernelBuilder("delta_decode")
    i, j = kb.axis("m", m), kb.axis("n", n)
    base, delta = kb.input("base", (m,), int64, range=(0, 1 << 50)), kb.input("delta", (m, n), uint16)
    v = cast(delta[i, j], int64)
    time = kb.scan("add", "time", (i, j), j, (v >> 1) ^ -(v & 1))
    kb.store("y", int64, (m, n), (i, j), base[i] + time[i, j])
    return kb.build()


C["delta_decode"] = """
void kernel(const long *restrict base, const unsigned short (*restrict delta)[N], long (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    long time = base[i];
    for (int j = 0; j < N; j++) y[i][j] = time += (delta[i][j] >> 1) ^ -(delta[i][j] & 1);
  }
}
"""


def delta_decode_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum."""
    import numpy as np

    v = x["delta"].astype(np.int64)
    return {"y": x["base"][:, None] + ((v >> 1) ^ -(v & 1)).cumsum(axis=1)}


def swiss_probe(n: int = 30011) -> Kernel:
    """Which of the 16 slots of its group each key may be in, as bits: a hash says the group, and the tag of seven bits."""
    kb = KernelBuilder("swiss_probe")
    i, k = kb.axis("n", n), kb.axis("k", 16)
    key, tags = kb.input("key", (n,), uint64), kb.input("tags", (2048, 16), uint8, range=(0, 127))
    h = kb.value("h", (i,), key[i] * 0x9E3779B97F4A7C15)[i]
    same = tags[cast(h >> 53, int64), k].eq(cast((h >> 46) & 127, uint8))
    mask = kb.reduce("or", "mask", (i,), k, cast(same, int32) << cast(k, int32))
    kb.store("y", uint16, (n,), (i,), cast(mask[i], uint16))
    return kb.build()


C["swiss_probe"] = """
void kernel(const unsigned long *restrict key, const unsigned char (*restrict tags)[16], unsigned short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned long h = key[i] * 0x9E3779B97F4A7C15u;
    const unsigned char *group = tags[h >> 53], tag = h >> 46 & 127;
    int mask = 0;
    for (int k = 0; k < 16; k++) mask |= (group[k] == tag) << k;
    y[i] = mask;
  }
}
"""


def swiss_probe_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All groups at a time."""
    import numpy as np

    h = x["key"] * np.uint64(0x9E3779B97F4A7C15)
    same = x["tags"][h >> np.uint64(53)] == (h >> np.uint64(46) & np.uint64(127))[:, None]
    return {"y": (same << np.arange(16)).sum(axis=1).astype(np.uint16)}


def double_centred(n: int = 709) -> Kernel:
    """The matrix of products that classical scaling takes from distances: squares less means of rows and columns."""
    kb = KernelBuilder("double_centred")
    i, j, k, l, r = (kb.axis(a, n) for a in ("n@i", "n@j", "n@k", "n@l", "n@r"))
    d = kb.input("d", (n, n), float64, range=(0.0, 4.0))
    row = kb.sum("row", (i,), k, d[i, k] * d[i, k])
    column = kb.sum("column", (j,), l, d[l, j] * d[l, j])
    total = kb.sum("total", (), r, row[r])
    centred = d[i, j] * d[i, j] - (row[i] + column[j]) * (1.0 / n) + total[()] * (1.0 / n**2)
    kb.store("y", float64, (n, n), (i, j), -0.5 * centred)
    return kb.build()


C["double_centred"] = """
void kernel(const double (*restrict d)[N], double (*restrict y)[N]) {
  double row[N], column[N], total = 0;
  for (int j = 0; j < N; j++) column[j] = 0;
  for (int i = 0; i < N; i++) {
    double sum = 0;
    for (int j = 0; j < N; j++) sum += d[i][j] * d[i][j], column[j] += d[i][j] * d[i][j];
    row[i] = sum / N, total += sum;
  }
  for (int j = 0; j < N; j++) column[j] = column[j] / N - total / N / N;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
#pragma omp simd
    for (int j = 0; j < N; j++) y[i][j] = -0.5 * (d[i][j] * d[i][j] - row[i] - column[j]);
}
"""


def double_centred_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Means."""
    a = x["d"] ** 2
    return {"y": -0.5 * (a - a.mean(axis=0) - a.mean(axis=1)[:, None] + a.mean())}
