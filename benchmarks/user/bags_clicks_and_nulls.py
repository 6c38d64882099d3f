"""Columns with nulls, bags of quantised rows, layers quantised as they run, sparse logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    exp,
    float16,
    float32,
    float64,
    int8,
    int32,
    maximum,
    round_even,
    uint8,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "column_with_nulls": ("masks of bits", {"n": 7, "l": 3}),
    "quantised_bags": ("gathered rows", {"n": 13, "l": 5, "d": 7, "r": 31}),
    "layer_quantised_by_row": ("products of integers", {"m": 5, "k": 33, "n": 11}),
    "click_gradient": ("gathers and scatters", {"n": 29, "l": 5, "r": 41}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def column_with_nulls(n: int = 307, l: int = 128) -> Kernel:
    """Of each chunk of a column (8 l numbers; a bit says whether each is there): how many there are, their sum, least and largest."""
    kb = KernelBuilder("column_with_nulls")
    c = kb.axis("n", n)
    a, b, d, e = (kb.axis(f"l@{site}", 8 * l) for site in ("many", "sum", "least", "largest"))
    x, bits = kb.input("x", (n, 8 * l), float64), kb.input("bits", (n, l), uint8)

    def there(k: Any) -> Any:
        return ((bits[c, k // 8] >> cast(k % 8, uint8)) & 1) > 0

    kb.store("many", int32, (n,), (c,), kb.sum("count", (c,), a, there(a))[c])
    kb.store("sum", float64, (n,), (c,), kb.sum("total", (c,), b, where(there(b), x[c, b], 0.0))[c])
    kb.store("least", float64, (n,), (c,), kb.min("low", (c,), d, where(there(d), x[c, d], float("inf")))[c])
    kb.store("largest", float64, (n,), (c,), kb.max("high", (c,), e, where(there(e), x[c, e], float("-inf")))[c])
    return kb.build()


C["column_with_nulls"] = """
#include <math.h>
void kernel(const double (*restrict x)[8 * L], const unsigned char (*restrict bits)[L], int *restrict many, double *restrict sum,
            double *restrict least, double *restrict largest) {
#pragma omp parallel for
  for (int c = 0; c < N; c++) {
    int count = 0;
    double total = 0, low = INFINITY, high = -INFINITY;
    for (int k = 0; k < L; k++)
      for (int b = 0; b < 8; b++)
        if (bits[c][k] >> b & 1) {
          double v = x[c][8 * k + b];
          count++;
          total += v;
          low = v < low ? v : low;
          high = v > high ? v : high;
        }
    many[c] = count, sum[c] = total, least[c] = low, largest[c] = high;
  }
}
"""


def column_with_nulls_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By unpackbits."""
    import numpy as np

    there = np.unpackbits(x["bits"], axis=1, bitorder="little").astype(bool)
    v = x["x"]
    least, largest = np.where(there, v, np.inf).min(axis=1), np.where(there, v, -np.inf).max(axis=1)
    return {"many": there.sum(axis=1).astype(np.int32), "sum": np.where(there, v, 0).sum(axis=1), "least": least, "largest": largest}


def quantised_bags(n: int = 2503, l: int = 21, d: int = 64, r: int = 30_011) -> Kernel:
    """Weighted sums of the rows of a table that each bag names; a row is bytes, with a scale and a shift of 16 bits of its own."""
    kb = KernelBuilder("quantised_bags")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    table = kb.input("table", (r, d), uint8)
    scale, shift = kb.input("scale", (r,), float16, range=(0.001, 0.01)), kb.input("shift", (r,), float16, range=(-1.0, 0.0))
    at, weight = kb.input("at", (n, l), int32, range=(0, r - 1)), kb.input("weight", (n, l), float32, range=(0.0, 1.0))
    row = at[i, k]
    v = cast(table[row, f], float32) * cast(scale[row], float32) + cast(shift[row], float32)
    kb.store("y", float32, (n, d), (i, f), kb.sum("total", (i, f), k, weight[i, k] * v)[i, f])
    return kb.build()


C["quantised_bags"] = """
void kernel(const unsigned char (*restrict table)[D], const _Float16 *restrict scale, const _Float16 *restrict shift,
            const int (*restrict at)[L], const float (*restrict weight)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0}, shifts = 0;
    for (int k = 0; k < L; k++) {
      int row = at[i][k];
      float a = weight[i][k] * (float)scale[row];
      shifts += weight[i][k] * (float)shift[row];
      for (int f = 0; f < D; f++) total[f] += a * table[row][f];
    }
    for (int f = 0; f < D; f++) y[i][f] = total[f] + shifts;
  }
}
"""


