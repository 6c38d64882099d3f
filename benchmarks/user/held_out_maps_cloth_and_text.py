"""Run-off triangles, a robot's map, a cloth, the clearest pixels of satellites, and where fields of a text end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, int32, int64, maximum, sqrt, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "chain_ladder": ("scans", {"b": 3, "n": 6}),
    "occupancy_rays": ("histograms", {"m": 13, "h": 19, "w": 31}),
    "cloth_step": ("stencil of many fields", {"h": 7, "w": 19}),
    "clearest_pixels": ("extremes of computed values", {"t": 5, "h": 5, "w": 21}),
    "csv_marks": ("scans", {"c": 3, "n": 2}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
SPRINGS = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 2), (2, 0), (0, -2), (-2, 0))


def chain_ladder(b: int = 2003, n: int = 18) -> Kernel:
    """Reserves by the chain ladder: what is paid adds up along each triangle's rows, its columns give factors, these what is to come."""
    kb = KernelBuilder("chain_ladder")
    k, i, j = kb.axis("b", b), kb.axis("n", n), kb.axis("n@dev", n)
    paid = kb.input("paid", (b, n, n), "float64", range=(1.0, 100.0))
    cum = kb.scan("add", "cum", (k, i, j), j, paid[k, i, j])
    d, r, q, up = kb.axis("f", n - 1), kb.axis("n@after", n), kb.axis("n@before", n), kb.axis("f@up", n - 1)
    after = kb.sum("after", (k, d), r, where(r + d < n - 1, cum[k, r, d + 1], 0.0))
    before = kb.sum("before", (k, d), q, where(q + d < n - 1, cum[k, q, d], 0.0))
    factor = kb.value("factor", (k, d), after[k, d] / before[k, d])
    rest = kb.scan("mul", "rest", (k, up), up, factor[k, n - 2 - up])

    def reserve(o: Any) -> Any:
        return cum[k, o, n - 1 - o] * where(o > 0, rest.masked(o > 0, k, o - 1) - 1.0, 0.0)

    o = kb.axis("n@total", n)
    total = kb.sum("total", (k,), o, reserve(o))
    kb.store("factors", "float64", (b, n - 1), (k, d), factor[k, d])
    kb.store("reserves", "float64", (b, n), (k, i), reserve(i))
    kb.store("all", "float64", (b,), (k,), total[k])
    return kb.build()


C["chain_ladder"] = """
static void book(const double (*restrict paid)[N], double *restrict factors, double *restrict reserves, double *restrict all) {
  double cum[N][N], rest = 1;
  for (int i = 0; i < N; i++) {
    cum[i][0] = paid[i][0];
    for (int j = 1; j < N - i; j++) cum[i][j] = cum[i][j - 1] + paid[i][j];
  }
  for (int j = 0; j < N - 1; j++) {
    double after = 0, before = 0;
    for (int i = 0; i < N - 1 - j; i++) {
      after += cum[i][j + 1];
      before += cum[i][j];
    }
    factors[j] = after / before;
  }
  *all = reserves[0] = 0;
  for (int i = 1; i < N; i++) {
    rest *= factors[N - 1 - i];
    reserves[i] = cum[i][N - 1 - i] * (rest - 1);
    *all += reserves[i];
  }
}
void kernel(const double (*restrict paid)[N][N], double (*restrict factors)[N - 1], double (*restrict reserves)[N],
            double *restrict all) {
#pragma omp parallel for
  for (int k = 0; k < B; k++) book(paid[k], factors[k], reserves[k], all + k);
}
"""


