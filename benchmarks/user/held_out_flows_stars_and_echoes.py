"""Power lines, stars, echoes of a scanner, features of speech and lines of absorption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, clip, cos, exp, float32, int32, int64, log, round_even, sin, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "line_flows": ("gathers and scatters", {"n": 37, "b": 11}),
    "aperture_photometry": ("gathers", {"n": 5, "h": 40, "w": 53}),
    "unwrapped_echoes": ("scans", {"e": 4, "h": 5, "w": 21}),
    "mfcc": ("products of computed operands", {"f": 7, "b": 50, "m": 9, "c": 5}),
    "absorption_lines": ("gathers and scatters", {"n": 7, "v": 300}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}
TURN = 6.2831853


def line_flows(n: int = 18001, b: int = 12007) -> Kernel:
    """The power that flows into both ends of each line of a grid, and what each bus takes in, by voltages and angles."""
    kb = KernelBuilder("line_flows")
    e = kb.axis("n", n)
    start, end = (kb.input(k, (n,), int32, range=(0, b - 1)) for k in ("start", "end"))
    g, y = kb.input("g", (n,), "float64", range=(0.5, 2.0)), kb.input("y", (n,), "float64", range=(-20.0, -3.0))
    charge, tap = kb.input("charge", (n,), "float64", range=(0.0, 0.1)), kb.input("tap", (n,), "float64", range=(0.9, 1.1))
    vm, va = kb.input("vm", (b,), "float64", range=(0.94, 1.06)), kb.input("va", (b,), "float64", range=(-0.6, 0.6))
    s, t = cast(start[e], int64), cast(end[e], int64)
    vs, vt, apart = vm[s] / tap[e], vm[t], va[s] - va[t]
    c, d = vs * vt * cos(apart), vs * vt * sin(apart)
    pf, pt = vs * vs * g[e] - g[e] * c - y[e] * d, vt * vt * g[e] - g[e] * c + y[e] * d
    half = y[e] + 0.5 * charge[e]
    qf, qt = y[e] * c - g[e] * d - vs * vs * half, y[e] * c + g[e] * d - vt * vt * half
    kb.store("p", "float64", (b,), (e,), pf, (s,), combine="add")
    kb.store("p", "float64", (b,), (e,), pt, (t,), combine="add")
    kb.store("q", "float64", (b,), (e,), qf, (s,), combine="add")
    kb.store("q", "float64", (b,), (e,), qt, (t,), combine="add")
    kb.store("loss", "float64", (n,), (e,), pf + pt)
    return kb.build()


C["line_flows"] = """
#include <math.h>
void kernel(const int *restrict start, const int *restrict end, const double *restrict g, const double *restrict y,
            const double *restrict charge, const double *restrict tap, const double *restrict vm, const double *restrict va,
            double *restrict p, double *restrict q, double *restrict loss) {
  for (int i = 0; i < B; i++) p[i] = q[i] = 0;
  for (int e = 0; e < N; e++) {
    int s = start[e], t = end[e];
    double vs = vm[s] / tap[e], vt = vm[t], apart = va[s] - va[t], c = vs * vt * cos(apart), d = vs * vt * sin(apart);
    double half = y[e] + 0.5 * charge[e];
    double pf = vs * vs * g[e] - g[e] * c - y[e] * d, pt = vt * vt * g[e] - g[e] * c + y[e] * d;
    p[s] += pf;
    p[t] += pt;
    q[s] += y[e] * c - g[e] * d - vs * vs * half;
    q[t] += y[e] * c + g[e] * d - vt * vt * half;
    loss[e] = pf + pt;
  }
}
"""


def line_flows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Complex power by the admittances of each end."""
    import numpy as np

    v, y = x["vm"] * np.exp(1j * x["va"]), x["g"] + 1j * x["y"]
    vs, vt, shunt = v[x["start"]] / x["tap"], v[x["end"]], 0.5j * x["charge"]
    a = vs * np.conj(vs * (y + shunt) - vt * y)
    z = vt * np.conj(vt * (y + shunt) - vs * y)
    at, flows = np.concatenate([x["start"], x["end"]]), np.concatenate([a, z])
    p, q = (np.bincount(at, weights=part, minlength=s["b"]) for part in (flows.real, flows.imag))
    return {"p": p, "q": q, "loss": (a + z).real}


