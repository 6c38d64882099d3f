"""Polygons and Delaunay predicates; edges and predictions of video codecs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, clip, float64, int16, int32, int64, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "polygon_moments": ("row statistics", {"n": 7, "k": 5}),
    "delaunay_flips": ("gathers", {"e": 23, "v": 11}),
    "deblock_edges": ("stencils", {"h": 16, "b": 5}),
    "intra_modes": ("small blocks", {"h": 3, "w": 5}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def polygon_moments(n: int = 9001, k: int = 24) -> Kernel:
    """Area, first moments and the number of corners that turn right, of n closed polygons with k corners."""
    kb = KernelBuilder("polygon_moments")
    i = kb.axis("n", n)
    x = kb.input("x", (n, k, 2), float64)

    def cross(j: Any, q: Any) -> Any:
        return x[i, j, 0] * x[i, q, 1] - x[i, q, 0] * x[i, j, 1]

    a, b, c, d = (kb.axis(f"k@{name}", k) for name in ("area", "mx", "my", "turn"))
    area = kb.sum("twice", (i,), a, cross(a, (a + 1) % k))
    mx = kb.sum("mx", (i,), b, (x[i, b, 0] + x[i, (b + 1) % k, 0]) * cross(b, (b + 1) % k))
    my = kb.sum("my", (i,), c, (x[i, c, 1] + x[i, (c + 1) % k, 1]) * cross(c, (c + 1) % k))
    e, f = (d + 1) % k, (d + 2) % k
    turn = (x[i, e, 0] - x[i, d, 0]) * (x[i, f, 1] - x[i, e, 1]) - (x[i, e, 1] - x[i, d, 1]) * (x[i, f, 0] - x[i, e, 0])
    right = kb.sum("right", (i,), d, turn < 0.0)
    kb.store("area", float64, (n,), (i,), area[i] * 0.5)
    kb.store("moment", float64, (n, 2), (i,), mx[i] * (1.0 / 6.0), (i, 0))
    kb.store("moment", float64, (n, 2), (i,), my[i] * (1.0 / 6.0), (i, 1))
    kb.store("reflex", int32, (n,), (i,), right[i])
    return kb.build()


C["polygon_moments"] = """
void kernel(const double (*restrict x)[K][2], double *restrict area, double (*restrict moment)[2], int *restrict reflex) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double a = 0, mx = 0, my = 0;
    int right = 0;
    for (int j = 0; j < K; j++) {
      const double *p = x[i][j], *q = x[i][j + 1 < K ? j + 1 : 0], *r = x[i][j + 2 < K ? j + 2 : j + 2 - K];
      double c = p[0] * q[1] - q[0] * p[1];
      a += c, mx += (p[0] + q[0]) * c, my += (p[1] + q[1]) * c;
      right += (q[0] - p[0]) * (r[1] - q[1]) - (q[1] - p[1]) * (r[0] - q[0]) < 0;
    }
    area[i] = a / 2, moment[i][0] = mx / 6, moment[i][1] = my / 6, reflex[i] = right;
  }
}
"""


def polygon_moments_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.roll."""
    import numpy as np

    p = x["x"]
    q, r = np.roll(p, -1, axis=1), np.roll(p, -2, axis=1)
    c = p[..., 0] * q[..., 1] - q[..., 0] * p[..., 1]
    u, v = q - p, r - q
    turn = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
    moment = ((p + q) * c[..., None]).sum(axis=1) / 6
    return {"area": c.sum(axis=1) / 2, "moment": moment, "reflex": (turn < 0).sum(axis=1).astype(np.int32)}


def delaunay_flips(e: int = 40001, v: int = 20011) -> Kernel:
    """Which edges of a triangulation must flip: the fourth point lies in the circle of the other three, in exact integers."""
    kb = KernelBuilder("delaunay_flips")
    i, q = kb.axis("e", e), kb.axis("e@count", e)
    quad = kb.input("quad", (e, 4), int32, range=(0, v - 1))
    p = kb.input("p", (v, 2), int32, range=(-8000, 8000))

    def inside(i: Any) -> Any:
        x, y = ([cast(p[quad[i, c], d], int64) for c in range(4)] for d in (0, 1))
        (ax, bx, cx), (ay, by, cy) = ([u[c] - u[3] for c in range(3)] for u in (x, y))
        ab, bc, ca = ax * by - ay * bx, bx * cy - by * cx, cx * ay - cy * ax
        det = (ax * ax + ay * ay) * bc + (bx * bx + by * by) * ca + (cx * cx + cy * cy) * ab
        return where(ab + bc + ca > 0, det, -det) > 0

    many = kb.sum("many", (), q, inside(q))
    kb.store("flip", "bool", (e,), (i,), inside(i))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


