"""Half of a matrix, sequences under a window of weights, filters that adapt, weather on other levels, and two small statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, float32, float64, int16, int32, int64, log, maximum, minimum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "packed_symmetric": ("matrix-vector products", {"n": 23}),
    "motif_scores": ("gathers", {"n": 101, "k": 5}),
    "nlms_step": ("row statistics", {"c": 7, "k": 19}),
    "levels_of_pressure": ("scans", {"l": 6, "t": 3, "h": 2, "w": 9}),
    "multiclass_hinge": ("gradients", {"m": 7, "n": 21}),
    "table_information": ("row statistics", {"b": 5, "r": 3, "c": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def packed_symmetric(n: int = 701) -> Kernel:
    """A symmetric matrix times a vector, of which only the upper triangle is kept, row after row without gaps."""
    kb = KernelBuilder("packed_symmetric")
    i, j = kb.axis("n@row", n), kb.axis("n@column", n)
    a, x = kb.input("a", (n * (n + 1) // 2,), float64), kb.input("x", (n,), float64)
    lo, hi = minimum(i, j), maximum(i, j)
    dot = kb.sum("dot", (i,), j, a[lo * n - lo * (lo - 1) // 2 + hi - lo] * x[j])
    kb.store("y", float64, (n,), (i,), dot[i])
    return kb.build()


C["packed_symmetric"] = """
void kernel(const double *restrict a, const double *restrict x, double *restrict y) {
  for (int i = 0; i < N; i++) y[i] = 0;
  for (int i = 0; i < N; i++) {
    const double *row = a + (long)i * N - (long)i * (i - 1) / 2 - i;
    double dot = 0;
    for (int j = i + 1; j < N; j++) {
      dot += row[j] * x[j];
      y[j] += row[j] * x[i];
    }
    y[i] += dot + row[i] * x[i];
  }
}
"""


def packed_symmetric_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The whole matrix."""
    import numpy as np

    full = np.zeros((s["n"], s["n"]))
    full[np.triu_indices(s["n"])] = x["a"]
    return {"y": (full + np.triu(full, 1).T) @ x["x"]}


def motif_scores(n: int = 40009, k: int = 12) -> Kernel:
    """How well a motif of k letters fits a genome at each place, on the better strand, and which that is."""
    kb = KernelBuilder("motif_scores")
    i, p, q = kb.axis("n", n), kb.axis("k@there", k), kb.axis("k@back", k)
    letter, w = kb.input("letter", (n + k - 1,), uint8, range=(0, 3)), kb.input("w", (k, 4), float32)
    there = kb.sum("there", (i,), p, w[p, cast(letter[i + p], int64)])
    back = kb.sum("back", (i,), q, w[k - 1 - q, 3 - cast(letter[i + q], int64)])
    kb.store("score", float32, (n,), (i,), maximum(there[i], back[i]))
    kb.store("sum", float32, (n,), (i,), there[i] + back[i])
    return kb.build()


C["motif_scores"] = """
void kernel(const unsigned char *restrict letter, const float (*restrict w)[4], float *restrict score, float *restrict sum) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float there = 0, back = 0;
    for (int p = 0; p < K; p++) {
      there += w[p][letter[i + p]];
      back += w[K - 1 - p][3 - letter[i + p]];
    }
    score[i] = there > back ? there : back;
    sum[i] = there + back;
  }
}
"""


