"""A fourth set, of kernels that no list had: pictures, fractals, paths and sound, with the same loops in C and NumPy's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, uint8, where
from tilewright.ir.functions import absolute, maximum, minimum
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "median3x3": ("networks of extremes", {"h": 5, "w": 21}),
    "sobel_edges": ("stencil, narrow integers", {"h": 5, "w": 37}),
    "mandelbrot": ("chains of arithmetic", {"h": 5, "w": 19}),
    "min_plus": ("products in other semirings", {"m": 9, "n": 21, "k": 13}),
    "audio_mix": ("narrow integers", {"t": 5, "n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
EXCHANGES = ((0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (0, 3), (3, 6), (4, 7), (1, 4), (5, 8), (2, 5))
"""The first steps of a network that finds the median of nine (Paeth 1990): each puts two numbers in order."""
LAST = ((4, 7), (4, 2), (6, 4), (4, 2))


def median3x3(h: int = 1024, w: int = 1024) -> Kernel:
    """The median of a picture's 3 × 3 neighbours, by a network that puts numbers in order two at a time."""
    kb = KernelBuilder("median3x3")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 2, w + 2), float32)
    p = [x[i + a, j + b] for a in range(3) for b in range(3)]
    for a, b in (*EXCHANGES, *LAST):
        p[a], p[b] = minimum(p[a], p[b]), maximum(p[a], p[b])
    kb.store("y", float32, (h, w), (i, j), p[4])
    return kb.build()


_STEPS = "\n".join(f"      ORDER({a}, {b});" for a, b in (*EXCHANGES, *LAST))
C["median3x3"] = f"""
#define ORDER(a, b) {{ float low = p[a] < p[b] ? p[a] : p[b], high = p[a] < p[b] ? p[b] : p[a]; p[a] = low; p[b] = high; }}
void kernel(const float (*restrict x)[W + 2], float (*restrict y)[W]) {{
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {{
      float p[9] = {{x[i][j], x[i][j + 1], x[i][j + 2], x[i + 1][j], x[i + 1][j + 1], x[i + 1][j + 2],
                    x[i + 2][j], x[i + 2][j + 1], x[i + 2][j + 2]}};
{_STEPS}
      y[i][j] = p[4];
    }}
}}
"""


def median3x3_numpy(x: Arrays, s: Sizes) -> Arrays:
    """NumPy's median."""
    import numpy as np

    h, w = s["h"], s["w"]
    return {"y": np.median([x["x"][a : a + h, b : b + w] for a in range(3) for b in range(3)], axis=0)}


def sobel_edges(h: int = 2048, w: int = 2048) -> Kernel:
    """Where a grey picture changes fast: the sum of the gradients' sizes, against a threshold."""
    kb = KernelBuilder("sobel_edges")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 2, w + 2), uint8, range=(0, 255))

    def at(a: int, b: int) -> Any:
        return cast(x[i + a, j + b], int16)

    across = at(0, 2) - at(0, 0) + 2 * (at(1, 2) - at(1, 0)) + at(2, 2) - at(2, 0)
    down = at(2, 0) - at(0, 0) + 2 * (at(2, 1) - at(0, 1)) + at(2, 2) - at(0, 2)
    size = absolute(across) + absolute(down)
    kb.store("y", uint8, (h, w), (i, j), cast(where(size > 200, 255, 0), uint8))
    return kb.build()


C["sobel_edges"] = """
#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[W + 2], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int across = x[i][j + 2] - x[i][j] + 2 * (x[i + 1][j + 2] - x[i + 1][j]) + x[i + 2][j + 2] - x[i + 2][j];
      int down = x[i + 2][j] - x[i][j] + 2 * (x[i + 2][j + 1] - x[i][j + 1]) + x[i + 2][j + 2] - x[i][j + 2];
      y[i][j] = abs(across) + abs(down) > 200 ? 255 : 0;
    }
}
"""


