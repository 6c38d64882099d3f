"""Physics and chemistry: particles, quantum states, lattices of spins, reactions, astronomy.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from math import pi
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    clip,
    cos,
    erf,
    exp,
    float32,
    float64,
    floor,
    int8,
    int16,
    int32,
    int64,
    log,
    maximum,
    minimum,
    popcount,
    round_even,
    rsqrt,
    sin,
    sqrt,
    uint8,
    uint16,
    where,
)


def ewald_pairs(n: int = 1536) -> Kernel:
    """The part of Ewald's sum that is near, for charges in a box whose nearest images count."""
    kb = KernelBuilder("ewald_pairs")
    i, j = kb.axis("i", n), kb.axis("j", n)
    at, q = kb.input("at", (n, 3), float32, range=(0.0, 1.0)), kb.input("q", (n,), float32)
    square = None
    for c in range(3):
        d = at[i, c] - at[j, c]
        d = d - floor(d + 0.5)
        square = d * d if square is None else square + d * d
    far = sqrt(square + 1e-4)
    total = kb.sum("total", (i,), j, where(i.ne(j) & (far < 0.5), q[j] * (1.0 - erf(4.0 * far)) / far, 0.0))
    kb.store("y", float32, (n,), (i,), q[i] * total[i])
    return kb.build()


def coulomb(n: int = 3072) -> Kernel:
    """The potential at every charge of all others, softened."""
    kb = KernelBuilder("coulomb")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y, z, q = (kb.input(name, (n,), float32) for name in "xyzq")
    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
    total = kb.sum("total", (i,), j, q[j] / sqrt(dx * dx + dy * dy + dz * dz + 0.01))
    kb.store("v", float32, (n,), (i,), total[i])
    return kb.build()


def cloud_in_cell(n: int = 1 << 20, g: int = 4096) -> Kernel:
    """The charge of particles on a line, shared between the two points of a grid that each lies between."""
    kb = KernelBuilder("cloud_in_cell")
    i, side = kb.axis("n", n), kb.axis("side", 2)
    x, q = kb.input("x", (n,), float32, range=(0.0, g - 1.001)), kb.input("q", (n,), float32)
    cell = minimum(cast(floor(x[i]), int32), g - 2)
    right = x[i] - cast(cell, float32)
    share = q[i] * where(side.eq(0), 1.0 - right, right)
    kb.store("rho", float32, (g,), (i, side), share, (cast(cell, "int64") + side,), combine="add")
    return kb.build()


def lennard_jones(n: int = 2560) -> Kernel:
    """The energy of every particle and its share of the virial; a particle does not meet itself."""
    kb = KernelBuilder("lennard_jones")
    i, j = kb.axis("i", n), kb.axis("j", n)
    at = kb.input("at", (n, 3), float32)
    d = [at[i, c] - at[j, c] for c in range(3)]
    near = 1.0 / (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.25)
    six = near * near * near
    energy = kb.sum("energy", (i,), j, where(i.ne(j), six * (six - 1.0), 0.0))
    virial = kb.sum("virial", (i,), j, where(i.ne(j), six * (2.0 * six - 1.0), 0.0))
    kb.store("energies", float32, (n,), (i,), 2.0 * energy[i])
    kb.store("virials", float32, (n,), (i,), 4.0 * virial[i])
    return kb.build()


def nbody(n: int = 3072) -> Kernel:
    """The acceleration of every body by all others, softened; mass and place are arrays of their own."""
    kb = KernelBuilder("nbody")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x, y, z, m = (kb.input(name, (n,), float32) for name in "xyzm")
    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
    square = dx * dx + dy * dy + dz * dz + 0.01
    pull = kb.value("pull", (i, j), m[j] / (square * sqrt(square)))
    for name, d in (("ax", dx), ("ay", dy), ("az", dz)):
        total = kb.sum(f"sum_{name}", (i,), j, pull[i, j] * d)
        kb.store(name, float32, (n,), (i,), total[i])
    return kb.build()