def motif_scores_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Letters as windows."""
    import numpy as np

    l, w, k = np.lib.stride_tricks.sliding_window_view(x["letter"].astype(int), s["k"]), x["w"].astype(np.float64), np.arange(s["k"])
    there, back = w[k, l].sum(axis=1), w[s["k"] - 1 - k, 3 - l].sum(axis=1)
    return {"score": np.maximum(there, back), "sum": there + back}


def nlms_step(c: int = 2003, k: int = 67) -> Kernel:
    """A step of an echo canceller (normalised LMS) on each of many lines, in float64: what is left, and the new taps."""
    kb = KernelBuilder("nlms_step")
    i, p, q, o = kb.axis("c", c), kb.axis("k@dot", k), kb.axis("k@power", k), kb.axis("k@out", k)
    x, w = kb.input("x", (c, k), float64), kb.input("w", (c, k), float64)
    heard = kb.input("heard", (c,), float64)
    guess, power = kb.sum("guess", (i,), p, w[i, p] * x[i, p]), kb.sum("power", (i,), q, x[i, q] ** 2)
    left = kb.value("rest", (i,), heard[i] - guess[i])
    kb.store("left", float64, (c,), (i,), left[i])
    kb.store("taps", float64, (c, k), (i, o), w[i, o] + 0.5 * left[i] / (power[i] + 1e-3) * x[i, o])
    return kb.build()


C["nlms_step"] = """
static double line(const double *restrict x, const double *restrict w, double heard, double *restrict taps) {
  double guess = 0, power = 0;
  for (int p = 0; p < K; p++) {
    guess += w[p] * x[p];
    power += x[p] * x[p];
  }
  double left = heard - guess, by = 0.5 * left / (power + 1e-3);
  for (int p = 0; p < K; p++) taps[p] = w[p] + by * x[p];
  return left;
}
void kernel(const double (*restrict x)[K], const double (*restrict w)[K], const double *restrict heard, double *restrict left,
            double (*restrict taps)[K]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) left[i] = line(x[i], w[i], heard[i], taps[i]);
}
"""


def nlms_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    left = x["heard"] - np.einsum("ck,ck->c", x["w"], x["x"])
    by = 0.5 * left / ((x["x"] ** 2).sum(axis=1) + 1e-3)
    return {"left": left, "taps": x["w"] + by[:, None] * x["x"]}


def levels_of_pressure(l: int = 20, t: int = 5, h: int = 33, w: int = 45) -> Kernel:
    """A field on a model's levels, whose pressures add up from the top, linearly at some pressures that are asked for."""
    kb = KernelBuilder("levels_of_pressure")
    k, b, a, i, j = kb.axis("l", l), kb.axis("below", l - 1), kb.axis("t", t), kb.axis("h", h), kb.axis("w", w)
    x, thick = kb.input("x", (l, h, w), float32), kb.input("thick", (l, h, w), float32, range=(10.0, 40.0))
    want = kb.input("want", (t,), float32, range=(45.0, 195.0) if l > 19 else (45.0, 59.0))
    press = kb.scan("add", "press", (k, i, j), k, thick[k, i, j])
    above, under = press[b, i, j], press[b + 1, i, j]
    part = (want[a] - above) / (under - above)
    mixed = x[b, i, j] + part * (x[b + 1, i, j] - x[b, i, j])
    at = kb.sum("at", (a, i, j), b, where((above <= want[a]) & (want[a] < under), mixed, 0.0))
    kb.store("y", float32, (t, h, w), (a, i, j), at[a, i, j])
    return kb.build()


C["levels_of_pressure"] = """
static void level(const float *restrict x, const float *restrict below, const float *restrict above, const float *restrict under, float want,
                  float *restrict y) {
  for (int j = 0; j < H * W; j++) {
    float v = x[j] + (want - above[j]) / (under[j] - above[j]) * (below[j] - x[j]);
    y[j] = above[j] <= want && want < under[j] ? v : y[j];
  }
}
void kernel(const float (*restrict x)[H * W], const float (*restrict thick)[H * W], const float *restrict want, float (*restrict y)[H * W]) {
  static float press[L][H * W];
  for (int j = 0; j < H * W; j++) press[0][j] = thick[0][j];
  for (int k = 1; k < L; k++)
    for (int j = 0; j < H * W; j++) press[k][j] = press[k - 1][j] + thick[k][j];
#pragma omp parallel for
  for (int a = 0; a < T; a++) {
    for (int j = 0; j < H * W; j++) y[a][j] = 0;
    for (int k = 0; k + 1 < L; k++) level(x[k], x[k + 1], press[k], press[k + 1], want[a], y[a]);
  }
}
"""


