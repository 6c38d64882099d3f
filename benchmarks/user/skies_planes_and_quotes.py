"""Energies of three atoms, frames stacked without outliers, how much sky is seen, planes in points, quotes before trades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    float32,
    float64,
    int16,
    int32,
    maximum,
    minimum,
    rsqrt,
    sqrt,
    uint8,
    uint16,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "axilrod_teller": ("triples", {"n": 9}),
    "sigma_clipped_stack": ("reductions over frames", {"k": 5, "h": 7, "w": 11}),
    "sky_view": ("directional maxima", {"h": 13, "w": 15, "r": 4}),
    "ransac_planes": ("hypotheses against points", {"n": 57, "m": 9}),
    "asof_quotes": ("scans and searches", {"s": 3, "q": 23, "t": 31}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def axilrod_teller(n: int = 151) -> Kernel:
    """The energy of three bodies that each atom has with all pairs of others."""
    kb = KernelBuilder("axilrod_teller")
    i, j, k = kb.axis("n", n), kb.axis("n@second", n), kb.axis("n@third", n)
    x = kb.input("x", (n, 3), float64)

    def far(p: Any, q: Any) -> Any:
        return sum(((x[p, c] - x[q, c]) ** 2 for c in range(3)), 0.2)

    a, b, c = far(i, j), far(j, k), far(k, i)
    s = rsqrt(a * b * c)
    one = s**3 * (1.0 + 0.375 * (b + c - a) * (a + c - b) * (a + b - c) * s * s)
    total = kb.sum("total", (i,), (j, k), where((j < k) & ~j.eq(i) & ~k.eq(i), one, 0.0))
    kb.store("y", float64, (n,), (i,), total[i])
    return kb.build()


C["axilrod_teller"] = """
#include <math.h>
void kernel(const double (*restrict x)[3], double *restrict y) {
  static double far[N][N];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      far[i][j] = 0.2;
      for (int c = 0; c < 3; c++) far[i][j] += (x[i][c] - x[j][c]) * (x[i][c] - x[j][c]);
    }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double total = 0;
    for (int j = 0; j < N; j++) {
      if (j == i) continue;
      for (int k = j + 1; k < N; k++) {
        double a = far[i][j], b = far[j][k], c = far[i][k], s = 1 / (a * b * c);
        double one = s * sqrt(s) * (1 + 0.375 * (b + c - a) * (a + c - b) * (a + b - c) * s);
        total += k == i ? 0 : one;
      }
    }
    y[i] = total;
  }
}
"""


def axilrod_teller_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All triples of all atoms."""
    import numpy as np

    n, far = s["n"], ((x["x"][:, None] - x["x"]) ** 2).sum(-1) + 0.2
    a, b, c = far[:, :, None], far[None], far[:, None, :]
    one = (1 + 0.375 * (b + c - a) * (a + c - b) * (a + b - c) / (a * b * c)) / (a * b * c) ** 1.5
    i, j, k = np.ogrid[:n, :n, :n]
    return {"y": np.where((j < k) & (j != i) & (k != i), one, 0).sum((1, 2))}


def sigma_clipped_stack(k: int = 12, h: int = 1100, w: int = 1201) -> Kernel:
    """The mean of frames of 10 bits at each pixel without those two deviations off, and how many were left out."""
    kb = KernelBuilder("sigma_clipped_stack")
    i, j = kb.axis("h", h), kb.axis("w", w)
    a, b, c, d = (kb.axis(f"k@{name}", k) for name in ("total", "square", "kept", "count"))
    x = kb.input("x", (k, h, w), uint16, range=(0, 1023))

    def at(f: Any) -> Any:
        return cast(x[f, i, j], int32)

    total = kb.sum("total", (i, j), a, at(a))
    square = kb.sum("square", (i, j), b, at(b) * at(b))
    wide = kb.value("wide", (i, j), (square[i, j] * k - total[i, j] * total[i, j]) * 4)

    def near(f: Any) -> Any:
        return (at(f) * k - total[i, j]) * (at(f) * k - total[i, j]) <= wide[i, j]

    kept = kb.sum("kept", (i, j), c, where(near(c), at(c), 0))
    count = kb.sum("count", (i, j), d, near(d))
    kb.store("y", float32, (h, w), (i, j), cast(kept[i, j], float32) / cast(count[i, j], float32))
    kb.store("out", uint8, (h, w), (i, j), cast(k - count[i, j], uint8))
    return kb.build()


