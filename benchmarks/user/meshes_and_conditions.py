"""What several stores add to one output, and whether any or all of some conditions hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, float64, int32, int64, log, uint8

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "fem_stiffness": ("scatters", {"m": 53, "v": 29}),
    "reaction_stores": ("gathers and scatters", {"r": 7, "s": 5, "n": 21}),
    "any_or_all": ("row statistics", {"m": 7, "n": 21}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


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


C["fem_stiffness"] = """
void kernel(const int (*restrict corner)[3], const double (*restrict k)[6], const double *restrict u, double *restrict y) {
  for (int i = 0; i < V; i++) y[i] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int e = 0; e < M; e++) {
    int p = corner[e][0], q = corner[e][1], r = corner[e][2];
    double a = u[p], b = u[q], c = u[r];
    y[p] += k[e][0] * a + k[e][1] * b + k[e][2] * c;
    y[q] += k[e][1] * a + k[e][3] * b + k[e][4] * c;
    y[r] += k[e][2] * a + k[e][4] * b + k[e][5] * c;
  }
}
"""


def fem_stiffness_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum and bincount."""
    import numpy as np

    full = x["k"][:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
    force = np.einsum("epq,eq->ep", full, x["u"][x["corner"]])
    return {"y": np.bincount(x["corner"].reshape(-1), force.reshape(-1), s["v"])}


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


C["reaction_stores"] = """
#include <math.h>
static void reaction(const float *restrict logs, const float *restrict over, float fast, float power, float barrier,
                     const float *restrict a, const float *restrict b, float *restrict rate) {
  for (int i = 0; i < N; i++) rate[i] = fast * expf(power * logs[i] - barrier * over[i]) * a[i] * b[i];
}
static void add(float by, const float *restrict rate, float *restrict y) {
  for (int i = 0; i < N; i++) y[i] += by * rate[i];
}
void kernel(const float (*restrict c)[N], const float *restrict heat, const float *restrict fast, const float *restrict power,
            const float *restrict barrier, const int *restrict a, const int *restrict b, const int *restrict p, float (*restrict y)[N]) {
  float logs[N], over[N], rate[N];
  for (int i = 0; i < N; i++) logs[i] = logf(heat[i]), over[i] = 1 / heat[i];
  for (int k = 0; k < S; k++)
    for (int i = 0; i < N; i++) y[k][i] = 0;
  for (int k = 0; k < R; k++) {
    reaction(logs, over, fast[k], power[k], barrier[k], c[a[k]], c[b[k]], rate);
    add(-1, rate, y[a[k]]);
    add(-1, rate, y[b[k]]);
    add(1, rate, y[p[k]]);
  }
}
"""


def reaction_stores_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A reaction at a time."""
    import numpy as np

    y, (c, t, f, q, e) = np.zeros((s["s"], s["n"])), (x[k].astype(np.float64) for k in ("c", "heat", "fast", "power", "barrier"))
    for k, (a, b, p) in enumerate(zip(x["a"], x["b"], x["p"])):
        rate = f[k] * t ** q[k] * np.exp(-e[k] / t) * c[a] * c[b]
        y[a] -= rate
        y[b] -= rate
        y[p] += rate
    return {"y": y}


def any_or_all(m: int = 1500, n: int = 301) -> Kernel:
    """Of each row, whether any number is beyond a limit, and whether all are above another, as 1 and 0."""
    kb = KernelBuilder("any_or_all")
    i, p, q = kb.axis("m", m), kb.axis("n@any", n), kb.axis("n@all", n)
    x = kb.input("x", (m, n), float32)
    some, every = kb.max("some", (i,), p, x[i, p] > 3.0), kb.min("every", (i,), q, x[i, q] > -2.5)
    kb.store("any", uint8, (m,), (i,), some[i])
    kb.store("all", uint8, (m,), (i,), every[i])
    return kb.build()


C["any_or_all"] = """
void kernel(const float (*restrict x)[N], unsigned char *restrict any, unsigned char *restrict all) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int some = 0, every = 1;
    for (int j = 0; j < N; j++) {
      some |= x[i][j] > 3;
      every &= x[i][j] > -2.5f;
    }
    any[i] = some;
    all[i] = every;
  }
}
"""


def any_or_all_numpy(x: Arrays, s: Sizes) -> Arrays:
    """any and all."""
    import numpy as np

    return {"any": (x["x"] > 3).any(axis=1).astype(np.uint8), "all": (x["x"] > -2.5).all(axis=1).astype(np.uint8)}
