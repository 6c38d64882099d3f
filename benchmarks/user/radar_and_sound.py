"""Samples over time: smoothing, correlation and power of channels, spectra, and sound from frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float32, int8, int16, int32, maximum, minimum, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "savgol_channels": ("signals", {"n": 23, "c": 6}),
    "autocorr_channels": ("correlations", {"n": 40, "c": 9, "l": 5}),
    "real_fft_split": ("pairs", {"b": 3, "n": 12}),
    "radar_power": ("columns", {"p": 5, "g": 19}),
    "overlap_add": ("signals", {"f": 7, "q": 8}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
SG = (-36, 9, 44, 69, 84, 89, 84, 69, 44, 9, -36)


def savgol_channels(n: int = 12000, c: int = 6) -> Kernel:
    """Savitzky and Golay's smoothing (11 points, quadratic) of 16-bit channels that lie interleaved, ends repeated."""
    kb = KernelBuilder("savgol_channels")
    i, k = kb.axis("n", n), kb.axis("c", c)
    x = kb.input("x", (n, c), int16)
    total = None
    for o, w in enumerate(SG):
        v = cast(x[maximum(minimum(i + o - 5, n - 1), 0), k], int32) * w
        total = v if total is None else total + v
    kb.store("y", float32, (n, c), (i, k), cast(total, float32) * (1 / 429))
    return kb.build()


C["savgol_channels"] = """
static const int w[11] = {-36, 9, 44, 69, 84, 89, 84, 69, 44, 9, -36};
static void edge(const short (*restrict x)[C], float (*restrict y)[C], int i) {
  for (int k = 0; k < C; k++) {
    int t = 0;
    for (int o = 0; o < 11; o++) {
      int at = i + o - 5;
      at = at < 0 ? 0 : at > N - 1 ? N - 1 : at;
      t += x[at][k] * w[o];
    }
    y[i][k] = t * (1 / 429.f);
  }
}
void kernel(const short (*restrict x)[C], float (*restrict y)[C]) {
  for (int i = 0; i < 5; i++) edge(x, y, i);
  const short *a = x[0];
  float *b = y[0];
#pragma omp parallel for
  for (int m = 5 * C; m < (N - 5) * C; m++) {
    int t = 0;
    for (int o = 0; o < 11; o++) t += a[m + (o - 5) * C] * w[o];
    b[m] = t * (1 / 429.f);
  }
  for (int i = N - 5; i < N; i++) edge(x, y, i);
}
"""


def savgol_channels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Weights of views, ends repeated."""
    import numpy as np

    p = np.pad(x["x"].astype(np.int64), ((5, 5), (0, 0)), mode="edge")
    return {"y": sum(w * p[o : o + s["n"]] for o, w in enumerate(SG)) / 429}


def autocorr_channels(n: int = 2000, c: int = 24, l: int = 20) -> Kernel:
    """Products of samples with later ones, summed over time, of interleaved channels; lags by channels."""
    kb = KernelBuilder("autocorr_channels")
    i, k, t = kb.axis("l", l), kb.axis("c", c), kb.axis("n", n - l)
    x = kb.input("x", (n, c), float32)
    total = kb.sum("total", (i, k), t, x[t, k] * x[t + i, k])
    kb.store("y", float32, (l, c), (i, k), total[i, k] * (1.0 / n))
    return kb.build()


C["autocorr_channels"] = """
void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < L; i++) {
    float total[C] = {0};
    for (int t = 0; t < N - L; t++)
      for (int k = 0; k < C; k++) total[k] += x[t][k] * x[t + i][k];
    for (int k = 0; k < C; k++) y[i][k] = total[k] * (1.0f / N);
  }
}
"""


def autocorr_channels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A lag at a time."""
    import numpy as np

    a, n, l = x["x"].astype(np.float64), s["n"], s["l"]
    return {"y": np.stack([(a[: n - l] * a[i : i + n - l]).sum(axis=0) for i in range(l)]) / n}


