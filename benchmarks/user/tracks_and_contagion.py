"""Kalman filters, hidden Markov models, particles drawn anew, an epidemic on a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, ceil, exp, float32, float64, int32, log, uint8

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "kalman_step": ("small matrices", {"b": 13}),
    "hmm_two_states": ("scans", {"b": 5, "t": 23}),
    "hmm_log_step": ("products in other semirings", {"b": 5, "s": 13, "v": 7}),
    "systematic_resample": ("scans", {"b": 3, "n": 41}),
    "seir_grid": ("stencil and histogram", {"h": 7, "w": 11, "d": 5}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def kalman_step(b: int = 8009) -> Kernel:
    """A step of many Kalman filters of four states, of which two are measured; and how likely what came was."""
    kb = KernelBuilder("kalman_step")
    n, i, j = kb.axis("b", b), kb.axis("i", 4), kb.axis("j", 4)
    e, g, l = kb.axis("k@x", 4), kb.axis("k@fp", 4), kb.axis("k@fpf", 4)
    f, q = kb.input("f", (4, 4), float64, range=(0.0, 0.5)), kb.input("q", (4, 4), float64, range=(0.0, 0.1))
    r, z = kb.input("r", (2,), float64, range=(1.0, 2.0)), kb.input("z", (b, 2), float64)
    x, p = kb.input("x", (b, 4), float64), kb.input("p", (b, 4, 4), float64, range=(0.0, 0.1))
    ahead = kb.sum("ahead", (n, i), e, f[i, e] * x[n, e])
    fp = kb.sum("fp", (n, i, j), g, f[i, g] * p[n, g, j])
    pp = kb.sum("pp", (n, i, j), l, fp[n, i, l] * f[j, l])
    cov = kb.value("cov", (n, i, j), pp[n, i, j] + q[i, j])
    s00, s01, s10, s11 = cov[n, 0, 0] + r[0], cov[n, 0, 1], cov[n, 1, 0], cov[n, 1, 1] + r[1]
    det = kb.value("det", (n,), s00 * s11 - s01 * s10)
    y0, y1 = z[n, 0] - ahead[n, 0], z[n, 1] - ahead[n, 1]
    k0 = kb.value("k0", (n, i), (cov[n, i, 0] * s11 - cov[n, i, 1] * s10) / det[n])
    k1 = kb.value("k1", (n, i), (cov[n, i, 1] * s00 - cov[n, i, 0] * s01) / det[n])
    kb.store("new_x", float64, (b, 4), (n, i), ahead[n, i] + k0[n, i] * y0 + k1[n, i] * y1)
    kb.store("new_p", float64, (b, 4, 4), (n, i, j), cov[n, i, j] - k0[n, i] * cov[n, 0, j] - k1[n, i] * cov[n, 1, j])
    far = (y0 * (s11 * y0 - s01 * y1) + y1 * (s00 * y1 - s10 * y0)) / det[n]
    kb.store("likely", float64, (b,), (n,), (far + log(det[n])) * -0.5 - 1.8378770664093453)
    return kb.build()


C["kalman_step"] = """
#include <math.h>
void kernel(const double (*restrict f)[4], const double (*restrict q)[4], const double *restrict r, const double (*restrict z)[2],
            const double (*restrict x)[4], const double (*restrict p)[4][4], double (*restrict nx)[4], double (*restrict np)[4][4],
            double *restrict likely) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    double a[4] = {0}, fp[4][4] = {0}, c[4][4];
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 4; k++) {
        a[i] += f[i][k] * x[n][k];
        for (int j = 0; j < 4; j++) fp[i][j] += f[i][k] * p[n][k][j];
      }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) {
        c[i][j] = q[i][j];
        for (int k = 0; k < 4; k++) c[i][j] += fp[i][k] * f[j][k];
      }
    double s00 = c[0][0] + r[0], s01 = c[0][1], s10 = c[1][0], s11 = c[1][1] + r[1], det = s00 * s11 - s01 * s10;
    double y0 = z[n][0] - a[0], y1 = z[n][1] - a[1];
    for (int i = 0; i < 4; i++) {
      double k0 = (c[i][0] * s11 - c[i][1] * s10) / det, k1 = (c[i][1] * s00 - c[i][0] * s01) / det;
      nx[n][i] = a[i] + k0 * y0 + k1 * y1;
      for (int j = 0; j < 4; j++) np[n][i][j] = c[i][j] - k0 * c[0][j] - k1 * c[1][j];
    }
    double far = (y0 * (s11 * y0 - s01 * y1) + y1 * (s00 * y1 - s10 * y0)) / det;
    likely[n] = -0.5 * (far + log(det)) - 1.8378770664093453;
  }
}
"""


def kalman_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.linalg."""
    import numpy as np

    a, c = x["x"] @ x["f"].T, x["f"] @ x["p"] @ x["f"].T + x["q"]
    v, y = c[:, :2, :2] + np.diag(x["r"]), x["z"] - a[:, :2]
    gain = c[:, :, :2] @ np.linalg.inv(v)
    far = np.einsum("ni,nij,nj->n", y, np.linalg.inv(v), y)
    likely = -0.5 * (far + np.log(np.linalg.det(v))) - np.log(2 * np.pi)
    return {"new_x": a + np.einsum("nik,nk->ni", gain, y), "new_p": c - gain @ c[:, :2], "likely": likely}


