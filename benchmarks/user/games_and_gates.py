"""Games (fog of war, a flock), sound (the pitch of frames, a limiter), and gated units in groups of int8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, const, erf, exp2, float32, log2, maximum, minimum, round_even, rsqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "fog_of_war": ("scatters", {"u": 7, "h": 20, "w": 24, "r": 3}),
    "boids_step": ("all pairs", {"n": 23}),
    "yin_pitch": ("several reductions", {"f": 3, "w": 40, "l": 17, "hop": 20}),
    "stereo_limiter": ("scans", {"n": 101}),
    "geglu_groups": ("row statistics", {"t": 5, "f": 24, "g": 8}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def fog_of_war(u: int = 600, h: int = 200, w: int = 320, r: int = 9) -> Kernel:
    """Which teams (a bit each) see each cell: it is near enough to a unit, and not much higher than where that stands."""
    kb = KernelBuilder("fog_of_war")
    i, a, b = kb.axis("u", u), kb.axis("dy", 2 * r + 1), kb.axis("dx", 2 * r + 1)
    ground, team = kb.input("ground", (h, w), "uint8"), kb.input("team", (u,), "uint8", range=(0, 3))
    py, px = kb.input("py", (u,), "int32", range=(0, h - 1)), kb.input("px", (u,), "int32", range=(0, w - 1))
    sight = kb.input("sight", (u,), "int32", range=(2, r))
    y, x = cast(py[i], "int64") + a - r, cast(px[i], "int64") + b - r
    near = (a - r) * (a - r) + (b - r) * (b - r) <= cast(sight[i] * sight[i], "int64")
    inside = near & (y >= 0) & (y < h) & (x >= 0) & (x < w)
    high = cast(ground.masked(inside, y, x), "int32") <= cast(ground[py[i], px[i]], "int32") + 24
    bit = cast(1 << cast(team[i], "int32"), "uint8")
    kb.store("seen", "uint8", (h, w), (i, a, b), bit, (y, x), combine="or", mask=inside & high)
    return kb.build()


C["fog_of_war"] = """
#include <string.h>
void kernel(const unsigned char (*restrict ground)[W], const unsigned char *restrict team, const int *restrict py,
            const int *restrict px, const int *restrict sight, unsigned char (*restrict seen)[W]) {
  memset(seen, 0, H * W);
  for (int i = 0; i < U; i++) {
    int s = sight[i], up = ground[py[i]][px[i]] + 24;
    for (int a = -s; a <= s; a++) {
      int y = py[i] + a;
      if (y < 0 || y >= H) continue;
      for (int b = -s; b <= s; b++) {
        int x = px[i] + b;
        if (x >= 0 && x < W && a * a + b * b <= s * s && ground[y][x] <= up) seen[y][x] |= 1 << team[i];
      }
    }
  }
}
"""


def fog_of_war_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A unit at a time."""
    import numpy as np

    g, seen = x["ground"].astype(int), np.zeros((s["h"], s["w"]), np.uint8)
    ys, xs = np.arange(s["h"])[:, None], np.arange(s["w"])
    for t, py, px, r in zip(x["team"], x["py"], x["px"], x["sight"]):
        lit = ((ys - py) ** 2 + (xs - px) ** 2 <= r * r) & (g <= g[py, px] + 24)
        seen |= np.where(lit, 1 << int(t), 0).astype(np.uint8)
    return {"seen": seen}


