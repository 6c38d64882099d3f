"""Audits of readings, keys of letters and rows, ballots, and noise that is made of places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, float32, float64, int16, int32, int64, maximum, minimum, uint8, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "bad_readings": ("several reductions", {"m": 11, "n": 13}),
    "canonical_kmers": ("chains of integers", {"n": 37}),
    "copeland": ("all pairs", {"n": 13}),
    "first_twins": ("all pairs", {"n": 29}),
    "row_digests": ("chains of integers", {"m": 7, "n": 19}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def bad_readings(m: int = 2003, n: int = 97) -> Kernel:
    """Sensors by time: where a row first leaves its bounds, how often, whether it is all bad, which sensors never fail, and a mask."""
    kb = KernelBuilder("bad_readings")
    i, o = kb.axis("m", m), kb.axis("n@mask", n)
    p, q, r = (kb.axis(f"n@{s}", n) for s in ("first", "count", "all"))
    j, k = kb.axis("n", n), kb.axis("m@fine", m)
    x, lo = kb.input("x", (m, n), float32), kb.input("lo", (n,), float32, range=(-3.0, -1.5))

    def bad(a: Any, b: Any) -> Any:
        return (x[a, b] < lo[b]) | (x[a, b] > 2.0)

    first = kb.min("first_bad", (i,), p, where(bad(i, p), cast(p, int32), n))
    count = kb.sum("bads", (i,), q, bad(i, q))
    whole = kb.min("whole", (i,), r, bad(i, r) | (x[i, r] < 0.5))
    fine = kb.min("never", (j,), k, ~bad(k, j))
    kb.store("first", int32, (m,), (i,), first[i])
    kb.store("count", int16, (m,), (i,), cast(count[i], int16))
    kb.store("low", "bool", (m,), (i,), whole[i])
    kb.store("fine", "bool", (n,), (j,), fine[j])
    kb.store("mask", uint8, (m, n), (i, o), where(bad(i, o) & (cast(o, int32) >= first[i]), 255, 0))
    return kb.build()


C["bad_readings"] = """
#include <stdbool.h>
void kernel(const float (*restrict x)[N], const float *restrict lo, int *restrict first, short *restrict count,
            bool *restrict low, bool *restrict fine, unsigned char (*restrict mask)[N]) {
  for (int j = 0; j < N; j++) fine[j] = true;
  for (int i = 0; i < M; i++) {
    int at = N, many = 0, all = 1;
    for (int j = 0; j < N; j++) {
      int bad = (x[i][j] < lo[j]) | (x[i][j] > 2);
      at = bad && j < at ? j : at;
      many += bad;
      all &= bad | (x[i][j] < 0.5f);
      fine[j] &= !bad;
      mask[i][j] = bad ? 255 : 0;
    }
    first[i] = at;
    count[i] = many;
    low[i] = all;
  }
}
"""


def bad_readings_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Comparisons of whole arrays."""
    import numpy as np

    bad = (x["x"] < x["lo"]) | (x["x"] > 2)
    first = np.where(bad.any(axis=1), bad.argmax(axis=1), s["n"]).astype(np.int32)
    low = (bad | (x["x"] < 0.5)).all(axis=1)
    mask = np.where(bad, 255, 0).astype(np.uint8)
    return {"first": first, "count": bad.sum(axis=1).astype(np.int16), "low": low, "fine": ~bad.any(axis=0), "mask": mask}


def canonical_kmers(n: int = 50021) -> Kernel:
    """The lesser hash of every 21 letters and of their reverse complement, which of the two it is, and the least of all."""
    kb = KernelBuilder("canonical_kmers")
    i, k, r, z = kb.axis("n", n), kb.axis("k", 21), kb.axis("k@back", 21), kb.axis("n@least", n)
    x = kb.input("x", (n + 20,), uint8, range=(0, 3))
    ahead = kb.sum("ahead", (i,), k, cast(x[i + k], int64) << (2 * (20 - k)))
    back = kb.sum("back", (i,), r, cast(3 - x[i + 20 - r], int64) << (2 * (20 - r)))

    def mixed(v: Any) -> Any:
        return (v * v * 0x9E3779B97F4A7C1 + v * 0x2545F4914F6CDD1D) ^ (v >> 17)

    key = kb.value("key", (i,), minimum(mixed(ahead[i]), mixed(back[i])))
    least = kb.min("low", (), z, key[z])
    kb.store("hash", int64, (n,), (i,), key[i])
    kb.store("turned", uint8, (n,), (i,), cast(mixed(back[i]) < mixed(ahead[i]), uint8))
    kb.store("least", int64, (1,), (), least[()], (0,))
    return kb.build()


