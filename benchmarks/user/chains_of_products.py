"""Products of three and more arrays, as users write them in one sum, with the loops in C that a good programmer writes
(which take the sums one after the other) and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, float64

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "four_matrices": ("products of three arrays", {"i": 5, "j": 9, "k": 7, "l": 11, "m": 19}),
    "mttkrp": ("products of three arrays", {"i": 5, "j": 9, "k": 21, "r": 8}),
    "tucker_core": ("products of three arrays", {"i": 5, "j": 6, "k": 21, "r": 3}),
    "cp_rebuild": ("products of three arrays", {"i": 5, "j": 6, "k": 21, "r": 8}),
    "congruence": ("products of three arrays", {"b": 4, "d": 6}),
    "kronecker_apply": ("products of three arrays", {"b": 3, "p": 5, "q": 6}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def four_matrices(i: int = 96, j: int = 384, k: int = 64, l: int = 320, m: int = 256) -> Kernel:
    """A chain of four matrices."""
    kb = KernelBuilder("four_matrices")
    p, t = kb.axis("i", i), kb.axis("m", m)
    q, r, s = kb.axis("j", j), kb.axis("k", k), kb.axis("l", l)
    a, b = kb.input("a", (i, j), float32), kb.input("b", (j, k), float32)
    c, d = kb.input("c", (k, l), float32), kb.input("d", (l, m), float32)
    total = kb.sum("total", (p, t), (q, r, s), a[p, q] * b[q, r] * c[r, s] * d[s, t])
    kb.store("y", float32, (i, m), (p, t), total[p, t])
    return kb.build()


C["four_matrices"] = """
static float ab[I][K], cd[K][M];
void kernel(const float (*restrict a)[J], const float (*restrict b)[K], const float (*restrict c)[L],
            const float (*restrict d)[M], float (*restrict y)[M]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int r = 0; r < K; r++) ab[p][r] = 0;
    for (int q = 0; q < J; q++)
      for (int r = 0; r < K; r++) ab[p][r] += a[p][q] * b[q][r];
  }
#pragma omp parallel for
  for (int r = 0; r < K; r++) {
    for (int t = 0; t < M; t++) cd[r][t] = 0;
    for (int s = 0; s < L; s++)
      for (int t = 0; t < M; t++) cd[r][t] += c[r][s] * d[s][t];
  }
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int t = 0; t < M; t++) y[p][t] = 0;
    for (int r = 0; r < K; r++)
      for (int t = 0; t < M; t++) y[p][t] += ab[p][r] * cd[r][t];
  }
}
"""


def four_matrices_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Products of two."""
    import numpy as np

    return {"y": np.linalg.multi_dot([x[n].astype(np.float64) for n in "abcd"])}


def mttkrp(i: int = 128, j: int = 96, k: int = 128, r: int = 32) -> Kernel:
    """The product of an unfolded tensor with the Khatri-Rao product of two factors, as CP decomposition has it."""
    kb = KernelBuilder("mttkrp")
    p, e, q, s = kb.axis("i", i), kb.axis("r", r), kb.axis("j", j), kb.axis("k", k)
    x = kb.input("x", (i, j, k), float32)
    v, w = kb.input("v", (j, r), float32), kb.input("w", (k, r), float32)
    total = kb.sum("total", (p, e), (q, s), x[p, q, s] * v[q, e] * w[s, e])
    kb.store("y", float32, (i, r), (p, e), total[p, e])
    return kb.build()


C["mttkrp"] = """
void kernel(const float (*restrict x)[J][K], const float (*restrict v)[R], const float (*restrict w)[R],
            float (*restrict y)[R]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    float all[R] = {0};
    for (int q = 0; q < J; q++) {
      float row[R] = {0};
      for (int s = 0; s < K; s++)
        for (int e = 0; e < R; e++) row[e] += x[p][q][s] * w[s][e];
      for (int e = 0; e < R; e++) all[e] += row[e] * v[q][e];
    }
    for (int e = 0; e < R; e++) y[p][e] = all[e];
  }
}
"""


def mttkrp_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    return {"y": np.einsum("ijk,jr,kr->ir", *(x[n].astype(np.float64) for n in "xvw"), optimize=True)}


def tucker_core(i: int = 128, j: int = 128, k: int = 128, r: int = 8) -> Kernel:
    """The core of a tensor for three given factors."""
    kb = KernelBuilder("tucker_core")
    p, q, s = kb.axis("i", i), kb.axis("j", j), kb.axis("k", k)
    a, b, c = kb.axis("a", r), kb.axis("b", r), kb.axis("c", r)
    x = kb.input("x", (i, j, k), float32)
    u, v, w = kb.input("u", (i, r), float32), kb.input("v", (j, r), float32), kb.input("w", (k, r), float32)
    total = kb.sum("total", (a, b, c), (p, q, s), x[p, q, s] * u[p, a] * v[q, b] * w[s, c])
    kb.store("y", float32, (r, r, r), (a, b, c), total[a, b, c])
    return kb.build()


