"""Quantum states under gates, links of a lattice, structure factors of a crystal, and elastic waves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, cos, exp, float32, float64, int16, int32, popcount, sin, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "controlled_gate": ("complex numbers", {"hi": 16, "lo": 8}),
    "pauli_strings": ("bit operations", {"p": 5, "qubits": 6}),
    "staggered_hop": ("stencil of many fields", {"t": 3, "x": 4, "y": 3, "z": 5}),
    "structure_factors": ("all pairs", {"m": 7, "n": 13, "e": 3}),
    "elastic_stress": ("stencil of many fields", {"h": 7, "w": 11}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["controlled_gate"] = """
void kernel(const float (*restrict x)[2][LO][2], const float (*restrict u)[2][2], float (*restrict y)[2][LO][2]) {
#pragma omp parallel for
  for (int i = 0; i < HI; i++)
    for (int j = 0; j < LO; j++) {
      float pr = x[i][0][j][0], pi = x[i][0][j][1], qr = x[i][1][j][0], qi = x[i][1][j][1];
      for (int a = 0; a < 2; a++)
        if (i >> 2 & 1) {
          y[i][a][j][0] = u[a][0][0] * pr - u[a][0][1] * pi + u[a][1][0] * qr - u[a][1][1] * qi;
          y[i][a][j][1] = u[a][0][0] * pi + u[a][0][1] * pr + u[a][1][0] * qi + u[a][1][1] * qr;
        } else {
          y[i][a][j][0] = x[i][a][j][0];
          y[i][a][j][1] = x[i][a][j][1];
        }
    }
}
"""


def controlled_gate_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    psi, u = (x[n].astype(np.float64) @ [1, 1j] for n in "xu")
    on = (np.arange(s["hi"]) // 4 % 2 == 1)[:, None, None]
    y = np.where(on, np.einsum("ab,ibj->iaj", u, psi), psi)
    return {"y": np.stack([y.real, y.imag], axis=-1)}


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


C["pauli_strings"] = """
void kernel(const double (*restrict psi)[2], const int *restrict flip, const int *restrict sign, double *restrict y) {
#pragma omp parallel for
  for (int k = 0; k < P; k++) {
    double re = 0, im = 0;
    for (int i = 0; i < 1 << QUBITS; i++) {
      const double *a = psi[i], *b = psi[i ^ flip[k]];
      double s = __builtin_popcount(i & sign[k]) & 1 ? -1 : 1;
      re += s * (a[0] * b[0] + a[1] * b[1]);
      im += s * (a[1] * b[0] - a[0] * b[1]);
    }
    int turn = __builtin_popcount(flip[k] & sign[k]) & 3;
    y[k] = turn == 0 ? re : turn == 1 ? im : turn == 2 ? -re : -im;
  }
}
"""


def pauli_strings_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    psi, i = x["psi"] @ [1, 1j], np.arange(1 << s["qubits"])
    y = []
    for flip, sign in zip(x["flip"], x["sign"]):
        odd = np.bitwise_count(i & sign) % 2
        y.append((1j ** int(flip & sign).bit_count() * (np.conj(psi) * psi[i ^ flip] * (1 - 2.0 * odd)).sum()).real)
    return {"y": np.array(y)}


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


C["staggered_hop"] = """
typedef const float (*site)[X][Y][Z][3][2];
typedef const float (*links)[X][Y][Z][4][3][3][2];
static void hop(links u, site v, int t, int x, int y, int z, float (*restrict out)[2]) {
  int eta[4] = {1, t & 1 ? -1 : 1, (t + x) & 1 ? -1 : 1, (t + x + y) & 1 ? -1 : 1};
  float sum[3][2] = {0};
  for (int d = 0; d < 4; d++) {
    int e[4] = {d == 0, d == 1, d == 2, d == 3};
    int ta = (t + e[0]) % T, xa = (x + e[1]) % X, ya = (y + e[2]) % Y, za = (z + e[3]) % Z;
    int tb = (t + T - e[0]) % T, xb = (x + X - e[1]) % X, yb = (y + Y - e[2]) % Y, zb = (z + Z - e[3]) % Z;
    const float (*p)[2] = v[ta][xa][ya][za], (*q)[2] = v[tb][xb][yb][zb];
    const float (*f)[3][2] = u[t][x][y][z][d], (*g)[3][2] = u[tb][xb][yb][zb][d];
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++) {
        float re = f[a][b][0] * p[b][0] - f[a][b][1] * p[b][1] - g[b][a][0] * q[b][0] - g[b][a][1] * q[b][1];
        float im = f[a][b][0] * p[b][1] + f[a][b][1] * p[b][0] - g[b][a][0] * q[b][1] + g[b][a][1] * q[b][0];
        sum[a][0] += 0.5f * eta[d] * re;
        sum[a][1] += 0.5f * eta[d] * im;
      }
  }
  for (int a = 0; a < 3; a++) out[a][0] = sum[a][0], out[a][1] = sum[a][1];
}
void kernel(links u, site v, float (*restrict out)[X][Y][Z][3][2]) {
#pragma omp parallel for collapse(2)
  for (int t = 0; t < T; t++)
    for (int x = 0; x < X; x++)
      for (int y = 0; y < Y; y++)
        for (int z = 0; z < Z; z++) hop(u, v, t, x, y, z, out[t][x][y][z]);
}
"""


def staggered_hop_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.roll, in complex128."""
    import numpy as np

    u, v = (x[n].astype(np.float64) @ [1, 1j] for n in "uv")
    at, y = np.indices(v.shape[:4]), 0
    for d in range(4):
        eta = 0.5 * (-1.0) ** at[:d].sum(axis=0)[..., None]
        ahead = np.einsum("txyzab,txyzb->txyza", u[..., d, :, :], np.roll(v, -1, axis=d))
        y = y + eta * (ahead - np.roll(np.einsum("txyzba,txyzb->txyza", u[..., d, :, :].conj(), v), 1, axis=d))
    return {"out": np.stack([y.real, y.imag], axis=-1)}


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


