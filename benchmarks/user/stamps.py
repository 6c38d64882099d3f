"""Stamps that data places: patches that are averaged, drops that are splatted, kernels that are spread on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, int32, uint8

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "patches_added": ("stamps", {"n": 11, "h": 24, "w": 31, "p": 5}),
    "drops": ("stamps", {"n": 13, "h": 20, "w": 27, "r": 3}),
    "spread_on_grid": ("stamps", {"n": 9, "g": 25, "k": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def patches_added(n: int = 3000, h: int = 300, w: int = 401, p: int = 8) -> Kernel:
    """Denoised patches added back to a picture where they were found, each with its weight, and the sum of weights."""
    kb = KernelBuilder("patches_added")
    i, a, b = kb.axis("n", n), kb.axis("p@y", p), kb.axis("p@x", p)
    patch, weight = kb.input("patch", (n, p, p), float32), kb.input("weight", (n,), float32, range=(0.1, 2.0))
    y, x = kb.input("y", (n,), int32, range=(0, h - p)), kb.input("x", (n,), int32, range=(0, w - p))
    at = (cast(y[i], "int64") + a, cast(x[i], "int64") + b)
    kb.store("total", float32, (h, w), (i, a, b), patch[i, a, b] * weight[i], at, combine="add")
    kb.store("weights", float32, (h, w), (i, a, b), weight[i], at, combine="add")
    return kb.build()


C["patches_added"] = """
#include <string.h>
void kernel(const float (*restrict patch)[P][P], const float *restrict weight, const int *restrict y, const int *restrict x,
            float (*restrict total)[W], float (*restrict weights)[W]) {
  memset(total, 0, sizeof(float) * H * W), memset(weights, 0, sizeof(float) * H * W);
  for (int i = 0; i < N; i++)
    for (int a = 0; a < P; a++) {
      float *restrict t = &total[y[i] + a][x[i]], *restrict s = &weights[y[i] + a][x[i]];
      for (int b = 0; b < P; b++) t[b] += patch[i][a][b] * weight[i], s[b] += weight[i];
    }
}
"""


def patches_added_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A patch at a time."""
    import numpy as np

    total, weights, p = np.zeros((s["h"], s["w"])), np.zeros((s["h"], s["w"])), s["p"]
    for patch, weight, i, j in zip(x["patch"], x["weight"], x["y"], x["x"], strict=True):
        total[i : i + p, j : j + p] += patch * float(weight)
        weights[i : i + p, j : j + p] += weight
    return {"total": total, "weights": weights}


def drops(n: int = 1500, h: int = 240, w: int = 333, r: int = 6) -> Kernel:
    """Round drops of their own size and brightness, those near the border cut off there."""
    kb = KernelBuilder("drops")
    i, a, b = kb.axis("n", n), kb.axis("dy", 2 * r + 1), kb.axis("dx", 2 * r + 1)
    y, x = kb.input("y", (n,), int32, range=(0, h - 1)), kb.input("x", (n,), int32, range=(0, w - 1))
    sharp, bright = kb.input("sharp", (n,), float32, range=(0.05, 0.5)), kb.input("bright", (n,), float32)
    row, column = cast(y[i], "int64") + a - r, cast(x[i], "int64") + b - r

    def side(d: Any) -> Any:
        return exp(-sharp[i] * cast((d - r) * (d - r), float32))

    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    kb.store("picture", float32, (h, w), (i, a, b), bright[i] * side(a) * side(b), (row, column), combine="add", mask=inside)
    return kb.build()


