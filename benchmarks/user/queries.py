"""Queries on tables: aggregates, with and without groups, and parts of dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float64, int8, int32, int64, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "group_aggregates": ("aggregates", {"n": 300, "g": 11}),
    "q6_filter": ("aggregates", {"n": 101}),
    "q1_groups": ("aggregates", {"n": 101}),
    "date_parts": ("chains of integers", {"n": 101}),
    "date_parts32": ("chains of integers", {"n": 101}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def group_aggregates(n: int = 60001, g: int = 300) -> Kernel:
    """SELECT key, SUM(v), MIN(v), MAX(v), COUNT(*) GROUP BY key; groups without rows have ±1e300."""
    kb = KernelBuilder("group_aggregates")
    i = kb.axis("n", n)
    key, v = kb.input("key", (n,), int32, range=(0, g - 1)), kb.input("v", (n,), float64)
    at = cast(key[i], "int64")
    kb.store("total", float64, (g,), (i,), v[i], at, combine="add")
    kb.store("least", float64, (g,), (i,), v[i], at, combine="min")
    kb.store("most", float64, (g,), (i,), v[i], at, combine="max")
    kb.store("count", int32, (g,), (i,), 1, at, combine="add")
    return kb.build()


C["group_aggregates"] = """
#include <math.h>
void kernel(const int *restrict key, const double *restrict v, double *restrict total, double *restrict least,
            double *restrict most, int *restrict count) {
  for (int k = 0; k < G; k++) total[k] = 0, least[k] = INFINITY, most[k] = -INFINITY, count[k] = 0;
#pragma omp parallel for reduction(+ : total[:G], count[:G]) reduction(min : least[:G]) reduction(max : most[:G])
  for (int i = 0; i < N; i++) {
    int k = key[i];
    total[k] += v[i];
    least[k] = v[i] < least[k] ? v[i] : least[k];
    most[k] = v[i] > most[k] ? v[i] : most[k];
    count[k]++;
  }
}
"""


def group_aggregates_numpy(x: Arrays, s: Sizes) -> Arrays:
    """ufunc.at."""
    import numpy as np

    g, k, v = s["g"], x["key"], x["v"]
    least, most = np.full(g, np.inf), np.full(g, -np.inf)
    np.minimum.at(least, k, v)
    np.maximum.at(most, k, v)
    return {"total": np.bincount(k, v, g), "least": least, "most": most, "count": np.bincount(k, minlength=g).astype(np.int32)}


def q6_filter(n: int = 150001) -> Kernel:
    """SELECT SUM(price * discount), COUNT(*) WHERE day BETWEEN … AND discount BETWEEN … AND quantity < 24."""
    kb = KernelBuilder("q6_filter")
    i, k = kb.axis("n@sum", n), kb.axis("n@count", n)
    price = kb.input("price", (n,), float64, range=(1.0, 1000.0))
    discount, quantity = kb.input("discount", (n,), int8, range=(0, 10)), kb.input("quantity", (n,), int8, range=(1, 50))
    day = kb.input("day", (n,), int32, range=(8000, 10500))

    def kept(at: Any) -> Any:
        when = (day[at] >= 8766) & (day[at] < 9131)
        return when & (discount[at] >= 5) & (discount[at] <= 7) & (quantity[at] < 24)

    total = kb.sum("total", (), i, where(kept(i), price[i] * cast(discount[i], float64) * 0.01, 0.0))
    count = kb.sum("many", (), k, cast(kept(k), int32))
    kb.store("sum", float64, (1,), (), total[()], (0,))
    kb.store("count", int32, (1,), (), count[()], (0,))
    return kb.build()


C["q6_filter"] = """
void kernel(const double *restrict price, const signed char *restrict discount, const signed char *restrict quantity,
            const int *restrict day, double *restrict sum, int *restrict count) {
  double total = 0;
  int many = 0;
#pragma omp parallel for reduction(+ : total, many)
  for (int i = 0; i < N; i++)
    if (day[i] >= 8766 & day[i] < 9131 & discount[i] >= 5 & discount[i] <= 7 & quantity[i] < 24) {
      total += price[i] * discount[i] * 0.01;
      many++;
    }
  sum[0] = total;
  count[0] = many;
}
"""


def q6_filter_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A mask."""
    import numpy as np

    d, q, t = x["discount"], x["quantity"], x["day"]
    kept = (t >= 8766) & (t < 9131) & (d >= 5) & (d <= 7) & (q < 24)
    return {"sum": (x["price"] * d * 0.01)[kept].sum(keepdims=True), "count": np.array([kept.sum()], np.int32)}


def q1_groups(n: int = 50001) -> Kernel:
    """Of the rows up to a day, by two flags: sums of the quantity, of the price, of what was charged, and the count."""
    kb = KernelBuilder("q1_groups")
    i = kb.axis("n", n)
    flag, status = kb.input("flag", (n,), uint8, range=(0, 2)), kb.input("status", (n,), uint8, range=(0, 1))
    quantity, day = kb.input("quantity", (n,), int32, range=(1, 50)), kb.input("day", (n,), int32, range=(8000, 10500))
    price = kb.input("price", (n,), float64, range=(1.0, 1000.0))
    discount = kb.input("discount", (n,), float64, range=(0.0, 0.1))
    tax = kb.input("tax", (n,), float64, range=(0.0, 0.08))
    at, kept = cast(flag[i], int64) * 2 + cast(status[i], int64), day[i] <= 10000
    charged = price[i] * (1.0 - discount[i]) * (1.0 + tax[i])
    kb.store("quantities", int32, (6,), (i,), where(kept, quantity[i], 0), at, combine="add")
    kb.store("prices", float64, (6,), (i,), where(kept, price[i], 0.0), at, combine="add")
    kb.store("charges", float64, (6,), (i,), where(kept, charged, 0.0), at, combine="add")
    kb.store("count", int32, (6,), (i,), cast(kept, int32), at, combine="add")
    return kb.build()


