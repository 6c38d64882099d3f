"""Frames of cameras: equalised, cropped for training, watched for motion, made small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, int32, maximum, minimum, uint8, uint16, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "equalised_frames": ("histograms and tables", {"b": 2, "h": 9, "w": 13}),
    "crops_for_training": ("pictures to layers", {"b": 3, "h": 12, "w": 15, "s": 7}),
    "motion_blocks": ("pixels and blocks", {"p": 2, "q": 3}),
    "thumbnails_in_light": ("histograms and tables", {"h": 5, "w": 7}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def equalised_frames(b: int = 4, h: int = 241, w: int = 317) -> Kernel:
    """Each frame's greys spread so that all are as frequent: counts of the greys, their running sums, and a table of those."""
    kb = KernelBuilder("equalised_frames")
    n, i, j, v, u = kb.axis("b", b), kb.axis("h", h), kb.axis("w", w), kb.axis("v", 256), kb.axis("v@first", 256)
    p, q = kb.axis("h@count", h), kb.axis("w@count", w)
    x = kb.input("x", (b, h, w), uint8)
    many = kb.sum("many", (n, v), (p, q), cast(x[n, p, q], int32).eq(cast(v, int32)))
    upto = kb.scan("add", "upto", (n, v), v, many[n, v])
    first = kb.min("first", (n,), u, where(upto[n, u] > 0, upto[n, u], h * w))
    of = maximum(h * w - first[n], 1)
    table = kb.value("table", (n, v), (maximum(upto[n, v] - first[n], 0) * 510 + of) // (2 * of))
    kb.store("y", uint8, (b, h, w), (n, i, j), table[n, x[n, i, j]])
    return kb.build()


C["equalised_frames"] = """
void kernel(const unsigned char (*restrict x)[H][W], unsigned char (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    int many[256] = {0}, first = 0, upto = 0;
    unsigned char table[256];
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) many[x[n][i][j]]++;
    while (!many[first]) first++;
    first = many[first];
    int of = H * W > first ? H * W - first : 1;
    for (int v = 0; v < 256; v++) {
      upto += many[v];
      table[v] = upto > first ? ((upto - first) * 510 + of) / (2 * of) : 0;
    }
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) y[n][i][j] = table[x[n][i][j]];
  }
}
"""


def equalised_frames_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A frame at a time."""
    import numpy as np

    y = []
    for a in x["x"]:
        upto = np.bincount(a.ravel(), minlength=256).cumsum()
        first = upto[upto > 0][0]
        of = max(a.size - first, 1)
        y.append(((np.maximum(upto - first, 0) * 510 + of) // (2 * of))[a])
    return {"y": np.array(y).astype(np.uint8)}


def crops_for_training(b: int = 12, h: int = 171, w: int = 203, s: int = 128) -> Kernel:
    """A square of each picture, some of them mirrored, as planes of numbers of mean 0 and spread 1."""
    kb = KernelBuilder("crops_for_training")
    n, c, i, j = kb.axis("b", b), kb.axis("c", 3), kb.axis("s@i", s), kb.axis("s@j", s)
    x = kb.input("x", (b, h, w, 3), uint8)
    top, left = kb.input("top", (b,), int32, range=(0, h - s)), kb.input("left", (b,), int32, range=(0, w - s))
    mirror = kb.input("mirror", (b,), uint8, range=(0, 1))
    mean, spread = kb.input("mean", (3,), float32, range=(0.4, 0.5)), kb.input("spread", (3,), float32, range=(0.2, 0.3))
    across = left[n] + where(mirror[n] > 0, s - 1 - cast(j, int32), cast(j, int32))
    pixel = cast(x[n, top[n] + cast(i, int32), across, c], float32)
    kb.store("y", float32, (b, 3, s, s), (n, c, i, j), (pixel * (1 / 255) - mean[c]) / spread[c])
    return kb.build()


C["crops_for_training"] = """
void kernel(const unsigned char (*restrict x)[H][W][3], const int *restrict top, const int *restrict left,
            const unsigned char *restrict mirror, const float *restrict mean, const float *restrict spread, float (*restrict y)[3][S][S]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++)
    for (int c = 0; c < 3; c++) {
      float scale = 1 / (255 * spread[c]), shift = -mean[c] / spread[c];
      for (int i = 0; i < S; i++) {
        const unsigned char (*restrict from)[3] = x[n][top[n] + i] + left[n];
        float *restrict to = y[n][c][i];
        if (mirror[n])
          for (int j = 0; j < S; j++) to[j] = from[S - 1 - j][c] * scale + shift;
        else
          for (int j = 0; j < S; j++) to[j] = from[j][c] * scale + shift;
      }
    }
}
"""


def crops_for_training_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A picture at a time."""
    import numpy as np

    y = []
    for a, top, left, mirror in zip(x["x"], x["top"], x["left"], x["mirror"], strict=True):
        v = a[top : top + s["s"], left : left + s["s"]][:, :: -1 if mirror else 1] / 255
        y.append(((v - x["mean"]) / x["spread"]).transpose(2, 0, 1))
    return {"y": np.array(y)}


