"""Quantised layers and steps of training, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, erf, exp, float16, float32, int32, rsqrt, uint8, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "int4_layer": ("products of computed operands", {"m": 3, "n": 9, "k": 16, "g": 4}),
    "nf4_matvec": ("gathers", {"n": 11, "k": 16, "g": 4}),
    "sparse_2_4": ("gathers", {"m": 3, "n": 7, "k": 16}),
    "expert_gates": ("rows", {"n": 9, "e": 5}),
    "rms_norm_backward": ("rows", {"m": 5, "n": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def int4_layer(m: int = 16, n: int = 1024, k: int = 1024, g: int = 64) -> Kernel:
    """gelu(x · w + bias): weights of four bits, two in a byte, with a scale for each g of them."""
    kb = KernelBuilder("int4_layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, bias = kb.input("x", (m, k), float32), kb.input("bias", (n,), float32)
    w, scale = kb.input("w", (n, k // 2), uint8, constant=True), kb.input("scale", (n, k // g), float32, range=(0.0, 0.1))
    bits = (cast(w[j, l // 2], int32) >> cast(4 * (l % 2), int32)) & 15
    acc = kb.sum("acc", (i, j), l, x[i, l] * (cast(bits - 8, float32) * scale[j, l // g]))
    v = acc[i, j] + bias[j]
    kb.store("y", float32, (m, n), (i, j), 0.5 * v * (1.0 + erf(v * 0.70710678)))
    return kb.build()


C["int4_layer"] = """
#include <math.h>
void kernel(const float (*restrict x)[K], const float *restrict bias, const unsigned char (*restrict w)[K / 2],
            const float (*restrict scale)[K / G], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int j = 0; j < N; j++) {
    float row[K];
    for (int l = 0; l < K / 2; l++) {
      row[2 * l] = ((w[j][l] & 15) - 8) * scale[j][2 * l / G];
      row[2 * l + 1] = ((w[j][l] >> 4) - 8) * scale[j][2 * l / G];
    }
    for (int i = 0; i < M; i++) {
      float v = bias[j];
      for (int l = 0; l < K; l++) v += x[i][l] * row[l];
      y[i][j] = 0.5f * v * (1 + erff(v * 0.70710678f));
    }
  }
}
"""


def int4_layer_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The weights first."""
    import math

    import numpy as np

    bits = np.stack([x["w"] & 15, x["w"] >> 4], axis=2).reshape(s["n"], s["k"]).astype(np.float64) - 8
    v = x["x"].astype(np.float64) @ (bits * x["scale"].astype(np.float64).repeat(s["g"], axis=1)).T + x["bias"]
    return {"y": 0.5 * v * (1 + np.vectorize(math.erf)(v * 0.70710678))}


