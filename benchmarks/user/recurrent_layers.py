"""Layers of models that are less usual: other attentions, recurrences that forget, mixtures of softmaxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, const, exp, float32, log, maximum, sigmoid, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "group_softmax": ("rows", {"m": 11, "g": 3, "k": 7}),
    "squared_relu_attention": ("attention", {"s": 13, "h": 2, "d": 6}),
    "wkv_recurrence": ("scans and elementary functions", {"t": 17, "c": 21}),
    "selective_scan": ("scans and elementary functions", {"t": 13, "d": 5, "n": 4}),
    "mixture_of_softmaxes": ("row statistics", {"b": 5, "k": 3, "v": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def group_softmax(m: int = 1501, g: int = 12, k: int = 7) -> Kernel:
    """Softmax within groups of k scores, each group at a temperature of its own, in bfloat16."""
    kb = KernelBuilder("group_softmax")
    i, a, (p, q, r) = kb.axis("m", m), kb.axis("g", g), (kb.axis(f"k@{n}", k) for n in ("top", "sum", "out"))
    x, heat = kb.input("x", (m, g, k), bfloat16), kb.input("heat", (g,), float32, range=(0.5, 2.0))

    def score(j: Any) -> Any:
        return cast(x[i, a, j], float32) * heat[a]

    top = kb.max("top", (i, a), p, score(p))
    total = kb.sum("total", (i, a), q, exp(score(q) - top[i, a]))
    kb.store("y", bfloat16, (m, g, k), (i, a, r), exp(score(r) - top[i, a]) / total[i, a])
    return kb.build()


C["group_softmax"] = """
#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static void token(const bf16 (*restrict x)[K], const float *restrict heat, bf16 (*restrict y)[K]) {
  float e[G * K], over[G];
  for (int a = 0; a < G; a++) {
    float top = -INFINITY;
    for (int j = 0; j < K; j++) {
      e[a * K + j] = wide(x[a][j]) * heat[a];
      top = e[a * K + j] > top ? e[a * K + j] : top;
    }
    for (int j = 0; j < K; j++) e[a * K + j] -= top;
  }
  for (int j = 0; j < G * K; j++) e[j] = expf(e[j]);
  for (int a = 0; a < G; a++) {
    float total = 0;
    for (int j = 0; j < K; j++) total += e[a * K + j];
    over[a] = 1 / total;
  }
  for (int a = 0; a < G; a++)
    for (int j = 0; j < K; j++) y[a][j] = narrow(e[a * K + j] * over[a]);
}
void kernel(const bf16 (*restrict x)[G][K], const float *restrict heat, bf16 (*restrict y)[G][K]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) token(x[i], heat, y[i]);
}
"""


def group_softmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype(np.float64) * x["heat"].astype(np.float64)[:, None]
    e = np.exp(a - a.max(axis=2, keepdims=True))
    return {"y": e / e.sum(axis=2, keepdims=True)}


def squared_relu_attention(s: int = 271, h: int = 3, d: int = 48) -> Kernel:
    """Causal attention with the square of ReLU in place of softmax, over how many tokens there are; tokens, then heads."""
    kb = KernelBuilder("squared_relu_attention")
    a, i, o, e = kb.axis("h", h), kb.axis("s", s), kb.axis("d@out", d), kb.axis("d@dot", d)
    jd, jo = kb.axis("s@dot", s), kb.axis("s@out", s)
    q, k, v = (kb.input(n, (s, h, d), float32) for n in "qkv")
    dot = kb.sum("dot", (a, i, jd), e, q[i, a, e] * k[jd, a, e])
    held = maximum(dot[a, i, jo] * d**-0.5, 0.0)
    mix = kb.sum("mix", (i, a, o), jo, where(jo <= i, held * held, 0.0) * v[jo, a, o])
    kb.store("y", float32, (s, h, d), (i, a, o), mix[i, a, o] / cast(i + 1, float32))
    return kb.build()


C["squared_relu_attention"] = """
#include <math.h>
void kernel(const float (*restrict q)[H][D], const float (*restrict k)[H][D], const float (*restrict v)[H][D],
            float (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++)
    for (int a = 0; a < H; a++) {
      float mix[D] = {0};
      for (int j = 0; j <= i; j++) {
        float dot = 0;
        for (int e = 0; e < D; e++) dot += q[i][a][e] * k[j][a][e];
        dot = dot > 0 ? dot * dot * (1.0f / D) : 0;
        for (int e = 0; e < D; e++) mix[e] += dot * v[j][a][e];
      }
      for (int e = 0; e < D; e++) y[i][a][e] = mix[e] / (i + 1);
    }
}
"""


def squared_relu_attention_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    q, k, v = (x[n].astype(np.float64) for n in "qkv")
    w = np.maximum(np.einsum("ihd,jhd->hij", q, k), 0) ** 2 / s["d"]
    y = np.einsum("hij,jhd->ihd", np.tril(w), v)
    return {"y": y / np.arange(1, s["s"] + 1)[:, None, None]}


def wkv_recurrence(t: int = 701, c: int = 390) -> Kernel:
    """RWKV's time mixing: means of the values so far, weighted by exp(key) and fading, times a gate; kept in exponents."""
    kb = KernelBuilder("wkv_recurrence")
    i, j = kb.axis("t", t), kb.axis("c", c)
    k, v, r = (kb.input(n, (t, c), float32) for n in "kvr")
    w = kb.input("w", (c,), float32, range=(0.01, 1.0))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        faded = before[1] + after[0]
        top = maximum(faded, after[1])
        old, new = exp(faded - top), exp(after[1] - top)
        return before[0] + after[0], top, before[2] * old + after[2] * new, before[3] * old + after[3] * new

    start = (0.0, -1e30, 0.0, 0.0)
    _, _, num, den = kb.associative_scan(
        ("fade", "top", "num", "den"), (i, j), i, (-w[j], k[i, j], v[i, j], const(1.0, float32)), start, rule
    )
    kb.store("y", float32, (t, c), (i, j), sigmoid(r[i, j]) * num[i, j] / den[i, j])
    return kb.build()


