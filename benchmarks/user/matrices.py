"""Small matrices, many at a time, and the products of spectral methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, float64, rsqrt

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "inverse3x3": ("small matrices", {"n": 13}),
    "cholesky4_solve": ("small matrices", {"n": 13}),
    "small_products": ("small products", {"b": 7, "d": 5}),
    "chebyshev_laplacian": ("small products", {"b": 2, "n": 9}),
    "mie_amplitudes": ("small products", {"n": 7, "t": 13}),
    "legendre_synthesis": ("small products", {"m": 4, "l": 7, "t": 11}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def inverse3x3(n: int = 20001) -> Kernel:
    """The inverses of many 3x3 matrices (with something on the diagonal that keeps them away from singular)."""
    kb = KernelBuilder("inverse3x3")
    i = kb.axis("n", n)
    x = kb.input("x", (n, 3, 3), float32, range=(-0.5, 0.5))
    m = [[x[i, p, q] + (2.0 if p == q else 0.0) for q in range(3)] for p in range(3)]

    def cof(p: int, q: int) -> Any:
        a, b, c, d = (p + 1) % 3, (p + 2) % 3, (q + 1) % 3, (q + 2) % 3
        return m[a][c] * m[b][d] - m[a][d] * m[b][c]

    over = 1.0 / (m[0][0] * cof(0, 0) + m[0][1] * cof(0, 1) + m[0][2] * cof(0, 2))
    for p in range(3):
        for q in range(3):
            kb.store("y", float32, (n, 3, 3), (i,), cof(q, p) * over, (i, p, q))
    return kb.build()


C["inverse3x3"] = """
void kernel(const float (*restrict x)[3][3], float (*restrict y)[3][3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float a = x[i][0][0] + 2, b = x[i][0][1], c = x[i][0][2], d = x[i][1][0], e = x[i][1][1] + 2, f = x[i][1][2];
    float g = x[i][2][0], h = x[i][2][1], k = x[i][2][2] + 2;
    float p = e * k - f * h, q = f * g - d * k, r = d * h - e * g, over = 1 / (a * p + b * q + c * r);
    y[i][0][0] = p * over, y[i][0][1] = (c * h - b * k) * over, y[i][0][2] = (b * f - c * e) * over;
    y[i][1][0] = q * over, y[i][1][1] = (a * k - c * g) * over, y[i][1][2] = (c * d - a * f) * over;
    y[i][2][0] = r * over, y[i][2][1] = (b * g - a * h) * over, y[i][2][2] = (a * e - b * d) * over;
  }
}
"""


def inverse3x3_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.linalg.inv."""
    import numpy as np

    return {"y": np.linalg.inv(x["x"].astype(np.float64) + 2 * np.eye(3))}


def cholesky4_solve(n: int = 8000) -> Kernel:
    """A x = b for many symmetric positive 4x4 systems (ten numbers each), by Cholesky, unrolled."""
    kb = KernelBuilder("cholesky4_solve")
    i = kb.axis("n", n)
    a, b = kb.input("a", (n, 10), float32, range=(-0.5, 0.5)), kb.input("b", (n, 4), float32)
    low: dict[tuple[int, int], Any] = {}
    inv: dict[int, Any] = {}
    k = 0
    for p in range(4):
        for q in range(p + 1):
            v = a[i, k] + (4.0 if p == q else 0.0)
            k += 1
            for r in range(q):
                v = v - low[p, r] * low[q, r]
            if p == q:
                inv[p] = kb.value(f"d{p}", (i,), rsqrt(v))[i]
            else:
                low[p, q] = kb.value(f"l{p}{q}", (i,), v * inv[q])[i]
    z: list[Any] = []
    for p in range(4):
        v = b[i, p]
        for r in range(p):
            v = v - low[p, r] * z[r]
        z.append(kb.value(f"z{p}", (i,), v * inv[p])[i])
    out: dict[int, Any] = {}
    for p in (3, 2, 1, 0):
        v = z[p]
        for r in range(p + 1, 4):
            v = v - low[r, p] * out[r]
        out[p] = kb.value(f"x{p}", (i,), v * inv[p])[i]
    for p in range(4):
        kb.store("y", float32, (n, 4), (i,), out[p], (i, p))
    return kb.build()


C["cholesky4_solve"] = """
#include <math.h>
void kernel(const float (*restrict a)[10], const float (*restrict b)[4], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float l[4][4], d[4], z[4], o[4];
    int k = 0;
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++)
#pragma GCC unroll 4
      for (int q = 0; q <= p; q++) {
        float v = a[i][k++] + (p == q ? 4 : 0);
        for (int r = 0; r < q; r++) v -= l[p][r] * l[q][r];
        if (p == q) d[p] = 1 / sqrtf(v);
        else l[p][q] = v * d[q];
      }
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
      float v = b[i][p];
      for (int r = 0; r < p; r++) v -= l[p][r] * z[r];
      z[p] = v * d[p];
    }
#pragma GCC unroll 4
    for (int p = 3; p >= 0; p--) {
      float v = z[p];
      for (int r = p + 1; r < 4; r++) v -= l[r][p] * o[r];
      y[i][p] = o[p] = v * d[p];
    }
  }
}
"""


