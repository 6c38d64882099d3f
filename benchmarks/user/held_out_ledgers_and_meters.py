"""Orders in coded columns, meters by the hour, and accounts that rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, const, float64, int16, int32, int64, uint8, uint16, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "coded_orders": ("aggregates", {"n": 211, "p": 23, "c": 37, "g": 5}),
    "meter_hours": ("histograms", {"m": 5, "t": 41}),
    "idle_streaks": ("scans", {"m": 7, "n": 53}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def coded_orders(n: int = 200003, p: int = 200, c: int = 4096, g: int = 7) -> Kernel:
    """Orders of some days and of shops that are open, by region: how many, units, money, and the least and largest price."""
    kb = KernelBuilder("coded_orders")
    i = kb.axis("n", n)
    shop, day = kb.input("shop", (n,), uint8, range=(0, p - 1)), kb.input("day", (n,), int16, range=(0, 1999))
    code, units = kb.input("code", (n,), uint16, range=(0, c - 1)), kb.input("units", (n,), int16, range=(1, 50))
    off = kb.input("off", (n,), uint8, range=(0, 30))
    region, is_open = kb.input("region", (p,), uint8, range=(0, g - 1)), kb.input("is_open", (p,), uint8, range=(0, 1))
    cents = kb.input("cents", (c,), int32, range=(50, 90000))
    kept = (day[i] >= 400) & (day[i] < 1600) & is_open[shop[i]].eq(1)
    at, price, many = (region[shop[i]],), cents[code[i]], cast(units[i], int32)
    money = cast(price * many, int64) * (100 - cast(off[i], int64))
    kb.store("orders", int32, (g,), (i,), const(1, int32), at, combine="add", mask=kept)
    kb.store("sold", int64, (g,), (i,), cast(many, int64), at, combine="add", mask=kept)
    kb.store("money", int64, (g,), (i,), money, at, combine="add", mask=kept)
    kb.store("least", int32, (g,), (i,), price, at, combine="min", mask=kept)
    kb.store("most", int32, (g,), (i,), price, at, combine="max", mask=kept)
    return kb.build()


C["coded_orders"] = """
#include <limits.h>
typedef unsigned char u8;
void kernel(const u8 *restrict shop, const short *restrict day, const unsigned short *restrict code, const short *restrict units,
            const u8 *restrict off, const u8 *restrict region, const u8 *restrict is_open, const int *restrict cents,
            int *restrict orders, long *restrict sold, long *restrict money, int *restrict least, int *restrict most) {
  for (int r = 0; r < G; r++) orders[r] = 0, sold[r] = money[r] = 0, least[r] = INT_MAX, most[r] = INT_MIN;
#pragma omp parallel for reduction(+ : orders[:G], sold[:G], money[:G]) reduction(min : least[:G]) reduction(max : most[:G])
  for (int i = 0; i < N; i++) {
    if (day[i] < 400 || day[i] >= 1600 || !is_open[shop[i]]) continue;
    int r = region[shop[i]], price = cents[code[i]];
    orders[r]++;
    sold[r] += units[i];
    money[r] += (long)(price * units[i]) * (100 - off[i]);
    if (price < least[r]) least[r] = price;
    if (price > most[r]) most[r] = price;
  }
}
"""


def coded_orders_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The kept rows, and ufunc.at."""
    import numpy as np

    g, top = s["g"], np.iinfo(np.int32)
    kept = (x["day"] >= 400) & (x["day"] < 1600) & (x["is_open"][x["shop"]] == 1)
    at, price = x["region"][x["shop"][kept]], x["cents"][x["code"][kept]]
    units = x["units"][kept].astype(np.int64)
    sold, money = np.zeros(g, np.int64), np.zeros(g, np.int64)
    least, most = np.full(g, top.max, np.int32), np.full(g, top.min, np.int32)
    np.add.at(sold, at, units)
    np.add.at(money, at, price * units * (100 - x["off"][kept].astype(np.int64)))
    np.minimum.at(least, at, price)
    np.maximum.at(most, at, price)
    return {"orders": np.bincount(at, minlength=g).astype(np.int32), "sold": sold, "money": money, "least": least, "most": most}


