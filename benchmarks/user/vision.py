"""Computer vision: optical flow, filters by windows, distances, votes for lines, and morphology of volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float32, int16, int32, maximum, minimum, uint16

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "flow_step": ("stencil of many fields", {"h": 5, "w": 19}),
    "guided_filter": ("chain of stencils", {"h": 9, "w": 19}),
    "squared_distance_rows": ("products in other semirings", {"h": 3, "w": 19}),
    "hough_lines": ("histograms", {"n": 17, "t": 9, "r": 11}),
    "morph_gradient3d": ("stencil, narrow integers", {"d": 3, "h": 5, "w": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def flow_step(h: int = 180, w: int = 241) -> Kernel:
    """A step of Horn and Schunck's optical flow: two fields, and means of eight neighbours (edges repeat)."""
    kb = KernelBuilder("flow_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, v = kb.input("u", (h, w), float32), kb.input("v", (h, w), float32)
    gx, gy, gt = (kb.input(n, (h, w), int16, range=(-255, 255)) for n in ("gx", "gy", "gt"))
    up, dn, lf, rt = maximum(i - 1, 0), minimum(i + 1, h - 1), maximum(j - 1, 0), minimum(j + 1, w - 1)

    def mean(a: Any) -> Any:
        return (a[up, j] + a[dn, j] + a[i, lf] + a[i, rt]) * (1 / 6) + (a[up, lf] + a[up, rt] + a[dn, lf] + a[dn, rt]) * (1 / 12)

    mu, mv = mean(u), mean(v)
    x, y, t = (cast(g[i, j], float32) for g in (gx, gy, gt))
    p = (x * mu + y * mv + t) / (x * x + y * y + 100.0)
    kb.store("nu", float32, (h, w), (i, j), mu - x * p)
    kb.store("nv", float32, (h, w), (i, j), mv - y * p)
    return kb.build()


C["flow_step"] = """
static void row(const float *restrict ua, const float *restrict u, const float *restrict ud, const float *restrict va,
                const float *restrict v, const float *restrict vd, const short *restrict gx, const short *restrict gy,
                const short *restrict gt, float *restrict nu, float *restrict nv) {
#define POINT(j, l, r) { \\
    float mu = (ua[j] + ud[j] + u[l] + u[r]) * (1 / 6.f) + (ua[l] + ua[r] + ud[l] + ud[r]) * (1 / 12.f); \\
    float mv = (va[j] + vd[j] + v[l] + v[r]) * (1 / 6.f) + (va[l] + va[r] + vd[l] + vd[r]) * (1 / 12.f); \\
    float x = gx[j], y = gy[j], p = (x * mu + y * mv + gt[j]) / (x * x + y * y + 100); \\
    nu[j] = mu - x * p; \\
    nv[j] = mv - y * p; }
  POINT(0, 0, 1)
  for (int j = 1; j < W - 1; j++) POINT(j, j - 1, j + 1)
  POINT(W - 1, W - 2, W - 1)
}
void kernel(const float (*restrict u)[W], const float (*restrict v)[W], const short (*restrict gx)[W], const short (*restrict gy)[W],
            const short (*restrict gt)[W], float (*restrict nu)[W], float (*restrict nv)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int up = i ? i - 1 : 0, dn = i < H - 1 ? i + 1 : H - 1;
    row(u[up], u[i], u[dn], v[up], v[i], v[dn], gx[i], gy[i], gt[i], nu[i], nv[i]);
  }
}
"""


def flow_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    def mean(a: Any) -> Any:
        p, h, w = np.pad(a.astype(np.float64), 1, mode="edge"), s["h"], s["w"]

        def at(b: int, c: int) -> Any:
            return p[1 + b : 1 + b + h, 1 + c : 1 + c + w]

        return (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) / 6 + (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)) / 12

    mu, mv = mean(x["u"]), mean(x["v"])
    a, b, t = (x[k].astype(np.float64) for k in ("gx", "gy", "gt"))
    p = (a * mu + b * mv + t) / (a * a + b * b + 100)
    return {"nu": mu - a * p, "nv": mv - b * p}


