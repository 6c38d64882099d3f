"""Hashes, fingerprints, descriptors and text, and the links of pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, float32, float64, int32, int64, maximum, popcount, uint8, uint32, uint64

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "bloom_probe": ("bit operations", {"n": 101}),
    "adler_blocks": ("bytes", {"b": 5, "n": 37}),
    "jaccard_bits": ("bit operations", {"m": 5, "n": 7, "w": 3}),
    "hamming": ("bit operations", {"m": 7, "n": 19, "w": 4}),
    "byte_words": ("bytes", {"n": 11, "l": 37}),
    "pagerank_step": ("gathers", {"n": 101, "l": 5}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def bloom_probe(n: int = 40001) -> Kernel:
    """Which keys a Bloom filter of 2 ** 17 bits may hold, by four multiplicative hashes, and how many they are."""
    kb = KernelBuilder("bloom_probe")
    i, c = kb.axis("n", n), kb.axis("n@count", n)
    key, bits = kb.input("key", (n,), uint32), kb.input("bits", (4096,), uint32)
    found: Any = None
    for by in (2654435761, 2246822519, 3266489917, 668265263):
        h = (key[i] * by) >> 15
        bit = (bits[cast(h >> 5, int64)] >> (h & 31)) & 1
        found = bit if found is None else found & bit
    hit = kb.value("hit", (i,), found)
    kb.store("y", uint8, (n,), (i,), cast(hit[i], uint8))
    many = kb.sum("many", (), c, cast(hit[c], int32))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


C["bloom_probe"] = """
static const unsigned by[4] = {2654435761u, 2246822519u, 3266489917u, 668265263u};
void kernel(const unsigned *restrict key, const unsigned *restrict bits, unsigned char *restrict y, int *restrict count) {
  int many = 0;
#pragma omp parallel for simd reduction(+ : many)
  for (int i = 0; i < N; i++) {
    unsigned found = 1;
    for (int k = 0; k < 4; k++) {
      unsigned h = key[i] * by[k] >> 15;
      found &= bits[h >> 5] >> (h & 31);
    }
    y[i] = found;
    many += found;
  }
  count[0] = many;
}
"""


def bloom_probe_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A hash at a time."""
    import numpy as np

    found = np.ones(s["n"], np.uint32)
    for by in (2654435761, 2246822519, 3266489917, 668265263):
        h = (x["key"] * np.uint32(by)) >> np.uint32(15)
        found &= x["bits"][h >> np.uint32(5)] >> (h & np.uint32(31))
    return {"y": found.astype(np.uint8), "count": np.array([found.sum()], np.int32)}


def adler_blocks(b: int = 1500, n: int = 1000) -> Kernel:
    """Adler-32 of blocks of bytes."""
    kb = KernelBuilder("adler_blocks")
    i, j, k = kb.axis("b", b), kb.axis("n@one", n), kb.axis("n@two", n)
    x = kb.input("x", (b, n), uint8)
    one = kb.sum("one", (i,), j, cast(x[i, j], uint32))
    two = kb.sum("two", (i,), k, cast(x[i, k], uint32) * cast(n - k, uint32))
    low, high = (one[i] + 1) % 65521, (two[i] + n) % 65521
    kb.store("y", uint32, (b,), (i,), (high << 16) | low)
    return kb.build()


C["adler_blocks"] = """
void kernel(const unsigned char (*restrict x)[N], unsigned *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    unsigned one = 1, two = N;
    for (int j = 0; j < N; j++) {
      one += x[i][j];
      two += x[i][j] * (unsigned)(N - j);
    }
    y[i] = two % 65521 << 16 | one % 65521;
  }
}
"""


def adler_blocks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """zlib's."""
    import zlib

    import numpy as np

    return {"y": np.array([zlib.adler32(row.tobytes()) for row in x["x"]], np.uint32)}


def jaccard_bits(m: int = 150, n: int = 170, w: int = 16) -> Kernel:
    """The Jaccard similarity of all pairs of fingerprints, of w words of 64 bits."""
    kb = KernelBuilder("jaccard_bits")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("w@and", w), kb.axis("w@or", w)
    a, b = kb.input("a", (m, w), uint64), kb.input("b", (n, w), uint64)
    both = kb.sum("both", (i, j), k, cast(popcount(a[i, k] & b[j, k]), int32))
    any_ = kb.sum("any", (i, j), l, cast(popcount(a[i, l] | b[j, l]), int32))
    kb.store("y", float32, (m, n), (i, j), cast(both[i, j], float32) / cast(maximum(any_[i, j], 1), float32))
    return kb.build()


C["jaccard_bits"] = """
void kernel(const unsigned long (*restrict a)[W], const unsigned long (*restrict b)[W], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int both = 0, any = 0;
      for (int k = 0; k < W; k++) {
        both += __builtin_popcountl(a[i][k] & b[j][k]);
        any += __builtin_popcountl(a[i][k] | b[j][k]);
      }
      y[i][j] = (float)both / (any > 1 ? any : 1);
    }
}
"""


