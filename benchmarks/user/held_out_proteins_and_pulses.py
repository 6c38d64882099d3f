"""Hits of protein searches, pulses of hearts, and spokes of magnetic resonance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, floor, int8, int16, int32, maximum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "xdrop_extensions": ("scans", {"n": 23, "l": 21, "q": 40, "d": 90}),
    "qrs_energy": ("chain of stencils", {"c": 3, "n": 137}),
    "spoke_gridding": ("scatters", {"c": 2, "s": 5, "r": 7, "g": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def xdrop_extensions(n: int = 9001, l: int = 64, q: int = 350, d: int = 50021) -> Kernel:
    """Hits of a protein in a database, each made longer for as long as its score is at most 20 below the best so far."""
    kb = KernelBuilder("xdrop_extensions")
    i, t, a, b, c = kb.axis("n", n), kb.axis("l@score", l), kb.axis("l@first", l), kb.axis("l@best", l), kb.axis("l@length", l)
    query, data = (kb.input(name, (m + l,), uint8, range=(0, 19)) for name, m in (("query", q), ("data", d)))
    score = kb.input("score", (20, 20), int8, range=(-6, 6))
    left, right = (kb.input(name, (n,), int32, range=(0, m - 1)) for name, m in (("left", q), ("right", d)))
    pair = score[query[left[i] + cast(t, int32)], data[right[i] + cast(t, int32)]]
    total = kb.scan("add", "total", (i, t), t, cast(pair, int32))
    high = kb.scan("max", "high", (i, t), t, maximum(total[i, t], 0))
    first = kb.min("first", (i,), a, where(high[i, a] - total[i, a] > 20, cast(a, int32), l))
    best = kb.max("best", (i,), b, where(cast(b, int32) < first[i], maximum(total[i, b], 0), 0))
    place = kb.argmax("place", (i,), c, where(cast(c, int32) < first[i], total[i, c], 0))
    kb.store("gain", int32, (n,), (i,), best[i])
    kb.store("length", int16, (n,), (i,), cast(where(best[i] > 0, place[i] + 1, 0), int16))
    return kb.build()


C["xdrop_extensions"] = """
void kernel(const unsigned char *restrict query, const unsigned char *restrict data, const signed char (*restrict score)[20],
            const int *restrict left, const int *restrict right, int *restrict gain, short *restrict length) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    const unsigned char *p = query + left[i], *q = data + right[i];
    int total = 0, best = 0, longest = 0;
    for (int t = 0; t < L; t++) {
      total += score[p[t]][q[t]];
      if (total > best) best = total, longest = t + 1;
      else if (best - total > 20) break;
    }
    gain[i] = best, length[i] = longest;
  }
}
"""


def xdrop_extensions_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All scores of all lengths."""
    import numpy as np

    t = np.arange(s["l"])
    total = x["score"][x["query"][x["left"][:, None] + t], x["data"][x["right"][:, None] + t]].astype(np.int32).cumsum(axis=1)
    high = np.maximum.accumulate(np.maximum(total, 0), axis=1)
    alive = np.logical_and.accumulate(high - total <= 20, axis=1)
    kept = np.where(alive, total, 0)
    best = np.maximum(kept.max(axis=1), 0)
    return {"gain": best.astype(np.int32), "length": np.where(best > 0, kept.argmax(axis=1) + 1, 0).astype(np.int16)}


def qrs_energy(c: int = 24, n: int = 10007) -> Kernel:
    """Where hearts beat: a band of frequencies of each lead, its slope squared, the mean of 30 of these, and their most."""
    kb = KernelBuilder("qrs_energy")
    i = kb.axis("c", c)
    low_t, band_t, slope_t, out_t = (kb.axis(name, n - cut) for name, cut in (("low", 10), ("band", 41), ("slope", 45), ("mean@out", 74)))
    mean_t, most_t = kb.axis("mean", n - 74), kb.axis("mean@most", n - 74)
    w, v = kb.axis("wide", 32), kb.axis("beat", 30)
    x = kb.input("x", (c, n), int16, range=(-2048, 2047))
    taps: Any = cast(x[i, low_t], int32)
    for k in range(1, 11):
        taps = taps + cast(x[i, low_t + k], int32) * (6 - abs(5 - k))
    low = kb.value("low", (i, low_t), taps)
    around = kb.sum("around", (i, band_t), w, low[i, band_t + w])
    band = kb.value("band", (i, band_t), (low[i, band_t + 16] * 32 - around[i, band_t]) >> 8)
    slope = band[i, slope_t + 4] * 2 + band[i, slope_t + 3] - band[i, slope_t + 1] - band[i, slope_t] * 2
    square = kb.value("square", (i, slope_t), cast(slope, float32) ** 2)
    energy = kb.sum("sums", (i, mean_t), v, square[i, mean_t + v])
    most = kb.max("peak", (i,), most_t, energy[i, most_t])
    kb.store("energy", float32, (c, n - 74), (i, out_t), energy[i, out_t] * (1.0 / 30))
    kb.store("most", float32, (c,), (i,), most[i] * (1.0 / 30))
    return kb.build()


