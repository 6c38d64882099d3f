"""Pictures graded and made black and white, radio demodulated, and the parity of disks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    atan2,
    cast,
    clip,
    float32,
    int8,
    int16,
    int32,
    maximum,
    minimum,
    round_even,
    sqrt,
    uint8,
    uint16,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "lut3d_tetra": ("gathers", {"h": 5, "w": 19}),
    "sauvola": ("bytes of images", {"h": 7, "w": 23}),
    "fm_receiver": ("scans and elementary functions", {"c": 3, "n": 41}),
    "qam64_soft_bits": ("narrow integers", {"s": 3, "k": 37}),
    "raid6_parity": ("bytes", {"d": 5, "n": 101}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def lut3d_tetra(h: int = 240, w: int = 317) -> Kernel:
    """Colours of ten bits graded by a cube of 17 × 17 × 17 colours, mixed from the four corners of a tetrahedron."""
    kb = KernelBuilder("lut3d_tetra")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w, 3), uint16, range=(0, 1023))
    cube = kb.input("cube", (17 * 17 * 17, 3), uint16, range=(0, 1023))
    v = [cast(x[i, j, c], int32) for c in range(3)]
    r, g, b = (p & 63 for p in v)
    base = kb.value("base", (i, j), (v[0] >> 6) * 289 + (v[1] >> 6) * 17 + (v[2] >> 6))[i, j]
    most, least = maximum(maximum(r, g), b), minimum(minimum(r, g), b)
    middle = r + g + b - most - least
    one = base + cast(where(r.eq(most), 289, where(g.eq(most), 17, 1)), int32)
    two = base + 307 - cast(where(b.eq(least), 1, where(g.eq(least), 17, 289)), int32)
    corners = ((base, 64 - most), (one, most - middle), (two, middle - least), (base + 307, least))
    for c in range(3):
        total: Any = 32
        for at, weight in corners:
            total = total + weight * cast(cube[cast(at, "int64"), c], int32)
        kb.store("y", uint16, (h, w, 3), (i, j), cast(total >> 6, uint16), (i, j, c))
    return kb.build()


C["lut3d_tetra"] = """
typedef unsigned short u16;
static void row(const u16 (*restrict x)[3], const u16 (*restrict cube)[3], u16 (*restrict y)[3]) {
  int base[W], one[W], two[W], u[W], v[W], w[W];
  for (int j = 0; j < W; j++) {
    int r = x[j][0] & 63, g = x[j][1] & 63, b = x[j][2] & 63;
    int most = r > g ? r : g, least = r < g ? r : g;
    most = most > b ? most : b;
    least = least < b ? least : b;
    int p = (x[j][0] >> 6) * 289 + (x[j][1] >> 6) * 17 + (x[j][2] >> 6), a = g == most ? 17 : 1, d = g == least ? 17 : 289;
    base[j] = p, one[j] = p + (r == most ? 289 : a), two[j] = p + 307 - (b == least ? 1 : d);
    u[j] = most, v[j] = r + g + b - most - least, w[j] = least;
  }
  for (int j = 0; j < W; j++) {
    const u16 *p = cube[base[j]], *q = cube[one[j]], *r = cube[two[j]], *s = cube[base[j] + 307];
    for (int c = 0; c < 3; c++)
      y[j][c] = (32 + (64 - u[j]) * p[c] + (u[j] - v[j]) * q[c] + (v[j] - w[j]) * r[c] + w[j] * s[c]) >> 6;
  }
}
void kernel(const u16 (*restrict x)[W][3], const u16 (*restrict cube)[3], u16 (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x[i], cube, y[i]);
}
"""


def lut3d_tetra_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Fractions in order, a corner at a time."""
    import numpy as np

    v = x["x"].astype(np.int64)
    at, f, cube = (v >> 6) @ [289, 17, 1], v & 63, x["cube"].astype(np.int64)
    order = np.argsort(-f, axis=-1, kind="stable")
    f = np.take_along_axis(f, order, axis=-1)
    weights = [64 - f[..., 0], f[..., 0] - f[..., 1], f[..., 1] - f[..., 2], f[..., 2]]
    total = 32 + weights[0][..., None] * cube[at]
    for k in range(3):
        at = at + np.array([289, 17, 1])[order[..., k]]
        total = total + weights[k + 1][..., None] * cube[at]
    return {"y": (total >> 6).astype(np.uint16)}