def boids_step(n: int = 1001) -> Kernel:
    """A step of a flock: towards the middle of those near, along with them, away from those too near, at a limited speed."""
    kb = KernelBuilder("boids_step")
    i = kb.axis("n", n)
    p, v = kb.input("p", (2, n), "float32", range=(0.0, 100.0)), kb.input("v", (2, n), "float32")

    def apart(j: Any) -> Any:
        return (p[0, j] - p[0, i]) ** 2 + (p[1, j] - p[1, i]) ** 2

    m = kb.axis("n@many", n)
    many = kb.sum("many", (i,), m, where((apart(m) < 150.0) & i.ne(m), 1.0, 0.0))
    over = kb.value("over", (i,), where(many[i] > 0.0, 1.0 / maximum(many[i], 1.0), 0.0))
    speed = []
    for d in (0, 1):
        a, b, c = kb.axis(f"n@middle{d}", n), kb.axis(f"n@along{d}", n), kb.axis(f"n@away{d}", n)
        middle = kb.sum(f"middle{d}", (i,), a, where((apart(a) < 150.0) & i.ne(a), p[d, a] - p[d, i], 0.0))
        along = kb.sum(f"along{d}", (i,), b, where((apart(b) < 150.0) & i.ne(b), v[d, b] - v[d, i], 0.0))
        away = kb.sum(f"away{d}", (i,), c, where(apart(c) < 9.0, p[d, i] - p[d, c], 0.0))
        speed.append(v[d, i] + middle[i] * over[i] * 0.005 + along[i] * over[i] * 0.05 + away[i] * 0.05)
    limit = minimum(2.0 * rsqrt(speed[0] * speed[0] + speed[1] * speed[1] + 1e-12), 1.0)
    for d in (0, 1):
        new = kb.value(f"new{d}", (i,), speed[d] * limit)
        kb.store("velocity", "float32", (2, n), (i,), new[i], (d, i))
        kb.store("place", "float32", (2, n), (i,), p[d, i] + new[i], (d, i))
    return kb.build()


C["boids_step"] = """
#include <math.h>
void kernel(const float (*restrict p)[N], const float (*restrict v)[N], float (*restrict velocity)[N], float (*restrict place)[N]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float many = 0, mx = 0, my = 0, ax = 0, ay = 0, sx = 0, sy = 0;
    for (int j = 0; j < N; j++) {
      float dx = p[0][j] - p[0][i], dy = p[1][j] - p[1][i], d = dx * dx + dy * dy;
      float near = d < 150 && j != i ? 1 : 0, close = d < 9 ? 1 : 0;
      many += near, mx += near * dx, my += near * dy;
      ax += near * (v[0][j] - v[0][i]), ay += near * (v[1][j] - v[1][i]);
      sx -= close * dx, sy -= close * dy;
    }
    float over = many > 0 ? 1 / many : 0;
    float x = v[0][i] + mx * over * 0.005f + ax * over * 0.05f + sx * 0.05f;
    float y = v[1][i] + my * over * 0.005f + ay * over * 0.05f + sy * 0.05f;
    float limit = 2 / sqrtf(x * x + y * y + 1e-12f);
    limit = limit < 1 ? limit : 1;
    velocity[0][i] = x * limit, velocity[1][i] = y * limit;
    place[0][i] = p[0][i] + x * limit, place[1][i] = p[1][i] + y * limit;
  }
}
"""


