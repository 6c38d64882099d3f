"""Stencils and image pipelines: each kernel as a user writes it, the same loops in C, and NumPy's answer.

`tune run --kernel benchmarks/user/stencils.py:clamped2d` tunes one. The C function is `kernel`. It gets the inputs,
then the outputs, and the sizes as macros in capitals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32
from tilewright.ir.functions import maximum, minimum

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "clamped2d": ("stencil, clamped borders", {"h": 9, "w": 37}),
    "clamped3d": ("stencil, clamped borders", {"d": 5, "h": 6, "w": 21}),
    "blur_chain": ("chain of stencils", {"h": 11, "w": 29}),
    "harris": ("chain of stencils", {"h": 7, "w": 23}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def clamped2d(h: int = 2048, w: int = 2048) -> Kernel:
    """One step of smoothing with the four neighbours; beyond the border the nearest element counts."""
    kb = KernelBuilder("clamped2d")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    up, down = x[maximum(i - 1, 0), j], x[minimum(i + 1, h - 1), j]
    left, right = x[i, maximum(j - 1, 0)], x[i, minimum(j + 1, w - 1)]
    kb.store("y", float32, (h, w), (i, j), 0.5 * x[i, j] + 0.125 * (up + down + left + right))
    return kb.build()


C["clamped2d"] = """
void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *c = x[i], *u = x[i > 0 ? i - 1 : 0], *d = x[i < H - 1 ? i + 1 : H - 1];
    float *o = y[i];
    o[0] = 0.5f * c[0] + 0.125f * (u[0] + d[0] + c[0] + c[1]);
    for (int j = 1; j < W - 1; j++) o[j] = 0.5f * c[j] + 0.125f * (u[j] + d[j] + c[j - 1] + c[j + 1]);
    o[W - 1] = 0.5f * c[W - 1] + 0.125f * (u[W - 1] + d[W - 1] + c[W - 2] + c[W - 1]);
  }
}
"""


def clamped2d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """With an edge-padded copy."""
    import numpy as np

    p = np.pad(x["x"].astype(np.float64), 1, mode="edge")
    return {"y": 0.5 * p[1:-1, 1:-1] + 0.125 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])}


def clamped3d(d: int = 160, h: int = 160, w: int = 160) -> Kernel:
    """A step of the heat equation in three dimensions; no heat leaves the box."""
    kb = KernelBuilder("clamped3d")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    around = x[maximum(k - 1, 0), i, j] + x[minimum(k + 1, d - 1), i, j]
    around = around + x[k, maximum(i - 1, 0), j] + x[k, minimum(i + 1, h - 1), j]
    around = around + x[k, i, maximum(j - 1, 0)] + x[k, i, minimum(j + 1, w - 1)]
    kb.store("y", float32, (d, h, w), (k, i, j), x[k, i, j] + 0.1 * (around - 6.0 * x[k, i, j]))
    return kb.build()


C["clamped3d"] = """
static float step(float c, float around) { return c + 0.1f * (around - 6.0f * c); }
void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      const float *c = x[k][i], *back = x[k > 0 ? k - 1 : 0][i], *front = x[k < D - 1 ? k + 1 : D - 1][i];
      const float *up = x[k][i > 0 ? i - 1 : 0], *down = x[k][i < H - 1 ? i + 1 : H - 1];
      float *o = y[k][i];
      o[0] = step(c[0], back[0] + front[0] + up[0] + down[0] + c[0] + c[1]);
      for (int j = 1; j < W - 1; j++) o[j] = step(c[j], back[j] + front[j] + up[j] + down[j] + c[j - 1] + c[j + 1]);
      o[W - 1] = step(c[W - 1], back[W - 1] + front[W - 1] + up[W - 1] + down[W - 1] + c[W - 2] + c[W - 1]);
    }
}
"""


def clamped3d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """With an edge-padded copy."""
    import numpy as np

    p = np.pad(x["x"].astype(np.float64), 1, mode="edge")
    c = p[1:-1, 1:-1, 1:-1]
    around = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    around = around + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    return {"y": c + np.float32(0.1) * (around - 6.0 * c)}


WEIGHTS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def blur_chain(h: int = 1536, w: int = 1536) -> Kernel:
    """A binomial blur along rows, then along columns; what it took away is added once more (unsharp mask)."""
    kb = KernelBuilder("blur_chain")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    rows = None
    for t, weight in enumerate(WEIGHTS):
        term = weight * x[i, minimum(maximum(j + (t - 2), 0), w - 1)]
        rows = term if rows is None else rows + term
    across = kb.value("across", (i, j), rows)
    columns = None
    for t, weight in enumerate(WEIGHTS):
        term = weight * across[minimum(maximum(i + (t - 2), 0), h - 1), j]
        columns = term if columns is None else columns + term
    blurred = kb.value("blurred", (i, j), columns)
    kb.store("y", float32, (h, w), (i, j), x[i, j] + 1.5 * (x[i, j] - blurred[i, j]))
    return kb.build()


C["blur_chain"] = """
static float across[H][W];
static int in(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }
void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
  static const float wt[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) across[i][j] = 0;
    for (int t = 0; t < 5; t++) {
      for (int j = 2; j < W - 2; j++) across[i][j] += wt[t] * x[i][j + t - 2];
      for (int j = 0; j < W; j += j == 1 ? W - 3 : 1) across[i][j] += wt[t] * x[i][in(j + t - 2, W)];
    }
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *r[5];
    for (int t = 0; t < 5; t++) r[t] = across[in(i + t - 2, H)];
    for (int j = 0; j < W; j++) {
      float sum = 0;
      for (int t = 0; t < 5; t++) sum += wt[t] * r[t][j];
      y[i][j] = x[i][j] + 1.5f * (x[i][j] - sum);
    }
  }
}
"""


def blur_chain_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Both directions on edge-padded copies."""
    import numpy as np

    a = x["x"].astype(np.float64)
    p = np.pad(a, ((0, 0), (2, 2)), mode="edge")
    across = sum(wt * p[:, t : t + s["w"]] for t, wt in enumerate(WEIGHTS))
    q = np.pad(across, ((2, 2), (0, 0)), mode="edge")
    return {"y": a + 1.5 * (a - sum(wt * q[t : t + s["h"]] for t, wt in enumerate(WEIGHTS)))}