def sauvola(h: int = 607, w: int = 811) -> Kernel:
    """A scanned page in black and white: thresholds from mean and deviation of the 15 × 15 pixels around each."""
    kb = KernelBuilder("sauvola")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h + 14, w + 14), uint8)
    wide = kb.axis("wide", w + 14)
    a, b, c, d = (kb.axis(n, 15) for n in ("k@column", "k@columns", "k@row", "k@rows"))
    one = kb.sum("one", (i, wide), a, cast(x[i + a, wide], int32))
    two = kb.sum("two", (i, wide), b, cast(x[i + b, wide], int32) * cast(x[i + b, wide], int32))
    total = kb.sum("total", (i, j), c, one[i, j + c])
    squares = kb.sum("squares", (i, j), d, two[i, j + d])
    mean = cast(total[i, j], float32) * (1 / 225)
    deviation = sqrt(maximum(cast(squares[i, j], float32) * (1 / 225) - mean * mean, 0.0))
    limit = mean * (1.0 + 0.3 * (deviation * (1 / 128) - 1.0))
    kb.store("y", uint8, (h, w), (i, j), where(cast(cast(x[i + 7, j + 7], int32), float32) > limit, 255, 0))
    return kb.build()


C["sauvola"] = """
#include <math.h>
static void row(const unsigned char (*restrict x)[W + 14], unsigned char *restrict y) {
  int one[W + 14], two[W + 14];
  for (int j = 0; j < W + 14; j++) one[j] = two[j] = 0;
  for (int a = 0; a < 15; a++)
    for (int j = 0; j < W + 14; j++) one[j] += x[a][j], two[j] += x[a][j] * x[a][j];
  for (int j = 0; j < W; j++) {
    int total = 0, squares = 0;
    for (int b = 0; b < 15; b++) total += one[j + b], squares += two[j + b];
    float mean = total * (1 / 225.f), v = squares * (1 / 225.f) - mean * mean, deviation = sqrtf(v > 0 ? v : 0);
    y[j] = x[7][j + 7] > mean * (1 + 0.3f * (deviation * (1 / 128.f) - 1)) ? 255 : 0;
  }
}
void kernel(const unsigned char (*restrict x)[W + 14], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i, y[i]);
}
"""


def sauvola_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Views of windows."""
    import numpy as np

    v = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.float64), (15, 15))
    limit = v.mean(axis=(2, 3)) * (1 + 0.3 * (v.std(axis=(2, 3)) / 128 - 1))
    return {"y": np.where(x["x"][7:-7, 7:-7] > limit, 255, 0).astype(np.uint8)}


def fm_receiver(c: int = 11, n: int = 48001) -> Kernel:
    """Sound (16 bits) of frequency-modulated stations: the turn from each complex sample to the next, de-emphasised."""
    kb = KernelBuilder("fm_receiver")
    e, t = kb.axis("c", c), kb.axis("n", n)
    x = kb.input("x", (c, n + 1, 2), int16)
    a, b = (cast(cast(x[e, t, p], int32), float32) for p in range(2))
    p, q = (cast(cast(x[e, t + 1, p], int32), float32) for p in range(2))
    turn = kb.value("turn", (e, t), 0.25 * atan2(a * q - b * p, a * p + b * q))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, Any]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    keep = kb.value("keep", (e, t), cast(0.75, float32))
    _, sound = kb.associative_scan(("fade", "sound"), (e, t), t, (keep[e, t], turn[e, t]), (1.0, 0.0), rule)
    kb.store("y", int16, (c, n), (e, t), cast(round_even(sound[e, t] * 9000.0), int16))
    return kb.build()


C["fm_receiver"] = """
#include <math.h>
static void station(const short (*restrict x)[2], short *restrict y) {
  float turn[N], sound = 0;
  for (int t = 0; t < N; t++) {
    float a = x[t][0], b = x[t][1], p = x[t + 1][0], q = x[t + 1][1];
    turn[t] = 0.25f * atan2f(a * q - b * p, a * p + b * q);
  }
  for (int t = 0; t < N; t++) turn[t] = sound = 0.75f * sound + turn[t];
  for (int t = 0; t < N; t++) y[t] = (int)rintf(turn[t] * 9000);
}
void kernel(const short (*restrict x)[N + 1][2], short (*restrict y)[N]) {
#pragma omp parallel for
  for (int e = 0; e < C; e++) station(x[e], y[e]);
}
"""


def fm_receiver_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.angle, then a step of all stations at a time."""
    import numpy as np

    z = x["x"].astype(np.float64).view(np.complex128)[..., 0]
    turn = 0.25 * np.angle(z[:, 1:] * z[:, :-1].conj())
    for t in range(1, s["n"]):
        turn[:, t] += 0.75 * turn[:, t - 1]
    return {"y": np.rint(turn * 9000).astype(np.int16)}


