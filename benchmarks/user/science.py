"""Numerics of chemistry, the sea, robots and receivers: systems down columns, arms, reactions, filters of sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, cos, exp, float32, float64, int16, int32, int64, log, sin, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "thomas_columns": ("scans", {"n": 11, "m": 21}),
    "cic_decimate": ("scans", {"c": 2, "m": 19, "r": 4}),
    "arm_kinematics": ("long expressions", {"n": 21}),
    "ocean_pressure": ("scans", {"l": 5, "h": 3, "w": 11}),
    "reaction_rates": ("gathers and scatters", {"r": 7, "s": 5, "n": 21}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def thomas_columns(n: int = 63, m: int = 2501) -> Kernel:
    """Many tridiagonal systems with one matrix, factorised before: down the columns, then up again, in float64."""
    kb = KernelBuilder("thomas_columns")
    i, u, j = kb.axis("n@down", n), kb.axis("n@up", n), kb.axis("m", m)
    d = kb.input("d", (n, m), float64)
    low, inv, up = (kb.input(k, (n,), float64, range=(0.2, 0.7)) for k in ("low", "inv", "up"))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, z = kb.associative_scan(("p", "z"), (i, j), i, (-low[i] * inv[i], d[i, j] * inv[i]), (1.0, 0.0), rule)
    back = n - 1 - u
    _, x = kb.associative_scan(("q", "x"), (u, j), u, (-up[back], z[back, j]), (1.0, 0.0), rule)
    kb.store("y", float64, (n, m), (u, j), x[u, j], (back, j))
    return kb.build()


C["thomas_columns"] = """
static void down(const double *restrict d, double low, double inv, const double *restrict before, double *restrict y) {
  for (int j = 0; j < M; j++) y[j] = (d[j] - low * before[j]) * inv;
}
static void up(double by, const double *restrict after, double *restrict y) {
  for (int j = 0; j < M; j++) y[j] -= by * after[j];
}
void kernel(const double (*restrict d)[M], const double *restrict low, const double *restrict inv, const double *restrict by,
            double (*restrict y)[M]) {
  for (int j = 0; j < M; j++) y[0][j] = d[0][j] * inv[0];
  for (int i = 1; i < N; i++) down(d[i], low[i], inv[i], y[i - 1], y[i]);
  for (int i = N - 2; i >= 0; i--) up(by[i], y[i + 1], y[i]);
}
"""


def thomas_columns_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Row after row."""
    import numpy as np

    n, y = s["n"], np.array(x["d"])
    for i in range(n):
        y[i] = (y[i] - (x["low"][i] * y[i - 1] if i else 0)) * x["inv"][i]
    for i in reversed(range(n - 1)):
        y[i] -= x["up"][i] * y[i + 1]
    return {"y": y}


def cic_decimate(c: int = 6, m: int = 6007, r: int = 8) -> Kernel:
    """Every r-th sample of channels of 16 bits by a filter of Hogenauer's: three running sums that wrap, three differences."""
    kb = KernelBuilder("cic_decimate")
    a, i, j = kb.axis("c", c), kb.axis("n", (m + 2) * r + 1), kb.axis("m", m)
    x = kb.input("x", (c, (m + 2) * r + 1), int16)
    one = kb.scan("add", "one", (a, i), i, cast(x[a, i], int32))
    two = kb.scan("add", "two", (a, i), i, one[a, i])
    three = kb.scan("add", "three", (a, i), i, two[a, i])

    def at(k: int) -> Any:
        return three[a, (j + k) * r]

    kb.store("y", int32, (c, m), (a, j), at(3) - at(2) * 3 + at(1) * 3 - at(0))
    return kb.build()


C["cic_decimate"] = """
void kernel(const short (*restrict x)[(M + 2) * R + 1], int (*restrict y)[M]) {
#pragma omp parallel for
  for (int a = 0; a < C; a++) {
    unsigned one = x[a][0], two = one, three = one, p = three, dp = 0, ddp = 0;
    for (int j = 1; j < M + 3; j++) {
      for (int k = 0; k < R; k++) {
        one += x[a][(j - 1) * R + 1 + k];
        two += one;
        three += two;
      }
      unsigned d = three - p, dd = d - dp, ddd = dd - ddp;
      if (j >= 3) y[a][j - 3] = ddd;
      p = three, dp = d, ddp = dd;
    }
  }
}
"""


