"""Medical imaging: tomography, magnetic resonance, ultrasound, electrocardiograms.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    float32,
    floor,
    int16,
    int32,
    int64,
    round_even,
    rsqrt,
    sqrt,
    uint8,
    where,
)


def back_projection(h: int = 193, w: int = 181, a: int = 120, r: int = 277) -> Kernel:
    """A tomograph's picture: for each pixel the sum over angles of what its ray met, linearly between detectors."""
    kb = KernelBuilder("back_projection")
    i, j, t = kb.axis("h", h), kb.axis("w", w), kb.axis("a", a)
    sino = kb.input("sino", (a, r), float32)
    co, si = kb.input("co", (a,), float32, range=(-1.0, 1.0)), kb.input("si", (a,), float32, range=(-1.0, 1.0))
    x, y = cast(j, float32) - 0.5 * (w - 1), cast(i, float32) - 0.5 * (h - 1)
    at = clip(x * co[t] + y * si[t] + 0.5 * (r - 1), 0.0, r - 1.001)
    low = floor(at)
    p, part = cast(low, int64), at - low
    seen = kb.sum("seen", (i, j), t, sino[t, p] * (1.0 - part) + sino[t, p + 1] * part)
    kb.store("y", float32, (h, w), (i, j), seen[i, j] * (3.14159265 / a))
    return kb.build()


def coil_combine(c: int = 8, h: int = 151, w: int = 211) -> Kernel:
    """One complex picture from those of a magnet's coils: weighted by their sensitivities, conjugate, over their length."""
    kb = KernelBuilder("coil_combine")
    i, j = kb.axis("h", h), kb.axis("w", w)
    a, b, e = (kb.axis(f"c@{n}", c) for n in ("re", "im", "power"))
    x, s = kb.input("x", (c, h, w, 2), float32), kb.input("s", (c, h, w, 2), float32)
    re = kb.sum("re", (i, j), a, x[a, i, j, 0] * s[a, i, j, 0] + x[a, i, j, 1] * s[a, i, j, 1])
    im = kb.sum("im", (i, j), b, x[b, i, j, 1] * s[b, i, j, 0] - x[b, i, j, 0] * s[b, i, j, 1])
    power = kb.sum("power", (i, j), e, s[e, i, j, 0] ** 2 + s[e, i, j, 1] ** 2)
    over = rsqrt(power[i, j] + 1e-6)
    kb.store("y", float32, (h, w, 2), (i, j), re[i, j] * over, (i, j, 0))
    kb.store("y", float32, (h, w, 2), (i, j), im[i, j] * over, (i, j, 1))
    return kb.build()


def spoke_gridding(c: int = 3, s: int = 89, r: int = 256, g: int = 160) -> Kernel:
    """Complex samples along spokes, spread over the 4 × 4 nearest places of each coil's grid with weights from a table."""
    kb = KernelBuilder("spoke_gridding")
    i, j, k, a, b = kb.axis("c", c), kb.axis("s", s), kb.axis("r", r), kb.axis("a", 4), kb.axis("b", 4)
    x, at = kb.input("x", (c, s, r, 2), float32), kb.input("at", (s, r, 2), float32, range=(2.0, g - 3.0))
    dense, table = kb.input("dense", (s, r), float32, range=(0.0, 1.0)), kb.input("table", (129,), float32)

    def place(d: int, step: Any) -> tuple[Any, Any]:
        cell = cast(floor(at[j, k, d]), int32) - 1 + cast(step, int32)
        far = absolute(at[j, k, d] - cast(cell, float32))
        return cell, table[cast(floor(far * 64.0 + 0.5), int32)]

    (y, wy), (z, wz) = place(0, a), place(1, b)
    weight = wy * wz * dense[j, k]
    for d in (0, 1):
        kb.store("grid", float32, (c, g, g, 2), (i, j, k, a, b), x[i, j, k, d] * weight, (i, y, z, d), combine="add")
    return kb.build()


TURN = 6.2831853


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


