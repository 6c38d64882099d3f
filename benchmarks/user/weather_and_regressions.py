"""What forecasters show of a model's winds and layers, stations against their normals, a step of logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    atan2,
    cast,
    exp,
    float32,
    float64,
    int8,
    int16,
    int32,
    log1p,
    maximum,
    power,
    sqrt,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "weather_at_points": ("pointwise with functions", {"h": 5, "w": 11}),
    "melting_level": ("searches in columns", {"l": 14, "h": 3, "w": 7}),
    "station_normals": ("groups of rows", {"y": 4, "d": 5, "s": 13}),
    "logistic_normal_equations": ("weighted products of columns", {"n": 43, "d": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def weather_at_points(h: int = 179, w: int = 359) -> Kernel:
    """Winds on the edges of a model's cells as speed and direction in the middle, how damp the air is, how cold it feels."""
    kb = KernelBuilder("weather_at_points")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, v = kb.input("u", (h, w + 1), float32, range=(-20.0, 20.0)), kb.input("v", (h + 1, w), float32, range=(-20.0, 20.0))
    t, dew = kb.input("t", (h, w), float32, range=(-20.0, 30.0)), kb.input("dew", (h, w), float32, range=(-30.0, 20.0))
    east, north = (u[i, j] + u[i, j + 1]) * 0.5, (v[i, j] + v[i + 1, j]) * 0.5
    speed = kb.value("wind", (i, j), sqrt(east * east + north * north))
    angle = 270.0 - atan2(north, east) * 57.29578
    damp = exp(dew[i, j] * 17.625 / (dew[i, j] + 243.04) - t[i, j] * 17.625 / (t[i, j] + 243.04)) * 100.0
    fast = power(maximum(speed[i, j], 1.0) * 3.6, 0.16)
    cold = t[i, j] * 0.6215 + 13.12 + fast * (t[i, j] * 0.3965 - 11.37)
    kb.store("speed", float32, (h, w), (i, j), speed[i, j])
    kb.store("from", float32, (h, w), (i, j), where(angle >= 360.0, angle - 360.0, angle))
    kb.store("humidity", float32, (h, w), (i, j), where(damp > 100.0, 100.0, damp))
    kb.store("feels", float32, (h, w), (i, j), where((t[i, j] < 10.0) & (speed[i, j] > 1.3), cold, t[i, j]))
    return kb.build()


C["weather_at_points"] = """
#include <math.h>
void kernel(const float (*restrict u)[W + 1], const float (*restrict v)[W], const float (*restrict t)[W], const float (*restrict dew)[W],
            float (*restrict speed)[W], float (*restrict from)[W], float (*restrict humidity)[W], float (*restrict feels)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      float east = (u[i][j] + u[i][j + 1]) * 0.5f, north = (v[i][j] + v[i + 1][j]) * 0.5f, c = t[i][j], d = dew[i][j];
      float wind = sqrtf(east * east + north * north), angle = 270 - atan2f(north, east) * 57.29578f;
      float damp = 100 * expf(17.625f * d / (d + 243.04f) - 17.625f * c / (c + 243.04f));
      float fast = powf(3.6f * fmaxf(wind, 1), 0.16f), cold = 13.12f + 0.6215f * c + fast * (0.3965f * c - 11.37f);
      speed[i][j] = wind;
      from[i][j] = angle >= 360 ? angle - 360 : angle;
      humidity[i][j] = damp > 100 ? 100 : damp;
      feels[i][j] = c < 10 && wind > 1.3f ? cold : c;
    }
}
"""


