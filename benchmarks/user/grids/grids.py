"""Partial differential equations on grids and meshes: waves, flow, Maxwell, finite elements, cellular automata.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    bfloat16,
    cast,
    exp,
    float32,
    float64,
    int32,
    maximum,
    minimum,
    sqrt,
    uint8,
    uint64,
    where,
)

D2Q9 = (
    (0, 0, 4 / 9),
    *((p, q, 1 / 9) for p, q in ((0, 1), (0, -1), (1, 0), (-1, 0))),
    *((p, q, 1 / 36) for p, q in ((1, 1), (1, -1), (-1, 1), (-1, -1))),
)
"""Where a lattice's nine parts go, and their weights."""


def lattice_boltzmann(h: int = 512, w: int = 512) -> Kernel:
    """A step of a flow on a torus (D2Q9): parts come from their neighbours, and near their balance by six tenths."""
    kb = KernelBuilder("lattice_boltzmann")
    i, j = kb.axis("h", h), kb.axis("w", w)
    f = kb.input("f", (9, h, w), float32, range=(0.05, 0.15))
    came = [f[k, (i + h - p) % h, (j + w - q) % w] for k, (p, q, _) in enumerate(D2Q9)]
    rho = sum(came[1:], came[0])
    down = came[3] - came[4] + came[5] + came[6] - came[7] - came[8]
    right = came[1] - came[2] + came[5] - came[6] + came[7] - came[8]
    over = 1.0 / rho
    v, u = down * over, right * over
    rest = 1.0 - 1.5 * (u * u + v * v)
    for k, (p, q, weight) in enumerate(D2Q9):
        along = p * v + q * u
        balance = weight * rho * (rest + 3.0 * along + 4.5 * along * along)
        kb.store("y", float32, (9, h, w), (i, j), 0.4 * came[k] + 0.6 * balance, (k, i, j))
    return kb.build()


def red_black(h: int = 1024, w: int = 1024) -> Kernel:
    """Half a step of Gauss and Seidel: every second point, as on a chessboard, becomes what its neighbours ask for."""
    kb = KernelBuilder("red_black")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, b = kb.input("u", (h, w), float64), kb.input("b", (h, w), float64)
    inside = (i > 0) & (i < h - 1) & (j > 0) & (j < w - 1)
    near = u.masked(inside, i - 1, j) + u.masked(inside, i + 1, j) + u.masked(inside, i, j - 1) + u.masked(inside, i, j + 1)
    red = inside & ((i + j) % 2).eq(0)
    kb.store("y", float64, (h, w), (i, j), where(red, 0.25 * (near - b[i, j]), u[i, j]))
    return kb.build()


def fdtd_magnetic(h: int = 1024, w: int = 1024) -> Kernel:
    """Yee's step of both magnetic fields from the electric one; the last row and column stay as they are."""
    kb = KernelBuilder("fdtd_magnetic")
    i, j = kb.axis("h", h), kb.axis("w", w)
    e, hx, hy = (kb.input(x, (h, w), float32) for x in ("e", "hx", "hy"))
    up, along = e[i, minimum(j + 1, w - 1)] - e[i, j], e[minimum(i + 1, h - 1), j] - e[i, j]
    kb.store("x", float32, (h, w), (i, j), hx[i, j] - 0.5 * up)
    kb.store("y", float32, (h, w), (i, j), hy[i, j] + 0.5 * along)
    return kb.build()


def maxwell_curl3d(d: int = 30, h: int = 41, w: int = 61) -> Kernel:
    """The electric field's step on a Yee grid: all three components, conducting walls."""
    kb = KernelBuilder("maxwell_curl3d")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    e, m = kb.input("e", (3, d, h, w), float32), kb.input("m", (3, d, h, w), float32)
    c = kb.input("c", (d, h, w), float32)
    up, left, near = i > 0, j > 0, k > 0

    def hx(p: int, q: int, r: int, a: int) -> Any:
        inside = None
        for on, cond in ((p, up), (q, left), (r, near)):
            if on:
                inside = cond
        return m[a, i, j, k] if inside is None else m.masked(inside, a, i - p, j - q, k - r)

    curls = (
        hx(0, 0, 0, 2) - hx(0, 1, 0, 2) - hx(0, 0, 0, 1) + hx(0, 0, 1, 1),
        hx(0, 0, 0, 0) - hx(0, 0, 1, 0) - hx(0, 0, 0, 2) + hx(1, 0, 0, 2),
        hx(0, 0, 0, 1) - hx(1, 0, 0, 1) - hx(0, 0, 0, 0) + hx(0, 1, 0, 0),
    )
    for a, curl in enumerate(curls):
        kb.store("y", float32, (3, d, h, w), (i, j, k), e[a, i, j, k] + c[i, j, k] * curl, (a, i, j, k))
    return kb.build()


