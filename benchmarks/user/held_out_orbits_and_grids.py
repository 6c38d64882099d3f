"""Orbits, columns of an ocean, grids of geodesy, and elements of high order."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, clip, cos, float32, float64, floor, int32, round_even, sin, sqrt, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "kepler_states": ("chains of elementary functions", {"b": 3, "t": 13}),
    "mixed_layers": ("first places in columns", {"l": 9, "h": 3, "w": 11}),
    "inverse_shifts": ("gathers", {"n": 37, "h": 9, "w": 12}),
    "spectral_elements": ("small products", {"e": 3, "p": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
DENSITY = (
    (-0.157406, 6.793952e-2, -9.09529e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9),
    (0.824493, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9),
    (-5.72466e-3, 1.0227e-4, -1.6546e-6),
    (4.8314e-4,),
)
"""What sea water at the surface weighs beyond 1000 kg/m³: polynomials of the temperature, by S⁰, S¹, S^1.5 and S²."""


def kepler_states(b: int = 37, t: int = 701) -> Kernel:
    """Where b bodies are at t times, and how fast, from the elements of their orbits: four steps of Newton for Kepler's equation."""
    kb = KernelBuilder("kepler_states")
    i, k = kb.axis("b", b), kb.axis("t", t)
    size = kb.input("size", (b,), float64, range=(0.4, 30.0))
    ecc = kb.input("ecc", (b,), float64, range=(0.0, 0.4))
    incline, node, peri, phase = (kb.input(name, (b,), float64, range=(0.0, 3.0)) for name in ("incline", "node", "peri", "phase"))
    rate, day = kb.input("rate", (b,), float64, range=(0.001, 0.07)), kb.input("day", (t,), float64, range=(-900.0, 900.0))
    ci, si, cn, sn = cos(incline[i]), sin(incline[i]), cos(node[i]), sin(node[i])
    cp, sp = cos(peri[i]), sin(peri[i])
    towards = (cn * cp - sn * sp * ci, sn * cp + cn * sp * ci, sp * si)
    across = (-cn * sp - sn * cp * ci, -sn * sp + cn * cp * ci, cp * si)
    u = [kb.value(f"u{c}", (i,), size[i] * towards[c]) for c in range(3)]
    v = [kb.value(f"v{c}", (i,), size[i] * sqrt(1.0 - ecc[i] * ecc[i]) * across[c]) for c in range(3)]
    turns = phase[i] + rate[i] * day[k]
    mean = turns - 2 * pi * round_even(turns * (0.5 / pi))
    angle = mean + ecc[i] * sin(mean)
    for _ in range(4):
        angle = angle - (angle - ecc[i] * sin(angle) - mean) / (1.0 - ecc[i] * cos(angle))
    x, y = cos(angle), sin(angle)
    speed = rate[i] / (1.0 - ecc[i] * x)
    for c in range(3):
        kb.store("place", float64, (b, t, 3), (i, k), u[c][i] * (x - ecc[i]) + v[c][i] * y, (i, k, c))
        kb.store("velocity", float64, (b, t, 3), (i, k), (v[c][i] * x - u[c][i] * y) * speed, (i, k, c))
    return kb.build()


C["kepler_states"] = """
#include <math.h>
static void orbit(const double *restrict u, const double *restrict v, double e, double phase, double rate,
                  const double *restrict day, double (*restrict place)[3], double (*restrict velocity)[3]) {
  for (int k = 0; k < T; k++) {
    double m = phase + rate * day[k];
    m -= 2 * M_PI * nearbyint(m * (0.5 / M_PI));
    double a = m + e * sin(m);
    for (int r = 0; r < 4; r++) a -= (a - e * sin(a) - m) / (1 - e * cos(a));
    double x = cos(a), y = sin(a), speed = rate / (1 - e * x);
    for (int c = 0; c < 3; c++) place[k][c] = u[c] * (x - e) + v[c] * y, velocity[k][c] = (v[c] * x - u[c] * y) * speed;
  }
}
void kernel(const double *restrict size, const double *restrict ecc, const double *restrict incline, const double *restrict node,
            const double *restrict peri, const double *restrict phase, const double *restrict rate, const double *restrict day,
            double (*restrict place)[T][3], double (*restrict velocity)[T][3]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double ci = cos(incline[i]), si = sin(incline[i]), cn = cos(node[i]), sn = sin(node[i]), cp = cos(peri[i]), sp = sin(peri[i]);
    double a = size[i], b = size[i] * sqrt(1 - ecc[i] * ecc[i]);
    double u[3] = {a * (cn * cp - sn * sp * ci), a * (sn * cp + cn * sp * ci), a * sp * si};
    double v[3] = {b * (-cn * sp - sn * cp * ci), b * (-sn * sp + cn * cp * ci), b * cp * si};
    orbit(u, v, ecc[i], phase[i], rate[i], day, place[i], velocity[i]);
  }
}
"""


