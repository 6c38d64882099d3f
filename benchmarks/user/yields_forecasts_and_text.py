"""Volatility of returns, yields of bonds, forecasts by ensembles, patterns in text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, exp, float32, float64, int8, int16, int32, log, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "garch_likelihood": ("recurrences", {"b": 5, "n": 27}),
    "bond_yields": ("iterations of sums", {"n": 17, "k": 6}),
    "crps_ensemble": ("pairs and histograms", {"n": 19, "m": 8}),
    "text_like": ("matches in ragged bytes", {"n": 67, "l": 13, "p": 3}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def garch_likelihood(b: int = 300, n: int = 1259) -> Kernel:
    """How likely returns are when each day's variance follows from the day before, for each share's parameters; the next variance."""
    kb = KernelBuilder("garch_likelihood")
    i, t, e, d = kb.axis("b", b), kb.axis("n", n), kb.axis("n@mean", n), kb.axis("n@log", n)
    r, omega = kb.input("r", (b, n), float64), kb.input("omega", (b,), float64, range=(0.01, 0.1))
    alpha, beta = kb.input("alpha", (b,), float64, range=(0.02, 0.1)), kb.input("beta", (b,), float64, range=(0.8, 0.89))
    start = kb.sum("start", (i,), e, r[i, e] * r[i, e])
    first = t.eq(0)
    keep = where(first, 0.0, beta[i])
    new = where(first, start[i] * (1 / n), omega[i] + alpha[i] * r.masked(t > 0, i, t - 1) ** 2)

    def rule(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        return x[0] * y[0], x[1] * y[0] + y[1]

    _, h = kb.associative_scan(("p", "h"), (i, t), t, (keep, new), (1.0, 0.0), rule)
    total = kb.sum("total", (i,), d, log(h[i, d]) + r[i, d] * r[i, d] / h[i, d])
    kb.store("likely", float64, (b,), (i,), (total[i] + n * 1.8378770664093453) * -0.5)
    kb.store("next", float64, (b,), (i,), omega[i] + alpha[i] * r[i, n - 1] ** 2 + beta[i] * h[i, n - 1])
    return kb.build()


C["garch_likelihood"] = """
#include <math.h>
void kernel(const double (*restrict r)[N], const double *restrict omega, const double *restrict alpha, const double *restrict beta,
            double *restrict likely, double *restrict next) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double h[N + 1], start = 0, total = 0;
    for (int t = 0; t < N; t++) start += r[i][t] * r[i][t];
    h[0] = start / N;
    for (int t = 0; t < N; t++) h[t + 1] = omega[i] + alpha[i] * r[i][t] * r[i][t] + beta[i] * h[t];
    for (int t = 0; t < N; t++) total += log(h[t]) + r[i][t] * r[i][t] / h[t];
    likely[i] = -0.5 * (total + N * 1.8378770664093453);
    next[i] = h[N];
  }
}
"""


def garch_likelihood_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A day at a time."""
    import numpy as np

    h, total = (x["r"] ** 2).mean(1), 0
    for r in x["r"].T:
        total = total + np.log(2 * np.pi * h) + r**2 / h
        h = x["omega"] + x["alpha"] * r**2 + x["beta"] * h
    return {"likely": -total / 2, "next": h}


def bond_yields(n: int = 6007, k: int = 21) -> Kernel:
    """The yield at which each bond's payments are worth its price, by five steps of Newton's method, and its duration there."""
    kb = KernelBuilder("bond_yields")
    i = kb.axis("n", n)
    pay, when = kb.input("pay", (n, k), float64, range=(1.0, 6.0)), kb.input("when", (n, k), float64, range=(0.1, 10.0))
    many, price = kb.input("many", (n,), int8, range=(3, k)), kb.input("price", (n,), float64, range=(0.6, 1.0))
    every = kb.axis("k@all", k)

    def left(j: Any, x: Any) -> Any:
        return where(cast(j, int8) < many[i], x, 0.0)

    paid = kb.sum("paid", (i,), every, left(every, pay[i, every]))
    rate: Any = 0.05
    for step in range(6):
        a, b = kb.axis(f"k@worth{step}", k), kb.axis(f"k@slope{step}", k)
        worth = kb.sum(f"worth{step}", (i,), a, left(a, pay[i, a] * exp(-rate * when[i, a])))
        slope = kb.sum(f"slope{step}", (i,), b, left(b, pay[i, b] * exp(-rate * when[i, b]) * when[i, b]))
        if step < 5:
            rate = kb.value(f"rate{step}", (i,), rate + (worth[i] - price[i] * paid[i]) / slope[i])[i]
    kb.store("rate", float64, (n,), (i,), rate)
    kb.store("duration", float64, (n,), (i,), slope[i] / worth[i])
    return kb.build()


C["bond_yields"] = """
#include <math.h>
void kernel(const double (*restrict pay)[K], const double (*restrict when)[K], const signed char *restrict many,
            const double *restrict price, double *restrict rates, double *restrict duration) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double paid = 0, rate = 0.05, worth, slope;
    for (int j = 0; j < many[i]; j++) paid += pay[i][j];
    for (int step = 0;; step++) {
      worth = slope = 0;
      for (int j = 0; j < many[i]; j++) {
        double v = pay[i][j] * exp(-rate * when[i][j]);
        worth += v, slope += v * when[i][j];
      }
      if (step == 5) break;
      rate += (worth - price[i] * paid) / slope;
    }
    rates[i] = rate, duration[i] = slope / worth;
  }
}
"""


