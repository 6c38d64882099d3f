"""The other kernels that are held out (held_out.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, int32, log, minimum, uint8
from tilewright.ir.node import const

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "mahalanobis": ("products of three arrays", {"b": 6, "d": 9}),
    "tucker": ("products of three arrays", {"i": 4, "j": 5, "k": 19, "r": 3}),
    "int4_matvec": ("quantised layers", {"n": 9, "k": 24, "g": 8}),
    "integral_image": ("scans", {"h": 7, "w": 21}),
    "premultiplied_over": ("bytes of images", {"h": 5, "w": 13}),
    "gathered_lse": ("gathers and scatters", {"b": 5, "v": 40, "l": 9}),
    "butterfly": ("pairs", {"n": 37}),
    "joint_histogram": ("histograms", {"n": 300, "v": 8}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def mahalanobis(b: int = 4096, d: int = 96) -> Kernel:
    """Squared distances from a mean in the metric of an inverse covariance."""
    kb = KernelBuilder("mahalanobis")
    e, i, j = kb.axis("b", b), kb.axis("i", d), kb.axis("j", d)
    x, mean, inverse = (kb.input(n, s, float32) for n, s in (("x", (b, d)), ("mean", (d,)), ("inverse", (d, d))))
    total = kb.sum("total", (e,), (i, j), (x[e, i] - mean[i]) * inverse[i, j] * (x[e, j] - mean[j]))
    kb.store("y", float32, (b,), (e,), total[e])
    return kb.build()


C["mahalanobis"] = """
void kernel(const float (*restrict x)[D], const float *restrict mean, const float (*restrict inverse)[D],
            float *restrict y) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float off[D], total = 0;
    for (int i = 0; i < D; i++) off[i] = x[e][i] - mean[i];
    for (int i = 0; i < D; i++) {
      float row = 0;
      for (int j = 0; j < D; j++) row += inverse[i][j] * off[j];
      total += off[i] * row;
    }
    y[e] = total;
  }
}
"""


def mahalanobis_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A product, then dots."""
    off = x["x"].astype("float64") - x["mean"]
    return {"y": ((off @ x["inverse"]) * off).sum(axis=1)}


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


C["tucker"] = """
static void plane(const float (*restrict core)[R][R], const float *restrict u, const float (*restrict v)[R],
                  const float (*restrict w)[K], float (*restrict y)[K]) {
  float some[R][R] = {0};
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) some[b][c] += u[a] * core[a][b][c];
  for (int q = 0; q < J; q++) {
    float row[R] = {0};
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) row[c] += v[q][b] * some[b][c];
    for (int s = 0; s < K; s++) {
      float total = 0;
      for (int c = 0; c < R; c++) total += row[c] * w[c][s];
      y[q][s] = total;
    }
  }
}
void kernel(const float (*restrict core)[R][R], const float (*restrict u)[R], const float (*restrict v)[R],
            const float (*restrict w)[K], float (*restrict y)[J][K]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) plane(core, u[p], v, w, y[p]);
}
"""


def tucker_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    factors = (x[n].astype(np.float64) for n in ("core", "u", "v", "w"))
    return {"y": np.einsum("abc,ia,jb,ck->ijk", *factors, optimize=True)}


