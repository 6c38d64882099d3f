"""Linear algebra: products, tensor decompositions, small and sparse matrices, complex numbers.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

import math
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, acos, cast, clip, cos, float32, float64, int32, maximum, minimum, rsqrt, sqrt, where


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


def mttkrp(i: int = 128, j: int = 96, k: int = 128, r: int = 32) -> Kernel:
    """The product of an unfolded tensor with the Khatri-Rao product of two factors, as CP decomposition has it."""
    kb = KernelBuilder("mttkrp")
    p, e, q, s = kb.axis("i", i), kb.axis("r", r), kb.axis("j", j), kb.axis("k", k)
    x = kb.input("x", (i, j, k), float32)
    v, w = kb.input("v", (j, r), float32), kb.input("w", (k, r), float32)
    total = kb.sum("total", (p, e), (q, s), x[p, q, s] * v[q, e] * w[s, e])
    kb.store("y", float32, (i, r), (p, e), total[p, e])
    return kb.build()


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


def cp_rebuild(i: int = 128, j: int = 128, k: int = 128, r: int = 16) -> Kernel:
    """A tensor from its CP decomposition: one sum of products of three."""
    kb = KernelBuilder("cp_rebuild")
    p, q, s, e = kb.axis("i", i), kb.axis("j", j), kb.axis("k", k), kb.axis("r", r)
    u, v, w = kb.input("u", (i, r), float32), kb.input("v", (j, r), float32), kb.input("w", (r, k), float32)
    total = kb.sum("total", (p, q, s), e, u[p, e] * v[q, e] * w[e, s])
    kb.store("y", float32, (i, j, k), (p, q, s), total[p, q, s])
    return kb.build()


def congruence(b: int = 2048, d: int = 24) -> Kernel:
    """Covariances in other coordinates: a · s · aᵀ of many small matrices, in float64."""
    kb = KernelBuilder("congruence")
    e, i, l, j, k = kb.axis("b", b), kb.axis("i", d), kb.axis("l", d), kb.axis("j", d), kb.axis("k", d)
    a, s = kb.input("a", (b, d, d), float64), kb.input("s", (b, d, d), float64)
    total = kb.sum("total", (e, i, l), (j, k), a[e, i, j] * s[e, j, k] * a[e, l, k])
    kb.store("y", float64, (b, d, d), (e, i, l), total[e, i, l])
    return kb.build()


def kronecker_apply(b: int = 512, p: int = 32, q: int = 48) -> Kernel:
    """The Kronecker product of two matrices times many vectors."""
    kb = KernelBuilder("kronecker_apply")
    e, i, j, k, l = kb.axis("b", b), kb.axis("i", p), kb.axis("j", q), kb.axis("k", p), kb.axis("l", q)
    m, n, x = kb.input("m", (p, p), float32), kb.input("n", (q, q), float32), kb.input("x", (b, p, q), float32)
    total = kb.sum("total", (e, i, j), (k, l), m[i, k] * n[j, l] * x[e, k, l])
    kb.store("y", float32, (b, p, q), (e, i, j), total[e, i, j])
    return kb.build()


def toeplitz_products(b: int = 97, n: int = 200) -> Kernel:
    """Products of vectors with Toeplitz matrices of their own, each kept as its 2n-1 diagonals from the lower left up."""
    kb = KernelBuilder("toeplitz_products")
    i, r, c = kb.axis("b", b), kb.axis("r", n), kb.axis("c", n)
    d, x = kb.input("d", (b, 2 * n - 1), float64), kb.input("x", (b, n), float64)
    y = kb.sum("sum", (i, r), c, d[i, n - 1 - r + c] * x[i, c])
    kb.store("y", float64, (b, n), (i, r), y[i, r])
    return kb.build()


def reflected_columns(b: int = 120, n: int = 29, m: int = 43) -> Kernel:
    """Householder's reflection of small matrices, whose columns lie together: a − 2 v (v · a) / (v · v), in float64."""
    kb = KernelBuilder("reflected_columns")
    i, j, o, p, q = kb.axis("b", b), kb.axis("n", n), kb.axis("m@out", m), kb.axis("m@dot", m), kb.axis("m@norm", m)
    a, v = kb.input("a", (b, n, m), float64), kb.input("v", (b, m), float64)
    dot = kb.sum("dot", (i, j), p, v[i, p] * a[i, j, p])
    norm = kb.sum("norm", (i,), q, v[i, q] ** 2)
    kb.store("y", float64, (b, n, m), (i, j, o), a[i, j, o] - 2.0 * dot[i, j] / norm[i] * v[i, o])
    return kb.build()