def van_leer_columns(l: int = 6, h: int = 91, w: int = 181) -> Kernel:
    """A step of upwind advection along the second dimension with van Leer's limiter, around a torus."""
    kb = KernelBuilder("van_leer_columns")
    a, i, j = kb.axis("l", l), kb.axis("h", h), kb.axis("w", w)
    q, c = kb.input("q", (l, h, w), float32), kb.input("c", (h, w), float32, range=(-0.9, 0.9))

    def at(o: int) -> Any:
        return q[a, (i + h + o) % h, j]

    def slope(o: int) -> Any:
        m, p = at(o) - at(o - 1), at(o + 1) - at(o)
        both = m * p
        return where(both > 0.0, 2.0 * both / (m + p), 0.0)

    def flux(o: int) -> Any:  # through the face between o - 1 and o
        wind = c[(i + o) % h, j]
        return where(wind > 0.0, wind * (at(o - 1) + 0.5 * (1.0 - wind) * slope(o - 1)), wind * (at(o) - 0.5 * (1.0 + wind) * slope(o)))

    kb.store("y", float32, (l, h, w), (a, i, j), at(0) - (flux(1) - flux(0)))
    return kb.build()


def restrict_volume(d: int = 40, h: int = 50, w: int = 53) -> Kernel:
    """A multigrid's coarser volume, in bfloat16: means of 2x2x2."""
    kb = KernelBuilder("restrict_volume")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (2 * d, 2 * h, 2 * w), bfloat16)
    total = None
    for p in (0, 1):
        for q in (0, 1):
            for r in (0, 1):
                v = cast(x[2 * i + p, 2 * j + q, 2 * k + r], float32)
                total = v if total is None else total + v
    kb.store("y", bfloat16, (d, h, w), (i, j, k), 0.125 * total)
    return kb.build()


def wave_step(h: int = 1536, w: int = 1536) -> Kernel:
    """A step of the wave equation, of fourth order in space; the speed varies, and nothing moves beyond the border."""
    kb = KernelBuilder("wave_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, before, speed = (kb.input(name, (h, w), float32) for name in ("u", "before", "speed"))
    bend = u[i, j] * -5.0
    for t, weight in ((-2, -1.0 / 12), (-1, 4.0 / 3), (1, 4.0 / 3), (2, -1.0 / 12)):
        bend = bend + weight * u.masked((i + t >= 0) & (i + t < h), i + t, j)
        bend = bend + weight * u.masked((j + t >= 0) & (j + t < w), i, j + t)
    kb.store("y", float32, (h, w), (i, j), 2.0 * u[i, j] - before[i, j] + speed[i, j] * bend)
    return kb.build()


def shallow_water(h: int = 307, w: int = 401) -> Kernel:
    """A step of shallow water on a torus by Rusanov's fluxes: depth and both momenta of a place lie side by side."""
    kb = KernelBuilder("shallow_water")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), float64, range=(0.5, 1.5))

    def flux(name: str, a: list[Any], b: list[Any], along: int) -> list[Any]:
        """Through the side between a and b."""
        across = 3 - along
        va, vb = a[along] / a[0], b[along] / b[0]
        speed = maximum(absolute(va) + sqrt(9.81 * a[0]), absolute(vb) + sqrt(9.81 * b[0]))
        fast = kb.value(f"{name}fast", (i, j), speed)[i, j]
        sides = {
            0: a[along] + b[along],
            along: a[along] * va + b[along] * vb + 4.905 * (a[0] * a[0] + b[0] * b[0]),
            across: a[across] * va + b[across] * vb,
        }
        return [kb.value(f"{name}{c}", (i, j), 0.5 * (sides[c] - fast * (b[c] - a[c]))) for c in range(3)]

    here = [x[i, j, c] for c in range(3)]
    right = flux("right", here, [x[i, (j + 1) % w, c] for c in range(3)], 1)
    down = flux("down", here, [x[(i + 1) % h, j, c] for c in range(3)], 2)
    for c in range(3):
        change = right[c][i, j] - right[c][i, (j + w - 1) % w] + down[c][i, j] - down[c][(i + h - 1) % h, j]
        kb.store("y", float64, (h, w, 3), (i, j), x[i, j, c] - 0.05 * change, (i, j, c))
    return kb.build()