def nf4_matvec(n: int = 2048, k: int = 2048, g: int = 64) -> Kernel:
    """w · x, where four bits of a weight say which of sixteen numbers it is, times a scale for each g of them."""
    kb = KernelBuilder("nf4_matvec")
    j, l = kb.axis("n", n), kb.axis("k", k // 2)
    x, table = kb.input("x", (k,), float32), kb.input("table", (16,), float32, constant=True)
    w, scale = kb.input("w", (n, k // 2), uint8, constant=True), kb.input("scale", (n, k // g), float16, range=(0.0, 0.5))
    low, high = table[cast(w[j, l] & 15, "int64")], table[cast(w[j, l] >> 4, "int64")]
    acc = kb.sum("acc", (j,), l, (x[2 * l] * low + x[2 * l + 1] * high) * scale[j, 2 * l // g])
    kb.store("y", float32, (n,), (j,), acc[j])
    return kb.build()


C["nf4_matvec"] = """
void kernel(const float *restrict x, const float *restrict table, const unsigned char (*restrict w)[K / 2],
            const _Float16 (*restrict scale)[K / G], float *restrict y) {
#pragma omp parallel for
  for (int j = 0; j < N; j++) {
    float acc = 0;
    for (int b = 0; b < K / G; b++) {
      float part = 0;
      for (int l = b * G / 2; l < (b + 1) * G / 2; l++)
        part += x[2 * l] * table[w[j][l] & 15] + x[2 * l + 1] * table[w[j][l] >> 4];
      acc += part * (float)scale[j][b];
    }
    y[j] = acc;
  }
}
"""


def nf4_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The weights first."""
    import numpy as np

    which = np.stack([x["w"] & 15, x["w"] >> 4], axis=2).reshape(s["n"], s["k"])
    w = x["table"].astype(np.float64)[which] * x["scale"].astype(np.float64).repeat(s["g"], axis=1)
    return {"y": w @ x["x"]}


def sparse_2_4(m: int = 64, n: int = 512, k: int = 1024) -> Kernel:
    """x · wᵀ, of which two of every four weights are kept, with two bits for each that say which."""
    kb = KernelBuilder("sparse_2_4")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k // 2)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k // 2), float32)
    place = kb.input("place", (n, k // 2), uint8, range=(0, 3))
    acc = kb.sum("acc", (i, j), l, w[j, l] * x[i, 4 * (l // 2) + cast(place[j, l], "int64")])
    kb.store("y", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


C["sparse_2_4"] = """
void kernel(const float (*restrict x)[K], const float (*restrict w)[K / 2],
            const unsigned char (*restrict place)[K / 2], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float acc = 0;
      for (int l = 0; l < K / 2; l++) acc += w[j][l] * x[i][4 * (l / 2) + place[j][l]];
      y[i][j] = acc;
    }
}
"""


def sparse_2_4_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A dense matrix first."""
    import numpy as np

    w = np.zeros((s["n"], s["k"]))
    at = 4 * (np.arange(s["k"] // 2) // 2) + x["place"]
    np.add.at(w, (np.arange(s["n"])[:, None], at), x["w"].astype(np.float64))
    return {"y": x["x"].astype(np.float64) @ w.T}


def expert_gates(n: int = 1 << 15, e: int = 16) -> Kernel:
    """The two likeliest experts of each token, and their shares of its softmax, which add up to 1."""
    kb = KernelBuilder("expert_gates")
    i = kb.axis("n", n)
    a, b, c, d = (kb.axis(f"e@{s}", e) for s in ("first", "at", "second", "at2"))
    x = kb.input("x", (n, e), float32)
    first = kb.max("first", (i,), a, x[i, a])
    at = kb.min("at", (i,), b, where(x[i, b].eq(first[i]), cast(b, int32), e))
    second = kb.max("second", (i,), c, where(cast(c, int32).eq(at[i]), float("-inf"), x[i, c]))
    at2 = kb.min("at2", (i,), d, where(x[i, d].eq(second[i]) & cast(d, int32).ne(at[i]), cast(d, int32), e))
    share = 1.0 / (1.0 + exp(second[i] - first[i]))
    kb.store("which", int32, (n, 2), (i,), at[i], (i, 0))
    kb.store("which", int32, (n, 2), (i,), at2[i], (i, 1))
    kb.store("share", float32, (n, 2), (i,), share, (i, 0))
    kb.store("share", float32, (n, 2), (i,), 1.0 - share, (i, 1))
    return kb.build()


C["expert_gates"] = """
#include <math.h>
void kernel(const float (*restrict x)[E], int (*restrict which)[2], float (*restrict share)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float first = -INFINITY, second = -INFINITY;
    int at = 0, at2 = 0;
    for (int a = 0; a < E; a++)
      if (x[i][a] > first) {
        second = first, at2 = at;
        first = x[i][a], at = a;
      } else if (x[i][a] > second) {
        second = x[i][a], at2 = a;
      }
    which[i][0] = at, which[i][1] = at2;
    share[i][0] = 1 / (1 + expf(second - first));
    share[i][1] = 1 - share[i][0];
  }
}
"""


def expert_gates_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A sort that keeps the order of equals."""
    import numpy as np

    a = x["x"].astype(np.float64)
    at = np.argsort(-a, axis=1, kind="stable")[:, :2]
    top = np.exp(np.take_along_axis(a, at, axis=1))
    return {"which": at.astype(np.int32), "share": top / top.sum(axis=1, keepdims=True)}


def rms_norm_backward(m: int = 1024, n: int = 1024) -> Kernel:
    """The gradient of an RMS norm in what it was given, and what each row adds to that of its weights, in bfloat16."""
    kb = KernelBuilder("rms_norm_backward")
    i, j, k, o = kb.axis("m", m), kb.axis("n@square", n), kb.axis("n@dot", n), kb.axis("n@out", n)
    x, dy = kb.input("x", (m, n), bfloat16), kb.input("dy", (m, n), bfloat16)
    w = kb.input("w", (n,), float32)
    square = kb.sum("square", (i,), j, x[i, j] * x[i, j])
    dot = kb.sum("dot", (i,), k, x[i, k] * (dy[i, k] * w[k]))
    r = rsqrt(square[i] * (1.0 / n) + 1e-5)
    dx = r * (dy[i, o] * w[o] - x[i, o] * (r * r * dot[i] * (1.0 / n)))
    kb.store("dx", bfloat16, (m, n), (i, o), dx)
    kb.store("dw", bfloat16, (m, n), (i, o), dy[i, o] * x[i, o] * r)
    return kb.build()


C["rms_norm_backward"] = """
#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
void kernel(const bf16 (*restrict x)[N], const bf16 (*restrict dy)[N], const float *restrict w,
            bf16 (*restrict dx)[N], bf16 (*restrict dw)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float square = 0, dot = 0;
    for (int j = 0; j < N; j++) {
      float a = wide(x[i][j]);
      square += a * a;
      dot += a * wide(dy[i][j]) * w[j];
    }
    float r = 1 / sqrtf(square / N + 1e-5f), c = r * r * dot / N;
    for (int j = 0; j < N; j++) {
      float a = wide(x[i][j]), d = wide(dy[i][j]);
      dx[i][j] = narrow(r * (d * w[j] - a * c));
      dw[i][j] = narrow(d * a * r);
    }
  }
}
"""


def rms_norm_backward_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, d, w = (x[k].astype(np.float64) for k in ("x", "dy", "w"))
    r = 1 / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-5)
    dot = (a * d * w).mean(axis=1, keepdims=True)
    return {"dx": r * (d * w - a * r * r * dot), "dw": d * a * r}
