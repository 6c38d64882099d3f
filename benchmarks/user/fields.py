"""Fields and particles, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, erf, float32, float64, floor, int32, minimum, sqrt, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "lattice_boltzmann": ("stencil of many fields", {"h": 7, "w": 19}),
    "red_black": ("stencil, clamped borders", {"h": 9, "w": 23}),
    "cloud_in_cell": ("histogram", {"n": 101, "g": 17}),
    "ewald_pairs": ("all pairs", {"n": 13}),
    "fdtd_magnetic": ("stencil of many fields", {"h": 7, "w": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}

WAYS = (
    (0, 0, 4 / 9),
    *((p, q, 1 / 9) for p, q in ((0, 1), (0, -1), (1, 0), (-1, 0))),
    *((p, q, 1 / 36) for p, q in ((1, 1), (1, -1), (-1, 1), (-1, -1))),
)
"""Where a lattice's nine parts go, and their weights."""


def lattice_boltzmann(h: int = 512, w: int = 512) -> Kernel:
    """A step of a flow on a torus (D2Q9): parts come from their neighbours, and near their balance by six tenths."""
    kb = KernelBuilder("lattice_boltzmann")
    i, j = kb.axis("h", h), kb.axis("w", w)
    f = kb.input("f", (9, h, w), float32, range=(0.05, 0.15))
    came = [f[k, (i + h - p) % h, (j + w - q) % w] for k, (p, q, _) in enumerate(WAYS)]
    rho = sum(came[1:], came[0])
    down = came[3] - came[4] + came[5] + came[6] - came[7] - came[8]
    right = came[1] - came[2] + came[5] - came[6] + came[7] - came[8]
    over = 1.0 / rho
    v, u = down * over, right * over
    rest = 1.0 - 1.5 * (u * u + v * v)
    for k, (p, q, weight) in enumerate(WAYS):
        along = p * v + q * u
        balance = weight * rho * (rest + 3.0 * along + 4.5 * along * along)
        kb.store("y", float32, (9, h, w), (i, j), 0.4 * came[k] + 0.6 * balance, (k, i, j))
    return kb.build()


C["lattice_boltzmann"] = """
void kernel(const float (*restrict f)[H][W], float (*restrict y)[H][W]) {
  static const int P[9] = {0, 0, 0, 1, -1, 1, 1, -1, -1}, Q[9] = {0, 1, -1, 0, 0, 1, -1, 1, -1};
  static const float weight[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int up = i ? i - 1 : H - 1, dn = i < H - 1 ? i + 1 : 0, l = j ? j - 1 : W - 1, r = j < W - 1 ? j + 1 : 0;
      float c[9] = {f[0][i][j], f[1][i][l], f[2][i][r], f[3][up][j], f[4][dn][j],
                    f[5][up][l], f[6][up][r], f[7][dn][l], f[8][dn][r]};
      float rho = 0;
      for (int k = 0; k < 9; k++) rho += c[k];
      float v = (c[3] - c[4] + c[5] + c[6] - c[7] - c[8]) / rho, u = (c[1] - c[2] + c[5] - c[6] + c[7] - c[8]) / rho;
      float rest = 1 - 1.5f * (u * u + v * v);
      for (int k = 0; k < 9; k++) {
        float along = P[k] * v + Q[k] * u;
        y[k][i][j] = 0.4f * c[k] + 0.6f * weight[k] * rho * (rest + 3 * along + 4.5f * along * along);
      }
    }
}
"""


def lattice_boltzmann_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.roll."""
    import numpy as np

    came = np.stack([np.roll(x["f"][k].astype(np.float64), (p, q), (0, 1)) for k, (p, q, _) in enumerate(WAYS)])
    p, q, weight = (np.array(a)[:, None, None] for a in zip(*WAYS, strict=True))
    rho = came.sum(axis=0)
    v, u = (came * p).sum(axis=0) / rho, (came * q).sum(axis=0) / rho
    along = p * v + q * u
    balance = weight * rho * (1 - 1.5 * (u * u + v * v) + 3 * along + 4.5 * along * along)
    return {"y": 0.4 * came + 0.6 * balance}


def red_black(h: int = 1024, w: int = 1024) -> Kernel:
    """Half a step of Gauss and Seidel: every second point, as on a chessboard, becomes what its neighbours ask for."""
    kb = KernelBuilder("red_black")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, b = kb.input("u", (h, w), float64), kb.input("b", (h, w), float64)
    inside = (i > 0) & (i < h - 1) & (j > 0) & (j < w - 1)
    near = u.masked(inside, i - 1, j) + u.masked(inside, i + 1, j) + u.masked(inside, i, j - 1) + u.masked(inside, i, j + 1)
    red = inside & ((i + j) % 2).eq(0)
    kb.store("y", float64, (h, w), (i, j), where(red, 0.25 * (near - b[i, j]), u[i, j]))
    return kb.build()


C["red_black"] = """
void kernel(const double (*restrict u)[W], const double (*restrict b)[W], double (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i][j] = i > 0 && i < H - 1 && j > 0 && j < W - 1 && (i + j) % 2 == 0
                    ? 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - b[i][j])
                    : u[i][j];
}
"""


def red_black_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The inside, then a chessboard."""
    import numpy as np

    u, y = x["u"], x["u"].copy()
    y[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - x["b"][1:-1, 1:-1])
    black = np.add.outer(np.arange(s["h"]), np.arange(s["w"])) % 2 == 1
    return {"y": np.where(black, u, y)}


