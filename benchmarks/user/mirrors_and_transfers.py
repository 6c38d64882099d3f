"""Filters of mirrored samples, transfers between accounts, and norms of thin arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, float64, int32, int64, rsqrt, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "mirrored_bank": ("signals", {"c": 3, "n": 17}),
    "net_transfers": ("several reductions", {"n": 11}),
    "thin_norm": ("row statistics", {"b": 3, "c": 1, "h": 5, "w": 1}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def mirrored_bank(c: int = 5, n: int = 7001) -> Kernel:
    """A pair of mirror filters run backwards in time: lows ahead and highs behind in one row, and the strongest high with its place."""
    kb = KernelBuilder("mirrored_bank")
    i, j, k, l = kb.axis("c", c), kb.axis("n", n), kb.axis("k", 8), kb.axis("k@high", 8)
    p, q = kb.axis("n@best", n), kb.axis("n@place", n)
    x, t = kb.input("x", (c, 2 * n + 6), float32), kb.input("t", (8,), float32)
    low = kb.sum("low", (i, j), k, t[k] * x[i, 2 * n + 5 - 2 * j - k])
    high = kb.sum("high", (i, j), l, where((l % 2).eq(0), t[7 - l], -t[7 - l]) * x[i, 2 * n + 5 - 2 * j - l])
    top = kb.max("most", (i,), p, absolute(high[i, p]))
    place = kb.min("at", (i,), q, where(absolute(high[i, q]) >= 0.75 * top[i], cast(q, int32), n))
    kb.store("y", float32, (c, 2 * n), (i, j), low[i, j], (i, j))
    kb.store("y", float32, (c, 2 * n), (i, j), high[i, j], (i, 2 * n - 1 - j))
    kb.store("top", float32, (c,), (i,), top[i])
    kb.store("place", int32, (c,), (i,), place[i])
    return kb.build()


C["mirrored_bank"] = """
#include <math.h>
static void row(const float *restrict x, const float *restrict t, float *restrict y, float *restrict top, int *restrict place) {
  float most = 0;
  for (int j = 0; j < N; j++) {
    float low = 0, high = 0;
    for (int k = 0; k < 8; k++) {
      float v = x[2 * N + 5 - 2 * j - k];
      low += t[k] * v;
      high += (k % 2 ? -t[7 - k] : t[7 - k]) * v;
    }
    y[j] = low;
    y[2 * N - 1 - j] = high;
    most = fabsf(high) > most ? fabsf(high) : most;
  }
  int at = 0;
  while (at < N && fabsf(y[2 * N - 1 - at]) < 0.75f * most) at++;
  *top = most;
  *place = at;
}
void kernel(const float (*restrict x)[2 * N + 6], const float *restrict t, float (*restrict y)[2 * N], float *restrict top,
            int *restrict place) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) row(x[i], t, y[i], top + i, place + i);
}
"""


def mirrored_bank_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Views of windows of what is turned round."""
    import numpy as np

    w = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.float64)[:, ::-1], 8, axis=1)[:, : 2 * s["n"] : 2]
    t = x["t"].astype(np.float64)
    low, high = w @ t, w @ (t[::-1] * (-1.0) ** np.arange(8))
    top = np.abs(high).max(axis=1)
    place = (np.abs(high) >= 0.75 * top[:, None]).argmax(axis=1).astype(np.int32)
    return {"y": np.concatenate([low, high[:, ::-1]], axis=1), "top": top, "place": place}


def net_transfers(n: int = 617) -> Kernel:
    """What each account gains by transfers (in cents), the skew of all pairs, whom it pays nothing, and what it keeps for itself."""
    kb = KernelBuilder("net_transfers")
    i, j, k, l, o = kb.axis("n", n), *(kb.axis(f"n@{s}", n) for s in ("in", "out", "skew", "other"))
    t = kb.input("t", (n, n), int64, range=(0, 1 << 20))
    gain = kb.sum("gain", (i,), j, t[j, i])
    loss = kb.sum("loss", (i,), k, t[i, k])
    skew = kb.sum("skew", (i,), l, absolute(t[i, l] - t[l, i]) * where(l < i, 1, 0))
    kb.store("net", int64, (n,), (i,), gain[i] - loss[i])
    kb.store("own", float64, (n,), (i,), cast(t[i, i], float64) / cast(gain[i] + 1, float64))
    kb.store("apart", int64, (1,), (i,), skew[i], (0,), combine="add")
    kb.store("more", uint8, (n, n), (i, o), cast((t[i, o] > t[o, i]) & (gain[i] > gain[o]), uint8))
    return kb.build()