C["wkv_recurrence"] = """
#include <math.h>
static void step(const float *restrict k, const float *restrict v, const float *restrict r, const float *restrict w, float *restrict top,
                 float *restrict num, float *restrict den, float *restrict y) {
  for (int j = 0; j < C; j++) {
    float faded = top[j] - w[j], t = faded > k[j] ? faded : k[j], old = expf(faded - t), new = expf(k[j] - t);
    num[j] = num[j] * old + v[j] * new;
    den[j] = den[j] * old + new;
    top[j] = t;
    y[j] = num[j] / (den[j] * (1 + expf(-r[j])));
  }
}
void kernel(const float (*restrict k)[C], const float (*restrict v)[C], const float (*restrict r)[C], const float *restrict w,
            float (*restrict y)[C]) {
  float top[C], num[C], den[C];
  for (int j = 0; j < C; j++) top[j] = -1e30f, num[j] = den[j] = 0;
  for (int i = 0; i < T; i++) step(k[i], v[i], r[i], w, top, num, den, y[i]);
}
"""


def wkv_recurrence_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step at a time, in float64, where nothing overflows."""
    import numpy as np

    k, v, r, w = (x[n].astype(np.float64) for n in "kvrw")
    num, den, y = np.zeros(s["c"]), np.zeros(s["c"]), []
    for i in range(s["t"]):
        num, den = num * np.exp(-w) + np.exp(k[i]) * v[i], den * np.exp(-w) + np.exp(k[i])
        y.append(num / den / (1 + np.exp(-r[i])))
    return {"y": np.array(y)}


def selective_scan(t: int = 307, d: int = 130, n: int = 16) -> Kernel:
    """A layer of Mamba: states fade by exp(step · a), gain step · b · x, and c reads them; b and c change with time."""
    kb = KernelBuilder("selective_scan")
    i, j, k, o = kb.axis("t", t), kb.axis("d", d), kb.axis("n", n), kb.axis("n@out", n)
    x, step = kb.input("x", (t, d), float32), kb.input("step", (t, d), float32, range=(0.001, 0.1))
    a, skip = kb.input("a", (d, n), float32, range=(-8.0, -0.5)), kb.input("skip", (d,), float32)
    b, c = kb.input("b", (t, n), float32), kb.input("c", (t, n), float32)

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    gain = step[i, j] * x[i, j] * b[i, k]
    _, state = kb.associative_scan(("fade", "state"), (i, j, k), i, (exp(step[i, j] * a[j, k]), gain), (1.0, 0.0), rule)
    read = kb.sum("read", (i, j), o, c[i, o] * state[i, j, o])
    kb.store("y", float32, (t, d), (i, j), read[i, j] + skip[j] * x[i, j])
    return kb.build()


C["selective_scan"] = """
#include <math.h>
static void feature(const float (*restrict x)[D], const float (*restrict step)[D], const float *restrict a, float skip,
                    const float (*restrict b)[N], const float (*restrict c)[N], float (*restrict y)[D]) {
  float state[N] = {0};
  for (int i = 0; i < T; i++) {
    float s = step[i][0], gain = s * x[i][0], read = skip * x[i][0];
#pragma omp simd reduction(+ : read)
    for (int k = 0; k < N; k++) {
      state[k] = expf(s * a[k]) * state[k] + gain * b[i][k];
      read += c[i][k] * state[k];
    }
    y[i][0] = read;
  }
}
void kernel(const float (*restrict x)[D], const float (*restrict step)[D], const float (*restrict a)[N], const float *restrict skip,
            const float (*restrict b)[N], const float (*restrict c)[N], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int j = 0; j < D; j++)
    feature((const void *)&x[0][j], (const void *)&step[0][j], a[j], skip[j], b, c, (void *)&y[0][j]);
}
"""


def selective_scan_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step at a time."""
    import numpy as np

    v, step, a, skip, b, c = (x[k].astype(np.float64) for k in ("x", "step", "a", "skip", "b", "c"))
    state, y = np.zeros((s["d"], s["n"])), []
    for i in range(s["t"]):
        state = np.exp(step[i][:, None] * a) * state + (step[i] * v[i])[:, None] * b[i]
        y.append(state @ c[i] + skip * v[i])
    return {"y": np.array(y)}


