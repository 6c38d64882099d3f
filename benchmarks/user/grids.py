"""Simulation on grids: Maxwell's equations, advection with a limiter, spins on a chessboard, and a coarser volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, bfloat16, cast, float32, int8, int32, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "maxwell_curl3d": ("stencil of many fields", {"d": 4, "h": 5, "w": 9}),
    "van_leer_columns": ("stencil, periodic borders", {"l": 2, "h": 9, "w": 11}),
    "ising_sweep": ("stencil, narrow integers", {"h": 6, "w": 18}),
    "restrict_volume": ("pooling", {"d": 3, "h": 4, "w": 9}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def maxwell_curl3d(d: int = 30, h: int = 41, w: int = 61) -> Kernel:
    """The electric field's step on a Yee grid: all three components, conducting walls."""
    kb = KernelBuilder("maxwell_curl3d")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    e, m = kb.input("e", (3, d, h, w), float32), kb.input("m", (3, d, h, w), float32)
    c = kb.input("c", (d, h, w), float32)
    up, left, near = i > 0, j > 0, k > 0

    def hx(p: int, q: int, r: int, a: int) -> Any:
        inside = None
        for on, cond in ((p, up), (q, left), (r, near)):
            if on:
                inside = cond
        return m[a, i, j, k] if inside is None else m.masked(inside, a, i - p, j - q, k - r)

    curls = (
        hx(0, 0, 0, 2) - hx(0, 1, 0, 2) - hx(0, 0, 0, 1) + hx(0, 0, 1, 1),
        hx(0, 0, 0, 0) - hx(0, 0, 1, 0) - hx(0, 0, 0, 2) + hx(1, 0, 0, 2),
        hx(0, 0, 0, 1) - hx(1, 0, 0, 1) - hx(0, 0, 0, 0) + hx(0, 1, 0, 0),
    )
    for a, curl in enumerate(curls):
        kb.store("y", float32, (3, d, h, w), (i, j, k), e[a, i, j, k] + c[i, j, k] * curl, (a, i, j, k))
    return kb.build()


C["maxwell_curl3d"] = """
static void component(const float *restrict e, const float *restrict c, const float *restrict a, const float *restrict b,
                      const float *restrict p, const float *restrict q, float *restrict y, int begin) {
  for (int k = begin; k < W; k++) y[k] = e[k] + c[k] * (a[k] - b[k] - p[k] + q[k]);
}
void kernel(const float (*restrict e)[D][H][W], const float (*restrict m)[D][H][W], const float (*restrict c)[H][W],
            float (*restrict y)[D][H][W]) {
  static const float zero[W];
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) {
      const float *x0 = m[0][i][j], *y0 = m[1][i][j], *z0 = m[2][i][j], *s = c[i][j];
      const float *xj = j ? m[0][i][j - 1] : zero, *zj = j ? m[2][i][j - 1] : zero;
      const float *yi = i ? m[1][i - 1][j] : zero, *zi = i ? m[2][i - 1][j] : zero;
      y[0][i][j][0] = e[0][i][j][0] + s[0] * (z0[0] - zj[0] - y0[0]);
      component(e[0][i][j], s, z0, zj, y0, y0 - 1, y[0][i][j], 1);
      y[1][i][j][0] = e[1][i][j][0] + s[0] * (x0[0] - z0[0] + zi[0]);
      component(e[1][i][j], s, x0, x0 - 1, z0, zi, y[1][i][j], 1);
      component(e[2][i][j], s, y0, yi, x0, xj, y[2][i][j], 0);
    }
}
"""


