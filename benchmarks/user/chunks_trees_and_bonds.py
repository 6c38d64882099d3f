"""Chunks of a file by content, a tree's likelihood, rates of bonds, and the three best of each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, const, exp, float64, floor, int32, int64, log, uint8, uint32, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "chunk_cuts": ("scans", {"n": 101, "k": 32}),
    "tree_likelihood": ("small matrices", {"s": 13}),
    "key_rate_durations": ("scatters", {"n": 11, "c": 7, "k": 9}),
    "top3_of_groups": ("several reductions", {"g": 7, "m": 11}),
    "toeplitz_products": ("products", {"b": 3, "n": 13}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def chunk_cuts(n: int = 200001, k: int = 32) -> Kernel:
    """Where a file is cut into chunks by its content: where a polynomial hash of the last k bytes has zeros on top."""
    kb = KernelBuilder("chunk_cuts")
    t, q = kb.axis("n", n), kb.axis("n@count", n)
    x, base, out = kb.input("x", (n,), uint8), 0x08104225, pow(0x08104225, k, 1 << 32)

    def rule(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    _, hashed = kb.associative_scan(("p", "hash"), (t,), t, (const(base, uint32), cast(x[t], uint32) + 1), (1, 0), rule)

    def last(t: Any) -> Any:
        return hashed[t] - hashed.masked(t >= k, t - k) * out

    many = kb.sum("many", (), q, (last(q) >> 19).eq(0) & (q >= k - 1))
    kb.store("code", uint32, (n,), (t,), last(t))
    kb.store("cut", "bool", (n,), (t,), (last(t) >> 19).eq(0) & (t >= k - 1))
    kb.store("count", int32, (1,), (), many[()], (0,))
    return kb.build()


C["chunk_cuts"] = """
void kernel(const unsigned char *restrict x, unsigned *restrict code, _Bool *restrict cut, int *restrict count) {
  unsigned h = 0, out = 1, many = 0;
  for (int j = 0; j < K; j++) out *= 0x08104225u;
  for (int t = 0; t < N; t++) {
    h = h * 0x08104225u + x[t] + 1 - (t >= K ? (x[t - K] + 1) * out : 0);
    code[t] = h;
    cut[t] = t >= K - 1 && h >> 19 == 0;
    many += cut[t];
  }
  *count = many;
}
"""


def chunk_cuts_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A window's bytes times powers."""
    import numpy as np

    n, k = s["n"], s["k"]
    a = np.concatenate([np.zeros(k - 1, np.uint32), x["x"].astype(np.uint32) + np.uint32(1)])
    code = np.zeros(n, np.uint32)
    for j in range(k):
        code += a[k - 1 - j : k - 1 - j + n] * np.uint32(pow(0x08104225, j, 1 << 32))
    cut = (code >> np.uint32(19) == 0) & (np.arange(n) >= k - 1)
    return {"code": code, "cut": cut, "count": np.array([cut.sum()], np.int32)}


def tree_likelihood(s: int = 4001) -> Kernel:
    """Felsenstein's pruning at the root: four rates by four bases from both children, rescaled, and the log-likelihood."""
    kb = KernelBuilder("tree_likelihood")
    i, r, a = kb.axis("s", s), kb.axis("r", 4), kb.axis("a", 4)
    left, right = (kb.input(name, (s, 4, 4), float64, range=(0.01, 1.0)) for name in ("left", "right"))
    pl, pr = (kb.input(name, (4, 4, 4), float64, range=(0.05, 0.9)) for name in ("pl", "pr"))
    scale, weight = kb.input("scale", (s,), float64), kb.input("weight", (s,), int32, range=(1, 20))
    base = kb.input("base", (4,), float64, range=(0.1, 0.4))
    b, c = kb.axis("b", 4), kb.axis("c", 4)
    x = kb.sum("x", (i, r, a), b, pl[r, a, b] * left[i, r, b])
    y = kb.sum("y", (i, r, a), c, pr[r, a, c] * right[i, r, c])
    both = kb.value("both", (i, r, a), x[i, r, a] * y[i, r, a])
    rt, at, rl, al, q = kb.axis("r@top", 4), kb.axis("a@top", 4), kb.axis("r@like", 4), kb.axis("a@like", 4), kb.axis("s@all", s)
    top = kb.max("top", (i,), (rt, at), both[i, rt, at])
    like = kb.sum("like", (i,), (rl, al), base[al] * both[i, rl, al])
    known = kb.value("known", (i,), log(like[i] * 0.25) + scale[i])
    total = kb.sum("total", (), q, known[q] * cast(weight[q], float64))
    kb.store("root", float64, (s, 4, 4), (i, r, a), both[i, r, a] / top[i])
    kb.store("scaled", float64, (s,), (i,), scale[i] + log(top[i]))
    kb.store("likelihood", float64, (1,), (), total[()], (0,))
    return kb.build()


