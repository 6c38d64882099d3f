"""More steps of training (quantised_and_training.py), with the same loops in C and NumPy's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    bfloat16,
    exp,
    float16,
    float32,
    int8,
    int32,
    log,
    maximum,
    minimum,
    round_even,
    sqrt,
    where,
)
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "adamw_bf16": ("elementwise", {"n": 53}),
    "smoothed_loss": ("rows", {"m": 7, "n": 23}),
    "alibi_attention": ("attention", {"h": 2, "s": 13, "d": 8}),
    "add_requantised": ("bytes", {"n": 101, "c": 5}),
    "half_gates": ("elementwise", {"m": 5, "n": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def adamw_bf16(n: int = 1 << 20) -> Kernel:
    """A step of AdamW whose weights decay by themselves: gradients and a copy of the weights are bfloat16."""
    kb = KernelBuilder("adamw_bf16")
    i = kb.axis("n", n)
    w, m = kb.input("w", (n,), float32), kb.input("m", (n,), float32)
    v, g = kb.input("v", (n,), float32, range=(0.0, 1.0)), kb.input("g", (n,), bfloat16)
    m2 = 0.9 * m[i] + 0.1 * g[i]
    v2 = 0.999 * v[i] + 0.001 * g[i] * g[i]
    w2 = kb.value("w2", (i,), w[i] * (1 - 1e-3 * 0.01) - 1e-3 * (m2 * 1.1) / (sqrt(v2 * 1.01) + 1e-8))
    kb.store("new_w", float32, (n,), (i,), w2[i])
    kb.store("new_m", float32, (n,), (i,), m2)
    kb.store("new_v", float32, (n,), (i,), v2)
    kb.store("half", bfloat16, (n,), (i,), w2[i])
    return kb.build()


C["adamw_bf16"] = """
#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
void kernel(const float *restrict w, const float *restrict m, const float *restrict v, const bf16 *restrict g,
            float *restrict new_w, float *restrict new_m, float *restrict new_v, bf16 *restrict half) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float d = wide(g[i]), m2 = 0.9f * m[i] + 0.1f * d, v2 = 0.999f * v[i] + 0.001f * d * d;
    float w2 = w[i] * (1 - 1e-3f * 0.01f) - 1e-3f * (m2 * 1.1f) / (sqrtf(v2 * 1.01f) + 1e-8f);
    new_w[i] = w2;
    new_m[i] = m2;
    new_v[i] = v2;
    half[i] = narrow(w2);
  }
}
"""


def adamw_bf16_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    w, m, v, g = (x[k].astype(np.float64) for k in "wmvg")
    m2, v2 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    w2 = w * (1 - 1e-3 * 0.01) - 1e-3 * (m2 * 1.1) / (np.sqrt(v2 * 1.01) + 1e-8)
    return {"new_w": w2, "new_m": m2, "new_v": v2, "half": w2}


def smoothed_loss(m: int = 512, n: int = 4096) -> Kernel:
    """Cross-entropy with smoothed labels, and its gradient in the scores."""
    kb = KernelBuilder("smoothed_loss")
    i = kb.axis("m", m)
    a, b, c, o = (kb.axis(f"n@{s}", n) for s in ("max", "sum", "mean", "out"))
    x, label = kb.input("x", (m, n), float32), kb.input("label", (m,), int32, range=(0, n - 1))
    top = kb.max("top", (i,), a, x[i, a])
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    mean = kb.sum("mean", (i,), c, x[i, c] * (1.0 / n))
    lse = top[i] + log(total[i])
    kb.store("loss", float32, (m,), (i,), lse - 0.9 * x[i, cast(label[i], "int64")] - 0.1 * mean[i])
    want = where(cast(o, int32).eq(label[i]), 0.9 + 0.1 / n, 0.1 / n)
    kb.store("dx", float32, (m, n), (i, o), exp(x[i, o] - top[i]) / total[i] - want)
    return kb.build()


C["smoothed_loss"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], const int *restrict label, float *restrict loss, float (*restrict dx)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = -INFINITY, total = 0, sum = 0;
    for (int j = 0; j < N; j++) {
      top = x[i][j] > top ? x[i][j] : top;
      sum += x[i][j];
    }
    for (int j = 0; j < N; j++) total += dx[i][j] = expf(x[i][j] - top);
    loss[i] = top + logf(total) - 0.9f * x[i][label[i]] - 0.1f * sum / N;
    for (int j = 0; j < N; j++) dx[i][j] = dx[i][j] / total - 0.1f / N;
    dx[i][label[i]] -= 0.9f;
  }
}
"""


def smoothed_loss_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, i = x["x"].astype(np.float64), np.arange(s["m"])
    top = a.max(axis=1)
    e = np.exp(a - top[:, None])
    loss = top + np.log(e.sum(axis=1)) - 0.9 * a[i, x["label"]] - 0.1 * a.mean(axis=1)
    dx = e / e.sum(axis=1, keepdims=True) - 0.1 / s["n"]
    dx[i, x["label"]] -= 0.9
    return {"loss": loss, "dx": dx}