def boids_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs, with masks."""
    import numpy as np

    p, v = x["p"].astype(np.float64), x["v"].astype(np.float64)
    dp, dv = (a[:, None, :] - a[:, :, None] for a in (p, v))
    d = (dp * dp).sum(axis=0)
    near = (d < 150) & ~np.eye(s["n"], dtype=bool)
    many = np.maximum(near.sum(axis=1), 1)
    v = v + 0.005 * (dp * near).sum(2) / many + 0.05 * (dv * near).sum(2) / many - 0.05 * (dp * (d < 9)).sum(2)
    v = v * np.minimum(2 / np.sqrt((v * v).sum(axis=0) + 1e-12), 1)
    return {"velocity": v, "place": p + v}


def yin_pitch(f: int = 40, w: int = 512, l: int = 200, hop: int = 160) -> Kernel:
    """The period of each frame by the YIN method: the first lag whose difference is small beside the mean of those before."""
    kb = KernelBuilder("yin_pitch")
    i, k, j = kb.axis("f", f), kb.axis("l", l), kb.axis("w", w)
    x = kb.input("x", ((f - 1) * hop + w + l,), "int16", range=(-8000, 8000))
    move = cast(x[i * hop + j], "int32") - cast(x[i * hop + j + k + 1], "int32")
    d = kb.sum("d", (i, k), j, cast(move * move, "int64"))
    upto = kb.scan("add", "upto", (i, k), k, d[i, k])
    norm = kb.value("norm", (i, k), cast(d[i, k], "float64") * cast(k + 1, "float64") / maximum(cast(upto[i, k], "float64"), 1.0))
    p, q = kb.axis("l@first", l), kb.axis("l@least", l)
    first = kb.min("first", (i,), p, where(norm[i, p] < 0.97, cast(p, "int32"), l))
    least = kb.argmin("least", (i,), q, norm[i, q])
    kb.store("lag", "int32", (f,), (i,), where(first[i] < l, first[i], least[i]) + 1)
    kb.store("dip", "float32", (f, l), (i, k), norm[i, k])
    return kb.build()


C["yin_pitch"] = """
void kernel(const short *restrict x, int *restrict lag, float (*restrict dip)[L]) {
#pragma omp parallel for
  for (int i = 0; i < F; i++) {
    const short *at = x + i * HOP;
    long upto = 0;
    int first = L, least = 0;
    double lowest = 1e300;
    for (int k = 0; k < L; k++) {
      long d = 0;
      for (int j = 0; j < W; j++) {
        int move = at[j] - at[j + k + 1];
        d += move * move;
      }
      upto += d;
      double norm = (double)d * (k + 1) / (upto > 1 ? upto : 1);
      dip[i][k] = norm;
      if (norm < 0.97 && first == L) first = k;
      if (norm < lowest) lowest = norm, least = k;
    }
    lag[i] = (first < L ? first : least) + 1;
  }
}
"""


def yin_pitch_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Windows that slide, and cumsum."""
    import numpy as np

    v = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.int64), s["w"] + s["l"])[:: s["hop"]]
    d = np.stack([((v[:, : s["w"]] - v[:, k : s["w"] + k]) ** 2).sum(1) for k in range(1, s["l"] + 1)], axis=1)
    norm = d * np.arange(1, s["l"] + 1) / np.maximum(d.cumsum(axis=1), 1)
    low = norm < 0.97
    lag = np.where(low.any(axis=1), low.argmax(axis=1), norm.argmin(axis=1)) + 1
    return {"lag": lag.astype(np.int32), "dip": norm}


def stereo_limiter(n: int = 96001) -> Kernel:
    """A compressor for both sides together: a peak that decays, four to one above a knee of 0.5, and the least gain."""
    kb = KernelBuilder("stereo_limiter")
    t, c, q = kb.axis("n", n), kb.axis("c", 2), kb.axis("n@least", n)
    x = kb.input("x", (n, 2), "float32")
    peak = maximum(absolute(x[t, 0]), absolute(x[t, 1]))

    def rule(a: Any, b: Any) -> Any:
        return a[0] * b[0], maximum(a[1] * b[0], b[1])

    _, held = kb.associative_scan(("p", "held"), (t,), t, (const(0.9995, float32), peak), (1.0, 0.0), rule)
    gain = kb.value("gain", (t,), exp2(maximum(log2(held[t] + 1e-6) + 1.0, 0.0) * -0.75))
    least = kb.min("least", (), q, gain[q])
    kb.store("y", "float32", (n, 2), (t, c), x[t, c] * gain[t])
    kb.store("most_reduced", "float32", (1,), (), least[()], (0,))
    return kb.build()