def gram_schmidt3(n: int = 20011) -> Kernel:
    """Matrices of 3 × 3 as rotations and upper triangles (six numbers each), column after column, by Gram and Schmidt."""
    kb = KernelBuilder("gram_schmidt3")
    i = kb.axis("n", n)
    a = kb.input("a", (n, 3, 3), float32)

    def dot(x: list[Any], y: list[Any]) -> Any:
        return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]

    done: list[list[Any]] = []
    upper: list[Any] = []
    for k in range(3):
        v = [a[i, k, c] for c in range(3)]
        for u in done:
            by = dot(u, v)
            v = [p - by * q for p, q in zip(v, u)]
            upper.append(by)
        square = dot(v, v) + 1e-12
        over = rsqrt(square)
        upper.append(square * over)
        done.append([p * over for p in v])
    for k in range(3):
        for c in range(3):
            kb.store("q", float32, (n, 3, 3), (i,), done[k][c], (i, k, c))
    for k, r in enumerate(upper):
        kb.store("r", float32, (n, 6), (i,), r, (i, k))
    return kb.build()


def three_products(m: int = 192, k: int = 192, l: int = 192, n: int = 192) -> Kernel:
    """a · b · c, written as the one sum that it is."""
    kb = KernelBuilder("three_products")
    i, p, q, j = kb.axis("m", m), kb.axis("k", k), kb.axis("l", l), kb.axis("n", n)
    a, b, c = kb.input("a", (m, k), float32), kb.input("b", (k, l), float32), kb.input("c", (l, n), float32)
    total = kb.sum("total", (i, j), (p, q), a[i, p] * b[p, q] * c[q, j])
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


def bilinear_form(b: int = 256, m: int = 512, n: int = 512) -> Kernel:
    """y[b] = x[b] · w · z[b] for many pairs of vectors."""
    kb = KernelBuilder("bilinear_form")
    e, i, j = kb.axis("b", b), kb.axis("m", m), kb.axis("n", n)
    x, w, z = kb.input("x", (b, m), float32), kb.input("w", (m, n), float32), kb.input("z", (b, n), float32)
    total = kb.sum("total", (e,), (i, j), x[e, i] * w[i, j] * z[e, j])
    kb.store("y", float32, (b,), (e,), total[e])
    return kb.build()


def complex_multiply(n: int = 1 << 21) -> Kernel:
    """Products of complex numbers, real and imaginary parts side by side."""
    kb = KernelBuilder("complex_multiply")
    i, e = kb.axis("n", n), kb.axis("part", 2)
    a, b = kb.input("a", (n, 2), float32), kb.input("b", (n, 2), float32)
    real = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]
    imaginary = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]
    kb.store("y", float32, (n, 2), (i, e), where(e.eq(0), real, imaginary))
    return kb.build()


def complex_dot(m: int = 2048, n: int = 512) -> Kernel:
    """Σ conj(a) · b of rows of complex numbers, real and imaginary parts side by side."""
    kb = KernelBuilder("complex_dot")
    i, k, l = kb.axis("m", m), kb.axis("n@re", n), kb.axis("n@im", n)
    a, b = kb.input("a", (m, n, 2), float32), kb.input("b", (m, n, 2), float32)
    real = kb.sum("real", (i,), k, a[i, k, 0] * b[i, k, 0] + a[i, k, 1] * b[i, k, 1])
    imaginary = kb.sum("imaginary", (i,), l, a[i, l, 0] * b[i, l, 1] - a[i, l, 1] * b[i, l, 0])
    kb.store("re", float32, (m,), (i,), real[i])
    kb.store("im", float32, (m,), (i,), imaginary[i])
    return kb.build()


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


