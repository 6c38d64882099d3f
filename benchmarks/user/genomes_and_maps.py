"""Sequences, maps and shapes, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, asin, cos, float32, float64, int16, int32, maximum, minimum, sin, sqrt, uint8, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "smith_waterman_row": ("scans", {"b": 7, "n": 21}),
    "kmer_counts": ("histogram", {"n": 101, "v": 1024}),
    "haversine": ("chains of elementary functions", {"m": 5, "n": 13}),
    "terrain_slope": ("stencil, clamped borders", {"h": 9, "w": 23}),
    "in_polygon": ("all pairs", {"n": 53, "k": 11}),
    "nearest_triangle": ("extremes of computed values", {"n": 7, "k": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def smith_waterman_row(b: int = 4096, n: int = 256) -> Kernel:
    """The next row of the local alignments of many pairs, given the one before; gaps cost three a letter."""
    kb = KernelBuilder("smith_waterman_row")
    i, j = kb.axis("b", b), kb.axis("n", n)
    above = kb.input("above", (b, n + 1), int16, range=(0, 500))
    text, letter = kb.input("text", (b, n), uint8, range=(0, 3)), kb.input("letter", (b,), uint8, range=(0, 3))
    same = cast(above[i, j], int32) + 3 * cast(text[i, j].eq(letter[i]), int32) - 1
    here = maximum(maximum(same, cast(above[i, j + 1], int32) - 3), 0)
    best = kb.scan("max", "best", (i, j), j, here + 3 * cast(j, int32))
    kb.store("y", int16, (b, n), (i, j), best[i, j] - 3 * cast(j, int32))
    return kb.build()


C["smith_waterman_row"] = """
void kernel(const short (*restrict above)[N + 1], const unsigned char (*restrict text)[N],
            const unsigned char *restrict letter, short (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int left = -1000;
    for (int j = 0; j < N; j++) {
      int here = above[i][j] + (text[i][j] == letter[i] ? 2 : -1), gone = above[i][j + 1] - 3;
      here = here > gone ? here : gone;
      here = here > 0 ? here : 0;
      left = left - 3 > here ? left - 3 : here;
      y[i][j] = left;
    }
  }
}
"""


def smith_waterman_row_numpy(x: Arrays, s: Sizes) -> Arrays:
    """maximum.accumulate."""
    import numpy as np

    above, j = x["above"].astype(np.int64), 3 * np.arange(s["n"])
    same = above[:, :-1] + np.where(x["text"] == x["letter"][:, None], 2, -1)
    here = np.maximum(np.maximum(same, above[:, 1:] - 3), 0)
    return {"y": np.maximum.accumulate(here + j, axis=1) - j}


def kmer_counts(n: int = 1 << 20, v: int = 1024) -> Kernel:
    """How often each word of five letters occurs in a sequence of four letters."""
    kb = KernelBuilder("kmer_counts")
    i = kb.axis("n", n)
    x = kb.input("x", (n + 4,), uint8, range=(0, 3))
    word = cast(x[i], int32)
    for k in range(1, 5):
        word = (word << 2) | cast(x[i + k], int32)
    kb.store("count", int32, (v,), (i,), 1, (cast(word & (v - 1), "int64"),), combine="add")
    return kb.build()


C["kmer_counts"] = """
void kernel(const unsigned char *restrict x, int *restrict count) {
  for (int k = 0; k < V; k++) count[k] = 0;
  unsigned word = x[0] << 6 | x[1] << 4 | x[2] << 2 | x[3];
  for (int i = 0; i < N; i++) {
    word = (word << 2 | x[i + 4]) & (V - 1);
    count[word]++;
  }
}
"""


def kmer_counts_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount."""
    import numpy as np

    a, n = x["x"].astype(np.int64), s["n"]
    return {"count": np.bincount(sum(a[k : k + n] << (8 - 2 * k) for k in range(5)), minlength=s["v"])}


def haversine(m: int = 512, n: int = 1024) -> Kernel:
    """The distances in kilometres on the globe between places of two lists, in float64; places are in radians."""
    kb = KernelBuilder("haversine")
    i, j = kb.axis("m", m), kb.axis("n", n)
    lat, lon = kb.input("lat", (m,), float64, range=(-1.5, 1.5)), kb.input("lon", (m,), float64, range=(-3.1, 3.1))
    lat2, lon2 = kb.input("lat2", (n,), float64, range=(-1.5, 1.5)), kb.input("lon2", (n,), float64, range=(-3.1, 3.1))
    up, across = sin((lat2[j] - lat[i]) * 0.5), sin((lon2[j] - lon[i]) * 0.5)
    h = up * up + cos(lat[i]) * cos(lat2[j]) * across * across
    kb.store("km", float64, (m, n), (i, j), 12742.0 * asin(sqrt(minimum(h, 1.0))))
    return kb.build()