def cic_decimate_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum and diff in 64 bits, which do not overflow here."""
    import numpy as np

    t = x["x"].astype(np.int64)
    for _ in range(3):
        t = t.cumsum(axis=1)
    return {"y": np.diff(t[:, :: s["r"]], n=3, axis=1).astype(np.int32)}


def arm_kinematics(n: int = 10007) -> Kernel:
    """Where the hand of an arm of seven joints is and where it points, for many sets of angles (Denavit and Hartenberg)."""
    kb = KernelBuilder("arm_kinematics")
    i = kb.axis("n", n)
    q, long = kb.input("q", (7, n), float32, range=(-3.0, 3.0)), kb.input("long", (7,), float32, range=(0.0, 0.5))
    x, y, z = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    at: list[Any] = [0.0, 0.0, 0.0]
    for k in range(7):
        c, s, side = cos(q[k, i]), sin(q[k, i]), (-1.0, 1.0)[k % 2]
        at = [p + v * long[k] for p, v in zip(at, z)]
        turned = [u * c + v * s for u, v in zip(x, y)], [v * c - u * s for u, v in zip(x, y)]
        x, y, z = turned[0], [v * side for v in z], [v * -side for v in turned[1]]
    for k, v in enumerate((*at, *z)):
        kb.store("y", float32, (6, n), (i,), v, (k, i))
    return kb.build()


C["arm_kinematics"] = """
#include <math.h>
static void turns(const float *restrict q, float *restrict c, float *restrict s) {
  for (int i = 0; i < N; i++) c[i] = cosf(q[i]);
  for (int i = 0; i < N; i++) s[i] = sinf(q[i]);
}
void kernel(const float (*restrict q)[N], const float *restrict length, float (*restrict y)[N]) {
  static float co[7][N], si[7][N];
  float l[7];
  for (int k = 0; k < 7; k++) l[k] = length[k];
#pragma omp parallel for
  for (int k = 0; k < 7; k++) turns(q[k], co[k], si[k]);
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float x0 = 1, x1 = 0, x2 = 0, y0 = 0, y1 = 1, y2 = 0, z0 = 0, z1 = 0, z2 = 1, p0 = 0, p1 = 0, p2 = 0;
#pragma GCC unroll 7
    for (int k = 0; k < 7; k++) {
      float c = co[k][i], s = si[k][i], side = k % 2 ? 1 : -1;
      p0 += z0 * l[k], p1 += z1 * l[k], p2 += z2 * l[k];
      float u0 = x0 * c + y0 * s, u1 = x1 * c + y1 * s, u2 = x2 * c + y2 * s;
      float v0 = y0 * c - x0 * s, v1 = y1 * c - x1 * s, v2 = y2 * c - x2 * s;
      x0 = u0, x1 = u1, x2 = u2;
      y0 = z0 * side, y1 = z1 * side, y2 = z2 * side;
      z0 = -side * v0, z1 = -side * v1, z2 = -side * v2;
    }
    y[0][i] = p0, y[1][i] = p1, y[2][i] = p2;
    y[3][i] = z0, y[4][i] = z1, y[5][i] = z2;
  }
}
"""


def arm_kinematics_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Matrices of 3 × 3."""
    import numpy as np

    n, frame, at = s["n"], np.tile(np.eye(3), (s["n"], 1, 1)), np.zeros((s["n"], 3))
    for k in range(7):
        a, side = x["q"][k].astype(np.float64), (-1, 1)[k % 2]
        at = at + frame[:, :, 2] * float(x["long"][k])
        turn = np.zeros((n, 3, 3))
        turn[:, 0, 0] = turn[:, 1, 1] = np.cos(a)
        turn[:, 1, 0], turn[:, 0, 1], turn[:, 2, 2] = np.sin(a), -np.sin(a), 1
        frame = frame @ turn @ np.array([[1, 0, 0], [0, 0, -side], [0, side, 0]])
    return {"y": np.concatenate([at, frame[:, :, 2]], axis=1).T}


def ocean_pressure(l: int = 31, h: int = 90, w: int = 121) -> Kernel:
    """The density of sea water by temperature and salt (UNESCO's polynomial), and the pressure of what lies above."""
    kb = KernelBuilder("ocean_pressure")
    k, i, j = kb.axis("l", l), kb.axis("h", h), kb.axis("w", w)
    t = kb.input("t", (l, h, w), float32, range=(-2.0, 30.0))
    s, deep = kb.input("s", (l, h, w), float32, range=(30.0, 38.0)), kb.input("deep", (l,), float32, range=(5.0, 200.0))
    a, b = t[k, i, j], s[k, i, j]

    def poly(*of: float) -> Any:
        acc: Any = of[0]
        for c in of[1:]:
            acc = acc * a + c
        return acc

    salt = poly(5.3875e-9, -8.2467e-7, 7.6438e-5, -4.0899e-3, 0.824493) * b
    root = poly(-1.6546e-6, 1.0227e-4, -5.72466e-3) * b**1.5
    fresh = poly(6.536332e-9, -1.120083e-6, 1.001685e-4, -9.09529e-3, 6.793952e-2, -0.157406)
    excess = kb.value("excess", (k, i, j), fresh + salt + root + b * b * 4.8314e-4)  # less 1000 kg/m³
    below = kb.scan("add", "below", (k, i, j), k, (excess[k, i, j] + 1000.0) * (9.81e-4 * deep[k]))
    kb.store("rho", float32, (l, h, w), (k, i, j), excess[k, i, j])
    kb.store("press", float32, (l, h, w), (k, i, j), below[k, i, j] - (excess[k, i, j] + 1000.0) * (4.905e-4 * deep[k]))
    return kb.build()