def aperture_photometry(n: int = 801, h: int = 600, w: int = 801) -> Kernel:
    """The light of each star within 5 pixels, less the sky's in a ring around, and its signal to noise; edges are soft."""
    kb = KernelBuilder("aperture_photometry")
    i = kb.axis("n", n)
    image = kb.input("image", (h, w), "uint16")
    x, y = kb.input("x", (n,), float32, range=(10.5, w - 11.5)), kb.input("y", (n,), float32, range=(10.5, h - 11.5))
    cy, cx = cast(round_even(y[i]), int64), cast(round_even(x[i]), int64)

    def total(site: str, ring: bool, light: bool) -> Any:
        a, b = kb.axis(f"dy@{site}", 21), kb.axis(f"dx@{site}", 21)
        far = sqrt((cast(cy + a - 10, float32) - y[i]) ** 2 + (cast(cx + b - 10, float32) - x[i]) ** 2)
        weight = clip(far - 6.5, 0.0, 1.0) * clip(9.5 - far, 0.0, 1.0) if ring else clip(5.5 - far, 0.0, 1.0)
        return kb.sum(site, (i,), (a, b), weight * cast(image[cy + a - 10, cx + b - 10], float32) if light else weight)

    light, area, ring, many = (total(site, k > 1, k % 2 == 0) for k, site in enumerate(("light", "area", "ring", "many")))
    sky = kb.value("sky_level", (i,), ring[i] / many[i])
    flux = kb.value("net", (i,), light[i] - sky[i] * area[i])
    kb.store("flux", float32, (n,), (i,), flux[i])
    kb.store("sky", float32, (n,), (i,), sky[i])
    kb.store("snr", float32, (n,), (i,), flux[i] / sqrt(absolute(flux[i]) * 0.7 + area[i] * (sky[i] * 0.7 + 25.0)))
    return kb.build()


C["aperture_photometry"] = """
#include <math.h>
static float ramp(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }
void kernel(const unsigned short (*restrict image)[W], const float *restrict x, const float *restrict y, float *restrict flux,
            float *restrict sky, float *restrict snr) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int cy = (int)rintf(y[i]), cx = (int)rintf(x[i]);
    float light = 0, area = 0, ring = 0, many = 0;
    for (int a = cy - 10; a <= cy + 10; a++)
      for (int b = cx - 10; b <= cx + 10; b++) {
        float far = sqrtf((a - y[i]) * (a - y[i]) + (b - x[i]) * (b - x[i]));
        float in = ramp(5.5f - far), out = ramp(far - 6.5f) * ramp(9.5f - far);
        light += in * image[a][b], area += in;
        ring += out * image[a][b], many += out;
      }
    sky[i] = ring / many;
    flux[i] = light - sky[i] * area;
    snr[i] = flux[i] / sqrtf(fabsf(flux[i]) * 0.7f + area * (sky[i] * 0.7f + 25));
  }
}
"""


