"""Products: quantised, of three arrays, bilinear, complex, rotated; as users write them, with the same loops in C and
NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int8, int32, where
from tilewright.ir.functions import maximum, minimum, round_even
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "matmul_int8_groups": ("products of computed operands", {"m": 5, "n": 19, "k": 12, "g": 4}),
    "quantised_layer": ("quantised layers", {"m": 5, "n": 19, "k": 13}),
    "three_products": ("products of three arrays", {"m": 5, "k": 7, "l": 6, "n": 19}),
    "bilinear_form": ("products of three arrays", {"b": 5, "m": 9, "n": 21}),
    "rotary_pairs": ("pairs", {"s": 5, "h": 3, "d": 10}),
    "complex_multiply": ("pairs", {"n": 37}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def matmul_int8_groups(m: int = 32, n: int = 2048, k: int = 2048, g: int = 64) -> Kernel:
    """y = x · w with int8 weights (k, n), which have a scale for each column and group of g rows."""
    kb = KernelBuilder("matmul_int8_groups")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (k, n), int8)
    scale = kb.input("scale", (k // g, n), float32)
    total = kb.sum("total", (i, j), l, x[i, l] * (cast(w[l, j], float32) * scale[l // g, j]))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


C["matmul_int8_groups"] = """
#include <string.h>
void kernel(const float (*restrict x)[K], const signed char (*restrict w)[N],
            const float (*restrict scale)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    memset(y[i], 0, sizeof y[i]);
    for (int k = 0; k < K; k++)
      for (int j = 0; j < N; j++) y[i][j] += x[i][k] * (w[k][j] * scale[k / G][j]);
  }
}
"""


def matmul_int8_groups_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The weights in float64 first."""
    import numpy as np

    w = x["w"].astype(np.float64) * np.repeat(x["scale"].astype(np.float64), s["g"], axis=0)
    return {"y": x["x"].astype(np.float64) @ w}


def quantised_layer(m: int = 256, n: int = 1024, k: int = 1024) -> Kernel:
    """A layer in int8: sums in int32, a bias, a scale a channel, and rounding back to int8."""
    kb = KernelBuilder("quantised_layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), int8), kb.input("w", (n, k), int8)
    bias, scale = kb.input("bias", (n,), int32, range=(-10000, 10000)), kb.input("scale", (n,), float32)
    total = kb.sum("total", (i, j), l, cast(x[i, l], int32) * cast(w[j, l], int32))
    scaled = round_even(cast(total[i, j] + bias[j], float32) * (scale[j] * 0.0005)) + 3.0
    kb.store("y", int8, (m, n), (i, j), cast(minimum(maximum(scaled, -128.0), 127.0), int8))
    return kb.build()


C["quantised_layer"] = """
#include <math.h>
void kernel(const signed char (*restrict x)[K], const signed char (*restrict w)[K],
            const int *restrict bias, const float *restrict scale,
            signed char (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int total = bias[j];
      for (int k = 0; k < K; k++) total += x[i][k] * w[j][k];
      float scaled = rintf(total * (scale[j] * 0.0005f)) + 3;
      y[i][j] = scaled < -128 ? -128 : scaled > 127 ? 127 : scaled;
    }
}
"""


def quantised_layer_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Sums in float64, which are exact; the rest in float32 as it is written."""
    import numpy as np

    total = x["x"].astype(np.float64) @ x["w"].astype(np.float64).T + x["bias"]
    scaled = np.rint(total.astype(np.float32) * (x["scale"] * np.float32(0.0005))) + np.float32(3)
    return {"y": np.clip(scaled, -128, 127).astype(np.int8)}


def three_products(m: int = 192, k: int = 192, l: int = 192, n: int = 192) -> Kernel:
    """a · b · c, written as the one sum that it is."""
    kb = KernelBuilder("three_products")
    i, p, q, j = kb.axis("m", m), kb.axis("k", k), kb.axis("l", l), kb.axis("n", n)
    a, b, c = kb.input("a", (m, k), float32), kb.input("b", (k, l), float32), kb.input("c", (l, n), float32)
    total = kb.sum("total", (i, j), (p, q), a[i, p] * b[p, q] * c[q, j])
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


C["three_products"] = """
static float t[M][L];
void kernel(const float (*restrict a)[K], const float (*restrict b)[L],
            const float (*restrict c)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    for (int q = 0; q < L; q++) t[i][q] = 0;
    for (int p = 0; p < K; p++)
      for (int q = 0; q < L; q++) t[i][q] += a[i][p] * b[p][q];
    for (int j = 0; j < N; j++) y[i][j] = 0;
    for (int q = 0; q < L; q++)
      for (int j = 0; j < N; j++) y[i][j] += t[i][q] * c[q][j];
  }
}
"""


def three_products_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Two products."""
    import numpy as np

    return {"y": x["a"].astype(np.float64) @ x["b"] @ x["c"].astype(np.float64)}