def weno5_advance(b: int = 60, n: int = 1009) -> Kernel:
    """A step of transport to the right on periodic rows; at each face three parabolas are weighted by how smooth they are."""
    kb = KernelBuilder("weno5_advance")
    i, j = kb.axis("b", b), kb.axis("n", n)
    u = kb.input("u", (b, n), float64)
    p, q, r, s, t = (u[i, (j + n + k) % n] for k in (-2, -1, 0, 1, 2))
    rough = (
        (p - q * 2.0 + r) ** 2 * (13 / 12) + (p - q * 4.0 + r * 3.0) ** 2 * 0.25,
        (q - r * 2.0 + s) ** 2 * (13 / 12) + (q - s) ** 2 * 0.25,
        (r - s * 2.0 + t) ** 2 * (13 / 12) + (r * 3.0 - s * 4.0 + t) ** 2 * 0.25,
    )
    w = [share / (1e-6 + v) ** 2 for share, v in zip((0.1, 0.6, 0.3), rough, strict=True)]
    parts = (p * 2.0 - q * 7.0 + r * 11.0, r * 5.0 - q + s * 2.0, r * 2.0 + s * 5.0 - t)
    face = kb.value("face", (i, j), (w[0] * parts[0] + w[1] * parts[1] + w[2] * parts[2]) / ((w[0] + w[1] + w[2]) * 6.0))
    kb.store("y", float64, (b, n), (i, j), u[i, j] - 0.4 * (face[i, j] - face[i, (j + n - 1) % n]))
    return kb.build()


def elastic_stress(h: int = 397, w: int = 531) -> Kernel:
    """The stresses of elastic waves after a step, on a staggered grid of fourth order; shear meets where four cells do."""
    kb = KernelBuilder("elastic_stress")
    i, j = kb.axis("h", h), kb.axis("w", w)
    vx, vz = (kb.input(name, (h + 4, w + 4), float32) for name in ("vx", "vz"))
    lam, mu = (kb.input(name, (h + 1, w + 1), float32, range=(1.0, 4.0)) for name in ("lam", "mu"))
    xx, zz, xz = (kb.input(name, (h, w), float32) for name in ("xx", "zz", "xz"))

    def slope(v: Any, p: int, q: int, on: int) -> Any:
        f = [v[i + 2 + p * k, j + 2 + q * k] for k in range(on - 2, on + 2)]
        return (f[2] - f[1]) * 1.125 - (f[3] - f[0]) * (1.0 / 24.0)

    dx, dz = slope(vx, 0, 1, 0), slope(vz, 1, 0, 0)
    shear = 4.0 / (1.0 / mu[i, j] + 1.0 / mu[i + 1, j] + 1.0 / mu[i, j + 1] + 1.0 / mu[i + 1, j + 1])
    stiff = lam[i, j] + mu[i, j] * 2.0
    kb.store("new_xx", float32, (h, w), (i, j), xx[i, j] + (stiff * dx + lam[i, j] * dz) * 0.01)
    kb.store("new_zz", float32, (h, w), (i, j), zz[i, j] + (stiff * dz + lam[i, j] * dx) * 0.01)
    kb.store("new_xz", float32, (h, w), (i, j), xz[i, j] + shear * (slope(vx, 1, 0, 1) + slope(vz, 0, 1, 1)) * 0.01)
    return kb.build()