def qam64_soft_bits(s: int = 14, k: int = 1201) -> Kernel:
    """How sure the six bits of received 64-QAM symbols are, in bytes; each of k carriers has a weight of its own."""
    kb = KernelBuilder("qam64_soft_bits")
    i, j, c = kb.axis("s", s), kb.axis("k", k), kb.axis("c", 2)
    x, weight = kb.input("x", (s, k, 2), int16, range=(-8000, 8000)), kb.input("weight", (k,), uint8)
    first = cast(x[i, j, c], int32)
    second = 4096 - absolute(first)
    third = 2048 - absolute(second)
    for bit, v in enumerate((first, second, third)):
        soft = clip((v * cast(weight[j], int32) + 2048) >> 12, -127, 127)
        kb.store("y", int8, (s, k, 3, 2), (i, j, c), cast(soft, int8), (i, j, bit, c))
    return kb.build()


C["qam64_soft_bits"] = """
#include <stdlib.h>
static signed char soft(int v, int weight) {
  v = (v * weight + 2048) >> 12;
  return v < -127 ? -127 : v > 127 ? 127 : v;
}
static void symbol(const short (*restrict x)[2], const unsigned char *restrict weight, signed char (*restrict y)[3][2]) {
  signed char a[K][2], b[K][2], d[K][2];
  for (int j = 0; j < K; j++)
    for (int c = 0; c < 2; c++) {
      int first = x[j][c], second = 4096 - abs(first), third = 2048 - abs(second);
      a[j][c] = soft(first, weight[j]), b[j][c] = soft(second, weight[j]), d[j][c] = soft(third, weight[j]);
    }
  for (int j = 0; j < K; j++)
    for (int c = 0; c < 2; c++) y[j][0][c] = a[j][c], y[j][1][c] = b[j][c], y[j][2][c] = d[j][c];
}
void kernel(const short (*restrict x)[K][2], const unsigned char *restrict weight, signed char (*restrict y)[K][3][2]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) symbol(x[i], weight, y[i]);
}
"""


def qam64_soft_bits_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In int64."""
    import numpy as np

    first = x["x"].astype(np.int64)
    second = 4096 - abs(first)
    v = np.stack([first, second, 2048 - abs(second)], axis=2) * x["weight"].astype(np.int64)[:, None, None]
    return {"y": np.clip((v + 2048) >> 12, -127, 127).astype(np.int8)}


def raid6_parity(d: int = 7, n: int = 1000003) -> Kernel:
    """Both parities of d disks: the exclusive or, and the sum of disks times powers of 2 in the field of 256 elements."""
    kb = KernelBuilder("raid6_parity")
    i = kb.axis("n", n)
    x = kb.input("x", (d, n), uint8)
    p = q = x[d - 1, i]
    for k in reversed(range(d - 1)):
        p = p ^ x[k, i]
        q = (q << 1) ^ cast(where(q >= 128, 0x1D, 0), uint8) ^ x[k, i]
    kb.store("p", uint8, (n,), (i,), p)
    kb.store("q", uint8, (n,), (i,), q)
    return kb.build()


C["raid6_parity"] = """
typedef unsigned char u8;
__attribute__((noinline)) static void some(const u8 (*restrict x)[N], u8 *restrict p, u8 *restrict q, int from, int to) {
  for (int i = from; i < to; i++) {
    u8 a = x[D - 1][i], b = a;
#pragma GCC unroll 32
    for (int k = D - 2; k >= 0; k--) {
      a ^= x[k][i];
      b = (u8)(b << 1) ^ (b >= 128 ? 0x1d : 0) ^ x[k][i];
    }
    p[i] = a, q[i] = b;
  }
}
void kernel(const u8 (*restrict x)[N], u8 *restrict p, u8 *restrict q) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 4096) some(x, p, q, i, i + 4096 < N ? i + 4096 : N);
}
"""


def raid6_parity_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A disk at a time, in int64."""
    import numpy as np

    q = np.zeros(s["n"], np.int64)
    for disk in x["x"][::-1]:
        q = (q << 1) ^ (q >> 7) * 0x11D ^ disk
    return {"p": np.bitwise_xor.reduce(x["x"]), "q": q.astype(np.uint8)}
