"""Pixels: a detector's counts, a camera's mosaic, colours, light, and the last layer of a network that enlarges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    cast,
    float16,
    float32,
    int8,
    int32,
    maximum,
    minimum,
    power,
    round_even,
    rsqrt,
    uint8,
    uint16,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "detector_linearity": ("chains of arithmetic", {"h": 5, "w": 19}),
    "bayer_demosaic": ("bytes of images", {"h": 3, "w": 9}),
    "rgb_to_lab_planar": ("chains of elementary functions", {"h": 3, "w": 9}),
    "shaded_normals": ("bytes of images", {"h": 3, "w": 11}),
    "shuffled_pixels": ("layouts", {"c": 2, "h": 5, "w": 7, "r": 3}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def detector_linearity(h: int = 401, w: int = 480) -> Kernel:
    """Counts of a detector (16 bits) straightened by each pixel's own polynomial of degree 4, rounded to 16 bits."""
    kb = KernelBuilder("detector_linearity")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x, c = kb.input("x", (h, w), uint16), kb.input("c", (5, h, w), float32, range=(0.0, 0.125))
    v = cast(cast(x[i, j], int32), float32) * (1 / 65536)
    acc = c[4, i, j]
    for k in (3, 2, 1, 0):
        acc = acc * v + c[k, i, j]
    kb.store("y", uint16, (h, w), (i, j), cast(round_even(minimum(acc * 65535.0, 65535.0)), int32))
    return kb.build()


C["detector_linearity"] = """
#include <math.h>
void kernel(const unsigned short (*restrict x)[W], const float (*restrict c)[H][W], unsigned short (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float v = x[i][j] * (1 / 65536.0f);
      float acc = (((c[4][i][j] * v + c[3][i][j]) * v + c[2][i][j]) * v + c[1][i][j]) * v + c[0][i][j];
      acc *= 65535;
      y[i][j] = (int)rintf(acc < 65535 ? acc : 65535);
    }
}
"""


def detector_linearity_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Horner in float32, as written."""
    import numpy as np

    f = np.float32
    v, c = x["x"].astype(f) * f(1 / 65536), x["c"].astype(f)
    acc = c[4]
    for k in (3, 2, 1, 0):
        acc = acc * v + c[k]
    return {"y": np.rint(np.minimum(acc * f(65535), f(65535))).astype(np.uint16)}


def bayer_demosaic(h: int = 120, w: int = 161) -> Kernel:
    """A camera's mosaic (RGGB, with a border of one pixel) as colours: those missing are means of their neighbours."""
    kb = KernelBuilder("bayer_demosaic")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (2 * h + 2, 2 * w + 2), uint8)

    for p in (0, 1):
        for q in (0, 1):

            def at(a: int, b: int, p: int = p, q: int = q) -> Any:
                return cast(x[2 * i + 1 + p + a, 2 * j + 1 + q + b], int32)

            mine = at(0, 0)
            cross = (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) + 2) >> 2
            corner = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1) + 2) >> 2
            row, column = (at(0, -1) + at(0, 1) + 1) >> 1, (at(-1, 0) + at(1, 0) + 1) >> 1
            rgb = ((mine, cross, corner), (row, mine, column), (column, mine, row), (corner, cross, mine))[2 * p + q]
            for c, v in enumerate(rgb):
                kb.store("y", uint8, (2 * h, 2 * w, 3), (i, j), cast(v, uint8), (2 * i + p, 2 * j + q, c))
    return kb.build()


C["bayer_demosaic"] = """
typedef unsigned char u8;
void kernel(const u8 (*restrict x)[2 * W + 2], u8 (*restrict y)[2 * W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const u8 *a = x[2 * i], *b = x[2 * i + 1], *c = x[2 * i + 2], *d = x[2 * i + 3];
    u8 (*u)[3] = y[2 * i], (*v)[3] = y[2 * i + 1];
    for (int j = 0; j < W; j++) {
      int k = 2 * j + 1, l = k + 1;
      u[2 * j][0] = b[k];
      u[2 * j][1] = (a[k] + c[k] + b[k - 1] + b[k + 1] + 2) >> 2;
      u[2 * j][2] = (a[k - 1] + a[k + 1] + c[k - 1] + c[k + 1] + 2) >> 2;
      u[2 * j + 1][0] = (b[l - 1] + b[l + 1] + 1) >> 1;
      u[2 * j + 1][1] = b[l];
      u[2 * j + 1][2] = (a[l] + c[l] + 1) >> 1;
      v[2 * j][0] = (b[k] + d[k] + 1) >> 1;
      v[2 * j][1] = c[k];
      v[2 * j][2] = (c[k - 1] + c[k + 1] + 1) >> 1;
      v[2 * j + 1][0] = (b[l - 1] + b[l + 1] + d[l - 1] + d[l + 1] + 2) >> 2;
      v[2 * j + 1][1] = (b[l] + d[l] + c[l - 1] + c[l + 1] + 2) >> 2;
      v[2 * j + 1][2] = c[l];
    }
  }
}
"""


