"""Scans along rows, along columns and along one long array, as users write them, with the same loops in C and NumPy's
answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, where
from tilewright.ir.node import Node

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "column_sums": ("scans", {"h": 7, "w": 21}),
    "volume_integral": ("scans", {"d": 4, "h": 5, "w": 21}),
    "row_offsets": ("scans", {"h": 5, "w": 37}),
    "column_drawdown": ("scans", {"t": 9, "n": 21}),
    "leaky_columns": ("scans", {"t": 9, "n": 21}),
    "segmented_sums": ("scans", {"b": 5, "t": 37}),
    "long_scan": ("scans", {"n": 300}),
    "long_maximum": ("scans", {"n": 300}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def column_sums(h: int = 2048, w: int = 1024) -> Kernel:
    """Running sums down the columns."""
    kb = KernelBuilder("column_sums")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    total = kb.scan("add", "total", (i, j), i, x[i, j])
    kb.store("y", float32, (h, w), (i, j), total[i, j])
    return kb.build()


C["column_sums"] = """
void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
  for (int j = 0; j < W; j++) y[0][j] = x[0][j];
  for (int i = 1; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) y[i][j] = y[i - 1][j] + x[i][j];
}
"""


def column_sums_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum."""
    return {"y": x["x"].astype("float64").cumsum(axis=0)}


def volume_integral(d: int = 96, h: int = 128, w: int = 160) -> Kernel:
    """Sums of all that lies before, above and to the left in a volume."""
    kb = KernelBuilder("volume_integral")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    row = kb.scan("add", "row", (k, i, j), j, x[k, i, j])
    plane = kb.scan("add", "plane", (k, i, j), i, row[k, i, j])
    total = kb.scan("add", "total", (k, i, j), k, plane[k, i, j])
    kb.store("y", float32, (d, h, w), (k, i, j), total[k, i, j])
    return kb.build()


C["volume_integral"] = """
void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      float row = 0;
      for (int j = 0; j < W; j++) y[k][i][j] = row += x[k][i][j];
      if (i)
        for (int j = 0; j < W; j++) y[k][i][j] += y[k][i - 1][j];
    }
  for (int k = 1; k < D; k++)
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) y[k][i][j] += y[k - 1][i][j];
}
"""


def volume_integral_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum three times."""
    return {"y": x["x"].astype("float64").cumsum(axis=0).cumsum(axis=1).cumsum(axis=2)}


def row_offsets(h: int = 1024, w: int = 2048) -> Kernel:
    """Where each element of a row goes: the sums of the lengths before it (an exclusive scan)."""
    kb = KernelBuilder("row_offsets")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), int32, range=(0, 100))
    total = kb.scan("add", "total", (i, j), j, x.masked(j > 0, i, j - 1))
    kb.store("y", int32, (h, w), (i, j), total[i, j])
    return kb.build()


C["row_offsets"] = """
void kernel(const int (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0, total = 0; j < W; j++) {
      y[i][j] = total;
      total += x[i][j];
    }
}
"""


def row_offsets_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum, less the element."""
    return {"y": x["x"].cumsum(axis=1) - x["x"]}


def column_drawdown(t: int = 2048, n: int = 1024) -> Kernel:
    """How far each of many series is below its highest value so far; a row is a moment."""
    kb = KernelBuilder("column_drawdown")
    i, j = kb.axis("t", t), kb.axis("n", n)
    x = kb.input("x", (t, n), float32)
    top = kb.scan("max", "top", (i, j), i, x[i, j])
    kb.store("y", float32, (t, n), (i, j), top[i, j] - x[i, j])
    return kb.build()


C["column_drawdown"] = """
void kernel(const float (*restrict x)[N], float (*restrict y)[N]) {
  float top[N];
  for (int j = 0; j < N; j++) top[j] = x[0][j];
  for (int i = 0; i < T; i++)
    for (int j = 0; j < N; j++) {
      top[j] = top[j] > x[i][j] ? top[j] : x[i][j];
      y[i][j] = top[j] - x[i][j];
    }
}
"""