def mixture_of_softmaxes(b: int = 200, k: int = 3, v: int = 1009) -> Kernel:
    """log of the mean of k softmaxes over words, weighted by a softmax of their own: a language model's last layer."""
    kb = KernelBuilder("mixture_of_softmaxes")
    i, j, m = kb.axis("b", b), kb.axis("k", k), kb.axis("k@mix", k)
    p, q, o, r, u = kb.axis("v@top", v), kb.axis("v@sum", v), kb.axis("v@out", v), kb.axis("k@top", k), kb.axis("k@sum", k)
    x, prior = kb.input("x", (b, k, v), float32), kb.input("prior", (b, k), float32)
    most = kb.max("most", (i,), r, prior[i, r])
    all_of = kb.sum("all", (i,), u, exp(prior[i, u] - most[i]))
    top = kb.max("top", (i, j), p, x[i, j, p])
    total = kb.sum("total", (i, j), q, exp(x[i, j, q] - top[i, j]))
    share = kb.value("share", (i, j), exp(prior[i, j] - most[i]) / (all_of[i] * total[i, j]))
    mix = kb.sum("mix", (i, o), m, share[i, m] * exp(x[i, m, o] - top[i, m]))
    kb.store("y", float32, (b, v), (i, o), log(mix[i, o]))
    return kb.build()


C["mixture_of_softmaxes"] = """
#include <math.h>
static void row(const float (*restrict x)[V], const float *restrict prior, float *restrict y) {
  float share[K], all = 0, e[V];
  for (int j = 0; j < K; j++) all += share[j] = expf(prior[j]);
  for (int o = 0; o < V; o++) y[o] = 0;
  for (int j = 0; j < K; j++) {
    float top = -INFINITY, total = 0;
    for (int o = 0; o < V; o++) top = x[j][o] > top ? x[j][o] : top;
    for (int o = 0; o < V; o++) total += e[o] = expf(x[j][o] - top);
    float s = share[j] / (all * total);
    for (int o = 0; o < V; o++) y[o] += s * e[o];
  }
  for (int o = 0; o < V; o++) y[o] = logf(y[o]);
}
void kernel(const float (*restrict x)[K][V], const float (*restrict prior)[K], float (*restrict y)[V]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(x[i], prior[i], y[i]);
}
"""


def mixture_of_softmaxes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, p = np.exp(x["x"].astype(np.float64)), np.exp(x["prior"].astype(np.float64))
    a, p = a / a.sum(axis=2, keepdims=True), p / p.sum(axis=1, keepdims=True)
    return {"y": np.log((p[..., None] * a).sum(axis=1))}
