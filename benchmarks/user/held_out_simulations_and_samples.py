"""Water, particles and meshes; eigenvalues of many tensors; survival and distances of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    acos,
    cast,
    clip,
    cos,
    exp,
    float32,
    float64,
    int32,
    log,
    maximum,
    sqrt,
    uint8,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "shallow_water": ("stencil of many fields", {"h": 7, "w": 11}),
    "sph_density": ("gathers", {"n": 37, "l": 5}),
    "element_forces": ("scatters", {"m": 53, "v": 29}),
    "sym3_eigenvalues": ("small matrices", {"n": 23}),
    "cox_likelihood": ("scans and elementary functions", {"t": 13, "b": 5}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def shallow_water(h: int = 307, w: int = 401) -> Kernel:
    """A step of shallow water on a torus by Rusanov's fluxes: depth and both momenta of a place lie side by side."""
    kb = KernelBuilder("shallow_water")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), float64, range=(0.5, 1.5))

    def flux(name: str, a: list[Any], b: list[Any], along: int) -> list[Any]:
        """Through the side between a and b."""
        across = 3 - along
        va, vb = a[along] / a[0], b[along] / b[0]
        speed = maximum(absolute(va) + sqrt(9.81 * a[0]), absolute(vb) + sqrt(9.81 * b[0]))
        fast = kb.value(f"{name}fast", (i, j), speed)[i, j]
        sides = {
            0: a[along] + b[along],
            along: a[along] * va + b[along] * vb + 4.905 * (a[0] * a[0] + b[0] * b[0]),
            across: a[across] * va + b[across] * vb,
        }
        return [kb.value(f"{name}{c}", (i, j), 0.5 * (sides[c] - fast * (b[c] - a[c]))) for c in range(3)]

    here = [x[i, j, c] for c in range(3)]
    right = flux("right", here, [x[i, (j + 1) % w, c] for c in range(3)], 1)
    down = flux("down", here, [x[(i + 1) % h, j, c] for c in range(3)], 2)
    for c in range(3):
        change = right[c][i, j] - right[c][i, (j + w - 1) % w] + down[c][i, j] - down[c][(i + h - 1) % h, j]
        kb.store("y", float64, (h, w, 3), (i, j), x[i, j, c] - 0.05 * change, (i, j, c))
    return kb.build()


C["shallow_water"] = """
#include <math.h>
static double right[H][W][3], down[H][W][3];
static inline void flux(const double *a, const double *b, double *restrict f, int along) {
  int across = 3 - along;
  double va = a[along] / a[0], vb = b[along] / b[0], sa = fabs(va) + sqrt(9.81 * a[0]), sb = fabs(vb) + sqrt(9.81 * b[0]);
  double fast = sa > sb ? sa : sb;
  f[0] = 0.5 * (a[along] + b[along] - fast * (b[0] - a[0]));
  f[along] = 0.5 * (a[along] * va + b[along] * vb + 4.905 * (a[0] * a[0] + b[0] * b[0]) - fast * (b[along] - a[along]));
  f[across] = 0.5 * (a[across] * va + b[across] * vb - fast * (b[across] - a[across]));
}
static void sides(const double (*restrict x)[3], const double (*restrict below)[3], double (*restrict r)[3], double (*restrict d)[3]) {
  for (int j = 0; j < W - 1; j++) flux(x[j], x[j + 1], r[j], 1);
  flux(x[W - 1], x[0], r[W - 1], 1);
  for (int j = 0; j < W; j++) flux(x[j], below[j], d[j], 2);
}
static void step(const double (*restrict x)[3], const double (*restrict r)[3], const double (*restrict d)[3],
                 const double (*restrict above)[3], double (*restrict y)[3]) {
  for (int c = 0; c < 3; c++) y[0][c] = x[0][c] - 0.05 * (r[0][c] - r[W - 1][c] + d[0][c] - above[0][c]);
  for (int j = 1; j < W; j++)
    for (int c = 0; c < 3; c++) y[j][c] = x[j][c] - 0.05 * (r[j][c] - r[j - 1][c] + d[j][c] - above[j][c]);
}
void kernel(const double (*restrict x)[W][3], double (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) sides(x[i], x[(i + 1) % H], right[i], down[i]);
#pragma omp parallel for
  for (int i = 0; i < H; i++) step(x[i], right[i], down[i], down[(i + H - 1) % H], y[i]);
}
"""