def column_drawdown_numpy(x: Arrays, s: Sizes) -> Arrays:
    """maximum.accumulate."""
    import numpy as np

    a = x["x"].astype("float64")
    return {"y": np.maximum.accumulate(a, axis=0) - a}


def _leaky(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
    return before[0] * after[0], before[1] * after[0] + after[1]


def leaky_columns(t: int = 2048, n: int = 1024) -> Kernel:
    """h[t] = a[t] · h[t − 1] + x[t] of many channels; a row is a moment."""
    kb = KernelBuilder("leaky_columns")
    i, j = kb.axis("t", t), kb.axis("n", n)
    a, x = kb.input("a", (t, n), float32, range=(0, 1)), kb.input("x", (t, n), float32)
    _, h = kb.associative_scan(("product", "h"), (i, j), i, (a[i, j], x[i, j]), (1.0, 0.0), _leaky)
    kb.store("y", float32, (t, n), (i, j), h[i, j])
    return kb.build()


C["leaky_columns"] = """
void kernel(const float (*restrict a)[N], const float (*restrict x)[N], float (*restrict y)[N]) {
  for (int j = 0; j < N; j++) y[0][j] = x[0][j];
  for (int i = 1; i < T; i++)
    for (int j = 0; j < N; j++) y[i][j] = a[i][j] * y[i - 1][j] + x[i][j];
}
"""


def leaky_columns_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step at a time."""
    import numpy as np

    a, y = x["a"].astype("float64"), x["x"].astype("float64")
    for i in range(1, s["t"]):
        y[i] += a[i] * y[i - 1]
    return {"y": np.array(y)}


def segmented_sums(b: int = 512, t: int = 4096) -> Kernel:
    """Running sums of rows that begin anew wherever a flag is set."""
    kb = KernelBuilder("segmented_sums")
    i, j = kb.axis("b", b), kb.axis("t", t)
    start, x = kb.input("start", (b, t), int32, range=(0, 1)), kb.input("x", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
        return before[0] | after[0], where(after[0].ne(0), after[1], before[1] + after[1])

    _, h = kb.associative_scan(("any", "h"), (i, j), j, (start[i, j], x[i, j]), (0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), h[i, j])
    return kb.build()


C["segmented_sums"] = """
void kernel(const int (*restrict start)[T], const float (*restrict x)[T], float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float h = 0;
    for (int j = 0; j < T; j++) y[i][j] = h = start[i][j] ? x[i][j] : h + x[i][j];
  }
}
"""


def segmented_sums_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step at a time."""
    y = x["x"].astype("float64")
    for j in range(1, s["t"]):
        y[:, j] += (x["start"][:, j] == 0) * y[:, j - 1]
    return {"y": y}


def long_scan(n: int = 10_000_000) -> Kernel:
    """Running sums of one long array."""
    kb = KernelBuilder("long_scan")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    total = kb.scan("add", "total", (i,), i, x[i])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


C["long_scan"] = """
void kernel(const float *restrict x, float *restrict y) {
  float total = 0;
  for (int i = 0; i < N; i++) y[i] = total += x[i];
}
"""


def long_scan_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum."""
    return {"y": x["x"].astype("float64").cumsum()}


def long_maximum(n: int = 10_000_000) -> Kernel:
    """The largest of all before, and the mean of that and of the element."""
    kb = KernelBuilder("long_maximum")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    top = kb.scan("max", "top", (i,), i, x[i])
    kb.store("y", float32, (n,), (i,), (top[i] + x[i]) * 0.5)
    return kb.build()


C["long_maximum"] = """
void kernel(const float *restrict x, float *restrict y) {
  float top = x[0];
  for (int i = 0; i < N; i++) {
    top = top > x[i] ? top : x[i];
    y[i] = (top + x[i]) * 0.5f;
  }
}
"""


def long_maximum_numpy(x: Arrays, s: Sizes) -> Arrays:
    """maximum.accumulate."""
    import numpy as np

    a = x["x"].astype("float64")
    return {"y": (np.maximum.accumulate(a) + a) * 0.5}
