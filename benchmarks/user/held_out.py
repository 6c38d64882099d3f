"""Kernels with which no option, seed or model was worked on, as users write them, with the same loops in C and NumPy's
answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "edges_wrapped": ("chain of stencils", {"h": 7, "w": 23}),
    "wave_step": ("stencil, clamped borders", {"h": 9, "w": 37}),
    "lennard_jones": ("all-pairs forces", {"n": 13}),
    "covariance": ("products of computed operands", {"n": 21, "d": 9}),
}
"""The class of each kernel, and sizes for tests. More are in held_out_more.py."""
C: dict[str, str] = {}


def edges_wrapped(h: int = 1280, w: int = 1280) -> Kernel:
    """A 3 × 3 blur, then the length of its gradient; the image is a torus."""
    kb = KernelBuilder("edges_wrapped")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    total = None
    for p, weight in ((h - 1, 0.25), (0, 0.5), (1, 0.25)):
        for q, other in ((w - 1, 0.25), (0, 0.5), (1, 0.25)):
            term = weight * other * x[(i + p) % h, (j + q) % w]
            total = term if total is None else total + term
    soft = kb.value("soft", (i, j), total)
    down = soft[(i + 1) % h, j] - soft[(i + h - 1) % h, j]
    right = soft[i, (j + 1) % w] - soft[i, (j + w - 1) % w]
    kb.store("y", float32, (h, w), (i, j), sqrt(down * down + right * right))
    return kb.build()


C["edges_wrapped"] = """
#include <math.h>
static float soft[H][W];
static float mix(const float *u, const float *c, const float *d, int l, int j, int r) {
  return 0.0625f * (u[l] + u[r] + d[l] + d[r]) + 0.125f * (u[j] + d[j] + c[l] + c[r]) + 0.25f * c[j];
}
static float slope(const float *u, const float *c, const float *d, int l, int j, int r) {
  float down = d[j] - u[j], right = c[r] - c[l];
  return sqrtf(down * down + right * right);
}
void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *u = x[(i + H - 1) % H], *c = x[i], *d = x[(i + 1) % H];
    soft[i][0] = mix(u, c, d, W - 1, 0, 1);
    for (int j = 1; j < W - 1; j++) soft[i][j] = mix(u, c, d, j - 1, j, j + 1);
    soft[i][W - 1] = mix(u, c, d, W - 2, W - 1, 0);
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *u = soft[(i + H - 1) % H], *c = soft[i], *d = soft[(i + 1) % H];
    y[i][0] = slope(u, c, d, W - 1, 0, 1);
    for (int j = 1; j < W - 1; j++) y[i][j] = slope(u, c, d, j - 1, j, j + 1);
    y[i][W - 1] = slope(u, c, d, W - 2, W - 1, 0);
  }
}
"""


def edges_wrapped_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.roll."""
    import numpy as np

    a = x["x"].astype(np.float64)
    for axis in (0, 1):
        a = 0.5 * a + 0.25 * (np.roll(a, 1, axis) + np.roll(a, -1, axis))
    down, right = (np.roll(a, -1, axis) - np.roll(a, 1, axis) for axis in (0, 1))
    return {"y": np.sqrt(down * down + right * right)}