def cholesky4_solve_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.linalg.solve."""
    import numpy as np

    m = np.zeros((s["n"], 4, 4))
    k = 0
    for p in range(4):
        for q in range(p + 1):
            m[:, p, q] = m[:, q, p] = x["a"][:, k]
            k += 1
    return {"y": np.linalg.solve(m + 4 * np.eye(4), x["b"].astype(np.float64)[:, :, None])[:, :, 0]}


def small_products(b: int = 1500, d: int = 12) -> Kernel:
    """Many products of small float64 matrices, with a third added."""
    kb = KernelBuilder("small_products")
    e, i, j, l = kb.axis("b", b), kb.axis("i", d), kb.axis("j", d), kb.axis("l", d)
    x, y, z = (kb.input(n, (b, d, d), float64) for n in "xyz")
    acc = kb.sum("acc", (e, i, j), l, x[e, i, l] * y[e, l, j])
    kb.store("c", float64, (b, d, d), (e, i, j), acc[e, i, j] + z[e, i, j])
    return kb.build()


C["small_products"] = """
void kernel(const double (*restrict x)[D][D], const double (*restrict y)[D][D], const double (*restrict z)[D][D],
            double (*restrict c)[D][D]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++)
    for (int i = 0; i < D; i++) {
      double row[D];
      for (int j = 0; j < D; j++) row[j] = z[e][i][j];
      for (int l = 0; l < D; l++)
        for (int j = 0; j < D; j++) row[j] += x[e][i][l] * y[e][l][j];
      for (int j = 0; j < D; j++) c[e][i][j] = row[j];
    }
}
"""


def small_products_numpy(x: Arrays, s: Sizes) -> Arrays:
    """NumPy's product."""
    return {"c": x["x"] @ x["y"] + x["z"]}


def chebyshev_laplacian(b: int = 8, n: int = 49) -> Kernel:
    """D2 u + u D2ᵀ - lam u of many fields on Chebyshev points."""
    kb = KernelBuilder("chebyshev_laplacian")
    f, i, j, k, l = kb.axis("b", b), kb.axis("i", n), kb.axis("j", n), kb.axis("n@rows", n), kb.axis("n@cols", n)
    u, m = kb.input("u", (b, n, n), float64), kb.input("m", (n, n), float64)
    rows = kb.sum("rows", (f, i, j), k, m[i, k] * u[f, k, j])
    cols = kb.sum("cols", (f, i, j), l, u[f, i, l] * m[j, l])
    kb.store("y", float64, (b, n, n), (f, i, j), rows[f, i, j] + cols[f, i, j] - 0.3 * u[f, i, j])
    return kb.build()


C["chebyshev_laplacian"] = """
void kernel(const double (*restrict u)[N][N], const double (*restrict m)[N], double (*restrict y)[N][N]) {
  double t[N][N];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) t[j][i] = m[i][j];
#pragma omp parallel for
  for (int f = 0; f < B; f++)
    for (int i = 0; i < N; i++) {
      double acc[N];
      for (int j = 0; j < N; j++) acc[j] = -0.3 * u[f][i][j];
      for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++) acc[j] += m[i][k] * u[f][k][j] + u[f][i][k] * t[k][j];
      for (int j = 0; j < N; j++) y[f][i][j] = acc[j];
    }
}
"""


def chebyshev_laplacian_numpy(x: Arrays, s: Sizes) -> Arrays:
    """NumPy's products."""
    u, m = x["u"], x["m"]
    return {"y": m @ u + u @ m.T - 0.3 * u}


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


C["mie_amplitudes"] = """
void kernel(const double (*restrict a)[2], const double (*restrict b)[2], const double (*restrict p)[T],
            const double (*restrict u)[T], double (*restrict s1)[2], double (*restrict s2)[2]) {
  double r1[T], i1[T], r2[T], i2[T];
  for (int t = 0; t < T; t++) r1[t] = i1[t] = r2[t] = i2[t] = 0;
  for (int k = 0; k < N; k++)
    for (int t = 0; t < T; t++) {
      r1[t] += a[k][0] * p[k][t] + b[k][0] * u[k][t];
      i1[t] += a[k][1] * p[k][t] + b[k][1] * u[k][t];
      r2[t] += a[k][0] * u[k][t] + b[k][0] * p[k][t];
      i2[t] += a[k][1] * u[k][t] + b[k][1] * p[k][t];
    }
  for (int t = 0; t < T; t++) s1[t][0] = r1[t], s1[t][1] = i1[t], s2[t][0] = r2[t], s2[t][1] = i2[t];
}
"""


def mie_amplitudes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """NumPy's products."""
    a, b, p, u = (x[k] for k in "abpu")
    return {"s1": p.T @ a + u.T @ b, "s2": u.T @ a + p.T @ b}


def legendre_synthesis(m: int = 43, l: int = 85, t: int = 128) -> Kernel:
    """Fourier coefficients at each latitude from spherical harmonics: sums over the degree."""
    kb = KernelBuilder("legendre_synthesis")
    i, j, k, c = kb.axis("m", m), kb.axis("t", t), kb.axis("l", l), kb.axis("c", 2)
    p, a = kb.input("p", (m, l, t), float32), kb.input("a", (m, l, 2), float32)
    total = kb.sum("total", (j, i, c), k, p[i, k, j] * a[i, k, c])
    kb.store("y", float32, (t, m, 2), (j, i, c), total[j, i, c])
    return kb.build()


C["legendre_synthesis"] = """
void kernel(const float (*restrict p)[L][T], const float (*restrict a)[L][2], float (*restrict y)[M][2]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float re[T] = {0}, im[T] = {0};
    for (int k = 0; k < L; k++)
      for (int j = 0; j < T; j++) {
        re[j] += p[i][k][j] * a[i][k][0];
        im[j] += p[i][k][j] * a[i][k][1];
      }
    for (int j = 0; j < T; j++) y[j][i][0] = re[j], y[j][i][1] = im[j];
  }
}
"""


def legendre_synthesis_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    return {"y": np.einsum("mlt,mlc->tmc", x["p"].astype(np.float64), x["a"].astype(np.float64))}