def small_products(b: int = 1500, d: int = 12) -> Kernel:
    """Many products of small float64 matrices, with a third added."""
    kb = KernelBuilder("small_products")
    e, i, j, l = kb.axis("b", b), kb.axis("i", d), kb.axis("j", d), kb.axis("l", d)
    x, y, z = (kb.input(n, (b, d, d), float64) for n in "xyz")
    acc = kb.sum("acc", (e, i, j), l, x[e, i, l] * y[e, l, j])
    kb.store("c", float64, (b, d, d), (e, i, j), acc[e, i, j] + z[e, i, j])
    return kb.build()


def sym3_eigenvalues(n: int = 2503) -> Kernel:
    """The eigenvalues of many symmetric 3 × 3 tensors in closed form, the greatest first; components come first."""
    kb = KernelBuilder("sym3_eigenvalues")
    i = kb.axis("n", n)
    t = kb.input("t", (6, n), float64, range=(-1.0, 1.0))
    xx, yy, zz, xy, xz, yz = (t[c, i] for c in range(6))
    mean = kb.value("mean", (i,), (xx + yy + zz) * (1 / 3))[i]
    a, b, c = xx - mean, yy - mean, zz - mean
    off = kb.value("off", (i,), xy * xy + xz * xz + yz * yz)[i]
    p = kb.value("p", (i,), sqrt((a * a + b * b + c * c + 2.0 * off) * (1 / 6)))[i]
    half = 0.5 * (a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz))
    angle = kb.value("angle", (i,), acos(clip(half / (p * p * p), -1.0, 1.0)) * (1 / 3))[i]
    first, last = mean + 2.0 * p * cos(angle), mean + 2.0 * p * cos(angle + 2 * math.pi / 3)
    for place, v in enumerate((first, 3.0 * mean - first - last, last)):
        kb.store("y", float64, (3, n), (i,), v, (place, i))
    return kb.build()


