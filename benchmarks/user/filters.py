"""Filters and potentials, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, sqrt
from tilewright.ir.functions import maximum, minimum
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "long_fir": ("signals", {"n": 70, "k": 9}),
    "decimate": ("signals", {"n": 40, "k": 8}),
    "short_fir": ("signals", {"n": 70, "k": 8}),
    "polyphase": ("signals", {"n": 40, "k": 8}),
    "coulomb": ("all-pairs forces", {"n": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def long_fir(n: int = 1 << 19, k: int = 255) -> Kernel:
    """A long filter."""
    kb = KernelBuilder("long_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), float32), kb.input("w", (k,), float32)
    total = kb.sum("total", (i,), l, x[i + l] * w[l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


C["long_fir"] = """
void kernel(const float *restrict x, const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int l = 0; l < K; l++) total += x[i + l] * w[l];
    y[i] = total;
  }
}
"""


def long_fir_numpy(x: Arrays, s: Sizes) -> Arrays:
    """correlate."""
    import numpy as np

    return {"y": np.correlate(x["x"].astype(np.float64), x["w"].astype(np.float64), mode="valid")}


def decimate(n: int = 1 << 18, k: int = 48) -> Kernel:
    """Every fourth sample of a filtered signal."""
    kb = KernelBuilder("decimate")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (4 * n + k,), float32), kb.input("w", (k,), float32)
    total = kb.sum("total", (i,), l, x[4 * i + l] * w[l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


C["decimate"] = """
static void some(const float *restrict x, const float *restrict w, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    float total = 0;
    for (int l = 0; l < K; l++) total += x[4 * i + l] * w[l];
    y[i] = total;
  }
}
void kernel(const float *restrict x, const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 64) some(x, w, y, i, i + 64 < N ? i + 64 : N);
}
"""


def decimate_numpy(x: Arrays, s: Sizes) -> Arrays:
    """correlate, of which every fourth."""
    import numpy as np

    y = np.correlate(x["x"].astype(np.float64), x["w"].astype(np.float64), mode="valid")
    return {"y": y[::4][: s["n"]]}


def short_fir(n: int = 1 << 21, k: int = 8) -> Kernel:
    """A short filter of 16-bit samples."""
    kb = KernelBuilder("short_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (k,), int16, range=(-4000, 4000))
    total = kb.sum("total", (i,), l, cast(x[i + l], int32) * cast(w[l], int32))
    kb.store("y", int16, (n,), (i,), cast(minimum(maximum(total[i] >> 15, -32768), 32767), int16))
    return kb.build()


C["short_fir"] = """
void kernel(const short *restrict x, const short *restrict w, short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int total = 0;
    for (int l = 0; l < K; l++) total += x[i + l] * w[l];
    total >>= 15;
    y[i] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
  }
}
"""


def short_fir_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole numbers."""
    import numpy as np

    total = np.correlate(x["x"].astype(np.int64), x["w"].astype(np.int64), mode="valid")
    return {"y": np.clip(total >> 15, -32768, 32767).astype(np.int16)}


def polyphase(n: int = 1 << 19, k: int = 32) -> Kernel:
    """16-bit samples at twice the rate: each of two phases has taps of its own."""
    kb = KernelBuilder("polyphase")
    i, p, l = kb.axis("n", n), kb.axis("phase", 2), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (2, k), int16, range=(-900, 900))
    total = kb.sum("total", (i, p), l, cast(x[i + l], int32) * cast(w[p, l], int32))
    kb.store("y", int16, (n, 2), (i, p), cast(minimum(maximum(total[i, p] >> 15, -32768), 32767), int16))
    return kb.build()


C["polyphase"] = """
void kernel(const short *restrict x, const short (*restrict w)[K], short (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int p = 0; p < 2; p++) {
      int total = 0;
      for (int l = 0; l < K; l++) total += x[i + l] * w[p][l];
      total >>= 15;
      y[i][p] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
    }
}
"""


def polyphase_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole numbers, one phase after the other."""
    import numpy as np

    both = [np.correlate(x["x"].astype(np.int64), row, mode="valid") for row in x["w"].astype(np.int64)]
    return {"y": np.clip(np.stack(both, axis=1) >> 15, -32768, 32767).astype(np.int16)}


def coulomb(n: int = 3072) -> Kernel:
    """The potential at every charge of all others, softened."""
    kb = KernelBuilder("coulomb")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y, z, q = (kb.input(name, (n,), float32) for name in "xyzq")
    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
    total = kb.sum("total", (i,), j, q[j] / sqrt(dx * dx + dy * dy + dz * dz + 0.01))
    kb.store("v", float32, (n,), (i,), total[i])
    return kb.build()


C["coulomb"] = """
#include <math.h>
void kernel(const float *restrict x, const float *restrict y, const float *restrict z, const float *restrict q,
            float *restrict v) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      total += q[j] / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    }
    v[i] = total;
  }
}
"""


def coulomb_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    d = [x[n].astype(np.float64)[None, :] - x[n].astype(np.float64)[:, None] for n in "xyz"]
    r = np.sqrt(sum(c * c for c in d) + float(np.float32(0.01)))
    return {"v": (x["q"].astype(np.float64) / r).sum(axis=1)}