C["net_transfers"] = """
#include <stdlib.h>
typedef long long i64;
void kernel(const i64 (*restrict t)[N], i64 *restrict net, double *restrict own, i64 *restrict apart, unsigned char (*restrict more)[N]) {
  i64 gain[N] = {0}, skew = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) gain[j] += t[i][j];
#pragma omp parallel for reduction(+ : skew)
  for (int i = 0; i < N; i++) {
    i64 loss = 0;
    for (int j = 0; j < N; j++) {
      loss += t[i][j];
      more[i][j] = (t[i][j] > t[j][i]) & (gain[i] > gain[j]);
    }
    for (int j = 0; j < i; j++) skew += llabs(t[i][j] - t[j][i]);
    net[i] = gain[i] - loss;
    own[i] = t[i][i] / (double)(gain[i] + 1);
  }
  *apart = skew;
}
"""


def net_transfers_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A matrix and its transpose."""
    import numpy as np

    t = x["t"]
    gain = t.sum(axis=0)
    more = ((t > t.T) & (gain[:, None] > gain)).astype(np.uint8)
    apart = np.tril(np.abs(t - t.T)).sum().reshape(1)
    return {"net": gain - t.sum(axis=1), "own": np.diag(t) / (gain + 1), "apart": apart, "more": more}


def thin_norm(b: int = 211, c: int = 13, h: int = 1, w: int = 193) -> Kernel:
    """A group norm of arrays of which a dimension is 1, with each channel's mean over the batch, and where a sample is first positive."""
    kb = KernelBuilder("thin_norm")
    i, j, y, z = kb.axis("b", b), kb.axis("c", c), kb.axis("h", h), kb.axis("w", w)

    def over(site: str) -> Any:
        return kb.axis(f"c@{site}", c), kb.axis(f"h@{site}", h), kb.axis(f"w@{site}", w)

    x, g = kb.input("x", (b, c, h, w), float32), kb.input("g", (c, 1), float32)
    p, q, f = over("mean"), over("square"), over("first")
    mean = kb.sum("mean", (i,), p, x[i, *p] * (1.0 / (c * h * w)))
    var = kb.sum("var", (i,), q, (x[i, *q] - mean[i]) ** 2 * (1.0 / (c * h * w)))
    d = kb.axis("b@down", b), kb.axis("h@down", h), kb.axis("w@down", w)
    down = kb.sum("down", (j,), d, x[d[0], j, d[1], d[2]])
    first = kb.min("lead", (i,), f, where(x[i, *f] > mean[i], (f[0] * h + f[1]) * w + f[2], c * h * w))
    kb.store("y", float32, (b, c, h, w), (i, j, y, z), (x[i, j, y, z] - mean[i]) * rsqrt(var[i] + 1e-5) * g[j, 0])
    kb.store("channel", float32, (1, c), (j,), down[j] * (1.0 / (b * h * w)), (0, j))
    kb.store("first", int64, (b, 1), (i,), first[i], (i, 0))
    return kb.build()


C["thin_norm"] = """
#include <math.h>
void kernel(const float (*restrict x)[C][H * W], const float *restrict g, float (*restrict y)[C][H * W], float *restrict channel,
            long long *restrict first) {
  for (int j = 0; j < C; j++) channel[j] = 0;
  for (int i = 0; i < B; i++) {
    const float *v = x[i][0];
    float mean = 0, var = 0;
    for (int k = 0; k < C * H * W; k++) mean += v[k];
    mean /= C * H * W;
    for (int k = 0; k < C * H * W; k++) var += (v[k] - mean) * (v[k] - mean);
    float scale = 1 / sqrtf(var / (C * H * W) + 1e-5f);
    for (int j = 0; j < C; j++) {
      float sum = 0;
      for (int k = 0; k < H * W; k++) {
        y[i][j][k] = (x[i][j][k] - mean) * scale * g[j];
        sum += x[i][j][k];
      }
      channel[j] += sum / (B * H * W);
    }
    int at = 0;
    while (at < C * H * W && !(v[at] > mean)) at++;
    first[i] = at;
  }
}
"""


def thin_norm_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Means over axes."""
    import numpy as np

    v = x["x"].astype(np.float64)
    flat = v.reshape(s["b"], -1)
    mean, hit = flat.mean(axis=1), flat > flat.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(flat.var(axis=1) + 1e-5)
    y = (v - mean[:, None, None, None]) * scale[:, None, None, None] * x["g"].reshape(1, -1, 1, 1)
    first = np.where(hit.any(axis=1), hit.argmax(axis=1), flat.shape[1])
    return {"y": y, "channel": v.mean(axis=(0, 2, 3))[None], "first": first[:, None]}