def aperture_photometry_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Cut-outs of all stars."""
    import numpy as np

    a, px, py = np.arange(-10, 11), x["x"].astype(np.float64), x["y"].astype(np.float64)
    row, col = np.rint(py).astype(int)[:, None, None] + a[:, None], np.rint(px).astype(int)[:, None, None] + a
    far, cut = np.hypot(row - py[:, None, None], col - px[:, None, None]), x["image"][row, col].astype(np.float64)
    inside, around = np.clip(5.5 - far, 0, 1), np.clip(far - 6.5, 0, 1) * np.clip(9.5 - far, 0, 1)
    light, area, ring, many = (v.sum(axis=(1, 2)) for v in (inside * cut, inside, around * cut, around))
    sky = ring / many
    flux = light - sky * area
    return {"flux": flux, "sky": sky, "snr": flux / np.sqrt(np.abs(flux) * 0.7 + area * (sky * 0.7 + 25))}


def unwrapped_echoes(e: int = 7, h: int = 384, w: int = 301) -> Kernel:
    """The field in hertz at each pixel of a scan: phases of echoes without their jumps, fitted by a line, loud ones counting more."""
    kb = KernelBuilder("unwrapped_echoes")
    t, i, j = kb.axis("e", e), kb.axis("h", h), kb.axis("w", w)
    phase = kb.input("phase", (e, h, w), float32, range=(-3.14159, 3.14159))
    loud, ms = kb.input("loud", (e, h, w), float32, range=(0.5, 2.0)), kb.input("ms", (e,), float32, range=(1.0, 20.0))
    jump = round_even((phase[t, i, j] - phase.masked(t > 0, t - 1, i, j)) * (1 / TURN))
    turns = kb.scan("add", "turns", (t, i, j), t, where(t > 0, jump, 0.0))
    k = [kb.axis(f"e@{site}", e) for site in ("one", "t", "tt", "p", "tp")]

    def weight(o: Any) -> Any:
        return loud[o, i, j] * loud[o, i, j]

    def straight(o: Any) -> Any:
        return phase[o, i, j] - TURN * turns[o, i, j]

    one, st = kb.sum("one", (i, j), k[0], weight(k[0])), kb.sum("st", (i, j), k[1], weight(k[1]) * ms[k[1]])
    tt = kb.sum("tt", (i, j), k[2], weight(k[2]) * ms[k[2]] * ms[k[2]])
    sp = kb.sum("sp", (i, j), k[3], weight(k[3]) * straight(k[3]))
    tp = kb.sum("tp", (i, j), k[4], weight(k[4]) * ms[k[4]] * straight(k[4]))
    slope = (one[i, j] * tp[i, j] - st[i, j] * sp[i, j]) / (one[i, j] * tt[i, j] - st[i, j] * st[i, j])
    kb.store("hertz", float32, (h, w), (i, j), slope * (1000 / TURN))
    return kb.build()


C["unwrapped_echoes"] = """
#include <math.h>
static void row(const float (*restrict phase)[H][W], const float (*restrict loud)[H][W], const float *restrict ms, int i,
                float *restrict hertz) {
  for (int j = 0; j < W; j++) {
    float turns = 0, one = 0, st = 0, tt = 0, sp = 0, tp = 0;
    for (int t = 0; t < E; t++) {
      if (t) turns += rintf((phase[t][i][j] - phase[t - 1][i][j]) * (1 / 6.2831853f));
      float weight = loud[t][i][j] * loud[t][i][j], p = phase[t][i][j] - 6.2831853f * turns;
      one += weight;
      st += weight * ms[t];
      tt += weight * ms[t] * ms[t];
      sp += weight * p;
      tp += weight * ms[t] * p;
    }
    hertz[j] = (one * tp - st * sp) / (one * tt - st * st) * (1000 / 6.2831853f);
  }
}
void kernel(const float (*restrict phase)[H][W], const float (*restrict loud)[H][W], const float *restrict ms,
            float (*restrict hertz)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(phase, loud, ms, i, hertz[i]);
}
"""


def unwrapped_echoes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Jumps in float32, on which a turn may hang, the fit in float64."""
    import numpy as np

    jumps = np.rint(np.diff(x["phase"], axis=0) * np.float32(1 / TURN)).cumsum(axis=0)
    p, w, ms = x["phase"].astype(np.float64), x["loud"].astype(np.float64) ** 2, x["ms"].astype(np.float64)[:, None, None]
    p[1:] -= TURN * jumps
    one, st, tt, sp, tp = (v.sum(axis=0) for v in (w, w * ms, w * ms * ms, w * p, w * ms * p))
    return {"hertz": (one * tp - st * sp) / (one * tt - st * st) * (1000 / TURN)}


def mfcc(f: int = 2495, b: int = 257, m: int = 40, c: int = 13) -> Kernel:
    """Cepstra of frames: each band sums the 24 bins from its first on, then logarithms, a cosine transform, and the mean over time off."""
    kb = KernelBuilder("mfcc")
    t, v, o, k, l, a = kb.axis("f", f), kb.axis("m", m), kb.axis("c", c), kb.axis("bin", 24), kb.axis("m@dct", m), kb.axis("f@mean", f)
    power, first = kb.input("power", (f, b), float32, range=(0.001, 10.0)), kb.input("first", (m,), int32, range=(0, b - 24))
    weight, dct = kb.input("weight", (m, 24), float32, range=(0.01, 1.0)), kb.input("dct", (c, m), float32, range=(-0.3, 0.3))
    band = kb.sum("band", (t, v), k, power[t, cast(first[v], int64) + k] * weight[v, k])
    cep = kb.sum("cep", (t, o), l, log(band[t, l] + 1e-6) * dct[o, l])
    mean = kb.sum("mean", (o,), a, cep[a, o])
    kb.store("y", float32, (f, c), (t, o), cep[t, o] - mean[o] * (1.0 / f))
    return kb.build()