def chain_ladder_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A year of development at a time."""
    import numpy as np

    n, cum, factors = s["n"], x["paid"].cumsum(axis=2), []
    for j in range(n - 1):
        factors.append(cum[:, : n - 1 - j, j + 1].sum(axis=1) / cum[:, : n - 1 - j, j].sum(axis=1))
    f = np.stack(factors, axis=1)
    due = np.concatenate([np.zeros((s["b"], 1)), f[:, ::-1].cumprod(axis=1) - 1], axis=1)
    y = cum[:, np.arange(n), n - 1 - np.arange(n)] * due
    return {"factors": f, "reserves": y, "all": y.sum(axis=1)}


def occupancy_rays(m: int = 720, h: int = 401, w: int = 500) -> Kernel:
    """What a laser's beams change in a map: less for each cell that they pass from the robot on, more for the one that stops them."""
    kb = KernelBuilder("occupancy_rays")
    b, e, k = kb.axis("m", m), kb.axis("m@end", m), kb.axis("step", max(h, w))
    row, col = kb.input("row", (m,), "int16", range=(0, h - 1)), kb.input("col", (m,), "int16", range=(0, w - 1))
    at_row, at_col = kb.input("at_row", (), int32, range=(0, h - 1)), kb.input("at_col", (), int32, range=(0, w - 1))
    dr, dc = cast(row[b], int32) - at_row[()], cast(col[b], int32) - at_col[()]
    n, step = maximum(absolute(dr), absolute(dc)), cast(k, int32)
    y, x = (cast((2 * (a[()] * n + d * step) + n) // (2 * n), int64) for a, d in ((at_row, dr), (at_col, dc)))
    kb.store("change", int32, (h, w), (b, k), -2, (y, x), combine="add", mask=step < n)
    kb.store("change", int32, (h, w), (e,), 7, (cast(row[e], int64), cast(col[e], int64)), combine="add")
    return kb.build()


C["occupancy_rays"] = """
#include <stdlib.h>
void kernel(const short *restrict row, const short *restrict col, const int *restrict at_row, const int *restrict at_col,
            int (*restrict change)[W]) {
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) change[y][x] = 0;
  for (int b = 0; b < M; b++) {
    int dr = row[b] - *at_row, dc = col[b] - *at_col, n = abs(dr) > abs(dc) ? abs(dr) : abs(dc);
    for (int k = 0; k < n; k++)
      change[(2 * (*at_row * n + dr * k) + n) / (2 * n)][(2 * (*at_col * n + dc * k) + n) / (2 * n)] -= 2;
    change[row[b]][col[b]] += 7;
  }
}
"""


def occupancy_rays_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A beam at a time, and np.add.at."""
    import numpy as np

    y, r, c = np.zeros((s["h"], s["w"]), np.int32), int(x["at_row"]), int(x["at_col"])
    for row, col in zip(x["row"].astype(int), x["col"].astype(int)):
        n = max(abs(row - r), abs(col - c))
        k = np.arange(n)
        np.add.at(y, ((2 * (r * n + (row - r) * k) + n) // max(2 * n, 1), (2 * (c * n + (col - c) * k) + n) // max(2 * n, 1)), -2)
        y[row, col] += 7
    return {"change": y}


def cloth_step(h: int = 121, w: int = 160) -> Kernel:
    """A step of Verlet's for a cloth: springs to twelve neighbours (straight, across, and to the second), gravity, some points pinned."""
    kb = KernelBuilder("cloth_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    at, old = kb.input("at", (h, w, 3), float32), kb.input("old", (h, w, 3), float32)
    pinned = kb.input("pinned", (h, w), "bool")
    force: list[Any] = [0.0, -9.81, 0.0]
    for a, b in SPRINGS:
        there = (i + a >= 0) & (i + a < h) & (j + b >= 0) & (j + b < w)
        d = [at.masked(there, i + a, j + b, c) - at[i, j, c] for c in range(3)]
        long = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        pull = where(there, 30.0 * (1.0 - (a * a + b * b) ** 0.5 / long), 0.0)
        force = [f + pull * x for f, x in zip(force, d)]
    for c in range(3):
        moved = at[i, j, c] + (at[i, j, c] - old[i, j, c]) * 0.99 + force[c] * 2.5e-4
        kb.store("new", float32, (h, w, 3), (i, j), where(pinned[i, j], at[i, j, c], moved), (i, j, c))
    return kb.build()


C["cloth_step"] = """
#include <math.h>
static const int springs[12][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}, {0, 2}, {2, 0}, {0, -2}, {-2, 0}};
static const float rest[12] = {1, 1, 1, 1, 1.41421356f, 1.41421356f, 1.41421356f, 1.41421356f, 2, 2, 2, 2};
void kernel(const float (*restrict at)[W][3], const float (*restrict old)[W][3], const unsigned char (*restrict pinned)[W],
            float (*restrict new)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float force[3] = {0, -9.81f, 0};
      for (int s = 0; s < 12; s++) {
        int a = i + springs[s][0], b = j + springs[s][1];
        if (a < 0 || a >= H || b < 0 || b >= W) continue;
        float x = at[a][b][0] - at[i][j][0], y = at[a][b][1] - at[i][j][1], z = at[a][b][2] - at[i][j][2];
        float pull = 30 * (1 - rest[s] / sqrtf(x * x + y * y + z * z));
        force[0] += pull * x;
        force[1] += pull * y;
        force[2] += pull * z;
      }
      for (int c = 0; c < 3; c++) {
        float p = at[i][j][c];
        new[i][j][c] = pinned[i][j] ? p : p + (p - old[i][j][c]) * 0.99f + force[c] * 2.5e-4f;
      }
    }
}
"""


def cloth_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A spring at a time, between views."""
    import numpy as np

    h, w, at, old = s["h"], s["w"], x["at"].astype(np.float64), x["old"].astype(np.float64)
    force = np.full_like(at, [0.0, -9.81, 0.0])
    for a, b in SPRINGS:
        here = (slice(max(-a, 0), h - max(a, 0)), slice(max(-b, 0), w - max(b, 0)))
        there = (slice(max(a, 0), h - max(-a, 0)), slice(max(b, 0), w - max(-b, 0)))
        d = at[there] - at[here]
        force[here] += 30 * (1 - np.hypot(a, b) / np.sqrt((d * d).sum(axis=-1, keepdims=True))) * d
    return {"new": np.where(x["pinned"].astype(bool)[..., None], at, at + (at - old) * 0.99 + force * 2.5e-4)}


def clearest_pixels(t: int = 11, h: int = 181, w: int = 301) -> Kernel:
    """Of days of pictures the one that is greenest at each pixel, of those without a cloud: which day, its index and its two bands."""
    kb = KernelBuilder("clearest_pixels")
    i, j, d = kb.axis("h", h), kb.axis("w", w), kb.axis("t", t)
    red, nir = (kb.input(k, (t, h, w), "uint16", range=(1, 10000)) for k in ("red", "nir"))
    quality = kb.input("quality", (t, h, w), uint8)
    r, n = cast(red[d, i, j], int32), cast(nir[d, i, j], int32)
    clear = (quality[d, i, j] & 0b11010).eq(0)
    best = kb.argmax("best", (i, j), d, where(clear, 20000 * n // (n + r) - 10000, -20000))
    at = cast(best[i, j], int64)
    p, q = cast(red[at, i, j], int32), cast(nir[at, i, j], int32)
    none = (quality[at, i, j] & 0b11010).ne(0)
    kb.store("day", uint8, (h, w), (i, j), where(none, 255, best[i, j]))
    kb.store("index", "int16", (h, w), (i, j), where(none, -32768, 20000 * q // (q + p) - 10000))
    kb.store("bands", "uint16", (2, h, w), (i, j), where(none, 0, p), (0, i, j))
    kb.store("bands", "uint16", (2, h, w), (i, j), where(none, 0, q), (1, i, j))
    return kb.build()


C["clearest_pixels"] = """
void kernel(const unsigned short (*restrict red)[H][W], const unsigned short (*restrict nir)[H][W],
            const unsigned char (*restrict quality)[H][W], unsigned char (*restrict day)[W], short (*restrict index)[W],
            unsigned short (*restrict bands)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int best = -1, most = -32768;
      for (int d = 0; d < T; d++) {
        if (quality[d][i][j] & 26) continue;
        int r = red[d][i][j], n = nir[d][i][j], v = 20000 * n / (n + r) - 10000;
        if (v > most) most = v, best = d;
      }
      day[i][j] = best < 0 ? 255 : best;
      index[i][j] = most;
      bands[0][i][j] = best < 0 ? 0 : red[best][i][j];
      bands[1][i][j] = best < 0 ? 0 : nir[best][i][j];
    }
}
"""


def clearest_pixels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """argmax and take_along_axis."""
    import numpy as np

    r, n, clear = x["red"].astype(np.int64), x["nir"].astype(np.int64), (x["quality"] & 26) == 0
    v = np.where(clear, 20000 * n // (n + r) - 10000, -32768)
    best, none = v.argmax(axis=0), ~clear.any(axis=0)
    p, q = (np.where(none, 0, np.take_along_axis(a, best[None], axis=0)[0]) for a in (r, n))
    return {"day": np.where(none, 255, best), "index": v.max(axis=0).astype(np.int16), "bands": np.stack([p, q]).astype(np.uint16)}


def csv_marks(c: int = 61, n: int = 67) -> Kernel:
    """Which commas and ends of lines are outside quotes, a bit for each of 64 n bytes of a part of a text, and how many there are."""
    kb = KernelBuilder("csv_marks")
    i, k, o = kb.axis("c", c), kb.axis("at", 64 * n), kb.axis("at@count", 64 * n)
    word, bit = kb.axis("word", n), kb.axis("bit", 64)
    x = kb.input("x", (c, 64 * n), uint8)
    quoted = kb.scan("xor", "quoted", (i, k), k, x[i, k].eq(34))

    def mark(at: Any) -> Any:
        return (x[i, at].eq(44) | x[i, at].eq(10)) & ~quoted[i, at]

    bits = kb.reduce("or", "bits", (i, word), bit, where(mark(64 * word + bit), cast(1, "uint64") << cast(bit, "uint64"), 0))
    many = kb.sum("many", (i,), o, mark(o))
    kb.store("marks", "uint64", (c, n), (i, word), bits[i, word])
    kb.store("fields", int32, (c,), (i,), many[i])
    return kb.build()


C["csv_marks"] = """
void kernel(const unsigned char (*restrict x)[64 * N], unsigned long long (*restrict marks)[N], int *restrict fields) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    int quoted = 0, many = 0;
    for (int w = 0; w < N; w++) {
      unsigned long long bits = 0;
      for (int b = 0; b < 64; b++) {
        unsigned char v = x[i][64 * w + b];
        quoted ^= v == 34;
        unsigned long long mark = (v == 44 || v == 10) && !quoted;
        bits |= mark << b;
        many += mark;
      }
      marks[i][w] = bits;
    }
    fields[i] = many;
  }
}
"""


def csv_marks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum of quotes, packbits."""
    import numpy as np

    a = x["x"]
    mark = ((a == 44) | (a == 10)) & ((a == 34).cumsum(axis=1) % 2 == 0)
    return {"marks": np.packbits(mark, axis=1, bitorder="little").view(np.uint64), "fields": mark.sum(axis=1).astype(np.int32)}
