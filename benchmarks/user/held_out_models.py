"""Of the third set (images_and_models.py), the kernels that are held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, where
from tilewright.ir.functions import exp, maximum, minimum

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "top_p_softmax": ("row statistics", {"m": 5, "n": 37}),
    "diffusion3d": ("stencil, clamped borders", {"d": 4, "h": 5, "w": 21}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def top_p_softmax(m: int = 512, n: int = 4096) -> Kernel:
    """Softmax at a temperature of 0.7; what has less than the row's least probability becomes 0, and the rest adds up to 1."""
    kb = KernelBuilder("top_p_softmax")
    i = kb.axis("m", m)
    a, b, c, d = (kb.axis(f"n@{site}", n) for site in ("top", "all", "kept", "out"))
    x, least = kb.input("x", (m, n), float32), kb.input("least", (m,), float32, range=(1e-5, 1e-3))
    top = kb.max("top", (i,), a, x[i, a])

    def size(at: Any) -> Any:
        return exp((x[i, at] - top[i]) * (1.0 / 0.7))

    whole = kb.sum("whole", (i,), b, size(b))

    def kept(at: Any) -> Any:
        return where(size(at) < least[i] * whole[i], 0.0, size(at))

    some = kb.sum("some", (i,), c, kept(c))
    kb.store("y", float32, (m, n), (i, d), kept(d) / some[i])
    return kb.build()


C["top_p_softmax"] = """
#include <math.h>
void kernel(const float (*restrict x)[N], const float *restrict least, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = x[i][0], whole = 0, some = 0;
    for (int j = 1; j < N; j++) top = x[i][j] > top ? x[i][j] : top;
    for (int j = 0; j < N; j++) {
      y[i][j] = expf((x[i][j] - top) * (1 / 0.7f));
      whole += y[i][j];
    }
    float end = least[i] * whole;
    for (int j = 0; j < N; j++) {
      y[i][j] = y[i][j] < end ? 0 : y[i][j];
      some += y[i][j];
    }
    for (int j = 0; j < N; j++) y[i][j] /= some;
  }
}
"""


def top_p_softmax_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32 as far as what is kept depends on it."""
    import numpy as np

    a = x["x"].astype(np.float64)
    size = np.exp((a - a.max(axis=1, keepdims=True)) * float(np.float32(1.0 / 0.7)))
    kept = np.where(size < x["least"][:, None] * size.sum(axis=1, keepdims=True), 0.0, size)
    return {"y": kept / kept.sum(axis=1, keepdims=True)}


def diffusion3d(d: int = 96, h: int = 128, w: int = 160) -> Kernel:
    """A step of Perona and Malik's diffusion: less flows where neighbours differ much; nothing leaves the box."""
    kb = KernelBuilder("diffusion3d")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    c = x[k, i, j]

    def flow(v: Any) -> Any:
        step = v - c
        return step / (1.0 + step * step * 4.0)

    around = flow(x[maximum(k - 1, 0), i, j]) + flow(x[minimum(k + 1, d - 1), i, j])
    around = around + flow(x[k, maximum(i - 1, 0), j]) + flow(x[k, minimum(i + 1, h - 1), j])
    around = around + flow(x[k, i, maximum(j - 1, 0)]) + flow(x[k, i, minimum(j + 1, w - 1)])
    kb.store("y", float32, (d, h, w), (k, i, j), c + 0.14 * around)
    return kb.build()


C["diffusion3d"] = """
static float flow(float c, float v) { float step = v - c; return step / (1.0f + step * step * 4.0f); }
void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      const float *c = x[k][i], *f = x[k > 0 ? k - 1 : 0][i], *b = x[k < D - 1 ? k + 1 : D - 1][i];
      const float *u = x[k][i > 0 ? i - 1 : 0], *d = x[k][i < H - 1 ? i + 1 : H - 1];
      float *o = y[k][i];
      for (int j = 1; j < W - 1; j++)
        o[j] = c[j] + 0.14f * (flow(c[j], f[j]) + flow(c[j], b[j]) + flow(c[j], u[j]) + flow(c[j], d[j]) +
                               flow(c[j], c[j - 1]) + flow(c[j], c[j + 1]));
      o[0] = c[0] + 0.14f * (flow(c[0], f[0]) + flow(c[0], b[0]) + flow(c[0], u[0]) + flow(c[0], d[0]) + flow(c[0], c[1]));
      int e = W - 1;
      o[e] = c[e] + 0.14f * (flow(c[e], f[e]) + flow(c[e], b[e]) + flow(c[e], u[e]) + flow(c[e], d[e]) + flow(c[e], c[e - 1]));
    }
}
"""


def diffusion3d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """With an edge-padded copy."""
    import numpy as np

    p = np.pad(x["x"].astype(np.float64), 1, mode="edge")
    c, total = p[1:-1, 1:-1, 1:-1], 0.0
    for v in (
        p[:-2, 1:-1, 1:-1], p[2:, 1:-1, 1:-1], p[1:-1, :-2, 1:-1], p[1:-1, 2:, 1:-1], p[1:-1, 1:-1, :-2], p[1:-1, 1:-1, 2:]
    ):  # fmt: skip
        total = total + (v - c) / (1.0 + (v - c) ** 2 * 4.0)
    return {"y": c + 0.14 * total}
