"""Losses, and the gradients of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, bfloat16, cast, exp, float32, int32, log1p, maximum, minimum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "layernorm_grads": ("gradients", {"m": 7, "n": 23}),
    "swiglu_backward": ("gradients", {"m": 3, "n": 37}),
    "focal_loss": ("losses", {"n": 53}),
    "triplet_loss": ("losses", {"b": 7, "d": 13, "v": 40}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
BF16 = """
#include <math.h>
typedef unsigned short bf16;
static inline float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static inline bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
"""


def layernorm_grads(m: int = 301, n: int = 768) -> Kernel:
    """Gradients of a layer norm in what it was given, its weights and its bias; mean and 1/deviation were kept."""
    kb = KernelBuilder("layernorm_grads")
    i, a, b, o = kb.axis("m", m), kb.axis("n@a", n), kb.axis("n@b", n), kb.axis("n@out", n)
    jg, ig = kb.axis("n@g", n), kb.axis("m@g", m)
    jb, ib = kb.axis("n@beta", n), kb.axis("m@beta", m)
    x, dy = kb.input("x", (m, n), float32), kb.input("dy", (m, n), float32)
    g, mean = kb.input("g", (n,), float32), kb.input("mean", (m,), float32)
    r = kb.input("r", (m,), float32, range=(0.5, 2.0))
    s1 = kb.sum("s1", (i,), a, dy[i, a] * g[a])
    s2 = kb.sum("s2", (i,), b, dy[i, b] * g[b] * ((x[i, b] - mean[i]) * r[i]))
    hat = (x[i, o] - mean[i]) * r[i]
    kb.store("dx", float32, (m, n), (i, o), r[i] * (dy[i, o] * g[o] - s1[i] * (1.0 / n) - hat * s2[i] * (1.0 / n)))
    dg = kb.sum("sg", (jg,), ig, dy[ig, jg] * ((x[ig, jg] - mean[ig]) * r[ig]))
    kb.store("dg", float32, (n,), (jg,), dg[jg])
    db = kb.sum("sb", (jb,), ib, dy[ib, jb])
    kb.store("db", float32, (n,), (jb,), db[jb])
    return kb.build()


C["layernorm_grads"] = """
static void row(const float *restrict x, const float *restrict dy, const float *restrict g, float mean, float r,
                float *restrict dx, float *restrict dg, float *restrict db) {
  float s1 = 0, s2 = 0;
  for (int j = 0; j < N; j++) {
    float hat = (x[j] - mean) * r;
    s1 += dy[j] * g[j];
    s2 += dy[j] * g[j] * hat;
  }
  s1 /= N;
  s2 /= N;
  for (int j = 0; j < N; j++) {
    float hat = (x[j] - mean) * r;
    dx[j] = r * (dy[j] * g[j] - s1 - hat * s2);
    dg[j] += dy[j] * hat;
    db[j] += dy[j];
  }
}
void kernel(const float (*restrict x)[N], const float (*restrict dy)[N], const float *restrict g, const float *restrict mean,
            const float *restrict r, float (*restrict dx)[N], float *restrict dg, float *restrict db) {
  for (int j = 0; j < N; j++) dg[j] = db[j] = 0;
#pragma omp parallel for reduction(+ : dg[:N], db[:N])
  for (int i = 0; i < M; i++) row(x[i], dy[i], g, mean[i], r[i], dx[i], dg, db);
}
"""


def layernorm_grads_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, dy, g, mean, r = (x[k].astype(np.float64) for k in ("x", "dy", "g", "mean", "r"))
    hat = (a - mean[:, None]) * r[:, None]
    s1, s2 = (dy * g).mean(axis=1)[:, None], (dy * g * hat).mean(axis=1)[:, None]
    return {"dx": r[:, None] * (dy * g - s1 - hat * s2), "dg": (dy * hat).sum(axis=0), "db": dy.sum(axis=0)}


def swiglu_backward(m: int = 200, n: int = 688) -> Kernel:
    """Gradients of silu(gate) · up in both, bfloat16."""
    kb = KernelBuilder("swiglu_backward")
    i, j = kb.axis("m", m), kb.axis("n", n)
    gate, up, dy = (kb.input(k, (m, n), bfloat16) for k in ("gate", "up", "dy"))
    g, u, d = cast(gate[i, j], float32), cast(up[i, j], float32), cast(dy[i, j], float32)
    s = 1.0 / (1.0 + exp(-g))
    kb.store("dgate", bfloat16, (m, n), (i, j), d * u * s * (1.0 + g * (1.0 - s)))
    kb.store("dup", bfloat16, (m, n), (i, j), d * g * s)
    return kb.build()


C["swiglu_backward"] = (
    BF16
    + """