def packed_symmetric(n: int = 701) -> Kernel:
    """A symmetric matrix times a vector, of which only the upper triangle is kept, row after row without gaps."""
    kb = KernelBuilder("packed_symmetric")
    i, j = kb.axis("n@row", n), kb.axis("n@column", n)
    a, x = kb.input("a", (n * (n + 1) // 2,), float64), kb.input("x", (n,), float64)
    lo, hi = minimum(i, j), maximum(i, j)
    dot = kb.sum("dot", (i,), j, a[lo * n - lo * (lo - 1) // 2 + hi - lo] * x[j])
    kb.store("y", float64, (n,), (i,), dot[i])
    return kb.build()


def tucker(i: int = 144, j: int = 144, k: int = 144, r: int = 8) -> Kernel:
    """A tensor from its core and three factors."""
    kb = KernelBuilder("tucker")
    p, q, s = kb.axis("i", i), kb.axis("j", j), kb.axis("k", k)
    a, b, c = kb.axis("a", r), kb.axis("b", r), kb.axis("c", r)
    core = kb.input("core", (r, r, r), float32)
    u, v, w = kb.input("u", (i, r), float32), kb.input("v", (j, r), float32), kb.input("w", (r, k), float32)
    total = kb.sum("total", (p, q, s), (a, b, c), core[a, b, c] * u[p, a] * v[q, b] * w[c, s])
    kb.store("y", float32, (i, j, k), (p, q, s), total[p, q, s])
    return kb.build()


def lbfgs_direction(n: int = 30011) -> Kernel:
    """The direction of a quasi-Newton step by two loops over the last five steps and changes of the gradient."""
    kb = KernelBuilder("lbfgs_direction")
    i, m = kb.axis("n", n), 5
    s, y = (kb.input(name, (m, n), float64, range=(0.1, 1.0)) for name in ("s", "y"))
    g = kb.input("g", (n,), float64)

    def dot(name: str, u: Any, v: Any) -> Any:
        k = kb.axis(f"n@{name}", n)
        return kb.sum(name, (), k, u(k) * v(k))[()]

    bend = [dot(f"bend{e}", lambda k, e=e: s[e, k], lambda k, e=e: y[e, k]) for e in range(m)]
    alpha: dict[int, Any] = {}

    def down(k: Any) -> Any:
        return sum((y[e, k] * -f for e, f in alpha.items()), g[k])

    for e in reversed(range(m)):
        alpha[e] = kb.value(f"alpha{e}", (), dot(f"down{e}", lambda k, e=e: s[e, k], down) / bend[e])[()]
    gamma = kb.value("gamma", (), bend[-1] / dot("long", lambda k: y[m - 1, k], lambda k: y[m - 1, k]))[()]
    part: list[Any] = []

    def up(k: Any) -> Any:
        return sum((s[e, k] * f for e, f in enumerate(part)), gamma * down(k))

    for e in range(m):
        part.append(kb.value(f"part{e}", (), alpha[e] - dot(f"up{e}", lambda k, e=e: y[e, k], up) / bend[e])[()])
    kb.store("p", float64, (n,), (i,), -up(i))
    return kb.build()


def block_sparse(r: int = 512, l: int = 12, c: int = 512) -> Kernel:
    """A sparse matrix of dense 4 × 4 blocks, l in each row of blocks, times a vector."""
    kb = KernelBuilder("block_sparse")
    i, p, k, q = kb.axis("r", r), kb.axis("p", 4), kb.axis("l", l), kb.axis("q", 4)
    a, x = kb.input("a", (r, l, 4, 4), float32), kb.input("x", (c * 4,), float32)
    column = kb.input("column", (r, l), int32, range=(0, c - 1))
    total = kb.sum("total", (i, p), (k, q), a[i, k, p, q] * x[cast(column[i, k], "int64") * 4 + q])
    kb.store("y", float32, (r * 4,), (i, p), total[i, p], (i * 4 + p,))
    return kb.build()


def triplet_matvec(z: int = 1 << 19, m: int = 16384, n: int = 16384) -> Kernel:
    """A sparse matrix as a list of (row, column, number), in any order, times a vector."""
    kb = KernelBuilder("triplet_matvec")
    i = kb.axis("z", z)
    row, column = kb.input("row", (z,), int32, range=(0, m - 1)), kb.input("column", (z,), int32, range=(0, n - 1))
    value, x = kb.input("value", (z,), float32), kb.input("x", (n,), float32)
    part = value[i] * x[cast(column[i], "int64")]
    kb.store("y", float32, (m,), (i,), part, (cast(row[i], "int64"),), combine="add")
    return kb.build()


def ell_matvec(m: int = 65536, l: int = 16, n: int = 65536) -> Kernel:
    """A sparse matrix times a vector; each row has l entries, which are kept column after column (ELLPACK)."""
    kb = KernelBuilder("ell_matvec")
    i, k = kb.axis("m", m), kb.axis("l", l)
    value, at = kb.input("value", (l, m), float32), kb.input("at", (l, m), int32, range=(0, n - 1))
    x = kb.input("x", (n,), float32)
    total = kb.sum("total", (i,), k, value[k, i] * x[at[k, i]])
    kb.store("y", float32, (m,), (i,), total[i])
    return kb.build()


def counted_matvec(n: int = 16384, l: int = 48) -> Kernel:
    """A sparse matrix times a vector: of each padded row so many numbers count as it has."""
    kb = KernelBuilder("counted_matvec")
    i, k = kb.axis("n", n), kb.axis("l", l)
    value, x = kb.input("value", (n, l), float32), kb.input("x", (n,), float32)
    column, many = kb.input("column", (n, l), int32, range=(0, n - 1)), kb.input("many", (n,), int32, range=(0, l))
    total = kb.sum("total", (i,), k, where(k < cast(many[i], "int64"), value[i, k] * x[cast(column[i, k], "int64")], 0.0))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()
