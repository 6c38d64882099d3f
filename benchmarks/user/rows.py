"""Statistics of rows, and scans, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, float32

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "row_statistics": ("row statistics", {"m": 5, "n": 37}),
    "drawdown": ("scans", {"b": 5, "t": 37}),
    "linear_recurrence": ("scans", {"b": 5, "t": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def row_statistics(m: int = 2048, n: int = 2048) -> Kernel:
    """Mean, variance, least and largest element of every row."""
    kb = KernelBuilder("row_statistics")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("mean", "var", "min", "max"))
    x = kb.input("x", (m, n), float32)
    mean = kb.value("mean", (i,), kb.sum("total", (i,), a, x[i, a])[i] * (1.0 / n))
    var = kb.sum("squares", (i,), b, (x[i, b] - mean[i]) * (x[i, b] - mean[i]))
    least, largest = kb.min("least", (i,), c, x[i, c]), kb.max("largest", (i,), d, x[i, d])
    kb.store("means", float32, (m,), (i,), mean[i])
    kb.store("variances", float32, (m,), (i,), var[i] * (1.0 / n))
    kb.store("minima", float32, (m,), (i,), least[i])
    kb.store("maxima", float32, (m,), (i,), largest[i])
    return kb.build()


C["row_statistics"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], float *restrict means, float *restrict variances,
            float *restrict minima, float *restrict maxima) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float total = 0, squares = 0, least = x[i][0], largest = x[i][0];
    for (int j = 0; j < N; j++) {
      total += x[i][j];
      least = fminf(least, x[i][j]);
      largest = fmaxf(largest, x[i][j]);
    }
    float mean = total / N;
    for (int j = 0; j < N; j++) squares += (x[i][j] - mean) * (x[i][j] - mean);
    means[i] = mean;
    variances[i] = squares / N;
    minima[i] = least;
    maxima[i] = largest;
  }
}
"""


def row_statistics_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a = x["x"].astype(np.float64)
    return {"means": a.mean(axis=1), "variances": a.var(axis=1), "minima": a.min(axis=1), "maxima": a.max(axis=1)}


def drawdown(b: int = 512, t: int = 4096) -> Kernel:
    """How far a running sum lies below its largest value so far: two scans over time."""
    kb = KernelBuilder("drawdown")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x = kb.input("x", (b, t), float32)
    total = kb.scan("add", "total", (i, j), j, x[i, j])
    top = kb.scan("max", "top", (i, j), j, total[i, j])
    kb.store("y", float32, (b, t), (i, j), top[i, j] - total[i, j])
    return kb.build()


C["drawdown"] = """
#include <math.h>
void kernel(const float (*restrict x)[T], float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total = 0, top = -INFINITY;
    for (int j = 0; j < T; j++) {
      total += x[i][j];
      top = fmaxf(top, total);
      y[i][j] = top - total;
    }
  }
}
"""


def drawdown_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Accumulations in float64."""
    import numpy as np

    total = x["x"].astype(np.float64).cumsum(axis=1)
    return {"y": np.maximum.accumulate(total, axis=1) - total}


def linear_recurrence(b: int = 512, t: int = 4096) -> Kernel:
    """h[t] = a[t] · h[t − 1] + x[t]: a leaky sum whose leak changes."""
    kb = KernelBuilder("linear_recurrence")
    i, j = kb.axis("b", b), kb.axis("t", t)
    a, x = kb.input("a", (b, t), float32, range=(0, 1)), kb.input("x", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, h = kb.associative_scan(("product", "h"), (i, j), j, (a[i, j], x[i, j]), (1.0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), h[i, j])
    return kb.build()


C["linear_recurrence"] = """
void kernel(const float (*restrict a)[T], const float (*restrict x)[T], float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float h = 0;
    for (int j = 0; j < T; j++) y[i][j] = h = a[i][j] * h + x[i][j];
  }
}
"""


def linear_recurrence_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step of time for all rows at once."""
    import numpy as np

    y, h = np.empty((s["b"], s["t"])), np.zeros(s["b"])
    for j in range(s["t"]):
        y[:, j] = h = x["a"][:, j].astype(np.float64) * h + x["x"][:, j]
    return {"y": y}
