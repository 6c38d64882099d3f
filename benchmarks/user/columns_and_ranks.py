"""Columns that lie together, as Fortran has them; ranks; and what many rows add to one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float16, float32, float64, int8, int16, int32, int64, minimum, rsqrt, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "reflected_columns": ("products of computed operands", {"b": 3, "n": 5, "m": 13}),
    "sorted_rows": ("scatter", {"b": 3, "n": 13}),
    "bag_gradient": ("gathers and scatters", {"b": 19, "l": 3, "v": 23, "d": 7}),
    "pileup": ("histograms", {"n": 19, "l": 7, "g": 60}),
    "gram_schmidt3": ("small matrices", {"n": 21}),
    "least_labels": ("gathers", {"n": 37, "l": 4}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def reflected_columns(b: int = 120, n: int = 29, m: int = 43) -> Kernel:
    """Householder's reflection of small matrices, whose columns lie together: a − 2 v (v · a) / (v · v), in float64."""
    kb = KernelBuilder("reflected_columns")
    i, j, o, p, q = kb.axis("b", b), kb.axis("n", n), kb.axis("m@out", m), kb.axis("m@dot", m), kb.axis("m@norm", m)
    a, v = kb.input("a", (b, n, m), float64), kb.input("v", (b, m), float64)
    dot = kb.sum("dot", (i, j), p, v[i, p] * a[i, j, p])
    norm = kb.sum("norm", (i,), q, v[i, q] ** 2)
    kb.store("y", float64, (b, n, m), (i, j, o), a[i, j, o] - 2.0 * dot[i, j] / norm[i] * v[i, o])
    return kb.build()


C["reflected_columns"] = """
static void column(const double *restrict a, const double *restrict v, double by, double *restrict y) {
  double dot = 0;
  for (int p = 0; p < M; p++) dot += v[p] * a[p];
  dot *= by;
  for (int p = 0; p < M; p++) y[p] = a[p] - dot * v[p];
}
void kernel(const double (*restrict a)[N][M], const double (*restrict v)[M], double (*restrict y)[N][M]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double norm = 0;
    for (int p = 0; p < M; p++) norm += v[i][p] * v[i][p];
    for (int j = 0; j < N; j++) column(a[i][j], v[i], 2 / norm, y[i][j]);
  }
}
"""


def reflected_columns_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    a, v = x["a"], x["v"]
    by = 2 * np.einsum("bm,bnm->bn", v, a) / (v**2).sum(axis=1)[:, None]
    return {"y": a - by[..., None] * v[:, None]}


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


C["sorted_rows"] = """
static void row(const short *restrict x, short *restrict y, signed char *restrict was) {
  short place[N];
  for (int j = 0; j < N; j++) place[j] = 0;
  for (int k = 0; k < N; k++) {
    short v = x[k];
    for (int j = 0; j <= k; j++) place[j] += v < x[j];
    for (int j = k + 1; j < N; j++) place[j] += v <= x[j];
  }
  for (int j = 0; j < N; j++) {
    y[place[j]] = x[j];
    was[place[j]] = j;
  }
}
void kernel(const short (*restrict x)[N], short (*restrict y)[N], signed char (*restrict was)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(x[i], y[i], was[i]);
}
"""


def sorted_rows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A stable argsort."""
    import numpy as np

    was = x["x"].argsort(axis=1, kind="stable")
    return {"y": np.take_along_axis(x["x"], was, axis=1), "was": was.astype(np.int8)}


def bag_gradient(b: int = 1501, l: int = 7, v: int = 3000, d: int = 33) -> Kernel:
    """What a table of vectors gets back from bags of l of its rows, of which each used the mean, in half precision."""
    kb = KernelBuilder("bag_gradient")
    i, j, k = kb.axis("b", b), kb.axis("l", l), kb.axis("d", d)
    grad, ids = kb.input("grad", (b, d), float16), kb.input("ids", (b, l), int32, range=(0, v - 1))
    mine = cast(grad[i, k], float32) * (1.0 / l)
    kb.store("y", float32, (v, d), (i, j, k), mine, (cast(ids[i, j], int64), k), combine="add")
    return kb.build()


C["bag_gradient"] = """
static void add(const float *restrict g, float *restrict y) {
  for (int k = 0; k < D; k++) y[k] += g[k];
}
void kernel(const _Float16 (*restrict grad)[D], const int (*restrict ids)[L], float (*restrict y)[D]) {
  for (int k = 0; k < V * D; k++) ((float *)y)[k] = 0;
  for (int i = 0; i < B; i++) {
    float g[D];
    for (int k = 0; k < D; k++) g[k] = grad[i][k] * (1.0f / L);
    for (int j = 0; j < L; j++) add(g, y[ids[i][j]]);
  }
}
"""


def bag_gradient_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at."""
    import numpy as np

    y = np.zeros((s["v"], s["d"]))
    np.add.at(y, x["ids"], x["grad"].astype(np.float64)[:, None] / s["l"])
    return {"y": y}


