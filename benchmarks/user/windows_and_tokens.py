"""Windows of tables, gaps filled, attention over neighbours, dropout by a hash, alignments of speech."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, expm1, log, maximum, minimum, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "window_functions": ("scans", {"n": 101}),
    "forward_fill": ("scans", {"t": 23, "s": 7}),
    "gat_layer": ("gathers", {"n": 23, "l": 5, "h": 2, "d": 6}),
    "gine_messages": ("scatter", {"n": 13, "e": 41, "d": 6}),
    "hash_dropout": ("bit operations", {"m": 5, "bytes": 3}),
    "ctc_step": ("gathers", {"b": 5, "l": 7, "v": 11}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def window_functions(n: int = 200003) -> Kernel:
    """ROW_NUMBER, AVG over this row and 6 before, and the change since the row before, each OVER (PARTITION BY key)."""
    kb = KernelBuilder("window_functions")
    i, k = kb.axis("n", n), kb.axis("back", 7)
    key, x = kb.input("key", (n,), "int32", range=(0, 1)), kb.input("x", (n,), "float64")
    begins = where((i > 0) & key[i].eq(key.masked(i > 0, i - 1)), 0, cast(i, "int32"))
    start = kb.scan("max", "start", (i,), i, begins)
    row = kb.value("row", (i,), cast(i, "int32") - start[i])
    total = kb.sum("total", (i,), k, where(cast(k, "int32") <= row[i], x.masked(i >= k, i - k), 0.0))
    kb.store("row_number", "int32", (n,), (i,), row[i] + 1)
    kb.store("average", "float64", (n,), (i,), total[i] / cast(minimum(row[i] + 1, 7), "float64"))
    kb.store("change", "float64", (n,), (i,), where(row[i] > 0, x[i] - x.masked(i > 0, i - 1), 0.0))
    return kb.build()


C["window_functions"] = """
void kernel(const int *restrict key, const double *restrict x, int *restrict number, double *restrict average, double *restrict change) {
  for (int i = 0; i < N; i++) number[i] = i > 0 && key[i] == key[i - 1] ? number[i - 1] + 1 : 1;
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int many = number[i] < 7 ? number[i] : 7;
    double total = 0;
    for (int k = 0; k < many; k++) total += x[i - k];
    average[i] = total / many;
    change[i] = number[i] > 1 ? x[i] - x[i - 1] : 0;
  }
}
"""


def window_functions_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Seven shifts."""
    import numpy as np

    i, v, key = np.arange(s["n"]), x["x"], x["key"]
    row = i - np.maximum.accumulate(np.where(np.diff(key, prepend=key[0] - 1) != 0, i, 0))
    total = sum(np.where(k <= row, np.roll(v, k), 0) for k in range(7))
    change = np.where(row > 0, v - np.roll(v, 1), 0)
    return {"row_number": (row + 1).astype(np.int32), "average": total / np.minimum(row + 1, 7), "change": change}


def forward_fill(t: int = 2880, s: int = 211) -> Kernel:
    """Readings of sensors, with what each had last where one is missing (its normal value before any), and how old that is."""
    kb = KernelBuilder("forward_fill")
    i, j = kb.axis("t", t), kb.axis("s", s)
    x, valid = kb.input("x", (t, s), "float32"), kb.input("valid", (t, s), "bool")
    normal = kb.input("normal", (s,), "float32")
    last = kb.scan("max", "last", (i, j), i, where(valid[i, j], cast(i, "int32"), -1))
    kb.store("filled", "float32", (t, s), (i, j), where(last[i, j] >= 0, x[maximum(last[i, j], 0), j], normal[j]))
    kb.store("age", "int32", (t, s), (i, j), where(last[i, j] >= 0, cast(i, "int32") - last[i, j], -1))
    return kb.build()


