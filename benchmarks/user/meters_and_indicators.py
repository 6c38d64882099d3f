"""Levels of sound, frames of speech, indicators of prices, sessions of clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, float64, int16, int32, int64, maximum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "peak_meters": ("recurrences", {"b": 3, "f": 4, "s": 7}),
    "voice_frames": ("overlapping windows", {"b": 2, "f": 5, "l": 12, "s": 5}),
    "rsi_and_macd": ("recurrences", {"t": 23, "n": 11}),
    "sessions_of_clicks": ("scans and counts", {"n": 301}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def peak_meters(b: int = 6, f: int = 251, s: int = 480) -> Kernel:
    """What a meter shows of stereo sound after every s samples (it rises at once and falls slowly), and how many samples were clipped."""
    kb = KernelBuilder("peak_meters")
    i, t, c, k = kb.axis("b", b), kb.axis("t", f * s), kb.axis("c", 2), kb.axis("f", f)
    o = kb.axis("t@over", f * s)
    x = kb.input("x", (b, f * s, 2), int16, range=(-32768, 32767))
    loud = absolute(cast(x[i, t, c], float32))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], maximum(before[1] * after[0], after[1])

    _, peak = kb.associative_scan(("fall", "peak"), (i, t, c), t, (0.9995, loud), (1.0, 0.0), rule)
    over = kb.sum("over", (i, c), o, (x[i, o, c] > 32700) | (x[i, o, c] < -32700))
    kb.store("level", float32, (b, f, 2), (i, k, c), peak[i, s * k + s - 1, c] * (1 / 32768))
    kb.store("clipped", int32, (b, 2), (i, c), over[i, c])
    return kb.build()


C["peak_meters"] = """
#include <math.h>
void kernel(const short (*restrict x)[F * S][2], float (*restrict level)[F][2], int (*restrict clipped)[2]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float left = 0, right = 0;
    int l = 0, r = 0;
    for (int k = 0; k < F; k++) {
      for (int t = k * S; t < k * S + S; t++) {
        left = fmaxf(left * 0.9995f, fabsf(x[i][t][0]));
        right = fmaxf(right * 0.9995f, fabsf(x[i][t][1]));
        l += x[i][t][0] > 32700 || x[i][t][0] < -32700;
        r += x[i][t][1] > 32700 || x[i][t][1] < -32700;
      }
      level[i][k][0] = left / 32768, level[i][k][1] = right / 32768;
    }
    clipped[i][0] = l, clipped[i][1] = r;
  }
}
"""


def peak_meters_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A sample at a time."""
    import numpy as np

    peak, level = np.zeros((s["b"], 2)), np.empty((s["b"], s["f"], 2))
    loud = abs(x["x"].astype(np.float64))
    for t in range(s["f"] * s["s"]):
        peak = np.maximum(peak * np.float32(0.9995), loud[:, t])
        level[:, t // s["s"]] = peak / 32768
    return {"level": level, "clipped": (loud > 32700).sum(axis=1).astype(np.int32)}


def voice_frames(b: int = 3, f: int = 1201, l: int = 400, s: int = 160) -> Kernel:
    """Of each 25 ms of speech, every 10 ms: its energy, how often it crosses zero, and whether it may be a vowel."""
    n = (f - 1) * s + l
    kb = KernelBuilder("voice_frames")
    i, k, p, q = kb.axis("b", b), kb.axis("f", f), kb.axis("l", l), kb.axis("pairs", l - 1)
    x = kb.input("x", (b, n), int16, range=(-32768, 32767))
    v = cast(x[i, s * k + p], int64)
    energy = kb.sum("energy", (i, k), p, v * v)
    cross = kb.sum("cross", (i, k), q, (x[i, s * k + q] ^ x[i, s * k + q + 1]) < 0)
    vowel = (energy[i, k] > l * 357913941) & (cross[i, k] * 2 < l)
    kb.store("power", int64, (b, f), (i, k), energy[i, k])
    kb.store("crossings", int16, (b, f), (i, k), cast(cross[i, k], int16))
    kb.store("vowel", uint8, (b, f), (i, k), where(vowel, cast(1, uint8), 0))
    return kb.build()


C["voice_frames"] = """
#include <stdint.h>
void kernel(const int16_t (*restrict x)[(F - 1) * S + L], int64_t (*restrict power)[F], int16_t (*restrict crossings)[F],
            uint8_t (*restrict vowel)[F]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int k = 0; k < F; k++) {
      const int16_t *v = x[i] + S * k;
      int64_t energy = 0;
      int cross = 0;
      for (int p = 0; p < L; p++) energy += v[p] * v[p];
      for (int p = 0; p < L - 1; p++) cross += (v[p] ^ v[p + 1]) < 0;
      power[i][k] = energy, crossings[i][k] = cross;
      vowel[i][k] = energy > L * 357913941LL && cross * 2 < L;
    }
}
"""


def voice_frames_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By sliding windows."""
    import numpy as np

    v = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.int64), s["l"], axis=1)[:, :: s["s"]]
    energy, cross = (v * v).sum(axis=2), ((v[:, :, 1:] < 0) != (v[:, :, :-1] < 0)).sum(axis=2)
    vowel = (energy > s["l"] * 357913941) & (cross * 2 < s["l"])
    return {"power": energy, "crossings": cross.astype(np.int16), "vowel": vowel.astype(np.uint8)}


def rsi_and_macd(t: int = 389, n: int = 487) -> Kernel:
    """Two indicators of many shares' prices, a row a day: the strength of rises, and fast less slow means less a mean of that."""
    kb = KernelBuilder("rsi_and_macd")
    i, j = kb.axis("t", t), kb.axis("n", n)
    price = kb.input("price", (t, n), float64, range=(10.0, 99.0))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    def mean(name: str, days: float, x: Any) -> Any:
        keep, new = where(i.eq(0), cast(0.0, float64), 1 - 1 / days), where(i.eq(0), x, x * (1 / days))
        return kb.associative_scan((f"{name}_keep", name), (i, j), i, (keep, new), (1.0, 0.0), rule)[1]

    change = where(i > 0, price[i, j] - price.masked(i > 0, i - 1, j), 0.0)
    up, down = mean("up", 14, maximum(change, 0.0)), mean("down", 14, maximum(-change, 0.0))
    fast, slow = mean("fast", 6.5, price[i, j]), mean("slow", 13.5, price[i, j])
    line = kb.value("line", (i, j), fast[i, j] - slow[i, j])
    signal = mean("signal", 5, line[i, j])
    kb.store("rsi", float64, (t, n), (i, j), up[i, j] * 100.0 / (up[i, j] + down[i, j] + 1e-9))
    kb.store("macd", float64, (t, n), (i, j), line[i, j] - signal[i, j])
    return kb.build()


C["rsi_and_macd"] = """
void kernel(const double (*restrict price)[N], double (*restrict rsi)[N], double (*restrict macd)[N]) {
  double up[N], down[N], fast[N], slow[N], signal[N];
  for (int j = 0; j < N; j++) {
    up[j] = down[j] = signal[j] = rsi[0][j] = macd[0][j] = 0;
    fast[j] = slow[j] = price[0][j];
  }
  for (int i = 1; i < T; i++)
    for (int j = 0; j < N; j++) {
      double p = price[i][j], change = p - price[i - 1][j];
      up[j] += ((change > 0 ? change : 0) - up[j]) / 14;
      down[j] += ((change < 0 ? -change : 0) - down[j]) / 14;
      fast[j] += (p - fast[j]) / 6.5;
      slow[j] += (p - slow[j]) / 13.5;
      signal[j] += (fast[j] - slow[j] - signal[j]) / 5;
      rsi[i][j] = 100 * up[j] / (up[j] + down[j] + 1e-9);
      macd[i][j] = fast[j] - slow[j] - signal[j];
    }
}
"""


def rsi_and_macd_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A day at a time."""
    import numpy as np

    def mean(v: Any, days: float) -> Any:
        y = v.copy()
        for i in range(1, s["t"]):
            y[i] = y[i - 1] + (v[i] - y[i - 1]) / days
        return y

    p = x["price"]
    change = np.diff(p, axis=0, prepend=p[:1])
    up, down = mean(np.maximum(change, 0), 14), mean(np.maximum(-change, 0), 14)
    line = mean(p, 6.5) - mean(p, 13.5)
    return {"rsi": 100 * up / (up + down + 1e-9), "macd": line - mean(line, 5)}


def sessions_of_clicks(n: int = 300_007) -> Kernel:
    """Clicks in order, each with the seconds since the one before: which session it is of (more than 1800 begin another), seconds
    since that began, and how many clicks each session has."""
    kb = KernelBuilder("sessions_of_clicks")
    i = kb.axis("n", n)
    gap = kb.input("gap", (n,), int16, range=(0, 2100))
    new = (gap[i] > 1800) & (i > 0)
    session = kb.scan("add", "session", (i,), i, new)

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] | after[0], where(after[0].ne(0), after[1], before[1] + after[1])

    start = where((gap[i] > 1800) | i.eq(0), cast(1, int32), 0)
    seconds = where(start.ne(0), cast(0, int32), cast(gap[i], int32))
    _, since = kb.associative_scan(("any", "since"), (i,), i, (start, seconds), (0, 0), rule)
    kb.store("of", int32, (n,), (i,), session[i])
    kb.store("seconds", int32, (n,), (i,), since[i])
    kb.store("clicks", int32, (n,), (i,), 1, (session[i],), combine="add")
    return kb.build()


C["sessions_of_clicks"] = """
void kernel(const short *restrict gap, int *restrict of, int *restrict seconds, int *restrict clicks) {
  int session = 0, since = 0, many = 0;
  for (int i = 0; i < N; i++) {
    since += gap[i];
    if (i == 0) since = 0;
    else if (gap[i] > 1800) clicks[session++] = many, since = many = 0;
    of[i] = session, seconds[i] = since, many++;
  }
  clicks[session++] = many;
  for (; session < N; session++) clicks[session] = 0;
}
"""


def sessions_of_clicks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By running sums."""
    import numpy as np

    new = x["gap"] > 1800
    new[0] = False
    of, at = new.cumsum(), x["gap"].astype(np.int64).cumsum()
    start = np.concatenate([at[:1], at[new]])
    clicks = np.bincount(of, minlength=s["n"])
    return {"of": of.astype(np.int32), "seconds": (at - start[of]).astype(np.int32), "clicks": clicks.astype(np.int32)}