D3Q19_PAIRS = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1)]


D3Q19 = [(0, 0, 0)] + [(t * a, t * b, t * c) for a, b, c in D3Q19_PAIRS for t in (1, -1)]
"""How parts of a fluid move in a step: at rest, then pairs of opposite ways."""


def porous_flow(d: int = 22, h: int = 27, w: int = 45) -> Kernel:
    """A step of a fluid among grains (D3Q19, two relaxation times, pushed along w): bright voxels of a scan send parts back."""
    kb = KernelBuilder("porous_flow")
    i, j, k = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    f = kb.input("f", (19, d + 2, h + 2, w + 2), float32, range=(0.03, 0.07))
    scan = kb.input("scan", (d + 2, h + 2, w + 2), uint8)
    came = [f[0, i + 1, j + 1, k + 1]]
    for m, (a, b, c) in enumerate(D3Q19[1:], 1):
        there = (i + 1 - a, j + 1 - b, k + 1 - c)
        came.append(where(scan[there] > 204, f[m + 1 if m % 2 else m - 1, i + 1, j + 1, k + 1], f[m, *there]))
    rho, u = sum(came[1:], came[0]), []
    for axis in range(3):
        up = [came[m] for m in range(1, 19) if D3Q19[m][axis] > 0]
        down = [came[m] for m in range(1, 19) if D3Q19[m][axis] < 0]
        u.append((sum(up[1:], up[0]) - sum(down[1:], down[0])) / rho)
    rest = 1.0 - 1.5 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
    new = [came[0] - 1.2 * (came[0] - rho * rest * (1.0 / 3.0))]
    for m in range(1, 19, 2):
        weight = 1 / 18 if m < 7 else 1 / 36
        along = sum(((u[a] if t > 0 else -u[a]) for a, t in enumerate(D3Q19[m]) if t), 0.0)
        even = 1.2 * (0.5 * (came[m] + came[m + 1]) - weight * rho * (rest + 4.5 * along * along))
        odd = 0.9 * (0.5 * (came[m] - came[m + 1]) - 3.0 * weight * rho * along) - weight * 0.003 * D3Q19[m][2]
        new += [came[m] - even - odd, came[m + 1] - even + odd]
    still = scan[i + 1, j + 1, k + 1] > 204
    for m, v in enumerate(new):
        kb.store("y", float32, (19, d, h, w), (i, j, k), where(still, f[m, i + 1, j + 1, k + 1], v), (m, i, j, k))
    return kb.build()


def lossy_yee_step(h: int = 411, w: int = 617) -> Kernel:
    """Yee's step of an electric field, of materials by number, and what its absorbing layers (CPML) remember of both slopes."""
    kb = KernelBuilder("lossy_yee_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    e, px, py = (kb.input(name, (h, w), float32) for name in ("e", "px", "py"))
    hx, hy = kb.input("hx", (h + 1, w), float32), kb.input("hy", (h, w + 1), float32)
    matter = kb.input("matter", (h, w), uint8, range=(0, 11))
    keep, gain = kb.input("keep", (12,), float32, range=(0.5, 1.0)), kb.input("gain", (12,), float32, range=(0.1, 0.7))
    cx, cy = kb.input("cx", (3, w), float32, range=(0.1, 1.0)), kb.input("cy", (3, h), float32, range=(0.1, 1.0))
    along, down = hy[i, j + 1] - hy[i, j], hx[i + 1, j] - hx[i, j]
    new_x, new_y = cx[0, j] * px[i, j] - cx[1, j] * along, cy[0, i] * py[i, j] - cy[1, i] * down
    curl = cx[2, j] * along + new_x - cy[2, i] * down - new_y
    new_e = keep[matter[i, j]] * e[i, j] + gain[matter[i, j]] * curl
    for name, v in (("e_new", new_e), ("px_new", new_x), ("py_new", new_y)):
        kb.store(name, float32, (h, w), (i, j), v)
    return kb.build()


def clamped2d(h: int = 2048, w: int = 2048) -> Kernel:
    """One step of smoothing with the four neighbours; beyond the border the nearest element counts."""
    kb = KernelBuilder("clamped2d")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), float32)
    up, down = x[maximum(i - 1, 0), j], x[minimum(i + 1, h - 1), j]
    left, right = x[i, maximum(j - 1, 0)], x[i, minimum(j + 1, w - 1)]
    kb.store("y", float32, (h, w), (i, j), 0.5 * x[i, j] + 0.125 * (up + down + left + right))
    return kb.build()