def maxwell_curl3d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Differences of views."""
    import numpy as np

    e, m, c = (x[k].astype(np.float64) for k in "emc")

    def back(a: int, axis: int) -> Any:
        out = np.zeros_like(m[a])
        src = [slice(None)] * 3
        dst = [slice(None)] * 3
        src[axis], dst[axis] = slice(None, -1), slice(1, None)
        out[tuple(dst)] = m[a][tuple(src)]
        return m[a] - out

    return {"y": e + c * np.stack([back(2, 1) - back(1, 2), back(0, 2) - back(2, 0), back(1, 0) - back(0, 1)])}


def van_leer_columns(l: int = 6, h: int = 91, w: int = 181) -> Kernel:
    """A step of upwind advection along the second dimension with van Leer's limiter, around a torus."""
    kb = KernelBuilder("van_leer_columns")
    a, i, j = kb.axis("l", l), kb.axis("h", h), kb.axis("w", w)
    q, c = kb.input("q", (l, h, w), float32), kb.input("c", (h, w), float32, range=(-0.9, 0.9))

    def at(o: int) -> Any:
        return q[a, (i + h + o) % h, j]

    def slope(o: int) -> Any:
        m, p = at(o) - at(o - 1), at(o + 1) - at(o)
        both = m * p
        return where(both > 0.0, 2.0 * both / (m + p), 0.0)

    def flux(o: int) -> Any:  # through the face between o - 1 and o
        wind = c[(i + o) % h, j]
        return where(wind > 0.0, wind * (at(o - 1) + 0.5 * (1.0 - wind) * slope(o - 1)), wind * (at(o) - 0.5 * (1.0 + wind) * slope(o)))

    kb.store("y", float32, (l, h, w), (a, i, j), at(0) - (flux(1) - flux(0)))
    return kb.build()


C["van_leer_columns"] = """
static float slope(float a, float b, float c) {
  float m = b - a, p = c - b, both = m * p;
  return both > 0 ? 2 * both / (m + p) : 0;
}
static void fluxes(const float (*restrict q)[W], const float *restrict c, int i, float *restrict f) {
  const float *a = q[(i + H - 2) % H], *b = q[(i + H - 1) % H], *d = q[i % H], *e = q[(i + 1) % H];
  for (int j = 0; j < W; j++) {
    float u = c[j] * (b[j] + 0.5f * (1 - c[j]) * slope(a[j], b[j], d[j]));
    float v = c[j] * (d[j] - 0.5f * (1 + c[j]) * slope(b[j], d[j], e[j]));
    f[j] = c[j] > 0 ? u : v;
  }
}
void kernel(const float (*restrict q)[H][W], const float (*restrict c)[W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int a = 0; a < L; a++) {
    float f[2][W];
    fluxes(q[a], c[0], 0, f[0]);
    for (int i = 0; i < H; i++) {
      float *lo = f[i & 1], *hi = f[~i & 1];
      fluxes(q[a], c[(i + 1) % H], i + 1, hi);
      for (int j = 0; j < W; j++) y[a][i][j] = q[a][i][j] - (hi[j] - lo[j]);
    }
  }
}
"""


def van_leer_columns_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.roll."""
    import numpy as np

    q, c = x["q"].astype(np.float32).astype(np.float64), x["c"].astype(np.float64)

    def r(v: Any, o: int) -> Any:
        return np.roll(v, o, axis=1)

    m, p = q - r(q, 1), r(q, -1) - q
    both = m * p
    slope = np.where(both > 0, 2 * both / np.where(both > 0, m + p, 1), 0)
    f = np.where(c > 0, c * (r(q, 1) + 0.5 * (1 - c) * r(slope, 1)), c * (q - 0.5 * (1 + c) * slope))
    return {"y": q - (r(f, -1) - f)}


def ising_sweep(h: int = 256, w: int = 384) -> Kernel:
    """Half a sweep of Metropolis on a chessboard: spins of bytes, random bytes, thresholds by the spin's neighbours."""
    kb = KernelBuilder("ising_sweep")
    i, j = kb.axis("h", h), kb.axis("w", w)
    s, r = kb.input("s", (h, w), int8, range=(0, 1)), kb.input("r", (h, w), uint8)
    near = (
        cast(s[(i + h - 1) % h, j], int32)
        + cast(s[(i + 1) % h, j], int32)
        + cast(s[i, (j + w - 1) % w], int32)
        + cast(s[i, (j + 1) % w], int32)
    )
    mine = cast(s[i, j], int32)
    gain = where(mine.eq(1), near, 4 - near)  # how many agree
    limit = cast(where(gain <= 2, 256, where(gain.eq(3), 44, 8)), int32)
    flips = (cast(r[i, j], int32) < limit) & ((i + j) % 2).eq(0)
    kb.store("y", int8, (h, w), (i, j), cast(where(flips, 1 - mine, mine), int8))
    return kb.build()


