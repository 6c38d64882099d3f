"""Rows as long as data says, padded to a common length, as users write them, with the same loops in C and NumPy's answers
(stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, maximum, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "neighbours_mean": ("rows of lengths from data", {"n": 19, "l": 5, "d": 11}),
    "counted_matvec": ("rows of lengths from data", {"n": 37, "l": 9}),
    "padded_mean": ("rows of lengths from data", {"b": 5, "t": 13, "d": 7}),
    "padded_squares": ("rows of lengths from data", {"b": 7, "t": 45}),
    "present_mean": ("rows of lengths from data", {"n": 19, "l": 5, "d": 11}),
    "bags_most": ("rows of lengths from data", {"n": 19, "l": 5, "d": 11}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def neighbours_mean(n: int = 8192, l: int = 24, d: int = 64) -> Kernel:
    """The mean of the rows of each node's neighbours, of which it has at most l."""
    kb = KernelBuilder("neighbours_mean")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    x, many = kb.input("x", (n, d), float32), kb.input("many", (n,), int32, range=(0, l))
    at = kb.input("at", (n, l), int32, range=(0, n - 1))
    total = kb.sum("total", (i, f), k, where(cast(k, int32) < many[i], x[cast(at[i, k], "int64"), f], 0.0))
    kb.store("y", float32, (n, d), (i, f), total[i, f] / cast(maximum(many[i], 1), float32))
    return kb.build()


C["neighbours_mean"] = """
void kernel(const float (*restrict x)[D], const int *restrict many, const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0};
    for (int k = 0; k < many[i]; k++)
      for (int f = 0; f < D; f++) total[f] += x[at[i][k]][f];
    float of = many[i] > 1 ? many[i] : 1;
    for (int f = 0; f < D; f++) y[i][f] = total[f] / of;
  }
}
"""


def neighbours_mean_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Picked rows times a mask."""
    import numpy as np

    there = np.arange(s["l"])[None, :] < x["many"][:, None]
    total = (x["x"].astype(np.float64)[x["at"]] * there[:, :, None]).sum(axis=1)
    return {"y": total / np.maximum(x["many"], 1)[:, None]}


def counted_matvec(n: int = 16384, l: int = 48) -> Kernel:
    """A sparse matrix times a vector: of each padded row so many numbers count as it has."""
    kb = KernelBuilder("counted_matvec")
    i, k = kb.axis("n", n), kb.axis("l", l)
    value, x = kb.input("value", (n, l), float32), kb.input("x", (n,), float32)
    column, many = kb.input("column", (n, l), int32, range=(0, n - 1)), kb.input("many", (n,), int32, range=(0, l))
    total = kb.sum("total", (i,), k, where(k < cast(many[i], "int64"), value[i, k] * x[cast(column[i, k], "int64")], 0.0))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


C["counted_matvec"] = """
void kernel(const float (*restrict value)[L], const float *restrict x, const int (*restrict column)[L], const int *restrict many,
            float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int k = 0; k < many[i]; k++) total += value[i][k] * x[column[i][k]];
    y[i] = total;
  }
}
"""


def counted_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Picked numbers times a mask."""
    import numpy as np

    there = np.arange(s["l"])[None, :] < x["many"][:, None]
    return {"y": (x["value"].astype(np.float64) * x["x"][x["column"]] * there).sum(axis=1)}


def padded_mean(b: int = 64, t: int = 256, d: int = 128) -> Kernel:
    """The mean of each padded sequence's vectors."""
    kb = KernelBuilder("padded_mean")
    i, k, f = kb.axis("b", b), kb.axis("t", t), kb.axis("d", d)
    x, length = kb.input("x", (b, t, d), float32), kb.input("length", (b,), int32, range=(1, t))
    total = kb.sum("total", (i, f), k, where(cast(k, int32) < length[i], x[i, k, f], 0.0))
    kb.store("y", float32, (b, d), (i, f), total[i, f] / cast(length[i], float32))
    return kb.build()


C["padded_mean"] = """
void kernel(const float (*restrict x)[T][D], const int *restrict length, float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total[D] = {0};
    for (int k = 0; k < length[i]; k++)
      for (int f = 0; f < D; f++) total[f] += x[i][k][f];
    for (int f = 0; f < D; f++) y[i][f] = total[f] / length[i];
  }
}
"""