def hmm_two_states(b: int = 251, t: int = 211) -> Kernel:
    """A hidden Markov model of two states (islands of CpG): how sure the second is after each letter, and how likely all are."""
    kb = KernelBuilder("hmm_two_states")
    i, j = kb.axis("b", b), kb.axis("t", t)
    seen, start = kb.input("seen", (b, t), uint8, range=(0, 3)), kb.input("start", (2,), float64, range=(0.2, 0.8))
    turn = kb.input("turn", (2, 2), float64, range=(0.2, 0.8))
    emit = kb.input("emit", (2, 4), float64, range=(0.1, 0.9))

    def rule(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x[2 * p] * y[q] + x[2 * p + 1] * y[2 + q] for p in range(2) for q in range(2))

    step = tuple(turn[p, q] * emit[q, seen[i, j]] for p in range(2) for q in range(2))
    m = kb.associative_scan(("m00", "m01", "m10", "m11"), (i, j), j, step, (1.0, 0.0, 0.0, 1.0), rule)

    def state(q: int, at: Any) -> Any:
        return start[0] * m[q][i, at] + start[1] * m[2 + q][i, at]

    kb.store("second", float64, (b, t), (i, j), state(1, j) / (state(0, j) + state(1, j)))
    kb.store("likely", float64, (b,), (i,), log(state(0, t - 1) + state(1, t - 1)))
    return kb.build()


C["hmm_two_states"] = """
#include <math.h>
void kernel(const unsigned char (*restrict seen)[T], const double *restrict start, const double (*restrict turn)[2],
            const double (*restrict emit)[4], double (*restrict second)[T], double *restrict likely) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double p = start[0], q = start[1], total = 0;
    for (int j = 0; j < T; j++) {
      double a = (p * turn[0][0] + q * turn[1][0]) * emit[0][seen[i][j]], b = (p * turn[0][1] + q * turn[1][1]) * emit[1][seen[i][j]];
      total += log(a + b);
      p = a / (a + b);
      second[i][j] = q = b / (a + b);
    }
    likely[i] = total;
  }
}
"""


def hmm_two_states_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A letter at a time."""
    import numpy as np

    p, total, second = np.tile(x["start"], (s["b"], 1)), 0, []
    for j in range(s["t"]):
        p = p @ x["turn"] * x["emit"].T[x["seen"][:, j]]
        total = total + np.log(p.sum(axis=1))
        p = p / p.sum(axis=1, keepdims=True)
        second.append(p[:, 1])
    return {"second": np.stack(second, axis=1), "likely": total}


def hmm_log_step(b: int = 61, s: int = 128, v: int = 40) -> Kernel:
    """A step forward of hidden Markov models of many states, in logarithms."""
    kb = KernelBuilder("hmm_log_step")
    n, j, (p, q) = kb.axis("b", b), kb.axis("s", s), (kb.axis(f"s@{e}", s) for e in ("top", "sum"))
    alpha, turn = kb.input("alpha", (b, s), float32), kb.input("turn", (s, s), float32)
    emit, seen = kb.input("emit", (s, v), float32), kb.input("seen", (b,), int32, range=(0, v - 1))
    top = kb.max("top", (n, j), p, alpha[n, p] + turn[p, j])
    total = kb.sum("total", (n, j), q, exp(alpha[n, q] + turn[q, j] - top[n, j]))
    kb.store("y", float32, (b, s), (n, j), emit[j, seen[n]] + top[n, j] + log(total[n, j]))
    return kb.build()


C["hmm_log_step"] = """
#include <math.h>
void kernel(const float (*restrict alpha)[S], const float (*restrict turn)[S], const float (*restrict emit)[V],
            const int *restrict seen, float (*restrict y)[S]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    float top[S], total[S];
    for (int j = 0; j < S; j++) top[j] = -INFINITY, total[j] = 0;
    for (int i = 0; i < S; i++)
      for (int j = 0; j < S; j++) top[j] = fmaxf(top[j], alpha[n][i] + turn[i][j]);
    for (int i = 0; i < S; i++)
      for (int j = 0; j < S; j++) total[j] += expf(alpha[n][i] + turn[i][j] - top[j]);
    for (int j = 0; j < S; j++) y[n][j] = emit[j][seen[n]] + top[j] + logf(total[j]);
  }
}
"""


def hmm_log_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    a = x["alpha"].astype(np.float64)[:, :, None] + x["turn"]
    return {"y": x["emit"].T[x["seen"]] + np.logaddexp.reduce(a, axis=1)}


def systematic_resample(b: int = 61, n: int = 4999) -> Kernel:
    """How often each particle of a filter is drawn by one comb of equal steps, and how many particles really count."""
    kb = KernelBuilder("systematic_resample")
    i, j, k = kb.axis("b", b), kb.axis("n", n), kb.axis("n@square", n)
    w, u = kb.input("w", (b, n), float64, range=(0.0, 1.0)), kb.input("u", (b,), float64, range=(0.01, 0.99))
    upto = kb.scan("add", "upto", (i, j), j, w[i, j])
    last = kb.value("last", (i, j), ceil(upto[i, j] / upto[i, n - 1] * float(n) - u[i]))
    kb.store("times", int32, (b, n), (i, j), cast(last[i, j] - last.masked(j > 0, i, j - 1), int32))
    square = kb.sum("square", (i,), k, w[i, k] * w[i, k])
    kb.store("count", float64, (b,), (i,), upto[i, n - 1] ** 2 / square[i])
    return kb.build()


C["systematic_resample"] = """
#include <math.h>
void kernel(const double (*restrict w)[N], const double *restrict u, int (*restrict times)[N], double *restrict count) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double total = 0, square = 0, upto = 0;
    for (int j = 0; j < N; j++) {
      total += w[i][j];
      square += w[i][j] * w[i][j];
    }
    for (int j = 0, drawn = 0; j < N; j++) {
      upto += w[i][j];
      int last = (int)ceil(upto / total * N - u[i]);
      times[i][j] = last - drawn;
      drawn = last;
    }
    count[i] = total * total / square;
  }
}
"""


def systematic_resample_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By cumsum."""
    import numpy as np

    upto = x["w"].cumsum(axis=1)
    last = np.ceil(upto / upto[:, -1:] * s["n"] - x["u"][:, None])
    return {"times": np.diff(last, axis=1, prepend=0).astype(np.int32), "count": upto[:, -1] ** 2 / (x["w"] ** 2).sum(axis=1)}