C["ising_sweep"] = """
typedef signed char s8;
typedef unsigned char u8;
static s8 spin(s8 c, u8 near, u8 r, u8 red) {
  u8 gain = c * (2 * near - 4) + 4 - near, limit = gain == 3 ? 44 : 8;
  u8 flip = (gain <= 2) | (r < limit);
  return c ^ (flip & red);
}
static void row(const s8 *restrict u, const s8 *restrict d, const s8 *restrict c, const u8 *restrict r, s8 *restrict o, int i) {
  for (int j = 1; j < W - 1; j++) o[j] = spin(c[j], u[j] + d[j] + c[j - 1] + c[j + 1], r[j], 1);
  o[0] = spin(c[0], u[0] + d[0] + c[W - 1] + c[1], r[0], 1);
  o[W - 1] = spin(c[W - 1], u[W - 1] + d[W - 1] + c[W - 2] + c[0], r[W - 1], 1);
  for (int j = 1 - i % 2; j < W; j += 2) o[j] = c[j];
}
void kernel(const s8 (*restrict s)[W], const u8 (*restrict r)[W], s8 (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(s[i ? i - 1 : H - 1], s[i < H - 1 ? i + 1 : 0], s[i], r[i], y[i], i);
}
"""


def ising_sweep_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.roll."""
    import numpy as np

    a = x["s"].astype(int)
    near = sum(np.roll(a, o, ax) for o in (1, -1) for ax in (0, 1))
    gain = np.where(a == 1, near, 4 - near)
    limit = np.where(gain <= 2, 256, np.where(gain == 3, 44, 8))
    flips = (x["r"] < limit) & (np.add.outer(np.arange(s["h"]), np.arange(s["w"])) % 2 == 0)
    return {"y": np.where(flips, 1 - a, a).astype(np.int8)}


def restrict_volume(d: int = 40, h: int = 50, w: int = 53) -> Kernel:
    """A multigrid's coarser volume, in bfloat16: means of 2x2x2."""
    kb = KernelBuilder("restrict_volume")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (2 * d, 2 * h, 2 * w), bfloat16)
    total = None
    for p in (0, 1):
        for q in (0, 1):
            for r in (0, 1):
                v = cast(x[2 * i + p, 2 * j + q, 2 * k + r], float32)
                total = v if total is None else total + v
    kb.store("y", bfloat16, (d, h, w), (i, j, k), 0.125 * total)
    return kb.build()


C["restrict_volume"] = """
typedef unsigned short bf16;
static float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
static void row(const bf16 *restrict a, const bf16 *restrict b, const bf16 *restrict c, const bf16 *restrict d, bf16 *restrict y) {
  for (int k = 0; k < W; k++)
    y[k] = narrow(0.125f * (wide(a[2 * k]) + wide(a[2 * k + 1]) + wide(b[2 * k]) + wide(b[2 * k + 1]) +
                            wide(c[2 * k]) + wide(c[2 * k + 1]) + wide(d[2 * k]) + wide(d[2 * k + 1])));
}
void kernel(const bf16 (*restrict x)[2 * H][2 * W], bf16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) row(x[2 * i][2 * j], x[2 * i][2 * j + 1], x[2 * i + 1][2 * j], x[2 * i + 1][2 * j + 1], y[i][j]);
}
"""


def restrict_volume_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A mean over a view of six dimensions."""
    import numpy as np

    d, h, w = s["d"], s["h"], s["w"]
    return {"y": x["x"].astype(np.float64).reshape(d, 2, h, 2, w, 2).mean(axis=(1, 3, 5))}
