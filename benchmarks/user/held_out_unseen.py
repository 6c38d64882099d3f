"""Kernels that were written and measured after all work on finance_and_statistics.py and its neighbours, with the same loops
in C and NumPy's answers (stencils.py). Nothing is worked on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, clip, exp, float32, int32, maximum, minimum, uint8, uint32, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "box_overlaps": ("all pairs", {"m": 7, "n": 21}),
    "hue_of_pixels": ("bytes", {"h": 5, "w": 19}),
    "sinkhorn_step": ("products of computed operands", {"m": 9, "n": 23}),
    "counted_noise": ("chains of integers", {"n": 101}),
    "compacted": ("scatter", {"b": 3, "n": 37}),
    "segment_power": ("rows", {"s": 7, "n": 20, "k": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def box_overlaps(m: int = 512, n: int = 2048) -> Kernel:
    """How much each box of one list overlaps each of another: the area they share, over that of both."""
    kb = KernelBuilder("box_overlaps")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (m, 4), float32, range=(0.0, 1.0)), kb.input("b", (n, 4), float32, range=(0.0, 1.0))
    wide = minimum(a[i, 0] + a[i, 2], b[j, 0] + b[j, 2]) - maximum(a[i, 0], b[j, 0])
    high = minimum(a[i, 1] + a[i, 3], b[j, 1] + b[j, 3]) - maximum(a[i, 1], b[j, 1])
    both = maximum(wide, 0.0) * maximum(high, 0.0)
    kb.store("y", float32, (m, n), (i, j), both / (a[i, 2] * a[i, 3] + b[j, 2] * b[j, 3] - both + 1e-6))
    return kb.build()


C["box_overlaps"] = """
static float least(float a, float b) { return a < b ? a : b; }
static float most(float a, float b) { return a > b ? a : b; }
void kernel(const float (*restrict a)[4], const float (*restrict b)[4], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float wide = least(a[i][0] + a[i][2], b[j][0] + b[j][2]) - most(a[i][0], b[j][0]);
      float high = least(a[i][1] + a[i][3], b[j][1] + b[j][3]) - most(a[i][1], b[j][1]);
      float both = most(wide, 0) * most(high, 0);
      y[i][j] = both / (a[i][2] * a[i][3] + b[j][2] * b[j][3] - both + 1e-6f);
    }
}
"""


def box_overlaps_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    a, b = x["a"].astype(np.float64)[:, None], x["b"].astype(np.float64)[None]
    size = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    both = np.maximum(size, 0).prod(-1)
    return {"y": both / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - both + 1e-6)}


def hue_of_pixels(h: int = 720, w: int = 1280) -> Kernel:
    """The hue (0 to 179, as pictures of bytes have it), the saturation and the brightness of coloured pixels."""
    kb = KernelBuilder("hue_of_pixels")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint8)
    red, green, blue = (cast(cast(x[i, j, c], int32), float32) for c in range(3))
    top, low = maximum(maximum(red, green), blue), minimum(minimum(red, green), blue)
    span = top - low
    over = 30.0 / maximum(span, 1.0)
    turn = where(top.eq(green), (blue - red) * over + 60.0, (red - green) * over + 120.0)
    turn = where(top.eq(red), (green - blue) * over, turn)
    kb.store("y", uint8, (h, w, 3), (i, j), cast(where(turn < 0.0, turn + 180.0, turn), int32), (i, j, 0))
    kb.store("y", uint8, (h, w, 3), (i, j), cast(span * 255.0 / maximum(top, 1.0), int32), (i, j, 1))
    kb.store("y", uint8, (h, w, 3), (i, j), cast(top, int32), (i, j, 2))
    return kb.build()


C["hue_of_pixels"] = """
static float least(float a, float b) { return a < b ? a : b; }
static float most(float a, float b) { return a > b ? a : b; }
void kernel(const unsigned char (*restrict x)[W][3], unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float r = x[i][j][0], g = x[i][j][1], b = x[i][j][2];
      float top = most(most(r, g), b), span = top - least(least(r, g), b), over = 30 / most(span, 1);
      float turn = top == r ? (g - b) * over : top == g ? (b - r) * over + 60 : (r - g) * over + 120;
      y[i][j][0] = turn < 0 ? turn + 180 : turn;
      y[i][j][1] = span * 255 / most(top, 1);
      y[i][j][2] = top;
    }
}
"""


def hue_of_pixels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, of which a whole number may hang."""
    import numpy as np

    f = np.float32
    r, g, b = x["x"].astype(f).transpose(2, 0, 1)
    top = np.maximum(np.maximum(r, g), b)
    span = top - np.minimum(np.minimum(r, g), b)
    over = f(30) / np.maximum(span, f(1))
    turn = np.where(top == r, (g - b) * over, np.where(top == g, (b - r) * over + f(60), (r - g) * over + f(120)))
    turn = np.where(turn < 0, turn + f(180), turn)
    return {"y": np.stack([turn, span * f(255) / np.maximum(top, f(1)), top], axis=-1).astype(np.uint8)}