def padded_mean_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A masked sum over the padded length."""
    import numpy as np

    there = np.arange(s["t"])[None, :] < x["length"][:, None]
    return {"y": (x["x"].astype(np.float64) * there[:, :, None]).sum(axis=1) / x["length"][:, None]}


def padded_squares(b: int = 2048, t: int = 512) -> Kernel:
    """The sum of squared differences of two padded sequences, over the length of each."""
    kb = KernelBuilder("padded_squares")
    i, k = kb.axis("b", b), kb.axis("t", t)
    x, z = kb.input("x", (b, t), float32), kb.input("z", (b, t), float32)
    length = kb.input("length", (b,), int32, range=(0, t))
    apart = x[i, k] - z[i, k]
    kb.store("y", float32, (b,), (i,), kb.sum("total", (i,), k, where(cast(k, int32) < length[i], apart * apart, 0.0))[i])
    return kb.build()


C["padded_squares"] = """
void kernel(const float (*restrict x)[T], const float (*restrict z)[T], const int *restrict length, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total = 0;
    for (int k = 0; k < length[i]; k++) total += (x[i][k] - z[i][k]) * (x[i][k] - z[i][k]);
    y[i] = total;
  }
}
"""


def padded_squares_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A masked sum in float64."""
    import numpy as np

    there = np.arange(s["t"])[None, :] < x["length"][:, None]
    return {"y": (np.square(x["x"].astype(np.float64) - x["z"]) * there).sum(axis=1)}


def bags_most(n: int = 8192, l: int = 20, d: int = 48) -> Kernel:
    """The greatest of each feature among the rows of a table that a bag names; empty bags have −1e30."""
    kb = KernelBuilder("bags_most")
    i, k, f = kb.axis("n", n), kb.axis("l", l), kb.axis("d", d)
    x, many = kb.input("x", (1000, d), float32), kb.input("many", (n,), int32, range=(0, l))
    at = kb.input("at", (n, l), int32, range=(0, 999))
    most = kb.max("most", (i, f), k, where(cast(k, int32) < many[i], x[cast(at[i, k], "int64"), f], float("-inf")))
    kb.store("y", float32, (n, d), (i, f), maximum(most[i, f], -1e30))
    return kb.build()


C["bags_most"] = """
void kernel(const float (*restrict x)[D], const int *restrict many, const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float most[D];
    for (int f = 0; f < D; f++) most[f] = -1e30f;
    for (int k = 0; k < many[i]; k++)
      for (int f = 0; f < D; f++) most[f] = x[at[i][k]][f] > most[f] ? x[at[i][k]][f] : most[f];
    for (int f = 0; f < D; f++) y[i][f] = most[f];
  }
}
"""


def bags_most_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A masked maximum."""
    import numpy as np

    there = np.arange(s["l"])[None, :] < x["many"][:, None]
    return {"y": np.where(there[:, :, None], x["x"].astype(np.float64)[x["at"]], -1e30).max(axis=1)}


def present_mean(n: int = 8192, l: int = 24, d: int = 128) -> Kernel:
    """The mean of the picked rows that are present: a number below 0 picks none."""
    kb = KernelBuilder("present_mean")
    i, k, f, m = kb.axis("n", n), kb.axis("l@k", l), kb.axis("d", d), kb.axis("l@m", l)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n, l), int32, range=(-n, n - 1))
    there = at[i, k] >= 0
    total = kb.sum("total", (i, f), k, where(there, x[cast(maximum(at[i, k], 0), "int64"), f], 0.0))
    count = kb.sum("count", (i,), m, where(at[i, m] >= 0, cast(1, int32), cast(0, int32)))
    kb.store("y", float32, (n, d), (i, f), total[i, f] / cast(maximum(count[i], 1), float32))
    return kb.build()


C["present_mean"] = """
void kernel(const float (*restrict x)[D], const int (*restrict at)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total[D] = {0};
    int count = 0;
    for (int k = 0; k < L; k++)
      if (at[i][k] >= 0) {
        count++;
        for (int f = 0; f < D; f++) total[f] += x[at[i][k]][f];
      }
    for (int f = 0; f < D; f++) y[i][f] = total[f] / (count > 1 ? count : 1);
  }
}
"""


def present_mean_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Picked rows times a mask."""
    import numpy as np

    there = x["at"] >= 0
    total = (x["x"].astype(np.float64)[np.maximum(x["at"], 0)] * there[:, :, None]).sum(axis=1)
    return {"y": total / np.maximum(there.sum(axis=1), 1)[:, None]}
