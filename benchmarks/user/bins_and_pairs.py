"""Histograms and pairs in complex arithmetic, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, where
from tilewright.ir.functions import maximum, minimum
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "float_bins": ("histograms", {"n": 300, "v": 32}),
    "weights_in_2d": ("histograms", {"n": 300, "v": 8}),
    "rows_by_label": ("gathers and scatters", {"n": 60, "d": 8, "v": 7}),
    "complex_dot": ("pairs", {"m": 5, "n": 37}),
    "quaternion_rotate": ("pairs", {"n": 37}),
    "complex_window": ("pairs", {"m": 5, "n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def float_bins(n: int = 1 << 22, v: int = 128) -> Kernel:
    """How many numbers fall into each of equal bins; what lies outside counts in the first or the last."""
    kb = KernelBuilder("float_bins")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32, range=(-0.1, 1.1))
    at = minimum(maximum(cast(x[i] * float(v), int32), 0), v - 1)
    kb.store("y", int32, (v,), (i,), cast(1, int32), indices=(at,), combine="add")
    return kb.build()


C["float_bins"] = """
void kernel(const float *restrict x, int *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) {
    int at = (int)(x[i] * V);
    y[at < 0 ? 0 : at >= V ? V - 1 : at]++;
  }
}
"""


def float_bins_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount of what float32 says."""
    import numpy as np

    at = np.trunc(x["x"] * np.float32(s["v"])).astype(np.int64)
    return {"y": np.bincount(np.clip(at, 0, s["v"] - 1), minlength=s["v"])}


def weights_in_2d(n: int = 1 << 21, v: int = 64) -> Kernel:
    """The sum of the weights that fall into each cell of a grid."""
    kb = KernelBuilder("weights_in_2d")
    i = kb.axis("n", n)
    a, b = kb.input("a", (n,), int32, range=(0, v - 1)), kb.input("b", (n,), int32, range=(0, v - 1))
    weight = kb.input("weight", (n,), float32)
    kb.store("y", float32, (v, v), (i,), weight[i], indices=(a[i], b[i]), combine="add")
    return kb.build()


C["weights_in_2d"] = """
void kernel(const int *restrict a, const int *restrict b, const float *restrict weight, float (*restrict y)[V]) {
  for (int i = 0; i < V; i++)
    for (int j = 0; j < V; j++) y[i][j] = 0;
#pragma omp parallel for reduction(+ : y[:V][:V])
  for (int i = 0; i < N; i++) y[a[i]][b[i]] += weight[i];
}
"""


