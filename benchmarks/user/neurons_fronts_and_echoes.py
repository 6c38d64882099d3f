"""Pictures sharpened and denoised, spiking neurons, ultrasound, steep fronts that are carried along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, clip, exp, float32, float64, floor, int16, int32, sqrt, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "richardson_lucy": ("chained stencils", {"h": 11, "w": 17, "k": 5}),
    "nonlocal_means": ("patch distances", {"h": 7, "w": 10}),
    "hodgkin_huxley": ("gathers and exponentials", {"n": 41, "k": 5}),
    "ultrasound_focus": ("computed gathers", {"c": 7, "t": 240, "z": 9, "x": 8}),
    "weno5_advance": ("stencil along rows", {"b": 3, "n": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def richardson_lucy(h: int = 301, w: int = 420, k: int = 5) -> Kernel:
    """A step of deconvolution: the guess is blurred, and scaled by how far what was seen is from that, blurred backwards."""
    kb = KernelBuilder("richardson_lucy")
    i, j, r = kb.axis("h", h), kb.axis("w", w), k // 2
    a, b, c, d = kb.axis("k@dy", k), kb.axis("k@dx", k), kb.axis("k@by", k), kb.axis("k@bx", k)
    seen, guess = (kb.input(name, (h, w), float32, range=(0.1, 2.0)) for name in ("seen", "guess"))
    psf = kb.input("psf", (k, k), float32, range=(0.01, 0.1))

    def near(v: Any, y: Any, x: Any) -> Any:
        return v.masked((y >= 0) & (y < h) & (x >= 0) & (x < w), y, x)

    blur = kb.sum("blur", (i, j), (a, b), psf[a, b] * near(guess, i + a - r, j + b - r))
    ratio = kb.value("ratio", (i, j), seen[i, j] / (blur[i, j] + 1e-6))
    back = kb.sum("back", (i, j), (c, d), psf[c, d] * near(ratio, i + r - c, j + r - d))
    kb.store("y", float32, (h, w), (i, j), guess[i, j] * back[i, j])
    return kb.build()


C["richardson_lucy"] = """
static float ratio[H][W];
static void blurred(const float (*restrict x)[W], const float (*restrict psf)[K], int i, int s, float *restrict sum) {
  for (int j = 0; j < W; j++) sum[j] = 0;
  for (int a = -(K / 2); a <= K / 2; a++) {
    if (i + s * a < 0 || i + s * a >= H) continue;
    for (int b = -(K / 2); b <= K / 2; b++) {
      float f = psf[a + K / 2][b + K / 2];
      int o = s * b, first = o < 0 ? -o : 0, end = o < 0 ? W : W - o;
      for (int j = first; j < end; j++) sum[j] += f * x[i + s * a][j + o];
    }
  }
}
void kernel(const float (*restrict seen)[W], const float (*restrict guess)[W], const float (*restrict psf)[K], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float sum[W];
    blurred(guess, psf, i, 1, sum);
    for (int j = 0; j < W; j++) ratio[i][j] = seen[i][j] / (sum[j] + 1e-6f);
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float sum[W];
    blurred(ratio, psf, i, -1, sum);
    for (int j = 0; j < W; j++) y[i][j] = guess[i][j] * sum[j];
  }
}
"""


def richardson_lucy_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A shifted picture at a time."""
    import numpy as np

    def blurred(v: Any, f: Any) -> Any:
        p = np.pad(v.astype(float), s["k"] // 2)
        return sum(f[a, b] * p[a : a + s["h"], b : b + s["w"]] for a in range(s["k"]) for b in range(s["k"]))

    f = x["psf"].astype(float)
    return {"y": x["guess"] * blurred(x["seen"] / (blurred(x["guess"], f) + 1e-6), f[::-1, ::-1])}


def nonlocal_means(h: int = 120, w: int = 161) -> Kernel:
    """Each pixel the mean of those in a window of 11 by 11, weighted by how alike the squares of 3 by 3 around them are."""
    kb = KernelBuilder("nonlocal_means")
    i, j = kb.axis("h", h), kb.axis("w", w)
    (u, v), (e, f) = (kb.axis("dy@top", 11), kb.axis("dx@top", 11)), (kb.axis("dy@all", 11), kb.axis("dx@all", 11))
    p, q = kb.axis("py", 3), kb.axis("px", 3)
    x = kb.input("x", (h + 12, w + 12), float32)
    d = kb.sum("d", (i, j, u, v), (p, q), (x[i + u + p, j + v + q] - x[i + 5 + p, j + 5 + q]) ** 2)
    weight = kb.value("weight", (i, j, u, v), exp(d[i, j, u, v] * -0.3))
    top = kb.sum("top", (i, j), (u, v), weight[i, j, u, v] * x[i + u + 1, j + v + 1])
    full = kb.sum("full", (i, j), (e, f), weight[i, j, e, f])
    kb.store("y", float32, (h, w), (i, j), top[i, j] / full[i, j])
    return kb.build()


C["nonlocal_means"] = """
#include <math.h>
void kernel(const float (*restrict x)[W + 12], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float top[W], full[W];
    for (int j = 0; j < W; j++) top[j] = full[j] = 0;
    for (int u = 0; u < 11; u++)
      for (int v = 0; v < 11; v++)
#pragma omp simd
        for (int j = 0; j < W; j++) {
          float d = 0;
          for (int p = 0; p < 3; p++)
            for (int q = 0; q < 3; q++) {
              float e = x[i + u + p][j + v + q] - x[i + 5 + p][j + 5 + q];
              d += e * e;
            }
          d = expf(-0.3f * d);
          top[j] += d * x[i + u + 1][j + v + 1], full[j] += d;
        }
    for (int j = 0; j < W; j++) y[i][j] = top[j] / full[j];
  }
}
"""


def nonlocal_means_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A shift at a time."""
    import numpy as np

    h, w, x, top, full = s["h"], s["w"], x["x"].astype(float), 0, 0
    for u, v in np.ndindex(11, 11):
        d = (x[u : u + h + 2, v : v + w + 2] - x[5 : h + 7, 5 : w + 7]) ** 2
        f = np.exp(-0.3 * sum(d[p : p + h, q : q + w] for p, q in np.ndindex(3, 3)))
        top, full = top + f * x[u + 1 : u + 1 + h, v + 1 : v + 1 + w], full + f
    return {"y": top / full}


def hodgkin_huxley(n: int = 20011, k: int = 24) -> Kernel:
    """A step of spiking neurons with three gates, driven by which of their k neighbours fired."""
    kb = KernelBuilder("hodgkin_huxley")
    i, e = kb.axis("n", n), kb.axis("k", k)
    volt = kb.input("volt", (n,), float32, range=(-80.0, 40.0))
    m, h, g = (kb.input(name, (n,), float32, range=(0.0, 1.0)) for name in ("m", "h", "g"))
    weight, fired = kb.input("weight", (n, k), float32), kb.input("fired", (n,), uint8, range=(0, 1))
    near = kb.input("near", (n, k), int32, range=(0, n - 1))
    drive = kb.sum("drive", (i,), e, where(fired[near[i, e]].eq(1), weight[i, e], 0.0))
    u = volt[i]

    def slope(x: Any) -> Any:
        return where(absolute(x) < 1e-3, 1.0 + x * 0.5, x / (1.0 - exp(-x)))

    def step(x: Any, a: Any, b: Any) -> Any:
        return x + 0.01 * (a * (1.0 - x) - b * x)

    flow = m[i] ** 3 * h[i] * 120.0 * (u - 50.0) + g[i] ** 4 * 36.0 * (u + 77.0) + 0.3 * (u + 54.4)
    kb.store("new_volt", float32, (n,), (i,), u + 0.01 * (drive[i] * 5.0 - flow))
    kb.store("new_m", float32, (n,), (i,), step(m[i], slope((u + 40.0) * 0.1), 4.0 * exp((u + 65.0) * (-1 / 18))))
    kb.store("new_h", float32, (n,), (i,), step(h[i], 0.07 * exp((u + 65.0) * -0.05), 1.0 / (1.0 + exp((u + 35.0) * -0.1))))
    kb.store("new_g", float32, (n,), (i,), step(g[i], 0.1 * slope((u + 55.0) * 0.1), 0.125 * exp((u + 65.0) * -0.0125)))
    return kb.build()


C["hodgkin_huxley"] = """
#include <math.h>
static inline float slope(float x) { return fabsf(x) < 1e-3f ? 1 + x * 0.5f : x / (1 - expf(-x)); }
static inline float step(float x, float a, float b) { return x + 0.01f * (a * (1 - x) - b * x); }
void kernel(const float *restrict volt, const float *restrict m, const float *restrict h, const float *restrict g,
            const float (*restrict weight)[K], const unsigned char *restrict fired, const int (*restrict near)[K],
            float *restrict nv, float *restrict nm, float *restrict nh, float *restrict ng) {
  static float drive[N];
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int k = 0; k < K; k++) s += fired[near[i][k]] * weight[i][k];
    drive[i] = s;
  }
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float u = volt[i], g2 = g[i] * g[i];
    float flow = 120 * m[i] * m[i] * m[i] * h[i] * (u - 50) + 36 * g2 * g2 * (u + 77) + 0.3f * (u + 54.4f);
    nv[i] = u + 0.01f * (5 * drive[i] - flow);
    nm[i] = step(m[i], slope(0.1f * (u + 40)), 4 * expf((u + 65) * (-1 / 18.0f)));
    nh[i] = step(h[i], 0.07f * expf((u + 65) * -0.05f), 1 / (1 + expf((u + 35) * -0.1f)));
    ng[i] = step(g[i], 0.1f * slope(0.1f * (u + 55)), 0.125f * expf((u + 65) * -0.0125f));
  }
}
"""


def hodgkin_huxley_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All neurons at once."""
    import numpy as np

    u, m, h, g = (x[name].astype(float) for name in ("volt", "m", "h", "g"))
    drive = (x["weight"].astype(float) * x["fired"][x["near"]]).sum(axis=1)
    am, ag = (0.1 * (u + 40)) / -np.expm1(-0.1 * (u + 40)), 0.1 * (0.1 * (u + 55)) / -np.expm1(-0.1 * (u + 55))
    bm, bg, ah, bh = 4 * np.exp(-(u + 65) / 18), np.exp(-(u + 65) / 80) / 8, 0.07 * np.exp(-(u + 65) / 20), 1 / (1 + np.exp(-(u + 35) / 10))
    new = {f"new_{k}": v + 0.01 * (a * (1 - v) - b * v) for k, v, a, b in (("m", m, am, bm), ("h", h, ah, bh), ("g", g, ag, bg))}
    return new | {"new_volt": u + 0.01 * (5 * drive - 120 * m**3 * h * (u - 50) - 36 * g**4 * (u + 77) - 0.3 * (u + 54.4))}