def alibi_attention(h: int = 4, s: int = 256, d: int = 64) -> Kernel:
    """Causal attention whose scores fall with the distance, by a slope that each head has for itself."""
    kb = KernelBuilder("alibi_attention")
    a, i, o = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d)
    j = [kb.axis(f"key@{n}", s) for n in ("max", "sum", "out")]
    e = kb.axis("d@dot", d)
    jd = kb.axis("key@dot", s)
    q, k, v = (kb.input(x, (h, s, d), float32) for x in "qkv")
    slope = kb.input("slope", (h,), float32, range=(0.0, 0.5))
    dot = kb.sum("dot", (a, i, jd), e, q[a, i, e] * k[a, jd, e])

    def score(j: Any) -> Any:
        return where(j <= i, dot[a, i, j] * d**-0.5 - slope[a] * cast(i - j, float32), float("-inf"))

    top = kb.max("top", (a, i), j[0], score(j[0]))
    total = kb.sum("total", (a, i), j[1], exp(score(j[1]) - top[a, i]))
    mix = kb.sum("mix", (a, i, o), j[2], exp(score(j[2]) - top[a, i]) * v[a, j[2], o])
    kb.store("y", float32, (h, s, d), (a, i, o), mix[a, i, o] / total[a, i])
    return kb.build()


C["alibi_attention"] = """
#include <math.h>
void kernel(const float (*restrict q)[S][D], const float (*restrict k)[S][D], const float (*restrict v)[S][D],
            const float *restrict slope, float (*restrict y)[S][D]) {
#pragma omp parallel for collapse(2)
  for (int a = 0; a < H; a++)
    for (int i = 0; i < S; i++) {
      float score[S], top = -INFINITY, total = 0, mix[D] = {0};
      for (int j = 0; j <= i; j++) {
        float dot = 0;
        for (int e = 0; e < D; e++) dot += q[a][i][e] * k[a][j][e];
        score[j] = dot / sqrtf(D) - slope[a] * (i - j);
        top = score[j] > top ? score[j] : top;
      }
      for (int j = 0; j <= i; j++) total += score[j] = expf(score[j] - top);
      for (int j = 0; j <= i; j++)
        for (int e = 0; e < D; e++) mix[e] += score[j] * v[a][j][e];
      for (int e = 0; e < D; e++) y[a][i][e] = mix[e] / total;
    }
}
"""


def alibi_attention_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A head at a time."""
    import numpy as np

    q, k, v = (x[n].astype(np.float64) for n in "qkv")
    i = np.arange(s["s"])
    far = i[:, None] - i[None, :]
    score = q @ k.transpose(0, 2, 1) * s["d"] ** -0.5 - x["slope"].astype(np.float64)[:, None, None] * far
    score = np.where(far >= 0, score, -np.inf)
    p = np.exp(score - score.max(axis=2, keepdims=True))
    return {"y": p / p.sum(axis=2, keepdims=True) @ v}


def add_requantised(n: int = 1 << 15, c: int = 64) -> Kernel:
    """Two int8 arrays with scales a channel, added and brought to a third scale, rounded and clipped."""
    kb = KernelBuilder("add_requantised")
    i, j = kb.axis("n", n), kb.axis("c", c)
    a, b = kb.input("a", (n, c), int8), kb.input("b", (n, c), int8)
    p, q = kb.input("p", (c,), float32, range=(0.1, 1.0)), kb.input("q", (c,), float32, range=(0.1, 1.0))
    total = cast(a[i, j], float32) * p[j] + cast(b[i, j], float32) * q[j]
    kb.store("y", int8, (n, c), (i, j), cast(minimum(maximum(round_even(total), -128.0), 127.0), int8))
    return kb.build()


C["add_requantised"] = """
#include <math.h>
void kernel(const signed char (*restrict a)[C], const signed char (*restrict b)[C], const float *restrict p,
            const float *restrict q, signed char (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) {
      int v = lrintf(a[i][j] * p[j] + b[i][j] * q[j]);
      y[i][j] = v < -128 ? -128 : v > 127 ? 127 : v;
    }
}
"""


def add_requantised_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, of which a rounding may hang."""
    import numpy as np

    total = x["a"].astype(np.float64) * x["p"] + x["b"].astype(np.float64) * x["q"]
    return {"y": np.clip(np.rint(total), -128, 127).astype(np.int8)}


def half_gates(m: int = 2048, n: int = 512) -> Kernel:
    """A gated layer's halves in float16: what follows a gate's sigmoid times itself."""
    kb = KernelBuilder("half_gates")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, 2 * n), float16)
    gate = x[i, j]
    kb.store("y", float16, (m, n), (i, j), gate / (1.0 + exp(-gate)) * x[i, j + n])
    return kb.build()


C["half_gates"] = """
#include <math.h>
void kernel(const _Float16 (*restrict x)[2 * N], _Float16 (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float gate = x[i][j], up = x[i][j + N];
      y[i][j] = gate / (1 + expf(-gate)) * up;
    }
}
"""


def half_gates_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    gate, up = np.split(x["x"].astype(np.float64), 2, axis=1)
    return {"y": gate / (1 + np.exp(-gate)) * up}