def ultrasound_focus(c: int = 48, t: int = 1501, z: int = 150, x: int = 97) -> Kernel:
    """An ultrasound picture: at each point the echoes of those receivers that see it steeply, each at its delay, between two samples."""
    kb = KernelBuilder("ultrasound_focus")
    i, j, e, f = kb.axis("z", z), kb.axis("x", x), kb.axis("c@sum", c), kb.axis("c@count", c)
    echo = kb.input("echo", (c, t), int16, range=(-2048, 2047))
    deep = cast(i * 4 + 40, float32)
    aside, beside = (cast(j * 4 - k * 8, float32) for k in (e, f))
    delay = kb.value("delay", (i, j, e), deep + sqrt(deep * deep + aside * aside))
    at = clip(cast(floor(delay[i, j, e]), int32), 0, t - 2)
    part = delay[i, j, e] - cast(at, float32)
    low, high = cast(echo[e, at], float32), cast(echo[e, at + 1], float32)
    total = kb.sum("total", (i, j), e, where(absolute(aside) * 2.0 <= deep, low + part * (high - low), 0.0))
    count = kb.sum("count", (i, j), f, absolute(beside) * 2.0 <= deep)
    kb.store("y", float32, (z, x), (i, j), total[i, j] / cast(count[i, j] + 1, float32))
    return kb.build()


def qrs_energy(c: int = 24, n: int = 10007) -> Kernel:
    """Where hearts beat: a band of frequencies of each lead, its slope squared, the mean of 30 of these, and their most."""
    kb = KernelBuilder("qrs_energy")
    i = kb.axis("c", c)
    low_t, band_t, slope_t, out_t = (kb.axis(name, n - cut) for name, cut in (("low", 10), ("band", 41), ("slope", 45), ("mean@out", 74)))
    mean_t, most_t = kb.axis("mean", n - 74), kb.axis("mean@most", n - 74)
    w, v = kb.axis("wide", 32), kb.axis("beat", 30)
    x = kb.input("x", (c, n), int16, range=(-2048, 2047))
    taps: Any = cast(x[i, low_t], int32)
    for k in range(1, 11):
        taps = taps + cast(x[i, low_t + k], int32) * (6 - abs(5 - k))
    low = kb.value("low", (i, low_t), taps)
    around = kb.sum("around", (i, band_t), w, low[i, band_t + w])
    band = kb.value("band", (i, band_t), (low[i, band_t + 16] * 32 - around[i, band_t]) >> 8)
    slope = band[i, slope_t + 4] * 2 + band[i, slope_t + 3] - band[i, slope_t + 1] - band[i, slope_t] * 2
    square = kb.value("square", (i, slope_t), cast(slope, float32) ** 2)
    energy = kb.sum("sums", (i, mean_t), v, square[i, mean_t + v])
    most = kb.max("peak", (i,), most_t, energy[i, most_t])
    kb.store("energy", float32, (c, n - 74), (i, out_t), energy[i, out_t] * (1.0 / 30))
    kb.store("most", float32, (c,), (i,), most[i] * (1.0 / 30))
    return kb.build()


def spread_on_grid(n: int = 9001, g: int = 260, k: int = 6) -> Kernel:
    """Samples at any place spread on a grid by a table of weights for each direction, real and imaginary parts in planes; visits of a cell."""
    kb = KernelBuilder("spread_on_grid")
    i, a, b, c = kb.axis("n", n), kb.axis("k@y", k), kb.axis("k@x", k), kb.axis("n@visit", n)
    u, v = kb.input("u", (n,), int32, range=(0, g - k)), kb.input("v", (n,), int32, range=(0, g - k))
    down, along = kb.input("down", (n, k), float32), kb.input("along", (n, k), float32)
    re, im = kb.input("re", (n,), float32), kb.input("im", (n,), float32)
    at = (cast(v[i], "int64") + a, cast(u[i], "int64") + b)
    for name, part in (("real", re), ("imag", im)):
        kb.store(name, float32, (g, g), (i, a, b), part[i] * down[i, a] * along[i, b], at, combine="add")
    kb.store(
        "seen", uint8, (g, g), (c,), cast(cast(u[c], int32).eq(u[c]), uint8), (cast(v[c], "int64"), cast(u[c], "int64")), combine="max"
    )
    return kb.build()