def guided_filter(h: int = 100, w: int = 161) -> Kernel:
    """He's guided filter, a window of 5 x 5 (only where it fits): means, slopes of each window, means of these."""
    kb = KernelBuilder("guided_filter")
    g, x = kb.input("g", (h + 8, w + 8), float32), kb.input("x", (h + 8, w + 8), float32)
    i, j = kb.axis("hh", h + 4), kb.axis("ww", w + 4)

    def box(name: str, f: Any) -> Any:
        i0, j0, q = kb.axis(f"h8@{name}", h + 8), kb.axis(f"ww@{name}", w + 4), kb.axis(f"q@{name}", 5)
        i1, j1, p = kb.axis(f"hh@{name}", h + 4), kb.axis(f"ww@{name}v", w + 4), kb.axis(f"p@{name}", 5)
        row = kb.sum(f"row_{name}", (i0, j0), q, f(i0, j0 + q))
        return kb.sum(name, (i1, j1), p, row[i1 + p, j1])

    mg, mx = box("mg", lambda a, b: g[a, b]), box("mx", lambda a, b: x[a, b])
    gg, gx = box("gg", lambda a, b: g[a, b] * g[a, b]), box("gx", lambda a, b: g[a, b] * x[a, b])
    o = 1 / 25
    slope = (gx[i, j] * o - mg[i, j] * mx[i, j] * (o * o)) / (gg[i, j] * o - mg[i, j] * mg[i, j] * (o * o) + 0.01)
    a = kb.value("a", (i, j), slope)
    i2, j2 = kb.axis("hh@b", h + 4), kb.axis("ww@b", w + 4)
    b = kb.value("b", (i2, j2), (mx[i2, j2] - a[i2, j2] * mg[i2, j2]) * o)

    def last(name: str, v: Any) -> Any:
        i0, j0, q = kb.axis(f"hh@{name}", h + 4), kb.axis(f"w@{name}", w), kb.axis(f"q@{name}", 5)
        i1, j1, p = kb.axis(f"h@{name}", h), kb.axis(f"w@{name}v", w), kb.axis(f"p@{name}", 5)
        row = kb.sum(f"row_{name}", (i0, j0), q, v[i0, j0 + q])
        return kb.sum(name, (i1, j1), p, row[i1 + p, j1])

    ma, mb = last("ma", a), last("mb", b)
    y, z = kb.axis("h", h), kb.axis("w", w)
    kb.store("y", float32, (h, w), (y, z), (ma[y, z] * g[y + 4, z + 4] + mb[y, z]) * o)
    return kb.build()


C["guided_filter"] = """
static float row[H + 8][W + 4], mg[H + 4][W + 4], mx[H + 4][W + 4], gg[H + 4][W + 4], gx[H + 4][W + 4];
static float a[H + 4][W + 4], b[H + 4][W + 4], ma[H][W], mb[H][W];
#define BOX(out, HH, WW, expr) \\
  for (int i = 0; i < HH + 4; i++) \\
    for (int j = 0; j < WW; j++) { float t = 0; for (int q = 0; q < 5; q++) { int k = j + q; t += expr; } row[i][j] = t; } \\
  for (int i = 0; i < HH; i++) \\
    for (int j = 0; j < WW; j++) out[i][j] = row[i][j] + row[i + 1][j] + row[i + 2][j] + row[i + 3][j] + row[i + 4][j];
void kernel(const float (*restrict g)[W + 8], const float (*restrict x)[W + 8], float (*restrict y)[W]) {
  BOX(mg, H + 4, W + 4, g[i][k])
  BOX(mx, H + 4, W + 4, x[i][k])
  BOX(gg, H + 4, W + 4, g[i][k] * g[i][k])
  BOX(gx, H + 4, W + 4, g[i][k] * x[i][k])
  for (int i = 0; i < H + 4; i++)
    for (int j = 0; j < W + 4; j++) {
      float p = mg[i][j] / 25, q = mx[i][j] / 25;
      a[i][j] = (gx[i][j] / 25 - p * q) / (gg[i][j] / 25 - p * p + 0.01f);
      b[i][j] = q - a[i][j] * p;
    }
  BOX(ma, H, W, a[i][k])
  BOX(mb, H, W, b[i][k])
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = (ma[i][j] * g[i + 4][j + 4] + mb[i][j]) / 25;
}
"""


def guided_filter_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Views of windows."""
    import numpy as np

    g, p = x["g"].astype(np.float64), x["x"].astype(np.float64)

    def mean(v: Any) -> Any:
        return np.lib.stride_tricks.sliding_window_view(v, (5, 5)).mean(axis=(2, 3))

    mg, mp = mean(g), mean(p)
    a = (mean(g * p) - mg * mp) / (mean(g * g) - mg * mg + 0.01)
    return {"y": mean(a) * g[4:-4, 4:-4] + mean(mp - a * mg)}


def squared_distance_rows(h: int = 40, w: int = 203) -> Kernel:
    """The second pass of an exact distance transform: rows, over the squares that the first found in columns."""
    kb = KernelBuilder("squared_distance_rows")
    i, j, k = kb.axis("h", h), kb.axis("w", w), kb.axis("w@k", w)
    g = kb.input("g", (h, w), int32, range=(0, 10000))
    least = kb.min("least", (i, j), k, g[i, k] + cast((j - k) * (j - k), int32))
    kb.store("y", int32, (h, w), (i, j), least[i, j])
    return kb.build()


C["squared_distance_rows"] = """
void kernel(const int (*restrict g)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int least = 1 << 30;
      for (int k = 0; k < W; k++) {
        int v = g[i][k] + (j - k) * (j - k);
        least = v < least ? v : least;
      }
      y[i][j] = least;
    }
}
"""


def squared_distance_rows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All sums."""
    import numpy as np

    j = np.arange(s["w"])
    return {"y": (x["g"][:, None, :] + np.subtract.outer(j, j) ** 2).min(axis=2)}