C["qrs_energy"] = """
static void lead(const short *restrict x, float *restrict energy, float *restrict most) {
  int low[N - 10], band[N - 41], around = 0;
  float square[N - 45], top = 0;
  for (int t = 0; t < N - 10; t++)
    low[t] = x[t] + 2 * x[t + 1] + 3 * x[t + 2] + 4 * x[t + 3] + 5 * x[t + 4] + 6 * x[t + 5] + 5 * x[t + 6] + 4 * x[t + 7] +
             3 * x[t + 8] + 2 * x[t + 9] + x[t + 10];
  for (int t = 0; t < 31; t++) around += low[t];
  for (int t = 0; t < N - 41; t++) {
    around += low[t + 31];
    band[t] = (32 * low[t + 16] - around) >> 8;
    around -= low[t];
  }
  for (int t = 0; t < N - 45; t++) {
    float slope = 2 * band[t + 4] + band[t + 3] - band[t + 1] - 2 * band[t];
    square[t] = slope * slope;
  }
  double sum = 0;
  for (int t = 0; t < 29; t++) sum += square[t];
  for (int t = 0; t < N - 74; t++) {
    sum += square[t + 29];
    energy[t] = sum / 30;
    top = energy[t] > top ? energy[t] : top;
    sum -= square[t];
  }
  *most = top;
}
void kernel(const short (*restrict x)[N], float (*restrict energy)[N - 74], float *restrict most) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) lead(x[i], energy[i], most + i);
}
"""


def qrs_energy_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.convolve, and windows."""
    import numpy as np

    box = np.ones(6, int)
    low = np.array([np.convolve(row, np.convolve(box, box), "valid") for row in x["x"].astype(int)])
    windows = np.lib.stride_tricks.sliding_window_view
    band = (32 * low[:, 16:-15] - windows(low, 32, axis=1).sum(axis=2)) >> 8
    slope = np.array([np.convolve(row, [2, 1, 0, -1, -2], "valid") for row in band])
    energy = windows(slope.astype(float) ** 2, 30, axis=1).mean(axis=2)
    return {"energy": energy, "most": energy.max(axis=1)}


def spoke_gridding(c: int = 3, s: int = 89, r: int = 256, g: int = 160) -> Kernel:
    """Complex samples along spokes, spread over the 4 × 4 nearest places of each coil's grid with weights from a table."""
    kb = KernelBuilder("spoke_gridding")
    i, j, k, a, b = kb.axis("c", c), kb.axis("s", s), kb.axis("r", r), kb.axis("a", 4), kb.axis("b", 4)
    x, at = kb.input("x", (c, s, r, 2), float32), kb.input("at", (s, r, 2), float32, range=(2.0, g - 3.0))
    dense, table = kb.input("dense", (s, r), float32, range=(0.0, 1.0)), kb.input("table", (129,), float32)

    def place(d: int, step: Any) -> tuple[Any, Any]:
        cell = cast(floor(at[j, k, d]), int32) - 1 + cast(step, int32)
        far = absolute(at[j, k, d] - cast(cell, float32))
        return cell, table[cast(floor(far * 64.0 + 0.5), int32)]

    (y, wy), (z, wz) = place(0, a), place(1, b)
    weight = wy * wz * dense[j, k]
    for d in (0, 1):
        kb.store("grid", float32, (c, g, g, 2), (i, j, k, a, b), x[i, j, k, d] * weight, (i, y, z, d), combine="add")
    return kb.build()


C["spoke_gridding"] = """
#include <math.h>
static void coil(const float (*restrict x)[R][2], const float (*restrict at)[R][2], const float (*restrict dense)[R],
                 const float *restrict table, float (*restrict grid)[G][2]) {
  for (int k = 0; k < G * G * 2; k++) ((float *)grid)[k] = 0;
  for (int j = 0; j < S; j++)
    for (int k = 0; k < R; k++) {
      int y = (int)floorf(at[j][k][0]) - 1, z = (int)floorf(at[j][k][1]) - 1;
      float wy[4], wz[4], re = x[j][k][0] * dense[j][k], im = x[j][k][1] * dense[j][k];
      for (int a = 0; a < 4; a++) {
        wy[a] = table[(int)(fabsf(at[j][k][0] - (y + a)) * 64 + 0.5f)];
        wz[a] = table[(int)(fabsf(at[j][k][1] - (z + a)) * 64 + 0.5f)];
      }
      for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
          grid[y + a][z + b][0] += re * wy[a] * wz[b];
          grid[y + a][z + b][1] += im * wy[a] * wz[b];
        }
    }
}
void kernel(const float (*restrict x)[S][R][2], const float (*restrict at)[R][2], const float (*restrict dense)[R],
            const float *restrict table, float (*restrict grid)[G][G][2]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) coil(x[i], at, dense, table, grid[i]);
}
"""


def spoke_gridding_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at, a place of the sixteen at a time."""
    import numpy as np

    grid = np.zeros((s["c"], s["g"], s["g"], 2))
    at = x["at"].astype(np.float64)
    low = np.floor(at).astype(int) - 1
    for a in range(4):
        for b in range(4):
            cell = low + np.array([a, b])
            weight = x["table"].astype(np.float64)[np.floor(abs(at - cell) * 64 + 0.5).astype(int)].prod(axis=2) * x["dense"]
            for i in range(s["c"]):
                np.add.at(grid[i], (cell[..., 0], cell[..., 1]), x["x"][i] * weight[..., None])
    return {"grid": grid}