def levels_of_pressure_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A level at a time, in float64."""
    import numpy as np

    v, press = x["x"].astype(np.float64), x["thick"].astype(np.float64).cumsum(axis=0)
    y = np.zeros((s["t"], s["h"], s["w"]))
    for a, want in enumerate(x["want"].astype(np.float64)):
        for k in range(s["l"] - 1):
            part = (want - press[k]) / (press[k + 1] - press[k])
            y[a] = np.where((press[k] <= want) & (want < press[k + 1]), v[k] + part * (v[k + 1] - v[k]), y[a])
    return {"y": y}


def multiclass_hinge(m: int = 901, n: int = 101) -> Kernel:
    """The hinge loss of Weston and Watkins for scores of n classes, and its gradient in bfloat16."""
    kb = KernelBuilder("multiclass_hinge")
    i, p, q, j = kb.axis("m", m), kb.axis("n@loss", n), kb.axis("n@hits", n), kb.axis("n@grad", n)
    x, label = kb.input("x", (m, n), float32), kb.input("label", (m,), int16, range=(0, n - 1))
    mine = kb.value("mine", (i,), x[i, cast(label[i], int64)])

    def over(k: Any) -> Any:
        return where(cast(k, int32).eq(cast(label[i], int32)), 0.0, maximum(x[i, k] - mine[i] + 1.0, 0.0))

    loss = kb.sum("total", (i,), p, over(p))
    hits = kb.sum("hits", (i,), q, cast(over(q) > 0.0, int32))
    grad = where(cast(j, int32).eq(cast(label[i], int32)), -cast(hits[i], float32), cast(over(j) > 0.0, float32))
    kb.store("loss", float32, (m,), (i,), loss[i])
    kb.store("grad", bfloat16, (m, n), (i, j), grad * (1.0 / m))
    return kb.build()


C["multiclass_hinge"] = """
typedef unsigned short bf16;
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static float row(const float *restrict x, int label, bf16 *restrict grad) {
  float loss = 0, least = x[label] - 1;
  int hits = 0;
  bf16 one = narrow(1.0f / M);
  for (int j = 0; j < N; j++) {
    float over = x[j] - least;
    int hit = over > 0;
    loss += hit ? over : 0;
    hits += hit;
    grad[j] = hit ? one : 0;
  }
  grad[label] = narrow((1 - hits) * (1.0f / M));
  return loss - 1;
}
void kernel(const float (*restrict x)[N], const short *restrict label, float *restrict loss, bf16 (*restrict grad)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) loss[i] = row(x[i], label[i], grad[i]);
}
"""


def multiclass_hinge_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, as the hits hang on it."""
    import numpy as np

    rows, a, t = np.arange(s["m"]), x["x"], x["label"]
    over = np.maximum(a - a[rows, t][:, None] + np.float32(1), 0)
    over[rows, t] = 0
    grad = (over > 0).astype(np.float64)
    grad[rows, t] = -grad.sum(axis=1)
    return {"loss": over.astype(np.float64).sum(axis=1), "grad": grad / s["m"]}


def table_information(b: int = 1201, r: int = 7, c: int = 9) -> Kernel:
    """The mutual information of rows and columns of many contingency tables of counts, in float64."""
    kb = KernelBuilder("table_information")
    i, (p, q, u, v) = kb.axis("b", b), (kb.axis(f"r@{k}", r) for k in ("all", "column", "row", "out"))
    (pc, qc, uc, vc) = (kb.axis(f"c@{k}", c) for k in ("all", "column", "row", "out"))
    x = kb.input("x", (b, r, c), int32, range=(1, 200))
    total = kb.sum("total", (i,), (p, pc), x[i, p, pc])
    column, row = kb.sum("column", (i, qc), q, x[i, q, qc]), kb.sum("row", (i, u), uc, x[i, u, uc])

    def real(a: Any) -> Any:
        return cast(a, float64)

    n, k = real(total[i]), real(x[i, v, vc])
    info = kb.sum("info", (i,), (v, vc), k / n * log(k * n / (real(row[i, v]) * real(column[i, vc]))))
    kb.store("y", float64, (b,), (i,), info[i])
    return kb.build()


C["table_information"] = """
#include <math.h>
static double table(const int (*restrict x)[C]) {
  const int *flat = x[0];
  int total = 0, column[C] = {0}, row[R] = {0};
  for (int u = 0; u < R; u++)
    for (int v = 0; v < C; v++) {
      row[u] += x[u][v];
      column[v] += x[u][v];
    }
  for (int u = 0; u < R; u++) total += row[u];
  double info = 0, n = total, share[R * C];
  for (int u = 0; u < R; u++)
    for (int v = 0; v < C; v++) share[u * C + v] = x[u][v] * n / ((double)row[u] * column[v]);
  for (int k = 0; k < R * C; k++) info += flat[k] * log(share[k]);
  return info / n;
}
void kernel(const int (*restrict x)[R][C], double *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) y[i] = table(x[i]);
}
"""


def table_information_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    k = x["x"].astype(np.float64)
    n = k.sum(axis=(1, 2), keepdims=True)
    return {"y": (k / n * np.log(k * n / (k.sum(axis=2, keepdims=True) * k.sum(axis=1, keepdims=True)))).sum(axis=(1, 2))}
