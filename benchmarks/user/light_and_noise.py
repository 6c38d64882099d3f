"""Blurs, light and noise, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, absolute, float32, int32, maximum, minimum, uint8, uint16, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "lens_blur": ("stencil, clamped borders", {"h": 11, "w": 19}),
    "tone_map": ("chains of elementary functions", {"h": 5, "w": 13}),
    "gradient_noise": ("gathers", {"h": 9, "w": 17}),
    "green_screen": ("bytes", {"h": 7, "w": 19}),
    "local_maxima": ("stencil, clamped borders", {"h": 7, "w": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def lens_blur(h: int = 512, w: int = 512) -> Kernel:
    """Means of a square around each pixel that is as large as a map says: up to three pixels to each side, cut at the border."""
    kb = KernelBuilder("lens_blur")
    i, j, p, q = kb.axis("h", h), kb.axis("w", w), kb.axis("p", 7), kb.axis("q", 7)
    x, radius = kb.input("x", (h, w), float32), kb.input("radius", (h, w), uint8, range=(0, 3))
    r, down, right = cast(radius[i, j], int32), i + p - 3, j + q - 3
    near = (cast(absolute(cast(p - 3, int32)), int32) <= r) & (cast(absolute(cast(q - 3, int32)), int32) <= r)
    inside = near & (down >= 0) & (down < h) & (right >= 0) & (right < w)
    total = kb.sum("total", (i, j), (p, q), x.masked(inside, down, right))
    count = kb.sum("count", (i, j), (p, q), where(inside, 1.0, 0.0))
    kb.store("y", float32, (h, w), (i, j), total[i, j] / count[i, j])
    return kb.build()


C["lens_blur"] = """
void kernel(const float (*restrict x)[W], const unsigned char (*restrict radius)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int r = radius[i][j], a = i - r > 0 ? i - r : 0, b = i + r < H - 1 ? i + r : H - 1;
      int c = j - r > 0 ? j - r : 0, d = j + r < W - 1 ? j + r : W - 1;
      float total = 0;
      for (int p = a; p <= b; p++)
        for (int q = c; q <= d; q++) total += x[p][q];
      y[i][j] = total / ((b - a + 1) * (d - c + 1));
    }
}
"""


def lens_blur_numpy(x: Arrays, s: Sizes) -> Arrays:
    """One of 49 shifts after the other."""
    import numpy as np

    h, w, r = s["h"], s["w"], x["radius"].astype(int)
    padded, here = np.pad(x["x"].astype(np.float64), 3), np.pad(np.ones((h, w)), 3)
    total, count = np.zeros((h, w)), np.zeros((h, w))
    for p in range(7):
        for q in range(7):
            near = (abs(p - 3) <= r) & (abs(q - 3) <= r)
            total += near * padded[p : p + h, q : q + w]
            count += near * here[p : p + h, q : q + w]
    return {"y": total / count}


def tone_map(h: int = 720, w: int = 1280) -> Kernel:
    """Bright colours brought into a screen's range by a film's curve, and the screen's power law, as bytes."""
    kb = KernelBuilder("tone_map")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 3)
    x = kb.input("x", (h, w, 3), float32, range=(0.0, 8.0))
    v = x[i, j, c] * 0.6
    film = minimum(v * (2.51 * v + 0.03) / (v * (2.43 * v + 0.59) + 0.14), 1.0)
    screen = where(film <= 0.0031308, 12.92 * film, 1.055 * maximum(film, 0.0031308) ** (1 / 2.4) - 0.055)
    kb.store("y", uint8, (h, w, 3), (i, j, c), cast(screen * 255.0 + 0.5, int32))
    return kb.build()


C["tone_map"] = """
#include <math.h>
void kernel(const float (*restrict x)[W][3], unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int c = 0; c < 3; c++) {
        float v = x[i][j][c] * 0.6f, film = v * (2.51f * v + 0.03f) / (v * (2.43f * v + 0.59f) + 0.14f);
        film = film < 1 ? film : 1;
        float screen = film <= 0.0031308f ? 12.92f * film : 1.055f * powf(film, 1 / 2.4f) - 0.055f;
        y[i][j][c] = screen * 255 + 0.5f;
      }
}
"""


def tone_map_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    v = x["x"].astype(np.float64) * 0.6
    film = np.minimum(v * (2.51 * v + 0.03) / (v * (2.43 * v + 0.59) + 0.14), 1)
    screen = np.where(film <= 0.0031308, 12.92 * film, 1.055 * film ** (1 / 2.4) - 0.055)
    return {"y": (screen * 255 + 0.5).astype(np.uint8)}


