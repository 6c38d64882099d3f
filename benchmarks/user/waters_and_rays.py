"""Water on maps and in soils, traffic on rings, boxes of a tree for rays, voices of a synthesiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, exp2, maximum, minimum, round_even, sin, tanh, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "d8_flow": ("stencil, clamped borders", {"h": 7, "w": 11}),
    "traffic_cells": ("stencil, periodic borders", {"b": 3, "n": 41}),
    "soil_bucket": ("scans", {"t": 37, "c": 7}),
    "bvh4_node": ("gathers", {"r": 53, "k": 7}),
    "fm_voices": ("scans and elementary functions", {"v": 3, "n": 101}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def d8_flow(h: int = 211, w: int = 307) -> Kernel:
    """Which of its eight neighbours each cell of a terrain drains to (128 = north east … 64 = north; 0 = a pit), and how many drain to it."""
    kb = KernelBuilder("d8_flow")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z = kb.input("z", (h, w), "float32")
    ways = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    steepest: Any = 0.0
    way: Any = 0
    inside = [(i + p >= 0) & (i + p < h) & (j + q >= 0) & (j + q < w) for p, q in ways]
    for k, (p, q) in enumerate(ways):
        drop = where(inside[k], z[i, j] - z.masked(inside[k], i + p, j + q), 0.0) * (0.70710678 if p and q else 1.0)
        way, steepest = where(drop > steepest, 1 << k, way), maximum(drop, steepest)
    to = kb.value("to", (i, j), cast(way, "uint8"))
    donors: Any = sum(where(to.masked(inside[k], i + p, j + q).eq(1 << (k + 4) % 8), 1, 0) for k, (p, q) in enumerate(ways))
    kb.store("way", "uint8", (h, w), (i, j), to[i, j])
    kb.store("donors", "uint8", (h, w), (i, j), donors)
    return kb.build()


C["d8_flow"] = """
static const int DY[8] = {0, 1, 1, 1, 0, -1, -1, -1}, DX[8] = {1, 1, 0, -1, -1, -1, 0, 1};
void kernel(const float (*restrict z)[W], unsigned char (*restrict way)[W], unsigned char (*restrict donors)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float steepest = 0;
      way[i][j] = 0;
      for (int k = 0; k < 8; k++) {
        int p = i + DY[k], q = j + DX[k];
        if (p < 0 || p >= H || q < 0 || q >= W) continue;
        float drop = (z[i][j] - z[p][q]) * (k & 1 ? 0.70710678f : 1);
        if (drop > steepest) steepest = drop, way[i][j] = 1 << k;
      }
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      donors[i][j] = 0;
      for (int k = 0; k < 8; k++) {
        int p = i + DY[k], q = j + DX[k];
        if (p >= 0 && p < H && q >= 0 && q < W) donors[i][j] += way[p][q] == 1 << (k + 4) % 8;
      }
    }
}
"""


def d8_flow_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In "float32", as written."""
    import numpy as np

    ways = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    h, w, z = s["h"], s["w"], np.pad(x["z"], 1, constant_values=np.inf)
    drops = [(x["z"] - z[1 + p : 1 + p + h, 1 + q : 1 + q + w]) * np.float32(0.70710678 if p and q else 1) for p, q in ways]
    way = np.where(np.max(drops, axis=0) > 0, 1 << np.argmax(drops, axis=0), 0).astype(np.uint8)
    near = np.pad(way, 1)
    donors = sum((near[1 + p : 1 + p + h, 1 + q : 1 + q + w] == 1 << (k + 4) % 8) for k, (p, q) in enumerate(ways))
    return {"way": way, "donors": donors.astype(np.uint8)}


