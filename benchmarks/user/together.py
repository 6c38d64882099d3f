"""What one loop can make at once, and points that add to few places, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, sqrt
from tilewright.ir.node import const

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "gravity_components": ("all-pairs forces", {"n": 13}),
    "cosine_similarity": ("row statistics", {"m": 5, "n": 37}),
    "sums_by_bin": ("histograms", {"n": 300, "v": 16}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def gravity_components(n: int = 3072) -> Kernel:
    """The acceleration of every body by all others, softened; the three components are an axis."""
    kb = KernelBuilder("gravity_components")
    i, j, c = kb.axis("i", n), kb.axis("j", n), kb.axis("c", 3)
    p, m = kb.input("p", (n, 3), float32), kb.input("m", (n,), float32)
    d = [p[j, k] - p[i, k] for k in range(3)]
    r = 1.0 / sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01)
    f = kb.sum("f", (i, c), j, (p[j, c] - p[i, c]) * (m[j] * r * r * r))
    kb.store("a", float32, (n, 3), (i, c), f[i, c])
    return kb.build()


C["gravity_components"] = """
#include <math.h>
void kernel(const float (*restrict p)[3], const float *restrict m, float (*restrict a)[3]) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < N; j++) {
      float dx = p[j][0] - p[i][0], dy = p[j][1] - p[i][1], dz = p[j][2] - p[i][2];
      float r = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
      float pull = m[j] * r * r * r;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    a[i][0] = x;
    a[i][1] = y;
    a[i][2] = z;
  }
}
"""


def gravity_components_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once, in float64."""
    import numpy as np

    p = x["p"].astype(np.float64)
    d = p[None, :, :] - p[:, None, :]
    r = 1.0 / np.sqrt((d * d).sum(axis=2) + float(np.float32(0.01)))
    return {"a": (d * (x["m"].astype(np.float64)[None, :] * r**3)[:, :, None]).sum(axis=1)}


def cosine_similarity(m: int = 4096, n: int = 1024) -> Kernel:
    """A dot product and two norms of each pair of rows."""
    kb = KernelBuilder("cosine_similarity")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, y = kb.input("x", (m, n), float32), kb.input("y", (m, n), float32)
    dot = kb.sum("dot", (i,), j, x[i, j] * y[i, j])
    one, other = kb.sum("one", (i,), j, x[i, j] * x[i, j]), kb.sum("other", (i,), j, y[i, j] * y[i, j])
    kb.store("z", float32, (m,), (i,), dot[i] / sqrt(one[i] * other[i] + 1e-8))
    return kb.build()


C["cosine_similarity"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], const float (*restrict y)[N], float *restrict z) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float dot = 0, one = 0, other = 0;
    for (int j = 0; j < N; j++) {
      dot += x[i][j] * y[i][j];
      one += x[i][j] * x[i][j];
      other += y[i][j] * y[i][j];
    }
    z[i] = dot / sqrtf(one * other + 1e-8f);
  }
}
"""


def cosine_similarity_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    a, b = x["x"].astype(np.float64), x["y"].astype(np.float64)
    norms = (a * a).sum(axis=1) * (b * b).sum(axis=1) + float(np.float32(1e-8))
    return {"z": (a * b).sum(axis=1) / np.sqrt(norms)}


def sums_by_bin(n: int = 1 << 22, v: int = 64) -> Kernel:
    """How many points each bin has, and their sum."""
    kb = KernelBuilder("sums_by_bin")
    i = kb.axis("i", n)
    at, x = kb.input("at", (n,), int32, range=(0, v - 1)), kb.input("x", (n,), float32)
    kb.store("count", int32, (v,), (i,), const(1, int32), indices=(at[i],), combine="add")
    kb.store("total", float32, (v,), (i,), x[i], indices=(at[i],), combine="add")
    return kb.build()


C["sums_by_bin"] = """
void kernel(const int *restrict at, const float *restrict x, int *restrict count, float *restrict total) {
  for (int k = 0; k < V; k++) {
    count[k] = 0;
    total[k] = 0;
  }
#pragma omp parallel for reduction(+ : count[:V], total[:V])
  for (int i = 0; i < N; i++) {
    count[at[i]] += 1;
    total[at[i]] += x[i];
  }
}
"""


def sums_by_bin_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By counting."""
    import numpy as np

    v = s["v"]
    return {
        "count": np.bincount(x["at"], minlength=v),
        "total": np.bincount(x["at"], weights=x["x"].astype(np.float64), minlength=v),
    }