C["canonical_kmers"] = """
typedef long long i64;
typedef unsigned long long u64;
static i64 mixed(u64 v) { return (v * v * 0x9E3779B97F4A7C1ull + v * 0x2545F4914F6CDD1Dull) ^ (v >> 17); }
void kernel(const unsigned char *restrict x, i64 *restrict hash, unsigned char *restrict turned, i64 *restrict least) {
  i64 low = 0x7fffffffffffffffll;
#pragma omp parallel for reduction(min : low)
  for (int i = 0; i < N; i++) {
    u64 ahead = 0, back = 0;
    for (int k = 0; k < 21; k++) {
      ahead = ahead << 2 | x[i + k];
      back = back << 2 | (3 - x[i + 20 - k]);
    }
    i64 a = mixed(ahead), b = mixed(back);
    hash[i] = a < b ? a : b;
    turned[i] = b < a;
    low = hash[i] < low ? hash[i] : low;
  }
  *least = low;
}
"""


def canonical_kmers_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Views of windows, in wrapping integers."""
    import numpy as np

    w = np.lib.stride_tricks.sliding_window_view(x["x"].astype(np.int64), 21)
    weight = np.int64(1) << (2 * np.arange(20, -1, -1, dtype=np.int64))
    ahead, back = (w * weight).sum(axis=1), ((3 - w[:, ::-1]) * weight).sum(axis=1)
    a, b = ((v * v * np.int64(0x9E3779B97F4A7C1) + v * np.int64(0x2545F4914F6CDD1D)) ^ (v >> 17) for v in (ahead, back))
    key = np.minimum(a, b)
    return {"hash": key, "turned": (b < a).astype(np.uint8), "least": key.min(keepdims=True)}


def copeland(n: int = 701) -> Kernel:
    """Ballots between pairs: how many each candidate beats less how many beat it, its worst defeat, who deals it first, and its votes."""
    kb = KernelBuilder("copeland")
    i = kb.axis("n", n)
    j, k, l, o = (kb.axis(f"n@{s}", n) for s in ("score", "worst", "who", "votes"))
    v = kb.input("v", (n, n), int16, range=(0, 300))

    def lead(a: Any, b: Any) -> Any:
        return cast(v[a, b], int32) - cast(v[b, a], int32)

    score = kb.sum("points", (i,), j, where(lead(i, j) > 0, 1, 0) - where(lead(j, i) > 0, 1, 0), dtype=int32)
    worst = kb.max("most", (i,), k, lead(k, i))
    who = kb.min("dealer", (i,), l, where(lead(l, i).eq(worst[i]) & (l.ne(i)), cast(l, int32), n))
    votes = kb.sum("all", (i,), o, cast(v[i, o], int32))
    kb.store("score", int32, (n,), (i,), score[i])
    kb.store("worst", int32, (n,), (i,), worst[i])
    kb.store("who", int32, (n,), (i,), who[i])
    kb.store("votes", int32, (n,), (i,), votes[i])
    return kb.build()


C["copeland"] = """
void kernel(const short (*restrict v)[N], int *restrict score, int *restrict worst, int *restrict who, int *restrict votes) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int points = 0, most = -1000000, all = 0, at = N;
    for (int j = 0; j < N; j++) {
      int lead = v[j][i] - v[i][j];
      points += (lead < 0) - (lead > 0);
      most = lead > most ? lead : most;
      all += v[i][j];
    }
    for (int j = 0; j < N && at == N; j++)
      if (j != i && v[j][i] - v[i][j] == most) at = j;
    score[i] = points;
    worst[i] = most;
    who[i] = at;
    votes[i] = all;
  }
}
"""


def copeland_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A matrix less its transpose."""
    import numpy as np

    v, n = x["v"].astype(np.int32), s["n"]
    lead = v.T - v
    worst = lead.max(axis=1)
    hit = (lead == worst[:, None]) & ~np.eye(n, dtype=bool)
    who = np.where(hit.any(axis=1), hit.argmax(axis=1), n)
    return {"score": -np.sign(lead).sum(axis=1), "worst": worst, "who": who, "votes": v.sum(axis=1)}