def clamped3d(d: int = 160, h: int = 160, w: int = 160) -> Kernel:
    """A step of the heat equation in three dimensions; no heat leaves the box."""
    kb = KernelBuilder("clamped3d")
    k, i, j = kb.axis("d", d), kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (d, h, w), float32)
    around = x[maximum(k - 1, 0), i, j] + x[minimum(k + 1, d - 1), i, j]
    around = around + x[k, maximum(i - 1, 0), j] + x[k, minimum(i + 1, h - 1), j]
    around = around + x[k, i, maximum(j - 1, 0)] + x[k, i, minimum(j + 1, w - 1)]
    kb.store("y", float32, (d, h, w), (k, i, j), x[k, i, j] + 0.1 * (around - 6.0 * x[k, i, j]))
    return kb.build()


def spectral_elements(e: int = 191, p: int = 7) -> Kernel:
    """The Laplacian of p × p × p nodes in each of e curved elements: derivatives, six factors of the map, and derivatives back."""
    kb = KernelBuilder("spectral_elements")
    i, x, y, z = kb.axis("e", e), kb.axis("px", p), kb.axis("py", p), kb.axis("pz", p)
    u, d, g = (kb.input(n, shape, float64) for n, shape in (("u", (e, p, p, p)), ("d", (p, p)), ("g", (e, 6, p, p, p))))
    a, b = ([kb.axis(f"p{c}@{way}", p) for c in "xyz"] for way in ("there", "back"))
    at = (i, z, y, x)
    r = kb.sum("r", at, a[0], d[x, a[0]] * u[i, z, y, a[0]])[at]
    s = kb.sum("s", at, a[1], d[y, a[1]] * u[i, z, a[1], x])[at]
    t = kb.sum("t", at, a[2], d[z, a[2]] * u[i, a[2], y, x])[at]
    f = [g[i, c, z, y, x] for c in range(6)]
    fr, fs, ft = (kb.value(f"f{c}", at, f[j] * r + f[k] * s + f[l] * t) for c, j, k, l in (("r", 0, 1, 2), ("s", 1, 3, 4), ("t", 2, 4, 5)))
    back = kb.sum("wr", at, b[0], d[b[0], x] * fr[i, z, y, b[0]])[at]
    back = back + kb.sum("ws", at, b[1], d[b[1], y] * fs[i, z, b[1], x])[at]
    back = back + kb.sum("wt", at, b[2], d[b[2], z] * ft[i, b[2], y, x])[at]
    kb.store("w", float64, (e, p, p, p), at, back)
    return kb.build()


def element_forces(m: int = 30011, v: int = 15013) -> Kernel:
    """A mesh's stiffness matrix times a vector, a triangle at a time: each has a matrix of its own for its three corners."""
    kb = KernelBuilder("element_forces")
    e, p, q = kb.axis("m", m), kb.axis("p", 3), kb.axis("q", 3)
    corner = kb.input("corner", (m, 3), int32, range=(0, v - 1))
    k, u = kb.input("k", (m, 3, 3), float64), kb.input("u", (v,), float64)
    force = kb.sum("force", (e, p), q, k[e, p, q] * u[cast(corner[e, q], "int64")])
    kb.store("y", float64, (v,), (e, p), force[e, p], (cast(corner[e, p], "int64"),), combine="add")
    return kb.build()