def shallow_water_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.roll."""
    import numpy as np

    a, change = x["x"], 0.0
    for axis, along in ((1, 1), (0, 2)):
        b = np.roll(a, -1, axis=axis)
        speeds = [abs(p[..., along]) / p[..., 0] + np.sqrt(9.81 * p[..., 0]) for p in (a, b)]
        flows = []
        for p in (a, b):
            f = p * (p[..., along] / p[..., 0])[..., None]
            f[..., along] += 4.905 * p[..., 0] ** 2
            flows.append(f)
        side = 0.5 * (flows[0] + flows[1] - np.maximum(*speeds)[..., None] * (b - a))
        change = change + side - np.roll(side, 1, axis=axis)
    return {"y": a - 0.05 * change}


def sph_density(n: int = 30011, l: int = 29) -> Kernel:
    """The density of a fluid at its particles from lists of neighbours, of which -1 is none, and how many are near."""
    kb = KernelBuilder("sph_density")
    i, k, k2 = kb.axis("n", n), kb.axis("l", l), kb.axis("l@count", l)
    p, mass = kb.input("p", (n, 3), float32, range=(0.0, 1.0)), kb.input("mass", (n,), float32, range=(0.5, 1.5))
    near = kb.input("near", (n, l), int32, range=(-1, n - 1))

    def left(k: Any) -> Any:
        at = cast(near[i, k], "int64")
        d = [p[i, c] - p.masked(at >= 0, maximum(at, 0), c) for c in range(3)]
        return maximum(0.5 - (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), 0.0)

    there, there2 = near[i, k] >= 0, near[i, k2] >= 0
    weight = mass.masked(there, maximum(cast(near[i, k], "int64"), 0))
    total = kb.sum("total", (i,), k, weight * left(k) * left(k) * left(k))
    close = kb.sum("close", (i,), k2, cast(there2 & (left(k2) > 0.0), int32))
    kb.store("density", float32, (n,), (i,), total[i])
    kb.store("many", int32, (n,), (i,), close[i])
    return kb.build()


C["sph_density"] = """
void kernel(const float (*restrict p)[3], const float *restrict mass, const int (*restrict near)[L], float *restrict density,
            int *restrict many) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = p[i][0], b = p[i][1], c = p[i][2], total = 0;
    int count = 0;
    for (int k = 0; k < L; k++) {
      int at = near[i][k] < 0 ? 0 : near[i][k];
      float x = a - p[at][0], y = b - p[at][1], z = c - p[at][2], left = 0.5f - (x * x + y * y + z * z);
      int close = (near[i][k] >= 0) & (left > 0);
      left = close ? left : 0;
      total += mass[at] * left * left * left;
      count += close;
    }
    density[i] = total;
    many[i] = count;
  }
}
"""


def sph_density_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs of the lists."""
    import numpy as np

    p, at = x["p"].astype(np.float64), x["near"]
    left = 0.5 - ((p[:, None, :] - p[at]) ** 2).sum(axis=2)
    close = (at >= 0) & (left > 0)
    return {"density": (close * x["mass"][at] * left**3).sum(axis=1), "many": close.sum(axis=1).astype(np.int32)}


def element_forces(m: int = 30011, v: int = 15013) -> Kernel:
    """A mesh's stiffness matrix times a vector, a triangle at a time: each has a matrix of its own for its three corners."""
    kb = KernelBuilder("element_forces")
    e, p, q = kb.axis("m", m), kb.axis("p", 3), kb.axis("q", 3)
    corner = kb.input("corner", (m, 3), int32, range=(0, v - 1))
    k, u = kb.input("k", (m, 3, 3), float64), kb.input("u", (v,), float64)
    force = kb.sum("force", (e, p), q, k[e, p, q] * u[cast(corner[e, q], "int64")])
    kb.store("y", float64, (v,), (e, p), force[e, p], (cast(corner[e, p], "int64"),), combine="add")
    return kb.build()


C["element_forces"] = """
void kernel(const int (*restrict corner)[3], const double (*restrict k)[3][3], const double *restrict u, double *restrict y) {
  for (int i = 0; i < V; i++) y[i] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int e = 0; e < M; e++) {
    double a = u[corner[e][0]], b = u[corner[e][1]], c = u[corner[e][2]];
    for (int p = 0; p < 3; p++) y[corner[e][p]] += k[e][p][0] * a + k[e][p][1] * b + k[e][p][2] * c;
  }
}
"""