def first_twins(n: int = 1511) -> Kernel:
    """Records of two keys: the first with the same keys, its mean value among them, and whether it is the only one."""
    kb = KernelBuilder("first_twins")
    i = kb.axis("n", n)
    j, k, l = (kb.axis(f"n@{s}", n) for s in ("first", "many", "sum"))
    a, b = kb.input("a", (n,), int64, range=(0, 40)), kb.input("b", (n,), uint8, range=(0, 9))
    x = kb.input("x", (n,), float64)

    def same(o: Any) -> Any:
        return a[i].eq(a[o]) & b[i].eq(b[o])

    first = kb.min("lead", (i,), j, where(same(j), j, n))
    many = kb.sum("many", (i,), k, same(k))
    total = kb.sum("total", (i,), l, where(same(l), x[l], 0.0))
    kb.store("first", int64, (n,), (i,), first[i])
    kb.store("mean", float64, (n,), (i,), total[i] / cast(many[i], float64))
    kb.store("alone", "bool", (n,), (i,), many[i].eq(1))
    kb.store("heads", int32, (1,), (i,), where(first[i].eq(i), 1, 0), (0,), combine="add")
    return kb.build()


C["first_twins"] = """
#include <stdbool.h>
void kernel(const long long *restrict a, const unsigned char *restrict b, const double *restrict x, long long *restrict first,
            double *restrict mean, bool *restrict alone, int *restrict heads) {
  int leads = 0;
#pragma omp parallel for reduction(+ : leads)
  for (int i = 0; i < N; i++) {
    int at = N, many = 0;
    double total = 0;
    for (int j = 0; j < N; j++) {
      int same = (a[i] == a[j]) & (b[i] == b[j]);
      at = same && j < at ? j : at;
      many += same;
      total += same ? x[j] : 0;
    }
    first[i] = at;
    mean[i] = total / many;
    alone[i] = many == 1;
    leads += at == i;
  }
  *heads = leads;
}
"""


def first_twins_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All pairs at once."""
    import numpy as np

    same = (x["a"][:, None] == x["a"]) & (x["b"][:, None] == x["b"])
    many, first = same.sum(axis=1), same.argmax(axis=1)
    heads = (first == np.arange(s["n"])).sum(keepdims=True)
    return {"first": first, "mean": same @ x["x"] / many, "alone": many == 1, "heads": heads.astype(np.int32)}


def row_digests(m: int = 307, n: int = 509) -> Kernel:
    """Digests of rows and of columns of the same table: wrapping polynomials of 64 bits, whose places count, and one of all."""
    kb = KernelBuilder("row_digests")
    i, j, p = kb.axis("m", m), kb.axis("n@row", n), kb.axis("n", n)
    q, r = kb.axis("m@column", m), kb.axis("m@all", m)
    x = kb.input("x", (m, n), int64)
    rows = kb.sum("rows", (i,), j, (x[i, j] * 31 + j) * (x[i, j] + 7 * j * j) + x[i, j] ** 3)
    columns = kb.reduce("xor", "columns", (p,), q, (x[q, p] + q) * (x[q, p] - q) * 0x9E3779B1)
    whole = kb.reduce("mul", "whole", (), r, rows[r] | 1)
    kb.store("row", int64, (m,), (i,), rows[i] ^ (rows[i] >> 32))
    kb.store("column", int64, (n,), (p,), maximum(columns[p], columns[p] * -3))
    kb.store("all", int64, (1,), (), whole[()], (0,))
    return kb.build()


C["row_digests"] = """
typedef long long i64;
typedef unsigned long long u64;
void kernel(const u64 (*restrict x)[N], i64 *restrict row, i64 *restrict column, i64 *restrict all) {
  u64 down[N] = {0}, whole = 1;
  for (int i = 0; i < M; i++) {
    u64 total = 0;
    for (int j = 0; j < N; j++) {
      u64 v = x[i][j];
      total += (v * 31 + j) * (v + 7ull * j * j) + v * v * v;
      down[j] ^= (v + i) * (v - i) * 0x9E3779B1ull;
    }
    row[i] = (i64)total ^ ((i64)total >> 32);
    whole *= total | 1;
  }
  for (int j = 0; j < N; j++) column[j] = (i64)down[j] > (i64)(down[j] * -3) ? (i64)down[j] : (i64)(down[j] * -3);
  *all = whole;
}
"""


def row_digests_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Wrapping integers."""
    import numpy as np

    v, j, i = x["x"], np.arange(s["n"]), np.arange(s["m"])[:, None]
    rows = ((v * 31 + j) * (v + 7 * j * j) + v * v * v).sum(axis=1)
    columns = np.bitwise_xor.reduce((v + i) * (v - i) * 0x9E3779B1, axis=0)
    return {"row": rows ^ (rows >> 32), "column": np.maximum(columns, columns * -3), "all": (rows | 1).prod(keepdims=True)}
