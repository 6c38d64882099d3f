"""Sparse matrices, and banks of filters, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, cos, float32, int32, sin
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "block_sparse": ("gathers", {"r": 5, "l": 3, "c": 7}),
    "triplet_matvec": ("histogram", {"z": 101, "m": 13, "n": 11}),
    "tones": ("products of computed operands", {"b": 5, "k": 3, "n": 29}),
    "biquads": ("scans", {"b": 5, "t": 23}),
    "resampled": ("gathers", {"b": 3, "n": 41, "m": 29}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def block_sparse(r: int = 512, l: int = 12, c: int = 512) -> Kernel:
    """A sparse matrix of dense 4 × 4 blocks, l in each row of blocks, times a vector."""
    kb = KernelBuilder("block_sparse")
    i, p, k, q = kb.axis("r", r), kb.axis("p", 4), kb.axis("l", l), kb.axis("q", 4)
    a, x = kb.input("a", (r, l, 4, 4), float32), kb.input("x", (c * 4,), float32)
    column = kb.input("column", (r, l), int32, range=(0, c - 1))
    total = kb.sum("total", (i, p), (k, q), a[i, k, p, q] * x[cast(column[i, k], "int64") * 4 + q])
    kb.store("y", float32, (r * 4,), (i, p), total[i, p], (i * 4 + p,))
    return kb.build()


C["block_sparse"] = """
void kernel(const float (*restrict a)[L][4][4], const float *restrict x, const int (*restrict column)[L], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < R; i++) {
    float total[4] = {0};
    for (int k = 0; k < L; k++)
      for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) total[p] += a[i][k][p][q] * x[column[i][k] * 4 + q];
    for (int p = 0; p < 4; p++) y[i * 4 + p] = total[p];
  }
}
"""


def block_sparse_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum of gathered blocks."""
    import numpy as np

    blocks = x["x"].astype(np.float64).reshape(-1, 4)[x["column"]]
    return {"y": np.einsum("ikpq,ikq->ip", x["a"].astype(np.float64), blocks).reshape(-1)}


def triplet_matvec(z: int = 1 << 19, m: int = 16384, n: int = 16384) -> Kernel:
    """A sparse matrix as a list of (row, column, number), in any order, times a vector."""
    kb = KernelBuilder("triplet_matvec")
    i = kb.axis("z", z)
    row, column = kb.input("row", (z,), int32, range=(0, m - 1)), kb.input("column", (z,), int32, range=(0, n - 1))
    value, x = kb.input("value", (z,), float32), kb.input("x", (n,), float32)
    part = value[i] * x[cast(column[i], "int64")]
    kb.store("y", float32, (m,), (i,), part, (cast(row[i], "int64"),), combine="add")
    return kb.build()


C["triplet_matvec"] = """
void kernel(const int *restrict row, const int *restrict column, const float *restrict value, const float *restrict x,
            float *restrict y) {
  for (int i = 0; i < M; i++) y[i] = 0;
  for (int i = 0; i < Z; i++) y[row[i]] += value[i] * x[column[i]];
}
"""


def triplet_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount with weights."""
    import numpy as np

    return {"y": np.bincount(x["row"], x["value"].astype(np.float64) * x["x"][x["column"]], s["m"])}


def tones(b: int = 512, k: int = 16, n: int = 205) -> Kernel:
    """How strong each of k tones is in blocks of samples, by sums with their sines and cosines (in place of Goertzel's filter)."""
    kb = KernelBuilder("tones")
    i, f, t, t2 = kb.axis("b", b), kb.axis("k", k), kb.axis("n@re", n), kb.axis("n@im", n)
    x, turn = kb.input("x", (b, n), float32), kb.input("turn", (k,), float32, range=(0.4, 2.8))
    re = kb.sum("re", (i, f), t, x[i, t] * cos(turn[f] * cast(t, float32)))
    im = kb.sum("im", (i, f), t2, x[i, t2] * sin(turn[f] * cast(t2, float32)))
    kb.store("y", float32, (b, k), (i, f), re[i, f] * re[i, f] + im[i, f] * im[i, f])
    return kb.build()


C["tones"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], const float *restrict turn, float (*restrict y)[K]) {
  float two[K];
  for (int f = 0; f < K; f++) two[f] = 2 * cosf(turn[f]);
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float p[K] = {0}, q[K] = {0};
    for (int t = 0; t < N; t++)
#pragma omp simd
      for (int f = 0; f < K; f++) {
        float now = x[i][t] + two[f] * p[f] - q[f];
        q[f] = p[f];
        p[f] = now;
      }
    for (int f = 0; f < K; f++) y[i][f] = p[f] * p[f] + q[f] * q[f] - two[f] * p[f] * q[f];
  }
}
"""


def tones_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A product with complex turns, whose angles are float32's."""
    import numpy as np

    angle = (x["turn"][None, :] * np.arange(s["n"], dtype=np.float32)[:, None]).astype(np.float64)
    return {"y": abs(x["x"].astype(np.float64) @ np.exp(1j * angle)) ** 2}