def fem_stiffness(m: int = 30011, v: int = 15013) -> Kernel:
    """A mesh's stiffness matrix times a vector, a triangle at a time: each has six numbers of its own (3 × 3, symmetric)."""
    kb = KernelBuilder("fem_stiffness")
    e = kb.axis("m", m)
    corner = kb.input("corner", (m, 3), int32, range=(0, v - 1))
    k, u = kb.input("k", (m, 6), float64), kb.input("u", (v,), float64)
    at = [cast(corner[e, c], "int64") for c in range(3)]
    a, b, c = (u[p] for p in at)
    forces = (
        k[e, 0] * a + k[e, 1] * b + k[e, 2] * c,
        k[e, 1] * a + k[e, 3] * b + k[e, 4] * c,
        k[e, 2] * a + k[e, 4] * b + k[e, 5] * c,
    )
    for place, force in zip(at, forces, strict=True):
        kb.store("y", float64, (v,), (e,), force, (place,), combine="add")
    return kb.build()


def chebyshev_laplacian(b: int = 8, n: int = 49) -> Kernel:
    """D2 u + u D2ᵀ - lam u of many fields on Chebyshev points."""
    kb = KernelBuilder("chebyshev_laplacian")
    f, i, j, k, l = kb.axis("b", b), kb.axis("i", n), kb.axis("j", n), kb.axis("n@rows", n), kb.axis("n@cols", n)
    u, m = kb.input("u", (b, n, n), float64), kb.input("m", (n, n), float64)
    rows = kb.sum("rows", (f, i, j), k, m[i, k] * u[f, k, j])
    cols = kb.sum("cols", (f, i, j), l, u[f, i, l] * m[j, l])
    kb.store("y", float64, (b, n, n), (f, i, j), rows[f, i, j] + cols[f, i, j] - 0.3 * u[f, i, j])
    return kb.build()


def legendre_synthesis(m: int = 43, l: int = 85, t: int = 128) -> Kernel:
    """Fourier coefficients at each latitude from spherical harmonics: sums over the degree."""
    kb = KernelBuilder("legendre_synthesis")
    i, j, k, c = kb.axis("m", m), kb.axis("t", t), kb.axis("l", l), kb.axis("c", 2)
    p, a = kb.input("p", (m, l, t), float32), kb.input("a", (m, l, 2), float32)
    total = kb.sum("total", (j, i, c), k, p[i, k, j] * a[i, k, c])
    kb.store("y", float32, (t, m, 2), (j, i, c), total[j, i, c])
    return kb.build()


def thomas_columns(n: int = 63, m: int = 2501) -> Kernel:
    """Many tridiagonal systems with one matrix, factorised before: down the columns, then up again, in float64."""
    kb = KernelBuilder("thomas_columns")
    i, u, j = kb.axis("n@down", n), kb.axis("n@up", n), kb.axis("m", m)
    d = kb.input("d", (n, m), float64)
    low, inv, up = (kb.input(k, (n,), float64, range=(0.2, 0.7)) for k in ("low", "inv", "up"))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, z = kb.associative_scan(("p", "z"), (i, j), i, (-low[i] * inv[i], d[i, j] * inv[i]), (1.0, 0.0), rule)
    back = n - 1 - u
    _, x = kb.associative_scan(("q", "x"), (u, j), u, (-up[back], z[back, j]), (1.0, 0.0), rule)
    kb.store("y", float64, (n, m), (u, j), x[u, j], (back, j))
    return kb.build()


SPRINGS = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 2), (2, 0), (0, -2), (-2, 0))


def cloth_step(h: int = 121, w: int = 160) -> Kernel:
    """A step of Verlet's for a cloth: springs to twelve neighbours (straight, across, and to the second), gravity, some points pinned."""
    kb = KernelBuilder("cloth_step")
    i, j = kb.axis("h", h), kb.axis("w", w)
    at, old = kb.input("at", (h, w, 3), float32), kb.input("old", (h, w, 3), float32)
    pinned = kb.input("pinned", (h, w), "bool")
    force: list[Any] = [0.0, -9.81, 0.0]
    for a, b in SPRINGS:
        there = (i + a >= 0) & (i + a < h) & (j + b >= 0) & (j + b < w)
        d = [at.masked(there, i + a, j + b, c) - at[i, j, c] for c in range(3)]
        long = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        pull = where(there, 30.0 * (1.0 - (a * a + b * b) ** 0.5 / long), 0.0)
        force = [f + pull * x for f, x in zip(force, d)]
    for c in range(3):
        moved = at[i, j, c] + (at[i, j, c] - old[i, j, c]) * 0.99 + force[c] * 2.5e-4
        kb.store("new", float32, (h, w, 3), (i, j), where(pinned[i, j], at[i, j, c], moved), (i, j, c))
    return kb.build()


