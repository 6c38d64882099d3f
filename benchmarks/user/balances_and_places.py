"""Matrices balanced by rows and columns, confusions, and places as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    bfloat16,
    cast,
    cos,
    exp,
    float32,
    float64,
    int32,
    maximum,
    rsqrt,
    sin,
    uint8,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "speckled": ("bit operations", {"m": 5, "n": 17}),
    "equilibrated": ("several reductions", {"n": 13}),
    "scored_confusion": ("scatter", {"n": 23, "c": 7}),
    "time_and_class": ("chains of elementary functions", {"s": 7, "d": 10}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def speckled(m: int = 331, n: int = 1009) -> Kernel:
    """bfloat16 rows of which a hash of the place drops some and a ramp fades others: what remains, a mask, and how many do a column."""
    kb = KernelBuilder("speckled")
    i, j, p, q = kb.axis("m", m), kb.axis("n", n), kb.axis("m@down", m), kb.axis("n@down", n)
    x = kb.input("x", (m, n), bfloat16)

    def kept(a: Any, b: Any) -> Any:
        h = (cast(a, int32) * 1103515245 + cast(b, int32) * 12345) ^ cast(a * n + b, int32)
        return ((h ^ (h >> 13)) * 0x5BD1E995 & 255) >= 40

    fade = 1.0 - cast(j, float32) * (1.0 / n)
    many = kb.sum("remain", (q,), p, kept(p, q))
    kb.store("y", bfloat16, (m, n), (i, j), where(kept(i, j), cast(x[i, j], float32) * fade, 0.0))
    kb.store("mask", bfloat16, (m, n), (i, j), where(kept(i, j), 1.0, 0.0))
    kb.store("many", int32, (n,), (q,), many[q])
    return kb.build()


C["speckled"] = """
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
void kernel(const bf16 (*restrict x)[N], bf16 (*restrict y)[N], bf16 (*restrict mask)[N], int *restrict many) {
  for (int j = 0; j < N; j++) many[j] = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int h = (int)(i * 1103515245u + j * 12345u) ^ (i * N + j);
      int kept = ((unsigned)(h ^ (h >> 13)) * 0x5BD1E995u & 255) >= 40;
      y[i][j] = kept ? narrow(wide(x[i][j]) * (1 - j * (1.0f / N))) : 0;
      mask[i][j] = kept ? 0x3f80 : 0;
      many[j] += kept;
    }
}
"""


def speckled_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Hashes of 32 bits, values in float64."""
    import numpy as np

    i, j = np.arange(s["m"], dtype=np.int32)[:, None], np.arange(s["n"], dtype=np.int32)
    h = (i * np.int32(1103515245) + j * np.int32(12345)) ^ (i * np.int32(s["n"]) + j)
    kept = ((h ^ (h >> 13)) * np.int32(0x5BD1E995) & 255) >= 40
    y = np.where(kept, x["x"].astype(np.float64) * (1 - j / s["n"]), 0)
    return {"y": y, "mask": kept.astype(np.float64), "many": kept.sum(axis=0).astype(np.int32)}


def equilibrated(n: int = 401) -> Kernel:
    """A step of Ruiz's scaling of a square matrix by the largest of rows and of columns, and how far its sums still are apart."""
    kb = KernelBuilder("equilibrated")
    i, j = kb.axis("n", n), kb.axis("n@other", n)
    p, q, u, v = (kb.axis(f"n@{s}", n) for s in ("rowmax", "colmax", "rowsum", "colsum"))
    a = kb.input("a", (n, n), float64)
    r = kb.max("r", (i,), p, absolute(a[i, p]))
    c = kb.max("c", (j,), q, absolute(a[q, j]))
    rows = kb.sum("rows", (i,), u, absolute(a[i, u]) * rsqrt(c[u]))
    columns = kb.sum("columns", (i,), v, absolute(a[v, i]) * rsqrt(r[v]))
    kb.store("y", float64, (n, n), (i, j), a[i, j] * rsqrt(r[i]) * rsqrt(c[j]))
    kb.store("apart", float64, (n,), (i,), rows[i] * rsqrt(r[i]) - columns[i] * rsqrt(c[i]))
    kb.store("trace", float64, (1,), (i,), a[i, i] * rsqrt(r[i] * c[i]), (0,), combine="add")
    return kb.build()


C["equilibrated"] = """
#include <math.h>
void kernel(const double (*restrict a)[N], double (*restrict y)[N], double *restrict apart, double *restrict trace) {
  double r[N] = {0}, c[N] = {0}, down[N] = {0}, sum = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double v = fabs(a[i][j]);
      r[i] = v > r[i] ? v : r[i];
      c[j] = v > c[j] ? v : c[j];
    }
  for (int i = 0; i < N; i++) r[i] = 1 / sqrt(r[i]), c[i] = 1 / sqrt(c[i]);
  for (int i = 0; i < N; i++) {
    double row = 0;
    for (int j = 0; j < N; j++) {
      y[i][j] = a[i][j] * r[i] * c[j];
      row += fabs(y[i][j]);
      down[j] += fabs(y[i][j]);
    }
    apart[i] = row;
    sum += y[i][i];
  }
  for (int i = 0; i < N; i++) apart[i] -= down[i];
  *trace = sum;
}
"""