C["haversine"] = """
#include <math.h>
void kernel(const double *restrict lat, const double *restrict lon, const double *restrict lat2,
            const double *restrict lon2, double (*restrict km)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double up = sin((lat2[j] - lat[i]) * 0.5), across = sin((lon2[j] - lon[i]) * 0.5);
      double h = up * up + cos(lat[i]) * cos(lat2[j]) * across * across;
      km[i][j] = 12742 * asin(sqrt(h < 1 ? h : 1));
    }
}
"""


def haversine_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    up = np.sin((x["lat2"][None, :] - x["lat"][:, None]) * 0.5)
    across = np.sin((x["lon2"][None, :] - x["lon"][:, None]) * 0.5)
    h = up * up + np.cos(x["lat"])[:, None] * np.cos(x["lat2"])[None, :] * across * across
    return {"km": 12742 * np.arcsin(np.sqrt(np.minimum(h, 1)))}


def terrain_slope(h: int = 1024, w: int = 1024) -> Kernel:
    """How steep a grid of heights in metres is at every point (Horn's way), and how bright the sun makes it, as a byte."""
    kb = KernelBuilder("terrain_slope")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z = kb.input("z", (h, w), int16, range=(0, 3000))

    def at(p: int, q: int) -> Node:
        return cast(z[minimum(maximum(i + p, 0), h - 1), minimum(maximum(j + q, 0), w - 1)], float32)

    east = at(-1, 1) + 2.0 * at(0, 1) + at(1, 1) - at(-1, -1) - 2.0 * at(0, -1) - at(1, -1)
    south = at(1, -1) + 2.0 * at(1, 0) + at(1, 1) - at(-1, -1) - 2.0 * at(-1, 0) - at(-1, 1)
    east, south = east * (1 / 240), south * (1 / 240)
    steep = east * east + south * south
    kb.store("slope", float32, (h, w), (i, j), sqrt(steep))
    light = (0.7071 + 0.5 * (east + south)) / sqrt(1.0 + steep)
    kb.store("shade", uint8, (h, w), (i, j), cast(maximum(light, 0.0) * 255.0, int32))
    return kb.build()


C["terrain_slope"] = """
#include <math.h>
void kernel(const short (*restrict z)[W], float (*restrict slope)[W], unsigned char (*restrict shade)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const short *u = z[i ? i - 1 : 0], *c = z[i], *d = z[i < H - 1 ? i + 1 : i];
    for (int j = 0; j < W; j++) {
      int l = j ? j - 1 : 0, r = j < W - 1 ? j + 1 : j;
      float east = (u[r] + 2 * c[r] + d[r] - u[l] - 2 * c[l] - d[l]) * (1.0f / 240);
      float south = (d[l] + 2 * d[j] + d[r] - u[l] - 2 * u[j] - u[r]) * (1.0f / 240);
      float steep = east * east + south * south;
      slope[i][j] = sqrtf(steep);
      float light = (0.7071f + 0.5f * (east + south)) / sqrtf(1 + steep);
      shade[i][j] = (int)((light > 0 ? light : 0) * 255);
    }
  }
}
"""


def terrain_slope_numpy(x: Arrays, s: Sizes) -> Arrays:
    """With an edge-padded copy; what is on the edge between two bytes is as float32 has it."""
    import numpy as np

    f, h, w = np.float32, s["h"], s["w"]
    p = np.pad(x["z"].astype(f), 1, mode="edge")
    a = [[p[k : k + h, q : q + w] for q in range(3)] for k in range(3)]
    east = (a[0][2] + 2 * a[1][2] + a[2][2] - a[0][0] - 2 * a[1][0] - a[2][0]) * f(1 / 240)
    south = (a[2][0] + 2 * a[2][1] + a[2][2] - a[0][0] - 2 * a[0][1] - a[0][2]) * f(1 / 240)
    steep = east * east + south * south
    light = (f(0.7071) + f(0.5) * (east + south)) / np.sqrt(f(1) + steep)
    return {"slope": np.sqrt(steep.astype(np.float64)), "shade": (np.maximum(light, 0) * f(255)).astype(np.uint8)}


