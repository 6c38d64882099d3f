"""Signals, scatters and gathers, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, uint8
from tilewright.ir.functions import maximum, minimum
from tilewright.ir.node import const
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "histogram": ("histograms", {"n": 300, "v": 256}),
    "weighted_histogram": ("histograms", {"n": 300, "v": 16}),
    "segment_sum": ("gathers and scatters", {"n": 50, "d": 19, "v": 7}),
    "weighted_bags": ("gathers and scatters", {"b": 6, "l": 3, "v": 9, "d": 19}),
    "causal_conv": ("signals", {"c": 3, "t": 29, "k": 4}),
    "audio_fir": ("signals", {"n": 70, "k": 8}),
    "grey": ("bytes of images", {"h": 5, "w": 37}),
    "bilinear_resize": ("gathers and scatters", {"h": 7, "w": 9, "p": 11, "q": 21}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def histogram(n: int = 1 << 22, v: int = 256) -> Kernel:
    """How often each byte occurs."""
    kb = KernelBuilder("histogram")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), uint8, range=(0, v - 1))
    kb.store("y", int32, (v,), (i,), const(1, int32), indices=(x[i],), combine="add")
    return kb.build()


C["histogram"] = """
void kernel(const unsigned char *restrict x, int *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) y[x[i]]++;
}
"""


def histogram_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount."""
    import numpy as np

    return {"y": np.bincount(x["x"], minlength=s["v"]).astype(np.int32)}


def weighted_histogram(n: int = 1 << 22, v: int = 1024) -> Kernel:
    """The sum of the weights that fall into each bin."""
    kb = KernelBuilder("weighted_histogram")
    i = kb.axis("n", n)
    at, weight = kb.input("at", (n,), int32, range=(0, v - 1)), kb.input("weight", (n,), float32)
    kb.store("y", float32, (v,), (i,), weight[i], indices=(at[i],), combine="add")
    return kb.build()


C["weighted_histogram"] = """
void kernel(const int *restrict at, const float *restrict weight, float *restrict y) {
  for (int b = 0; b < V; b++) y[b] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int i = 0; i < N; i++) y[at[i]] += weight[i];
}
"""


def weighted_histogram_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount with weights."""
    import numpy as np

    return {"y": np.bincount(x["at"], x["weight"].astype(np.float64), minlength=s["v"])}


def segment_sum(n: int = 1 << 16, d: int = 64, v: int = 1024) -> Kernel:
    """Rows added up by segment; segments come in any order."""
    kb = KernelBuilder("segment_sum")
    i, j = kb.axis("n", n), kb.axis("d", d)
    x, at = kb.input("x", (n, d), float32), kb.input("at", (n,), int32, range=(0, v - 1))
    kb.store("y", float32, (v, d), (i, j), x[i, j], indices=(at[i], j), combine="add")
    return kb.build()


C["segment_sum"] = """
void kernel(const float (*restrict x)[D], const int *restrict at, float (*restrict y)[D]) {
  for (int s = 0; s < V; s++)
    for (int j = 0; j < D; j++) y[s][j] = 0;
#pragma omp parallel for reduction(+ : y[:V][:D])
  for (int i = 0; i < N; i++)
    for (int j = 0; j < D; j++) y[at[i]][j] += x[i][j];
}
"""


def segment_sum_numpy(x: Arrays, s: Sizes) -> Arrays:
    """add.at in float64."""
    import numpy as np

    y = np.zeros((s["v"], s["d"]))
    np.add.at(y, x["at"], x["x"].astype(np.float64))
    return {"y": y}


def weighted_bags(b: int = 16384, l: int = 16, v: int = 50000, d: int = 64) -> Kernel:
    """Weighted sums of a few rows of a table for each of many bags."""
    kb = KernelBuilder("weighted_bags")
    i, k, j = kb.axis("b", b), kb.axis("l", l), kb.axis("d", d)
    table, at = kb.input("table", (v, d), float32), kb.input("at", (b, l), int32, range=(0, v - 1))
    weight = kb.input("weight", (b, l), float32)
    total = kb.sum("total", (i, j), k, weight[i, k] * table[at[i, k], j])
    kb.store("y", float32, (b, d), (i, j), total[i, j])
    return kb.build()


C["weighted_bags"] = """
void kernel(const float (*restrict table)[D], const int (*restrict at)[L],
            const float (*restrict weight)[L], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total[D] = {0};
    for (int k = 0; k < L; k++)
      for (int j = 0; j < D; j++) total[j] += weight[i][k] * table[at[i][k]][j];
    for (int j = 0; j < D; j++) y[i][j] = total[j];
  }
}
"""


def weighted_bags_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum of gathered rows."""
    import numpy as np

    return {"y": np.einsum("bl,bld->bd", x["weight"].astype(np.float64), x["table"].astype(np.float64)[x["at"]])}


def causal_conv(c: int = 512, t: int = 8192, k: int = 4) -> Kernel:
    """Each channel convolved with k taps of its own along time; nothing comes before the beginning. Channels first."""
    kb = KernelBuilder("causal_conv")
    i, j, l = kb.axis("c", c), kb.axis("t", t), kb.axis("k", k)
    x, w, bias = kb.input("x", (c, t), float32), kb.input("w", (c, k), float32), kb.input("bias", (c,), float32)
    total = kb.sum("total", (i, j), l, w[i, l] * x.masked(j - l >= 0, i, j - l))
    kb.store("y", float32, (c, t), (i, j), total[i, j] + bias[i])
    return kb.build()


