"""Orders, effects of sound, numbers of two bits, and how far two clouds of points are from each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    atan2,
    cast,
    clip,
    float32,
    float64,
    floor,
    int16,
    int32,
    int64,
    round_even,
    sin,
    sqrt,
    uint8,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "order_book_fill": ("scans", {"n": 19, "l": 5}),
    "phase_vocoder": ("chains of elementary functions", {"f": 5, "b": 33}),
    "chorus": ("gathers", {"n": 101}),
    "hausdorff": ("all pairs", {"m": 19, "n": 37}),
    "two_bit_rows": ("row statistics", {"m": 7, "n": 24}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def order_book_fill(n: int = 6007, l: int = 10) -> Kernel:
    """What a market order pays a share as it eats through l levels of a book, and how many shares it gets."""
    kb = KernelBuilder("order_book_fill")
    i, j, p, q = kb.axis("n", n), kb.axis("l@before", l), kb.axis("l@cost", l), kb.axis("l@shares", l)
    price, size = kb.input("price", (n, l), float64, range=(99.0, 101.0)), kb.input("size", (n, l), int32, range=(1, 500))
    want = kb.input("want", (n,), int32, range=(1, 3000))
    upto = kb.scan("add", "upto", (i, j), j, size[i, j])

    def taken(k: Any) -> Any:
        return clip(want[i] - (upto[i, k] - size[i, k]), 0, size[i, k])

    cost = kb.sum("cost", (i,), p, cast(taken(p), float64) * price[i, p])
    shares = kb.sum("shares", (i,), q, taken(q))
    kb.store("mean", float64, (n,), (i,), cost[i] / cast(shares[i], float64))
    kb.store("got", int32, (n,), (i,), shares[i])
    return kb.build()


C["order_book_fill"] = """
void kernel(const double (*restrict price)[L], const int (*restrict size)[L], const int *restrict want, double *restrict mean,
            int *restrict got) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int left = want[i];
    double cost = 0;
    for (int j = 0; j < L; j++) {
      int taken = left < size[i][j] ? left : size[i][j];
      cost += taken * price[i][j];
      left -= taken;
    }
    got[i] = want[i] - left;
    mean[i] = cost / got[i];
  }
}
"""


def order_book_fill_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum."""
    import numpy as np

    taken = np.clip(x["want"][:, None] - (x["size"].cumsum(axis=1) - x["size"]), 0, x["size"])
    got = taken.sum(axis=1)
    return {"mean": (taken * x["price"]).sum(axis=1) / got, "got": got.astype(np.int32)}


def phase_vocoder(f: int = 301, b: int = 1025) -> Kernel:
    """The loudness and the true frequency (in bins) of each bin of each frame, by how far its phase moved in a quarter window."""
    kb = KernelBuilder("phase_vocoder")
    i, j = kb.axis("f", f), kb.axis("b", b)
    x = kb.input("x", (f + 1, b, 2), float32)

    def phase(k: int) -> Any:
        return atan2(x[i + k, j, 1], x[i + k, j, 0])

    turn = (phase(1) - phase(0)) * 0.15915494 - cast(j % 4, float32) * 0.25
    off = turn - round_even(turn)
    kb.store("loud", float32, (f, b), (i, j), sqrt(x[i + 1, j, 0] ** 2 + x[i + 1, j, 1] ** 2))
    kb.store("bin", float32, (f, b), (i, j), cast(j, float32) + off * 4.0)
    return kb.build()