C["forward_fill"] = """
void kernel(const float (*restrict x)[S], const unsigned char (*restrict valid)[S], const float *restrict normal,
            float (*restrict filled)[S], int (*restrict age)[S]) {
  float now[S];
  int old[S];
  for (int j = 0; j < S; j++) now[j] = normal[j], old[j] = -1;
  for (int i = 0; i < T; i++)
    for (int j = 0; j < S; j++) {
      now[j] = valid[i][j] ? x[i][j] : now[j];
      old[j] = valid[i][j] ? 0 : old[j] < 0 ? -1 : old[j] + 1;
      filled[i][j] = now[j];
      age[i][j] = old[j];
    }
}
"""


def forward_fill_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By the running largest place."""
    import numpy as np

    i = np.arange(s["t"])[:, None]
    last = np.maximum.accumulate(np.where(x["valid"], i, -1), axis=0)
    filled = np.where(last >= 0, np.take_along_axis(x["x"], np.maximum(last, 0), axis=0), x["normal"])
    return {"filled": filled, "age": np.where(last >= 0, i - last, -1).astype(np.int32)}


def gat_layer(n: int = 1201, l: int = 12, h: int = 4, d: int = 16) -> Kernel:
    """A layer of a graph attention network: each node's heads weigh its neighbours (l at most) by a softmax, then ELU."""
    kb = KernelBuilder("gat_layer")
    i, a, o = kb.axis("n", n), kb.axis("h", h), kb.axis("d", d)
    e, g, (p, q, r) = kb.axis("d@left", d), kb.axis("d@right", d), (kb.axis(f"l@{s}", l) for s in ("top", "sum", "mix"))
    x, many = kb.input("x", (n, h, d), "float32"), kb.input("many", (n,), "int32", range=(1, l))
    near = kb.input("near", (n, l), "int32", range=(0, n - 1))
    to, of = kb.input("to", (h, d), "float32"), kb.input("of", (h, d), "float32")
    left = kb.sum("left", (i, a), e, x[i, a, e] * to[a, e])
    right = kb.sum("right", (i, a), g, x[i, a, g] * of[a, g])

    def score(j: Any) -> Any:
        v = left[i, a] + right[near[i, j], a]
        return where(cast(j, "int32") < many[i], where(v > 0.0, v, v * 0.2), float("-inf"))

    top = kb.max("top", (i, a), p, score(p))
    total = kb.sum("total", (i, a), q, exp(score(q) - top[i, a]))
    mix = kb.sum("mix", (i, a, o), r, exp(score(r) - top[i, a]) * x[near[i, r], a, o])
    v = mix[i, a, o] / total[i, a]
    kb.store("y", "float32", (n, h, d), (i, a, o), where(v > 0.0, v, expm1(v)))
    return kb.build()


C["gat_layer"] = """
#include <math.h>
void kernel(const float (*restrict x)[H][D], const int *restrict many, const int (*restrict near)[L], const float (*restrict to)[D],
            const float (*restrict of)[D], float (*restrict y)[H][D]) {
  static float left[N][H], right[N][H];
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int a = 0; a < H; a++) {
      float p = 0, q = 0;
      for (int e = 0; e < D; e++) p += x[i][a][e] * to[a][e], q += x[i][a][e] * of[a][e];
      left[i][a] = p, right[i][a] = q;
    }
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int a = 0; a < H; a++) {
      float score[L], top = -INFINITY, total = 0, mix[D] = {0};
      for (int j = 0; j < many[i]; j++) {
        float v = left[i][a] + right[near[i][j]][a];
        score[j] = v > 0 ? v : 0.2f * v;
        top = score[j] > top ? score[j] : top;
      }
      for (int j = 0; j < many[i]; j++) {
        float w = expf(score[j] - top);
        total += w;
        for (int e = 0; e < D; e++) mix[e] += w * x[near[i][j]][a][e];
      }
      for (int e = 0; e < D; e++) y[i][a][e] = mix[e] > 0 ? mix[e] / total : expm1f(mix[e] / total);
    }
}
"""