C["causal_conv"] = """
void kernel(const float (*restrict x)[T], const float (*restrict w)[K], const float *restrict bias,
            float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    for (int j = 0; j < K - 1; j++) {
      y[i][j] = bias[i];
      for (int l = 0; l <= j; l++) y[i][j] += w[i][l] * x[i][j - l];
    }
    for (int j = K - 1; j < T; j++) {
      float total = bias[i];
      for (int l = 0; l < K; l++) total += w[i][l] * x[i][j - l];
      y[i][j] = total;
    }
  }
}
"""


def causal_conv_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A padded copy, shifted."""
    import numpy as np

    p = np.pad(x["x"].astype(np.float64), ((0, 0), (s["k"] - 1, 0)))
    w = x["w"].astype(np.float64)
    taps = (w[:, l : l + 1] * p[:, s["k"] - 1 - l : s["k"] - 1 - l + s["t"]] for l in range(s["k"]))
    return {"y": sum(taps) + x["bias"][:, None]}


def audio_fir(n: int = 1 << 20, k: int = 64) -> Kernel:
    """A filter of 16-bit audio: sums in 32 bits, rounded, saturated."""
    kb = KernelBuilder("audio_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (k,), int16, range=(-900, 900))
    total = kb.sum("total", (i,), l, cast(x[i + l], int32) * cast(w[l], int32))
    y = minimum(maximum((total[i] + 16384) >> 15, -32768), 32767)
    kb.store("y", int16, (n,), (i,), cast(y, int16))
    return kb.build()


C["audio_fir"] = """
void kernel(const short *restrict x, const short *restrict w, short *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int total = 16384;
    for (int l = 0; l < K; l++) total += x[i + l] * w[l];
    total >>= 15;
    y[i] = total < -32768 ? -32768 : total > 32767 ? 32767 : total;
  }
}
"""


def audio_fir_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Convolution of whole numbers."""
    import numpy as np

    total = np.correlate(x["x"].astype(np.int64), x["w"].astype(np.int64), mode="valid")
    return {"y": np.clip((total + 16384) >> 15, -32768, 32767).astype(np.int16)}


def grey(h: int = 2048, w: int = 2048) -> Kernel:
    """Brightness of red, green and blue bytes, rounded."""
    kb = KernelBuilder("grey")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint8)
    red, green, blue = (cast(x[i, j, c], int32) for c in range(3))
    kb.store("y", uint8, (h, w), (i, j), cast((red * 77 + green * 150 + blue * 29 + 128) >> 8, uint8))
    return kb.build()


C["grey"] = """
void kernel(const unsigned char (*restrict x)[W][3], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = (x[i][j][0] * 77 + x[i][j][1] * 150 + x[i][j][2] * 29 + 128) >> 8;
}
"""


def grey_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int64."""
    import numpy as np

    return {"y": ((x["x"].astype(np.int64) @ np.array([77, 150, 29]) + 128) >> 8).astype(np.uint8)}


def bilinear_resize(h: int = 1024, w: int = 1024, p: int = 1536, q: int = 1536) -> Kernel:
    """An image at another size: which rows and columns to mix, and how much, are tables."""
    kb = KernelBuilder("bilinear_resize")
    i, j = kb.axis("p", p), kb.axis("q", q)
    x = kb.input("x", (h, w), float32)
    row, column = kb.input("row", (p,), int32, range=(0, h - 2)), kb.input("column", (q,), int32, range=(0, w - 2))
    down, right = kb.input("down", (p,), float32), kb.input("right", (q,), float32)
    top = x[row[i], column[j]] * (1.0 - right[j]) + x[row[i], column[j] + 1] * right[j]
    bottom = x[row[i] + 1, column[j]] * (1.0 - right[j]) + x[row[i] + 1, column[j] + 1] * right[j]
    kb.store("y", float32, (p, q), (i, j), top * (1.0 - down[i]) + bottom * down[i])
    return kb.build()


C["bilinear_resize"] = """
void kernel(const float (*restrict x)[W], const int *restrict row, const int *restrict column,
            const float *restrict down,
            const float *restrict right, float (*restrict y)[Q]) {
#pragma omp parallel for
  for (int i = 0; i < P; i++) {
    const float *a = x[row[i]], *b = x[row[i] + 1];
#pragma omp simd
    for (int j = 0; j < Q; j++) {
      int c = column[j];
      float top = a[c] * (1 - right[j]) + a[c + 1] * right[j], bottom = b[c] * (1 - right[j]) + b[c + 1] * right[j];
      y[i][j] = top * (1 - down[i]) + bottom * down[i];
    }
  }
}
"""


def bilinear_resize_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Rows, then columns."""
    import numpy as np

    a, r, c = x["x"].astype(np.float64), x["row"], x["column"]
    down, right = x["down"].astype(np.float64)[:, None], x["right"].astype(np.float64)
    mixed = a[r] * (1 - down) + a[r + 1] * down
    return {"y": mixed[:, c] * (1 - right) + mixed[:, c + 1] * right}