def ultrasound_focus(c: int = 48, t: int = 1501, z: int = 150, x: int = 97) -> Kernel:
    """An ultrasound picture: at each point the echoes of those receivers that see it steeply, each at its delay, between two samples."""
    kb = KernelBuilder("ultrasound_focus")
    i, j, e, f = kb.axis("z", z), kb.axis("x", x), kb.axis("c@sum", c), kb.axis("c@count", c)
    echo = kb.input("echo", (c, t), int16, range=(-2048, 2047))
    deep = cast(i * 4 + 40, float32)
    aside, beside = (cast(j * 4 - k * 8, float32) for k in (e, f))
    delay = kb.value("delay", (i, j, e), deep + sqrt(deep * deep + aside * aside))
    at = clip(cast(floor(delay[i, j, e]), int32), 0, t - 2)
    part = delay[i, j, e] - cast(at, float32)
    low, high = cast(echo[e, at], float32), cast(echo[e, at + 1], float32)
    total = kb.sum("total", (i, j), e, where(absolute(aside) * 2.0 <= deep, low + part * (high - low), 0.0))
    count = kb.sum("count", (i, j), f, absolute(beside) * 2.0 <= deep)
    kb.store("y", float32, (z, x), (i, j), total[i, j] / cast(count[i, j] + 1, float32))
    return kb.build()