def hough_lines(n: int = 3000, t: int = 90, r: int = 400) -> Kernel:
    """Votes of edge points for lines: for each angle (its cosine and sine times 1024) the distance, in r bins."""
    kb = KernelBuilder("hough_lines")
    i, k = kb.axis("n", n), kb.axis("t", t)
    at, turn = kb.input("at", (n, 2), int16, range=(0, 255)), kb.input("turn", (t, 2), int16, range=(-1024, 1024))
    d = cast(at[i, 0], int32) * cast(turn[k, 0], int32) + cast(at[i, 1], int32) * cast(turn[k, 1], int32)
    place = maximum(minimum((d >> 11) + r // 2, r - 1), 0)
    kb.store("votes", int32, (t, r), (i, k), 1, (k, cast(place, "int64")), combine="add")
    return kb.build()


C["hough_lines"] = """
void kernel(const short (*restrict at)[2], const short (*restrict turn)[2], int (*restrict votes)[R]) {
#pragma omp parallel for
  for (int k = 0; k < T; k++) {
    for (int b = 0; b < R; b++) votes[k][b] = 0;
    int c = turn[k][0], s = turn[k][1];
    for (int i = 0; i < N; i++) {
      int p = ((at[i][0] * c + at[i][1] * s) >> 11) + R / 2;
      votes[k][p < 0 ? 0 : p > R - 1 ? R - 1 : p]++;
    }
  }
}
"""


def hough_lines_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at."""
    import numpy as np

    p = np.clip((x["at"].astype(int) @ x["turn"].astype(int).T >> 11) + s["r"] // 2, 0, s["r"] - 1)
    y = np.zeros((s["t"], s["r"]), np.int32)
    np.add.at(y, (np.arange(s["t"])[None, :], p), 1)
    return {"votes": y}


def morph_gradient3d(d: int = 20, h: int = 60, w: int = 91) -> Kernel:
    """The largest less the smallest of each voxel (16 bits) and its six neighbours; outside repeats."""
    kb = KernelBuilder("morph_gradient3d")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), uint16)
    all_ = [
        x[i, j, k], x[maximum(i - 1, 0), j, k], x[minimum(i + 1, d - 1), j, k], x[i, maximum(j - 1, 0), k],
        x[i, minimum(j + 1, h - 1), k], x[i, j, maximum(k - 1, 0)], x[i, j, minimum(k + 1, w - 1)],
    ]  # fmt: skip
    most = least = all_[0]
    for v in all_[1:]:
        most, least = maximum(most, v), minimum(least, v)
    kb.store("y", uint16, (d, h, w), (i, j, k), most - least)
    return kb.build()


C["morph_gradient3d"] = """
typedef unsigned short u16;
static u16 hi(u16 a, u16 b) { return a > b ? a : b; }
static u16 lo(u16 a, u16 b) { return a < b ? a : b; }
#define SEVEN(f, l, r) f(f(f(c[k], a[k]), f(b[k], p[k])), f(q[k], f(c[l], c[r])))
__attribute__((noinline)) static void row(const u16 *restrict c, const u16 *restrict a, const u16 *restrict b,
                                          const u16 *restrict p, const u16 *restrict q, u16 *restrict o) {
  int k = 0;
  o[k] = SEVEN(hi, k, k + 1) - SEVEN(lo, k, k + 1);
  for (k = 1; k < W - 1; k++) o[k] = SEVEN(hi, k - 1, k + 1) - SEVEN(lo, k - 1, k + 1);
  o[k] = SEVEN(hi, k - 1, k) - SEVEN(lo, k - 1, k);
}
void kernel(const u16 (*restrict x)[H][W], u16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++)
      row(x[i][j], x[i ? i - 1 : 0][j], x[i < D - 1 ? i + 1 : i][j], x[i][j ? j - 1 : 0], x[i][j < H - 1 ? j + 1 : j], y[i][j]);
}
"""


def morph_gradient3d_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Seven views."""
    import numpy as np

    p, d, h, w = np.pad(x["x"], 1, mode="edge"), s["d"], s["h"], s["w"]
    offs = [(1, 1, 1), (0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)]
    a = [p[u : u + d, v : v + h, t : t + w] for u, v, t in offs]
    return {"y": np.max(a, axis=0) - np.min(a, axis=0)}