def biquads(b: int = 1024, t: int = 512) -> Kernel:
    """A resonant filter of second order with coefficients of its own for each channel: y = x + a·y₋₁ + c·y₋₂."""
    kb = KernelBuilder("biquads")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x, a = kb.input("x", (b, t), float32), kb.input("a", (b,), float32, range=(-0.9, 0.9))
    c = kb.input("c", (b,), float32, range=(-0.6, 0.0))

    def rule(p: tuple[Node, ...], q: tuple[Node, ...]) -> tuple[Node, ...]:
        m = [q[0] * p[0] + q[1] * p[2], q[0] * p[1] + q[1] * p[3], q[2] * p[0] + q[3] * p[2], q[2] * p[1] + q[3] * p[3]]
        return *m, q[0] * p[4] + q[1] * p[5] + q[4], q[2] * p[4] + q[3] * p[5] + q[5]

    zero = x[i, j] * 0.0
    start = (zero + a[i], zero + c[i], zero + 1.0, zero, x[i, j], zero)
    names = ("m11", "m12", "m21", "m22", "now", "before")
    scans = kb.associative_scan(names, (i, j), j, start, (1.0, 0.0, 0.0, 1.0, 0.0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), scans[4][i, j])
    return kb.build()


C["biquads"] = """
void kernel(const float (*restrict x)[T], const float *restrict a, const float *restrict c, float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float p = 0, q = 0;
    for (int j = 0; j < T; j++) {
      float now = x[i][j] + a[i] * p + c[i] * q;
      q = p;
      y[i][j] = p = now;
    }
  }
}
"""


def biquads_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step of all channels at a time."""
    import numpy as np

    a, c, p = x["a"].astype(np.float64), x["c"].astype(np.float64), x["x"].astype(np.float64).T
    y = np.zeros((s["t"] + 2, s["b"]))
    for j in range(s["t"]):
        y[j + 2] = p[j] + a * y[j + 1] + c * y[j]
    return {"y": y[2:].T}


def resampled(b: int = 64, n: int = 16384, m: int = 15053) -> Kernel:
    """Sounds at another rate, by a cubic through four neighbours (Catmull and Rom); where each lies is the same for all."""
    kb = KernelBuilder("resampled")
    i, j = kb.axis("b", b), kb.axis("m", m)
    x = kb.input("x", (b, n), float32)
    at, off = kb.input("at", (m,), int32, range=(1, n - 3)), kb.input("off", (m,), float32, range=(0.0, 1.0))
    p = [x[i, cast(at[j], "int64") + k] for k in (-1, 0, 1, 2)]
    t = off[j]
    c = (0.5 * (p[2] - p[0]), p[0] - 2.5 * p[1] + 2.0 * p[2] - 0.5 * p[3], 1.5 * (p[1] - p[2]) + 0.5 * (p[3] - p[0]))
    kb.store("y", float32, (b, m), (i, j), p[1] + t * (c[0] + t * (c[1] + t * c[2])))
    return kb.build()


C["resampled"] = """
void kernel(const float (*restrict x)[N], const int *restrict at, const float *restrict off, float (*restrict y)[M]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int j = 0; j < M; j++) {
      const float *p = x[i] + at[j] - 1;
      float t = off[j], c1 = 0.5f * (p[2] - p[0]), c2 = p[0] - 2.5f * p[1] + 2 * p[2] - 0.5f * p[3];
      y[i][j] = p[1] + t * (c1 + t * (c2 + t * (1.5f * (p[1] - p[2]) + 0.5f * (p[3] - p[0]))));
    }
}
"""


def resampled_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Four gathers."""
    import numpy as np

    p = [x["x"].astype(np.float64)[:, x["at"] + k] for k in (-1, 0, 1, 2)]
    t = x["off"].astype(np.float64)
    c1, c2, c3 = 0.5 * (p[2] - p[0]), p[0] - 2.5 * p[1] + 2 * p[2] - 0.5 * p[3], 1.5 * (p[1] - p[2]) + 0.5 * (p[3] - p[0])
    return {"y": p[1] + t * (c1 + t * (c2 + t * c3))}