C["delaunay_flips"] = """
void kernel(const int (*restrict quad)[4], const int (*restrict p)[2], _Bool *restrict flip, int *restrict count) {
  int many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < E; i++) {
    const int *a = p[quad[i][0]], *b = p[quad[i][1]], *c = p[quad[i][2]], *d = p[quad[i][3]];
    long ax = a[0] - d[0], ay = a[1] - d[1], bx = b[0] - d[0], by = b[1] - d[1], cx = c[0] - d[0], cy = c[1] - d[1];
    long ab = ax * by - ay * bx, bc = bx * cy - by * cx, ca = cx * ay - cy * ax;
    long det = (ax * ax + ay * ay) * bc + (bx * bx + by * by) * ca + (cx * cx + cy * cy) * ab;
    _Bool in = (ab + bc + ca > 0 ? det : -det) > 0;
    flip[i] = in;
    many += in;
  }
  *count = many;
}
"""


def delaunay_flips_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The determinant by its rows, in int64."""
    import numpy as np

    p = x["p"].astype(np.int64)[x["quad"]]
    a, b, c = (p[:, k] - p[:, 3] for k in range(3))

    def cross(u: Any, w: Any) -> Any:
        return u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]

    det = (a * a).sum(1) * cross(b, c) + (b * b).sum(1) * cross(c, a) + (c * c).sum(1) * cross(a, b)
    flip = np.where(cross(b - a, c - a) > 0, det, -det) > 0
    return {"flip": flip, "count": np.array([flip.sum()], np.int32)}


def deblock_edges(h: int = 1080, b: int = 240) -> Kernel:
    """A video codec's filter over the vertical edges of 8x8 blocks, with thresholds by the quantisers of both sides."""
    kb = KernelBuilder("deblock_edges")
    y, e, yc, c = kb.axis("h", h), kb.axis("edges", b - 1), kb.axis("h@copy", h), kb.axis("b", b)
    x, qp = kb.input("x", (h, 8 * b), uint8), kb.input("qp", (h // 8, b), uint8, range=(0, 51))
    alpha, beta, most = (kb.input(name, (52,), uint8, range=(0, top)) for name, top in (("alpha", 255), ("beta", 90), ("most", 25)))
    p1, p0, q0, q1 = (cast(x[y, 8 * e + a], int32) for a in (6, 7, 8, 9))
    at = (cast(qp[y // 8, e], int32) + cast(qp[y // 8, e + 1], int32) + 1) >> 1
    far, near, tc = (cast(t[at], int32) for t in (alpha, beta, most))
    on = (absolute(p0 - q0) < far) & (absolute(p1 - p0) < near) & (absolute(q1 - q0) < near)
    delta = where(on, clip(((q0 - p0) * 4 + (p1 - q1) + 4) >> 3, -tc, tc), 0)
    kb.store("y", uint8, (h, 8 * b), (y, e), cast(clip(p0 + delta, 0, 255), uint8), (y, 8 * e + 7))
    kb.store("y", uint8, (h, 8 * b), (y, e), cast(clip(q0 - delta, 0, 255), uint8), (y, 8 * e + 8))
    for k in range(1, 7):
        kb.store("y", uint8, (h, 8 * b), (yc, c), x[yc, 8 * c + k], (yc, 8 * c + k))
    for end in (0, 8 * b - 1):
        kb.store("y", uint8, (h, 8 * b), (yc,), x[yc, end], (yc, end))
    return kb.build()


C["deblock_edges"] = """
#include <stdlib.h>
#include <string.h>
typedef unsigned char u8;
static u8 byte(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
void kernel(const u8 (*restrict x)[8 * B], const u8 (*restrict qp)[B], const u8 *restrict alpha, const u8 *restrict beta,
            const u8 *restrict most, u8 (*restrict y)[8 * B]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    memcpy(y[i], x[i], 8 * B);
    for (int e = 0; e < B - 1; e++) {
      const u8 *v = &x[i][8 * e + 6];
      int at = (qp[i / 8][e] + qp[i / 8][e + 1] + 1) >> 1, tc = most[at];
      if (abs(v[1] - v[2]) < alpha[at] && abs(v[0] - v[1]) < beta[at] && abs(v[3] - v[2]) < beta[at]) {
        int delta = ((v[2] - v[1]) * 4 + (v[0] - v[3]) + 4) >> 3;
        delta = delta < -tc ? -tc : delta > tc ? tc : delta;
        y[i][8 * e + 7] = byte(v[1] + delta), y[i][8 * e + 8] = byte(v[2] - delta);
      }
    }
  }
}
"""


def deblock_edges_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All edges at once."""
    import numpy as np

    a, qp = x["x"].astype(int), np.repeat(x["qp"].astype(int), 8, axis=0)
    at = (qp[:, :-1] + qp[:, 1:] + 1) >> 1
    p1, p0, q0, q1 = (a[:, k : 8 * (s["b"] - 1) + k : 8] for k in (6, 7, 8, 9))
    far, near, tc = (x[t].astype(int)[at] for t in ("alpha", "beta", "most"))
    on = (abs(p0 - q0) < far) & (abs(p1 - p0) < near) & (abs(q1 - q0) < near)
    delta = np.where(on, np.clip(((q0 - p0) * 4 + p1 - q1 + 4) >> 3, -tc, tc), 0)
    y = a.copy()
    y[:, 7:-8:8], y[:, 8::8] = np.clip(p0 + delta, 0, 255), np.clip(q0 - delta, 0, 255)
    return {"y": y.astype(np.uint8)}


def intra_modes(h: int = 60, w: int = 80) -> Kernel:
    """The best of four predictions of each 8x8 block from its upper and left neighbours, its cost, and what is left."""
    kb = KernelBuilder("intra_modes")
    y, x, r, c = kb.axis("h", h), kb.axis("w", w), kb.axis("r", 8), kb.axis("c", 8)
    v = kb.input("x", (8 * h + 1, 8 * w + 1), uint8)

    def top(c: Any) -> Any:
        return cast(v[8 * y, 8 * x + 1 + c], int32)

    def left(r: Any) -> Any:
        return cast(v[8 * y + 1 + r, 8 * x], int32)

    k = kb.axis("r@mean", 8)
    edge = kb.sum("edge", (y, x), k, top(k) + left(k))

    def guesses(r: Any, c: Any) -> list[Any]:
        i, j = cast(r, int32), cast(c, int32)
        plane = ((7 - j) * left(r) + (j + 1) * top(7) + (7 - i) * top(c) + (i + 1) * left(7) + 8) >> 4
        return [(edge[y, x] + 8) >> 4, top(c), left(r), plane]

    def pixel(r: Any, c: Any) -> Any:
        return cast(v[8 * y + 1 + r, 8 * x + 1 + c], int32)

    costs = []
    for m in range(4):
        p, q = kb.axis(f"r@{m}", 8), kb.axis(f"c@{m}", 8)
        costs.append(kb.sum(f"cost{m}", (y, x), (p, q), absolute(pixel(p, q) - guesses(p, q)[m])))
    mode: Any = 0
    least = costs[0][y, x]
    for m in (1, 2, 3):
        better = costs[m][y, x] < least
        mode, least = where(better, m, mode), where(better, costs[m][y, x], least)
    best, cost = kb.value("best", (y, x), cast(mode, int32)), kb.value("least", (y, x), least)
    dc, down, right, plane = guesses(r, c)
    b = best[y, x]
    guess = where(b.eq(0), dc, where(b.eq(1), down, where(b.eq(2), right, plane)))
    kb.store("mode", uint8, (h, w), (y, x), cast(b, uint8))
    kb.store("cost", int32, (h, w), (y, x), cost[y, x])
    kb.store("rest", int16, (h, w, 8, 8), (y, x, r, c), cast(pixel(r, c) - guess, int16))
    return kb.build()


C["intra_modes"] = """
#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[8 * W + 1], unsigned char (*restrict mode)[W], int (*restrict cost)[W],
            short (*restrict rest)[W][8][8]) {
#pragma omp parallel for
  for (int by = 0; by < H; by++)
    for (int bx = 0; bx < W; bx++) {
      int top[8], left[8], sum = 8, best = 0, sad[4] = {0};
      short all[4][8][8];
      for (int k = 0; k < 8; k++) {
        top[k] = x[8 * by][8 * bx + 1 + k], left[k] = x[8 * by + 1 + k][8 * bx];
        sum += top[k] + left[k];
      }
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) {
          int v = x[8 * by + 1 + r][8 * bx + 1 + c];
          all[0][r][c] = v - (sum >> 4), all[1][r][c] = v - top[c], all[2][r][c] = v - left[r];
          all[3][r][c] = v - (((7 - c) * left[r] + (c + 1) * top[7] + (7 - r) * top[c] + (r + 1) * left[7] + 8) >> 4);
          for (int m = 0; m < 4; m++) sad[m] += abs(all[m][r][c]);
        }
      for (int m = 1; m < 4; m++) best = sad[m] < sad[best] ? m : best;
      mode[by][bx] = best, cost[by][bx] = sad[best];
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) rest[by][bx][r][c] = all[best][r][c];
    }
}
"""


def intra_modes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All predictions of all blocks, and argmin."""
    import numpy as np

    h, w, v = s["h"], s["w"], x["x"].astype(int)
    block = v[1:, 1:].reshape(h, 8, w, 8).swapaxes(1, 2)
    top = v[:-1:8, 1:].reshape(h, w, 1, 8)
    left = v[1:, :-1:8].reshape(h, 8, w).swapaxes(1, 2)[..., None]
    r, c = np.arange(8)[:, None], np.arange(8)
    dc = (top.sum(axis=(2, 3)) + left.sum(axis=(2, 3)) + 8 >> 4)[..., None, None]
    plane = ((7 - c) * left + (c + 1) * top[..., 7:] + (7 - r) * top + (r + 1) * left[:, :, 7:] + 8) >> 4
    rest = np.stack([block - g for g in (dc, top, left, plane)])
    cost = abs(rest).sum(axis=(3, 4))
    mode = cost.argmin(axis=0)
    chosen = np.take_along_axis(rest, mode[None, ..., None, None], axis=0)[0]
    return {"mode": mode.astype(np.uint8), "cost": cost.min(axis=0).astype(np.int32), "rest": chosen.astype(np.int16)}