def quantised_bags_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Picked rows, times weights."""
    import numpy as np

    rows = x["table"] * x["scale"].astype(np.float64)[:, None] + x["shift"].astype(np.float64)[:, None]
    return {"y": np.einsum("nl,nld->nd", x["weight"], rows[x["at"]])}


def layer_quantised_by_row(m: int = 61, k: int = 512, n: int = 383) -> Kernel:
    """A layer of int8 weights (a scale each output): each row of x is made int8 by its largest first; the product is of integers."""
    kb = KernelBuilder("layer_quantised_by_row")
    i, j, p, a, b = kb.axis("m", m), kb.axis("n", n), kb.axis("k@dot", k), kb.axis("k@top", k), kb.axis("k@row", k)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k), int8)
    scale, bias = kb.input("scale", (n,), float32, range=(0.001, 0.01)), kb.input("bias", (n,), float32)
    top = kb.max("top", (i,), a, absolute(x[i, a]))
    step = kb.value("step", (i,), maximum(top[i], 1e-9) * (1 / 127))
    q = kb.value("q", (i, b), cast(round_even(x[i, b] / step[i]), int8))
    dot = kb.sum("dot", (i, j), p, cast(q[i, p], int32) * cast(w[j, p], int32))
    kb.store("y", float32, (m, n), (i, j), cast(dot[i, j], float32) * (step[i] * scale[j]) + bias[j])
    return kb.build()


C["layer_quantised_by_row"] = """
#include <math.h>
void kernel(const float (*restrict x)[K], const signed char (*restrict w)[K], const float *restrict scale, const float *restrict bias,
            float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    signed char q[K];
    float top = 1e-9f;
    for (int k = 0; k < K; k++) top = fmaxf(top, fabsf(x[i][k]));
    float step = top * (1 / 127.0f);
    for (int k = 0; k < K; k++) q[k] = rintf(x[i][k] / step);
    for (int j = 0; j < N; j++) {
      int dot = 0;
      for (int k = 0; k < K; k++) dot += q[k] * w[j][k];
      y[i][j] = dot * (step * scale[j]) + bias[j];
    }
  }
}
"""


def layer_quantised_by_row_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In the same float32 up to the product."""
    import numpy as np

    step = np.maximum(abs(x["x"]).max(axis=1, keepdims=True), np.float32(1e-9)) * np.float32(1 / 127)
    dot = np.rint(x["x"] / step).astype(np.int64) @ x["w"].T.astype(np.int64)
    return {"y": dot * (step.astype(np.float64) * x["scale"]) + x["bias"]}


def click_gradient(n: int = 7001, l: int = 30, r: int = 100_003) -> Kernel:
    """Logistic regression on few of many hashed features: each example's error, the gradient, and how often each feature was there."""
    kb = KernelBuilder("click_gradient")
    i, k, e, c = kb.axis("n", n), kb.axis("l@dot", l), kb.axis("l@add", l), kb.axis("l@count", l)
    w, at = kb.input("w", (r,), float32, range=(-1.0, 1.0)), kb.input("at", (n, l), int32, range=(0, r - 1))
    value, y = kb.input("value", (n, l), float32, range=(0.0, 1.0)), kb.input("y", (n,), int8, range=(0, 1))
    dot = kb.sum("dot", (i,), k, w[at[i, k]] * value[i, k])
    off = kb.value("off", (i,), 1.0 / (exp(-dot[i]) + 1.0) - cast(y[i], float32))
    kb.store("error", float32, (n,), (i,), off[i])
    kb.store("gradient", float32, (r,), (i, e), off[i] * value[i, e], (at[i, e],), combine="add")
    kb.store("times", int32, (r,), (i, c), 1, (at[i, c],), combine="add")
    return kb.build()


C["click_gradient"] = """
#include <math.h>
#include <string.h>
void kernel(const float *restrict w, const int (*restrict at)[L], const float (*restrict value)[L], const signed char *restrict y,
            float *restrict error, float *restrict gradient, int *restrict times) {
  memset(gradient, 0, R * sizeof(float));
  memset(times, 0, R * sizeof(int));
  for (int i = 0; i < N; i++) {
    float dot = 0;
    for (int k = 0; k < L; k++) dot += w[at[i][k]] * value[i][k];
    float off = error[i] = 1 / (1 + expf(-dot)) - y[i];
    for (int k = 0; k < L; k++) gradient[at[i][k]] += off * value[i][k], times[at[i][k]]++;
  }
}
"""


def click_gradient_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By bincount."""
    import numpy as np

    off = 1 / (1 + np.exp(-(x["w"].astype(np.float64)[x["at"]] * x["value"]).sum(axis=1))) - x["y"]
    at = x["at"].ravel()
    gradient = np.bincount(at, (off[:, None] * x["value"]).ravel(), s["r"])
    return {"error": off, "gradient": gradient, "times": np.bincount(at, minlength=s["r"]).astype(np.int32)}