C["structure_factors"] = """
#include <math.h>
void kernel(const short (*restrict hkl)[3], const float *restrict cell, const float (*restrict amp)[4], const float (*restrict wide)[4],
            const float (*restrict at)[3], const int *restrict kind, const float *restrict shake, float (*restrict f)[2], float *restrict power) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float h = hkl[i][0], k = hkl[i][1], l = hkl[i][2], form[E], re = 0, im = 0;
    float s2 = 0.25f * (h * cell[0] * h * cell[0] + k * cell[1] * k * cell[1] + l * cell[2] * l * cell[2]);
    for (int e = 0; e < E; e++) {
      form[e] = 0;
      for (int g = 0; g < 4; g++) form[e] += amp[e][g] * expf(-wide[e][g] * s2);
    }
    for (int j = 0; j < N; j++) {
      float turn = 6.2831853f * (h * at[j][0] + k * at[j][1] + l * at[j][2]), v = form[kind[j]] * expf(-shake[j] * s2);
      re += v * cosf(turn);
      im += v * sinf(turn);
    }
    f[i][0] = re;
    f[i][1] = im;
    power[i] = re * re + im * im;
  }
}
"""


def structure_factors_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    h, at, amp, wide = (x[n].astype(np.float64) for n in ("hkl", "at", "amp", "wide"))
    s2 = ((h * x["cell"]) ** 2).sum(axis=1) / 4
    form = (amp * np.exp(-wide * s2[:, None, None])).sum(axis=2)[:, x["kind"]]
    f = (form * np.exp(-x["shake"] * s2[:, None] + 6.2831853j * (h @ at.T))).sum(axis=1)
    return {"f": np.stack([f.real, f.imag], axis=1), "power": np.abs(f) ** 2}


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


C["elastic_stress"] = """
#define SLOPE(a, b, c, d) (((c) - (b)) * 1.125f - ((d) - (a)) * (1 / 24.f))
typedef float row[W], halo[W + 4], corner[W + 1];
void kernel(const halo *restrict vx, const halo *restrict vz, const corner *restrict lam, const corner *restrict mu, const row *restrict xx,
            const row *restrict zz, const row *restrict xz, row *restrict nxx, row *restrict nzz, row *restrict nxz) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      const int p = i + 2, q = j + 2;
      float dx = SLOPE(vx[p][q - 2], vx[p][q - 1], vx[p][q], vx[p][q + 1]), dz = SLOPE(vz[p - 2][q], vz[p - 1][q], vz[p][q], vz[p + 1][q]);
      float sx = SLOPE(vx[p - 1][q], vx[p][q], vx[p + 1][q], vx[p + 2][q]), sz = SLOPE(vz[p][q - 1], vz[p][q], vz[p][q + 1], vz[p][q + 2]);
      float shear = 4 / (1 / mu[i][j] + 1 / mu[i + 1][j] + 1 / mu[i][j + 1] + 1 / mu[i + 1][j + 1]);
      nxx[i][j] = xx[i][j] + 0.01f * ((lam[i][j] + 2 * mu[i][j]) * dx + lam[i][j] * dz);
      nzz[i][j] = zz[i][j] + 0.01f * ((lam[i][j] + 2 * mu[i][j]) * dz + lam[i][j] * dx);
      nxz[i][j] = xz[i][j] + 0.01f * shear * (sx + sz);
    }
}
"""


def elastic_stress_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.roll, without what came around."""
    import numpy as np

    vx, vz, lam, mu = (x[n].astype(np.float64) for n in ("vx", "vz", "lam", "mu"))

    def slope(v: Any, axis: int, on: int) -> Any:
        f = [np.roll(v, -k, axis)[2:-2, 2:-2] for k in range(on - 2, on + 2)]
        return (f[2] - f[1]) * 1.125 - (f[3] - f[0]) / 24

    dx, dz, r = slope(vx, 1, 0), slope(vz, 0, 0), 1 / mu
    shear = 4 / (r[:-1, :-1] + r[1:, :-1] + r[:-1, 1:] + r[1:, 1:])
    l, stiff = lam[:-1, :-1], (lam + 2 * mu)[:-1, :-1]
    new = x["xx"] + 0.01 * (stiff * dx + l * dz), x["zz"] + 0.01 * (stiff * dz + l * dx)
    return {"new_xx": new[0], "new_zz": new[1], "new_xz": x["xz"] + 0.01 * shear * (slope(vx, 0, 1) + slope(vz, 1, 1))}