C["phase_vocoder"] = """
#include <math.h>
static void frame(const float (*restrict x)[2], float *restrict phase) {
  for (int j = 0; j < B; j++) phase[j] = atan2f(x[j][1], x[j][0]);
}
static void both(const float (*restrict x)[2], const float *restrict p, const float *restrict q, float *restrict loud, float *restrict bin) {
  for (int j = 0; j < B; j++) {
    float turn = (q[j] - p[j]) * 0.15915494f - (j % 4) * 0.25f, off = turn - rintf(turn);
    loud[j] = sqrtf(x[j][0] * x[j][0] + x[j][1] * x[j][1]);
    bin[j] = j + off * 4;
  }
}
void kernel(const float (*restrict x)[B][2], float (*restrict loud)[B], float (*restrict bin)[B]) {
  static float phase[F + 1][B];
#pragma omp parallel for
  for (int i = 0; i < F + 1; i++) frame(x[i], phase[i]);
#pragma omp parallel for
  for (int i = 0; i < F; i++) both(x[i + 1], phase[i], phase[i + 1], loud[i], bin[i]);
}
"""


def phase_vocoder_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.angle, in float32 where a whole turn may hang on it."""
    import numpy as np

    a, j = x["x"], np.arange(s["b"])
    phase = np.arctan2(a[..., 1], a[..., 0])
    turn = np.diff(phase, axis=0) * np.float32(0.15915494) - (j % 4).astype(np.float32) * np.float32(0.25)
    return {"loud": np.hypot(a[1:, :, 0], a[1:, :, 1]), "bin": j + (turn - np.rint(turn)) * 4}


def chorus(n: int = 24001) -> Kernel:
    """A chorus on stereo of 16 bits: each side mixed with itself some time ago, a time that swings like a sine."""
    kb = KernelBuilder("chorus")
    i, c = kb.axis("n", n), kb.axis("c", 2)
    x, side = kb.input("x", (n + 801, 2), int16), kb.input("side", (2,), float32, range=(0.0, 3.0))
    ago = sin(cast(i, float32) * 1.9634954e-4 + side[c]) * 300.0 + 400.0
    whole = floor(ago)
    part, at = ago - whole, cast(i, int64) + 800 - cast(whole, int64)

    def wide(v: Any) -> Any:
        return cast(cast(v, int32), float32)

    late = wide(x[at, c]) * (1.0 - part) + wide(x[at - 1, c]) * part
    kb.store("y", int16, (n, 2), (i, c), cast(round_even(clip(wide(x[i + 800, c]) * 0.7 + late * 0.5, -32768.0, 32767.0)), int32))
    return kb.build()


C["chorus"] = """
#include <math.h>
static float most(float v) { return v < -32768 ? -32768 : v > 32767 ? 32767 : v; }
static void side(const short (*restrict x)[2], float phase, short (*restrict y)[2]) {
  float ago[N];
  for (int i = 0; i < N; i++) ago[i] = sinf(i * 1.9634954e-4f + phase) * 300 + 400;
  for (int i = 0; i < N; i++) {
    int whole = ago[i], at = i + 800 - whole;
    float part = ago[i] - whole, late = x[at][0] * (1 - part) + x[at - 1][0] * part;
    y[i][0] = (int)rintf(most(x[i + 800][0] * 0.7f + late * 0.5f));
  }
}
void kernel(const short (*restrict x)[2], const float *restrict sides, short (*restrict y)[2]) {
#pragma omp parallel for
  for (int c = 0; c < 2; c++) side((const void *)&x[0][c], sides[c], (void *)&y[0][c]);
}
"""


def chorus_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.interp for each side, in float64."""
    import numpy as np

    t, a = np.arange(s["n"]), x["x"].astype(np.float64)
    when = t[:, None] + 800 - (np.sin(t[:, None] * 1.9634954e-4 + x["side"].astype(np.float64)) * 300 + 400)
    late = np.stack([np.interp(when[:, c], np.arange(len(a)), a[:, c]) for c in (0, 1)], axis=1)
    return {"y": np.rint(np.clip(a[800 : 800 + s["n"]] * 0.7 + late * 0.5, -32768, 32767)).astype(np.int16)}


def hausdorff(m: int = 701, n: int = 907) -> Kernel:
    """How far the point of one cloud is from the other that is farthest from it; the three coordinates are rows."""
    kb = KernelBuilder("hausdorff")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (3, m), float32), kb.input("b", (3, n), float32)
    apart = (a[0, i] - b[0, j]) ** 2 + (a[1, i] - b[1, j]) ** 2 + (a[2, i] - b[2, j]) ** 2
    near = kb.min("near", (i,), j, apart)
    k = kb.axis("m@far", m)
    far = kb.max("far", (), k, near[k])
    kb.store("y", float32, (1,), (), sqrt(far[()]), (0,))
    return kb.build()