def bilinear_form(b: int = 256, m: int = 512, n: int = 512) -> Kernel:
    """y[b] = x[b] · w · z[b] for many pairs of vectors."""
    kb = KernelBuilder("bilinear_form")
    e, i, j = kb.axis("b", b), kb.axis("m", m), kb.axis("n", n)
    x, w, z = kb.input("x", (b, m), float32), kb.input("w", (m, n), float32), kb.input("z", (b, n), float32)
    total = kb.sum("total", (e,), (i, j), x[e, i] * w[i, j] * z[e, j])
    kb.store("y", float32, (b,), (e,), total[e])
    return kb.build()


C["bilinear_form"] = """
void kernel(const float (*restrict x)[M], const float (*restrict w)[N],
            const float (*restrict z)[N], float *restrict y) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float total = 0;
    for (int i = 0; i < M; i++) {
      float row = 0;
      for (int j = 0; j < N; j++) row += w[i][j] * z[e][j];
      total += x[e][i] * row;
    }
    y[e] = total;
  }
}
"""


def bilinear_form_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A product, then dots."""
    import numpy as np

    return {"y": ((x["x"].astype(np.float64) @ x["w"]) * x["z"]).sum(axis=1)}


def rotary_pairs(s: int = 2048, h: int = 16, d: int = 128) -> Kernel:
    """Neighbouring elements of a head turned by an angle that depends on the place (rotary embedding, interleaved)."""
    kb = KernelBuilder("rotary_pairs")
    i, c, j, e = kb.axis("s", s), kb.axis("h", h), kb.axis("d", d // 2), kb.axis("pair", 2)
    x = kb.input("x", (s, h, d), float32)
    cos, sin = kb.input("cos", (s, d // 2), float32), kb.input("sin", (s, d // 2), float32)
    other = where(e.eq(0), -x[i, c, 2 * j + 1], x[i, c, 2 * j])
    turned = x[i, c, 2 * j + e] * cos[i, j] + other * sin[i, j]
    kb.store("y", float32, (s, h, d), (i, c, j, e), turned, indices=(i, c, 2 * j + e))
    return kb.build()


C["rotary_pairs"] = """
void kernel(const float (*restrict x)[H][D], const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], float (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++)
    for (int c = 0; c < H; c++)
      for (int j = 0; j < D / 2; j++) {
        float a = x[i][c][2 * j], b = x[i][c][2 * j + 1];
        y[i][c][2 * j] = a * co[i][j] - b * si[i][j];
        y[i][c][2 * j + 1] = b * co[i][j] + a * si[i][j];
      }
}
"""


def rotary_pairs_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Even and odd elements."""
    import numpy as np

    a, cos, sin = x["x"].astype(np.float64), x["cos"].astype(np.float64)[:, None], x["sin"].astype(np.float64)[:, None]
    even, odd = a[..., ::2], a[..., 1::2]
    return {"y": np.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1).reshape(a.shape)}


def complex_multiply(n: int = 1 << 21) -> Kernel:
    """Products of complex numbers, real and imaginary parts side by side."""
    kb = KernelBuilder("complex_multiply")
    i, e = kb.axis("n", n), kb.axis("part", 2)
    a, b = kb.input("a", (n, 2), float32), kb.input("b", (n, 2), float32)
    real = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]
    imaginary = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]
    kb.store("y", float32, (n, 2), (i, e), where(e.eq(0), real, imaginary))
    return kb.build()


C["complex_multiply"] = """
void kernel(const float (*restrict a)[2], const float (*restrict b)[2], float (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    y[i][0] = a[i][0] * b[i][0] - a[i][1] * b[i][1];
    y[i][1] = a[i][0] * b[i][1] + a[i][1] * b[i][0];
  }
}
"""


def complex_multiply_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    a, b = (x[n].astype(np.float64).view(np.complex128) for n in "ab")
    return {"y": (a * b).view(np.float64)}