C["tucker_core"] = """
static float first[I][J][R], second[I][R][R];
void kernel(const float (*restrict x)[J][K], const float (*restrict u)[R], const float (*restrict v)[R],
            const float (*restrict w)[R], float (*restrict y)[R][R]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int q = 0; q < J; q++) {
      float row[R] = {0};
      for (int s = 0; s < K; s++)
        for (int c = 0; c < R; c++) row[c] += x[p][q][s] * w[s][c];
      for (int c = 0; c < R; c++) first[p][q][c] = row[c];
    }
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) second[p][b][c] = 0;
    for (int q = 0; q < J; q++)
      for (int b = 0; b < R; b++)
        for (int c = 0; c < R; c++) second[p][b][c] += v[q][b] * first[p][q][c];
  }
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) y[a][b][c] = 0;
  for (int p = 0; p < I; p++)
    for (int a = 0; a < R; a++)
      for (int b = 0; b < R; b++)
        for (int c = 0; c < R; c++) y[a][b][c] += u[p][a] * second[p][b][c];
}
"""


def tucker_core_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    return {"y": np.einsum("ijk,ia,jb,kc->abc", *(x[n].astype(np.float64) for n in "xuvw"), optimize=True)}


def cp_rebuild(i: int = 128, j: int = 128, k: int = 128, r: int = 16) -> Kernel:
    """A tensor from its CP decomposition: one sum of products of three."""
    kb = KernelBuilder("cp_rebuild")
    p, q, s, e = kb.axis("i", i), kb.axis("j", j), kb.axis("k", k), kb.axis("r", r)
    u, v, w = kb.input("u", (i, r), float32), kb.input("v", (j, r), float32), kb.input("w", (r, k), float32)
    total = kb.sum("total", (p, q, s), e, u[p, e] * v[q, e] * w[e, s])
    kb.store("y", float32, (i, j, k), (p, q, s), total[p, q, s])
    return kb.build()


C["cp_rebuild"] = """
void kernel(const float (*restrict u)[R], const float (*restrict v)[R], const float (*restrict w)[K],
            float (*restrict y)[J][K]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++)
    for (int q = 0; q < J; q++) {
      float both[R];
      for (int e = 0; e < R; e++) both[e] = u[p][e] * v[q][e];
      for (int s = 0; s < K; s++) {
        float total = 0;
        for (int e = 0; e < R; e++) total += both[e] * w[e][s];
        y[p][q][s] = total;
      }
    }
}
"""


def cp_rebuild_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    return {"y": np.einsum("ir,jr,rk->ijk", *(x[n].astype(np.float64) for n in "uvw"), optimize=True)}


def congruence(b: int = 2048, d: int = 24) -> Kernel:
    """Covariances in other coordinates: a · s · aᵀ of many small matrices, in float64."""
    kb = KernelBuilder("congruence")
    e, i, l, j, k = kb.axis("b", b), kb.axis("i", d), kb.axis("l", d), kb.axis("j", d), kb.axis("k", d)
    a, s = kb.input("a", (b, d, d), float64), kb.input("s", (b, d, d), float64)
    total = kb.sum("total", (e, i, l), (j, k), a[e, i, j] * s[e, j, k] * a[e, l, k])
    kb.store("y", float64, (b, d, d), (e, i, l), total[e, i, l])
    return kb.build()


C["congruence"] = """
void kernel(const double (*restrict a)[D][D], const double (*restrict s)[D][D], double (*restrict y)[D][D]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    double half[D][D] = {0};
    for (int i = 0; i < D; i++)
      for (int j = 0; j < D; j++)
        for (int k = 0; k < D; k++) half[i][k] += a[e][i][j] * s[e][j][k];
    for (int i = 0; i < D; i++)
      for (int l = 0; l < D; l++) {
        double total = 0;
        for (int k = 0; k < D; k++) total += half[i][k] * a[e][l][k];
        y[e][i][l] = total;
      }
  }
}
"""


def congruence_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Two stacked products."""
    return {"y": x["a"] @ x["s"] @ x["a"].transpose(0, 2, 1)}


def kronecker_apply(b: int = 512, p: int = 32, q: int = 48) -> Kernel:
    """The Kronecker product of two matrices times many vectors."""
    kb = KernelBuilder("kronecker_apply")
    e, i, j, k, l = kb.axis("b", b), kb.axis("i", p), kb.axis("j", q), kb.axis("k", p), kb.axis("l", q)
    m, n, x = kb.input("m", (p, p), float32), kb.input("n", (q, q), float32), kb.input("x", (b, p, q), float32)
    total = kb.sum("total", (e, i, j), (k, l), m[i, k] * n[j, l] * x[e, k, l])
    kb.store("y", float32, (b, p, q), (e, i, j), total[e, i, j])
    return kb.build()


C["kronecker_apply"] = """
void kernel(const float (*restrict m)[P], const float (*restrict n)[Q], const float (*restrict x)[P][Q],
            float (*restrict y)[P][Q]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float half[P][Q] = {0};
    for (int i = 0; i < P; i++)
      for (int k = 0; k < P; k++)
        for (int l = 0; l < Q; l++) half[i][l] += m[i][k] * x[e][k][l];
    for (int i = 0; i < P; i++)
      for (int j = 0; j < Q; j++) {
        float total = 0;
        for (int l = 0; l < Q; l++) total += half[i][l] * n[j][l];
        y[e][i][j] = total;
      }
  }
}
"""


def kronecker_apply_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Products from both sides."""
    m, n = x["m"].astype("float64"), x["n"].astype("float64")
    return {"y": m @ x["x"] @ n.T}
