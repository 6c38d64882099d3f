"""Physics, finance and distances, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, sqrt, where
from tilewright.ir.functions import absolute, erf, exp, log
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "nbody": ("all-pairs forces", {"n": 13}),
    "kmeans": ("products of computed operands", {"n": 19, "k": 7, "d": 5}),
    "pairwise_l1": ("distances", {"m": 9, "n": 21, "d": 6}),
    "black_scholes": ("chains of elementary functions", {"n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def nbody(n: int = 3072) -> Kernel:
    """The acceleration of every body by all others, softened; mass and place are arrays of their own."""
    kb = KernelBuilder("nbody")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y, z, m = (kb.input(name, (n,), float32) for name in "xyzm")
    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
    square = dx * dx + dy * dy + dz * dz + 0.01
    pull = kb.value("pull", (i, j), m[j] / (square * sqrt(square)))
    for name, d in (("ax", dx), ("ay", dy), ("az", dz)):
        total = kb.sum(f"sum_{name}", (i,), j, pull[i, j] * d)
        kb.store(name, float32, (n,), (i,), total[i])
    return kb.build()


C["nbody"] = """
#include <math.h>
void kernel(const float *restrict x, const float *restrict y, const float *restrict z,
            const float *restrict m,
            float *restrict ax, float *restrict ay, float *restrict az) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float sx = 0, sy = 0, sz = 0;
    for (int j = 0; j < N; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      float square = dx * dx + dy * dy + dz * dz + 0.01f;
      float pull = m[j] / (square * sqrtf(square));
      sx += pull * dx;
      sy += pull * dy;
      sz += pull * dz;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
  }
}
"""


def nbody_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    at = [x[n].astype(np.float64) for n in "xyz"]
    d = [a[None, :] - a[:, None] for a in at]
    square = d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + float(np.float32(0.01))
    pull = x["m"].astype(np.float64)[None, :] / (square * np.sqrt(square))
    return {name: (pull * a).sum(axis=1) for name, a in zip(("ax", "ay", "az"), d)}


def kmeans(n: int = 16384, k: int = 128, d: int = 64) -> Kernel:
    """The nearest of k centres for every point, by products: |c|² − 2·x·c is least where |x − c| is."""
    kb = KernelBuilder("kmeans")
    i, c, c2 = kb.axis("n", n), kb.axis("k@least", k), kb.axis("k@at", k)
    e, e2 = kb.axis("d@dot", d), kb.axis("d@norm", d)
    x, centre = kb.input("x", (n, d), float32), kb.input("centre", (k, d), float32)
    kc = kb.axis("k@norm", k)
    norm = kb.sum("norm", (kc,), e2, centre[kc, e2] * centre[kc, e2])
    dot = kb.sum("dot", (i, c), e, x[i, e] * centre[c, e])
    far = kb.value("far", (i, c), norm[c] - 2.0 * dot[i, c])
    least = kb.min("least", (i,), c, far[i, c])
    at = kb.min("at", (i,), c2, where(far[i, c2].eq(least[i]), cast(c2, int32), k))
    kb.store("y", int32, (n,), (i,), at[i])
    return kb.build()


C["kmeans"] = """
void kernel(const float (*restrict x)[D], const float (*restrict centre)[D], int *restrict y) {
  float norm[K];
  for (int c = 0; c < K; c++) {
    norm[c] = 0;
    for (int e = 0; e < D; e++) norm[c] += centre[c][e] * centre[c][e];
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float least = 1e30f;
    int at = 0;
    for (int c = 0; c < K; c++) {
      float dot = 0;
      for (int e = 0; e < D; e++) dot += x[i][e] * centre[c][e];
      float far = norm[c] - 2 * dot;
      if (far < least) {
        least = far;
        at = c;
      }
    }
    y[i] = at;
  }
}
"""


def kmeans_numpy(x: Arrays, s: Sizes) -> Arrays:
    """argmin takes the first of equals."""
    import numpy as np

    a, c = x["x"].astype(np.float64), x["centre"].astype(np.float64)
    return {"y": ((c * c).sum(axis=1)[None, :] - 2.0 * a @ c.T).argmin(axis=1).astype(np.int32)}


def pairwise_l1(m: int = 768, n: int = 768, d: int = 128) -> Kernel:
    """Sums of absolute differences of two sets of vectors."""
    kb = KernelBuilder("pairwise_l1")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("d", d)
    a, b = kb.input("a", (m, d), float32), kb.input("b", (n, d), float32)
    total = kb.sum("total", (i, j), k, absolute(a[i, k] - b[j, k]))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


C["pairwise_l1"] = """
#include <math.h>
void kernel(const float (*restrict a)[D], const float (*restrict b)[D], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float total = 0;
      for (int k = 0; k < D; k++) total += fabsf(a[i][k] - b[j][k]);
      y[i][j] = total;
    }
}
"""


def pairwise_l1_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A row of results at a time."""
    import numpy as np

    b = x["b"].astype(np.float64)
    return {"y": np.stack([np.abs(row - b).sum(axis=1) for row in x["a"].astype(np.float64)])}


def black_scholes(n: int = 1 << 20) -> Kernel:
    """Prices of European calls and puts; volatility and rate are in percent, time in years."""
    kb = KernelBuilder("black_scholes")
    i = kb.axis("n", n)
    spot, strike = (kb.input(name, (n,), float32, range=(50, 150)) for name in ("spot", "strike"))
    years, percent = kb.input("years", (n,), float32, range=(1, 5)), kb.input("percent", (n,), float32, range=(10, 60))
    rate, vol = 0.03, percent[i] * 0.01
    width = vol * sqrt(years[i])
    d1 = kb.value("d1", (i,), (log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / width)
    d2 = d1[i] - width
    later = strike[i] * exp(years[i] * -rate)
    paid, gone = (0.5 + 0.5 * erf(d * 0.5**0.5) for d in (d1[i], d2))
    call = kb.value("price", (i,), spot[i] * paid - later * gone)
    kb.store("call", float32, (n,), (i,), call[i])
    kb.store("put", float32, (n,), (i,), call[i] + later - spot[i])
    return kb.build()


C["black_scholes"] = """
#include <math.h>
void kernel(const float *restrict spot, const float *restrict strike, const float *restrict years,
            const float *restrict percent,
            float *restrict call, float *restrict put) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float vol = percent[i] * 0.01f, width = vol * sqrtf(years[i]);
    float d1 = (logf(spot[i] / strike[i]) + (0.03f + 0.5f * vol * vol) * years[i]) / width, d2 = d1 - width;
    float later = strike[i] * expf(-0.03f * years[i]);
    call[i] = spot[i] * (0.5f + 0.5f * erff(d1 * 0.70710678f)) - later * (0.5f + 0.5f * erff(d2 * 0.70710678f));
    put[i] = call[i] + later - spot[i];
  }
}
"""


def black_scholes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64, by math.erf."""
    import math

    import numpy as np

    spot, strike, years, percent = (x[n].astype(np.float64) for n in ("spot", "strike", "years", "percent"))
    vol = percent * 0.01
    width = vol * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.03 + 0.5 * vol * vol) * years) / width
    erf_ = np.vectorize(math.erf, otypes=[np.float64])
    later = strike * np.exp(-0.03 * years)
    call = spot * (0.5 + 0.5 * erf_(d1 * 0.5**0.5)) - later * (0.5 + 0.5 * erf_((d1 - width) * 0.5**0.5))
    return {"call": call, "put": call + later - spot}
