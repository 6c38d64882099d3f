"""Earth sciences: weather, oceans, terrain, coordinates on the globe.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    Node,
    asin,
    atan2,
    cast,
    clip,
    cos,
    exp,
    float32,
    float64,
    int16,
    int32,
    maximum,
    minimum,
    power,
    rsqrt,
    sin,
    sqrt,
    uint8,
    where,
)


def haversine(m: int = 512, n: int = 1024) -> Kernel:
    """The distances in kilometres on the globe between places of two lists, in float64; places are in radians."""
    kb = KernelBuilder("haversine")
    i, j = kb.axis("m", m), kb.axis("n", n)
    lat, lon = kb.input("lat", (m,), float64, range=(-1.5, 1.5)), kb.input("lon", (m,), float64, range=(-3.1, 3.1))
    lat2, lon2 = kb.input("lat2", (n,), float64, range=(-1.5, 1.5)), kb.input("lon2", (n,), float64, range=(-3.1, 3.1))
    up, across = sin((lat2[j] - lat[i]) * 0.5), sin((lon2[j] - lon[i]) * 0.5)
    h = up * up + cos(lat[i]) * cos(lat2[j]) * across * across
    kb.store("km", float64, (m, n), (i, j), 12742.0 * asin(sqrt(minimum(h, 1.0))))
    return kb.build()


def terrain_slope(h: int = 1024, w: int = 1024) -> Kernel:
    """How steep a grid of heights in metres is at every point (Horn's way), and how bright the sun makes it, as a byte."""
    kb = KernelBuilder("terrain_slope")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z = kb.input("z", (h, w), int16, range=(0, 3000))

    def at(p: int, q: int) -> Node:
        return cast(z[minimum(maximum(i + p, 0), h - 1), minimum(maximum(j + q, 0), w - 1)], float32)

    east = at(-1, 1) + 2.0 * at(0, 1) + at(1, 1) - at(-1, -1) - 2.0 * at(0, -1) - at(1, -1)
    south = at(1, -1) + 2.0 * at(1, 0) + at(1, 1) - at(-1, -1) - 2.0 * at(-1, 0) - at(-1, 1)
    east, south = east * (1 / 240), south * (1 / 240)
    steep = east * east + south * south
    kb.store("slope", float32, (h, w), (i, j), sqrt(steep))
    light = (0.7071 + 0.5 * (east + south)) / sqrt(1.0 + steep)
    kb.store("shade", uint8, (h, w), (i, j), cast(maximum(light, 0.0) * 255.0, int32))
    return kb.build()


def geodetic_to_ecef(n: int = 20000) -> Kernel:
    """Latitude, longitude, height on WGS84 to earth-centred coordinates."""
    kb = KernelBuilder("geodetic_to_ecef")
    i = kb.axis("n", n)
    x = kb.input("x", (n, 3), float64, range=(-90.0, 90.0))
    lat, lon, high = x[i, 0] * 0.017453292519943295, x[i, 1] * 0.03490658503988659, x[i, 2]
    s, c = sin(lat), cos(lat)
    r = 6378137.0 / sqrt(1.0 - 0.0066943799901413165 * s * s)
    kb.store("y", float64, (n, 3), (i,), (r + high) * c * cos(lon), (i, 0))
    kb.store("y", float64, (n, 3), (i,), (r + high) * c * sin(lon), (i, 1))
    kb.store("y", float64, (n, 3), (i,), (r * (1.0 - 0.0066943799901413165) + high) * s, (i, 2))
    return kb.build()


DENSITY = (
    (-0.157406, 6.793952e-2, -9.09529e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9),
    (0.824493, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9),
    (-5.72466e-3, 1.0227e-4, -1.6546e-6),
    (4.8314e-4,),
)
"""What sea water at the surface weighs beyond 1000 kg/m³: polynomials of the temperature, by S⁰, S¹, S^1.5 and S²."""


def mixed_layers(l: int = 31, h: int = 61, w: int = 122) -> Kernel:
    """How deep an ocean is mixed: where water is 0.03 kg/m³ heavier than at the surface, and what heat lies above."""
    kb = KernelBuilder("mixed_layers")
    y, x, k, q, r = kb.axis("h", h), kb.axis("w", w), kb.axis("l@depth", l), kb.axis("l@first", l), kb.axis("l@heat", l)
    temp, salt = kb.input("temp", (l, h, w), float64, range=(10.0, 10.2)), kb.input("salt", (l, h, w), float64, range=(35.0, 35.02))
    thick, wet = kb.input("thick", (l,), float64, range=(5.0, 50.0)), kb.input("wet", (h, w), uint8, range=(0, l))

    def density(k: Any) -> Any:
        t, s = temp[k, y, x], salt[k, y, x]
        sums = []
        for terms in DENSITY:
            total: Any = terms[-1]
            for c in terms[-2::-1]:
                total = total * t + c
            sums.append(total)
        return sums[0] + s * sums[1] + s * sqrt(s) * sums[2] + s * s * sums[3]

    depth = kb.scan("add", "depth", (k,), k, thick[k])
    many = cast(wet[y, x], int32)
    limit = kb.value("limit", (y, x), density(0) + 0.03)
    first = kb.min("first", (y, x), q, where((cast(q, int32) < many) & (density(q) > limit[y, x]), cast(q, int32), many))
    kb.store("levels", int32, (h, w), (y, x), first[y, x])
    heat = kb.sum("warmth", (y, x), r, where(cast(r, int32) < first[y, x], temp[r, y, x] * thick[r], 0.0))
    kb.store("heat", float64, (h, w), (y, x), heat[y, x])
    below = clip(first[y, x], 1, l - 1)
    above, over = below - 1, density(below - 1)
    part = (limit[y, x] - over) / (density(below) - over)
    between = depth[above] + (depth[below] - depth[above]) * part
    bottom = depth.masked(many > 0, clip(many - 1, 0, l - 1))
    kb.store("mixed", float64, (h, w), (y, x), where(first[y, x] < many, between, bottom))
    return kb.build()


def ocean_pressure(l: int = 31, h: int = 90, w: int = 121) -> Kernel:
    """The density of sea water by temperature and salt (UNESCO's polynomial), and the pressure of what lies above."""
    kb = KernelBuilder("ocean_pressure")
    k, i, j = kb.axis("l", l), kb.axis("h", h), kb.axis("w", w)
    t = kb.input("t", (l, h, w), float32, range=(-2.0, 30.0))
    s, deep = kb.input("s", (l, h, w), float32, range=(30.0, 38.0)), kb.input("deep", (l,), float32, range=(5.0, 200.0))
    a, b = t[k, i, j], s[k, i, j]

    def poly(*of: float) -> Any:
        acc: Any = of[0]
        for c in of[1:]:
            acc = acc * a + c
        return acc

    salt = poly(5.3875e-9, -8.2467e-7, 7.6438e-5, -4.0899e-3, 0.824493) * b
    root = poly(-1.6546e-6, 1.0227e-4, -5.72466e-3) * b**1.5
    fresh = poly(6.536332e-9, -1.120083e-6, 1.001685e-4, -9.09529e-3, 6.793952e-2, -0.157406)
    excess = kb.value("excess", (k, i, j), fresh + salt + root + b * b * 4.8314e-4)  # less 1000 kg/m³
    below = kb.scan("add", "below", (k, i, j), k, (excess[k, i, j] + 1000.0) * (9.81e-4 * deep[k]))
    kb.store("rho", float32, (l, h, w), (k, i, j), excess[k, i, j])
    kb.store("press", float32, (l, h, w), (k, i, j), below[k, i, j] - (excess[k, i, j] + 1000.0) * (4.905e-4 * deep[k]))
    return kb.build()


def levels_of_pressure(l: int = 20, t: int = 5, h: int = 33, w: int = 45) -> Kernel:
    """A field on a model's levels, whose pressures add up from the top, linearly at some pressures that are asked for."""
    kb = KernelBuilder("levels_of_pressure")
    k, b, a, i, j = kb.axis("l", l), kb.axis("below", l - 1), kb.axis("t", t), kb.axis("h", h), kb.axis("w", w)
    x, thick = kb.input("x", (l, h, w), float32), kb.input("thick", (l, h, w), float32, range=(10.0, 40.0))
    want = kb.input("want", (t,), float32, range=(45.0, 195.0) if l > 19 else (45.0, 59.0))
    press = kb.scan("add", "press", (k, i, j), k, thick[k, i, j])
    above, under = press[b, i, j], press[b + 1, i, j]
    part = (want[a] - above) / (under - above)
    mixed = x[b, i, j] + part * (x[b + 1, i, j] - x[b, i, j])
    at = kb.sum("at", (a, i, j), b, where((above <= want[a]) & (want[a] < under), mixed, 0.0))
    kb.store("y", float32, (t, h, w), (a, i, j), at[a, i, j])
    return kb.build()


def sky_view(h: int = 257, w: int = 311, r: int = 12) -> Kernel:
    """The share of the sky that each point of a map sees: in eight directions the steepest rise within r steps."""
    kb = KernelBuilder("sky_view")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z, total = kb.input("z", (h, w), float32), 0.0
    for n, (dy, dx) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))):
        s = kb.axis(f"r@{n}", r)
        y, x = i + (s + 1) * dy, j + (s + 1) * dx
        inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
        rise = (z.masked(inside, y, x) - z[i, j]) / (cast(s + 1, float32) * (abs(dy) + abs(dx)) ** 0.5)
        most = maximum(kb.max(f"most{n}", (i, j), s, where(inside, rise, 0.0))[i, j], 0.0)
        total = total + 1.0 - most * rsqrt(1.0 + most * most)
    kb.store("y", float32, (h, w), (i, j), total * 0.125)
    return kb.build()