def kepler_states_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Many more steps, and matrices of rotation."""
    import numpy as np

    e, zero, one = x["ecc"][:, None], np.zeros(s["b"]), np.ones(s["b"])

    def about(axis: int, angle: Any) -> Any:
        c, d = np.cos(angle), np.sin(angle)
        rows = [[c, -d, zero], [d, c, zero], [zero, zero, one]] if axis == 2 else [[one, zero, zero], [zero, c, -d], [zero, d, c]]
        return np.array(rows).transpose(2, 0, 1)

    turn = about(2, x["node"]) @ about(0, x["incline"]) @ about(2, x["peri"])
    mean = np.remainder(x["phase"][:, None] + x["rate"][:, None] * x["day"] + np.pi, 2 * np.pi) - np.pi
    a = mean + e * np.sin(mean)
    for _ in range(12):
        a = a - (a - e * np.sin(a) - mean) / (1 - e * np.cos(a))
    b, rate = np.sqrt(1 - e * e), x["rate"][:, None] / (1 - e * np.cos(a))
    flat = np.stack([np.cos(a) - e, b * np.sin(a), 0 * a], axis=2) * x["size"][:, None, None]
    speed = np.stack([-np.sin(a) * rate, b * np.cos(a) * rate, 0 * a], axis=2) * x["size"][:, None, None]
    return {"place": np.einsum("bcd,btd->btc", turn, flat), "velocity": np.einsum("bcd,btd->btc", turn, speed)}


def mixed_layers(l: int = 31, h: int = 61, w: int = 122) -> Kernel:
    """How deep an ocean is mixed: where water is 0.03 kg/m³ heavier than at the surface, and what heat lies above."""
    kb = KernelBuilder("mixed_layers")
    y, x, k, q, r = kb.axis("h", h), kb.axis("w", w), kb.axis("l@depth", l), kb.axis("l@first", l), kb.axis("l@heat", l)
    temp, salt = kb.input("temp", (l, h, w), float64, range=(10.0, 10.2)), kb.input("salt", (l, h, w), float64, range=(35.0, 35.02))
    thick, wet = kb.input("thick", (l,), float64, range=(5.0, 50.0)), kb.input("wet", (h, w), uint8, range=(0, l))

    def density(k: Any) -> Any:
        t, s = temp[k, y, x], salt[k, y, x]
        sums = []
        for terms in DENSITY:
            total: Any = terms[-1]
            for c in terms[-2::-1]:
                total = total * t + c
            sums.append(total)
        return sums[0] + s * sums[1] + s * sqrt(s) * sums[2] + s * s * sums[3]

    depth = kb.scan("add", "depth", (k,), k, thick[k])
    many = cast(wet[y, x], int32)
    limit = kb.value("limit", (y, x), density(0) + 0.03)
    first = kb.min("first", (y, x), q, where((cast(q, int32) < many) & (density(q) > limit[y, x]), cast(q, int32), many))
    kb.store("levels", int32, (h, w), (y, x), first[y, x])
    heat = kb.sum("warmth", (y, x), r, where(cast(r, int32) < first[y, x], temp[r, y, x] * thick[r], 0.0))
    kb.store("heat", float64, (h, w), (y, x), heat[y, x])
    below = clip(first[y, x], 1, l - 1)
    above, over = below - 1, density(below - 1)
    part = (limit[y, x] - over) / (density(below) - over)
    between = depth[above] + (depth[below] - depth[above]) * part
    bottom = depth.masked(many > 0, clip(many - 1, 0, l - 1))
    kb.store("mixed", float64, (h, w), (y, x), where(first[y, x] < many, between, bottom))
    return kb.build()


C["mixed_layers"] = """
#include <math.h>
static inline double density(double t, double s) {
  return -0.157406 + t * (6.793952e-2 + t * (-9.09529e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))) +
         s * (0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))) +
         s * sqrt(s) * (-5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)) + s * s * 4.8314e-4;
}
void kernel(const double (*restrict temp)[H][W], const double (*restrict salt)[H][W], const double *restrict thick,
            const unsigned char (*restrict wet)[W], int (*restrict levels)[W], double (*restrict heat)[W], double (*restrict mixed)[W]) {
  double depth[L];
  for (int k = 0; k < L; k++) depth[k] = thick[k] + (k ? depth[k - 1] : 0);
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) {
      int k = 0, many = wet[y][x];
      double limit = density(temp[0][y][x], salt[0][y][x]) + 0.03, above = 0, here = 0, warmth = 0;
      for (; k < many; k++) {
        above = here, here = density(temp[k][y][x], salt[k][y][x]);
        if (here > limit) break;
        warmth += temp[k][y][x] * thick[k];
      }
      levels[y][x] = k, heat[y][x] = warmth;
      if (k < many) mixed[y][x] = depth[k - 1] + thick[k] * (limit - above) / (here - above);
      else mixed[y][x] = many ? depth[many - 1] : 0;
    }
}
"""


def mixed_layers_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All densities, and argmax."""
    import numpy as np

    t, c, thick, wet = x["temp"], x["salt"], x["thick"], x["wet"].astype(np.int32)
    parts = (np.polynomial.polynomial.polyval(t, terms) for terms in DENSITY)
    rho = sum(p * c**power for p, power in zip(parts, (0, 1, 1.5, 2)))
    k = np.arange(s["l"])[:, None, None]
    heavy = (rho > rho[0] + 0.03) & (k < wet)
    first = np.where(heavy.any(axis=0), heavy.argmax(axis=0), wet).astype(np.int32)
    heat = (t * thick[:, None, None] * (k < first)).sum(axis=0)
    depth = thick.cumsum()
    b = np.clip(first, 1, s["l"] - 1)
    low, high = (np.take_along_axis(rho, at[None], axis=0)[0] for at in (b - 1, b))
    between = depth[b - 1] + thick[b] * (rho[0] + 0.03 - low) / (high - low)
    return {"levels": first, "heat": heat, "mixed": np.where(first < wet, between, np.where(wet > 0, depth[wet - 1], 0.0))}