C["sigma_clipped_stack"] = """
void kernel(const unsigned short (*restrict x)[H][W], float (*restrict y)[W], unsigned char (*restrict out)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
#pragma omp simd
    for (int j = 0; j < W; j++) {
      int total = 0, square = 0, kept = 0, count = 0;
      for (int k = 0; k < K; k++) total += x[k][i][j], square += x[k][i][j] * x[k][i][j];
      int wide = 4 * (K * square - total * total);
      for (int k = 0; k < K; k++) {
        int d = K * x[k][i][j] - total, near = d * d <= wide;
        kept += near ? x[k][i][j] : 0, count += near;
      }
      y[i][j] = (float)kept / count;
      out[i][j] = K - count;
    }
  }
}
"""


def sigma_clipped_stack_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A masked mean in whole numbers."""
    import numpy as np

    v, k = x["x"].astype(np.int64), s["k"]
    total = v.sum(0)
    near = (k * v - total) ** 2 <= 4 * (k * (v * v).sum(0) - total**2)
    return {"y": (v * near).sum(0) / near.sum(0), "out": (k - near.sum(0)).astype(np.uint8)}


def sky_view(h: int = 257, w: int = 311, r: int = 12) -> Kernel:
    """The share of the sky that each point of a map sees: in eight directions the steepest rise within r steps."""
    kb = KernelBuilder("sky_view")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z, total = kb.input("z", (h, w), float32), 0.0
    for n, (dy, dx) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))):
        s = kb.axis(f"r@{n}", r)
        y, x = i + (s + 1) * dy, j + (s + 1) * dx
        inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
        rise = (z.masked(inside, y, x) - z[i, j]) / (cast(s + 1, float32) * (abs(dy) + abs(dx)) ** 0.5)
        most = maximum(kb.max(f"most{n}", (i, j), s, where(inside, rise, 0.0))[i, j], 0.0)
        total = total + 1.0 - most * rsqrt(1.0 + most * most)
    kb.store("y", float32, (h, w), (i, j), total * 0.125)
    return kb.build()


C["sky_view"] = """
#include <math.h>
static const int way[8][2] = {{0, 1}, {1, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, -1}, {-1, 0}, {-1, 1}};
void kernel(const float (*restrict z)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float most[W], total[W];
    for (int j = 0; j < W; j++) total[j] = 0;
    for (int n = 0; n < 8; n++) {
      int dy = way[n][0], dx = way[n][1];
      for (int j = 0; j < W; j++) most[j] = 0;
      for (int s = 1; s <= R; s++) {
        if (i + s * dy < 0 || i + s * dy >= H) break;
        int o = s * dx, first = o < 0 ? -o : 0, end = o < 0 ? W : W - o;
        float f = 1 / (s * (dy && dx ? sqrtf(2) : 1));
        for (int j = first; j < end; j++) {
          float v = (z[i + s * dy][j + o] - z[i][j]) * f;
          most[j] = most[j] > v ? most[j] : v;
        }
      }
      for (int j = 0; j < W; j++) total[j] += 1 - most[j] / sqrtf(1 + most[j] * most[j]);
    }
    for (int j = 0; j < W; j++) y[i][j] = total[j] * 0.125f;
  }
}
"""


def sky_view_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Into a map with a border that is very low."""
    import numpy as np

    r, h, w, z = s["r"], s["h"], s["w"], x["z"].astype(float)
    p, total = np.pad(z, r, constant_values=-1e30), 0
    for dy, dx in ((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b):
        rises = [(p[r + k * dy :][:h, r + k * dx :][:, :w] - z) / (k * np.hypot(dy, dx)) for k in range(1, r + 1)]
        total = total + 1 - np.sin(np.arctan(np.maximum(np.max(rises, axis=0), 0)))
    return {"y": total / 8}


def ransac_planes(n: int = 20011, m: int = 150) -> Kernel:
    """Planes through triples of points: how many points are within 2 of each, and which plane has most."""
    kb = KernelBuilder("ransac_planes")
    h, i, g = kb.axis("m", m), kb.axis("n", n), kb.axis("m@best", m)
    x, pick = kb.input("x", (n, 3), int16, range=(-100, 100)), kb.input("pick", (m, 3), int32, range=(0, n - 1))
    a, b, c = ([cast(x[pick[h, v], d], int32) for d in range(3)] for v in range(3))
    p, q = [b[d] - a[d] for d in range(3)], [c[d] - a[d] for d in range(3)]
    normal = [kb.value(f"normal{d}", (h,), p[d - 2] * q[d - 1] - p[d - 1] * q[d - 2]) for d in range(3)]
    off = kb.value("off", (h,), sum((normal[d][h] * a[d] for d in range(1, 3)), normal[0][h] * a[0]))
    long = sum((cast(normal[d][h], float64) ** 2 for d in range(1, 3)), cast(normal[0][h], float64) ** 2)
    limit = kb.value("limit", (h,), cast(sqrt(long) * 2.0, int32))
    dot = sum((normal[d][h] * cast(x[i, d], int32) for d in range(1, 3)), normal[0][h] * cast(x[i, 0], int32))
    near = kb.sum("near", (h,), i, absolute(dot - off[h]) <= limit[h])
    kb.store("count", int32, (m,), (h,), near[h])
    kb.store("best", int32, (1,), (), kb.argmax("most", (), g, near[g])[()], (0,))
    return kb.build()


C["ransac_planes"] = """
#include <math.h>
#include <stdlib.h>
void kernel(const short (*restrict x)[3], const int (*restrict pick)[3], int *restrict count, int *restrict best) {
#pragma omp parallel for
  for (int h = 0; h < M; h++) {
    const short *a = x[pick[h][0]], *b = x[pick[h][1]], *c = x[pick[h][2]];
    int p[3], q[3], near = 0;
    for (int d = 0; d < 3; d++) p[d] = b[d] - a[d], q[d] = c[d] - a[d];
    int u = p[1] * q[2] - p[2] * q[1], v = p[2] * q[0] - p[0] * q[2], w = p[0] * q[1] - p[1] * q[0];
    int off = u * a[0] + v * a[1] + w * a[2], limit = 2 * sqrt((double)u * u + (double)v * v + (double)w * w);
    for (int i = 0; i < N; i++) near += abs(u * x[i][0] + v * x[i][1] + w * x[i][2] - off) <= limit;
    count[h] = near;
  }
  *best = 0;
  for (int h = 1; h < M; h++)
    if (count[h] > count[*best]) *best = h;
}
"""


def ransac_planes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All planes with all points."""
    import numpy as np

    a, b, c = (x["x"].astype(np.int64)[x["pick"][:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    apart = abs(normal @ x["x"].T.astype(np.int64) - (normal * a).sum(1)[:, None])
    count = (apart <= np.floor(2 * np.sqrt((normal.astype(float) ** 2).sum(1)))[:, None]).sum(1)
    return {"count": count.astype(np.int32), "best": np.array([count.argmax()], np.int32)}


def asof_quotes(s: int = 120, q: int = 1500, t: int = 1999) -> Kernel:
    """Trades joined with the last quote at or before each, by bisection: its price, and how old it is; 0 and -1 before the first."""
    kb = KernelBuilder("asof_quotes")
    i, j, k = kb.axis("s", s), kb.axis("q", q), kb.axis("t", t)
    gap, price = kb.input("gap", (s, q), int32, range=(1, 9)), kb.input("price", (s, q), float32, range=(1.0, 99.0))
    when = kb.input("when", (s, t), int32, range=(0, 5 * q))
    time = kb.scan("add", "time", (i, j), j, gap[i, j])
    found, step = cast(i * 0, int32), 1 << (q.bit_length() - 1)
    while step:
        at = found + step
        early = (at <= q) & (time[i, minimum(at, q) - 1] <= when[i, k])
        found = kb.value(f"found{step}", (i, k), where(early, at, found))[i, k]
        step //= 2
    last = maximum(found - 1, 0)
    kb.store("paid", float32, (s, t), (i, k), where(found > 0, price[i, last], 0.0))
    kb.store("age", int32, (s, t), (i, k), where(found > 0, when[i, k] - time[i, last], -1))
    return kb.build()


C["asof_quotes"] = """
void kernel(const int (*restrict gap)[Q], const float (*restrict price)[Q], const int (*restrict when)[T],
            float (*restrict paid)[T], int (*restrict age)[T]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    int time[Q];
    for (int j = 0, now = 0; j < Q; j++) time[j] = now += gap[i][j];
    for (int k = 0; k < T; k++) {
      int low = 0, many = Q;
      for (; many > 1; many -= many / 2) low += (time[low + many / 2 - 1] <= when[i][k]) * (many / 2);
      low += time[low] <= when[i][k];
      paid[i][k] = low ? price[i][low - 1] : 0;
      age[i][k] = low ? when[i][k] - time[low - 1] : -1;
    }
  }
}
"""


def asof_quotes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.searchsorted of each row."""
    import numpy as np

    time = x["gap"].cumsum(axis=1)
    found = np.stack([np.searchsorted(a, b, side="right") for a, b in zip(time, x["when"], strict=True)])
    last, rows = np.maximum(found - 1, 0), np.arange(s["s"])[:, None]
    age = np.where(found > 0, x["when"] - time[rows, last], -1)
    return {"paid": np.where(found > 0, x["price"][rows, last], 0), "age": age.astype(np.int32)}
