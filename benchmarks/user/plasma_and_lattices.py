"""Currents of particles, fluids and colours on lattices, and light in lossy matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float32, int32, int64, maximum, minimum, uint8, uint16, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "zigzag_current": ("scatters", {"n": 41, "gy": 9, "gx": 12}),
    "porous_flow": ("stencil of many fields", {"d": 3, "h": 4, "w": 7}),
    "potts_heat_bath": ("stencil, periodic borders", {"h": 6, "w": 11}),
    "lossy_yee_step": ("stencil of many fields", {"h": 9, "w": 14}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def zigzag_current(n: int = 60013, gy: int = 96, gx: int = 150) -> Kernel:
    """Currents that particles leave on a Yee grid (Umeda's zigzag): each path goes by a relay point on the border of its cells."""
    kb = KernelBuilder("zigzag_current")
    p = kb.axis("n", n)
    cell = [kb.input(f"cell_{a}", (n,), int32, range=(1, g - 3)) for a, g in (("x", gx), ("y", gy))]
    at = [kb.input(f"at_{a}", (n,), float32, range=(0.0, 1.0)) for a in "xy"]
    step = [kb.input(f"step_{a}", (n,), float32, range=(-0.9, 0.9)) for a in "xy"]
    q = kb.input("q", (n,), float32)
    flux, mid, cells = [], [], []
    for c, a, s in zip(cell, at, step):
        end = a[p] + s[p]
        hop = cast(where(end < 0.0, -1, where(end >= 1.0, 1, 0)), int32)
        low, high = cast(minimum(hop, 0), float32) + 1.0, cast(maximum(hop, 0), float32)
        relay = minimum(low, maximum(high, 0.5 * (a[p] + end)))
        flux.append((q[p] * (relay - a[p]), q[p] * (end - relay)))
        mid.append((0.5 * (a[p] + relay), 0.5 * (relay + end) - cast(hop, float32)))
        cells.append((cast(c[p], int64), cast(c[p] + hop, int64)))
    for k in (0, 1):
        x, y = cells[0][k], cells[1][k]
        for side in (0, 1):
            far_x, far_y = (mid[a][k] if side else 1.0 - mid[a][k] for a in (0, 1))
            kb.store("jx", float32, (gy, gx), (p,), flux[0][k] * far_y, (y + side, x), combine="add")
            kb.store("jy", float32, (gy, gx), (p,), flux[1][k] * far_x, (y, x + side), combine="add")
    return kb.build()


C["zigzag_current"] = """
#include <string.h>
static float relay(int hop, float a, float b) {
  float low = hop < 0 ? 0 : 1, high = hop > 0 ? 1 : 0, m = (a + b) / 2;
  m = m > high ? m : high;
  return m < low ? m : low;
}
void kernel(const int *restrict cell_x, const int *restrict cell_y, const float *restrict at_x, const float *restrict at_y,
            const float *restrict step_x, const float *restrict step_y, const float *restrict q, float (*restrict jx)[GX],
            float (*restrict jy)[GX]) {
  memset(jx, 0, sizeof(float) * GY * GX), memset(jy, 0, sizeof(float) * GY * GX);
  for (int p = 0; p < N; p++) {
    float x0 = at_x[p], y0 = at_y[p], x2 = x0 + step_x[p], y2 = y0 + step_y[p];
    int hx = x2 < 0 ? -1 : x2 >= 1, hy = y2 < 0 ? -1 : y2 >= 1, x = cell_x[p], y = cell_y[p];
    float xr = relay(hx, x0, x2), yr = relay(hy, y0, y2);
    float fx = q[p] * (xr - x0), fy = q[p] * (yr - y0), wx = (x0 + xr) / 2, wy = (y0 + yr) / 2;
    jx[y][x] += fx * (1 - wy), jx[y + 1][x] += fx * wy;
    jy[y][x] += fy * (1 - wx), jy[y][x + 1] += fy * wx;
    x += hx, y += hy;
    fx = q[p] * (x2 - xr), fy = q[p] * (y2 - yr), wx = (xr + x2) / 2 - hx, wy = (yr + y2) / 2 - hy;
    jx[y][x] += fx * (1 - wy), jx[y + 1][x] += fx * wy;
    jy[y][x] += fy * (1 - wx), jy[y][x + 1] += fy * wx;
  }
}
"""


def zigzag_current_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at, a half of the paths after the other."""
    import numpy as np

    q = x["q"].astype(float)
    cell = np.stack([x["cell_x"], x["cell_y"]]).astype(int)
    a, step = (np.stack([x[f"{name}_x"], x[f"{name}_y"]]).astype(float) for name in ("at", "step"))
    b = a + step
    hop = np.floor(b).astype(int)
    r = np.minimum(np.minimum(hop, 0) + 1, np.maximum(np.maximum(hop, 0), (a + b) / 2))
    j = np.zeros((2, s["gy"], s["gx"]))
    for u, v, moved in ((a, r, 0 * hop), (r, b, hop)):
        (cx, cy), (fx, fy), (wx, wy) = cell + moved, q * (v - u), (u + v) / 2 - moved
        for side in (0, 1):
            np.add.at(j[0], (cy + side, cx), fx * abs(1 - side - wy))
            np.add.at(j[1], (cy, cx + side), fy * abs(1 - side - wx))
    return {"jx": j[0], "jy": j[1]}


PAIRS = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1)]
WAYS = [(0, 0, 0)] + [(t * a, t * b, t * c) for a, b, c in PAIRS for t in (1, -1)]
"""How parts of a fluid move in a step: at rest, then pairs of opposite ways."""


def porous_flow(d: int = 22, h: int = 27, w: int = 45) -> Kernel:
    """A step of a fluid among grains (D3Q19, two relaxation times, pushed along w): bright voxels of a scan send parts back."""
    kb = KernelBuilder("porous_flow")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    f = kb.input("f", (19, d + 2, h + 2, w + 2), float32, range=(0.03, 0.07))
    scan = kb.input("scan", (d + 2, h + 2, w + 2), uint8)
    came = [f[0, i + 1, j + 1, k + 1]]
    for m, (a, b, c) in enumerate(WAYS[1:], 1):
        there = (i + 1 - a, j + 1 - b, k + 1 - c)
        came.append(where(scan[there] > 204, f[m + 1 if m % 2 else m - 1, i + 1, j + 1, k + 1], f[m, *there]))
    rho, u = sum(came[1:], came[0]), []
    for axis in range(3):
        up = [came[m] for m in range(1, 19) if WAYS[m][axis] > 0]
        down = [came[m] for m in range(1, 19) if WAYS[m][axis] < 0]
        u.append((sum(up[1:], up[0]) - sum(down[1:], down[0])) / rho)
    rest = 1.0 - 1.5 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
    new = [came[0] - 1.2 * (came[0] - rho * rest * (1.0 / 3.0))]
    for m in range(1, 19, 2):
        weight = 1 / 18 if m < 7 else 1 / 36
        along = sum(((u[a] if t > 0 else -u[a]) for a, t in enumerate(WAYS[m]) if t), 0.0)
        even = 1.2 * (0.5 * (came[m] + came[m + 1]) - weight * rho * (rest + 4.5 * along * along))
        odd = 0.9 * (0.5 * (came[m] - came[m + 1]) - 3.0 * weight * rho * along) - weight * 0.003 * WAYS[m][2]
        new += [came[m] - even - odd, came[m + 1] - even + odd]
    still = scan[i + 1, j + 1, k + 1] > 204
    for m, v in enumerate(new):
        kb.store("y", float32, (19, d, h, w), (i, j, k), where(still, f[m, i + 1, j + 1, k + 1], v), (m, i, j, k))
    return kb.build()


C["porous_flow"] = """
static const int way[19][3] = {{0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}, {1, 1, 0}, {-1, -1, 0},
  {1, -1, 0}, {-1, 1, 0}, {1, 0, 1}, {-1, 0, -1}, {1, 0, -1}, {-1, 0, 1}, {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1}};
typedef unsigned char u8;
#define APART __attribute__((noinline)) static
APART void pull(const float *restrict from, const float *restrict back, const u8 *restrict wall, const int *e,
                float *restrict g, float *restrict rho, float *restrict a, float *restrict b, float *restrict c) {
  float e0 = e[0], e1 = e[1], e2 = e[2];
  for (int k = 0; k < W; k++) {
    float v = wall[k] > 204 ? back[k] : from[k];
    g[k] = v, rho[k] += v, a[k] += e0 * v, b[k] += e1 * v, c[k] += e2 * v;
  }
}
APART void collide(const float *restrict f, const float *restrict o, const u8 *restrict still, const float *restrict g,
                   const float *restrict h, const float *restrict rho, const float *restrict rest, const float *restrict a,
                   const float *restrict b, const float *restrict c, float weight, const int *e, float *restrict p, float *restrict q) {
  float e0 = e[0], e1 = e[1], e2 = e[2];
  for (int k = 0; k < W; k++) {
    float along = e0 * a[k] + e1 * b[k] + e2 * c[k];
    float even = 1.2f * ((g[k] + h[k]) / 2 - weight * rho[k] * (rest[k] + 4.5f * along * along));
    float odd = 0.9f * ((g[k] - h[k]) / 2 - 3 * weight * rho[k] * along) - weight * 0.003f * e2;
    p[k] = still[k] > 204 ? f[k] : g[k] - even - odd;
    q[k] = still[k] > 204 ? o[k] : h[k] - even + odd;
  }
}
void kernel(const float (*restrict f)[D + 2][H + 2][W + 2], const u8 (*restrict scan)[H + 2][W + 2], float (*restrict y)[D][H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) {
      float g[19][W], rho[W], a[W], b[W], c[W], rest[W];
      const u8 *still = &scan[i + 1][j + 1][1];
      for (int k = 0; k < W; k++) rho[k] = a[k] = b[k] = c[k] = 0;
      for (int m = 0; m < 19; m++) {
        int u = i + 1 - way[m][0], v = j + 1 - way[m][1], w = 1 - way[m][2], other = m == 0 ? 0 : m % 2 ? m + 1 : m - 1;
        pull(&f[m][u][v][w], &f[other][i + 1][j + 1][1], &scan[u][v][w], way[m], g[m], rho, a, b, c);
      }
      for (int k = 0; k < W; k++) {
        float over = 1 / rho[k], own = f[0][i + 1][j + 1][k + 1];
        a[k] *= over, b[k] *= over, c[k] *= over;
        rest[k] = 1 - 1.5f * (a[k] * a[k] + b[k] * b[k] + c[k] * c[k]);
        y[0][i][j][k] = still[k] > 204 ? own : own - 1.2f * (own - rho[k] * rest[k] / 3);
      }
      for (int m = 1; m < 19; m += 2)
        collide(&f[m][i + 1][j + 1][1], &f[m + 1][i + 1][j + 1][1], still, g[m], g[m + 1], rho, rest, a, b, c,
                m < 7 ? 1.0f / 18 : 1.0f / 36, way[m], y[m][i][j], y[m + 1][i][j]);
    }
}
"""


def porous_flow_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Slices, and moments by einsum."""
    import numpy as np

    d, h, w = s["d"], s["h"], s["w"]
    f, grain = x["f"].astype(float), x["scan"] > 204

    def part(a: Any, e: Any) -> Any:
        return a[..., 1 - e[0] : 1 - e[0] + d, 1 - e[1] : 1 - e[1] + h, 1 - e[2] : 1 - e[2] + w]

    other = np.array([0] + [m + 1 if m % 2 else m - 1 for m in range(1, 19)])
    mine, ways = part(f, (0, 0, 0)), np.array(WAYS)
    came = np.stack([np.where(part(grain, e), mine[other[m]], part(f[m], e)) for m, e in enumerate(WAYS)])
    came[0] = mine[0]
    weight = np.array([1 / 3] + [1 / 18] * 6 + [1 / 36] * 12)[:, None, None, None]
    rho, u = came.sum(axis=0), np.einsum("ma,mijk->aijk", ways, came) / came.sum(axis=0)
    along = np.einsum("ma,aijk->mijk", ways, u)
    even = (came + came[other]) / 2 - weight * rho * (1 - 1.5 * (u * u).sum(axis=0) + 4.5 * along**2)
    odd = (came - came[other]) / 2 - 3 * weight * rho * along
    push = weight * 0.003 * ways[:, 2, None, None, None]
    return {"y": np.where(part(grain, (0, 0, 0)), mine, came - 1.2 * even - 0.9 * odd + push)}


def potts_heat_bath(h: int = 480, w: int = 307) -> Kernel:
    """New colours (of five) of a chessboard's black squares, by their white neighbours: weights by table, one random word a square.

    Both squares of a pair lie at the same place of two arrays: a black one is the right one in odd rows."""
    kb = KernelBuilder("potts_heat_bath")
    i, j = kb.axis("h", h), kb.axis("w", w)
    white = kb.input("white", (h, w), uint8, range=(0, 4))
    weight, r = kb.input("weight", (5,), int32, range=(1, 4000)), kb.input("r", (h, w), uint16, range=(0, 65535))
    near = [white[(i + h - 1) % h, j], white[(i + 1) % h, j], white[i, j], white[i, (j + w - 1 + 2 * (i % 2)) % w]]
    shares = []
    for c in range(5):
        same = [cast(v.eq(c), int32) for v in near]
        shares.append(weight[same[0] + same[1] + same[2] + same[3]])
    drawn = (cast(r[i, j], int32) * sum(shares[1:], shares[0])) >> 16
    colour: Any = sum(cast(sum(shares[1 : c + 1], shares[0]) <= drawn, int32) for c in range(4))
    kb.store("black", uint8, (h, w), (i, j), cast(colour, uint8))
    return kb.build()


C["potts_heat_bath"] = """
#include <string.h>
typedef unsigned char u8;
static void row(const u8 *restrict n, const u8 *restrict s, const u8 *restrict v, const int *restrict weight,
                const unsigned short *restrict r, int odd, u8 *restrict black) {
  u8 side[W];
  memcpy(side + !odd, v + odd, W - 1), side[odd ? W - 1 : 0] = v[odd ? 0 : W - 1];
  for (int j = 0; j < W; j++) {
    int up[5], sum = 0, colour = 0;
    for (int k = 0; k < 5; k++) up[k] = sum += weight[(n[j] == k) + (s[j] == k) + (v[j] == k) + (side[j] == k)];
    for (int k = 0; k < 4; k++) colour += up[k] <= r[j] * sum >> 16;
    black[j] = colour;
  }
}
void kernel(const u8 (*restrict white)[W], const int *restrict weight, const unsigned short (*restrict r)[W], u8 (*restrict black)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(white[(i + H - 1) % H], white[(i + 1) % H], white[i], weight, r[i], i % 2, black[i]);
}
"""


def potts_heat_bath_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Rolled neighbours, and cumulative weights of all colours."""
    import numpy as np

    v = x["white"].astype(int)
    up, down, left, right = (np.roll(v, k, axis=a) for a in (0, 1) for k in (1, -1))
    near = np.stack([up, down, v, np.where((np.arange(s["h"]) % 2 == 1)[:, None], right, left)])
    many = (near[..., None] == np.arange(5)).sum(axis=0)
    most = x["weight"].astype(np.int64)[many].cumsum(axis=-1)
    drawn = x["r"].astype(np.int64) * most[..., 4] >> 16
    return {"black": (most[..., :4] <= drawn[..., None]).sum(axis=-1).astype(np.uint8)}


def lossy_yee_step(h: int = 411, w: int = 617) -> Kernel:
    """Yee's step of an electric field, of materials by number, and what its absorbing layers (CPML) remember of both slopes."""
    kb = KernelBuilder("lossy_yee_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    e, px, py = (kb.input(name, (h, w), float32) for name in ("e", "px", "py"))
    hx, hy = kb.input("hx", (h + 1, w), float32), kb.input("hy", (h, w + 1), float32)
    matter = kb.input("matter", (h, w), uint8, range=(0, 11))
    keep, gain = kb.input("keep", (12,), float32, range=(0.5, 1.0)), kb.input("gain", (12,), float32, range=(0.1, 0.7))
    cx, cy = kb.input("cx", (3, w), float32, range=(0.1, 1.0)), kb.input("cy", (3, h), float32, range=(0.1, 1.0))
    along, down = hy[i, j + 1] - hy[i, j], hx[i + 1, j] - hx[i, j]
    new_x, new_y = cx[0, j] * px[i, j] - cx[1, j] * along, cy[0, i] * py[i, j] - cy[1, i] * down
    curl = cx[2, j] * along + new_x - cy[2, i] * down - new_y
    new_e = keep[matter[i, j]] * e[i, j] + gain[matter[i, j]] * curl
    for name, v in (("e_new", new_e), ("px_new", new_x), ("py_new", new_y)):
        kb.store(name, float32, (h, w), (i, j), v)
    return kb.build()


C["lossy_yee_step"] = """
void kernel(const float (*restrict e)[W], const float (*restrict px)[W], const float (*restrict py)[W],
            const float (*restrict hx)[W], const float (*restrict hy)[W + 1], const unsigned char (*restrict matter)[W],
            const float *restrict keep, const float *restrict gain, const float (*restrict cx)[W],
            const float (*restrict cy)[H], float (*restrict e_new)[W], float (*restrict px_new)[W], float (*restrict py_new)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      float along = hy[i][j + 1] - hy[i][j], down = hx[i + 1][j] - hx[i][j];
      float x = cx[0][j] * px[i][j] - cx[1][j] * along, y = cy[0][i] * py[i][j] - cy[1][i] * down;
      int m = matter[i][j];
      e_new[i][j] = keep[m] * e[i][j] + gain[m] * (cx[2][j] * along + x - cy[2][i] * down - y);
      px_new[i][j] = x, py_new[i][j] = y;
    }
}
"""


def lossy_yee_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.diff, and tables taken by number."""
    import numpy as np

    a = {n: v.astype(float) for n, v in x.items() if n != "matter"}
    along, down = np.diff(a["hy"], axis=1), np.diff(a["hx"], axis=0)
    cx, cy = a["cx"], a["cy"][..., None]
    px, py = cx[0] * a["px"] - cx[1] * along, cy[0] * a["py"] - cy[1] * down
    curl = cx[2] * along + px - cy[2] * down - py
    return {"e_new": (a["keep"][x["matter"]] * a["e"] + a["gain"][x["matter"]] * curl), "px_new": px, "py_new": py}