def wave_step(h: int = 1536, w: int = 1536) -> Kernel:
    """A step of the wave equation, of fourth order in space; the speed varies, and nothing moves beyond the border."""
    kb = KernelBuilder("wave_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, before, speed = (kb.input(name, (h, w), float32) for name in ("u", "before", "speed"))
    bend = u[i, j] * -5.0
    for t, weight in ((-2, -1.0 / 12), (-1, 4.0 / 3), (1, 4.0 / 3), (2, -1.0 / 12)):
        bend = bend + weight * u.masked((i + t >= 0) & (i + t < h), i + t, j)
        bend = bend + weight * u.masked((j + t >= 0) & (j + t < w), i, j + t)
    kb.store("y", float32, (h, w), (i, j), 2.0 * u[i, j] - before[i, j] + speed[i, j] * bend)
    return kb.build()


C["wave_step"] = """
static float at(const float (*u)[W], int i, int j) { return i < 0 || i >= H || j < 0 || j >= W ? 0 : u[i][j]; }
static float step(float far, float near, float u, float before, float speed) {
  return 2 * u - before + speed * (near * (4.0f / 3) - far * (1.0f / 12) - 5 * u);
}
void kernel(const float (*restrict u)[W], const float (*restrict before)[W], const float (*restrict speed)[W],
            float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int inside = i >= 2 && i < H - 2;
    if (inside)
      for (int j = 2; j < W - 2; j++)
        y[i][j] = step(u[i - 2][j] + u[i + 2][j] + u[i][j - 2] + u[i][j + 2],
                       u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1], u[i][j], before[i][j], speed[i][j]);
    for (int j = 0; j < W; j += inside && j == 1 ? W - 3 : 1)
      y[i][j] = step(at(u, i - 2, j) + at(u, i + 2, j) + at(u, i, j - 2) + at(u, i, j + 2),
                     at(u, i - 1, j) + at(u, i + 1, j) + at(u, i, j - 1) + at(u, i, j + 1),
                     u[i][j], before[i][j], speed[i][j]);
  }
}
"""


def wave_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """On a copy with two zeros around."""
    import numpy as np

    u, h, w = x["u"].astype(np.float64), s["h"], s["w"]
    p = np.pad(u, 2)

    def around(t: int) -> Any:
        m = 2
        rows = p[m - t : m - t + h, m : m + w] + p[m + t : m + t + h, m : m + w]
        return rows + p[m : m + h, m - t : m - t + w] + p[m : m + h, m + t : m + t + w]

    return {"y": 2 * u - x["before"] + x["speed"] * (around(1) * (4 / 3) - around(2) / 12 - 5 * u)}


def lennard_jones(n: int = 2560) -> Kernel:
    """The energy of every particle and its share of the virial; a particle does not meet itself."""
    kb = KernelBuilder("lennard_jones")
    i, j = kb.axis("i", n), kb.axis("j", n)
    at = kb.input("at", (n, 3), float32)
    d = [at[i, c] - at[j, c] for c in range(3)]
    near = 1.0 / (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.25)
    six = near * near * near
    energy = kb.sum("energy", (i,), j, where(i.ne(j), six * (six - 1.0), 0.0))
    virial = kb.sum("virial", (i,), j, where(i.ne(j), six * (2.0 * six - 1.0), 0.0))
    kb.store("energies", float32, (n,), (i,), 2.0 * energy[i])
    kb.store("virials", float32, (n,), (i,), 4.0 * virial[i])
    return kb.build()


C["lennard_jones"] = """
void kernel(const float (*restrict at)[3], float *restrict energies, float *restrict virials) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float energy = 0, virial = 0;
    for (int j = 0; j < N; j++) {
      float dx = at[i][0] - at[j][0], dy = at[i][1] - at[j][1], dz = at[i][2] - at[j][2];
      float near = 1 / (dx * dx + dy * dy + dz * dz + 0.25f), six = near * near * near;
      energy += i == j ? 0 : six * (six - 1);
      virial += i == j ? 0 : six * (2 * six - 1);
    }
    energies[i] = 2 * energy;
    virials[i] = 4 * virial;
  }
}
"""


def lennard_jones_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    a = x["at"].astype(np.float64)
    six = (1 / (sum((a[:, None, c] - a[None, :, c]) ** 2 for c in range(3)) + 0.25)) ** 3
    np.fill_diagonal(six, 0)
    return {"energies": 2 * (six * (six - 1)).sum(axis=1), "virials": 4 * (six * (2 * six - 1)).sum(axis=1)}


def covariance(n: int = 8192, d: int = 128) -> Kernel:
    """Covariances of the columns of a tall array."""
    kb = KernelBuilder("covariance")
    i, j, k, l, m = kb.axis("i", d), kb.axis("j", d), kb.axis("n@mean", n), kb.axis("n@sum", n), kb.axis("m", d)
    x = kb.input("x", (n, d), float32)
    mean = kb.sum("mean", (m,), k, x[k, m] * (1.0 / n))
    total = kb.sum("total", (i, j), l, (x[l, i] - mean[i]) * (x[l, j] - mean[j]))
    kb.store("y", float32, (d, d), (i, j), total[i, j] * (1.0 / (n - 1)))
    return kb.build()


C["covariance"] = """
void kernel(const float (*restrict x)[D], float (*restrict y)[D]) {
  float mean[D] = {0};
  for (int k = 0; k < N; k++)
    for (int j = 0; j < D; j++) mean[j] += x[k][j];
  for (int j = 0; j < D; j++) mean[j] /= N;
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    float total[D] = {0};
    for (int k = 0; k < N; k++) {
      float off = x[k][i] - mean[i];
      for (int j = 0; j < D; j++) total[j] += off * (x[k][j] - mean[j]);
    }
    for (int j = 0; j < D; j++) y[i][j] = total[j] / (N - 1);
  }
}
"""


def covariance_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.cov."""
    import numpy as np

    return {"y": np.cov(x["x"].astype(np.float64), rowvar=False)}