C["ocean_pressure"] = """
#include <math.h>
static void layer(const float *restrict t, const float *restrict s, float deep, float *restrict above, float *restrict rho,
                  float *restrict press) {
  for (int j = 0; j < H * W; j++) {
    float a = t[j], b = s[j];
    float salt = ((((5.3875e-9f * a - 8.2467e-7f) * a + 7.6438e-5f) * a - 4.0899e-3f) * a + 0.824493f) * b;
    float root = ((-1.6546e-6f * a + 1.0227e-4f) * a - 5.72466e-3f) * b * sqrtf(b);
    float fresh = ((((6.536332e-9f * a - 1.120083e-6f) * a + 1.001685e-4f) * a - 9.09529e-3f) * a + 6.793952e-2f) * a - 0.157406f;
    float r = fresh + salt + root + b * b * 4.8314e-4f, half = (r + 1000) * (4.905e-4f * deep);
    rho[j] = r;
    press[j] = above[j] + half;
    above[j] += 2 * half;
  }
}
void kernel(const float (*restrict t)[H * W], const float (*restrict s)[H * W], const float *restrict deep, float (*restrict rho)[H * W],
            float (*restrict press)[H * W]) {
  float above[H * W];
  for (int j = 0; j < H * W; j++) above[j] = 0;
  for (int k = 0; k < L; k++) layer(t[k], s[k], deep[k], above, rho[k], press[k]);
}
"""


def ocean_pressure_numpy(x: Arrays, s: Sizes) -> Arrays:
    """polyval."""
    import numpy as np

    a, b, deep = (x[k].astype(np.float64) for k in ("t", "s", "deep"))
    rho = np.polyval([6.536332e-9, -1.120083e-6, 1.001685e-4, -9.09529e-3, 6.793952e-2, -0.157406], a) + 4.8314e-4 * b**2
    rho += np.polyval([5.3875e-9, -8.2467e-7, 7.6438e-5, -4.0899e-3, 0.824493], a) * b
    rho += np.polyval([-1.6546e-6, 1.0227e-4, -5.72466e-3], a) * b**1.5
    weight = (rho + 1000) * 9.81e-4 * deep[:, None, None]
    return {"rho": rho, "press": weight.cumsum(axis=0) - weight / 2}


def reaction_rates(r: int = 23, s: int = 11, n: int = 4001) -> Kernel:
    """How fast each substance becomes more or less in each cell: r reactions a + b → p by Arrhenius' law, listed as data."""
    kb = KernelBuilder("reaction_rates")
    k, i, q = kb.axis("r", r), kb.axis("n", n), kb.axis("role", 3)
    c, heat = kb.input("c", (s, n), float32, range=(0.0, 1.0)), kb.input("heat", (n,), float32, range=(300.0, 2500.0))
    fast, power = kb.input("fast", (r,), float32, range=(0.1, 9.0)), kb.input("power", (r,), float32, range=(-0.5, 0.5))
    barrier, who = kb.input("barrier", (r,), float32, range=(100.0, 3000.0)), kb.input("who", (3, r), int32, range=(0, s - 1))
    a, b = cast(who[0, k], int64), cast(who[1, k], int64)
    rate = kb.value("rate", (k, i), fast[k] * exp(power[k] * log(heat[i]) - barrier[k] / heat[i]) * c[a, i] * c[b, i])
    signed = where(q.eq(2), rate[k, i], -rate[k, i])
    kb.store("y", float32, (s, n), (k, q, i), signed, (cast(who[q, k], int64), i), combine="add")
    return kb.build()


C["reaction_rates"] = """
#include <math.h>
static void reaction(const float *restrict logs, const float *restrict over, float fast, float power, float barrier,
                     const float *restrict a, const float *restrict b, float *restrict rate) {
  for (int i = 0; i < N; i++) rate[i] = fast * expf(power * logs[i] - barrier * over[i]) * a[i] * b[i];
}
static void add(float by, const float *restrict rate, float *restrict y) {
  for (int i = 0; i < N; i++) y[i] += by * rate[i];
}
void kernel(const float (*restrict c)[N], const float *restrict heat, const float *restrict fast, const float *restrict power,
            const float *restrict barrier, const int (*restrict who)[R], float (*restrict y)[N]) {
  float logs[N], over[N], rate[N];
  for (int i = 0; i < N; i++) logs[i] = logf(heat[i]), over[i] = 1 / heat[i];
  for (int k = 0; k < S; k++)
    for (int i = 0; i < N; i++) y[k][i] = 0;
  for (int k = 0; k < R; k++) {
    reaction(logs, over, fast[k], power[k], barrier[k], c[who[0][k]], c[who[1][k]], rate);
    for (int q = 0; q < 3; q++) add(q == 2 ? 1 : -1, rate, y[who[q][k]]);
  }
}
"""


def reaction_rates_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A reaction at a time."""
    import numpy as np

    y, (c, t, f, q, e) = np.zeros((s["s"], s["n"])), (x[k].astype(np.float64) for k in ("c", "heat", "fast", "power", "barrier"))
    for k, (a, b, p) in enumerate(x["who"].T):
        rate = f[k] * t ** q[k] * np.exp(-e[k] / t) * c[a] * c[b]
        y[a] -= rate
        y[b] -= rate
        y[p] += rate
    return {"y": y}