def gravity_components(n: int = 3072) -> Kernel:
    """The acceleration of every body by all others, softened; the three components are an axis."""
    kb = KernelBuilder("gravity_components")
    i, j, c = kb.axis("i", n), kb.axis("j", n), kb.axis("c", 3)
    p, m = kb.input("p", (n, 3), float32), kb.input("m", (n,), float32)
    d = [p[j, k] - p[i, k] for k in range(3)]
    r = 1.0 / sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01)
    f = kb.sum("f", (i, c), j, (p[j, c] - p[i, c]) * (m[j] * r * r * r))
    kb.store("a", float32, (n, 3), (i, c), f[i, c])
    return kb.build()


def boids_step(n: int = 1001) -> Kernel:
    """A step of a flock: towards the middle of those near, along with them, away from those too near, at a limited speed."""
    kb = KernelBuilder("boids_step")
    i = kb.axis("n", n)
    p, v = kb.input("p", (2, n), "float32", range=(0.0, 100.0)), kb.input("v", (2, n), "float32")

    def apart(j: Any) -> Any:
        return (p[0, j] - p[0, i]) ** 2 + (p[1, j] - p[1, i]) ** 2

    m = kb.axis("n@many", n)
    many = kb.sum("many", (i,), m, where((apart(m) < 150.0) & i.ne(m), 1.0, 0.0))
    over = kb.value("over", (i,), where(many[i] > 0.0, 1.0 / maximum(many[i], 1.0), 0.0))
    speed = []
    for d in (0, 1):
        a, b, c = kb.axis(f"n@middle{d}", n), kb.axis(f"n@along{d}", n), kb.axis(f"n@away{d}", n)
        middle = kb.sum(f"middle{d}", (i,), a, where((apart(a) < 150.0) & i.ne(a), p[d, a] - p[d, i], 0.0))
        along = kb.sum(f"along{d}", (i,), b, where((apart(b) < 150.0) & i.ne(b), v[d, b] - v[d, i], 0.0))
        away = kb.sum(f"away{d}", (i,), c, where(apart(c) < 9.0, p[d, i] - p[d, c], 0.0))
        speed.append(v[d, i] + middle[i] * over[i] * 0.005 + along[i] * over[i] * 0.05 + away[i] * 0.05)
    limit = minimum(2.0 * rsqrt(speed[0] * speed[0] + speed[1] * speed[1] + 1e-12), 1.0)
    for d in (0, 1):
        new = kb.value(f"new{d}", (i,), speed[d] * limit)
        kb.store("velocity", "float32", (2, n), (i,), new[i], (d, i))
        kb.store("place", "float32", (2, n), (i,), p[d, i] + new[i], (d, i))
    return kb.build()


def sph_density(n: int = 30011, l: int = 29) -> Kernel:
    """The density of a fluid at its particles from lists of neighbours, of which -1 is none, and how many are near."""
    kb = KernelBuilder("sph_density")
    i, k, k2 = kb.axis("n", n), kb.axis("l", l), kb.axis("l@count", l)
    p, mass = kb.input("p", (n, 3), float32, range=(0.0, 1.0)), kb.input("mass", (n,), float32, range=(0.5, 1.5))
    near = kb.input("near", (n, l), int32, range=(-1, n - 1))

    def left(k: Any) -> Any:
        at = cast(near[i, k], "int64")
        d = [p[i, c] - p.masked(at >= 0, maximum(at, 0), c) for c in range(3)]
        return maximum(0.5 - (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), 0.0)

    there, there2 = near[i, k] >= 0, near[i, k2] >= 0
    weight = mass.masked(there, maximum(cast(near[i, k], "int64"), 0))
    total = kb.sum("total", (i,), k, weight * left(k) * left(k) * left(k))
    close = kb.sum("close", (i,), k2, cast(there2 & (left(k2) > 0.0), int32))
    kb.store("density", float32, (n,), (i,), total[i])
    kb.store("many", int32, (n,), (i,), close[i])
    return kb.build()


