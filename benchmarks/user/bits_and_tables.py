"""Columns of a database as they are stored, and work on many bits at once: life, ciphers, triangles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float64, int32, int64, popcount, uint8, uint16, uint32, uint64, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "dictionary_nulls": ("gathers", {"n": 101, "v": 13}),
    "zigzag_delta": ("scans", {"b": 7, "n": 37}),
    "bitmaps_and": ("bit operations", {"n": 101}),
    "life_words": ("bit operations", {"h": 5, "w": 3}),
    "chacha_blocks": ("chains of integers", {"n": 37}),
    "triangle_edges": ("bit operations", {"v": 19, "e": 101, "w": 3}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def dictionary_nulls(n: int = 100003, v: int = 1000) -> Kernel:
    """A column of codes of 16 bits with a bitmap of which rows are there: the dictionary's numbers, and 0 for nulls."""
    kb = KernelBuilder("dictionary_nulls")
    i = kb.axis("n", n)
    code, table = kb.input("code", (n,), uint16, range=(0, v - 1)), kb.input("table", (v,), float64)
    there = kb.input("there", ((n + 7) // 8,), uint8)
    bit = (cast(there[i // 8], int32) >> cast(i % 8, int32)) & 1
    kb.store("y", float64, (n,), (i,), where(bit.ne(0), table[cast(code[i], int64)], 0.0))
    return kb.build()


C["dictionary_nulls"] = """
void kernel(const unsigned short *restrict code, const double *restrict table, const unsigned char *restrict there,
            double *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double v = table[code[i]];
    y[i] = v * (there[i / 8] >> (i % 8) & 1);
  }
}
"""


def dictionary_nulls_numpy(x: Arrays, s: Sizes) -> Arrays:
    """unpackbits."""
    import numpy as np

    there = np.unpackbits(x["there"], bitorder="little")[: s["n"]]
    return {"y": np.where(there, x["table"][x["code"]], 0.0)}


def zigzag_delta(b: int = 400, n: int = 257) -> Kernel:
    """Blocks of numbers of 64 bits from the first of each and differences of 16 bits, whose lowest bit is the sign."""
    kb = KernelBuilder("zigzag_delta")
    i, j = kb.axis("b", b), kb.axis("n", n)
    first, z = kb.input("first", (b,), int64, range=(0, 1 << 40)), kb.input("z", (b, n), uint16)
    wide = cast(z[i, j], int64)
    total = kb.scan("add", "total", (i, j), j, (wide >> 1) ^ -(wide & 1))
    kb.store("y", int64, (b, n), (i, j), first[i] + total[i, j])
    return kb.build()


C["zigzag_delta"] = """
void kernel(const long long *restrict first, const unsigned short (*restrict z)[N], long long (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    long long v = first[i];
    for (int j = 0; j < N; j++) {
      int w = z[i][j];
      y[i][j] = v += w >> 1 ^ -(w & 1);
    }
  }
}
"""


def zigzag_delta_numpy(x: Arrays, s: Sizes) -> Arrays:
    """cumsum."""
    z = x["z"].astype("int64")
    return {"y": x["first"][:, None] + ((z >> 1) ^ -(z & 1)).cumsum(axis=1)}


def bitmaps_and(n: int = 150011) -> Kernel:
    """Rows that three bitmaps hold and a fourth does not, and how many they are."""
    kb = KernelBuilder("bitmaps_and")
    i, j = kb.axis("n", n), kb.axis("n@count", n)
    a, b, c, d = (kb.input(k, (n,), uint64) for k in "abcd")

    def kept(at: Any) -> Any:
        return a[at] & b[at] & c[at] & ~d[at]

    many = kb.sum("many", (), j, cast(popcount(kept(j)), int64))
    kb.store("y", uint64, (n,), (i,), kept(i))
    kb.store("count", int64, (1,), (), many[()], (0,))
    return kb.build()


C["bitmaps_and"] = """
typedef unsigned long long u64;
void kernel(const u64 *restrict a, const u64 *restrict b, const u64 *restrict c, const u64 *restrict d, u64 *restrict y,
            long long *restrict count) {
  long long many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < N; i++) {
    u64 v = a[i] & b[i] & c[i] & ~d[i];
    y[i] = v;
    many += __builtin_popcountll(v);
  }
  count[0] = many;
}
"""


def bitmaps_and_numpy(x: Arrays, s: Sizes) -> Arrays:
    """unpackbits counts."""
    import numpy as np

    y = x["a"] & x["b"] & x["c"] & ~x["d"]
    return {"y": y, "count": np.array([np.unpackbits(y.view(np.uint8)).sum()], np.int64)}


def life_words(h: int = 1021, w: int = 31) -> Kernel:
    """A generation of Conway's life on a torus, 64 cells in a word (the lowest bit is the leftmost)."""
    kb = KernelBuilder("life_words")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint64)

    def three(o: int) -> tuple[Any, Any, Any]:
        r = (i + h + o) % h
        mid, before, after = x[r, j], x[r, (j + w - 1) % w], x[r, (j + 1) % w]
        return (mid << 1) | (before >> 63), mid, (mid >> 1) | (after << 63)

    def add(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        both = a ^ b
        return both ^ c, (a & b) | (both & c)

    up, down, (left, me, right) = add(*three(-1)), add(*three(1)), three(0)
    low, carry = add(up[0], down[0], left ^ right)
    twos, fours = add(up[1], down[1], left & right)
    more, most = twos ^ carry, twos & carry
    kb.store("y", uint64, (h, w), (i, j), more & ~(fours | most) & (low | me))
    return kb.build()


C["life_words"] = """
typedef unsigned long long u64;
static void word(const u64 *u, const u64 *m, const u64 *d, u64 *y, int a, int j, int b) {
  u64 u0 = u[j] << 1 | u[a] >> 63, u1 = u[j], u2 = u[j] >> 1 | u[b] << 63;
  u64 d0 = d[j] << 1 | d[a] >> 63, d1 = d[j], d2 = d[j] >> 1 | d[b] << 63;
  u64 l = m[j] << 1 | m[a] >> 63, r = m[j] >> 1 | m[b] << 63;
  u64 su = u0 ^ u1 ^ u2, cu = (u0 & u1) | ((u0 ^ u1) & u2), sd = d0 ^ d1 ^ d2, cd = (d0 & d1) | ((d0 ^ d1) & d2);
  u64 sm = l ^ r, cm = l & r, low = su ^ sd ^ sm, carry = (su & sd) | ((su ^ sd) & sm);
  u64 twos = cu ^ cd ^ cm, fours = (cu & cd) | ((cu ^ cd) & cm);
  y[j] = (twos ^ carry) & ~(fours | (twos & carry)) & (low | m[j]);
}
static void row(const u64 *restrict u, const u64 *restrict m, const u64 *restrict d, u64 *restrict y) {
  word(u, m, d, y, W - 1, 0, 1);
  for (int j = 1; j < W - 1; j++) word(u, m, d, y, j - 1, j, j + 1);
  word(u, m, d, y, W - 2, W - 1, 0);
}
void kernel(const u64 (*restrict x)[W], u64 (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x[i ? i - 1 : H - 1], x[i], x[i < H - 1 ? i + 1 : 0], y[i]);
}
"""


def life_words_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Cells of their own."""
    import numpy as np

    a = np.unpackbits(x["x"].view(np.uint8), axis=1, bitorder="little")
    near = sum(np.roll(a, (p, q), (0, 1)) for p in (-1, 0, 1) for q in (-1, 0, 1) if p or q)
    return {"y": np.packbits((near == 3) | ((near == 2) & (a == 1)), axis=1, bitorder="little").view(np.uint64)}


def chacha_blocks(n: int = 15013) -> Kernel:
    """The key stream of ChaCha with eight rounds: sixteen words for each block's number."""
    kb = KernelBuilder("chacha_blocks")
    i = kb.axis("n", n)
    key, nonce = kb.input("key", (8,), uint32), kb.input("nonce", (3,), uint32)
    first = [cast(i, uint32) * 0 + c for c in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)]
    first += [key[k] for k in range(8)] + [cast(i, uint32)] + [nonce[k] for k in range(3)]
    v = list(first)

    def turned(x: Any, by: int) -> Any:
        return (x << by) | (x >> (32 - by))

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            v[p] = v[p] + v[q]
            v[r] = turned(v[r] ^ v[p], by)

    for _ in range(4):
        for k in range(4):
            quarter(k, 4 + k, 8 + k, 12 + k)
        for k in range(4):
            quarter(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
    for k in range(16):
        kb.store("y", uint32, (n, 16), (i,), v[k] + first[k], (i, k))
    return kb.build()


C["chacha_blocks"] = """
#define T(x, y, by) x ^= y, x = x << by | x >> (32 - by)
#define Q(a, b, c, d) a += b, T(d, a, 16), c += d, T(b, c, 12), a += b, T(d, a, 8), c += d, T(b, c, 7);
#define TWO Q(a0, b0, c0, d0) Q(a1, b1, c1, d1) Q(a2, b2, c2, d2) Q(a3, b3, c3, d3) \\
  Q(a0, b1, c2, d3) Q(a1, b2, c3, d0) Q(a2, b3, c0, d1) Q(a3, b0, c1, d2)
typedef unsigned u32;
void kernel(const u32 *restrict k, const u32 *restrict s, u32 (*restrict y)[16]) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    u32 a0 = 0x61707865, a1 = 0x3320646e, a2 = 0x79622d32, a3 = 0x6b206574, b0 = k[0], b1 = k[1], b2 = k[2], b3 = k[3];
    u32 c0 = k[4], c1 = k[5], c2 = k[6], c3 = k[7], d0 = i, d1 = s[0], d2 = s[1], d3 = s[2];
    TWO TWO TWO TWO
    y[i][0] = a0 + 0x61707865, y[i][1] = a1 + 0x3320646e, y[i][2] = a2 + 0x79622d32, y[i][3] = a3 + 0x6b206574;
    y[i][4] = b0 + k[0], y[i][5] = b1 + k[1], y[i][6] = b2 + k[2], y[i][7] = b3 + k[3];
    y[i][8] = c0 + k[4], y[i][9] = c1 + k[5], y[i][10] = c2 + k[6], y[i][11] = c3 + k[7];
    y[i][12] = d0 + i, y[i][13] = d1 + s[0], y[i][14] = d2 + s[1], y[i][15] = d3 + s[2];
  }
}
"""


def chacha_blocks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All blocks at once."""
    import numpy as np

    u = np.uint32
    first = [np.full(s["n"], c, u) for c in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *x["key"])]
    first += [np.arange(s["n"], dtype=u)] + [np.full(s["n"], c, u) for c in x["nonce"]]
    v = [f.copy() for f in first]
    for _ in range(4):
        for turn in (0, 1):
            for k in range(4):
                a, b, c, d = k, 4 + (k + turn) % 4, 8 + (k + 2 * turn) % 4, 12 + (k + 3 * turn) % 4
                for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    v[p] = v[p] + v[q]
                    t = v[r] ^ v[p]
                    v[r] = (t << u(by)) | (t >> u(32 - by))
    return {"y": np.stack([p + q for p, q in zip(v, first)], axis=1)}


def triangle_edges(v: int = 600, e: int = 9001, w: int = 10) -> Kernel:
    """In how many triangles each edge of a graph lies: neighbours of both ends, by rows of bits."""
    kb = KernelBuilder("triangle_edges")
    i, k = kb.axis("e", e), kb.axis("w", w)
    bits = kb.input("bits", (v, w), uint64)
    a, b = kb.input("a", (e,), int32, range=(0, v - 1)), kb.input("b", (e,), int32, range=(0, v - 1))
    both = bits[cast(a[i], int64), k] & bits[cast(b[i], int64), k]
    many = kb.sum("many", (i,), k, cast(popcount(both), int32))
    kb.store("y", int32, (e,), (i,), many[i])
    return kb.build()


C["triangle_edges"] = """
void kernel(const unsigned long long (*restrict bits)[W], const int *restrict a, const int *restrict b, int *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < E; i++) {
    const unsigned long long *p = bits[a[i]], *q = bits[b[i]];
    int many = 0;
    for (int k = 0; k < W; k++) many += __builtin_popcountll(p[k] & q[k]);
    y[i] = many;
  }
}
"""


def triangle_edges_numpy(x: Arrays, s: Sizes) -> Arrays:
    """unpackbits."""
    import numpy as np

    both = x["bits"][x["a"]] & x["bits"][x["b"]]
    return {"y": np.unpackbits(both.view(np.uint8), axis=1).sum(axis=1).astype(np.int32)}