def inverse_shifts(n: int = 20011, h: int = 141, w: int = 233) -> Kernel:
    """Places of a new datum in the old one: what a grid of shifts, bilinear between its nodes, brings there; found in four rounds."""
    kb = KernelBuilder("inverse_shifts")
    i = kb.axis("n", n)
    shift = kb.input("shift", (h, w, 2), float32, range=(-0.4, 0.4))
    row, column = (kb.input(name, (n,), float64, range=(0.5, m - 1.5)) for name, m in (("row", h), ("column", w)))

    def shifts(y: Any, x: Any) -> list[Any]:
        r, c = (clip(floor(p), 0.0, m - 2.0) for p, m in ((y, h), (x, w)))
        p, q, a, b = cast(r, int32), cast(c, int32), y - r, x - c

        def at(dy: int, dx: int, d: int) -> Any:
            return cast(shift[p + dy, q + dx, d], float64)

        return [(1.0 - a) * ((1.0 - b) * at(0, 0, d) + b * at(0, 1, d)) + a * ((1.0 - b) * at(1, 0, d) + b * at(1, 1, d)) for d in (0, 1)]

    y, x = row[i], column[i]
    for _ in range(4):
        dy, dx = shifts(y, x)
        y, x = row[i] - dy, column[i] - dx
    for d, found in enumerate((y, x)):
        kb.store("old", float64, (n, 2), (i,), found, (i, d))
    return kb.build()


C["inverse_shifts"] = """
#include <math.h>
void kernel(const float (*restrict shift)[W][2], const double *restrict row, const double *restrict column, double (*restrict old)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double y = row[i], x = column[i];
    for (int k = 0; k < 4; k++) {
      double fy = floor(y), fx = floor(x);
      fy = fy < 0 ? 0 : fy > H - 2 ? H - 2 : fy, fx = fx < 0 ? 0 : fx > W - 2 ? W - 2 : fx;
      double a = y - fy, b = x - fx;
      const float (*p)[2] = &shift[(int)fy][(int)fx], (*q)[2] = p + W;
      y = row[i] - ((1 - a) * ((1 - b) * p[0][0] + b * p[1][0]) + a * ((1 - b) * q[0][0] + b * q[1][0]));
      x = column[i] - ((1 - a) * ((1 - b) * p[0][1] + b * p[1][1]) + a * ((1 - b) * q[0][1] + b * q[1][1]));
    }
    old[i][0] = y, old[i][1] = x;
  }
}
"""