def bond_yields_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All bonds at once."""
    import numpy as np

    pay = x["pay"] * (np.arange(s["k"]) < x["many"][:, None])
    rate = np.full(s["n"], 0.05)
    for step in range(6):
        v = pay * np.exp(-rate[:, None] * x["when"])
        worth, slope = v.sum(1), (v * x["when"]).sum(1)
        rate = rate + (worth - x["price"] * pay.sum(1)) / slope if step < 5 else rate
    return {"rate": rate, "duration": slope / worth}


def crps_ensemble(n: int = 7553, m: int = 51) -> Kernel:
    """How good forecasts of m members are (their distance to what came, less half of that among them); how often what came has each rank."""
    kb = KernelBuilder("crps_ensemble")
    i, a, b, c, d = kb.axis("n", n), kb.axis("m@far", m), kb.axis("m@one", m), kb.axis("m@other", m), kb.axis("m@below", m)
    x, y = kb.input("x", (n, m), float32), kb.input("y", (n,), float32)
    far = kb.sum("far", (i,), a, absolute(x[i, a] - y[i]))
    apart = kb.sum("apart", (i,), (b, c), where(c > b, absolute(x[i, b] - x[i, c]), 0.0))
    rank = kb.sum("rank", (i,), d, x[i, d] < y[i])
    kb.store("score", float32, (n,), (i,), far[i] * (1 / m) - apart[i] * (1 / m**2))
    kb.store("ranks", int32, (m + 1,), (i,), 1, (rank[i],), combine="add")
    return kb.build()


C["crps_ensemble"] = """
#include <math.h>
void kernel(const float (*restrict x)[M], const float *restrict y, float *restrict score, int *restrict ranks) {
  for (int k = 0; k <= M; k++) ranks[k] = 0;
#pragma omp parallel for reduction(+ : ranks[:M + 1])
  for (int i = 0; i < N; i++) {
    float far = 0, apart = 0;
    int rank = 0;
    for (int a = 0; a < M; a++) far += fabsf(x[i][a] - y[i]), rank += x[i][a] < y[i];
    for (int b = 0; b < M; b++)
      for (int c = b + 1; c < M; c++) apart += fabsf(x[i][b] - x[i][c]);
    score[i] = far / M - apart / (M * M);
    ranks[rank]++;
  }
}
"""


def crps_ensemble_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By sorted members."""
    import numpy as np

    v, m = np.sort(x["x"].astype(float), axis=1), s["m"]
    apart = (v * (2 * np.arange(m) - m + 1)).sum(1)
    far = abs(v - x["y"][:, None]).mean(1)
    rank = (x["x"] < x["y"][:, None]).sum(1)
    return {"score": far - apart / m**2, "ranks": np.bincount(rank, minlength=m + 1).astype(np.int32)}


def text_like(n: int = 40009, l: int = 48, p: int = 5) -> Kernel:
    """Rows of text of their own lengths: where a pattern is first found in any case, or -1, and how many rows have it."""
    kb = KernelBuilder("text_like")
    i, at, c, r = kb.axis("n", n), kb.axis("at", l - p + 1), kb.axis("p", p), kb.axis("n@rows", n)
    text, length = kb.input("text", (n, l), uint8, range=(97, 100)), kb.input("length", (n,), uint8, range=(p, l))
    pattern = kb.input("pattern", (p,), uint8, range=(97, 100))
    same = kb.min("same", (i, at), c, (text[i, at + c] | 32).eq(pattern[c]))
    fits = cast(at, int32) + p <= cast(length[i], int32)
    first = kb.min("first", (i,), at, where(same[i, at] & fits, cast(at, int32), l))
    kb.store("place", int16, (n,), (i,), cast(where(first[i].eq(l), -1, first[i]), int16))
    kb.store("rows", int32, (1,), (), kb.sum("found", (), r, first[r] < l)[()], (0,))
    return kb.build()


C["text_like"] = """
void kernel(const unsigned char (*restrict text)[L], const unsigned char *restrict length, const unsigned char *restrict pattern,
            short *restrict place, int *restrict rows) {
  int found = 0;
#pragma omp parallel for reduction(+ : found)
  for (int i = 0; i < N; i++) {
    place[i] = -1;
    for (int s = 0; s + P <= length[i]; s++) {
      int c = 0;
      while (c < P && (text[i][s + c] | 32) == pattern[c]) c++;
      if (c < P) continue;
      place[i] = s, found++;
      break;
    }
  }
  *rows = found;
}
"""


def text_like_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A place at a time."""
    import numpy as np

    place = np.full(s["n"], -1, np.int16)
    for at in range(s["l"] - s["p"], -1, -1):
        place[((x["text"][:, at : at + s["p"]] | 32) == x["pattern"]).all(1) & (at + s["p"] <= x["length"])] = at
    return {"place": place, "rows": np.array([(place >= 0).sum()], np.int32)}