C["mfcc"] = """
#include <math.h>
static void frame(const float *restrict power, const int *restrict first, const float (*restrict weight)[24],
                  const float (*restrict dct)[M], float *restrict y) {
  float loud[M];
  for (int v = 0; v < M; v++) {
    float band = 1e-6f;
    for (int k = 0; k < 24; k++) band += power[first[v] + k] * weight[v][k];
    loud[v] = band;
  }
  for (int v = 0; v < M; v++) loud[v] = logf(loud[v]);
  for (int o = 0; o < C; o++) {
    y[o] = 0;
    for (int v = 0; v < M; v++) y[o] += loud[v] * dct[o][v];
  }
}
void kernel(const float (*restrict power)[B], const int *restrict first, const float (*restrict weight)[24],
            const float (*restrict dct)[M], float (*restrict y)[C]) {
  float mean[C] = {0};
#pragma omp parallel for
  for (int t = 0; t < F; t++) frame(power[t], first, weight, dct, y[t]);
  for (int t = 0; t < F; t++)
    for (int o = 0; o < C; o++) mean[o] += y[t][o];
  for (int t = 0; t < F; t++)
    for (int o = 0; o < C; o++) y[t][o] -= mean[o] * (1.f / F);
}
"""


def mfcc_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A dense matrix of bands, and products."""
    import numpy as np

    bank = np.zeros((s["m"], s["b"]))
    for row, first, weight in zip(bank, x["first"], x["weight"]):
        row[first : first + 24] = weight
    y = np.log(x["power"].astype(np.float64) @ bank.T + 1e-6) @ x["dct"].T.astype(np.float64)
    return {"y": y - y.mean(axis=0)}


def absorption_lines(n: int = 2503, v: int = 20011) -> Kernel:
    """How much a gas absorbs at each wave number: lines of mixed shape (Voigt's, nearly), each 100 points to both sides."""
    kb = KernelBuilder("absorption_lines")
    l, k = kb.axis("n", n), kb.axis("k", 201)
    centre, strength = kb.input("centre", (n,), float32, range=(101.0, v - 102.0)), kb.input("strength", (n,), float32, range=(0.0, 1.0))
    sigma, gamma = (kb.input(x, (n,), float32, range=(0.5, 6.0)) for x in ("sigma", "gamma"))
    at = cast(round_even(centre[l]), int64) + k - 100
    off = cast(at, float32) - centre[l]
    share = gamma[l] / (gamma[l] + sigma[l])
    wide = gamma[l] / (off * off + gamma[l] * gamma[l]) * 0.31830989
    bell = exp(-0.5 * off * off / (sigma[l] * sigma[l])) / sigma[l] * 0.39894228
    kb.store("depth", float32, (v,), (l, k), strength[l] * (share * wide + (1.0 - share) * bell), (at,), combine="add")
    return kb.build()


C["absorption_lines"] = """
#include <math.h>
static void line(float centre, float strength, float sigma, float gamma, float *restrict depth) {
  int from = (int)rintf(centre) - 100;
  float share = gamma / (gamma + sigma), a = strength * share * gamma * 0.31830989f;
  float b = strength * (1 - share) / sigma * 0.39894228f, c = -0.5f / (sigma * sigma);
  for (int k = 0; k < 201; k++) {
    float off = from + k - centre;
    depth[from + k] += a / (off * off + gamma * gamma) + b * expf(c * off * off);
  }
}
void kernel(const float *restrict centre, const float *restrict strength, const float *restrict sigma, const float *restrict gamma,
            float *restrict depth) {
  for (int i = 0; i < V; i++) depth[i] = 0;
  for (int l = 0; l < N; l++) line(centre[l], strength[l], sigma[l], gamma[l], depth);
}
"""


def absorption_lines_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All lines' windows at once, and bincount."""
    import numpy as np

    centre, strength, sigma, gamma = (x[k].astype(np.float64)[:, None] for k in ("centre", "strength", "sigma", "gamma"))
    at = np.rint(centre).astype(int) + np.arange(-100, 101)
    off, share = at - centre, gamma / (gamma + sigma)
    bell = np.exp(-0.5 * (off / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    y = strength * (share * gamma / (off**2 + gamma**2) / np.pi + (1 - share) * bell)
    return {"depth": np.bincount(at.ravel(), weights=y.ravel(), minlength=s["v"])}