def sinkhorn_step(m: int = 1024, n: int = 1024) -> Kernel:
    """A step of Sinkhorn's way to transport: the scales with which rows of exponentials add up to their weights."""
    kb = KernelBuilder("sinkhorn_step")
    i, j = kb.axis("m", m), kb.axis("n", n)
    cost, v = kb.input("cost", (m, n), float32, range=(0.0, 1.0)), kb.input("v", (n,), float32, range=(0.1, 1.0))
    weight = kb.input("weight", (m,), float32, range=(0.1, 1.0))
    total = kb.sum("total", (i,), j, exp(cost[i, j] * -20.0) * v[j])
    kb.store("u", float32, (m,), (i,), weight[i] / total[i])
    return kb.build()


C["sinkhorn_step"] = """
#include <math.h>
void kernel(const float (*restrict cost)[N], const float *restrict v, const float *restrict weight, float *restrict u) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) total += expf(cost[i][j] * -20) * v[j];
    u[i] = weight[i] / total;
  }
}
"""


def sinkhorn_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    return {"u": x["weight"] / (np.exp(-20 * x["cost"].astype(np.float64)) @ x["v"].astype(np.float64))}


def counted_noise(n: int = 1 << 20) -> Kernel:
    """Random numbers in [0, 1) of counters, by three rounds of a hash (Murmur's finaliser)."""
    kb = KernelBuilder("counted_noise")
    i = kb.axis("n", n)
    key = kb.input("key", (1,), uint32)
    bits = cast(i, uint32) * 2654435769 + key[0]
    for a, shift in ((2246822507, 16), (3266489909, 13), (668265263, 16)):
        bits = (bits ^ (bits >> shift)) * a
    kb.store("y", float32, (n,), (i,), cast(bits >> 8, float32) * 2.0**-24)
    return kb.build()


C["counted_noise"] = """
void kernel(const unsigned *restrict key, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned bits = i * 2654435769u + key[0];
    bits = (bits ^ bits >> 16) * 2246822507u;
    bits = (bits ^ bits >> 13) * 3266489909u;
    bits = (bits ^ bits >> 16) * 668265263u;
    y[i] = (bits >> 8) * 0x1p-24f;
  }
}
"""


def counted_noise_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Integers that wrap."""
    import numpy as np

    bits = np.arange(s["n"], dtype=np.uint32) * np.uint32(2654435769) + x["key"][0]
    for a, shift in ((2246822507, 16), (3266489909, 13), (668265263, 16)):
        bits = (bits ^ (bits >> np.uint32(shift))) * np.uint32(a)
    return {"y": (bits >> np.uint32(8)) * 2.0**-24}


def compacted(b: int = 512, n: int = 2048) -> Kernel:
    """The positive numbers of each row, in order and without gaps, then zeros; and how many they are."""
    kb = KernelBuilder("compacted")
    i, j, k = kb.axis("b", b), kb.axis("n", n), kb.axis("n@count", n)
    x = kb.input("x", (b, n), float32)
    before = kb.scan("add", "before", (i, j), j, cast(x[i, j] > 0.0, int32))
    count = kb.sum("count", (i,), k, cast(x[i, k] > 0.0, int32))
    place = clip(before[i, j] - 1, 0, n - 1)
    kb.store("y", float32, (b, n), (i, j), x[i, j], (i, cast(place, "int64")), combine="add", mask=x[i, j] > 0.0)
    kb.store("many", int32, (b,), (i,), count[i])
    return kb.build()


C["compacted"] = """
void kernel(const float (*restrict x)[N], float (*restrict y)[N], int *restrict many) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int at = 0;
    for (int j = 0; j < N; j++)
      if (x[i][j] > 0) y[i][at++] = x[i][j];
    many[i] = at;
    for (int j = at; j < N; j++) y[i][j] = 0;
  }
}
"""


def compacted_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A row at a time."""
    import numpy as np

    y, a = np.zeros((s["b"], s["n"])), x["x"]
    many = (a > 0).sum(axis=1)
    for i, row in enumerate(a):
        y[i, : many[i]] = row[row > 0]
    return {"y": y, "many": many.astype(np.int32)}


def segment_power(s: int = 4096, n: int = 256, k: int = 128) -> Kernel:
    """The mean power of windowed pieces of a signal, of which each begins k samples after the one before."""
    kb = KernelBuilder("segment_power")
    i, j = kb.axis("s", s), kb.axis("n", n)
    x, window = kb.input("x", ((s - 1) * k + n,), float32), kb.input("window", (n,), float32)
    power = kb.sum("power", (i,), j, (x[i * k + j] * window[j]) ** 2)
    kb.store("y", float32, (s,), (i,), power[i] * (1.0 / n))
    return kb.build()


C["segment_power"] = """
static void some(const float *restrict x, const float *restrict window, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    float power = 0;
    for (int j = 0; j < N; j++) {
      float v = x[i * K + j] * window[j];
      power += v * v;
    }
    y[i] = power / N;
  }
}
void kernel(const float *restrict x, const float *restrict window, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < S; i += 64) some(x, window, y, i, i + 64 < S ? i + 64 : S);
}
"""


def segment_power_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A window that slides."""
    import numpy as np

    pieces = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.float64), s["n"])[:: s["k"]]
    return {"y": ((pieces * x["window"]) ** 2).mean(axis=1)}
