"""Options, series and samples, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32, int32, maximum, where
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "asian_option": ("scans and elementary functions", {"p": 7, "t": 13}),
    "american_put": ("long expressions", {"n": 19}),
    "ewma_covariance": ("scans", {"b": 3, "t": 23}),
    "autocorrelation": ("correlations", {"b": 3, "n": 41, "l": 5}),
    "kernel_density": ("all pairs", {"m": 11, "n": 29}),
    "kendall_tau": ("all pairs", {"n": 31}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def asian_option(p: int = 8192, t: int = 128) -> Kernel:
    """What a call on the mean price pays along each of many random paths of a geometric Brownian motion."""
    kb = KernelBuilder("asian_option")
    i, j = kb.axis("p", p), kb.axis("t", t)
    z = kb.input("z", (p, t), float32)
    way = kb.scan("add", "way", (i, j), j, 0.02 * z[i, j] + 0.0001)
    mean = kb.sum("mean", (i,), j, exp(way[i, j]) * (100.0 / t))
    kb.store("pays", float32, (p,), (i,), maximum(mean[i] - 101.0, 0.0))
    return kb.build()


C["asian_option"] = """
#include <math.h>
void kernel(const float (*restrict z)[T], float *restrict pays) {
#pragma omp parallel for
  for (int i = 0; i < P; i++) {
    float way = 0, total = 0;
    for (int j = 0; j < T; j++) {
      way += 0.02f * z[i][j] + 0.0001f;
      total += expf(way);
    }
    float over = total * (100.0f / T) - 101;
    pays[i] = over > 0 ? over : 0;
  }
}
"""


def asian_option_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum, exp, mean."""
    import numpy as np

    way = np.cumsum(0.02 * x["z"].astype(np.float64) + 0.0001, axis=1)
    return {"pays": np.maximum(100.0 * np.exp(way).mean(axis=1) - 101.0, 0.0)}


def american_put(n: int = 1 << 16) -> Kernel:
    """American puts by a tree of twelve steps: what waiting is worth, or what the put pays at once, if that is more."""
    kb = KernelBuilder("american_put")
    i = kb.axis("n", n)
    spot, strike = (kb.input(x, (n,), float32, range=(80, 120)) for x in ("spot", "strike"))
    worth = [maximum(strike[i] - spot[i] * 1.05 ** (2 * k - 12), 0.0) for k in range(13)]
    for t in reversed(range(12)):
        wait = [0.49 * worth[k] + 0.5 * worth[k + 1] for k in range(t + 1)]
        worth = [maximum(wait[k], strike[i] - spot[i] * 1.05 ** (2 * k - t)) for k in range(t + 1)]
    kb.store("put", float32, (n,), (i,), worth[0])
    return kb.build()


C["american_put"] = """
#include <math.h>
void kernel(const float *restrict spot, const float *restrict strike, float *restrict put) {
  float up[25];
  for (int k = 0; k < 25; k++) up[k] = powf(1.05f, k - 12);
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float w[13];
    for (int k = 0; k < 13; k++) w[k] = fmaxf(strike[i] - spot[i] * up[2 * k], 0);
    for (int t = 11; t >= 0; t--)
      for (int k = 0; k <= t; k++) w[k] = fmaxf(0.49f * w[k] + 0.5f * w[k + 1], strike[i] - spot[i] * up[12 + 2 * k - t]);
    put[i] = w[0];
  }
}
"""


def american_put_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A step of the tree for all at once."""
    import numpy as np

    spot, strike = x["spot"].astype(np.float64)[:, None], x["strike"].astype(np.float64)[:, None]
    worth = np.maximum(strike - spot * 1.05 ** (2.0 * np.arange(13) - 12), 0)
    for t in reversed(range(12)):
        now = strike - spot * 1.05 ** (2.0 * np.arange(t + 1) - t)
        worth = np.maximum(0.49 * worth[:, :-1] + 0.5 * worth[:, 1:], now)
    return {"put": worth[:, 0]}


def ewma_covariance(b: int = 512, t: int = 2048) -> Kernel:
    """The covariance of two series so far, the past fading by six percent a day: means and products fade alike."""
    kb = KernelBuilder("ewma_covariance")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x, y = kb.input("x", (b, t), float32), kb.input("y", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, ...]:
        return before[0] * after[0], *(p * after[0] + q for p, q in zip(before[1:], after[1:], strict=True))

    parts = (x[i, j] * 0.0 + 0.94, 0.06 * x[i, j], 0.06 * y[i, j], 0.06 * x[i, j] * y[i, j])
    _, mx, my, mxy = kb.associative_scan(("f", "mx", "my", "mxy"), (i, j), j, parts, (1.0, 0.0, 0.0, 0.0), rule)
    kb.store("cov", float32, (b, t), (i, j), mxy[i, j] - mx[i, j] * my[i, j])
    return kb.build()


C["ewma_covariance"] = """
void kernel(const float (*restrict x)[T], const float (*restrict y)[T], float (*restrict cov)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float mx = 0, my = 0, mxy = 0;
    for (int j = 0; j < T; j++) {
      mx = 0.94f * mx + 0.06f * x[i][j];
      my = 0.94f * my + 0.06f * y[i][j];
      mxy = 0.94f * mxy + 0.06f * x[i][j] * y[i][j];
      cov[i][j] = mxy - mx * my;
    }
  }
}
"""


def ewma_covariance_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A day at a time."""
    import numpy as np

    a, b = x["x"].astype(np.float64), x["y"].astype(np.float64)
    fade, mean, out = float(np.float32(0.94)), np.zeros((3, s["b"])), np.empty(a.shape)
    for j in range(s["t"]):
        mean = fade * mean + float(np.float32(0.06)) * np.stack([a[:, j], b[:, j], a[:, j] * b[:, j]])
        out[:, j] = mean[2] - mean[0] * mean[1]
    return {"cov": out}