def inverse_shifts_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Four gathers a round."""
    import numpy as np

    new, grid, most = np.stack([x["row"], x["column"]], axis=1), x["shift"].astype(np.float64), np.array([s["h"], s["w"]]) - 2
    old = new
    for _ in range(4):
        low = np.clip(np.floor(old), 0, most).astype(int)
        a, b = (old - low)[:, :1], (old - low)[:, 1:]
        p, q = low.T
        top = grid[p, q] + b * (grid[p, q + 1] - grid[p, q])
        old = new - top - a * (grid[p + 1, q] + b * (grid[p + 1, q + 1] - grid[p + 1, q]) - top)
    return {"old": old}


def spectral_elements(e: int = 191, p: int = 7) -> Kernel:
    """The Laplacian of p × p × p nodes in each of e curved elements: derivatives, six factors of the map, and derivatives back."""
    kb = KernelBuilder("spectral_elements")
    i, x, y, z = kb.axis("e", e), kb.axis("px", p), kb.axis("py", p), kb.axis("pz", p)
    u, d, g = (kb.input(n, shape, float64) for n, shape in (("u", (e, p, p, p)), ("d", (p, p)), ("g", (e, 6, p, p, p))))
    a, b = ([kb.axis(f"p{c}@{way}", p) for c in "xyz"] for way in ("there", "back"))
    at = (i, z, y, x)
    r = kb.sum("r", at, a[0], d[x, a[0]] * u[i, z, y, a[0]])[at]
    s = kb.sum("s", at, a[1], d[y, a[1]] * u[i, z, a[1], x])[at]
    t = kb.sum("t", at, a[2], d[z, a[2]] * u[i, a[2], y, x])[at]
    f = [g[i, c, z, y, x] for c in range(6)]
    fr, fs, ft = (kb.value(f"f{c}", at, f[j] * r + f[k] * s + f[l] * t) for c, j, k, l in (("r", 0, 1, 2), ("s", 1, 3, 4), ("t", 2, 4, 5)))
    back = kb.sum("wr", at, b[0], d[b[0], x] * fr[i, z, y, b[0]])[at]
    back = back + kb.sum("ws", at, b[1], d[b[1], y] * fs[i, z, b[1], x])[at]
    back = back + kb.sum("wt", at, b[2], d[b[2], z] * ft[i, b[2], y, x])[at]
    kb.store("w", float64, (e, p, p, p), at, back)
    return kb.build()


C["spectral_elements"] = """
typedef double cube[P][P][P];
void kernel(const cube *restrict u, const double (*restrict d)[P], const cube (*restrict g)[6], cube *restrict w) {
#pragma omp parallel for
  for (int i = 0; i < E; i++) {
    cube fr, fs, ft;
    for (int z = 0; z < P; z++)
      for (int y = 0; y < P; y++)
        for (int x = 0; x < P; x++) {
          double r = 0, s = 0, t = 0;
          for (int l = 0; l < P; l++) r += d[x][l] * u[i][z][y][l], s += d[y][l] * u[i][z][l][x], t += d[z][l] * u[i][l][y][x];
          fr[z][y][x] = g[i][0][z][y][x] * r + g[i][1][z][y][x] * s + g[i][2][z][y][x] * t;
          fs[z][y][x] = g[i][1][z][y][x] * r + g[i][3][z][y][x] * s + g[i][4][z][y][x] * t;
          ft[z][y][x] = g[i][2][z][y][x] * r + g[i][4][z][y][x] * s + g[i][5][z][y][x] * t;
        }
    for (int z = 0; z < P; z++)
      for (int y = 0; y < P; y++)
        for (int x = 0; x < P; x++) {
          double v = 0;
          for (int l = 0; l < P; l++) v += d[l][x] * fr[z][y][l] + d[l][y] * fs[z][l][x] + d[l][z] * ft[l][y][x];
          w[i][z][y][x] = v;
        }
  }
}
"""


def spectral_elements_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    u, d, g = x["u"], x["d"], x["g"].swapaxes(0, 1)
    r, q, t = (np.einsum(f, d, u) for f in ("xl,ezyl->ezyx", "yl,ezlx->ezyx", "zl,elyx->ezyx"))
    fr, fq, ft = g[0] * r + g[1] * q + g[2] * t, g[1] * r + g[3] * q + g[4] * t, g[2] * r + g[4] * q + g[5] * t
    return {"w": np.einsum("lx,ezyl->ezyx", d, fr) + np.einsum("ly,ezlx->ezyx", d, fq) + np.einsum("lz,elyx->ezyx", d, ft)}