def aperture_photometry(n: int = 801, h: int = 600, w: int = 801) -> Kernel:
    """The light of each star within 5 pixels, less the sky's in a ring around, and its signal to noise; edges are soft."""
    kb = KernelBuilder("aperture_photometry")
    i = kb.axis("n", n)
    image = kb.input("image", (h, w), "uint16")
    x, y = kb.input("x", (n,), float32, range=(10.5, w - 11.5)), kb.input("y", (n,), float32, range=(10.5, h - 11.5))
    cy, cx = cast(round_even(y[i]), int64), cast(round_even(x[i]), int64)

    def total(site: str, ring: bool, light: bool) -> Any:
        a, b = kb.axis(f"dy@{site}", 21), kb.axis(f"dx@{site}", 21)
        far = sqrt((cast(cy + a - 10, float32) - y[i]) ** 2 + (cast(cx + b - 10, float32) - x[i]) ** 2)
        weight = clip(far - 6.5, 0.0, 1.0) * clip(9.5 - far, 0.0, 1.0) if ring else clip(5.5 - far, 0.0, 1.0)
        return kb.sum(site, (i,), (a, b), weight * cast(image[cy + a - 10, cx + b - 10], float32) if light else weight)

    light, area, ring, many = (total(site, k > 1, k % 2 == 0) for k, site in enumerate(("light", "area", "ring", "many")))
    sky = kb.value("sky_level", (i,), ring[i] / many[i])
    flux = kb.value("net", (i,), light[i] - sky[i] * area[i])
    kb.store("flux", float32, (n,), (i,), flux[i])
    kb.store("sky", float32, (n,), (i,), sky[i])
    kb.store("snr", float32, (n,), (i,), flux[i] / sqrt(absolute(flux[i]) * 0.7 + area[i] * (sky[i] * 0.7 + 25.0)))
    return kb.build()


def absorption_lines(n: int = 2503, v: int = 20011) -> Kernel:
    """How much a gas absorbs at each wave number: lines of mixed shape (Voigt's, nearly), each 100 points to both sides."""
    kb = KernelBuilder("absorption_lines")
    l, k = kb.axis("n", n), kb.axis("k", 201)
    centre, strength = kb.input("centre", (n,), float32, range=(101.0, v - 102.0)), kb.input("strength", (n,), float32, range=(0.0, 1.0))
    sigma, gamma = (kb.input(x, (n,), float32, range=(0.5, 6.0)) for x in ("sigma", "gamma"))
    at = cast(round_even(centre[l]), int64) + k - 100
    off = cast(at, float32) - centre[l]
    share = gamma[l] / (gamma[l] + sigma[l])
    wide = gamma[l] / (off * off + gamma[l] * gamma[l]) * 0.31830989
    bell = exp(-0.5 * off * off / (sigma[l] * sigma[l])) / sigma[l] * 0.39894228
    kb.store("depth", float32, (v,), (l, k), strength[l] * (share * wide + (1.0 - share) * bell), (at,), combine="add")
    return kb.build()


def kepler_states(b: int = 37, t: int = 701) -> Kernel:
    """Where b bodies are at t times, and how fast, from the elements of their orbits: four steps of Newton for Kepler's equation."""
    kb = KernelBuilder("kepler_states")
    i, k = kb.axis("b", b), kb.axis("t", t)
    size = kb.input("size", (b,), float64, range=(0.4, 30.0))
    ecc = kb.input("ecc", (b,), float64, range=(0.0, 0.4))
    incline, node, peri, phase = (kb.input(name, (b,), float64, range=(0.0, 3.0)) for name in ("incline", "node", "peri", "phase"))
    rate, day = kb.input("rate", (b,), float64, range=(0.001, 0.07)), kb.input("day", (t,), float64, range=(-900.0, 900.0))
    ci, si, cn, sn = cos(incline[i]), sin(incline[i]), cos(node[i]), sin(node[i])
    cp, sp = cos(peri[i]), sin(peri[i])
    towards = (cn * cp - sn * sp * ci, sn * cp + cn * sp * ci, sp * si)
    across = (-cn * sp - sn * cp * ci, -sn * sp + cn * cp * ci, cp * si)
    u = [kb.value(f"u{c}", (i,), size[i] * towards[c]) for c in range(3)]
    v = [kb.value(f"v{c}", (i,), size[i] * sqrt(1.0 - ecc[i] * ecc[i]) * across[c]) for c in range(3)]
    turns = phase[i] + rate[i] * day[k]
    mean = turns - 2 * pi * round_even(turns * (0.5 / pi))
    angle = mean + ecc[i] * sin(mean)
    for _ in range(4):
        angle = angle - (angle - ecc[i] * sin(angle) - mean) / (1.0 - ecc[i] * cos(angle))
    x, y = cos(angle), sin(angle)
    speed = rate[i] / (1.0 - ecc[i] * x)
    for c in range(3):
        kb.store("place", float64, (b, t, 3), (i, k), u[c][i] * (x - ecc[i]) + v[c][i] * y, (i, k, c))
        kb.store("velocity", float64, (b, t, 3), (i, k), (v[c][i] * x - u[c][i] * y) * speed, (i, k, c))
    return kb.build()


