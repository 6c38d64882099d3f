"""Images that are compared or rebuilt: stereo, optical flow, features of boxes, a scanner's projections and a magnet's coils."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, clip, float16, float32, floor, int16, int32, int64, rsqrt, uint8, uint32

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "census_transform": ("bytes of images", {"h": 3, "w": 19}),
    "stereo_sad": ("correlations", {"h": 3, "w": 21, "d": 7, "k": 3}),
    "back_projection": ("gathers", {"h": 5, "w": 9, "a": 7, "r": 13}),
    "coil_combine": ("products of computed operands", {"c": 3, "h": 4, "w": 9}),
    "flow_cost_volume": ("correlations", {"h": 3, "w": 5, "c": 6, "p": 3}),
    "haar_boxes": ("gathers", {"n": 37, "h": 80, "w": 90}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def census_transform(h: int = 203, w: int = 317) -> Kernel:
    """Which of its 24 neighbours (5 × 5) are darker than a pixel, as bits of a number; the picture has a border of two."""
    kb = KernelBuilder("census_transform")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 4, w + 4), uint8)
    code = None
    for p in range(5):
        for q in range(5):
            if (p, q) != (2, 2):
                bit = cast(x[i + p, j + q] < x[i + 2, j + 2], uint32)
                code = bit if code is None else (code << 1) | bit
    kb.store("y", uint32, (h, w), (i, j), code)
    return kb.build()


C["census_transform"] = """
#define B(p, q) code = code << 1 | (unsigned)(x[p][j + q] < x[2][j + 2]);
#define ROW(p) B(p, 0) B(p, 1) B(p, 2) B(p, 3) B(p, 4)
static void row(const unsigned char (*restrict x)[W + 4], unsigned *restrict y) {
  for (int j = 0; j < W; j++) {
    unsigned code = 0;
    ROW(0) ROW(1) B(2, 0) B(2, 1) B(2, 3) B(2, 4) ROW(3) ROW(4)
    y[j] = code;
  }
}
void kernel(const unsigned char (*restrict x)[W + 4], unsigned (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i, y[i]);
}
"""


def census_transform_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A view for each neighbour."""
    import numpy as np

    a, h, w = x["x"], s["h"], s["w"]
    code = np.zeros((h, w), np.uint32)
    for p in range(5):
        for q in range(5):
            if (p, q) != (2, 2):
                code = code * np.uint32(2) + (a[p : p + h, q : q + w] < a[2 : 2 + h, 2 : 2 + w])
    return {"y": code.astype(np.uint32)}


def stereo_sad(h: int = 120, w: int = 319, d: int = 48, k: int = 5) -> Kernel:
    """Stereo by blocks: the shift (of d) at which k × k windows of two pictures differ least, and by how much."""
    kb = KernelBuilder("stereo_sad")
    i, j, u, e, f = kb.axis("h", h), kb.axis("w", w), kb.axis("wide", w + k - 1), kb.axis("d@column", d), kb.axis("d@cost", d)
    b, p, q = kb.axis("d@best", d), kb.axis("k@column", k), kb.axis("k@row", k)
    left, right = (kb.input(n, (h + k - 1, w + k + d - 2), uint8) for n in ("left", "right"))
    differ = absolute(cast(left[i + p, u + d - 1], int16) - cast(right[i + p, u + d - 1 - e], int16))
    column = kb.sum("column", (i, e, u), p, differ, int16)
    cost = kb.sum("cost", (i, f, j), q, column[i, f, j + q], int16)
    best = kb.min("best", (i, j), b, cast(cost[i, b, j], int32) * 256 + cast(b, int32))
    kb.store("shift", uint8, (h, w), (i, j), cast(best[i, j] & 255, uint8))
    kb.store("least", int16, (h, w), (i, j), cast(best[i, j] >> 8, int16))
    return kb.build()


C["stereo_sad"] = """
#include <stdlib.h>
typedef unsigned char u8;
#define V (W + K + D - 2)
static void shift(const u8 (*restrict l)[V], const u8 (*restrict r)[V], int e, u8 *restrict at, short *restrict least) {
  short column[W + K - 1];
  for (int j = 0; j < W + K - 1; j++) column[j] = 0;
  for (int p = 0; p < K; p++)
    for (int j = 0; j < W + K - 1; j++) {
      short v = l[p][j + D - 1] - r[p][j + D - 1 - e];
      column[j] += v < 0 ? -v : v;
    }
  for (int j = 0; j < W; j++) {
    short cost = 0;
    for (int q = 0; q < K; q++) cost += column[j + q];
    at[j] = cost < least[j] ? e : at[j];
    least[j] = cost < least[j] ? cost : least[j];
  }
}
void kernel(const u8 (*restrict left)[V], const u8 (*restrict right)[V], u8 (*restrict at)[W], short (*restrict least)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) at[i][j] = 0, least[i][j] = 32767;
    for (int e = 0; e < D; e++) shift(left + i, right + i, e, at[i], least[i]);
  }
}
"""