def traffic_cells(b: int = 64, n: int = 1503) -> Kernel:
    """A second of Nagel and Schreckenberg's traffic on ring roads: cells hold a car's speed (below 0: none); some dawdle."""
    kb = KernelBuilder("traffic_cells")
    i, j, k, t = kb.axis("b", b), kb.axis("n", n), kb.axis("ahead", 5), kb.axis("n@total", n)
    road, dice = kb.input("road", (b, n), "int8", range=(-9, 5)), kb.input("dice", (b, n), "uint8")
    gap = kb.min("gap", (i, j), k, where(road[i, (j + k + 1) % n] >= 0, cast(k, "int8"), 5))
    fast = minimum(minimum(road[i, j] + 1, 5), gap[i, j])
    speed = kb.value("speed", (i, j), where(road[i, j] >= 0, maximum(fast - where(dice[i, j] < 51, 1, 0), 0), -1))
    moved: Any = -1
    for d in range(6):
        moved = where(speed[i, (j + n - d) % n].eq(d), d, moved)
    kb.store("new", "int8", (b, n), (i, j), cast(moved, "int8"))
    total = kb.sum("total", (i,), t, maximum(cast(speed[i, t], "int32"), 0))
    kb.store("flow", "int32", (b,), (i,), total[i])
    return kb.build()


C["traffic_cells"] = """
void kernel(const signed char (*restrict road)[N], const unsigned char (*restrict dice)[N], signed char (*restrict new)[N], int *restrict flow) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    flow[i] = 0;
    for (int j = 0; j < N; j++) new[i][j] = -1;
    for (int j = 0; j < N; j++) {
      if (road[i][j] < 0) continue;
      int gap = 0, v = road[i][j] + 1;
      while (gap < 5 && road[i][(j + gap + 1) % N] < 0) gap++;
      v = v > 5 ? 5 : v;
      v = v > gap ? gap : v;
      if (dice[i][j] < 51 && v > 0) v--;
      new[i][(j + v) % N] = v;
      flow[i] += v;
    }
  }
}
"""