def gat_layer_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Gathered rows, in "float64"."""
    import numpy as np

    a = x["x"].astype(np.float64)
    v = (a * x["to"]).sum(axis=2)[:, None] + (a * x["of"]).sum(axis=2)[x["near"]]
    v = np.where((np.arange(s["l"]) < x["many"][:, None])[:, :, None], np.maximum(v, 0.2 * v), -np.inf)
    w = np.exp(v - v.max(axis=1, keepdims=True))
    y = np.einsum("nlh,nlhd->nhd", w / w.sum(axis=1, keepdims=True), a[x["near"]])
    return {"y": np.where(y > 0, y, np.expm1(y))}


def gine_messages(n: int = 9001, e: int = 60013, d: int = 24) -> Kernel:
    """Edges of a graph bring ReLU(features of their source + their own) to their target, onto 1 + eps times what it has."""
    kb = KernelBuilder("gine_messages")
    i, j, k, o = kb.axis("e", e), kb.axis("n", n), kb.axis("d", d), kb.axis("d@own", d)
    x, w, eps = kb.input("x", (n, d), "float32"), kb.input("w", (e, d), "float32"), kb.input("eps", (), "float32")
    a, b = (kb.input(name, (e,), "int32", range=(0, n - 1)) for name in ("source", "target"))
    kb.store("y", "float32", (n, d), (j, o), x[j, o] * (eps[()] + 1.0), combine="add")
    kb.store("y", "float32", (n, d), (i, k), maximum(x[a[i], k] + w[i, k], 0.0), (b[i], k), combine="add")
    return kb.build()


C["gine_messages"] = """
void kernel(const float (*restrict x)[D], const float (*restrict w)[D], const float *restrict eps, const int *restrict source,
            const int *restrict target, float (*restrict y)[D]) {
  for (int j = 0; j < N; j++)
    for (int k = 0; k < D; k++) y[j][k] = (1 + *eps) * x[j][k];
  for (int i = 0; i < E; i++)
    for (int k = 0; k < D; k++) y[target[i]][k] += x[source[i]][k] + w[i][k] > 0 ? x[source[i]][k] + w[i][k] : 0;
}
"""


def gine_messages_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.add.at."""
    import numpy as np

    y = x["x"] * (1.0 + x["eps"].astype(np.float64))
    np.add.at(y, x["target"], np.maximum(x["x"][x["source"]] + x["w"].astype(np.float64), 0))
    return {"y": y}


def hash_dropout(m: int = 1024, bytes: int = 48) -> Kernel:
    """Dropout of a tenth by a hash of each place and a seed, added to what came past, and the mask as bits."""
    kb = KernelBuilder("hash_dropout")
    n, i, j, b = 8 * bytes, kb.axis("m", m), kb.axis("n", 8 * bytes), kb.axis("bytes", bytes)
    x, past, seed = kb.input("x", (m, n), "float32"), kb.input("past", (m, n), "float32"), kb.input("seed", (), "uint32")

    def kept(at: Any) -> Any:
        v = cast(i * n + at, "uint32") * 0x9E3779B9 + seed[()]
        v = (v ^ (v >> 16)) * 0x85EBCA6B
        v = (v ^ (v >> 13)) * 0xC2B2AE35
        return (v ^ (v >> 16)) >= 429496730

    bits = where(kept(8 * b), 1, 0)
    for k in range(1, 8):
        bits = bits | where(kept(8 * b + k), 1 << k, 0)
    kb.store("y", "float32", (m, n), (i, j), past[i, j] + where(kept(j), x[i, j] * (1.0 / 0.9), 0.0))
    kb.store("mask", "uint8", (m, bytes), (i, b), bits)
    return kb.build()