def gradient_noise(h: int = 768, w: int = 768) -> Kernel:
    """Perlin's noise: hashed slopes at the corners of cells 24 wide, mixed smoothly."""
    kb = KernelBuilder("gradient_noise")
    i, j = kb.axis("h", h), kb.axis("w", w)
    table = kb.input("table", (512,), int32, range=(0, 255))
    row, column, down, right = i // 24, j // 24, cast(i % 24, float32) * (1 / 24), cast(j % 24, float32) * (1 / 24)

    def slope(p: int, q: int) -> Node:
        first = cast(table[(column + q) % 256], "int64")
        bits = table[first + (row + p) % 256]
        x, y = right - float(q), down - float(p)
        return where((bits & 1).eq(0), x, -x) + where((bits & 2).eq(0), y, -y)

    def smooth(t: Node) -> Node:
        return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)

    u, v = smooth(right), smooth(down)
    top = slope(0, 0) + u * (slope(0, 1) - slope(0, 0))
    low = slope(1, 0) + u * (slope(1, 1) - slope(1, 0))
    kb.store("y", float32, (h, w), (i, j), top + v * (low - top))
    return kb.build()


C["gradient_noise"] = """
static float slope(const int *table, int row, int column, float x, float y) {
  int bits = table[table[column & 255] + (row & 255)];
  return (bits & 1 ? -x : x) + (bits & 2 ? -y : y);
}
static float smooth(float t) { return t * t * t * (t * (t * 6 - 15) + 10); }
void kernel(const int *restrict table, float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int row = i / 24, column = j / 24;
      float d = i % 24 * (1 / 24.f), r = j % 24 * (1 / 24.f), u = smooth(r);
      float a = slope(table, row, column, r, d), b = slope(table, row, column + 1, r - 1, d);
      float e = slope(table, row + 1, column, r, d - 1), f = slope(table, row + 1, column + 1, r - 1, d - 1);
      float top = a + u * (b - a), low = e + u * (f - e);
      y[i][j] = top + smooth(d) * (low - top);
    }
}
"""


def gradient_noise_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All corners at once."""
    import numpy as np

    i, j, t = np.arange(s["h"])[:, None], np.arange(s["w"])[None, :], x["table"]
    d, r = i % 24 / 24, j % 24 / 24

    def slope(p: int, q: int) -> Any:
        bits = t[t[(j // 24 + q) % 256] + (i // 24 + p) % 256]
        return np.where(bits & 1, q - r, r - q) + np.where(bits & 2, p - d, d - p)

    u, v = (t**3 * (t * (t * 6 - 15) + 10) for t in (r, d))
    top, low = (slope(p, 0) + u * (slope(p, 1) - slope(p, 0)) for p in (0, 1))
    return {"y": top + v * (low - top)}


def green_screen(h: int = 1080, w: int = 1920) -> Kernel:
    """Which pixels of a picture, its colours one plane after the other, are much greener than red or blue."""
    kb = KernelBuilder("green_screen")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (3, h, w), uint8)
    red, green, blue = (cast(x[c, i, j], int32) for c in range(3))
    kb.store("y", "bool", (h, w), (i, j), (green > 90) & (4 * green > 5 * red) & (4 * green > 5 * blue))
    return kb.build()


C["green_screen"] = """
#include <stdbool.h>
void kernel(const unsigned char (*restrict x)[H][W], bool (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i][j] = x[1][i][j] > 90 && 4 * x[1][i][j] > 5 * x[0][i][j] && 4 * x[1][i][j] > 5 * x[2][i][j];
}
"""


def green_screen_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int64."""
    red, green, blue = x["x"].astype("int64")
    return {"y": (green > 90) & (4 * green > 5 * red) & (4 * green > 5 * blue)}


def local_maxima(h: int = 1024, w: int = 1024) -> Kernel:
    """Where 16-bit numbers are larger than their eight neighbours, as 1 and 0."""
    kb = KernelBuilder("local_maxima")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint16)
    most = None
    for p in (-1, 0, 1):
        for q in (-1, 0, 1):
            inside = (i + p >= 0) & (i + p < h) & (j + q >= 0) & (j + q < w)
            if p or q:
                near = x.masked(inside, i + p, j + q)
                most = near if most is None else maximum(most, near)
    kb.store("y", uint8, (h, w), (i, j), cast(x[i, j] > most, uint8))
    return kb.build()


C["local_maxima"] = """
void kernel(const unsigned short (*restrict x)[W], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      unsigned short most = 0;
      for (int p = -1; p < 2; p++)
        for (int q = -1; q < 2; q++)
          if ((p || q) && i + p >= 0 && i + p < H && j + q >= 0 && j + q < W)
            most = x[i + p][j + q] > most ? x[i + p][j + q] : most;
      y[i][j] = x[i][j] > most;
    }
}
"""


def local_maxima_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Eight shifts of a padded copy."""
    import numpy as np

    p, h, w = np.pad(x["x"], 1), s["h"], s["w"]
    near = [p[a : a + h, b : b + w] for a in range(3) for b in range(3) if (a, b) != (1, 1)]
    return {"y": (x["x"] > np.max(near, axis=0)).astype(np.uint8)}