def cloud_in_cell(n: int = 1 << 20, g: int = 4096) -> Kernel:
    """The charge of particles on a line, shared between the two points of a grid that each lies between."""
    kb = KernelBuilder("cloud_in_cell")
    i, side = kb.axis("n", n), kb.axis("side", 2)
    x, q = kb.input("x", (n,), float32, range=(0.0, g - 1.001)), kb.input("q", (n,), float32)
    cell = minimum(cast(floor(x[i]), int32), g - 2)
    right = x[i] - cast(cell, float32)
    share = q[i] * where(side.eq(0), 1.0 - right, right)
    kb.store("rho", float32, (g,), (i, side), share, (cast(cell, "int64") + side,), combine="add")
    return kb.build()


C["cloud_in_cell"] = """
void kernel(const float *restrict x, const float *restrict q, float *restrict rho) {
  for (int k = 0; k < G; k++) rho[k] = 0;
  for (int i = 0; i < N; i++) {
    int cell = x[i] < G - 2 ? x[i] : G - 2;
    float right = x[i] - cell;
    rho[cell] += q[i] * (1 - right);
    rho[cell + 1] += q[i] * right;
  }
}
"""


def cloud_in_cell_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount with weights, twice."""
    import numpy as np

    cell = np.minimum(x["x"].astype(np.int64), s["g"] - 2)
    right, q = x["x"].astype(np.float64) - cell, x["q"].astype(np.float64)
    return {"rho": np.bincount(cell, q * (1 - right), s["g"]) + np.bincount(cell + 1, q * right, s["g"])}


def ewald_pairs(n: int = 1536) -> Kernel:
    """The part of Ewald's sum that is near, for charges in a box whose nearest images count."""
    kb = KernelBuilder("ewald_pairs")
    i, j = kb.axis("i", n), kb.axis("j", n)
    at, q = kb.input("at", (n, 3), float32, range=(0.0, 1.0)), kb.input("q", (n,), float32)
    square = None
    for c in range(3):
        d = at[i, c] - at[j, c]
        d = d - floor(d + 0.5)
        square = d * d if square is None else square + d * d
    far = sqrt(square + 1e-4)
    total = kb.sum("total", (i,), j, where(i.ne(j) & (far < 0.5), q[j] * (1.0 - erf(4.0 * far)) / far, 0.0))
    kb.store("y", float32, (n,), (i,), q[i] * total[i])
    return kb.build()


C["ewald_pairs"] = """
#include <math.h>
void kernel(const float (*restrict at)[3], const float *restrict q, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) {
      float square = 1e-4f;
      for (int c = 0; c < 3; c++) {
        float d = at[i][c] - at[j][c];
        d -= floorf(d + 0.5f);
        square += d * d;
      }
      float far = sqrtf(square);
      if (i != j && far < 0.5f) total += q[j] * erfcf(4 * far) / far;
    }
    y[i] = q[i] * total;
  }
}
"""


def ewald_pairs_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import math

    import numpy as np

    at, q = x["at"].astype(np.float64), x["q"].astype(np.float64)
    d = at[:, None] - at[None]
    far = np.sqrt(((d - np.floor(d + 0.5)) ** 2).sum(-1) + 1e-4)
    part = np.where(far < 0.5, q * np.vectorize(math.erfc)(4 * np.minimum(far, 0.5)) / far, 0)
    np.fill_diagonal(part, 0)
    return {"y": q * part.sum(axis=1)}


def fdtd_magnetic(h: int = 1024, w: int = 1024) -> Kernel:
    """Yee's step of both magnetic fields from the electric one; the last row and column stay as they are."""
    kb = KernelBuilder("fdtd_magnetic")
    i, j = kb.axis("h", h), kb.axis("w", w)
    e, hx, hy = (kb.input(x, (h, w), float32) for x in ("e", "hx", "hy"))
    up, along = e[i, minimum(j + 1, w - 1)] - e[i, j], e[minimum(i + 1, h - 1), j] - e[i, j]
    kb.store("x", float32, (h, w), (i, j), hx[i, j] - 0.5 * up)
    kb.store("y", float32, (h, w), (i, j), hy[i, j] + 0.5 * along)
    return kb.build()


C["fdtd_magnetic"] = """
static void rows(const float (*restrict e)[W], const float (*restrict hx)[W], const float (*restrict hy)[W],
                 float (*restrict x)[W], float (*restrict y)[W], int begin, int end) {
  for (int i = begin; i < end; i++)
    for (int j = 0; j < W; j++) {
      x[i][j] = j < W - 1 ? hx[i][j] - 0.5f * (e[i][j + 1] - e[i][j]) : hx[i][j];
      y[i][j] = i < H - 1 ? hy[i][j] + 0.5f * (e[i + 1][j] - e[i][j]) : hy[i][j];
    }
}
void kernel(const float (*restrict e)[W], const float (*restrict hx)[W], const float (*restrict hy)[W],
            float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i += 16) rows(e, hx, hy, x, y, i, i + 16 < H ? i + 16 : H);
}
"""


def fdtd_magnetic_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.diff."""
    import numpy as np

    e, a, b = (x[k].astype(np.float64) for k in ("e", "hx", "hy"))
    a[:, :-1] -= 0.5 * np.diff(e, axis=1)
    b[:-1] += 0.5 * np.diff(e, axis=0)
    return {"x": a, "y": b}