C["hash_dropout"] = """
#define N (8 * BYTES)
void kernel(const float (*restrict x)[N], const float (*restrict past)[N], const unsigned *restrict seed, float (*restrict y)[N],
            unsigned char (*restrict mask)[BYTES]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    unsigned char kept[N];
    for (int j = 0; j < N; j++) {
      unsigned v = (unsigned)(i * N + j) * 0x9e3779b9u + *seed;
      v = (v ^ v >> 16) * 0x85ebca6bu;
      v = (v ^ v >> 13) * 0xc2b2ae35u;
      kept[j] = (v ^ v >> 16) >= 429496730u;
      y[i][j] = past[i][j] + (kept[j] ? x[i][j] * (1 / 0.9f) : 0);
    }
    for (int b = 0; b < BYTES; b++) {
      mask[i][b] = 0;
      for (int k = 0; k < 8; k++) mask[i][b] |= kept[8 * b + k] << k;
    }
  }
}
"""


def hash_dropout_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By packbits."""
    import numpy as np

    v = np.arange(s["m"] * 8 * s["bytes"], dtype=np.uint32).reshape(s["m"], 8 * s["bytes"]) * np.uint32(0x9E3779B9) + x["seed"]
    v = (v ^ (v >> 16)) * np.uint32(0x85EBCA6B)
    v = (v ^ (v >> 13)) * np.uint32(0xC2B2AE35)
    kept = (v ^ (v >> 16)) >= 429496730
    y = x["past"] + np.where(kept, x["x"].astype(np.float64) / 0.9, 0)
    return {"y": y, "mask": np.packbits(kept, axis=1, bitorder="little")}


def ctc_step(b: int = 128, l: int = 100, v: int = 64) -> Kernel:
    """A step forward of CTC in logarithms, for labels with blanks (0) between; a blank is skipped between different labels."""
    kb = KernelBuilder("ctc_step")
    i, j = kb.axis("b", b), kb.axis("state", 2 * l + 1)
    alpha, logp = kb.input("alpha", (b, 2 * l + 1), "float32"), kb.input("logp", (b, v), "float32")
    label = kb.input("label", (b, l), "int32", range=(1, v - 1))
    odd = (j % 2).eq(1)
    this = label.masked(odd, i, j // 2)
    skips = odd & (j >= 3) & this.ne(label.masked(odd & (j >= 3), i, j // 2 - 1))
    stay = alpha[i, j]
    go = where(j >= 1, alpha.masked(j >= 1, i, j - 1), -1e30)
    skip = where(skips, alpha.masked(j >= 2, i, j - 2), -1e30)
    top = kb.value("top", (i, j), maximum(maximum(stay, go), skip))
    total = exp(stay - top[i, j]) + exp(go - top[i, j]) + exp(skip - top[i, j])
    kb.store("new", "float32", (b, 2 * l + 1), (i, j), logp[i, this] + top[i, j] + log(total))
    return kb.build()


C["ctc_step"] = """
#include <math.h>
#define S (2 * L + 1)
void kernel(const float (*restrict alpha)[S], const float (*restrict logp)[V], const int (*restrict label)[L], float (*restrict new)[S]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int j = 0; j < S; j++) {
      int this = j % 2 ? label[i][j / 2] : 0;
      float stay = alpha[i][j], go = j >= 1 ? alpha[i][j - 1] : -1e30f;
      float skip = j % 2 && j >= 3 && this != label[i][j / 2 - 1] ? alpha[i][j - 2] : -1e30f, top = fmaxf(fmaxf(stay, go), skip);
      new[i][j] = logp[i][this] + top + logf(expf(stay - top) + expf(go - top) + expf(skip - top));
    }
}
"""


def ctc_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By padded labels, in "float64"."""
    import numpy as np

    full = np.zeros((s["b"], 2 * s["l"] + 1), np.int64)
    full[:, 1::2] = x["label"]
    a = np.pad(x["alpha"].astype(np.float64), ((0, 0), (2, 0)), constant_values=-np.inf)
    may = np.pad((full[:, 2:] != full[:, :-2]) & (full[:, 2:] > 0), ((0, 0), (2, 0)))
    total = np.logaddexp(np.logaddexp(a[:, 2:], a[:, 1:-1]), np.where(may, a[:, :-2], -np.inf))
    return {"new": np.take_along_axis(x["logp"], full, axis=1) + total}