void kernel(const bf16 (*restrict gate)[N], const bf16 (*restrict up)[N], const bf16 (*restrict dy)[N],
            bf16 (*restrict dgate)[N], bf16 (*restrict dup)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float g = wide(gate[i][j]), u = wide(up[i][j]), d = wide(dy[i][j]), s = 1 / (1 + expf(-g));
      dgate[i][j] = narrow(d * u * s * (1 + g * (1 - s)));
      dup[i][j] = narrow(d * g * s);
    }
}
"""
)


def swiglu_backward_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    g, u, d = (x[k].astype(np.float64) for k in ("gate", "up", "dy"))
    p = 1 / (1 + np.exp(-g))
    return {"dgate": d * u * p * (1 + g * (1 - p)), "dup": d * g * p}


def focal_loss(n: int = 40001) -> Kernel:
    """The focal loss (γ = 2) of logits, its gradient, and the mean."""
    kb = KernelBuilder("focal_loss")
    i, m = kb.axis("n", n), kb.axis("n@mean", n)
    x, label = kb.input("x", (n,), float32), kb.input("label", (n,), uint8, range=(0, 1))
    z = where(label[i].eq(1), x[i], -x[i])
    e = exp(-absolute(z))
    lp = minimum(z, 0.0) - log1p(e)  # log of the probability of what is right
    p = exp(lp)
    loss = kb.value("each", (i,), -((1.0 - p) * (1.0 - p)) * lp)
    slope = (1.0 - p) * (1.0 - p) * (2.0 * p * lp - (1.0 - p))
    kb.store("dx", float32, (n,), (i,), where(label[i].eq(1), slope, -slope) * (1.0 / n))
    total = kb.sum("total", (), m, loss[m])
    kb.store("mean", float32, (1,), (), total[()] * (1.0 / n), (0,))
    return kb.build()


C["focal_loss"] = """
#include <math.h>
void kernel(const float *restrict x, const unsigned char *restrict label, float *restrict dx, float *restrict mean) {
  float total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < N; i++) {
    float sign = label[i] ? 1 : -1, z = sign * x[i], lp = (z < 0 ? z : 0) - logf(1 + expf(-fabsf(z))), p = expf(lp), q = 1 - p;
    total -= q * q * lp;
    dx[i] = sign * q * q * (2 * p * lp - q) / N;
  }
  mean[0] = total / N;
}
"""


def focal_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    sign = np.where(x["label"] == 1, 1.0, -1.0)
    lp = -np.logaddexp(0, -sign * x["x"].astype(np.float64))
    p = np.exp(lp)
    return {"dx": sign * (1 - p) ** 2 * (2 * p * lp - (1 - p)) / s["n"], "mean": (-((1 - p) ** 2) * lp).mean(keepdims=True)}


def triplet_loss(b: int = 2500, d: int = 96, v: int = 4000) -> Kernel:
    """The hinge of each triplet of rows of a table, their mean, and how many are above 0."""
    kb = KernelBuilder("triplet_loss")
    i, j, k = kb.axis("b", b), kb.axis("d@near", d), kb.axis("d@far", d)
    m, c = kb.axis("b@mean", b), kb.axis("b@count", b)
    e = kb.input("e", (v, d), float32)
    a, p, n = (kb.input(s, (b,), int32, range=(0, v - 1)) for s in "apn")
    ia, ip, il = cast(a[i], "int64"), cast(p[i], "int64"), cast(n[i], "int64")
    near = kb.sum("near", (i,), j, (e[ia, j] - e[ip, j]) ** 2)
    far = kb.sum("far", (i,), k, (e[ia, k] - e[il, k]) ** 2)
    loss = kb.value("hinge", (i,), maximum(near[i] - far[i] + 0.3, 0.0))
    kb.store("loss", float32, (b,), (i,), loss[i])
    mean = kb.sum("total", (), m, loss[m])
    kb.store("mean", float32, (1,), (), mean[()] * (1.0 / b), (0,))
    count = kb.sum("active", (), c, cast(loss[c] > 0.0, int32))
    kb.store("count", int32, (1,), (), count[()], (0,))
    return kb.build()


C["triplet_loss"] = """
void kernel(const float (*restrict e)[D], const int *restrict a, const int *restrict p, const int *restrict n,
            float *restrict loss, float *restrict mean, int *restrict count) {
  float total = 0;
  int many = 0;
#pragma omp parallel for reduction(+ : total, many)
  for (int i = 0; i < B; i++) {
    const float *x = e[a[i]], *y = e[p[i]], *z = e[n[i]];
    float v = 0.3f;
    for (int j = 0; j < D; j++) v += (x[j] - y[j]) * (x[j] - y[j]) - (x[j] - z[j]) * (x[j] - z[j]);
    v = v > 0 ? v : 0;
    loss[i] = v;
    total += v;
    many += v > 0;
  }
  mean[0] = total / B;
  count[0] = many;
}
"""


def triplet_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    e = x["e"].astype(np.float64)
    a, p, n = (e[x[k]] for k in "apn")
    v = np.maximum(((a - p) ** 2).sum(axis=1) - ((a - n) ** 2).sum(axis=1) + 0.3, 0)
    return {"loss": v, "mean": v.mean(keepdims=True), "count": np.array([(v > 0).sum()], np.int32)}