def weights_in_2d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount of places in one array."""
    import numpy as np

    v = s["v"]
    return {"y": np.bincount(x["a"] * v + x["b"], x["weight"].astype(np.float64), minlength=v * v).reshape(v, v)}


def rows_by_label(n: int = 1 << 18, d: int = 8, v: int = 256) -> Kernel:
    """Short rows added up by label."""
    kb = KernelBuilder("rows_by_label")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(at[i], j), combine="add")
    return kb.build()


C["rows_by_label"] = """
void kernel(const float (*restrict x)[D], const int *restrict at, float (*restrict y)[D]) {
  for (int s = 0; s < V; s++)
    for (int j = 0; j < D; j++) y[s][j] = 0;
#pragma omp parallel for reduction(+ : y[:V][:D])
  for (int i = 0; i < N; i++)
    for (int j = 0; j < D; j++) y[at[i]][j] += x[i][j];
}
"""


def rows_by_label_numpy(x: Arrays, s: Sizes) -> Arrays:
    """add.at in float64."""
    import numpy as np

    y = np.zeros((s["v"], s["d"]))
    np.add.at(y, x["at"], x["x"].astype(np.float64))
    return {"y": y}


def complex_dot(m: int = 2048, n: int = 512) -> Kernel:
    """Σ conj(a) · b of rows of complex numbers, real and imaginary parts side by side."""
    kb = KernelBuilder("complex_dot")
    i, k, l = kb.axis("m", m), kb.axis("n@re", n), kb.axis("n@im", n)
    a, b = kb.input("a", (m, n, 2), float32), kb.input("b", (m, n, 2), float32)
    real = kb.sum("real", (i,), k, a[i, k, 0] * b[i, k, 0] + a[i, k, 1] * b[i, k, 1])
    imaginary = kb.sum("imaginary", (i,), l, a[i, l, 0] * b[i, l, 1] - a[i, l, 1] * b[i, l, 0])
    kb.store("re", float32, (m,), (i,), real[i])
    kb.store("im", float32, (m,), (i,), imaginary[i])
    return kb.build()


C["complex_dot"] = """
void kernel(const float (*restrict a)[N][2], const float (*restrict b)[N][2], float *restrict re, float *restrict im) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float real = 0, imaginary = 0;
    for (int k = 0; k < N; k++) {
      real += a[i][k][0] * b[i][k][0] + a[i][k][1] * b[i][k][1];
      imaginary += a[i][k][0] * b[i][k][1] - a[i][k][1] * b[i][k][0];
    }
    re[i] = real;
    im[i] = imaginary;
  }
}
"""


def complex_dot_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    a, b = (x[n].astype(np.float64).view(np.complex128)[..., 0] for n in "ab")
    y = (a.conj() * b).sum(axis=1)
    return {"re": y.real, "im": y.imag}


def quaternion_rotate(n: int = 1 << 20) -> Kernel:
    """Points turned by a unit quaternion each: v + 2 q × (q × v + w v)."""
    kb = KernelBuilder("quaternion_rotate")
    i, e = kb.axis("n", n), kb.axis("c", 3)
    q, v = kb.input("q", (n, 4), float32), kb.input("v", (n, 3), float32)
    w, r, p = q[i, 3], [q[i, c] for c in range(3)], [v[i, c] for c in range(3)]
    t = [2.0 * (r[(c + 1) % 3] * p[(c + 2) % 3] - r[(c + 2) % 3] * p[(c + 1) % 3]) for c in range(3)]
    y = [p[c] + w * t[c] + (r[(c + 1) % 3] * t[(c + 2) % 3] - r[(c + 2) % 3] * t[(c + 1) % 3]) for c in range(3)]
    kb.store("y", float32, (n, 3), (i, e), where(e.eq(0), y[0], where(e.eq(1), y[1], y[2])))
    return kb.build()


C["quaternion_rotate"] = """
void kernel(const float (*restrict q)[4], const float (*restrict v)[3], float (*restrict y)[3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = q[i][0], b = q[i][1], c = q[i][2], w = q[i][3], p = v[i][0], r = v[i][1], s = v[i][2];
    float x = 2 * (b * s - c * r), y_ = 2 * (c * p - a * s), z = 2 * (a * r - b * p);
    y[i][0] = p + w * x + (b * z - c * y_);
    y[i][1] = r + w * y_ + (c * x - a * z);
    y[i][2] = s + w * z + (a * y_ - b * x);
  }
}
"""


def quaternion_rotate_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.cross."""
    import numpy as np

    q, v = x["q"].astype(np.float64), x["v"].astype(np.float64)
    t = 2 * np.cross(q[:, :3], v)
    return {"y": v + q[:, 3:] * t + np.cross(q[:, :3], t)}


def complex_window(m: int = 1024, n: int = 1024) -> Kernel:
    """Rows of complex numbers times a real window and turned by a row of phases."""
    kb = KernelBuilder("complex_window")
    i, j, e = kb.axis("m", m), kb.axis("n", n), kb.axis("part", 2)
    x, window, turn = kb.input("x", (m, n, 2), float32), kb.input("window", (n,), float32), kb.input("turn", (n, 2), float32)
    real = x[i, j, 0] * turn[j, 0] - x[i, j, 1] * turn[j, 1]
    imaginary = x[i, j, 0] * turn[j, 1] + x[i, j, 1] * turn[j, 0]
    kb.store("y", float32, (m, n, 2), (i, j, e), window[j] * where(e.eq(0), real, imaginary))
    return kb.build()


C["complex_window"] = """
void kernel(const float (*restrict x)[N][2], const float *restrict window, const float (*restrict turn)[2],
            float (*restrict y)[N][2]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i][j][0] = window[j] * (x[i][j][0] * turn[j][0] - x[i][j][1] * turn[j][1]);
      y[i][j][1] = window[j] * (x[i][j][0] * turn[j][1] + x[i][j][1] * turn[j][0]);
    }
}
"""


def complex_window_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    a, turn = (x[n].astype(np.float64).view(np.complex128)[..., 0] for n in ("x", "turn"))
    y = a * turn * x["window"].astype(np.float64)
    return {"y": np.stack([y.real, y.imag], axis=-1)}