def in_polygon(n: int = 1 << 16, k: int = 96) -> Kernel:
    """Whether points lie in a polygon: a ray to the right crosses its sides an odd number of times."""
    kb = KernelBuilder("in_polygon")
    i, e = kb.axis("n", n), kb.axis("k", k)
    at, corner = kb.input("at", (n, 2), float32), kb.input("corner", (k, 2), float32)
    nxt = (e + 1) % k
    x, y, px, py = at[i, 0], at[i, 1], corner[e, 0], corner[e, 1]
    qx, qy = corner[nxt, 0], corner[nxt, 1]
    crosses = (py > y).ne(qy > y) & (x < (qx - px) * (y - py) / (qy - py) + px)
    count = kb.sum("count", (i,), e, cast(crosses, int32))
    kb.store("inside", "bool", (n,), (i,), (count[i] & 1).eq(1))
    return kb.build()


C["in_polygon"] = """
#include <stdbool.h>
void kernel(const float (*restrict at)[2], const float (*restrict corner)[2], bool *restrict inside) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float x = at[i][0], y = at[i][1];
    bool in = false;
    for (int e = 0, f = K - 1; e < K; f = e++)
      if ((corner[e][1] > y) != (corner[f][1] > y) &&
          x < (corner[e][0] - corner[f][0]) * (y - corner[f][1]) / (corner[e][1] - corner[f][1]) + corner[f][0])
        in = !in;
    inside[i] = in;
  }
}
"""


def in_polygon_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs, in float32."""
    import numpy as np

    px, py = x["corner"].T[:, None]
    qx, qy = np.roll(x["corner"], -1, axis=0).T[:, None]
    a, b = x["at"][:, :1], x["at"][:, 1:]
    crosses = ((py > b) != (qy > b)) & (a < (qx - px) * (b - py) / (qy - py) + px)
    return {"inside": crosses.sum(axis=1) % 2 == 1}


def nearest_triangle(n: int = 4096, k: int = 256) -> Kernel:
    """How far each ray goes until it meets the first of some triangles (Möller and Trumbore); 1e9 where it meets none."""
    kb = KernelBuilder("nearest_triangle")
    i, t = kb.axis("n", n), kb.axis("k", k)
    start, way = kb.input("start", (n, 3), float32), kb.input("way", (n, 3), float32)
    a, e, f = (kb.input(x, (k, 3), float32) for x in "aef")
    w, o = [way[i, c] for c in range(3)], [start[i, c] - a[t, c] for c in range(3)]
    p = _cross(w, [f[t, c] for c in range(3)])
    q = _cross(o, [e[t, c] for c in range(3)])
    over = 1.0 / _dot([e[t, c] for c in range(3)], p)
    u, v = _dot(o, p) * over, _dot(w, q) * over
    far = _dot([f[t, c] for c in range(3)], q) * over
    meets = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (far > 0.0)
    least = kb.min("least", (i,), t, where(meets, far, 1e9))
    kb.store("y", float32, (n,), (i,), least[i])
    return kb.build()


def _cross(a: list[Node], b: list[Node]) -> list[Node]:
    return [a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3] for c in range(3)]


def _dot(a: list[Node], b: list[Node]) -> Node:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


C["nearest_triangle"] = """
typedef const float (*restrict vectors)[3];
static float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
static void some(vectors start, vectors way, vectors a, vectors e, vectors f, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    const float *w = way[i];
    float least = 1e9f;
    for (int t = 0; t < K; t++) {
      const float *g = f[t], *h = e[t];
      float o[3] = {start[i][0] - a[t][0], start[i][1] - a[t][1], start[i][2] - a[t][2]};
      float p[3] = {w[1] * g[2] - w[2] * g[1], w[2] * g[0] - w[0] * g[2], w[0] * g[1] - w[1] * g[0]};
      float q[3] = {o[1] * h[2] - o[2] * h[1], o[2] * h[0] - o[0] * h[2], o[0] * h[1] - o[1] * h[0]};
      float over = 1 / dot(h, p), u = dot(o, p) * over, v = dot(w, q) * over, far = dot(g, q) * over;
      if (u >= 0 && v >= 0 && u + v <= 1 && far > 0 && far < least) least = far;
    }
    y[i] = least;
  }
}
void kernel(vectors start, vectors way, vectors a, vectors e, vectors f, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 64) some(start, way, a, e, f, y, i, i + 64 < N ? i + 64 : N);
}
"""


def nearest_triangle_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs."""
    import numpy as np

    start, w, a, e, f = (x[k].astype(np.float64) for k in ("start", "way", "a", "e", "f"))
    w, e, f = w[:, None], e[None], f[None]
    o = start[:, None] - a[None]
    p, q = np.cross(w, f), np.cross(o, e)
    over = 1 / (e * p).sum(-1)
    u, v, far = (o * p).sum(-1) * over, (w * q).sum(-1) * over, (f * q).sum(-1) * over
    meets = (u >= 0) & (v >= 0) & (u + v <= 1) & (far > 0)
    return {"y": np.where(meets, far, 1e9).min(axis=1)}
