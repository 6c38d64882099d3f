"""Finance: options, bonds, indicators, order books, volatility.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    cast,
    clip,
    erf,
    exp,
    float32,
    float64,
    floor,
    int8,
    int32,
    int64,
    log,
    maximum,
    sqrt,
    where,
)


def key_rate_durations(n: int = 2003, c: int = 40, k: int = 31) -> Kernel:
    """The price of each bond on a curve of zero rates at whole years, and what a basis point of each of them changes."""
    kb = KernelBuilder("key_rate_durations")
    i, j, a, b = kb.axis("n", n), kb.axis("c", c), kb.axis("c@low", c), kb.axis("c@high", c)
    when = kb.input("when", (n, c), float64, range=(0.05, k - 1.01))
    pays, zero = kb.input("pays", (n, c), float64, range=(0.5, 5.0)), kb.input("zero", (k,), float64, range=(0.01, 0.05))

    def flow(j: Any) -> tuple[Any, Any, Any]:
        t = when[i, j]
        at = cast(floor(t), int64)
        part = t - floor(t)
        rate = zero[at] * (1.0 - part) + zero[at + 1] * part
        return at, part, pays[i, j] * exp(-rate * t)

    price = kb.sum("total", (i,), j, flow(j)[2])
    kb.store("price", float64, (n,), (i,), price[i])
    at, part, worth = flow(a)
    kb.store("change", float64, (n, k), (i, a), worth * when[i, a] * (1.0 - part) * -1e-4, (i, at), combine="add")
    at, part, worth = flow(b)
    kb.store("change", float64, (n, k), (i, b), worth * when[i, b] * part * -1e-4, (i, at + 1), combine="add")
    return kb.build()


def asian_option(p: int = 8192, t: int = 128) -> Kernel:
    """What a call on the mean price pays along each of many random paths of a geometric Brownian motion."""
    kb = KernelBuilder("asian_option")
    i, j = kb.axis("p", p), kb.axis("t", t)
    z = kb.input("z", (p, t), float32)
    way = kb.scan("add", "way", (i, j), j, 0.02 * z[i, j] + 0.0001)
    mean = kb.sum("mean", (i,), j, exp(way[i, j]) * (100.0 / t))
    kb.store("pays", float32, (p,), (i,), maximum(mean[i] - 101.0, 0.0))
    return kb.build()


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


def chain_ladder(b: int = 2003, n: int = 18) -> Kernel:
    """Reserves by the chain ladder: what is paid adds up along each triangle's rows, its columns give factors, these what is to come."""
    kb = KernelBuilder("chain_ladder")
    k, i, j = kb.axis("b", b), kb.axis("n", n), kb.axis("n@dev", n)
    paid = kb.input("paid", (b, n, n), "float64", range=(1.0, 100.0))
    cum = kb.scan("add", "cum", (k, i, j), j, paid[k, i, j])
    d, r, q, up = kb.axis("f", n - 1), kb.axis("n@after", n), kb.axis("n@before", n), kb.axis("f@up", n - 1)
    after = kb.sum("after", (k, d), r, where(r + d < n - 1, cum[k, r, d + 1], 0.0))
    before = kb.sum("before", (k, d), q, where(q + d < n - 1, cum[k, q, d], 0.0))
    factor = kb.value("factor", (k, d), after[k, d] / before[k, d])
    rest = kb.scan("mul", "rest", (k, up), up, factor[k, n - 2 - up])

    def reserve(o: Any) -> Any:
        return cum[k, o, n - 1 - o] * where(o > 0, rest.masked(o > 0, k, o - 1) - 1.0, 0.0)

    o = kb.axis("n@total", n)
    total = kb.sum("total", (k,), o, reserve(o))
    kb.store("factors", "float64", (b, n - 1), (k, d), factor[k, d])
    kb.store("reserves", "float64", (b, n), (k, i), reserve(i))
    kb.store("all", "float64", (b,), (k,), total[k])
    return kb.build()


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


def order_book_fill(n: int = 6007, l: int = 10) -> Kernel:
    """What a market order pays a share as it eats through l levels of a book, and how many shares it gets."""
    kb = KernelBuilder("order_book_fill")
    i, j, p, q = kb.axis("n", n), kb.axis("l@before", l), kb.axis("l@cost", l), kb.axis("l@shares", l)
    price, size = kb.input("price", (n, l), float64, range=(99.0, 101.0)), kb.input("size", (n, l), int32, range=(1, 500))
    want = kb.input("want", (n,), int32, range=(1, 3000))
    upto = kb.scan("add", "upto", (i, j), j, size[i, j])

    def taken(k: Any) -> Any:
        return clip(want[i] - (upto[i, k] - size[i, k]), 0, size[i, k])

    cost = kb.sum("cost", (i,), p, cast(taken(p), float64) * price[i, p])
    shares = kb.sum("shares", (i,), q, taken(q))
    kb.store("mean", float64, (n,), (i,), cost[i] / cast(shares[i], float64))
    kb.store("got", int32, (n,), (i,), shares[i])
    return kb.build()


def black_scholes(n: int = 1 << 20) -> Kernel:
    """Prices of European calls and puts; volatility and rate are in percent, time in years."""
    kb = KernelBuilder("black_scholes")
    i = kb.axis("n", n)
    spot, strike = (kb.input(name, (n,), float32, range=(50, 150)) for name in ("spot", "strike"))
    years, percent = kb.input("years", (n,), float32, range=(1, 5)), kb.input("percent", (n,), float32, range=(10, 60))
    rate, vol = 0.03, percent[i] * 0.01
    width = vol * sqrt(years[i])
    d1 = kb.value("d1", (i,), (log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / width)
    d2 = d1[i] - width
    later = strike[i] * exp(years[i] * -rate)
    paid, gone = (0.5 + 0.5 * erf(d * 0.5**0.5) for d in (d1[i], d2))
    call = kb.value("price", (i,), spot[i] * paid - later * gone)
    kb.store("call", float32, (n,), (i,), call[i])
    kb.store("put", float32, (n,), (i,), call[i] + later - spot[i])
    return kb.build()


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


def drawdown(b: int = 512, t: int = 4096) -> Kernel:
    """How far a running sum lies below its largest value so far: two scans over time."""
    kb = KernelBuilder("drawdown")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x = kb.input("x", (b, t), float32)
    total = kb.scan("add", "total", (i, j), j, x[i, j])
    top = kb.scan("max", "top", (i, j), j, total[i, j])
    kb.store("y", float32, (b, t), (i, j), top[i, j] - total[i, j])
    return kb.build()


def column_drawdown(t: int = 2048, n: int = 1024) -> Kernel:
    """How far each of many series is below its highest value so far; a row is a moment."""
    kb = KernelBuilder("column_drawdown")
    i, j = kb.axis("t", t), kb.axis("n", n)
    x = kb.input("x", (t, n), float32)
    top = kb.scan("max", "top", (i, j), i, x[i, j])
    kb.store("y", float32, (t, n), (i, j), top[i, j] - x[i, j])
    return kb.build()


def window_range(n: int = 1 << 20, k: int = 9) -> Kernel:
    """The largest less the smallest of the next k prices."""
    kb = KernelBuilder("window_range")
    i, a, b = kb.axis("n", n), kb.axis("k@hi", k), kb.axis("k@lo", k)
    x = kb.input("x", (n + k - 1,), float32)
    hi, lo = kb.max("hi", (i,), a, x[i + a]), kb.min("lo", (i,), b, x[i + b])
    kb.store("y", float32, (n,), (i,), hi[i] - lo[i])
    return kb.build()