C["q1_groups"] = """
static void part(const unsigned char *restrict flag, const unsigned char *restrict status, const int *restrict quantity,
                 const int *restrict day, const double *restrict price, const double *restrict discount, const double *restrict tax,
                 int *restrict quantities, double *restrict prices, double *restrict charges, int *restrict count, int many) {
  for (int i = 0; i < many; i++)
    if (day[i] <= 10000) {
      int k = flag[i] * 2 + status[i];
      quantities[k] += quantity[i];
      prices[k] += price[i];
      charges[k] += price[i] * (1 - discount[i]) * (1 + tax[i]);
      count[k]++;
    }
}
void kernel(const unsigned char *restrict flag, const unsigned char *restrict status, const int *restrict quantity,
            const int *restrict day, const double *restrict price, const double *restrict discount, const double *restrict tax,
            int *restrict quantities, double *restrict prices, double *restrict charges, int *restrict count) {
  for (int k = 0; k < 6; k++) quantities[k] = count[k] = prices[k] = charges[k] = 0;
#pragma omp parallel for reduction(+ : quantities[:6], prices[:6], charges[:6], count[:6])
  for (int i = 0; i < N; i += 1024)
    part(flag + i, status + i, quantity + i, day + i, price + i, discount + i, tax + i, quantities, prices, charges, count,
         N - i < 1024 ? N - i : 1024);
}
"""


def q1_groups_numpy(x: Arrays, s: Sizes) -> Arrays:
    """bincount."""
    import numpy as np

    k, kept = x["flag"].astype(np.int64) * 2 + x["status"], x["day"] <= 10000
    charged = x["price"] * (1 - x["discount"]) * (1 + x["tax"])

    def total(v: Any) -> Any:
        return np.bincount(k, np.where(kept, v, 0), 6)

    quantities, count = total(x["quantity"]).astype(np.int32), total(1).astype(np.int32)
    return {"quantities": quantities, "prices": total(x["price"]), "charges": total(charged), "count": count}


def date_parts(n: int = 30001) -> Kernel:
    """Year, month, day, weekday and second of the day from seconds since 1970 (the algorithm of days and eras)."""
    kb = KernelBuilder("date_parts")
    i = kb.axis("n", n)
    t = kb.input("t", (n,), int64, range=(0, 4_000_000_000))
    days = t[i] // 86400
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = where(mp < 10, mp + 3, mp - 9)
    year = yoe + era * 400 + cast(month <= 2, int64)
    kb.store("ymd", int32, (n,), (i,), cast(year * 10000 + month * 100 + day, int32))
    kb.store("weekday", int8, (n,), (i,), cast((days + 4) % 7, int8))
    kb.store("second", int32, (n,), (i,), cast(t[i] - days * 86400, int32))
    return kb.build()


C["date_parts"] = """
void kernel(const long long *restrict t, int *restrict ymd, signed char *restrict weekday, int *restrict second) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int days = t[i] / 86400;
    second[i] = t[i] - days * 86400LL;
    weekday[i] = (days + 4) % 7;
    unsigned z = days + 719468, era = z / 146097, doe = z - era * 146097;
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    unsigned day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = yoe + era * 400 + (month <= 2);
    ymd[i] = year * 10000 + month * 100 + day;
  }
}
"""


def date_parts_numpy(x: Arrays, s: Sizes) -> Arrays:
    """datetime64."""
    import numpy as np

    days = x["t"] // 86400
    d = days.astype("datetime64[D]")
    month, year = d.astype("datetime64[M]"), d.astype("datetime64[Y]")
    ymd = (year.astype(np.int64) + 1970) * 10000 + (month.astype(np.int64) % 12 + 1) * 100 + (d - month).astype(np.int64) + 1
    return {"ymd": ymd.astype(np.int32), "weekday": ((days + 4) % 7).astype(np.int8), "second": (x["t"] % 86400).astype(np.int32)}


def date_parts32(n: int = 30001) -> Kernel:
    """Year, month and day as one number from days since 1970, all in int32."""
    kb = KernelBuilder("date_parts32")
    i = kb.axis("n", n)
    t = kb.input("days", (n,), int32, range=(0, 50000))
    z = t[i] + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = where(mp < 10, mp + 3, mp - 9)
    year = yoe + era * 400 + cast(month <= 2, int32)
    kb.store("ymd", int32, (n,), (i,), year * 10000 + month * 100 + day)
    return kb.build()


C["date_parts32"] = """
void kernel(const int *restrict t, int *restrict ymd) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    unsigned z = t[i] + 719468, era = z / 146097, doe = z - era * 146097;
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    unsigned day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = yoe + era * 400 + (month <= 2);
    ymd[i] = year * 10000 + month * 100 + day;
  }
}
"""


def date_parts32_numpy(x: Arrays, s: Sizes) -> Arrays:
    """datetime64."""
    import numpy as np

    d = x["days"].astype(np.int64).astype("datetime64[D]")
    month, year = d.astype("datetime64[M]"), d.astype("datetime64[Y]")
    ymd = (year.astype(np.int64) + 1970) * 10000 + (month.astype(np.int64) % 12 + 1) * 100 + (d - month).astype(np.int64) + 1
    return {"ymd": ymd.astype(np.int32)}