def weather_at_points_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Whole maps."""
    import numpy as np

    u, v, t, dew = (x[name].astype(np.float64) for name in ("u", "v", "t", "dew"))
    east, north = (u[:, :-1] + u[:, 1:]) / 2, (v[:-1] + v[1:]) / 2
    speed, angle = np.hypot(east, north), 270 - np.arctan2(north, east) * 57.29578
    damp = 100 * np.exp(17.625 * dew / (dew + 243.04) - 17.625 * t / (t + 243.04))
    fast = (3.6 * np.maximum(speed, 1)) ** 0.16
    cold = 13.12 + 0.6215 * t + fast * (0.3965 * t - 11.37)
    feels = np.where((t < 10) & (speed > 1.3), cold, t)
    return {"speed": speed, "from": np.where(angle >= 360, angle - 360, angle), "humidity": np.minimum(damp, 100), "feels": feels}


def melting_level(l: int = 37, h: int = 113, w: int = 151) -> Kernel:
    """How high the air first is colder than 0 °C (layers every 300 m, differences from a standard atmosphere), and the water above."""
    kb = KernelBuilder("melting_level")
    i, j, k, m = kb.axis("h", h), kb.axis("w", w), kb.axis("l@cold", l), kb.axis("l@water", l)
    apart, q = kb.input("apart", (l, h, w), float32, range=(-4.0, 4.0)), kb.input("q", (l, h, w), float32, range=(0.0, 0.01))
    mass = kb.input("mass", (l,), float32, range=(100.0, 300.0))

    def warm(at: Any) -> Any:
        return apart[at, i, j] + (12.0 - cast(at, float32) * 1.95)

    first = kb.min("first", (i, j), k, where(warm(k) < 0.0, cast(k, int32), l))
    after = kb.value("after", (i, j), where(first[i, j] < l, maximum(first[i, j], 1), 1))
    water = kb.sum("column", (i, j), m, q[m, i, j] * mass[m])
    below, above = warm(after[i, j] - 1), warm(after[i, j])
    part = below / where(below > above, below - above, 1.0)
    level = where(first[i, j].eq(0), 0.0, (cast(after[i, j] - 1, float32) + part) * 300.0)
    kb.store("level", float32, (h, w), (i, j), where(first[i, j].eq(l), -1.0, level))
    kb.store("water", float32, (h, w), (i, j), water[i, j])
    return kb.build()


C["melting_level"] = """
void kernel(const float (*restrict apart)[H][W], const float (*restrict q)[H][W], const float *restrict mass, float (*restrict level)[W],
            float (*restrict water)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) water[i][j] = 0, level[i][j] = -1;
    for (int k = L - 1; k >= 0; k--)