def pileup(n: int = 2000, l: int = 75, g: int = 5000) -> Kernel:
    """How often each of four letters was read at each place of a genome, by reads that begin anywhere, if well enough."""
    kb = KernelBuilder("pileup")
    i, j = kb.axis("n", n), kb.axis("l", l)
    read, good = kb.input("read", (n, l), uint8, range=(0, 3)), kb.input("good", (n, l), uint8, range=(0, 41))
    start = kb.input("start", (n,), int32, range=(0, g - l))
    place = cast(start[i], int64) + j
    kb.store("y", int32, (g, 4), (i, j), 1, (place, cast(read[i, j], int64)), combine="add", mask=good[i, j] >= 20)
    return kb.build()


C["pileup"] = """
void kernel(const unsigned char (*restrict read)[L], const unsigned char (*restrict good)[L], const int *restrict start,
            int (*restrict y)[4]) {
  for (int k = 0; k < G * 4; k++) ((int *)y)[k] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < L; j++) y[start[i] + j][read[i][j]] += good[i][j] >= 20;
}
"""


def pileup_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.add.at."""
    import numpy as np

    y = np.zeros((s["g"], 4), np.int32)
    np.add.at(y, (x["start"][:, None] + np.arange(s["l"]), x["read"]), x["good"] >= 20)
    return {"y": y}


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


C["gram_schmidt3"] = """
#include <math.h>
void kernel(const float (*restrict a)[3][3], float (*restrict q)[3][3], float (*restrict r)[6]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float x0 = a[i][0][0], x1 = a[i][0][1], x2 = a[i][0][2], y0 = a[i][1][0], y1 = a[i][1][1], y2 = a[i][1][2];
    float z0 = a[i][2][0], z1 = a[i][2][1], z2 = a[i][2][2];
    float xx = x0 * x0 + x1 * x1 + x2 * x2 + 1e-12f, ox = 1 / sqrtf(xx);
    x0 *= ox, x1 *= ox, x2 *= ox;
    float xy = x0 * y0 + x1 * y1 + x2 * y2;
    y0 -= xy * x0, y1 -= xy * x1, y2 -= xy * x2;
    float yy = y0 * y0 + y1 * y1 + y2 * y2 + 1e-12f, oy = 1 / sqrtf(yy);
    y0 *= oy, y1 *= oy, y2 *= oy;
    float xz = x0 * z0 + x1 * z1 + x2 * z2;
    z0 -= xz * x0, z1 -= xz * x1, z2 -= xz * x2;
    float yz = y0 * z0 + y1 * z1 + y2 * z2;
    z0 -= yz * y0, z1 -= yz * y1, z2 -= yz * y2;
    float zz = z0 * z0 + z1 * z1 + z2 * z2 + 1e-12f, oz = 1 / sqrtf(zz);
    q[i][0][0] = x0, q[i][0][1] = x1, q[i][0][2] = x2, q[i][1][0] = y0, q[i][1][1] = y1, q[i][1][2] = y2;
    q[i][2][0] = z0 * oz, q[i][2][1] = z1 * oz, q[i][2][2] = z2 * oz;
    r[i][0] = xx * ox, r[i][1] = xy, r[i][2] = yy * oy, r[i][3] = xz, r[i][4] = yz, r[i][5] = zz * oz;
  }
}
"""


def gram_schmidt3_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float64, a column at a time."""
    import numpy as np

    a, done, upper = x["a"].astype(np.float64), [], []
    for k in range(3):
        v = a[:, k]
        for u in done:
            by = (u * v).sum(axis=1)
            v = v - by[:, None] * u
            upper.append(by)
        size = np.sqrt((v * v).sum(axis=1) + 1e-12)
        upper.append(size)
        done.append(v / size[:, None])
    return {"q": np.stack(done, axis=1), "r": np.stack(upper, axis=1)}


def least_labels(n: int = 20011, l: int = 9) -> Kernel:
    """A step of finding a graph's parts: the least label of each node and its neighbours, kept neighbour after neighbour."""
    kb = KernelBuilder("least_labels")
    i, j, k = kb.axis("n", n), kb.axis("l", l), kb.axis("n@changed", n)
    label, near = kb.input("label", (n,), int32, range=(0, n - 1)), kb.input("near", (l, n), int32, range=(-1, n - 1))
    other = near[j, i]
    theirs = where(other < 0, n, label.masked(other >= 0, cast(other, int64)))
    least = kb.min("least", (i,), j, theirs)
    kb.store("y", int32, (n,), (i,), minimum(least[i], label[i]))
    changed = kb.sum("many", (), k, cast(least[k] < label[k], int32))
    kb.store("changed", int32, (1,), (), changed[()], (0,))
    return kb.build()


C["least_labels"] = """
void kernel(const int *restrict label, const int (*restrict near)[N], int *restrict y, int *restrict changed) {
  int many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < N; i++) {
    int least = label[i];
    for (int j = 0; j < L; j++) {
      int other = near[j][i], theirs = other < 0 ? N : label[other];
      least = theirs < least ? theirs : least;
    }
    y[i] = least;
    many += least < label[i];
  }
  changed[0] = many;
}
"""


def least_labels_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A gather."""
    import numpy as np

    theirs = np.where(x["near"] < 0, s["n"], x["label"][x["near"]])
    y = np.minimum(theirs.min(axis=0), x["label"])
    return {"y": y.astype(np.int32), "changed": np.array([(y < x["label"]).sum()], np.int32)}