C["tree_likelihood"] = """
#include <math.h>
typedef const double (*restrict parts)[4][4];
void kernel(parts left, parts right, parts pl, parts pr, const double *restrict scale, const int *restrict weight,
            const double *restrict base, double (*restrict root)[4][4], double *restrict scaled, double *restrict likelihood) {
  double total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < S; i++) {
    double both[4][4], top = 0, like = 0;
    for (int r = 0; r < 4; r++)
      for (int a = 0; a < 4; a++) {
        double x = 0, y = 0;
        for (int b = 0; b < 4; b++) x += pl[r][a][b] * left[i][r][b], y += pr[r][a][b] * right[i][r][b];
        both[r][a] = x * y;
        top = x * y > top ? x * y : top;
        like += base[a] * x * y;
      }
    for (int r = 0; r < 4; r++)
      for (int a = 0; a < 4; a++) root[i][r][a] = both[r][a] / top;
    scaled[i] = scale[i] + log(top);
    total += (log(like * 0.25) + scale[i]) * weight[i];
  }
  *likelihood = total;
}
"""


def tree_likelihood_numpy(x: Arrays, s: Sizes) -> Arrays:
    """einsum."""
    import numpy as np

    both = np.einsum("rab,irb->ira", x["pl"], x["left"]) * np.einsum("rab,irb->ira", x["pr"], x["right"])
    top = both.max(axis=(1, 2))
    known = np.log((both @ x["base"]).sum(axis=1) / 4) + x["scale"]
    total = np.array([(known * x["weight"]).sum()])
    return {"root": both / top[:, None, None], "scaled": x["scale"] + np.log(top), "likelihood": total}


def key_rate_durations(n: int = 2003, c: int = 40, k: int = 31) -> Kernel:
    """The price of each bond on a curve of zero rates at whole years, and what a basis point of each of them changes."""
    kb = KernelBuilder("key_rate_durations")
    i, j, a, b = kb.axis("n", n), kb.axis("c", c), kb.axis("c@low", c), kb.axis("c@high", c)
    when = kb.input("when", (n, c), float64, range=(0.05, k - 1.01))
    pays, zero = kb.input("pays", (n, c), float64, range=(0.5, 5.0)), kb.input("zero", (k,), float64, range=(0.01, 0.05))

    def flow(j: Any) -> tuple[Any, Any, Any]:
        t = when[i, j]
        at = cast(floor(t), int64)
        part = t - floor(t)
        rate = zero[at] * (1.0 - part) + zero[at + 1] * part
        return at, part, pays[i, j] * exp(-rate * t)

    price = kb.sum("total", (i,), j, flow(j)[2])
    kb.store("price", float64, (n,), (i,), price[i])
    at, part, worth = flow(a)
    kb.store("change", float64, (n, k), (i, a), worth * when[i, a] * (1.0 - part) * -1e-4, (i, at), combine="add")
    at, part, worth = flow(b)
    kb.store("change", float64, (n, k), (i, b), worth * when[i, b] * part * -1e-4, (i, at + 1), combine="add")
    return kb.build()


C["key_rate_durations"] = """
#include <math.h>
static void bond(const double *restrict when, const double *restrict pays, const double *restrict zero, double *price,
                 double *restrict change) {
  double total = 0;
  for (int k = 0; k < K; k++) change[k] = 0;
  for (int j = 0; j < C; j++) {
    int at = when[j];
    double part = when[j] - at, rate = zero[at] * (1 - part) + zero[at + 1] * part, worth = pays[j] * exp(-rate * when[j]);
    total += worth;
    change[at] -= worth * when[j] * (1 - part) * 1e-4;
    change[at + 1] -= worth * when[j] * part * 1e-4;
  }
  *price = total;
}
void kernel(const double (*restrict when)[C], const double (*restrict pays)[C], const double *restrict zero, double *restrict price,
            double (*restrict change)[K]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) bond(when[i], pays[i], zero, price + i, change[i]);
}
"""