#pragma omp simd
      for (int j = 0; j < W; j++) {
        float t = apart[k][i][j] + (12 - 1.95f * k), below = k ? apart[k - 1][i][j] + (12 - 1.95f * (k - 1)) : 0;
        water[i][j] += q[k][i][j] * mass[k];
        level[i][j] = t >= 0 ? level[i][j] : k == 0 ? 0 : (k - 1 + below / (below - t)) * 300;
      }
  }
}
"""


def melting_level_numpy(x: Arrays, s: Sizes) -> Arrays:
    """argmax of what is cold."""
    import numpy as np

    t = x["apart"] + (12 - 1.95 * np.arange(s["l"]))[:, None, None]
    k, none = (t < 0).argmax(axis=0), ~(t < 0).any(axis=0)
    at = np.maximum(k, 1)
    below, above = np.take_along_axis(t, at[None] - 1, 0)[0], np.take_along_axis(t, at[None], 0)[0]
    level = np.where(k > 0, (at - 1 + below / np.where(below > above, below - above, 1)) * 300, 0)
    return {"level": np.where(none, -1, level), "water": np.einsum("khw,k->hw", x["q"].astype(np.float64), x["mass"])}


def station_normals(y: int = 12, d: int = 365, s: int = 997) -> Kernel:
    """Temperatures of each day (in tenths; below -400 there is none): the mean of each date over the years, and how far each day was off."""
    kb = KernelBuilder("station_normals")
    a, i, j, b, c = kb.axis("y", y), kb.axis("d", d), kb.axis("s", s), kb.axis("y@total", y), kb.axis("y@many", y)
    x = kb.input("x", (y, d, s), int16, range=(-500, 400))
    total = kb.sum("total", (i, j), b, where(x[b, i, j] >= -400, cast(x[b, i, j], int32), 0))
    many = kb.sum("many", (i, j), c, x[c, i, j] >= -400)
    mean = kb.value("mean", (i, j), cast(total[i, j], float32) / cast(maximum(many[i, j], 1), float32))
    kb.store("normal", float32, (d, s), (i, j), mean[i, j])
    off = cast(x[a, i, j], float32) - mean[i, j]
    kb.store("off", float32, (y, d, s), (a, i, j), where(x[a, i, j] >= -400, off, -9999.0))
    return kb.build()


C["station_normals"] = """
void kernel(const short (*restrict x)[D][S], float (*restrict normal)[S], float (*restrict off)[D][S]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    int total[S], many[S];
    for (int j = 0; j < S; j++) total[j] = many[j] = 0;
    for (int a = 0; a < Y; a++)
      for (int j = 0; j < S; j++) total[j] += x[a][i][j] >= -400 ? x[a][i][j] : 0, many[j] += x[a][i][j] >= -400;
#pragma omp simd
    for (int j = 0; j < S; j++) normal[i][j] = (float)total[j] / (many[j] > 1 ? many[j] : 1);
    for (int a = 0; a < Y; a++)
#pragma omp simd
      for (int j = 0; j < S; j++) off[a][i][j] = x[a][i][j] >= -400 ? x[a][i][j] - normal[i][j] : -9999;
  }
}
"""


def station_normals_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A mask."""
    import numpy as np

    there = x["x"] >= -400
    mean = (x["x"].astype(np.int64) * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return {"normal": mean, "off": np.where(there, x["x"] - mean, -9999)}


def logistic_normal_equations(n: int = 20_011, d: int = 17) -> Kernel:
    """What a step of logistic regression by Newton's method solves: the columns' weighted products, the gradient, and the likelihood."""
    kb = KernelBuilder("logistic_normal_equations")
    i, c, p, q = kb.axis("n", n), kb.axis("d@dot", d), kb.axis("d@p", d), kb.axis("d@q", d)
    a, b, e, r = kb.axis("n@h", n), kb.axis("n@g", n), kb.axis("n@l", n), kb.axis("d@r", d)
    x, w = kb.input("x", (n, d), float64), kb.input("w", (d,), float64, range=(-0.5, 0.5))
    y = kb.input("y", (n,), int8, range=(0, 1))
    eta = kb.sum("eta", (i,), c, x[i, c] * w[c])
    mu = kb.value("mu", (i,), 1.0 / (exp(-eta[i]) + 1.0))
    h = kb.sum("h", (p, q), a, mu[a] * (1.0 - mu[a]) * x[a, p] * x[a, q])
    g = kb.sum("g", (r,), b, (cast(y[b], float64) - mu[b]) * x[b, r])
    size = absolute(eta[e])
    l = kb.sum("l", (), e, cast(y[e], float64) * eta[e] - (eta[e] + size) * 0.5 - log1p(exp(-size)))
    kb.store("hessian", float64, (d, d), (p, q), h[p, q])
    kb.store("gradient", float64, (d,), (r,), g[r])
    kb.store("likely", float64, (1,), (), l[()], (0,))
    return kb.build()


C["logistic_normal_equations"] = """
#include <math.h>
void kernel(const double (*restrict x)[D], const double *restrict w, const signed char *restrict y, double (*restrict hessian)[D],
            double *restrict gradient, double *restrict likely) {
  double h[D][D] = {0}, g[D] = {0}, l = 0;
#pragma omp parallel for reduction(+ : h, g, l)
  for (int i = 0; i < N; i++) {
    double eta = 0;
    for (int c = 0; c < D; c++) eta += x[i][c] * w[c];
    double mu = 1 / (1 + exp(-eta)), s = mu * (1 - mu);
    l += y[i] * eta - (eta > 0 ? eta : 0) - log1p(exp(-fabs(eta)));
    for (int p = 0; p < D; p++) {
      g[p] += (y[i] - mu) * x[i][p];
      for (int q = 0; q < D; q++) h[p][q] += s * x[i][p] * x[i][q];
    }
  }
  for (int p = 0; p < D; p++) {
    gradient[p] = g[p];
    for (int q = 0; q < D; q++) hessian[p][q] = h[p][q];
  }
  *likely = l;
}
"""


def logistic_normal_equations_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Products of matrices."""
    import numpy as np

    v, y = x["x"], x["y"]
    eta = v @ x["w"]
    mu = 1 / (1 + np.exp(-eta))
    likely = (y * eta - np.logaddexp(0, eta)).sum()
    return {"hessian": (v * (mu * (1 - mu))[:, None]).T @ v, "gradient": v.T @ (y - mu), "likely": np.array([likely])}