def seir_grid(h: int = 203, w: int = 317, d: int = 41) -> Kernel:
    """A day of an epidemic on a map (who may fall ill, has caught it, is ill, is well again), and each district's new cases."""
    kb = KernelBuilder("seir_grid")
    i, j = kb.axis("h", h), kb.axis("w", w)
    s, e, l, r = (kb.input(name, (h, w), float32, range=(0.0, 100.0)) for name in ("s", "e", "l", "r"))
    district = kb.input("district", (h, w), uint8, range=(0, d - 1))
    near = l.masked(i > 0, i - 1, j) + l.masked(i < h - 1, i + 1, j) + l.masked(j > 0, i, j - 1) + l.masked(j < w - 1, i, j + 1)
    people = s[i, j] + e[i, j] + l[i, j] + r[i, j] + 1.0
    new = kb.value("new", (i, j), s[i, j] * (1.0 - exp((l[i, j] + near * 0.08) * -0.4 / people)))
    kb.store("new_s", float32, (h, w), (i, j), s[i, j] - new[i, j])
    kb.store("new_e", float32, (h, w), (i, j), e[i, j] * 0.8 + new[i, j])
    kb.store("new_l", float32, (h, w), (i, j), l[i, j] * 0.9 + e[i, j] * 0.2)
    kb.store("new_r", float32, (h, w), (i, j), r[i, j] + l[i, j] * 0.1)
    kb.store("cases", float32, (d,), (i, j), new[i, j], (district[i, j],), combine="add")
    return kb.build()


C["seir_grid"] = """
#include <math.h>
typedef float row[W];
void kernel(const row *restrict s, const row *restrict e, const row *restrict l, const row *restrict r,
            const unsigned char (*restrict district)[W], row *restrict ns, row *restrict ne, row *restrict nl, row *restrict nr,
            float *restrict cases) {
  for (int k = 0; k < D; k++) cases[k] = 0;
#pragma omp parallel for reduction(+ : cases[:D])
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float near = 0, people = s[i][j] + e[i][j] + l[i][j] + r[i][j] + 1;
      if (i > 0) near += l[i - 1][j];
      if (i < H - 1) near += l[i + 1][j];
      if (j > 0) near += l[i][j - 1];
      if (j < W - 1) near += l[i][j + 1];
      float new = s[i][j] * (1 - expf(-0.4f * (l[i][j] + 0.08f * near) / people));
      ns[i][j] = s[i][j] - new;
      ne[i][j] = 0.8f * e[i][j] + new;
      nl[i][j] = 0.9f * l[i][j] + 0.2f * e[i][j];
      nr[i][j] = r[i][j] + 0.1f * l[i][j];
      cases[district[i][j]] += new;
    }
}
"""


def seir_grid_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A padded copy, and bincount."""
    import numpy as np

    a, e, l, r = (x[n].astype(np.float64) for n in "selr")
    p = np.pad(l, 1)
    near = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    new = a * -np.expm1(-0.4 * (l + 0.08 * near) / (a + e + l + r + 1))
    cases = np.bincount(x["district"].ravel(), new.ravel(), s["d"])
    return {"new_s": a - new, "new_e": 0.8 * e + new, "new_l": 0.9 * l + 0.2 * e, "new_r": r + 0.1 * l, "cases": cases}