def motion_blocks(p: int = 34, q: int = 60) -> Kernel:
    """A camera's frame against a slow mean of all before (in 1/256): the new mean, what moved, and how much of each 16 × 16 block."""
    h, w = 16 * p, 16 * q
    kb = KernelBuilder("motion_blocks")
    i, j = kb.axis("h", h), kb.axis("w", w)
    k, l, r, s = kb.axis("p", p), kb.axis("q", q), kb.axis("r", 16), kb.axis("s", 16)
    x, mean = kb.input("x", (h, w), uint8), kb.input("mean", (h, w), uint16, range=(0, 65280))
    old = cast(mean[i, j], int32)
    moved = kb.value("moved", (i, j), absolute(cast(x[i, j], int32) - (old >> 8)) > 90)
    kb.store("new", uint16, (h, w), (i, j), cast(old + (((cast(x[i, j], int32) << 8) - old) >> 4), uint16))
    kb.store("mask", uint8, (h, w), (i, j), where(moved[i, j], cast(255, uint8), 0))
    kb.store("many", int32, (p, q), (k, l), kb.sum("count", (k, l), (r, s), moved[16 * k + r, 16 * l + s])[k, l])
    return kb.build()


C["motion_blocks"] = """
#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[16 * Q], const unsigned short (*restrict mean)[16 * Q], unsigned short (*restrict new)[16 * Q],
            unsigned char (*restrict mask)[16 * Q], int (*restrict many)[Q]) {
#pragma omp parallel for
  for (int k = 0; k < P; k++) {
    for (int l = 0; l < Q; l++) many[k][l] = 0;
    for (int i = 16 * k; i < 16 * k + 16; i++) {
#pragma omp simd
      for (int j = 0; j < 16 * Q; j++) {
        int old = mean[i][j];
        new[i][j] = old + ((x[i][j] << 8) - old >> 4);
        mask[i][j] = abs(x[i][j] - (old >> 8)) > 90 ? 255 : 0;
      }
      for (int l = 0; l < Q; l++)
        for (int s = 0; s < 16; s++) many[k][l] += mask[i][16 * l + s] & 1;
    }
  }
}
"""


def motion_blocks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole frames."""
    import numpy as np

    a, old = x["x"].astype(np.int32), x["mean"].astype(np.int32)
    moved = abs(a - (old >> 8)) > 90
    many = moved.reshape(s["p"], 16, s["q"], 16).sum(axis=(1, 3))
    return {"new": (old + ((a * 256 - old) >> 4)).astype(np.uint16), "mask": (moved * 255).astype(np.uint8), "many": many.astype(np.int32)}


def thumbnails_in_light(h: int = 301, w: int = 409) -> Kernel:
    """A picture of half the size: light of four pixels, by a table from its bytes, as a byte again, by a table of 4096."""
    kb = KernelBuilder("thumbnails_in_light")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 3)
    x = kb.input("x", (2 * h - 1, 2 * w - 1, 3), uint8)
    light, back = kb.input("light", (256,), uint16, range=(0, 4095)), kb.input("back", (4096,), uint8)
    right, low = minimum(2 * j + 1, 2 * w - 2), minimum(2 * i + 1, 2 * h - 2)
    four = [cast(light[x[p, q, c]], int32) for p in (2 * i, low) for q in (2 * j, right)]
    kb.store("y", uint8, (h, w, 3), (i, j, c), back[(four[0] + four[1] + four[2] + four[3] + 2) >> 2])
    return kb.build()


C["thumbnails_in_light"] = """
void kernel(const unsigned char (*restrict x)[2 * W - 1][3], const unsigned short *restrict light, const unsigned char *restrict back,
            unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const unsigned char (*restrict a)[3] = x[2 * i], (*restrict b)[3] = x[i < H - 1 ? 2 * i + 1 : 2 * i];
    for (int j = 0; j < W; j++) {
      int p = 2 * j, q = j < W - 1 ? p + 1 : p;
      for (int c = 0; c < 3; c++) y[i][j][c] = back[light[a[p][c]] + light[a[q][c]] + light[b[p][c]] + light[b[q][c]] + 2 >> 2];
    }
  }
}
"""


def thumbnails_in_light_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By a padded picture."""
    import numpy as np

    a = np.pad(x["light"][x["x"]].astype(np.int32), ((0, 1), (0, 1), (0, 0)), mode="edge")
    return {"y": x["back"][(a[::2, ::2] + a[1::2, ::2] + a[::2, 1::2] + a[1::2, 1::2] + 2) >> 2]}