def stereo_sad_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Windows of each difference."""
    import numpy as np

    d, k, wide = s["d"], s["k"], s["w"] + s["k"] - 1
    l, r = x["left"].astype(int), x["right"].astype(int)
    cost = []
    for e in range(d):
        differ = np.abs(l[:, d - 1 : d - 1 + wide] - r[:, d - 1 - e : d - 1 - e + wide])
        cost.append(np.lib.stride_tricks.sliding_window_view(differ, (k, k)).sum(axis=(2, 3)))
    c = np.array(cost)
    return {"shift": c.argmin(axis=0).astype(np.uint8), "least": c.min(axis=0).astype(np.int16)}


def back_projection(h: int = 193, w: int = 181, a: int = 120, r: int = 277) -> Kernel:
    """A tomograph's picture: for each pixel the sum over angles of what its ray met, linearly between detectors."""
    kb = KernelBuilder("back_projection")
    i, j, t = kb.axis("h", h), kb.axis("w", w), kb.axis("a", a)
    sino = kb.input("sino", (a, r), float32)
    co, si = kb.input("co", (a,), float32, range=(-1.0, 1.0)), kb.input("si", (a,), float32, range=(-1.0, 1.0))
    x, y = cast(j, float32) - 0.5 * (w - 1), cast(i, float32) - 0.5 * (h - 1)
    at = clip(x * co[t] + y * si[t] + 0.5 * (r - 1), 0.0, r - 1.001)
    low = floor(at)
    p, part = cast(low, int64), at - low
    seen = kb.sum("seen", (i, j), t, sino[t, p] * (1.0 - part) + sino[t, p + 1] * part)
    kb.store("y", float32, (h, w), (i, j), seen[i, j] * (3.14159265 / a))
    return kb.build()


C["back_projection"] = """
static void ray(const float *restrict sino, float base, float step, float *restrict y) {
  for (int j = 0; j < W; j++) {
    float at = (j - 0.5f * (W - 1)) * step + base;
    at = at < 0 ? 0 : at > R - 1.001f ? R - 1.001f : at;
    int p = at;
    float part = at - p;
    y[j] += sino[p] * (1 - part) + sino[p + 1] * part;
  }
}
void kernel(const float (*restrict sino)[R], const float *restrict co, const float *restrict si, float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) y[i][j] = 0;
    for (int a = 0; a < A; a++) ray(sino[a], (i - 0.5f * (H - 1)) * si[a] + 0.5f * (R - 1), co[a], y[i]);
    for (int j = 0; j < W; j++) y[i][j] *= 3.14159265f / A;
  }
}
"""


def back_projection_numpy(x: Arrays, s: Sizes) -> Arrays:
    """An angle at a time."""
    import numpy as np

    r, seen = s["r"], np.zeros((s["h"], s["w"]))
    gx, gy = np.arange(s["w"]) - 0.5 * (s["w"] - 1), np.arange(s["h"])[:, None] - 0.5 * (s["h"] - 1)
    for row, c, n in zip(x["sino"].astype(np.float64), x["co"].astype(np.float64), x["si"].astype(np.float64)):
        at = np.clip(gx * c + gy * n + 0.5 * (r - 1), 0, r - 1.001)
        p = at.astype(int)
        seen += row[p] * (1 - at + p) + row[p + 1] * (at - p)
    return {"y": seen * (3.14159265 / s["a"])}


def coil_combine(c: int = 8, h: int = 151, w: int = 211) -> Kernel:
    """One complex picture from those of a magnet's coils: weighted by their sensitivities, conjugate, over their length."""
    kb = KernelBuilder("coil_combine")
    i, j = kb.axis("h", h), kb.axis("w", w)
    a, b, e = (kb.axis(f"c@{n}", c) for n in ("re", "im", "power"))
    x, s = kb.input("x", (c, h, w, 2), float32), kb.input("s", (c, h, w, 2), float32)
    re = kb.sum("re", (i, j), a, x[a, i, j, 0] * s[a, i, j, 0] + x[a, i, j, 1] * s[a, i, j, 1])
    im = kb.sum("im", (i, j), b, x[b, i, j, 1] * s[b, i, j, 0] - x[b, i, j, 0] * s[b, i, j, 1])
    power = kb.sum("power", (i, j), e, s[e, i, j, 0] ** 2 + s[e, i, j, 1] ** 2)
    over = rsqrt(power[i, j] + 1e-6)
    kb.store("y", float32, (h, w, 2), (i, j), re[i, j] * over, (i, j, 0))
    kb.store("y", float32, (h, w, 2), (i, j), im[i, j] * over, (i, j, 1))
    return kb.build()