def meter_hours(m: int = 701, t: int = 289) -> Kernel:
    """What each meter used in each hour of a day, in readings that come at any second, the largest, and what all of it costs."""
    kb = KernelBuilder("meter_hours")
    i, k, q = kb.axis("m", m), kb.axis("t", t), kb.axis("t@cost", t)
    second = kb.input("second", (m, t), int32, range=(0, 86399))
    used, flags = kb.input("used", (m, t), int32, range=(0, 2000)), kb.input("flags", (m, t), uint8, range=(0, 7))
    tariff = kb.input("tariff", (24,), float64, range=(0.05, 0.6))
    good, at = flags[i, k] <= 4, (i, second[i, k] // 3600)
    kb.store("total", int32, (m, 24), (i, k), used[i, k], at, combine="add", mask=good)
    kb.store("most", int32, (m, 24), (i, k), used[i, k], at, combine="max", mask=good)
    kb.store("count", int32, (m, 24), (i, k), const(1, int32), at, combine="add", mask=good)
    cost = kb.sum("paid", (i,), q, where(flags[i, q] <= 4, cast(used[i, q], float64) * tariff[second[i, q] // 3600], 0.0))
    kb.store("cost", float64, (m,), (i,), cost[i] * 0.001)
    return kb.build()


C["meter_hours"] = """
#include <limits.h>
static double meter(const int *restrict second, const int *restrict used, const unsigned char *restrict flags,
                    const double *restrict tariff, int *restrict total, int *restrict most, int *restrict count) {
  double cost = 0;
  for (int h = 0; h < 24; h++) total[h] = count[h] = 0, most[h] = INT_MIN;
  for (int k = 0; k < T; k++) {
    if (flags[k] > 4) continue;
    int h = second[k] / 3600;
    total[h] += used[k];
    most[h] = used[k] > most[h] ? used[k] : most[h];
    count[h]++;
    cost += used[k] * tariff[h];
  }
  return cost * 0.001;
}
void kernel(const int (*restrict second)[T], const int (*restrict used)[T], const unsigned char (*restrict flags)[T],
            const double *restrict tariff, int (*restrict total)[24], int (*restrict most)[24], int (*restrict count)[24],
            double *restrict cost) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) cost[i] = meter(second[i], used[i], flags[i], tariff, total[i], most[i], count[i]);
}
"""


def meter_hours_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A mask for each hour."""
    import numpy as np

    hour, good = x["second"] // 3600, x["flags"] <= 4
    out: dict[str, Any] = {name: np.zeros((s["m"], 24), np.int32) for name in ("total", "most", "count")}
    for h in range(24):
        mine = good & (hour == h)
        out["total"][:, h] = (x["used"] * mine).sum(axis=1)
        out["most"][:, h] = np.where(mine, x["used"], np.iinfo(np.int32).min).max(axis=1)
        out["count"][:, h] = mine.sum(axis=1)
    return {**out, "cost": (x["used"] * x["tariff"][hour] * good).sum(axis=1) / 1000}


def idle_streaks(m: int = 301, n: int = 1096) -> Kernel:
    """How long accounts had rested on each day, the longest rest and the day it ended, the last, and how many took a week."""
    kb = KernelBuilder("idle_streaks")
    i, t, a, b, w = kb.axis("m", m), *(kb.axis(f"n@{name}", n) for name in ("day", "longest", "ended", "weeks"))
    busy = kb.input("busy", (m, n), uint8, range=(0, 1))
    last = kb.scan("max", "last", (i, t), t, where(busy[i, t] > 0, cast(t, int32), -1))

    def rest(t: Any) -> Any:
        return cast(t, int32) - last[i, t]

    longest, ended = kb.max("most", (i,), a, rest(a)), kb.argmax("place", (i,), b, rest(b))
    weeks = kb.sum("full", (i,), w, rest(w).eq(7))
    kb.store("rested", int16, (m, n), (i, t), cast(rest(t), int16))
    kb.store("longest", int32, (m,), (i,), longest[i])
    kb.store("ended", int32, (m,), (i,), ended[i])
    kb.store("open", int32, (m,), (i,), n - 1 - last[i, n - 1])
    kb.store("weeks", int32, (m,), (i,), weeks[i])
    return kb.build()


C["idle_streaks"] = """
void kernel(const unsigned char (*restrict busy)[N], short (*restrict rested)[N], int *restrict longest, int *restrict ended,
            int *restrict open, int *restrict weeks) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int run = 0, most = 0, place = 0, many = 0;
    for (int t = 0; t < N; t++) {
      run = busy[i][t] ? 0 : run + 1;
      rested[i][t] = run;
      if (run > most) most = run, place = t;
      many += run == 7;
    }
    longest[i] = most, ended[i] = place, open[i] = run, weeks[i] = many;
  }
}
"""


def idle_streaks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A day after the other."""
    import numpy as np

    run, rested = np.zeros(s["m"], np.int32), np.zeros((s["m"], s["n"]), np.int32)
    for t in range(s["n"]):
        run = np.where(x["busy"][:, t] > 0, 0, run + 1)
        rested[:, t] = run
    most, weeks = rested.max(axis=1), (rested == 7).sum(axis=1).astype(np.int32)
    ended = rested.argmax(axis=1).astype(np.int32)
    return {"rested": rested.astype(np.int16), "longest": most, "ended": ended, "open": run.astype(np.int32), "weeks": weeks}