def int4_matvec(n: int = 4096, k: int = 4096, g: int = 64) -> Kernel:
    """y = w · x; two weights of four bits lie in a byte, and each row has a scale and a zero point for g of them."""
    kb = KernelBuilder("int4_matvec")
    i, l = kb.axis("n", n), kb.axis("k", k // 2)
    w, x = kb.input("w", (n, k // 2), uint8), kb.input("x", (k,), float32)
    scale, zero = kb.input("scale", (n, k // g), float32), kb.input("zero", (n, k // g), uint8, range=(0, 15))
    both, group = cast(w[i, l], int32), l // (g // 2)
    middle = cast(zero[i, group], float32)
    low, high = cast(both & 15, float32) - middle, cast(both >> 4, float32) - middle
    total = kb.sum("total", (i,), l, scale[i, group] * (low * x[2 * l] + high * x[2 * l + 1]))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


C["int4_matvec"] = """
void kernel(const unsigned char (*restrict w)[K / 2], const float *restrict x, const float (*restrict scale)[K / G],
            const unsigned char (*restrict zero)[K / G], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int group = 0; group < K / G; group++) {
      float part = 0, middle = zero[i][group];
      for (int l = group * (G / 2); l < (group + 1) * (G / 2); l++)
        part += ((w[i][l] & 15) - middle) * x[2 * l] + ((w[i][l] >> 4) - middle) * x[2 * l + 1];
      total += scale[i][group] * part;
    }
    y[i] = total;
  }
}
"""


def int4_matvec_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The weights in float64 first."""
    import numpy as np

    q = np.stack([x["w"] & 15, x["w"] >> 4], axis=-1).reshape(s["n"], s["k"]).astype(np.float64)
    scale, zero = (np.repeat(x[name].astype(np.float64), s["g"], axis=1) for name in ("scale", "zero"))
    return {"y": ((q - zero) * scale) @ x["x"].astype(np.float64)}


def integral_image(h: int = 1536, w: int = 1536) -> Kernel:
    """Sums of all bytes above and to the left."""
    kb = KernelBuilder("integral_image")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint8)
    row = kb.scan("add", "row", (i, j), j, cast(x[i, j], int32))
    total = kb.scan("add", "total", (i, j), i, row[i, j])
    kb.store("y", int32, (h, w), (i, j), total[i, j])
    return kb.build()


C["integral_image"] = """
void kernel(const unsigned char (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0, row = 0; j < W; j++) y[i][j] = row += x[i][j];
  for (int i = 1; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] += y[i - 1][j];
}
"""


def integral_image_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum twice."""
    return {"y": x["x"].astype("int64").cumsum(axis=0).cumsum(axis=1).astype("int32")}


def premultiplied_over(h: int = 1536, w: int = 1536) -> Kernel:
    """One image of four bytes a pixel laid over another; colours are multiplied by their alpha already."""
    kb = KernelBuilder("premultiplied_over")
    i, j, c = kb.axis("h", h), kb.axis("w", w), kb.axis("c", 4)
    over, under = kb.input("over", (h, w, 4), uint8), kb.input("under", (h, w, 4), uint8)
    left = 255 - cast(over[i, j, 3], int32)
    seen = cast(over[i, j, c], int32) + (cast(under[i, j, c], int32) * left + 127) // 255
    kb.store("y", uint8, (h, w, 4), (i, j, c), cast(minimum(seen, 255), uint8))
    return kb.build()


C["premultiplied_over"] = """
static void row(const unsigned char (*restrict over)[4], const unsigned char (*restrict under)[4], unsigned char (*restrict y)[4]) {
  for (int j = 0; j < W; j++)
    for (int c = 0; c < 4; c++) {
      int seen = over[j][c] + (under[j][c] * (255 - over[j][3]) + 127) / 255;
      y[j][c] = seen > 255 ? 255 : seen;
    }
}
void kernel(const unsigned char (*restrict over)[W][4], const unsigned char (*restrict under)[W][4],
            unsigned char (*restrict y)[W][4]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(over[i], under[i], y[i]);
}
"""


def premultiplied_over_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int64."""
    import numpy as np

    over, under = (x[n].astype(np.int64) for n in ("over", "under"))
    return {"y": np.minimum(over + (under * (255 - over[..., 3:]) + 127) // 255, 255).astype(np.uint8)}


def gathered_lse(b: int = 2048, v: int = 8192, l: int = 512) -> Kernel:
    """log of the sum of exponentials of some chosen scores of each row."""
    kb = KernelBuilder("gathered_lse")
    i, k, m = kb.axis("b", b), kb.axis("l@max", l), kb.axis("l@sum", l)
    x, at = kb.input("x", (b, v), float32), kb.input("at", (b, l), int32, range=(0, v - 1))
    top = kb.max("top", (i,), k, x[i, at[i, k]])
    total = kb.sum("total", (i,), m, exp(x[i, at[i, m]] - top[i]))
    kb.store("y", float32, (b,), (i,), top[i] + log(total[i]))
    return kb.build()


C["gathered_lse"] = """
#include <math.h>
void kernel(const float (*restrict x)[V], const int (*restrict at)[L], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float top = x[i][at[i][0]], total = 0;
    for (int k = 1; k < L; k++) top = fmaxf(top, x[i][at[i][k]]);
    for (int k = 0; k < L; k++) total += expf(x[i][at[i][k]] - top);
    y[i] = top + logf(total);
  }
}
"""


def gathered_lse_numpy(x: Arrays, s: Sizes) -> Arrays:
    """take_along_axis, then logaddexp."""
    import numpy as np

    return {"y": np.logaddexp.reduce(np.take_along_axis(x["x"].astype(np.float64), x["at"], axis=1), axis=1)}


def butterfly(n: int = 1 << 20) -> Kernel:
    """A step of a Fourier transform: a + w·b and a − w·b of complex numbers."""
    kb = KernelBuilder("butterfly")
    i, e = kb.axis("n", n), kb.axis("part", 2)
    a, b, w = (kb.input(name, (n, 2), float32) for name in "abw")
    turned = w[i, 0] * b[i, e] + w[i, 1] * b[i, 1 - e] * (2.0 * cast(e, float32) - 1.0)
    kb.store("sum", float32, (n, 2), (i, e), a[i, e] + turned)
    kb.store("difference", float32, (n, 2), (i, e), a[i, e] - turned)
    return kb.build()


C["butterfly"] = """
void kernel(const float (*restrict a)[2], const float (*restrict b)[2], const float (*restrict w)[2],
            float (*restrict sum)[2], float (*restrict difference)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float re = w[i][0] * b[i][0] - w[i][1] * b[i][1], im = w[i][0] * b[i][1] + w[i][1] * b[i][0];
    sum[i][0] = a[i][0] + re;
    sum[i][1] = a[i][1] + im;
    difference[i][0] = a[i][0] - re;
    difference[i][1] = a[i][1] - im;
  }
}
"""


def butterfly_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In complex128."""
    import numpy as np

    a, b, w = (x[n].astype(np.float64).view(np.complex128) for n in "abw")
    return {"sum": (a + w * b).view(np.float64), "difference": (a - w * b).view(np.float64)}


def joint_histogram(n: int = 1 << 22, v: int = 32) -> Kernel:
    """How often two bytes fall into a pair of bins together."""
    kb = KernelBuilder("joint_histogram")
    i = kb.axis("n", n)
    a, b = (kb.input(name, (n,), uint8, range=(0, v - 1)) for name in "ab")
    kb.store("y", int32, (v, v), (i,), const(1, int32), indices=(a[i], b[i]), combine="add")
    return kb.build()


C["joint_histogram"] = """
void kernel(const unsigned char *restrict a, const unsigned char *restrict b, int (*restrict y)[V]) {
  for (int p = 0; p < V; p++)
    for (int q = 0; q < V; q++) y[p][q] = 0;
#pragma omp parallel for reduction(+ : y[:V][:V])
  for (int i = 0; i < N; i++) y[a[i]][b[i]]++;
}
"""


def joint_histogram_numpy(x: Arrays, s: Sizes) -> Arrays:
    """histogram2d by bincount."""
    import numpy as np

    count = np.bincount(x["a"].astype(int) * s["v"] + x["b"], minlength=s["v"] ** 2)
    return {"y": count.reshape(s["v"], s["v"]).astype(np.int32)}