def key_rate_durations_numpy(x: Arrays, s: Sizes) -> Arrays:
    """np.interp, and hats over the curve's years."""
    import numpy as np

    t, years = x["when"], np.arange(s["k"])
    worth = x["pays"] * np.exp(-np.interp(t, years, x["zero"]) * t)
    hats = np.maximum(1 - abs(t[:, :, None] - years), 0)
    return {"price": worth.sum(axis=1), "change": np.einsum("nc,nck->nk", -1e-4 * worth * t, hats)}


def top3_of_groups(g: int = 1500, m: int = 64) -> Kernel:
    """The three best-selling articles of each shop, among those in stock: how many, and the articles' keys (-1: no more)."""
    kb = KernelBuilder("top3_of_groups")
    i = kb.axis("g", g)
    sold, stock = kb.input("sold", (g, m), int32, range=(0, 999)), kb.input("stock", (g, m), "bool")
    key = kb.input("key", (g, m), int64)
    places: list[Any] = []
    for rank in range(3):
        j, p = kb.axis(f"m@place{rank}", m), kb.axis(f"m@many{rank}", m)

        def left(j: Any, before: tuple[Any, ...] = tuple(places)) -> Any:
            ok = stock[i, j]
            for place in before:
                ok = ok & cast(j, int32).ne(place[i])
            return where(ok, sold[i, j], -1)

        place = kb.argmax(f"place{rank}", (i,), j, left(j))
        most = kb.max(f"most{rank}", (i,), p, left(p))
        places.append(place)
        kb.store("many", int32, (g, 3), (i,), most[i], (i, rank))
        kb.store("best", int64, (g, 3), (i,), where(most[i] >= 0, key[i, place[i]], -1), (i, rank))
    return kb.build()


C["top3_of_groups"] = """
void kernel(const int (*restrict sold)[M], const _Bool (*restrict stock)[M], const long (*restrict key)[M], int (*restrict many)[3],
            long (*restrict best)[3]) {
#pragma omp parallel for
  for (int i = 0; i < G; i++) {
    int v[3] = {-1, -1, -1}, at[3] = {0, 0, 0};
    for (int j = 0; j < M; j++) {
      int s = sold[i][j];
      if (!stock[i][j] || s <= v[2]) continue;
      int r = s > v[0] ? 0 : s > v[1] ? 1 : 2;
      for (int k = 2; k > r; k--) v[k] = v[k - 1], at[k] = at[k - 1];
      v[r] = s, at[r] = j;
    }
    for (int k = 0; k < 3; k++) many[i][k] = v[k], best[i][k] = v[k] >= 0 ? key[i][at[k]] : -1;
  }
}
"""


def top3_of_groups_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A stable sort, downwards."""
    import numpy as np

    sold = np.where(x["stock"], x["sold"], -1)
    order = np.argsort(-sold, axis=1, kind="stable")[:, :3]
    many = np.take_along_axis(sold, order, axis=1)
    best = np.where(many >= 0, np.take_along_axis(x["key"], order, axis=1), -1)
    return {"many": many.astype(np.int32), "best": best}


def toeplitz_products(b: int = 97, n: int = 200) -> Kernel:
    """Products of vectors with Toeplitz matrices of their own, each kept as its 2n-1 diagonals from the lower left up."""
    kb = KernelBuilder("toeplitz_products")
    i, r, c = kb.axis("b", b), kb.axis("r", n), kb.axis("c", n)
    d, x = kb.input("d", (b, 2 * n - 1), float64), kb.input("x", (b, n), float64)
    y = kb.sum("sum", (i, r), c, d[i, n - 1 - r + c] * x[i, c])
    kb.store("y", float64, (b, n), (i, r), y[i, r])
    return kb.build()


C["toeplitz_products"] = """
void kernel(const double (*restrict d)[2 * N - 1], const double (*restrict x)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int r = 0; r < N; r++) {
      double sum = 0;
      for (int c = 0; c < N; c++) sum += d[i][N - 1 - r + c] * x[i][c];
      y[i][r] = sum;
    }
}
"""


def toeplitz_products_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Windows that slide over the diagonals."""
    import numpy as np

    rows = np.lib.stride_tricks.sliding_window_view(x["d"], s["n"], axis=1)[:, ::-1]
    return {"y": np.einsum("brc,bc->br", rows, x["x"])}