def bayer_demosaic_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All means of all pixels, then those that are missing."""
    import numpy as np

    a, h, w = x["x"].astype(int), 2 * s["h"], 2 * s["w"]

    def at(p: int, q: int) -> Any:
        return a[1 + p : 1 + p + h, 1 + q : 1 + q + w]

    cross, corner = (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) + 2) >> 2, (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1) + 2) >> 2
    row, column, mine = (at(0, -1) + at(0, 1) + 1) >> 1, (at(-1, 0) + at(1, 0) + 1) >> 1, at(0, 0)
    y = np.zeros((h, w, 3), np.uint8)
    for p, q, rgb in (
        (0, 0, (mine, cross, corner)),
        (0, 1, (row, mine, column)),
        (1, 0, (column, mine, row)),
        (1, 1, (corner, cross, mine)),
    ):
        for c, v in enumerate(rgb):
            y[p::2, q::2, c] = v[p::2, q::2]
    return {"y": y}


def rgb_to_lab_planar(h: int = 90, w: int = 161) -> Kernel:
    """Linear colours of floats, packed, as CIE L*a*b* in half precision, one plane after the other."""
    kb = KernelBuilder("rgb_to_lab_planar")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), float32, range=(0.0, 1.0))
    r, g, b = (x[i, j, c] for c in range(3))

    def f(t: Any) -> Any:
        return where(t > 0.008856, power(maximum(t, 0.008856), 1 / 3), 7.787 * t + 16 / 116)

    fx = f((0.4124 * r + 0.3576 * g + 0.1805 * b) * (1 / 0.9505))
    fy = f(0.2126 * r + 0.7152 * g + 0.0722 * b)
    fz = f((0.0193 * r + 0.1192 * g + 0.9505 * b) * (1 / 1.089))
    for c, v in enumerate((116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz))):
        kb.store("y", float16, (3, h, w), (i, j), v, (c, i, j))
    return kb.build()


C["rgb_to_lab_planar"] = """
#include <math.h>
static float f(float t) { return t > 0.008856f ? powf(t, 1 / 3.f) : 7.787f * t + 16 / 116.f; }
void kernel(const float (*restrict x)[W][3], _Float16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float r = x[i][j][0], g = x[i][j][1], b = x[i][j][2];
      float fx = f((0.4124f * r + 0.3576f * g + 0.1805f * b) * (1 / 0.9505f));
      float fy = f(0.2126f * r + 0.7152f * g + 0.0722f * b);
      float fz = f((0.0193f * r + 0.1192f * g + 0.9505f * b) * (1 / 1.089f));
      y[0][i][j] = 116 * fy - 16;
      y[1][i][j] = 500 * (fx - fy);
      y[2][i][j] = 200 * (fy - fz);
    }
}
"""


def rgb_to_lab_planar_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.cbrt."""
    import numpy as np

    r, g, b = x["x"].astype(np.float64).transpose(2, 0, 1)

    def f(t: Any) -> Any:
        return np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)

    fx, fy = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505), f(0.2126 * r + 0.7152 * g + 0.0722 * b)
    fz = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089)
    return {"y": np.stack([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])}