def equilibrated_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole matrices."""
    import numpy as np

    a = x["a"]
    y = a / np.sqrt(np.abs(a).max(axis=1, keepdims=True) * np.abs(a).max(axis=0))
    return {"y": y, "apart": np.abs(y).sum(axis=1) - np.abs(y).sum(axis=0), "trace": np.trace(y).reshape(1)}


def scored_confusion(n: int = 8009, c: int = 37) -> Kernel:
    """Scores by class: counts of (label, best class), the surest mistake of each label, and the sum of its chances."""
    kb = KernelBuilder("scored_confusion")
    i, k, l, o = kb.axis("n", n), kb.axis("c@best", c), kb.axis("c@sum", c), kb.axis("c@flag", c)
    x, label = kb.input("x", (n, c), float32), kb.input("label", (n,), uint8, range=(0, c - 1))
    best = kb.argmax("best", (i,), k, x[i, k])
    total = kb.sum("total", (i,), l, exp(x[i, l]))
    wrong = kb.value("wrong", (i,), exp(x[i, best[i]]) / total[i])
    chance = exp(x[i, label[i]]) / total[i]
    kb.store("many", int32, (c, c), (i,), 1, (label[i], best[i]), combine="add")
    kb.store("worst", float32, (c,), (i,), where(best[i].eq(cast(label[i], int32)), 0.0, wrong[i]), (label[i],), combine="max")
    kb.store("mass", float32, (c,), (i,), chance, (label[i],), combine="add")
    kb.store("hit", uint8, (n, c), (i, o), cast(cast(o, int32).eq(best[i]), uint8))
    return kb.build()


C["scored_confusion"] = """
#include <math.h>
void kernel(const float (*restrict x)[C_], const unsigned char *restrict label, int (*restrict many)[C_], float *restrict worst,
            float *restrict mass, unsigned char (*restrict hit)[C_]) {
  for (int k = 0; k < C_; k++) {
    worst[k] = -INFINITY;
    mass[k] = 0;
    for (int l = 0; l < C_; l++) many[k][l] = 0;
  }
  for (int i = 0; i < N; i++) {
    int best = 0, at = label[i];
    float total = 0;
    for (int k = 0; k < C_; k++) {
      best = x[i][k] > x[i][best] ? k : best;
      total += expf(x[i][k]);
      hit[i][k] = 0;
    }
    hit[i][best] = 1;
    float wrong = best == at ? 0 : expf(x[i][best]) / total;
    many[at][best]++;
    worst[at] = wrong > worst[at] ? wrong : worst[at];
    mass[at] += expf(x[i][at]) / total;
  }
}
""".replace("C_", "C")


def scored_confusion_numpy(x: Arrays, s: Sizes) -> Arrays:
    """ufunc.at."""
    import numpy as np

    v, at, i, c = x["x"].astype(np.float64), x["label"], np.arange(s["n"]), s["c"]
    best, p = v.argmax(axis=1), np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)
    many, worst, mass = np.zeros((c, c), np.int32), np.full(c, -np.inf), np.zeros(c)
    np.add.at(many, (at, best), 1)
    np.maximum.at(worst, at, np.where(best == at, 0, p[i, best]))
    np.add.at(mass, at, p[i, at])
    return {"many": many, "worst": worst, "mass": mass, "hit": (best[:, None] == np.arange(c)).astype(np.uint8)}


def time_and_class(s: int = 509, d: int = 194) -> Kernel:
    """A model's positions in bfloat16: sines and cosines of halves, interleaved, times a gain, and a bias of distance down to the end."""
    kb = KernelBuilder("time_and_class")
    i, j, p = kb.axis("s", s), kb.axis("half", d // 2), kb.axis("half@sum", d // 2)
    rate, gain = kb.input("rate", (d // 2,), float32, range=(0.0, 0.1)), kb.input("gain", (d,), bfloat16)
    turn = cast(i, float32) * rate[j]
    last = i.eq(s - 1)
    kb.store("y", bfloat16, (s, d), (i, j), sin(turn) * gain[2 * j], (i, 2 * j))
    kb.store("y", bfloat16, (s, d), (i, j), cos(turn) * gain[2 * j + 1], (s - 1 - i, d - 1 - 2 * j))
    power = kb.sum("power", (i,), p, (cast(i, float32) * rate[p] + cast(p, float32)) * where(last, 2.0, 1.0))
    kb.store("slope", float32, (s,), (i,), maximum(power[i], cast(s - i, float32)), (s - 1 - i,))
    return kb.build()


C["time_and_class"] = """
#include <math.h>
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
void kernel(const float *restrict rate, const bf16 *restrict gain, bf16 (*restrict y)[D], float *restrict slope) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    float power = 0;
    for (int j = 0; j < D / 2; j++) {
      float turn = i * rate[j];
      y[i][2 * j] = narrow(sinf(turn) * wide(gain[2 * j]));
      y[S - 1 - i][D - 1 - 2 * j] = narrow(cosf(turn) * wide(gain[2 * j + 1]));
      power += (turn + j) * (i == S - 1 ? 2 : 1);
    }
    slope[S - 1 - i] = power > S - i ? power : S - i;
  }
}
"""


def time_and_class_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Turns in float32, whose sines are taken in float64."""
    import numpy as np

    i, g = np.arange(s["s"], dtype=np.float32), x["gain"].astype(np.float64)
    turn = (i[:, None] * x["rate"]).astype(np.float64)
    y = np.empty((s["s"], s["d"]))
    y[:, ::2] = np.sin(turn) * g[::2]
    y[::-1, ::-1][:, ::2] = np.cos(turn) * g[1::2]
    power = (turn + np.arange(s["d"] // 2)).sum(axis=1) * np.where(i == s["s"] - 1, 2, 1)
    return {"y": y, "slope": np.maximum(power, s["s"] - i)[::-1]}