C["stereo_limiter"] = """
#include <math.h>
void kernel(const float (*restrict x)[2], float (*restrict y)[2], float *restrict most_reduced) {
  static float held[N];
  float now = 0, least = 1;
  for (int t = 0; t < N; t++) {
    float l = fabsf(x[t][0]), r = fabsf(x[t][1]), peak = l > r ? l : r;
    now *= 0.9995f;
    now = peak > now ? peak : now;
    held[t] = now;
  }
#pragma omp parallel for reduction(min : least)
  for (int t = 0; t < N; t++) {
    float over = log2f(held[t] + 1e-6f) + 1, gain = exp2f((over > 0 ? over : 0) * -0.75f);
    y[t][0] = x[t][0] * gain, y[t][1] = x[t][1] * gain;
    least = gain < least ? gain : least;
  }
  *most_reduced = least;
}
"""


def stereo_limiter_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A running maximum of logarithms, each with what it will have decayed."""
    import numpy as np

    a = x["x"].astype(np.float64)
    fall = np.arange(s["n"]) * np.log(0.9995)
    held = np.exp(np.maximum.accumulate(np.log(abs(a).max(axis=1)) - fall) + fall)
    gain = 2 ** (np.maximum(np.log2(held + 1e-6) + 1, 0) * -0.75)
    return {"y": a * gain[:, None], "most_reduced": gain.min(keepdims=True)}


def geglu_groups(t: int = 200, f: int = 1536, g: int = 64) -> Kernel:
    """A gated unit (GELU of one half times the other, in bfloat16), as int8 with a scale for each g channels."""
    if f % g:
        raise ValueError(f"{f} channels in groups of {g}")
    kb = KernelBuilder("geglu_groups")
    i, a, b, c = kb.axis("t", t), kb.axis("group", f // g), kb.axis("g", g), kb.axis("g@most", g)
    x = kb.input("x", (t, 2 * f), "bfloat16")
    j = kb.axis("f", f)
    gate, up = cast(x[i, j], "float32"), cast(x[i, f + j], "float32")
    h = kb.value("h", (i, j), 0.5 * gate * (1.0 + erf(gate * 0.70710678)) * up)
    most = kb.max("most", (i, a), c, absolute(h[i, a * g + c]))
    scale = kb.value("step", (i, a), maximum(most[i, a] * (1.0 / 127.0), 1e-8))
    kb.store("y", "int8", (t, f), (i, a, b), cast(round_even(h[i, a * g + b] / scale[i, a]), "int8"), (i, a * g + b))
    kb.store("scale", "float32", (t, f // g), (i, a), scale[i, a])
    return kb.build()


C["geglu_groups"] = """
#include <math.h>
#include <string.h>
static float wide(unsigned short v) {
  unsigned u = (unsigned)v << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
void kernel(const unsigned short (*restrict x)[2 * F], signed char (*restrict y)[F], float (*restrict scale)[F / G]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++)
    for (int a = 0; a < F / G; a++) {
      float h[G], most = 0;
      for (int b = 0; b < G; b++) {
        float gate = wide(x[i][a * G + b]);
        h[b] = 0.5f * gate * (1 + erff(gate * 0.70710678f)) * wide(x[i][F + a * G + b]);
        most = fabsf(h[b]) > most ? fabsf(h[b]) : most;
      }
      float step = most * (1 / 127.f);
      step = step > 1e-8f ? step : 1e-8f;
      for (int b = 0; b < G; b++) y[i][a * G + b] = (signed char)rintf(h[b] / step);
      scale[i][a] = step;
    }
}
"""


def geglu_groups_numpy(x: Arrays, s: Sizes) -> Arrays:
    """math.erf, by np.vectorize."""
    import math

    import numpy as np

    v, erf = x["x"].astype(np.float64), np.vectorize(math.erf)
    gate, up = v[:, : s["f"]], v[:, s["f"] :]
    h = (0.5 * gate * (1 + erf(gate * 0.70710678)) * up).reshape(s["t"], -1, s["g"])
    scale = np.maximum(abs(h).max(axis=2) / 127, 1e-8)
    return {"y": np.rint(h / scale[..., None]).astype(np.int8).reshape(s["t"], -1), "scale": scale}