def shaded_normals(h: int = 120, w: int = 161) -> Kernel:
    """Blinn and Phong's light on normals of bytes (x, y, z, shine), times a colour of bytes, as packed RGBA."""
    kb = KernelBuilder("shaded_normals")
    i, j = kb.axis("h", h), kb.axis("w", w)
    n, colour = kb.input("n", (h, w, 4), int8), kb.input("colour", (h, w, 4), uint8)
    light = kb.input("light", (2, 3), float32, range=(0.1, 0.6))
    x, y, z, shine = (cast(cast(n[i, j, c], int32), float32) for c in range(4))
    over = rsqrt(x * x + y * y + z * z + 1.0)
    diffuse = maximum((x * light[0, 0] + y * light[0, 1] + z * light[0, 2]) * over, 0.0)
    half = maximum((x * light[1, 0] + y * light[1, 1] + z * light[1, 2]) * over, 0.0)
    h2 = half * half
    h4 = h2 * h2
    h8 = h4 * h4
    gloss = h8 * h8 * maximum(shine, 0.0)
    for c in range(3):
        v = cast(cast(colour[i, j, c], int32), float32) * (0.2 + 0.8 * diffuse) + gloss
        kb.store("y", uint8, (h, w, 4), (i, j), cast(minimum(v, 255.0), int32), (i, j, c))
    kb.store("y", uint8, (h, w, 4), (i, j), colour[i, j, 3], (i, j, 3))
    return kb.build()


C["shaded_normals"] = """
#include <math.h>
static float pos(float v) { return v > 0 ? v : 0; }
void kernel(const signed char (*restrict n)[W][4], const unsigned char (*restrict colour)[W][4], const float (*restrict light)[3],
            unsigned char (*restrict out)[W][4]) {
  float a = light[0][0], b = light[0][1], c = light[0][2], d = light[1][0], e = light[1][1], f = light[1][2];
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float x = n[i][j][0], y = n[i][j][1], z = n[i][j][2], over = 1 / sqrtf(x * x + y * y + z * z + 1);
      float diffuse = pos((x * a + y * b + z * c) * over), half = pos((x * d + y * e + z * f) * over);
      float h2 = half * half, h4 = h2 * h2, h8 = h4 * h4, gloss = h8 * h8 * pos(n[i][j][3]);
      for (int k = 0; k < 3; k++) {
        float v = colour[i][j][k] * (0.2f + 0.8f * diffuse) + gloss;
        out[i][j][k] = (int)(v < 255 ? v : 255);
      }
      out[i][j][3] = colour[i][j][3];
    }
}
"""


def shaded_normals_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, as written."""
    import numpy as np

    f = np.float32
    n, l = x["n"].astype(f), x["light"].astype(f)
    v = n[..., :3] / np.sqrt((n[..., :3] ** 2).sum(-1, keepdims=True) + f(1))
    d, h = np.maximum(v @ l[0], 0)[..., None], np.maximum(v @ l[1], 0)[..., None]
    rgb = x["colour"][..., :3].astype(f) * (f(0.2) + f(0.8) * d) + h**16 * np.maximum(n[..., 3:], 0)
    return {"y": np.concatenate([np.minimum(rgb, 255).astype(np.uint8), x["colour"][..., 3:]], axis=-1)}


def shuffled_pixels(c: int = 3, h: int = 90, w: int = 107, r: int = 3) -> Kernel:
    """The last layer of a network that enlarges pictures: r · r channels become pixels, and numbers bytes."""
    kb = KernelBuilder("shuffled_pixels")
    l, i, p, j, q = kb.axis("c", c), kb.axis("h", h), kb.axis("p", r), kb.axis("w", w), kb.axis("q", r)
    x = kb.input("x", (c * r * r, h, w), float32)
    v = round_even(x[l * (r * r) + p * r + q, i, j] * 64.0 + 128.0)
    byte = cast(minimum(maximum(v, 0.0), 255.0), uint8)
    kb.store("y", uint8, (c, h * r, w * r), (l, i, p, j, q), byte, (l, i * r + p, j * r + q))
    return kb.build()


C["shuffled_pixels"] = """
#include <math.h>
void kernel(const float (*restrict x)[H][W], unsigned char (*restrict y)[H * R][W * R]) {
#pragma omp parallel for collapse(2)
  for (int l = 0; l < C; l++)
    for (int i = 0; i < H; i++)
      for (int p = 0; p < R; p++)
        for (int j = 0; j < W; j++)
          for (int q = 0; q < R; q++) {
            int v = lrintf(x[(l * R + p) * R + q][i][j] * 64 + 128);
            y[l][i * R + p][j * R + q] = v < 0 ? 0 : v > 255 ? 255 : v;
          }
}
"""


def shuffled_pixels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A transpose."""
    import numpy as np

    v = np.clip(np.rint(x["x"] * np.float32(64) + np.float32(128)), 0, 255).astype(np.uint8)
    v = v.reshape(s["c"], s["r"], s["r"], s["h"], s["w"]).transpose(0, 3, 1, 4, 2)
    return {"y": v.reshape(s["c"], s["h"] * s["r"], s["w"] * s["r"])}
