"""Packed integers, equations of a recommender, shifted windows of pictures, an optimiser that saves memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, int32, int64, leading_zeros, maximum, sqrt, uint8, uint32, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "pack_blocks": ("scatter", {"b": 5}),
    "als_equations": ("gathers", {"u": 5, "l": 7, "n": 19, "f": 6}),
    "shifted_windows": ("attention", {"r": 2, "c": 2, "h": 2, "d": 5}),
    "adafactor_step": ("rows and columns", {"m": 11, "n": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def pack_blocks(b: int = 1501) -> Kernel:
    """Blocks of 128 numbers less the least of each, in as few bits as the greatest needs, one after the other in words of 32 bits."""
    kb = KernelBuilder("pack_blocks")
    i, k, p, q = kb.axis("b", b), kb.axis("k", 128), kb.axis("k@least", 128), kb.axis("k@most", 128)
    x = kb.input("x", (b, 128), uint32, range=(5_000_000, 5_200_000))
    least, most = kb.min("least", (i,), p, x[i, p]), kb.max("most", (i,), q, x[i, q])
    bits = kb.value("width", (i,), 32 - leading_zeros(most[i] - least[i]))
    at = cast(k, uint32) * bits[i]
    word, off, v = cast(at >> 5, int64), at & 31, x[i, k] - least[i]
    kb.store("words", uint32, (b, 129), (i, k), v << off, (i, word), combine="or")
    kb.store("words", uint32, (b, 129), (i, k), v >> (32 - off), (i, word + 1), combine="or", mask=off + bits[i] > 32)
    kb.store("base", uint32, (b,), (i,), least[i])
    kb.store("bits", uint8, (b,), (i,), bits[i])
    return kb.build()


C["pack_blocks"] = """
static void block(const unsigned *restrict x, unsigned *restrict words, unsigned *restrict base, unsigned char *restrict width) {
  unsigned least = x[0], most = x[0];
  for (int k = 1; k < 128; k++) {
    least = x[k] < least ? x[k] : least;
    most = x[k] > most ? x[k] : most;
  }
  int bits = most > least ? 32 - __builtin_clz(most - least) : 0;
  for (int k = 0; k < 129; k++) words[k] = 0;
  for (int k = 0; k < 128; k++) {
    unsigned v = x[k] - least, at = k * bits, off = at & 31;
    words[at >> 5] |= v << off;
    if (off + bits > 32) words[(at >> 5) + 1] |= v >> (32 - off);
  }
  *base = least;
  *width = bits;
}
void kernel(const unsigned (*restrict x)[128], unsigned (*restrict words)[129], unsigned *restrict base,
            unsigned char *restrict width) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) block(x[i], words[i], base + i, width + i);
}
"""


def pack_blocks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Bits of each block, and packbits."""
    import numpy as np

    words, least = np.zeros((s["b"], 129), np.uint32), x["x"].min(axis=1)
    width = np.array([int(v).bit_length() for v in x["x"].max(axis=1) - least])
    for i, n in enumerate(width):
        ones = ((x["x"][i] - least[i])[:, None] >> np.arange(n, dtype=np.uint32) & 1).astype(np.uint8).ravel()
        words[i, : 4 * n] = np.packbits(ones, bitorder="little").view(np.uint32)
    return {"words": words, "base": least, "bits": width.astype(np.uint8)}


def als_equations(u: int = 301, l: int = 50, n: int = 2003, f: int = 24) -> Kernel:
    """The equations of alternating least squares for each user: the matrix of all items plus those of the user's, and the right side."""
    kb = KernelBuilder("als_equations")
    i, p, q, a, b = kb.axis("u", u), kb.axis("f", f), kb.axis("f@column", f), kb.axis("l", l), kb.axis("l@right", l)
    items, every = kb.input("items", (n, f), float32), kb.input("every", (f, f), float32)
    ids, many = kb.input("ids", (u, l), int32, range=(0, n - 1)), kb.input("many", (u,), int32, range=(0, l))
    trust = kb.input("trust", (u, l), float32, range=(0.1, 5.0))

    def item(k: Any, c: Any) -> Any:
        return items[cast(ids[i, k], int64), c]

    own = kb.sum("own", (i, p, q), a, where(cast(a, int32) < many[i], trust[i, a] * item(a, p) * item(a, q), 0.0))
    right = kb.sum("side", (i, p), b, where(cast(b, int32) < many[i], (1.0 + trust[i, b]) * item(b, p), 0.0))
    kb.store("left", float32, (u, f, f), (i, p, q), every[p, q] + own[i, p, q] + where(p.eq(q), 0.1, 0.0))
    kb.store("right", float32, (u, f), (i, p), right[i, p])
    return kb.build()