C["drops"] = """
#include <math.h>
#include <string.h>
void kernel(const int *restrict y, const int *restrict x, const float *restrict sharp, const float *restrict bright,
            float (*restrict picture)[W]) {
  memset(picture, 0, sizeof(float) * H * W);
  for (int i = 0; i < N; i++) {
    float side[2 * R + 1];
    for (int a = -R; a <= R; a++) side[a + R] = expf(-sharp[i] * a * a);
    int first = x[i] < R ? R - x[i] : 0, end = x[i] + R < W ? 2 * R + 1 : W - x[i] + R;
    for (int a = 0; a < 2 * R + 1; a++) {
      int row = y[i] + a - R;
      if (row < 0 || row >= H) continue;
      float f = bright[i] * side[a], *restrict out = &picture[row][x[i] - R];
      for (int b = first; b < end; b++) out[b] += f * side[b];
    }
  }
}
"""


def drops_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Into a picture with a border."""
    import numpy as np

    r = s["r"]
    wide, d = np.zeros((s["h"] + 2 * r, s["w"] + 2 * r)), np.arange(-r, r + 1) ** 2
    for i, j, sharp, bright in zip(x["y"], x["x"], x["sharp"], x["bright"], strict=True):
        wide[i : i + 2 * r + 1, j : j + 2 * r + 1] += bright * np.exp(-float(sharp) * (d[:, None] + d))
    return {"picture": wide[r:-r, r:-r]}


def spread_on_grid(n: int = 9001, g: int = 260, k: int = 6) -> Kernel:
    """Samples at any place spread on a grid by a table of weights for each direction, real and imaginary parts in planes; visits of a cell."""
    kb = KernelBuilder("spread_on_grid")
    i, a, b, c = kb.axis("n", n), kb.axis("k@y", k), kb.axis("k@x", k), kb.axis("n@visit", n)
    u, v = kb.input("u", (n,), int32, range=(0, g - k)), kb.input("v", (n,), int32, range=(0, g - k))
    down, along = kb.input("down", (n, k), float32), kb.input("along", (n, k), float32)
    re, im = kb.input("re", (n,), float32), kb.input("im", (n,), float32)
    at = (cast(v[i], "int64") + a, cast(u[i], "int64") + b)
    for name, part in (("real", re), ("imag", im)):
        kb.store(name, float32, (g, g), (i, a, b), part[i] * down[i, a] * along[i, b], at, combine="add")
    kb.store(
        "seen", uint8, (g, g), (c,), cast(cast(u[c], int32).eq(u[c]), uint8), (cast(v[c], "int64"), cast(u[c], "int64")), combine="max"
    )
    return kb.build()


C["spread_on_grid"] = """
#include <string.h>
void kernel(const int *restrict u, const int *restrict v, const float (*restrict down)[K], const float (*restrict along)[K],
            const float *restrict re, const float *restrict im, float (*restrict real)[G], float (*restrict imag)[G],
            unsigned char (*restrict seen)[G]) {
  memset(real, 0, sizeof(float) * G * G), memset(imag, 0, sizeof(float) * G * G), memset(seen, 0, G * G);
  for (int i = 0; i < N; i++) {
    for (int a = 0; a < K; a++) {
      float r = re[i] * down[i][a], m = im[i] * down[i][a];
      float *restrict x = &real[v[i] + a][u[i]], *restrict y = &imag[v[i] + a][u[i]];
      for (int b = 0; b < K; b++) x[b] += r * along[i][b], y[b] += m * along[i][b];
    }
    seen[v[i]][u[i]] = 1;
  }
}
"""


def spread_on_grid_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at."""
    import numpy as np

    g, k = s["g"], s["k"]
    out, seen = np.zeros((2, g, g)), np.zeros((g, g), np.uint8)
    each = x["down"][:, :, None].astype(float) * x["along"][:, None, :]
    rows, columns = x["v"][:, None, None] + np.arange(k)[:, None], x["u"][:, None, None] + np.arange(k)
    for plane, part in zip(out, (x["re"], x["im"]), strict=True):
        np.add.at(plane, (rows, columns), each * part[:, None, None])
    seen[x["v"], x["u"]] = 1
    return {"real": out[0], "imag": out[1], "seen": seen}