C["coil_combine"] = """
#include <math.h>
static void add(const float (*restrict x)[2], const float (*restrict s)[2], float *restrict re, float *restrict im, float *restrict p) {
  for (int j = 0; j < W; j++) {
    re[j] += x[j][0] * s[j][0] + x[j][1] * s[j][1];
    im[j] += x[j][1] * s[j][0] - x[j][0] * s[j][1];
    p[j] += s[j][0] * s[j][0] + s[j][1] * s[j][1];
  }
}
void kernel(const float (*restrict x)[H][W][2], const float (*restrict s)[H][W][2], float (*restrict y)[W][2]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float re[W] = {0}, im[W] = {0}, power[W] = {0};
    for (int c = 0; c < C; c++) add(x[c][i], s[c][i], re, im, power);
    for (int j = 0; j < W; j++) {
      float over = 1 / sqrtf(power[j] + 1e-6f);
      y[i][j][0] = re[j] * over;
      y[i][j][1] = im[j] * over;
    }
  }
}
"""


def coil_combine_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Complex numbers."""
    import numpy as np

    a, b = (v[..., 0] + 1j * v[..., 1] for v in (x["x"].astype(np.float64), x["s"].astype(np.float64)))
    z = (a * b.conj()).sum(axis=0) / np.sqrt((np.abs(b) ** 2).sum(axis=0) + 1e-6)
    return {"y": np.stack([z.real, z.imag], axis=-1)}


def flow_cost_volume(h: int = 61, w: int = 83, c: int = 40, p: int = 9) -> Kernel:
    """How well each pixel's features fit those of the other frame at p × p places around it: channels last, results half."""
    kb = KernelBuilder("flow_cost_volume")
    i, j, u, v, k = kb.axis("h", h), kb.axis("w", w), kb.axis("p", p), kb.axis("q", p), kb.axis("c", c)
    a, b = kb.input("a", (h, w, c), float32), kb.input("b", (h + p - 1, w + p - 1, c), float32)
    fit = kb.sum("fit", (i, j, u, v), k, a[i, j, k] * b[i + u, j + v, k])
    kb.store("y", float16, (h, w, p, p), (i, j, u, v), fit[i, j, u, v] * (1.0 / c))
    return kb.build()


C["flow_cost_volume"] = """
void kernel(const float (*restrict a)[W][C], const float (*restrict b)[W + P - 1][C], _Float16 (*restrict y)[W][P][P]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int u = 0; u < P; u++)
        for (int v = 0; v < P; v++) {
          float fit = 0;
          for (int k = 0; k < C; k++) fit += a[i][j][k] * b[i + u][j + v][k];
          y[i][j][u][v] = fit * (1.0f / C);
        }
}
"""


def flow_cost_volume_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Windows and einsum."""
    import numpy as np

    windows = np.lib.stride_tricks.sliding_window_view(x["b"].astype(np.float64), (s["p"], s["p"]), axis=(0, 1))
    return {"y": np.einsum("ijk,ijkuv->ijuv", x["a"].astype(np.float64), windows) / s["c"]}


def haar_boxes(n: int = 20011, h: int = 480, w: int = 641) -> Kernel:
    """A face detector's features: the mean of a box less that of the one to its right, by an integral image."""
    kb = KernelBuilder("haar_boxes")
    i = kb.axis("n", n)
    total = kb.input("total", (h + 1, w + 1), int32, range=(0, 78000000))
    x, y = kb.input("x", (n,), int16, range=(0, w - 64)), kb.input("y", (n,), int16, range=(0, h - 64))
    wide, high = kb.input("wide", (n,), int16, range=(1, 32)), kb.input("high", (n,), int16, range=(1, 64))
    left, top, step = cast(x[i], int64), cast(y[i], int64), cast(wide[i], int64)
    low = top + cast(high[i], int64)

    def column(k: int) -> Any:
        return total[low, left + k * step] - total[top, left + k * step]

    differ = column(1) * 2 - column(0) - column(2)
    kb.store("f", float32, (n,), (i,), cast(differ, float32) / cast(step * (low - top), float32))
    return kb.build()


C["haar_boxes"] = """
void kernel(const int (*restrict total)[W + 1], const short *restrict x, const short *restrict y, const short *restrict wide,
            const short *restrict high, float *restrict f) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int step = wide[i], rows = high[i];
    const int *t = &total[y[i]][x[i]], *b = t + rows * (W + 1);
    int differ = 2 * (b[step] - t[step]) - (b[0] - t[0]) - (b[2 * step] - t[2 * step]);
    f[i] = (float)differ / (step * rows);
  }
}
"""


def haar_boxes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Fancy indices; sums of 32 bits."""
    import numpy as np

    t, a, b, w, h = x["total"], *(x[k].astype(int) for k in ("x", "y", "wide", "high"))
    c = [t[b + h, a + k * w] - t[b, a + k * w] for k in range(3)]
    return {"f": (c[1] * 2 - c[0] - c[2]).astype(np.float64) / (w * h)}