def sobel_edges_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int32."""
    import numpy as np

    h, w = s["h"], s["w"]
    p = [[x["x"][a : a + h, b : b + w].astype(np.int32) for b in range(3)] for a in range(3)]
    across = p[0][2] - p[0][0] + 2 * (p[1][2] - p[1][0]) + p[2][2] - p[2][0]
    down = p[2][0] - p[0][0] + 2 * (p[2][1] - p[0][1]) + p[2][2] - p[0][2]
    return {"y": np.where(abs(across) + abs(down) > 200, 255, 0).astype(np.uint8)}


def mandelbrot(h: int = 512, w: int = 768) -> Kernel:
    """Of 24 steps of z² + c, how many stay within 2; numbers are held back at 4, so that none overflows."""
    kb = KernelBuilder("mandelbrot")
    i, j = kb.axis("h", h), kb.axis("w", w)
    re, im = kb.input("re", (w,), float32, range=(-2, 1)), kb.input("im", (h,), float32, range=(-1, 1))
    a, b, count = re[j] * 1.0, im[i] * 1.0, cast(re[j] * 0.0, int32)
    for _ in range(24):
        aa, bb = a * a, b * b
        count = count + cast(aa + bb <= 4.0, int32)
        a, b = minimum(maximum(aa - bb + re[j], -4.0), 4.0), minimum(maximum(2.0 * a * b + im[i], -4.0), 4.0)
    kb.store("y", int32, (h, w), (i, j), count)
    return kb.build()


C["mandelbrot"] = """
static float held(float v) { return v < -4 ? -4 : v > 4 ? 4 : v; }
void kernel(const float *restrict re, const float *restrict im, int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float a = re[j], b = im[i];
      int count = 0;
      for (int k = 0; k < 24; k++) {
        float aa = a * a, bb = b * b;
        count += aa + bb <= 4;
        b = held(2 * a * b + im[i]);
        a = held(aa - bb + re[j]);
      }
      y[i][j] = count;
    }
}
"""


def mandelbrot_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64."""
    import numpy as np

    re, im = x["re"].astype(np.float64)[None, :], x["im"].astype(np.float64)[:, None]
    a, b = re + 0 * im, im + 0 * re
    count = np.zeros(a.shape, np.int32)
    for _ in range(24):
        count += a * a + b * b <= 4
        a, b = np.clip(a * a - b * b + re, -4, 4), np.clip(2 * a * b + im, -4, 4)
    return {"y": count}


def min_plus(m: int = 384, n: int = 384, k: int = 384) -> Kernel:
    """The shortest ways of two legs between all pairs: a product of matrices whose sum is a minimum."""
    kb = KernelBuilder("min_plus")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
    least = kb.min("least", (i, j), l, a[i, l] + b[l, j])
    kb.store("y", float32, (m, n), (i, j), least[i, j])
    return kb.build()


C["min_plus"] = """
void kernel(const float (*restrict a)[K], const float (*restrict b)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) y[i][j] = a[i][0] + b[0][j];
    for (int l = 1; l < K; l++)
      for (int j = 0; j < N; j++) {
        float v = a[i][l] + b[l][j];
        y[i][j] = v < y[i][j] ? v : y[i][j];
      }
  }
}
"""


def min_plus_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A row of results at a time."""
    import numpy as np

    b = x["b"].astype(np.float64)
    return {"y": np.stack([(row[:, None] + b).min(axis=0) for row in x["a"].astype(np.float64)])}


def audio_mix(t: int = 8, n: int = 1 << 19) -> Kernel:
    """Tracks of 16-bit samples, each with a volume (a fraction of 1 << 14), mixed into one that clips."""
    kb = KernelBuilder("audio_mix")
    i, l = kb.axis("n", n), kb.axis("t", t)
    x, volume = kb.input("x", (t, n), int16, range=(-32768, 32767)), kb.input("volume", (t,), int16, range=(0, 16384))
    total = kb.sum("total", (i,), l, (cast(x[l, i], int32) * cast(volume[l], int32)) >> 14)
    kb.store("y", int16, (n,), (i,), cast(minimum(maximum(total[i], -32768), 32767), int16))
    return kb.build()


C["audio_mix"] = """
void kernel(const short (*restrict x)[N], const short *restrict volume, short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int total = 0;
    for (int l = 0; l < T; l++) total += (x[l][i] * volume[l]) >> 14;
    y[i] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
  }
}
"""


def audio_mix_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int32, clipped."""
    import numpy as np

    total = ((x["x"].astype(np.int32) * x["volume"].astype(np.int32)[:, None]) >> 14).sum(axis=0)
    return {"y": np.clip(total, -32768, 32767).astype(np.int16)}