C["als_equations"] = """
static void user(const float (*restrict items)[F], const float (*restrict every)[F], const int *restrict ids, int many,
                 const float *restrict trust, float (*restrict left)[F], float *restrict right) {
  for (int p = 0; p < F; p++) {
    right[p] = 0;
    for (int q = 0; q < F; q++) left[p][q] = every[p][q] + (p == q ? 0.1f : 0);
  }
  for (int a = 0; a < many; a++) {
    const float *v = items[ids[a]];
    for (int p = 0; p < F; p++) {
      right[p] += (1 + trust[a]) * v[p];
      for (int q = 0; q < F; q++) left[p][q] += trust[a] * v[p] * v[q];
    }
  }
}
void kernel(const float (*restrict items)[F], const float (*restrict every)[F], const int (*restrict ids)[L],
            const int *restrict many, const float (*restrict trust)[L], float (*restrict left)[F][F], float (*restrict right)[F]) {
#pragma omp parallel for
  for (int i = 0; i < U; i++) user(items, every, ids[i], many[i], trust[i], left[i], right[i]);
}
"""


def als_equations_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A user at a time."""
    import numpy as np

    left, right = np.zeros((s["u"], s["f"], s["f"])), np.zeros((s["u"], s["f"]))
    for i, many in enumerate(x["many"]):
        v, t = x["items"][x["ids"][i, :many]].astype(np.float64), x["trust"][i, :many].astype(np.float64)
        left[i] = x["every"] + (v.T * t) @ v + 0.1 * np.eye(s["f"])
        right[i] = (1 + t) @ v
    return {"left": left, "right": right}


def shifted_windows(r: int = 4, c: int = 5, h: int = 3, d: int = 32) -> Kernel:
    """Attention within windows of 7 x 7 pixels of a picture that is turned by 3 both ways; what met only by turning does not attend."""
    kb = KernelBuilder("shifted_windows")
    a, b, g, p = kb.axis("r", r), kb.axis("c", c), kb.axis("h", h), kb.axis("p", 49)
    qkv, bias = kb.input("qkv", (7 * r, 7 * c, 3, h, d), float32), kb.input("bias", (169, h), float32)
    j = {site: kb.axis(f"key@{site}", 49) for site in ("dot", "top", "sum", "mix")}
    e, o = kb.axis("d@dot", d), kb.axis("d", d)

    def row(k: Any) -> Any:
        return (7 * a + k // 7 + 3) % (7 * r)

    def col(k: Any) -> Any:
        return (7 * b + k % 7 + 3) % (7 * c)

    k = j["dot"]
    dot = kb.sum("dot", (a, b, g, p, k), e, qkv[row(p), col(p), 0, g, e] * qkv[row(k), col(k), 1, g, e])

    def score(k: Any) -> Any:
        down, across = p // 7 - k // 7 + 6, p % 7 - k % 7 + 6
        torn = (a.eq(r - 1) & (p // 7 < 4).ne(k // 7 < 4)) | (b.eq(c - 1) & (p % 7 < 4).ne(k % 7 < 4))
        return where(torn, float("-inf"), dot[a, b, g, p, k] * d**-0.5 + bias[13 * down + across, g])

    top = kb.max("top", (a, b, g, p), j["top"], score(j["top"]))
    total = kb.sum("total", (a, b, g, p), j["sum"], exp(score(j["sum"]) - top[a, b, g, p]))
    m = j["mix"]
    mix = kb.sum("mix", (a, b, g, p, o), m, exp(score(m) - top[a, b, g, p]) * qkv[row(m), col(m), 2, g, o])
    y = mix[a, b, g, p, o] / total[a, b, g, p]
    kb.store("y", float32, (7 * r, 7 * c, h, d), (a, b, g, p, o), y, (row(p), col(p), g, o))
    return kb.build()


C["shifted_windows"] = """
#include <math.h>
static int row(int a, int p) { return (7 * a + p / 7 + 3) % (7 * R); }
static int col(int b, int p) { return (7 * b + p % 7 + 3) % (7 * C); }
void kernel(const float (*restrict qkv)[7 * C][3][H][D], const float (*restrict bias)[H], float (*restrict y)[7 * C][H][D]) {
#pragma omp parallel for collapse(3)
  for (int a = 0; a < R; a++)
    for (int b = 0; b < C; b++)
      for (int g = 0; g < H; g++)
        for (int p = 0; p < 49; p++) {
          const float *q = qkv[row(a, p)][col(b, p)][0][g];
          float score[49], top = -INFINITY, total = 0, mix[D] = {0};
          for (int k = 0; k < 49; k++) {
            const float *key = qkv[row(a, k)][col(b, k)][1][g];
            float dot = 0;
            for (int e = 0; e < D; e++) dot += q[e] * key[e];
            int torn = (a == R - 1 && (p / 7 < 4) != (k / 7 < 4)) || (b == C - 1 && (p % 7 < 4) != (k % 7 < 4));
            score[k] = torn ? -1e30f : dot / sqrtf(D) + bias[13 * (p / 7 - k / 7 + 6) + p % 7 - k % 7 + 6][g];
            top = score[k] > top ? score[k] : top;
          }
          for (int k = 0; k < 49; k++) total += score[k] = expf(score[k] - top);
          for (int k = 0; k < 49; k++) {
            const float *v = qkv[row(a, k)][col(b, k)][2][g];
            for (int e = 0; e < D; e++) mix[e] += score[k] * v[e];
          }
          for (int e = 0; e < D; e++) y[row(a, p)][col(b, p)][g][e] = mix[e] / total;
        }
}
"""


def shifted_windows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.roll, windows as an axis, and back."""
    import numpy as np

    r, c, h, d = (s[k] for k in "rchd")
    t = np.roll(x["qkv"].astype(np.float64), (-3, -3), axis=(0, 1)).reshape(r, 7, c, 7, 3, h, d)
    q, k, v = t.transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, r, c, h, 49, d)
    i = np.arange(49)
    at = 13 * (i[:, None] // 7 - i // 7 + 6) + i[:, None] % 7 - i % 7 + 6
    score = q @ k.swapaxes(-1, -2) * d**-0.5 + x["bias"].astype(np.float64)[at].transpose(2, 0, 1)
    score[-1] = np.where((i[:, None] // 7 < 4) != (i // 7 < 4), -np.inf, score[-1])
    score[:, -1] = np.where((i[:, None] % 7 < 4) != (i % 7 < 4), -np.inf, score[:, -1])
    w = np.exp(score - score.max(axis=-1, keepdims=True))
    y = (w / w.sum(axis=-1, keepdims=True) @ v).reshape(r, c, h, 7, 7, d).transpose(0, 3, 1, 4, 2, 5)
    return {"y": np.roll(y.reshape(7 * r, 7 * c, h, d), (3, 3), axis=(0, 1))}


def adafactor_step(m: int = 1000, n: int = 770) -> Kernel:
    """A step of Adafactor: means of squared gradients by row and by column stand for all; the step's size is bounded, and the weights'."""
    kb = KernelBuilder("adafactor_step")
    i, j = kb.axis("m", m), kb.axis("n", n)
    s = [(kb.axis(f"m@{k}", m), kb.axis(f"n@{k}", n)) for k in ("column", "row", "step", "weight")]
    w, g = kb.input("w", (m, n), float32), kb.input("g", (m, n), float32)
    row, col = (kb.input(k, (x,), float32, range=(0.1, 2.0)) for k, x in (("row", m), ("col", n)))
    squares = [kb.sum("by_row", (i,), s[1][1], g[i, s[1][1]] ** 2), kb.sum("by_col", (j,), s[0][0], g[s[0][0], j] ** 2)]
    r = kb.value("r", (i,), 0.99 * row[i] + (0.01 / n) * squares[0][i])
    c = kb.value("c", (j,), 0.99 * col[j] + (0.01 / m) * squares[1][j])
    mean = kb.sum("mean", (), s[1][0], r[s[1][0]] * (1.0 / m))

    def step(a: Any, b: Any) -> Any:
        return g[a, b] / sqrt(r[a] * c[b] / mean[()] + 1e-30)

    size = kb.sum("size", (), s[2], step(*s[2]) ** 2)
    heavy = kb.sum("heavy", (), s[3], w[s[3][0], s[3][1]] ** 2)
    rate = 0.01 * maximum(sqrt(heavy[()] * (1 / (m * n))), 1e-3) / maximum(sqrt(size[()] * (1 / (m * n))), 1.0)
    kb.store("new_w", float32, (m, n), (i, j), w[i, j] - rate * step(i, j))
    kb.store("new_row", float32, (m,), (i,), r[i])
    kb.store("new_col", float32, (n,), (j,), c[j])
    return kb.build()


C["adafactor_step"] = """
#include <math.h>
void kernel(const float (*restrict w)[N], const float (*restrict g)[N], const float *restrict row, const float *restrict col,
            float (*restrict new_w)[N], float *restrict new_row, float *restrict new_col) {
  float mean = 0, size = 0, heavy = 0, total[N] = {0};
  for (int i = 0; i < M; i++) {
    float sum = 0;
    for (int j = 0; j < N; j++) {
      sum += g[i][j] * g[i][j];
      total[j] += g[i][j] * g[i][j];
      heavy += w[i][j] * w[i][j];
    }
    new_row[i] = 0.99f * row[i] + 0.01f / N * sum;
    mean += new_row[i] / M;
  }
  for (int j = 0; j < N; j++) new_col[j] = 0.99f * col[j] + 0.01f / M * total[j];
#pragma omp parallel for reduction(+ : size)
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) size += g[i][j] * g[i][j] / (new_row[i] * new_col[j] / mean + 1e-30f);
  float rate = 0.01f * fmaxf(sqrtf(heavy / (M * N)), 1e-3f) / fmaxf(sqrtf(size / (M * N)), 1);
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) new_w[i][j] = w[i][j] - rate * g[i][j] / sqrtf(new_row[i] * new_col[j] / mean + 1e-30f);
}
"""


def adafactor_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Outer products."""
    import numpy as np

    w, g = x["w"].astype(np.float64), x["g"].astype(np.float64)
    r, c = 0.99 * x["row"] + 0.01 * (g * g).mean(axis=1), 0.99 * x["col"] + 0.01 * (g * g).mean(axis=0)
    step = g / np.sqrt(np.outer(r, c) / r.mean())
    rate = 0.01 * max(np.sqrt((w * w).mean()), 1e-3) / max(np.sqrt((step * step).mean()), 1)
    return {"new_w": w - rate * step, "new_row": r, "new_col": c}