C["ultrasound_focus"] = """
#include <math.h>
void kernel(const short (*restrict echo)[T], float (*restrict y)[X]) {
#pragma omp parallel for
  for (int i = 0; i < Z; i++)
    for (int j = 0; j < X; j++) {
      float total = 0, deep = 40 + 4 * i;
      int count = 1;
      for (int e = 0; e < C; e++) {
        int aside = 4 * j - 8 * e;
        if (2 * __builtin_abs(aside) > 40 + 4 * i) continue;
        float delay = deep + sqrtf(deep * deep + (float)aside * aside);
        int at = delay < T - 2 ? (int)delay : T - 2;
        total += echo[e][at] + (delay - at) * (echo[e][at + 1] - echo[e][at]);
        count++;
      }
      y[i][j] = total / count;
    }
}
"""


def ultrasound_focus_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All delays at once."""
    import numpy as np

    deep = 40.0 + 4 * np.arange(s["z"])[:, None, None]
    aside = 4.0 * np.arange(s["x"])[:, None] - 8 * np.arange(s["c"])
    delay, seen = deep + np.hypot(deep, aside), 2 * abs(aside) <= deep
    at, e = np.clip(delay.astype(int), 0, s["t"] - 2), np.arange(s["c"])
    low, high = (x["echo"][e, at + k].astype(float) for k in (0, 1))
    return {"y": (seen * (low + (delay - at) * (high - low))).sum(-1) / (seen.sum(-1) + 1)}


def weno5_advance(b: int = 60, n: int = 1009) -> Kernel:
    """A step of transport to the right on periodic rows; at each face three parabolas are weighted by how smooth they are."""
    kb = KernelBuilder("weno5_advance")
    i, j = kb.axis("b", b), kb.axis("n", n)
    u = kb.input("u", (b, n), float64)
    p, q, r, s, t = (u[i, (j + n + k) % n] for k in (-2, -1, 0, 1, 2))
    rough = (
        (p - q * 2.0 + r) ** 2 * (13 / 12) + (p - q * 4.0 + r * 3.0) ** 2 * 0.25,
        (q - r * 2.0 + s) ** 2 * (13 / 12) + (q - s) ** 2 * 0.25,
        (r - s * 2.0 + t) ** 2 * (13 / 12) + (r * 3.0 - s * 4.0 + t) ** 2 * 0.25,
    )
    w = [share / (1e-6 + v) ** 2 for share, v in zip((0.1, 0.6, 0.3), rough, strict=True)]
    parts = (p * 2.0 - q * 7.0 + r * 11.0, r * 5.0 - q + s * 2.0, r * 2.0 + s * 5.0 - t)
    face = kb.value("face", (i, j), (w[0] * parts[0] + w[1] * parts[1] + w[2] * parts[2]) / ((w[0] + w[1] + w[2]) * 6.0))
    kb.store("y", float64, (b, n), (i, j), u[i, j] - 0.4 * (face[i, j] - face[i, (j + n - 1) % n]))
    return kb.build()


C["weno5_advance"] = """
#include <string.h>
static inline double sq(double v) { return v * v; }
void kernel(const double (*restrict u)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double x[N + 5], face[N + 1];
    x[0] = u[i][N - 3], x[1] = u[i][N - 2], x[2] = u[i][N - 1], x[N + 3] = u[i][0], x[N + 4] = u[i][1];
    memcpy(x + 3, u[i], sizeof u[i]);
    for (int j = 0; j <= N; j++) {
      double p = x[j], q = x[j + 1], r = x[j + 2], s = x[j + 3], t = x[j + 4];
      double a = 0.1 / sq(1e-6 + 13 / 12.0 * sq(p - 2 * q + r) + 0.25 * sq(p - 4 * q + 3 * r));
      double b = 0.6 / sq(1e-6 + 13 / 12.0 * sq(q - 2 * r + s) + 0.25 * sq(q - s));
      double c = 0.3 / sq(1e-6 + 13 / 12.0 * sq(r - 2 * s + t) + 0.25 * sq(3 * r - 4 * s + t));
      face[j] = (a * (2 * p - 7 * q + 11 * r) + b * (5 * r - q + 2 * s) + c * (2 * r + 5 * s - t)) / (6 * (a + b + c));
    }
    for (int j = 0; j < N; j++) y[i][j] = u[i][j] - 0.4 * (face[j + 1] - face[j]);
  }
}
"""


def weno5_advance_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.roll."""
    import numpy as np

    p, q, r, s, t = (np.roll(x["u"], k, axis=1) for k in (2, 1, 0, -1, -2))
    a = 0.1 / (1e-6 + 13 / 12 * (p - 2 * q + r) ** 2 + (p - 4 * q + 3 * r) ** 2 / 4) ** 2
    b = 0.6 / (1e-6 + 13 / 12 * (q - 2 * r + s) ** 2 + (q - s) ** 2 / 4) ** 2
    c = 0.3 / (1e-6 + 13 / 12 * (r - 2 * s + t) ** 2 + (3 * r - 4 * s + t) ** 2 / 4) ** 2
    face = (a * (2 * p - 7 * q + 11 * r) + b * (5 * r - q + 2 * s) + c * (2 * r + 5 * s - t)) / (6 * (a + b + c))
    return {"y": r - 0.4 * (face - np.roll(face, 1, axis=1))}