def life_words(h: int = 1021, w: int = 31) -> Kernel:
    """A generation of Conway's life on a torus, 64 cells in a word (the lowest bit is the leftmost)."""
    kb = KernelBuilder("life_words")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint64)

    def three(o: int) -> tuple[Any, Any, Any]:
        r = (i + h + o) % h
        mid, before, after = x[r, j], x[r, (j + w - 1) % w], x[r, (j + 1) % w]
        return (mid << 1) | (before >> 63), mid, (mid >> 1) | (after << 63)

    def add(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        both = a ^ b
        return both ^ c, (a & b) | (both & c)

    up, down, (left, me, right) = add(*three(-1)), add(*three(1)), three(0)
    low, carry = add(up[0], down[0], left ^ right)
    twos, fours = add(up[1], down[1], left & right)
    more, most = twos ^ carry, twos & carry
    kb.store("y", uint64, (h, w), (i, j), more & ~(fours | most) & (low | me))
    return kb.build()


def seir_grid(h: int = 203, w: int = 317, d: int = 41) -> Kernel:
    """A day of an epidemic on a map (who may fall ill, has caught it, is ill, is well again), and each district's new cases."""
    kb = KernelBuilder("seir_grid")
    i, j = kb.axis("h", h), kb.axis("w", w)
    s, e, l, r = (kb.input(name, (h, w), float32, range=(0.0, 100.0)) for name in ("s", "e", "l", "r"))
    district = kb.input("district", (h, w), uint8, range=(0, d - 1))
    near = l.masked(i > 0, i - 1, j) + l.masked(i < h - 1, i + 1, j) + l.masked(j > 0, i, j - 1) + l.masked(j < w - 1, i, j + 1)
    people = s[i, j] + e[i, j] + l[i, j] + r[i, j] + 1.0
    new = kb.value("new", (i, j), s[i, j] * (1.0 - exp((l[i, j] + near * 0.08) * -0.4 / people)))
    kb.store("new_s", float32, (h, w), (i, j), s[i, j] - new[i, j])
    kb.store("new_e", float32, (h, w), (i, j), e[i, j] * 0.8 + new[i, j])
    kb.store("new_l", float32, (h, w), (i, j), l[i, j] * 0.9 + e[i, j] * 0.2)
    kb.store("new_r", float32, (h, w), (i, j), r[i, j] + l[i, j] * 0.1)
    kb.store("cases", float32, (d,), (i, j), new[i, j], (district[i, j],), combine="add")
    return kb.build()


def traffic_cells(b: int = 64, n: int = 1503) -> Kernel:
    """A second of Nagel and Schreckenberg's traffic on ring roads: cells hold a car's speed (below 0: none); some dawdle."""
    kb = KernelBuilder("traffic_cells")
    i, j, k, t = kb.axis("b", b), kb.axis("n", n), kb.axis("ahead", 5), kb.axis("n@total", n)
    road, dice = kb.input("road", (b, n), "int8", range=(-9, 5)), kb.input("dice", (b, n), "uint8")
    gap = kb.min("gap", (i, j), k, where(road[i, (j + k + 1) % n] >= 0, cast(k, "int8"), 5))
    fast = minimum(minimum(road[i, j] + 1, 5), gap[i, j])
    speed = kb.value("speed", (i, j), where(road[i, j] >= 0, maximum(fast - where(dice[i, j] < 51, 1, 0), 0), -1))
    moved: Any = -1
    for d in range(6):
        moved = where(speed[i, (j + n - d) % n].eq(d), d, moved)
    kb.store("new", "int8", (b, n), (i, j), cast(moved, "int8"))
    total = kb.sum("total", (i,), t, maximum(cast(speed[i, t], "int32"), 0))
    kb.store("flow", "int32", (b,), (i,), total[i])
    return kb.build()