def autocorrelation(b: int = 64, n: int = 8192, l: int = 48) -> Kernel:
    """Autocorrelations of series at lags from 0, each divided by the one at lag 0."""
    kb = KernelBuilder("autocorrelation")
    i, k, j, j0 = kb.axis("b", b), kb.axis("l", l), kb.axis("n@lag", n), kb.axis("n@power", n)
    x = kb.input("x", (b, n), float32)
    power = kb.sum("power", (i,), j0, x[i, j0] * x[i, j0])
    total = kb.sum("total", (i, k), j, x[i, j] * x.masked(j + k < n, i, j + k))
    kb.store("y", float32, (b, l), (i, k), total[i, k] / power[i])
    return kb.build()


C["autocorrelation"] = """
void kernel(const float (*restrict x)[N], float (*restrict y)[L]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float power = 0;
    for (int j = 0; j < N; j++) power += x[i][j] * x[i][j];
    for (int k = 0; k < L; k++) {
      float total = 0;
      for (int j = 0; j < N - k; j++) total += x[i][j] * x[i][j + k];
      y[i][k] = total / power;
    }
  }
}
"""


def autocorrelation_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A lag at a time."""
    import numpy as np

    a, n = x["x"].astype(np.float64), s["n"]
    total = np.stack([(a[:, : n - k] * a[:, k:]).sum(axis=1) for k in range(s["l"])], axis=1)
    return {"y": total / total[:, :1]}


def kernel_density(m: int = 512, n: int = 8192) -> Kernel:
    """The density of a sample at some places, smoothed by a normal curve 0.1 wide."""
    kb = KernelBuilder("kernel_density")
    i, j = kb.axis("m", m), kb.axis("n", n)
    at, x = kb.input("at", (m,), float32, range=(-3, 3)), kb.input("x", (n,), float32)
    off = (at[i] - x[j]) * 10.0
    total = kb.sum("total", (i,), j, exp(-0.5 * off * off))
    kb.store("y", float32, (m,), (i,), total[i] * (3.989422804 / n))
    return kb.build()


C["kernel_density"] = """
#include <math.h>
void kernel(const float *restrict at, const float *restrict x, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) {
      float off = (at[i] - x[j]) * 10;
      total += expf(-0.5f * off * off);
    }
    y[i] = total * (3.989422804f / N);
  }
}
"""


def kernel_density_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    off = (x["at"].astype(np.float64)[:, None] - x["x"].astype(np.float64)[None, :]) * 10
    return {"y": np.exp(-0.5 * off * off).mean(axis=1) * 3.989422804}


def kendall_tau(n: int = 3072) -> Kernel:
    """Kendall's tau: of all pairs, those that two rankings put in one order, less those that they do not."""
    kb = KernelBuilder("kendall_tau")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y = kb.input("x", (n,), float32), kb.input("y", (n,), float32)
    both = (x[i] - x[j]) * (y[i] - y[j])
    score = kb.sum("score", (), (i, j), where(j > i, cast(both > 0.0, int32) - cast(both < 0.0, int32), 0))
    kb.store("tau", float32, (1,), (), cast(score[()], float32) * (2.0 / (n * (n - 1))), (0,))
    return kb.build()


C["kendall_tau"] = """
void kernel(const float *restrict x, const float *restrict y, float *restrict tau) {
  int score = 0;
#pragma omp parallel for reduction(+ : score)
  for (int i = 0; i < N; i++)
    for (int j = i + 1; j < N; j++) {
      float both = (x[i] - x[j]) * (y[i] - y[j]);
      score += (both > 0) - (both < 0);
    }
  tau[0] = score * (2.0f / ((float)N * (N - 1)));
}
"""


def kendall_tau_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Signs of all differences."""
    import numpy as np

    a, b = (np.sign(x[k][:, None] - x[k][None, :]) for k in "xy")
    return {"tau": np.array([(a * b).sum() / (s["n"] * (s["n"] - 1))])}