C["hausdorff"] = """
#include <math.h>
void kernel(const float (*restrict a)[M], const float (*restrict b)[N], float *restrict y) {
  float far = 0;
#pragma omp parallel for reduction(max : far)
  for (int i = 0; i < M; i++) {
    float near = INFINITY;
    for (int j = 0; j < N; j++) {
      float p = a[0][i] - b[0][j], q = a[1][i] - b[1][j], r = a[2][i] - b[2][j], d = p * p + q * q + r * r;
      near = d < near ? d : near;
    }
    far = near > far ? near : far;
  }
  y[0] = sqrtf(far);
}
"""


def hausdorff_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    apart = ((x["a"].astype(np.float64)[:, :, None] - x["b"].astype(np.float64)[:, None]) ** 2).sum(axis=0)
    return {"y": np.sqrt(apart.min(axis=1).max(keepdims=True))}


def two_bit_rows(m: int = 512, n: int = 516) -> Kernel:
    """Rows in two bits a number, four in a byte, with a step and a least value for each row."""
    kb = KernelBuilder("two_bit_rows")
    i, p, q, j = kb.axis("m", m), kb.axis("n@hi", n), kb.axis("n@lo", n), kb.axis("byte", n // 4)
    x = kb.input("x", (m, n), float32)
    hi, lo = kb.max("hi", (i,), p, x[i, p]), kb.min("lo", (i,), q, x[i, q])
    step = kb.value("step", (i,), (hi[i] - lo[i]) * (1.0 / 3.0) + 1e-9)
    byte = None
    for k in range(4):
        code = clip(cast(round_even((x[i, 4 * j + k] - lo[i]) / step[i]), int32), 0, 3) << (2 * k)
        byte = code if byte is None else byte | code
    kb.store("y", uint8, (m, n // 4), (i, j), cast(byte, uint8))
    kb.store("scale", float32, (m,), (i,), step[i])
    kb.store("zero", float32, (m,), (i,), lo[i])
    return kb.build()


C["two_bit_rows"] = """
#include <math.h>
static int code(float v) {
  int c = (int)rintf(v);
  return c < 0 ? 0 : c > 3 ? 3 : c;
}
static void row(const float *restrict x, unsigned char *restrict y, float *restrict scale, float *restrict zero) {
  float hi = x[0], lo = x[0];
  for (int j = 0; j < N; j++) {
    hi = x[j] > hi ? x[j] : hi;
    lo = x[j] < lo ? x[j] : lo;
  }
  float step = (hi - lo) * (1 / 3.f) + 1e-9f;
  for (int j = 0; j < N / 4; j++) {
    const float *v = x + 4 * j;
    y[j] = code((v[0] - lo) / step) | code((v[1] - lo) / step) << 2 | code((v[2] - lo) / step) << 4 | code((v[3] - lo) / step) << 6;
  }
  *scale = step;
  *zero = lo;
}
void kernel(const float (*restrict x)[N], unsigned char (*restrict y)[N / 4], float *restrict scale, float *restrict zero) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(x[i], y[i], scale + i, zero + i);
}
"""


def two_bit_rows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In float32, as written."""
    import numpy as np

    f, a = np.float32, x["x"]
    lo = a.min(axis=1, keepdims=True)
    step = (a.max(axis=1, keepdims=True) - lo) * f(1 / 3) + f(1e-9)
    c = np.clip(np.rint((a - lo) / step), 0, 3).astype(np.uint8).reshape(s["m"], -1, 4)
    return {"y": c[..., 0] | c[..., 1] << 2 | c[..., 2] << 4 | c[..., 3] << 6, "scale": step[:, 0], "zero": lo[:, 0]}