def harris(h: int = 1024, w: int = 1024) -> Kernel:
    """Corners: the response of products of Sobel's gradients, summed over 3 × 3 windows. The border is two wide."""
    kb = KernelBuilder("harris")
    p, q = kb.axis("p", h + 2), kb.axis("q", w + 2)
    i, j, a, b = kb.axis("h", h), kb.axis("w", w), kb.axis("dy", 3), kb.axis("dx", 3)
    x = kb.input("x", (h + 4, w + 4), float32)

    def at(di: int, dj: int) -> Any:
        return x[p + di, q + dj]

    gx = kb.value("gx", (p, q), (at(0, 2) - at(0, 0)) + 2.0 * (at(1, 2) - at(1, 0)) + (at(2, 2) - at(2, 0)))
    gy = kb.value("gy", (p, q), (at(2, 0) - at(0, 0)) + 2.0 * (at(2, 1) - at(0, 1)) + (at(2, 2) - at(0, 2)))
    xx = kb.sum("xx", (i, j), (a, b), gx[i + a, j + b] * gx[i + a, j + b])
    xy = kb.sum("xy", (i, j), (a, b), gx[i + a, j + b] * gy[i + a, j + b])
    yy = kb.sum("yy", (i, j), (a, b), gy[i + a, j + b] * gy[i + a, j + b])
    trace = xx[i, j] + yy[i, j]
    kb.store("y", float32, (h, w), (i, j), xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * trace * trace)
    return kb.build()


C["harris"] = """
static float gx[H + 2][W + 2], gy[H + 2][W + 2];
void kernel(const float (*restrict x)[W + 4], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H + 2; i++)
    for (int j = 0; j < W + 2; j++) {
      gx[i][j] = x[i][j + 2] - x[i][j] + 2 * (x[i + 1][j + 2] - x[i + 1][j]) + x[i + 2][j + 2] - x[i + 2][j];
      gy[i][j] = x[i + 2][j] - x[i][j] + 2 * (x[i + 2][j + 1] - x[i][j + 1]) + x[i + 2][j + 2] - x[i][j + 2];
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float xx = 0, xy = 0, yy = 0;
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
          float u = gx[i + a][j + b], v = gy[i + a][j + b];
          xx += u * u;
          xy += u * v;
          yy += v * v;
        }
      y[i][j] = xx * yy - xy * xy - 0.04f * (xx + yy) * (xx + yy);
    }
}
"""


def harris_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole arrays, shifted."""
    import numpy as np

    a, h, w = x["x"].astype(np.float64), s["h"], s["w"]

    def at(i: int, j: int) -> Any:
        return a[i : i + h + 2, j : j + w + 2]

    gx = (at(0, 2) - at(0, 0)) + 2 * (at(1, 2) - at(1, 0)) + (at(2, 2) - at(2, 0))
    gy = (at(2, 0) - at(0, 0)) + 2 * (at(2, 1) - at(0, 1)) + (at(2, 2) - at(0, 2))
    xx, xy, yy = (sum(g[i : i + h, j : j + w] for i in range(3) for j in range(3)) for g in (gx * gx, gx * gy, gy * gy))
    return {"y": xx * yy - xy * xy - np.float32(0.04) * (xx + yy) ** 2}
