"""Of the fourth set (games_and_graphs.py), the kernels that are held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int32, uint8, where
from tilewright.ir.functions import floor, maximum, minimum
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "grid_sample": ("gathers", {"c": 2, "h": 9, "w": 11, "p": 5, "q": 21}),
    "dither": ("narrow integers", {"h": 5, "w": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def grid_sample(c: int = 4, h: int = 256, w: int = 256, p: int = 256, q: int = 256) -> Kernel:
    """A feature map read at places between its pixels, which another map says, with bilinear weights."""
    kb = KernelBuilder("grid_sample")
    l, i, j = kb.axis("c", c), kb.axis("p", p), kb.axis("q", q)
    x = kb.input("x", (c, h, w), float32)
    ys, xs = kb.input("ys", (p, q), float32, range=(0, h - 2)), kb.input("xs", (p, q), float32, range=(0, w - 2))
    row, column = floor(ys[i, j]), floor(xs[i, j])
    down, right = ys[i, j] - row, xs[i, j] - column
    a, b = minimum(maximum(cast(row, int32), 0), h - 2), minimum(maximum(cast(column, int32), 0), w - 2)
    top = x[l, a, b] * (1.0 - right) + x[l, a, b + 1] * right
    bottom = x[l, a + 1, b] * (1.0 - right) + x[l, a + 1, b + 1] * right
    kb.store("y", float32, (c, p, q), (l, i, j), top * (1.0 - down) + bottom * down)
    return kb.build()


C["grid_sample"] = """
void kernel(const float (*restrict x)[H][W], const float (*restrict ys)[Q], const float (*restrict xs)[Q],
            float (*restrict y)[P][Q]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int i = 0; i < P; i++)
      for (int j = 0; j < Q; j++) {
        int a = ys[i][j], b = xs[i][j];
        a = a < 0 ? 0 : a > H - 2 ? H - 2 : a;
        b = b < 0 ? 0 : b > W - 2 ? W - 2 : b;
        float down = ys[i][j] - a, right = xs[i][j] - b;
        float top = x[l][a][b] * (1 - right) + x[l][a][b + 1] * right;
        float bottom = x[l][a + 1][b] * (1 - right) + x[l][a + 1][b + 1] * right;
        y[l][i][j] = top * (1 - down) + bottom * down;
      }
}
"""


def grid_sample_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Four gathers."""
    import numpy as np

    ys, xs, a = x["ys"].astype(np.float64), x["xs"].astype(np.float64), x["x"].astype(np.float64)
    row, column = np.clip(np.floor(ys).astype(int), 0, s["h"] - 2), np.clip(np.floor(xs).astype(int), 0, s["w"] - 2)
    down, right = ys - np.floor(ys), xs - np.floor(xs)
    top = a[:, row, column] * (1 - right) + a[:, row, column + 1] * right
    bottom = a[:, row + 1, column] * (1 - right) + a[:, row + 1, column + 1] * right
    return {"y": top * (1 - down) + bottom * down}


def dither(h: int = 2048, w: int = 2048) -> Kernel:
    """A grey picture in black and white, by an 8 × 8 matrix of thresholds that repeats."""
    kb = KernelBuilder("dither")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x, matrix = kb.input("x", (h, w), uint8, range=(0, 255)), kb.input("matrix", (8, 8), uint8, range=(0, 255))
    kb.store("y", uint8, (h, w), (i, j), cast(where(x[i, j] > matrix[i % 8, j % 8], 255, 0), uint8))
    return kb.build()


C["dither"] = """
void kernel(const unsigned char (*restrict x)[W], const unsigned char (*restrict matrix)[8], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = x[i][j] > matrix[i & 7][j & 7] ? 255 : 0;
}
"""


def dither_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The matrix as often as it goes."""
    import numpy as np

    h, w = s["h"], s["w"]
    many = np.tile(x["matrix"], (-(-h // 8), -(-w // 8)))[:h, :w]
    return {"y": np.where(x["x"] > many, 255, 0).astype(np.uint8)}