def element_forces_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum and bincount."""
    import numpy as np

    force = np.einsum("epq,eq->ep", x["k"], x["u"][x["corner"]])
    return {"y": np.bincount(x["corner"].reshape(-1), force.reshape(-1), s["v"])}


def sym3_eigenvalues(n: int = 2503) -> Kernel:
    """The eigenvalues of many symmetric 3 × 3 tensors in closed form, the greatest first; components come first."""
    kb = KernelBuilder("sym3_eigenvalues")
    i = kb.axis("n", n)
    t = kb.input("t", (6, n), float64, range=(-1.0, 1.0))
    xx, yy, zz, xy, xz, yz = (t[c, i] for c in range(6))
    mean = kb.value("mean", (i,), (xx + yy + zz) * (1 / 3))[i]
    a, b, c = xx - mean, yy - mean, zz - mean
    off = kb.value("off", (i,), xy * xy + xz * xz + yz * yz)[i]
    p = kb.value("p", (i,), sqrt((a * a + b * b + c * c + 2.0 * off) * (1 / 6)))[i]
    half = 0.5 * (a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz))
    angle = kb.value("angle", (i,), acos(clip(half / (p * p * p), -1.0, 1.0)) * (1 / 3))[i]
    first, last = mean + 2.0 * p * cos(angle), mean + 2.0 * p * cos(angle + 2 * math.pi / 3)
    for place, v in enumerate((first, 3.0 * mean - first - last, last)):
        kb.store("y", float64, (3, n), (i,), v, (place, i))
    return kb.build()


C["sym3_eigenvalues"] = """
#include <math.h>
static void some(const double (*restrict t)[N], double (*restrict y)[N], int from, int to) {
  for (int i = from; i < to; i++) {
    double xy = t[3][i], xz = t[4][i], yz = t[5][i], mean = (t[0][i] + t[1][i] + t[2][i]) * (1 / 3.0);
    double a = t[0][i] - mean, b = t[1][i] - mean, c = t[2][i] - mean;
    double p = sqrt((a * a + b * b + c * c + 2 * (xy * xy + xz * xz + yz * yz)) * (1 / 6.0));
    double r = 0.5 * (a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)) / (p * p * p);
    r = r < -1 ? -1 : r > 1 ? 1 : r;
    double angle = acos(r) * (1 / 3.0);
    double first = mean + 2 * p * cos(angle), last = mean + 2 * p * cos(angle + 2 * M_PI / 3);
    y[0][i] = first, y[1][i] = 3 * mean - first - last, y[2][i] = last;
  }
}
void kernel(const double (*restrict t)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 1024) some(t, y, i, i + 1024 < N ? i + 1024 : N);
}
"""


def sym3_eigenvalues_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.linalg.eigvalsh."""
    import numpy as np

    full = x["t"][[0, 3, 4, 3, 1, 5, 4, 5, 2]].T.reshape(-1, 3, 3)
    return {"y": np.linalg.eigvalsh(full)[:, ::-1].T}


def cox_likelihood(t: int = 1511, b: int = 37) -> Kernel:
    """Cox's partial likelihood (its logarithm) of b models: people in order of time are at risk until their own."""
    kb = KernelBuilder("cox_likelihood")
    k, m = kb.axis("t", t), kb.axis("b", b)
    score, event = kb.input("score", (t, b), float64), kb.input("event", (t,), uint8, range=(0, 1))
    risk = kb.scan("add", "risk", (k, m), k, exp(score[t - 1 - k, m]))
    term = where(event[t - 1 - k].ne(0), score[t - 1 - k, m] - log(risk[k, m]), 0.0)
    kb.store("y", float64, (b,), (m,), kb.sum("total", (m,), k, term)[m])
    return kb.build()


C["cox_likelihood"] = """
#include <math.h>
void kernel(const double (*restrict score)[B], const unsigned char *restrict event, double *restrict y) {
  double risk[B];
  for (int m = 0; m < B; m++) risk[m] = y[m] = 0;
  for (int k = T - 1; k >= 0; k--) {
    for (int m = 0; m < B; m++) risk[m] += exp(score[k][m]);
    if (event[k])
      for (int m = 0; m < B; m++) y[m] += score[k][m] - log(risk[m]);
  }
}
"""


def cox_likelihood_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A cumulative sum from the end."""
    import numpy as np

    risk = np.exp(x["score"])[::-1].cumsum(axis=0)[::-1]
    return {"y": (x["event"][:, None] * (x["score"] - np.log(risk))).sum(axis=0)}