def real_fft_split(b: int = 40, n: int = 512) -> Kernel:
    """The spectrum of real numbers from that of half as many complex ones: each meets the one from the other end."""
    kb = KernelBuilder("real_fft_split")
    i, k = kb.axis("b", b), kb.axis("n", n)
    z, w = kb.input("z", (b, n, 2), float32), kb.input("w", (n, 2), float32)
    other = where(k.eq(0), 0, n - k)
    a, c = z[i, k, 0], z[i, k, 1]
    p, q = z[i, other, 0], -z[i, other, 1]
    er, ei, dr, di = 0.5 * (a + p), 0.5 * (c + q), 0.5 * (c - q), -0.5 * (a - p)
    kb.store("y", float32, (b, n, 2), (i, k), er + w[k, 0] * dr - w[k, 1] * di, (i, k, 0))
    kb.store("y", float32, (b, n, 2), (i, k), ei + w[k, 0] * di + w[k, 1] * dr, (i, k, 1))
    return kb.build()


C["real_fft_split"] = """
static void row(const float (*restrict z)[2], const float (*restrict w)[2], float (*restrict y)[2]) {
  y[0][0] = z[0][0] + w[0][0] * z[0][1];
  y[0][1] = w[0][1] * z[0][1];
  for (int k = 1; k < N; k++) {
    float a = z[k][0], c = z[k][1], p = z[N - k][0], q = -z[N - k][1];
    float er = 0.5f * (a + p), ei = 0.5f * (c + q), dr = 0.5f * (c - q), di = -0.5f * (a - p);
    y[k][0] = er + w[k][0] * dr - w[k][1] * di;
    y[k][1] = ei + w[k][0] * di + w[k][1] * dr;
  }
}
void kernel(const float (*restrict z)[N][2], const float (*restrict w)[2], float (*restrict y)[N][2]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(z[i], w, y[i]);
}
"""


def real_fft_split_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Complex numbers."""
    import numpy as np

    z = x["z"].astype(np.float64) @ [1, 1j]
    w = x["w"].astype(np.float64) @ [1, 1j]
    o = np.conj(np.roll(z[:, ::-1], 1, axis=1))
    y = 0.5 * (z + o) + w * -0.5j * (z - o)
    return {"y": np.stack([y.real, y.imag], axis=-1)}


def radar_power(p: int = 256, g: int = 3001) -> Kernel:
    """The power of complex 8-bit samples at each distance, summed over pulses."""
    kb = KernelBuilder("radar_power")
    i, j = kb.axis("g", g), kb.axis("p", p)
    x = kb.input("x", (p, g, 2), int8)
    re, im = cast(x[j, i, 0], int32), cast(x[j, i, 1], int32)
    total = kb.sum("total", (i,), j, re * re + im * im)
    kb.store("y", int32, (g,), (i,), total[i])
    return kb.build()


C["radar_power"] = """
void kernel(const signed char (*restrict x)[G][2], int *restrict y) {
  for (int i = 0; i < G; i++) y[i] = 0;
  for (int j = 0; j < P; j++)
    for (int i = 0; i < G; i++) y[i] += x[j][i][0] * x[j][i][0] + x[j][i][1] * x[j][i][1];
}
"""


def radar_power_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Squares."""
    return {"y": (x["x"].astype("int64") ** 2).sum(axis=(0, 2)).astype("int32")}


def overlap_add(f: int = 901, q: int = 128) -> Kernel:
    """Sound from windowed frames of 4 q samples, each q after the one before."""
    kb = KernelBuilder("overlap_add")
    i, j, k = kb.axis("f", f + 3), kb.axis("q", q), kb.axis("k", 4)
    x, w = kb.input("x", (f, 4 * q), float32), kb.input("w", (4 * q,), float32)
    total = kb.sum("total", (i, j), k, x.masked((i - k >= 0) & (i - k < f), i - k, k * q + j) * w[k * q + j])
    kb.store("y", float32, ((f + 3) * q,), (i, j), total[i, j], (i * q + j,))
    return kb.build()


C["overlap_add"] = """
void kernel(const float (*restrict x)[4 * Q], const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < F + 3; i++) {
    float *o = y + i * Q;
    for (int j = 0; j < Q; j++) o[j] = 0;
    for (int k = 0; k < 4; k++)
      if (i - k >= 0 && i - k < F)
        for (int j = 0; j < Q; j++) o[j] += x[i - k][k * Q + j] * w[k * Q + j];
  }
}
"""


def overlap_add_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A frame at a time."""
    import numpy as np

    f, q = s["f"], s["q"]
    y, v = np.zeros((f + 3) * q), x["x"].astype(np.float64) * x["w"]
    for i in range(f):
        y[i * q : (i + 4) * q] += v[i]
    return {"y": y}