def d8_flow(h: int = 211, w: int = 307) -> Kernel:
    """Which of its eight neighbours each cell of a terrain drains to (128 = north east … 64 = north; 0 = a pit), and how many drain to it."""
    kb = KernelBuilder("d8_flow")
    i, j = kb.axis("h", h), kb.axis("w", w)
    z = kb.input("z", (h, w), "float32")
    ways = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    steepest: Any = 0.0
    way: Any = 0
    inside = [(i + p >= 0) & (i + p < h) & (j + q >= 0) & (j + q < w) for p, q in ways]
    for k, (p, q) in enumerate(ways):
        drop = where(inside[k], z[i, j] - z.masked(inside[k], i + p, j + q), 0.0) * (0.70710678 if p and q else 1.0)
        way, steepest = where(drop > steepest, 1 << k, way), maximum(drop, steepest)
    to = kb.value("to", (i, j), cast(way, "uint8"))
    donors: Any = sum(where(to.masked(inside[k], i + p, j + q).eq(1 << (k + 4) % 8), 1, 0) for k, (p, q) in enumerate(ways))
    kb.store("way", "uint8", (h, w), (i, j), to[i, j])
    kb.store("donors", "uint8", (h, w), (i, j), donors)
    return kb.build()


def soil_bucket(t: int = 365, c: int = 641) -> Kernel:
    """Water in the soil of each cell, day by day: rain fills it, plants drink, what its depth can't hold runs off."""
    kb = KernelBuilder("soil_bucket")
    i, j = kb.axis("t", t), kb.axis("c", c)
    rain, drunk = kb.input("rain", (t, c), "float32", range=(0.0, 12.0)), kb.input("drunk", (t, c), "float32", range=(0.0, 10.0))
    deep = kb.input("deep", (c,), "float32", range=(50.0, 150.0))
    gain = rain[i, j] - drunk[i, j]

    def rule(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        return x[0] + y[0], maximum(x[1] + y[0], y[1]), minimum(maximum(x[2] + y[0], y[1]), y[2])

    least, most = float("-inf"), float("inf")
    add, lo, hi = kb.associative_scan(("add", "lo", "hi"), (i, j), i, (gain, deep[j] * 0.0, deep[j]), (0.0, least, most), rule)
    wet = kb.value("wet", (i, j), minimum(maximum(deep[j] * 0.5 + add[i, j], lo[i, j]), hi[i, j]))
    before = where(i > 0, wet.masked(i > 0, i - 1, j), deep[j] * 0.5)
    kb.store("water", "float32", (t, c), (i, j), wet[i, j])
    kb.store("runoff", "float32", (t, c), (i, j), maximum(before + gain - deep[j], 0.0))
    return kb.build()


def weather_at_points(h: int = 179, w: int = 359) -> Kernel:
    """Winds on the edges of a model's cells as speed and direction in the middle, how damp the air is, how cold it feels."""
    kb = KernelBuilder("weather_at_points")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, v = kb.input("u", (h, w + 1), float32, range=(-20.0, 20.0)), kb.input("v", (h + 1, w), float32, range=(-20.0, 20.0))
    t, dew = kb.input("t", (h, w), float32, range=(-20.0, 30.0)), kb.input("dew", (h, w), float32, range=(-30.0, 20.0))
    east, north = (u[i, j] + u[i, j + 1]) * 0.5, (v[i, j] + v[i + 1, j]) * 0.5
    speed = kb.value("wind", (i, j), sqrt(east * east + north * north))
    angle = 270.0 - atan2(north, east) * 57.29578
    damp = exp(dew[i, j] * 17.625 / (dew[i, j] + 243.04) - t[i, j] * 17.625 / (t[i, j] + 243.04)) * 100.0
    fast = power(maximum(speed[i, j], 1.0) * 3.6, 0.16)
    cold = t[i, j] * 0.6215 + 13.12 + fast * (t[i, j] * 0.3965 - 11.37)
    kb.store("speed", float32, (h, w), (i, j), speed[i, j])
    kb.store("from", float32, (h, w), (i, j), where(angle >= 360.0, angle - 360.0, angle))
    kb.store("humidity", float32, (h, w), (i, j), where(damp > 100.0, 100.0, damp))
    kb.store("feels", float32, (h, w), (i, j), where((t[i, j] < 10.0) & (speed[i, j] > 1.3), cold, t[i, j]))
    return kb.build()


def melting_level(l: int = 37, h: int = 113, w: int = 151) -> Kernel:
    """How high the air first is colder than 0 °C (layers every 300 m, differences from a standard atmosphere), and the water above."""
    kb = KernelBuilder("melting_level")
    i, j, k, m = kb.axis("h", h), kb.axis("w", w), kb.axis("l@cold", l), kb.axis("l@water", l)
    apart, q = kb.input("apart", (l, h, w), float32, range=(-4.0, 4.0)), kb.input("q", (l, h, w), float32, range=(0.0, 0.01))
    mass = kb.input("mass", (l,), float32, range=(100.0, 300.0))

    def warm(at: Any) -> Any:
        return apart[at, i, j] + (12.0 - cast(at, float32) * 1.95)

    first = kb.min("first", (i, j), k, where(warm(k) < 0.0, cast(k, int32), l))
    after = kb.value("after", (i, j), where(first[i, j] < l, maximum(first[i, j], 1), 1))
    water = kb.sum("column", (i, j), m, q[m, i, j] * mass[m])
    below, above = warm(after[i, j] - 1), warm(after[i, j])
    part = below / where(below > above, below - above, 1.0)
    level = where(first[i, j].eq(0), 0.0, (cast(after[i, j] - 1, float32) + part) * 300.0)
    kb.store("level", float32, (h, w), (i, j), where(first[i, j].eq(l), -1.0, level))
    kb.store("water", float32, (h, w), (i, j), water[i, j])
    return kb.build()


def station_normals(y: int = 12, d: int = 365, s: int = 997) -> Kernel:
    """Temperatures of each day (in tenths; below -400 there is none): the mean of each date over the years, and how far each day was off."""
    kb = KernelBuilder("station_normals")
    a, i, j, b, c = kb.axis("y", y), kb.axis("d", d), kb.axis("s", s), kb.axis("y@total", y), kb.axis("y@many", y)
    x = kb.input("x", (y, d, s), int16, range=(-500, 400))
    total = kb.sum("total", (i, j), b, where(x[b, i, j] >= -400, cast(x[b, i, j], int32), 0))
    many = kb.sum("many", (i, j), c, x[c, i, j] >= -400)
    mean = kb.value("mean", (i, j), cast(total[i, j], float32) / cast(maximum(many[i, j], 1), float32))
    kb.store("normal", float32, (d, s), (i, j), mean[i, j])
    off = cast(x[a, i, j], float32) - mean[i, j]
    kb.store("off", float32, (y, d, s), (a, i, j), where(x[a, i, j] >= -400, off, -9999.0))
    return kb.build()