def controlled_gate(hi: int = 1024, lo: int = 128) -> Kernel:
    """A gate of one qubit on a state of many, where another qubit is 1; complex numbers are pairs."""
    kb = KernelBuilder("controlled_gate")
    i, a, j, b = kb.axis("hi", hi), kb.axis("bit", 2), kb.axis("lo", lo), kb.axis("bit@from", 2)
    x, u = kb.input("x", (hi, 2, lo, 2), float32), kb.input("u", (2, 2, 2), float32)
    re = kb.sum("re", (i, a, j), b, u[a, b, 0] * x[i, b, j, 0] - u[a, b, 1] * x[i, b, j, 1])
    im = kb.sum("im", (i, a, j), b, u[a, b, 0] * x[i, b, j, 1] + u[a, b, 1] * x[i, b, j, 0])
    on = (i // 4 % 2).eq(1)
    for k, part in enumerate((re, im)):
        kb.store("y", float32, (hi, 2, lo, 2), (i, a, j), where(on, part[i, a, j], x[i, a, j, k]), (i, a, j, k))
    return kb.build()


def pauli_strings(p: int = 13, qubits: int = 15) -> Kernel:
    """Expected values of products of Pauli matrices in one state: bits to flip and bits whose sign counts; both is Y."""
    kb = KernelBuilder("pauli_strings")
    n = 1 << qubits
    k, i, j = kb.axis("p", p), kb.axis("n@re", n), kb.axis("n@im", n)
    psi = kb.input("psi", (n, 2), float64)
    flip, sign = (kb.input(name, (p,), int32, range=(0, n - 1)) for name in ("flip", "sign"))

    def signed(at: Any, v: Any) -> Any:
        return where((popcount(cast(at, int32) & sign[k]) & 1).eq(1), -v, v)

    def to(at: Any) -> Any:
        return cast(at, int32) ^ flip[k]

    re = kb.sum("re", (k,), i, signed(i, psi[i, 0] * psi[to(i), 0] + psi[i, 1] * psi[to(i), 1]))
    im = kb.sum("im", (k,), j, signed(j, psi[j, 1] * psi[to(j), 0] - psi[j, 0] * psi[to(j), 1]))
    turn = popcount(flip[k] & sign[k]) & 3
    y = where(turn.eq(0), re[k], where(turn.eq(1), im[k], where(turn.eq(2), -re[k], -im[k])))
    kb.store("y", float64, (p,), (k,), y)
    return kb.build()


def staggered_hop(t: int = 6, x: int = 8, y: int = 10, z: int = 12) -> Kernel:
    """The hopping of staggered quarks on a torus: coloured neighbours ahead through links, those behind through their adjoints."""
    kb = KernelBuilder("staggered_hop")
    size = (t, x, y, z)
    at = tuple(kb.axis(name, n) for name, n in zip("txyz", size))
    a, b = kb.axis("colour", 3), kb.axis("colour@from", 3)
    u, v = kb.input("u", (*size, 4, 3, 3, 2), float32), kb.input("v", (*size, 3, 2), float32)
    re: Any = 0.0
    im: Any = 0.0
    for d in range(4):
        ahead = tuple((c + 1) % n if e == d else c for e, (c, n) in enumerate(zip(at, size)))
        behind = tuple((c + n - 1) % n if e == d else c for e, (c, n) in enumerate(zip(at, size)))
        ur, ui, wr, wi = u[*at, d, a, b, 0], u[*at, d, a, b, 1], u[*behind, d, b, a, 0], u[*behind, d, b, a, 1]
        vr, vi, pr, pi = v[*ahead, b, 0], v[*ahead, b, 1], v[*behind, b, 0], v[*behind, b, 1]
        eta = where((sum(at[1:d], at[0]) % 2).eq(0), 0.5, -0.5) if d else 0.5
        re += ((ur * vr - ui * vi) - (wr * pr + wi * pi)) * eta
        im += ((ur * vi + ui * vr) - (wr * pi - wi * pr)) * eta
    for k, (name, part) in enumerate((("re", re), ("im", im))):
        total = kb.sum(name, (*at, a), b, part)
        kb.store("out", float32, (*size, 3, 2), (*at, a), total[*at, a], (*at, a, k))
    return kb.build()


def structure_factors(m: int = 301, n: int = 211, e: int = 5) -> Kernel:
    """A crystal's structure factors: atoms scatter by four Gaussians of their element, blurred by how much they shake."""
    kb = KernelBuilder("structure_factors")
    i, k, g = kb.axis("m", m), kb.axis("e", e), kb.axis("gauss", 4)
    hkl, cell = kb.input("hkl", (m, 3), int16, range=(-12, 12)), kb.input("cell", (3,), float32, range=(0.02, 0.1))
    amp, wide = kb.input("amp", (e, 4), float32, range=(0.1, 3.0)), kb.input("wide", (e, 4), float32, range=(0.5, 40.0))
    at, kind = kb.input("at", (n, 3), float32, range=(0.0, 1.0)), kb.input("kind", (n,), int32, range=(0, e - 1))
    shake = kb.input("shake", (n,), float32, range=(5.0, 30.0))
    h = [cast(hkl[i, d], float32) for d in range(3)]
    s2 = kb.value("s2", (i,), ((h[0] * cell[0]) ** 2 + (h[1] * cell[1]) ** 2 + (h[2] * cell[2]) ** 2) * 0.25)
    form = kb.sum("form", (i, k), g, amp[k, g] * exp(-wide[k, g] * s2[i]))
    parts = []
    for name, wave in (("re", cos), ("im", sin)):
        j = kb.axis(f"n@{name}", n)
        turn = (h[0] * at[j, 0] + h[1] * at[j, 1] + h[2] * at[j, 2]) * 6.2831853
        parts.append(kb.sum(name, (i,), j, form[i, kind[j]] * exp(-shake[j] * s2[i]) * wave(turn))[i])
        kb.store("f", float32, (m, 2), (i,), parts[-1], (i, len(parts) - 1))
    kb.store("power", float32, (m,), (i,), parts[0] ** 2 + parts[1] ** 2)
    return kb.build()


def axilrod_teller(n: int = 151) -> Kernel:
    """The energy of three bodies that each atom has with all pairs of others."""
    kb = KernelBuilder("axilrod_teller")
    i, j, k = kb.axis("n", n), kb.axis("n@second", n), kb.axis("n@third", n)
    x = kb.input("x", (n, 3), float64)

    def far(p: Any, q: Any) -> Any:
        return sum(((x[p, c] - x[q, c]) ** 2 for c in range(3)), 0.2)

    a, b, c = far(i, j), far(j, k), far(k, i)
    s = rsqrt(a * b * c)
    one = s**3 * (1.0 + 0.375 * (b + c - a) * (a + c - b) * (a + b - c) * s * s)
    total = kb.sum("total", (i,), (j, k), where((j < k) & ~j.eq(i) & ~k.eq(i), one, 0.0))
    kb.store("y", float64, (n,), (i,), total[i])
    return kb.build()


def sigma_clipped_stack(k: int = 12, h: int = 1100, w: int = 1201) -> Kernel:
    """The mean of frames of 10 bits at each pixel without those two deviations off, and how many were left out."""
    kb = KernelBuilder("sigma_clipped_stack")
    i, j = kb.axis("h", h), kb.axis("w", w)
    a, b, c, d = (kb.axis(f"k@{name}", k) for name in ("total", "square", "kept", "count"))
    x = kb.input("x", (k, h, w), uint16, range=(0, 1023))

    def at(f: Any) -> Any:
        return cast(x[f, i, j], int32)

    total = kb.sum("total", (i, j), a, at(a))
    square = kb.sum("square", (i, j), b, at(b) * at(b))
    wide = kb.value("wide", (i, j), (square[i, j] * k - total[i, j] * total[i, j]) * 4)

    def near(f: Any) -> Any:
        return (at(f) * k - total[i, j]) * (at(f) * k - total[i, j]) <= wide[i, j]

    kept = kb.sum("kept", (i, j), c, where(near(c), at(c), 0))
    count = kb.sum("count", (i, j), d, near(d))
    kb.store("y", float32, (h, w), (i, j), cast(kept[i, j], float32) / cast(count[i, j], float32))
    kb.store("out", uint8, (h, w), (i, j), cast(k - count[i, j], uint8))
    return kb.build()


def reaction_rates(r: int = 23, s: int = 11, n: int = 4001) -> Kernel:
    """How fast each substance becomes more or less in each cell: r reactions a + b → p by Arrhenius' law, listed as data."""
    kb = KernelBuilder("reaction_rates")
    k, i, q = kb.axis("r", r), kb.axis("n", n), kb.axis("role", 3)
    c, heat = kb.input("c", (s, n), float32, range=(0.0, 1.0)), kb.input("heat", (n,), float32, range=(300.0, 2500.0))
    fast, power = kb.input("fast", (r,), float32, range=(0.1, 9.0)), kb.input("power", (r,), float32, range=(-0.5, 0.5))
    barrier, who = kb.input("barrier", (r,), float32, range=(100.0, 3000.0)), kb.input("who", (3, r), int32, range=(0, s - 1))
    a, b = cast(who[0, k], int64), cast(who[1, k], int64)
    rate = kb.value("rate", (k, i), fast[k] * exp(power[k] * log(heat[i]) - barrier[k] / heat[i]) * c[a, i] * c[b, i])
    signed = where(q.eq(2), rate[k, i], -rate[k, i])
    kb.store("y", float32, (s, n), (k, q, i), signed, (cast(who[q, k], int64), i), combine="add")
    return kb.build()


def reaction_stores(r: int = 23, s: int = 11, n: int = 4001) -> Kernel:
    """How fast each substance becomes more or less in each cell: r reactions a + b → p by Arrhenius' law, listed as data."""
    kb = KernelBuilder("reaction_stores")
    k, i = kb.axis("r", r), kb.axis("n", n)
    c, heat = kb.input("c", (s, n), float32, range=(0.0, 1.0)), kb.input("heat", (n,), float32, range=(300.0, 2500.0))
    fast, power = kb.input("fast", (r,), float32, range=(0.1, 9.0)), kb.input("power", (r,), float32, range=(-0.5, 0.5))
    barrier = kb.input("barrier", (r,), float32, range=(100.0, 3000.0))
    a, b, p = (cast(kb.input(m, (r,), int32, range=(0, s - 1))[k], int64) for m in ("a", "b", "p"))
    rate = kb.value("rate", (k, i), fast[k] * exp(power[k] * log(heat[i]) - barrier[k] / heat[i]) * c[a, i] * c[b, i])
    kb.store("y", float32, (s, n), (k, i), -rate[k, i], (a, i), combine="add")
    kb.store("y", float32, (s, n), (k, i), -rate[k, i], (b, i), combine="add")
    kb.store("y", float32, (s, n), (k, i), rate[k, i], (p, i), combine="add")
    return kb.build()


def zigzag_current(n: int = 60013, gy: int = 96, gx: int = 150) -> Kernel:
    """Currents that particles leave on a Yee grid (Umeda's zigzag): each path goes by a relay point on the border of its cells."""
    kb = KernelBuilder("zigzag_current")
    p = kb.axis("n", n)
    cell = [kb.input(f"cell_{a}", (n,), int32, range=(1, g - 3)) for a, g in (("x", gx), ("y", gy))]
    at = [kb.input(f"at_{a}", (n,), float32, range=(0.0, 1.0)) for a in "xy"]
    step = [kb.input(f"step_{a}", (n,), float32, range=(-0.9, 0.9)) for a in "xy"]
    q = kb.input("q", (n,), float32)
    flux, mid, cells = [], [], []
    for c, a, s in zip(cell, at, step):
        end = a[p] + s[p]
        hop = cast(where(end < 0.0, -1, where(end >= 1.0, 1, 0)), int32)
        low, high = cast(minimum(hop, 0), float32) + 1.0, cast(maximum(hop, 0), float32)
        relay = minimum(low, maximum(high, 0.5 * (a[p] + end)))
        flux.append((q[p] * (relay - a[p]), q[p] * (end - relay)))
        mid.append((0.5 * (a[p] + relay), 0.5 * (relay + end) - cast(hop, float32)))
        cells.append((cast(c[p], int64), cast(c[p] + hop, int64)))
    for k in (0, 1):
        x, y = cells[0][k], cells[1][k]
        for side in (0, 1):
            far_x, far_y = (mid[a][k] if side else 1.0 - mid[a][k] for a in (0, 1))
            kb.store("jx", float32, (gy, gx), (p,), flux[0][k] * far_y, (y + side, x), combine="add")
            kb.store("jy", float32, (gy, gx), (p,), flux[1][k] * far_x, (y, x + side), combine="add")
    return kb.build()


def mie_amplitudes(n: int = 60, t: int = 1801) -> Kernel:
    """Both scattering amplitudes (complex) of a sphere at many angles: sums of coefficients times angular functions."""
    kb = KernelBuilder("mie_amplitudes")
    i = kb.axis("t", t)
    ks = [kb.axis(f"n@{s}", n) for s in ("ar", "ai", "br", "bi")]
    a, b = kb.input("a", (n, 2), float64), kb.input("b", (n, 2), float64)
    p, u = kb.input("p", (n, t), float64), kb.input("u", (n, t), float64)
    for c in (0, 1):
        k, l = ks[2 * c], ks[2 * c + 1]
        one = kb.sum(f"one{c}", (i,), k, a[k, c] * p[k, i] + b[k, c] * u[k, i])
        two = kb.sum(f"two{c}", (i,), l, a[l, c] * u[l, i] + b[l, c] * p[l, i])
        kb.store("s1", float64, (t, 2), (i,), one[i], (i, c))
        kb.store("s2", float64, (t, 2), (i,), two[i], (i, c))
    return kb.build()


def hodgkin_huxley(n: int = 20011, k: int = 24) -> Kernel:
    """A step of spiking neurons with three gates, driven by which of their k neighbours fired."""
    kb = KernelBuilder("hodgkin_huxley")
    i, e = kb.axis("n", n), kb.axis("k", k)
    volt = kb.input("volt", (n,), float32, range=(-80.0, 40.0))
    m, h, g = (kb.input(name, (n,), float32, range=(0.0, 1.0)) for name in ("m", "h", "g"))
    weight, fired = kb.input("weight", (n, k), float32), kb.input("fired", (n,), uint8, range=(0, 1))
    near = kb.input("near", (n, k), int32, range=(0, n - 1))
    drive = kb.sum("drive", (i,), e, where(fired[near[i, e]].eq(1), weight[i, e], 0.0))
    u = volt[i]

    def slope(x: Any) -> Any:
        return where(absolute(x) < 1e-3, 1.0 + x * 0.5, x / (1.0 - exp(-x)))

    def step(x: Any, a: Any, b: Any) -> Any:
        return x + 0.01 * (a * (1.0 - x) - b * x)

    flow = m[i] ** 3 * h[i] * 120.0 * (u - 50.0) + g[i] ** 4 * 36.0 * (u + 77.0) + 0.3 * (u + 54.4)
    kb.store("new_volt", float32, (n,), (i,), u + 0.01 * (drive[i] * 5.0 - flow))
    kb.store("new_m", float32, (n,), (i,), step(m[i], slope((u + 40.0) * 0.1), 4.0 * exp((u + 65.0) * (-1 / 18))))
    kb.store("new_h", float32, (n,), (i,), step(h[i], 0.07 * exp((u + 65.0) * -0.05), 1.0 / (1.0 + exp((u + 35.0) * -0.1))))
    kb.store("new_g", float32, (n,), (i,), step(g[i], 0.1 * slope((u + 55.0) * 0.1), 0.125 * exp((u + 65.0) * -0.0125)))
    return kb.build()


def potts_heat_bath(h: int = 480, w: int = 307) -> Kernel:
    """New colours (of five) of a chessboard's black squares, by their white neighbours: weights by table, one random word a square.

    Both squares of a pair lie at the same place of two arrays: a black one is the right one in odd rows."""
    kb = KernelBuilder("potts_heat_bath")
    i, j = kb.axis("h", h), kb.axis("w", w)
    white = kb.input("white", (h, w), uint8, range=(0, 4))
    weight, r = kb.input("weight", (5,), int32, range=(1, 4000)), kb.input("r", (h, w), uint16, range=(0, 65535))
    near = [white[(i + h - 1) % h, j], white[(i + 1) % h, j], white[i, j], white[i, (j + w - 1 + 2 * (i % 2)) % w]]
    shares = []
    for c in range(5):
        same = [cast(v.eq(c), int32) for v in near]
        shares.append(weight[same[0] + same[1] + same[2] + same[3]])
    drawn = (cast(r[i, j], int32) * sum(shares[1:], shares[0])) >> 16
    colour: Any = sum(cast(sum(shares[1 : c + 1], shares[0]) <= drawn, int32) for c in range(4))
    kb.store("black", uint8, (h, w), (i, j), cast(colour, uint8))
    return kb.build()


def ising_sweep(h: int = 256, w: int = 384) -> Kernel:
    """Half a sweep of Metropolis on a chessboard: spins of bytes, random bytes, thresholds by the spin's neighbours."""
    kb = KernelBuilder("ising_sweep")
    i, j = kb.axis("h", h), kb.axis("w", w)
    s, r = kb.input("s", (h, w), int8, range=(0, 1)), kb.input("r", (h, w), uint8)
    near = (
        cast(s[(i + h - 1) % h, j], int32)
        + cast(s[(i + 1) % h, j], int32)
        + cast(s[i, (j + w - 1) % w], int32)
        + cast(s[i, (j + 1) % w], int32)
    )
    mine = cast(s[i, j], int32)
    gain = where(mine.eq(1), near, 4 - near)  # how many agree
    limit = cast(where(gain <= 2, 256, where(gain.eq(3), 44, 8)), int32)
    flips = (cast(r[i, j], int32) < limit) & ((i + j) % 2).eq(0)
    kb.store("y", int8, (h, w), (i, j), cast(where(flips, 1 - mine, mine), int8))
    return kb.build()


def line_flows(n: int = 18001, b: int = 12007) -> Kernel:
    """The power that flows into both ends of each line of a grid, and what each bus takes in, by voltages and angles."""
    kb = KernelBuilder("line_flows")
    e = kb.axis("n", n)
    start, end = (kb.input(k, (n,), int32, range=(0, b - 1)) for k in ("start", "end"))
    g, y = kb.input("g", (n,), "float64", range=(0.5, 2.0)), kb.input("y", (n,), "float64", range=(-20.0, -3.0))
    charge, tap = kb.input("charge", (n,), "float64", range=(0.0, 0.1)), kb.input("tap", (n,), "float64", range=(0.9, 1.1))
    vm, va = kb.input("vm", (b,), "float64", range=(0.94, 1.06)), kb.input("va", (b,), "float64", range=(-0.6, 0.6))
    s, t = cast(start[e], int64), cast(end[e], int64)
    vs, vt, apart = vm[s] / tap[e], vm[t], va[s] - va[t]
    c, d = vs * vt * cos(apart), vs * vt * sin(apart)
    pf, pt = vs * vs * g[e] - g[e] * c - y[e] * d, vt * vt * g[e] - g[e] * c + y[e] * d
    half = y[e] + 0.5 * charge[e]
    qf, qt = y[e] * c - g[e] * d - vs * vs * half, y[e] * c + g[e] * d - vt * vt * half
    kb.store("p", "float64", (b,), (e,), pf, (s,), combine="add")
    kb.store("p", "float64", (b,), (e,), pt, (t,), combine="add")
    kb.store("q", "float64", (b,), (e,), qf, (s,), combine="add")
    kb.store("q", "float64", (b,), (e,), qt, (t,), combine="add")
    kb.store("loss", "float64", (n,), (e,), pf + pt)
    return kb.build()


def lorenz96(n: int = 16384, k: int = 40) -> Kernel:
    """A midpoint step of many systems of Lorenz's model of 1996: dx_k = (x_(k+1) − x_(k−2)) x_(k−1) − x_k + 8, in a ring."""
    kb = KernelBuilder("lorenz96")
    i, j, m = kb.axis("n", n), kb.axis("k", k), kb.axis("k@mid", k)
    x = kb.input("x", (n, k), float32)

    def rate(v: Any, at: Any) -> Any:
        return (v[i, (at + 1) % k] - v[i, (at + k - 2) % k]) * v[i, (at + k - 1) % k] - v[i, at] + 8.0

    mid = kb.value("mid", (i, m), x[i, m] + 0.005 * rate(x, m))
    kb.store("y", float32, (n, k), (i, j), x[i, j] + 0.01 * rate(mid, j))
    return kb.build()
