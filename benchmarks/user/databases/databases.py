"""Databases: columns, aggregates, groups, joins, windows, dates and event streams.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    Node,
    absolute,
    cast,
    clip,
    const,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    maximum,
    minimum,
    popcount,
    uint8,
    uint16,
    uint64,
    where,
)


def first_twins(n: int = 1511) -> Kernel:
    """Records of two keys: the first with the same keys, its mean value among them, and whether it is the only one."""
    kb = KernelBuilder("first_twins")
    i = kb.axis("n", n)
    j, k, l = (kb.axis(f"n@{s}", n) for s in ("first", "many", "sum"))
    a, b = kb.input("a", (n,), int64, range=(0, 40)), kb.input("b", (n,), uint8, range=(0, 9))
    x = kb.input("x", (n,), float64)

    def same(o: Any) -> Any:
        return a[i].eq(a[o]) & b[i].eq(b[o])

    first = kb.min("lead", (i,), j, where(same(j), j, n))
    many = kb.sum("many", (i,), k, same(k))
    total = kb.sum("total", (i,), l, where(same(l), x[l], 0.0))
    kb.store("first", int64, (n,), (i,), first[i])
    kb.store("mean", float64, (n,), (i,), total[i] / cast(many[i], float64))
    kb.store("alone", "bool", (n,), (i,), many[i].eq(1))
    kb.store("heads", int32, (1,), (i,), where(first[i].eq(i), 1, 0), (0,), combine="add")
    return kb.build()


def column_with_nulls(n: int = 307, l: int = 128) -> Kernel:
    """Of each chunk of a column (8 l numbers; a bit says whether each is there): how many there are, their sum, least and largest."""
    kb = KernelBuilder("column_with_nulls")
    c = kb.axis("n", n)
    a, b, d, e = (kb.axis(f"l@{site}", 8 * l) for site in ("many", "sum", "least", "largest"))
    x, bits = kb.input("x", (n, 8 * l), float64), kb.input("bits", (n, l), uint8)

    def there(k: Any) -> Any:
        return ((bits[c, k // 8] >> cast(k % 8, uint8)) & 1) > 0

    kb.store("many", int32, (n,), (c,), kb.sum("count", (c,), a, there(a))[c])
    kb.store("sum", float64, (n,), (c,), kb.sum("total", (c,), b, where(there(b), x[c, b], 0.0))[c])
    kb.store("least", float64, (n,), (c,), kb.min("low", (c,), d, where(there(d), x[c, d], float("inf")))[c])
    kb.store("largest", float64, (n,), (c,), kb.max("high", (c,), e, where(there(e), x[c, e], float("-inf")))[c])
    return kb.build()


def dictionary_nulls(n: int = 100003, v: int = 1000) -> Kernel:
    """A column of codes of 16 bits with a bitmap of which rows are there: the dictionary's numbers, and 0 for nulls."""
    kb = KernelBuilder("dictionary_nulls")
    i = kb.axis("n", n)
    code, table = kb.input("code", (n,), uint16, range=(0, v - 1)), kb.input("table", (v,), float64)
    there = kb.input("there", ((n + 7) // 8,), uint8)
    bit = (cast(there[i // 8], int32) >> cast(i % 8, int32)) & 1
    kb.store("y", float64, (n,), (i,), where(bit.ne(0), table[cast(code[i], int64)], 0.0))
    return kb.build()


def bitmaps_and(n: int = 150011) -> Kernel:
    """Rows that three bitmaps hold and a fourth does not, and how many they are."""
    kb = KernelBuilder("bitmaps_and")
    i, j = kb.axis("n", n), kb.axis("n@count", n)
    a, b, c, d = (kb.input(k, (n,), uint64) for k in "abcd")

    def kept(at: Any) -> Any:
        return a[at] & b[at] & c[at] & ~d[at]

    many = kb.sum("many", (), j, cast(popcount(kept(j)), int64))
    kb.store("y", uint64, (n,), (i,), kept(i))
    kb.store("count", int64, (1,), (), many[()], (0,))
    return kb.build()


def top3_of_groups(g: int = 1500, m: int = 64) -> Kernel:
    """The three best-selling articles of each shop, among those in stock: how many, and the articles' keys (-1: no more)."""
    kb = KernelBuilder("top3_of_groups")
    i = kb.axis("g", g)
    sold, stock = kb.input("sold", (g, m), int32, range=(0, 999)), kb.input("stock", (g, m), "bool")
    key = kb.input("key", (g, m), int64)
    places: list[Any] = []
    for rank in range(3):
        j, p = kb.axis(f"m@place{rank}", m), kb.axis(f"m@many{rank}", m)

        def left(j: Any, before: tuple[Any, ...] = tuple(places)) -> Any:
            ok = stock[i, j]
            for place in before:
                ok = ok & cast(j, int32).ne(place[i])
            return where(ok, sold[i, j], -1)

        place = kb.argmax(f"place{rank}", (i,), j, left(j))
        most = kb.max(f"most{rank}", (i,), p, left(p))
        places.append(place)
        kb.store("many", int32, (g, 3), (i,), most[i], (i, rank))
        kb.store("best", int64, (g, 3), (i,), where(most[i] >= 0, key[i, place[i]], -1), (i, rank))
    return kb.build()


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


def window_functions(n: int = 200003) -> Kernel:
    """ROW_NUMBER, AVG over this row and 6 before, and the change since the row before, each OVER (PARTITION BY key)."""
    kb = KernelBuilder("window_functions")
    i, k = kb.axis("n", n), kb.axis("back", 7)
    key, x = kb.input("key", (n,), "int32", range=(0, 1)), kb.input("x", (n,), "float64")
    begins = where((i > 0) & key[i].eq(key.masked(i > 0, i - 1)), 0, cast(i, "int32"))
    start = kb.scan("max", "start", (i,), i, begins)
    row = kb.value("row", (i,), cast(i, "int32") - start[i])
    total = kb.sum("total", (i,), k, where(cast(k, "int32") <= row[i], x.masked(i >= k, i - k), 0.0))
    kb.store("row_number", "int32", (n,), (i,), row[i] + 1)
    kb.store("average", "float64", (n,), (i,), total[i] / cast(minimum(row[i] + 1, 7), "float64"))
    kb.store("change", "float64", (n,), (i,), where(row[i] > 0, x[i] - x.masked(i > 0, i - 1), 0.0))
    return kb.build()


def forward_fill(t: int = 2880, s: int = 211) -> Kernel:
    """Readings of sensors, with what each had last where one is missing (its normal value before any), and how old that is."""
    kb = KernelBuilder("forward_fill")
    i, j = kb.axis("t", t), kb.axis("s", s)
    x, valid = kb.input("x", (t, s), "float32"), kb.input("valid", (t, s), "bool")
    normal = kb.input("normal", (s,), "float32")
    last = kb.scan("max", "last", (i, j), i, where(valid[i, j], cast(i, "int32"), -1))
    kb.store("filled", "float32", (t, s), (i, j), where(last[i, j] >= 0, x[maximum(last[i, j], 0), j], normal[j]))
    kb.store("age", "int32", (t, s), (i, j), where(last[i, j] >= 0, cast(i, "int32") - last[i, j], -1))
    return kb.build()


def asof_quotes(s: int = 120, q: int = 1500, t: int = 1999) -> Kernel:
    """Trades joined with the last quote at or before each, by bisection: its price, and how old it is; 0 and -1 before the first."""
    kb = KernelBuilder("asof_quotes")
    i, j, k = kb.axis("s", s), kb.axis("q", q), kb.axis("t", t)
    gap, price = kb.input("gap", (s, q), int32, range=(1, 9)), kb.input("price", (s, q), float32, range=(1.0, 99.0))
    when = kb.input("when", (s, t), int32, range=(0, 5 * q))
    time = kb.scan("add", "time", (i, j), j, gap[i, j])
    found, step = cast(i * 0, int32), 1 << (q.bit_length() - 1)
    while step:
        at = found + step
        early = (at <= q) & (time[i, minimum(at, q) - 1] <= when[i, k])
        found = kb.value(f"found{step}", (i, k), where(early, at, found))[i, k]
        step //= 2
    last = maximum(found - 1, 0)
    kb.store("paid", float32, (s, t), (i, k), where(found > 0, price[i, last], 0.0))
    kb.store("age", int32, (s, t), (i, k), where(found > 0, when[i, k] - time[i, last], -1))
    return kb.build()


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


def compacted(b: int = 512, n: int = 2048) -> Kernel:
    """The positive numbers of each row, in order and without gaps, then zeros; and how many they are."""
    kb = KernelBuilder("compacted")
    i, j, k = kb.axis("b", b), kb.axis("n", n), kb.axis("n@count", n)
    x = kb.input("x", (b, n), float32)
    before = kb.scan("add", "before", (i, j), j, cast(x[i, j] > 0.0, int32))
    count = kb.sum("count", (i,), k, cast(x[i, k] > 0.0, int32))
    place = clip(before[i, j] - 1, 0, n - 1)
    kb.store("y", float32, (b, n), (i, j), x[i, j], (i, cast(place, "int64")), combine="add", mask=x[i, j] > 0.0)
    kb.store("many", int32, (b,), (i,), count[i])
    return kb.build()


def row_offsets(h: int = 1024, w: int = 2048) -> Kernel:
    """Where each element of a row goes: the sums of the lengths before it (an exclusive scan)."""
    kb = KernelBuilder("row_offsets")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), int32, range=(0, 100))
    total = kb.scan("add", "total", (i, j), j, x.masked(j > 0, i, j - 1))
    kb.store("y", int32, (h, w), (i, j), total[i, j])
    return kb.build()


def segmented_sums(b: int = 512, t: int = 4096) -> Kernel:
    """Running sums of rows that begin anew wherever a flag is set."""
    kb = KernelBuilder("segmented_sums")
    i, j = kb.axis("b", b), kb.axis("t", t)
    start, x = kb.input("start", (b, t), int32, range=(0, 1)), kb.input("x", (b, t), float32)

    def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
        return before[0] | after[0], where(after[0].ne(0), after[1], before[1] + after[1])

    _, h = kb.associative_scan(("any", "h"), (i, j), j, (start[i, j], x[i, j]), (0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), h[i, j])
    return kb.build()


def sorted_rows(b: int = 500, n: int = 61) -> Kernel:
    """Short rows of 16-bit numbers in order, with where each was: its place is how many are less, and equals before it."""
    kb = KernelBuilder("sorted_rows")
    i, j, k = kb.axis("b", b), kb.axis("n", n), kb.axis("n@other", n)
    x = kb.input("x", (b, n), int16)
    less = (x[i, k] < x[i, j]) | (x[i, k].eq(x[i, j]) & (k < j))
    place = kb.sum("place", (i, j), k, cast(less, int32))
    at = cast(minimum(place[i, j], n - 1), int64)
    kb.store("y", int16, (b, n), (i, j), x[i, j], (i, at))
    kb.store("was", int8, (b, n), (i, j), cast(j, int8), (i, at))
    return kb.build()