def traffic_cells_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A road at a time."""
    import numpy as np

    new, flow = np.full((s["b"], s["n"]), -1, np.int8), np.zeros(s["b"], np.int32)
    for i, road in enumerate(x["road"]):
        at = np.flatnonzero(road >= 0)
        gap = np.diff(at, append=at[0] + s["n"]) - 1
        v = np.maximum(np.minimum(np.minimum(road[at] + 1, 5), gap) - (x["dice"][i, at] < 51), 0)
        new[i, (at + v) % s["n"]], flow[i] = v, v.sum()
    return {"new": new, "flow": flow}


def soil_bucket(t: int = 365, c: int = 641) -> Kernel:
    """Water in the soil of each cell, day by day: rain fills it, plants drink, what its depth can't hold runs off."""
    kb = KernelBuilder("soil_bucket")
    i, j = kb.axis("t", t), kb.axis("c", c)
    rain, drunk = kb.input("rain", (t, c), "float32", range=(0.0, 12.0)), kb.input("drunk", (t, c), "float32", range=(0.0, 10.0))
    deep = kb.input("deep", (c,), "float32", range=(50.0, 150.0))
    gain = rain[i, j] - drunk[i, j]

    def rule(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        return x[0] + y[0], maximum(x[1] + y[0], y[1]), minimum(maximum(x[2] + y[0], y[1]), y[2])

    least, most = float("-inf"), float("inf")
    add, lo, hi = kb.associative_scan(("add", "lo", "hi"), (i, j), i, (gain, deep[j] * 0.0, deep[j]), (0.0, least, most), rule)
    wet = kb.value("wet", (i, j), minimum(maximum(deep[j] * 0.5 + add[i, j], lo[i, j]), hi[i, j]))
    before = where(i > 0, wet.masked(i > 0, i - 1, j), deep[j] * 0.5)
    kb.store("water", "float32", (t, c), (i, j), wet[i, j])
    kb.store("runoff", "float32", (t, c), (i, j), maximum(before + gain - deep[j], 0.0))
    return kb.build()


C["soil_bucket"] = """
static void day(const float *restrict rain, const float *restrict drunk, const float *restrict deep, float *restrict wet,
                float *restrict water, float *restrict runoff) {
#pragma omp parallel for simd
  for (int j = 0; j < C; j++) {
    float v = wet[j] + rain[j] - drunk[j];
    runoff[j] = v > deep[j] ? v - deep[j] : 0;
    water[j] = wet[j] = v > deep[j] ? deep[j] : v < 0 ? 0 : v;
  }
}
void kernel(const float (*restrict rain)[C], const float (*restrict drunk)[C], const float *restrict deep, float (*restrict water)[C],
            float (*restrict runoff)[C]) {
  float wet[C];
  for (int j = 0; j < C; j++) wet[j] = 0.5f * deep[j];
  for (int i = 0; i < T; i++) day(rain[i], drunk[i], deep, wet, water[i], runoff[i]);
}
"""


def soil_bucket_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A day at a time."""
    import numpy as np

    deep = x["deep"].astype(np.float64)
    wet, water, runoff = deep / 2, [], []
    for gain in x["rain"].astype(np.float64) - x["drunk"]:
        runoff.append(np.maximum(wet + gain - deep, 0))
        wet = np.clip(wet + gain, 0, deep)
        water.append(wet)
    return {"water": np.array(water), "runoff": np.array(runoff)}


def bvh4_node(r: int = 20011, k: int = 701) -> Kernel:
    """Which of the four boxes of its node each ray meets, as bits, and the nearest one (-1: none)."""
    kb = KernelBuilder("bvh4_node")
    i, c, p, q = kb.axis("r", r), kb.axis("child", 4), kb.axis("child@bits", 4), kb.axis("child@first", 4)
    org, inv = kb.input("org", (r, 3), "float32"), kb.input("inv", (r, 3), "float32", range=(-20.0, 20.0))
    most = kb.input("most", (r,), "float32", range=(0.0, 50.0))
    node = kb.input("node", (r,), "int32", range=(0, k - 1))
    lo, hi = kb.input("lo", (k, 3, 4), "float32", range=(-3.0, 1.0)), kb.input("hi", (k, 3, 4), "float32", range=(0.0, 3.0))

    def sides(d: Any) -> tuple[Any, Any]:
        return (lo[node[i], d, c] - org[i, d]) * inv[i, d], (hi[node[i], d, c] - org[i, d]) * inv[i, d]

    e, l = kb.axis("d@enter", 3), kb.axis("d@leave", 3)
    enter, leave = kb.max("enter", (i, c), e, minimum(*sides(e))), kb.min("leave", (i, c), l, maximum(*sides(l)))
    near = kb.value("near", (i, c), maximum(enter[i, c], 0.0))
    hit = kb.value("hit", (i, c), near[i, c] <= minimum(leave[i, c], most[i]))
    bits = kb.sum("bits", (i,), p, where(hit[i, p], 1, 0) << cast(p, "int32"))
    first = kb.argmin("first", (i,), q, where(hit[i, q], near[i, q], 1e30))
    kb.store("bits_of", "uint8", (r,), (i,), bits[i])
    kb.store("nearest", "int8", (r,), (i,), where(bits[i].eq(0), -1, first[i]))
    return kb.build()


C["bvh4_node"] = """
void kernel(const float (*restrict org)[3], const float (*restrict inv)[3], const float *restrict most, const int *restrict node,
            const float (*restrict lo)[3][4], const float (*restrict hi)[3][4], unsigned char *restrict bits, signed char *restrict nearest) {
#pragma omp parallel for
  for (int i = 0; i < R; i++) {
    float enter[4] = {0}, leave[4] = {most[i], most[i], most[i], most[i]}, least = 1e30f;
    for (int d = 0; d < 3; d++)
      for (int c = 0; c < 4; c++) {
        float a = (lo[node[i]][d][c] - org[i][d]) * inv[i][d], b = (hi[node[i]][d][c] - org[i][d]) * inv[i][d];
        float s = a < b ? a : b, l = a < b ? b : a;
        enter[c] = s > enter[c] ? s : enter[c];
        leave[c] = l < leave[c] ? l : leave[c];
      }
    bits[i] = 0;
    nearest[i] = -1;
    for (int c = 0; c < 4; c++)
      if (enter[c] <= leave[c]) {
        bits[i] |= 1 << c;
        if (enter[c] < least) least = enter[c], nearest[i] = c;
      }
  }
}
"""


def bvh4_node_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In "float32", as the hits hang on it."""
    import numpy as np

    a, b = ((x[n][x["node"]] - x["org"][:, :, None]) * x["inv"][:, :, None] for n in ("lo", "hi"))
    near = np.maximum(np.minimum(a, b).max(axis=1), 0)
    hit = near <= np.minimum(np.maximum(a, b).min(axis=1), x["most"][:, None])
    nearest = np.where(hit.any(axis=1), np.where(hit, near, np.inf).argmin(axis=1), -1)
    return {"bits_of": (hit << np.arange(4)).sum(axis=1).astype(np.uint8), "nearest": nearest.astype(np.int8)}


def fm_voices(v: int = 12, n: int = 4801) -> Kernel:
    """Voices of a synthesiser by frequency modulation, each gliding and fading, mixed and brought to 16 bits by a soft limit."""
    kb = KernelBuilder("fm_voices")
    i, j = kb.axis("v", v), kb.axis("n", n)
    pitch, glide = kb.input("pitch", (v,), "float64", range=(0.005, 0.1)), kb.input("glide", (v,), "float64", range=(-1e-4, 1e-4))
    ratio, depth = kb.input("ratio", (v,), "float64", range=(0.5, 4.0)), kb.input("depth", (v,), "float64", range=(0.0, 5.0))
    gain, fade = kb.input("gain", (v,), "float64", range=(0.0, 0.2)), kb.input("fade", (v,), "float64", range=(1e-4, 1e-3))
    phase = kb.scan("add", "phase", (i, j), j, pitch[i] * exp2(glide[i] * cast(j, "float64")))
    loud = kb.value("loud", (i, j), exp(-fade[i] * cast(j, "float64")))
    wave = sin(phase[i, j] + depth[i] * loud[i, j] * sin(ratio[i] * phase[i, j]))
    mix = kb.sum("mix", (j,), i, gain[i] * loud[i, j] * wave)
    kb.store("y", "int16", (n,), (j,), cast(round_even(tanh(mix[j]) * 32767.0), "int16"))
    return kb.build()


C["fm_voices"] = """
#include <math.h>
static void voice(const double pitch, const double glide, const double ratio, const double depth, const double gain, const double fade,
                  double *restrict mix) {
  double phase[N], sum = 0;
  for (int j = 0; j < N; j++) phase[j] = pitch * exp2(glide * j);
  for (int j = 0; j < N; j++) sum = phase[j] += sum;
  for (int j = 0; j < N; j++) {
    double loud = exp(-fade * j);
    mix[j] += gain * loud * sin(phase[j] + depth * loud * sin(ratio * phase[j]));
  }
}
void kernel(const double *restrict pitch, const double *restrict glide, const double *restrict ratio, const double *restrict depth,
            const double *restrict gain, const double *restrict fade, short *restrict y) {
  double mix[N] = {0};
#pragma omp parallel for reduction(+ : mix[:N])
  for (int i = 0; i < V; i++) voice(pitch[i], glide[i], ratio[i], depth[i], gain[i], fade[i], mix);
  for (int j = 0; j < N; j++) y[j] = (int)rint(tanh(mix[j]) * 32767);
}
"""


def fm_voices_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A row a voice."""
    import numpy as np

    j = np.arange(s["n"])
    pitch, glide, ratio, depth, gain, fade = (x[n][:, None] for n in ("pitch", "glide", "ratio", "depth", "gain", "fade"))
    phase, loud = np.cumsum(pitch * np.exp2(glide * j), axis=1), np.exp(-fade * j)
    mix = (gain * loud * np.sin(phase + depth * loud * np.sin(ratio * phase))).sum(axis=0)
    return {"y": np.rint(np.tanh(mix) * 32767).astype(np.int16)}