def jaccard_bits_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Bits as bytes."""
    import numpy as np

    a, b = (np.unpackbits(x[k].view(np.uint8), axis=1).astype(np.float64) for k in "ab")
    both = a @ b.T
    return {"y": both / np.maximum(a.sum(axis=1)[:, None] + b.sum(axis=1) - both, 1)}


def hamming(m: int = 512, n: int = 2048, w: int = 8) -> Kernel:
    """How many of 256 bits differ, for all pairs of descriptors of two images."""
    kb = KernelBuilder("hamming")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("w", w)
    a, b = kb.input("a", (m, w), int32, range=(-(2**31), 2**31 - 1)), kb.input("b", (n, w), int32, range=(-(2**31), 2**31 - 1))
    v = a[i, k] ^ b[j, k]
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    total = kb.sum("total", (i, j), k, (v * 0x01010101) >> 24)
    kb.store("y", int32, (m, n), (i, j), total[i, j])
    return kb.build()


C["hamming"] = """
static void row(const unsigned *restrict a, const unsigned (*restrict b)[W], int *restrict y) {
  for (int j = 0; j < N; j++) {
    int total = 0;
    for (int k = 0; k < W; k++) total += __builtin_popcount(a[k] ^ b[j][k]);
    y[j] = total;
  }
}
void kernel(const unsigned (*restrict a)[W], const unsigned (*restrict b)[W], int (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(a[i], b, y[i]);
}
"""


def hamming_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By unpacked bits."""
    import numpy as np

    a, b = (np.unpackbits(x[n].view(np.uint8).reshape(len(x[n]), -1), axis=1).astype(np.int32) for n in "ab")
    return {"y": (a.sum(axis=1)[:, None] + b.sum(axis=1)[None, :] - 2 * a @ b.T).astype(np.int32)}


def byte_words(n: int = 300, l: int = 400) -> Kernel:
    """How many words and digits each line has, by a table of classes: a word begins where a letter follows none."""
    kb = KernelBuilder("byte_words")
    i, a, b = kb.axis("n", n), kb.axis("pairs", l - 1), kb.axis("l", l)
    text, kind = kb.input("text", (n, l), uint8), kb.input("kind", (256,), uint8, range=(0, 3))

    def of(j: Any) -> Any:
        return kind[cast(text[i, j], int64)]

    begin = kb.sum("begin", (i,), a, cast(of(a + 1).eq(1) & of(a).ne(1), int32))
    digit = kb.sum("digit", (i,), b, cast(of(b).eq(2), int32))
    kb.store("words", int32, (n,), (i,), begin[i] + cast(of(0).eq(1), int32))
    kb.store("digits", int32, (n,), (i,), digit[i])
    return kb.build()


C["byte_words"] = """
void kernel(const unsigned char (*restrict text)[L], const unsigned char *restrict kind, int *restrict words, int *restrict digits) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int many = 0, digit = 0, before = 0;
    for (int j = 0; j < L; j++) {
      int k = kind[text[i][j]], letter = k == 1;
      many += letter & !before;
      digit += k == 2;
      before = letter;
    }
    words[i] = many;
    digits[i] = digit;
  }
}
"""


def byte_words_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Classes of all."""
    import numpy as np

    k = x["kind"][x["text"]]
    letter = k == 1
    words = letter[:, 0] + (letter[:, 1:] & ~letter[:, :-1]).sum(axis=1)
    return {"words": words.astype(np.int32), "digits": (k == 2).sum(axis=1).astype(np.int32)}


def pagerank_step(n: int = 12000, l: int = 10) -> Kernel:
    """A step of PageRank: what each page gets from l others, and how much all changed."""
    kb = KernelBuilder("pagerank_step")
    i, k, s, m = kb.axis("n", n), kb.axis("l", l), kb.axis("n@share", n), kb.axis("n@change", n)
    rank = kb.input("rank", (n,), float64, range=(0.0, 1.0))
    degree = kb.input("degree", (n,), int32, range=(1, 60))
    of = kb.input("of", (n, l), int32, range=(0, n - 1))
    share = kb.value("share", (s,), rank[s] / cast(degree[s], float64))
    got = kb.sum("got", (i,), k, share[cast(of[i, k], int64)])
    new = kb.value("next", (i,), 0.15 / n + 0.85 * got[i])
    kb.store("y", float64, (n,), (i,), new[i])
    change = kb.sum("moved", (), m, absolute(new[m] - rank[m]))
    kb.store("change", float64, (1,), (), change[()], (0,))
    return kb.build()


C["pagerank_step"] = """
#include <math.h>
static double share[N];
void kernel(const double *restrict rank, const int *restrict degree, const int (*restrict of)[L], double *restrict y,
            double *restrict change) {
  double moved = 0;
#pragma omp parallel for
  for (int s = 0; s < N; s++) share[s] = rank[s] / degree[s];
#pragma omp parallel for reduction(+ : moved)
  for (int i = 0; i < N; i++) {
    double got = 0;
    for (int k = 0; k < L; k++) got += share[of[i][k]];
    y[i] = 0.15 / N + 0.85 * got;
    moved += fabs(y[i] - rank[i]);
  }
  change[0] = moved;
}
"""


def pagerank_step_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A gather of shares."""
    import numpy as np

    y = 0.15 / s["n"] + 0.85 * (x["rank"] / x["degree"])[x["of"]].sum(axis=1)
    return {"y": y, "change": np.abs(y - x["rank"]).sum(keepdims=True)}
