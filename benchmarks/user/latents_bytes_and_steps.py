"""Attention over compressed caches, activations turned before they are rounded, late interaction, a quasi-Newton step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    absolute,
    cast,
    exp,
    float16,
    float32,
    float64,
    int8,
    int32,
    maximum,
    popcount,
    round_even,
    where,
)

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "latent_decode": ("attention", {"h": 3, "t": 17, "l": 13, "r": 6}),
    "turned_int8": ("transforms and rounding", {"n": 5, "g": 2}),
    "maxsim_bytes": ("products of ragged rows", {"d": 7, "l": 9, "q": 5, "e": 11}),
    "lbfgs_direction": ("chains of dots", {"n": 43}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def latent_decode(h: int = 16, t: int = 1021, l: int = 384, r: int = 48) -> Kernel:
    """A token's attention over a cache that all heads share: latent vectors, which are the values too, and a part with positions."""
    kb = KernelBuilder("latent_decode")
    i, j, a, b = kb.axis("h", h), kb.axis("t", t), kb.axis("l@dot", l), kb.axis("r", r)
    top, every, mix, o = kb.axis("t@top", t), kb.axis("t@all", t), kb.axis("t@mix", t), kb.axis("l", l)
    q, turned = kb.input("q", (h, l), float32), kb.input("turned", (h, r), float32)
    latent, place = kb.input("latent", (t, l), float16), kb.input("place", (t, r), float16)
    near = kb.sum("near", (i, j), a, q[i, a] * cast(latent[j, a], float32))
    there = kb.sum("there", (i, j), b, turned[i, b] * cast(place[j, b], float32))
    score = kb.value("score", (i, j), (near[i, j] + there[i, j]) * (l + r) ** -0.5)
    most = kb.max("most", (i,), top, score[i, top])
    total = kb.sum("total", (i,), every, exp(score[i, every] - most[i]))
    out = kb.sum("out", (i, o), mix, exp(score[i, mix] - most[i]) * cast(latent[mix, o], float32))
    kb.store("y", float32, (h, l), (i, o), out[i, o] / total[i])
    return kb.build()


C["latent_decode"] = """
#include <math.h>
void kernel(const float (*restrict q)[L], const float (*restrict turned)[R], const _Float16 (*restrict latent)[L],
            const _Float16 (*restrict place)[R], float (*restrict y)[L]) {
  static float v[T][L], u[T][R];
#pragma omp parallel for
  for (int j = 0; j < T; j++) {
    for (int a = 0; a < L; a++) v[j][a] = latent[j][a];
    for (int b = 0; b < R; b++) u[j][b] = place[j][b];
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float p[T], out[L], most = -INFINITY, total = 0;
    for (int j = 0; j < T; j++) {
      float s = 0;
      for (int a = 0; a < L; a++) s += q[i][a] * v[j][a];
      for (int b = 0; b < R; b++) s += turned[i][b] * u[j][b];
      p[j] = s / sqrtf(L + R);
      most = fmaxf(most, p[j]);
    }
    for (int j = 0; j < T; j++) total += p[j] = expf(p[j] - most);
    for (int a = 0; a < L; a++) out[a] = 0;
    for (int j = 0; j < T; j++)
      for (int a = 0; a < L; a++) out[a] += p[j] * v[j][a];
    for (int a = 0; a < L; a++) y[i][a] = out[a] / total;
  }
}
"""


def latent_decode_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Products of matrices."""
    import numpy as np

    latent, place = x["latent"].astype(float), x["place"].astype(float)
    score = (x["q"] @ latent.T + x["turned"] @ place.T) / np.sqrt(s["l"] + s["r"])
    p = np.exp(score - score.max(1, keepdims=True))
    return {"y": p @ latent / p.sum(1, keepdims=True)}


def turned_int8(n: int = 1201, g: int = 8) -> Kernel:
    """Activations turned by Hadamard's matrix in blocks of 64, then rounded to bytes by the largest of their row."""
    kb = KernelBuilder("turned_int8")
    i, b, p, q = kb.axis("n", n), kb.axis("g", g), kb.axis("p", 8), kb.axis("q", 8)
    u, v, c, (e, f) = kb.axis("p@turn", 8), kb.axis("q@turn", 8), kb.axis("g@most", g), (kb.axis("p@most", 8), kb.axis("q@most", 8))
    x = kb.input("x", (n, g, 8, 8), float32)

    def signed(k: Any, m: Any, y: Any) -> Any:
        return where((popcount(cast(k & m, int32)) & 1).eq(1), -y, y)

    low = kb.sum("low", (i, b, p, q), v, signed(v, q, x[i, b, p, v]))
    both = kb.sum("both", (i, b, p, q), u, signed(u, p, low[i, b, u, q]))
    most = kb.max("most", (i,), (c, e, f), absolute(both[i, c, e, f]))
    scale = maximum(most[i] * (1 / 127), 1e-20)
    kb.store("y", int8, (n, g, 8, 8), (i, b, p, q), cast(round_even(both[i, b, p, q] / scale), int8))
    kb.store("scale", float32, (n,), (i,), scale * 0.125)
    return kb.build()


C["turned_int8"] = """
#include <math.h>
void kernel(const float (*restrict x)[G * 64], signed char (*restrict y)[G * 64], float *restrict scale) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float v[G * 64], most = 0;
    for (int j = 0; j < G * 64; j++) v[j] = x[i][j];
    for (int step = 1; step < 64; step *= 2)
      for (int a = 0; a < G * 64; a += 2 * step)
        for (int b = a; b < a + step; b++) {
          float e = v[b], f = v[b + step];
          v[b] = e + f, v[b + step] = e - f;
        }
    for (int j = 0; j < G * 64; j++) most = fmaxf(most, fabsf(v[j]));
    most = fmaxf(most / 127, 1e-20f);
    for (int j = 0; j < G * 64; j++) y[i][j] = (signed char)rintf(v[j] / most);
    scale[i] = most * 0.125f;
  }
}
"""


def turned_int8_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By a matrix of 64 by 64."""
    import numpy as np

    two = np.array([[1.0, 1.0], [1.0, -1.0]])
    h = np.ones((1, 1))
    for _ in range(6):
        h = np.kron(h, two)
    v = x["x"].reshape(s["n"], s["g"], 64) @ h
    scale = abs(v).max((1, 2)) / 127
    return {"y": np.rint(v / scale[:, None, None]).astype(np.int8).reshape(x["x"].shape), "scale": scale / 8}


def maxsim_bytes(d: int = 500, l: int = 48, q: int = 24, e: int = 96) -> Kernel:
    """Late interaction: for each word of a query its best match in a document of so many words, added up; the best document."""
    kb = KernelBuilder("maxsim_bytes")
    i, j, t, k, b = kb.axis("d", d), kb.axis("q", q), kb.axis("l", l), kb.axis("e", e), kb.axis("d@best", d)
    word, text = kb.input("word", (q, e), int8), kb.input("text", (d, l, e), int8)
    many = kb.input("many", (d,), int32, range=(1, l))
    dot = kb.sum("dot", (i, j, t), k, cast(word[j, k], int32) * cast(text[i, t, k], int32))
    most = kb.max("most", (i, j), t, where(cast(t, int32) < many[i], dot[i, j, t], -(2**31)))
    score = kb.sum("score", (i,), j, most[i, j])
    kb.store("y", int32, (d,), (i,), score[i])
    kb.store("best", int32, (1,), (), kb.argmax("top", (), b, score[b])[()], (0,))
    return kb.build()


C["maxsim_bytes"] = """
#include <limits.h>
void kernel(const signed char (*restrict word)[E], const signed char (*restrict text)[L][E], const int *restrict many,
            int *restrict y, int *restrict best) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    int score = 0;
    for (int j = 0; j < Q; j++) {
      int most = INT_MIN;
      for (int t = 0; t < many[i]; t++) {
        int dot = 0;
        for (int k = 0; k < E; k++) dot += word[j][k] * text[i][t][k];
        most = most > dot ? most : dot;
      }
      score += most;
    }
    y[i] = score;
  }
  *best = 0;
  for (int i = 1; i < D; i++)
    if (y[i] > y[*best]) *best = i;
}
"""


def maxsim_bytes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All words with all, then a mask."""
    import numpy as np

    dot = np.einsum("qe,dle->dql", x["word"].astype(np.int64), x["text"].astype(np.int64))
    dot[np.broadcast_to((np.arange(s["l"]) >= x["many"][:, None])[:, None], dot.shape)] = -(2**31)
    y = dot.max(2).sum(1).astype(np.int32)
    return {"y": y, "best": np.array([y.argmax()], np.int32)}


def lbfgs_direction(n: int = 30011) -> Kernel:
    """The direction of a quasi-Newton step by two loops over the last five steps and changes of the gradient."""
    kb = KernelBuilder("lbfgs_direction")
    i, m = kb.axis("n", n), 5
    s, y = (kb.input(name, (m, n), float64, range=(0.1, 1.0)) for name in ("s", "y"))
    g = kb.input("g", (n,), float64)

    def dot(name: str, u: Any, v: Any) -> Any:
        k = kb.axis(f"n@{name}", n)
        return kb.sum(name, (), k, u(k) * v(k))[()]

    bend = [dot(f"bend{e}", lambda k, e=e: s[e, k], lambda k, e=e: y[e, k]) for e in range(m)]
    alpha: dict[int, Any] = {}

    def down(k: Any) -> Any:
        return sum((y[e, k] * -f for e, f in alpha.items()), g[k])

    for e in reversed(range(m)):
        alpha[e] = kb.value(f"alpha{e}", (), dot(f"down{e}", lambda k, e=e: s[e, k], down) / bend[e])[()]
    gamma = kb.value("gamma", (), bend[-1] / dot("long", lambda k: y[m - 1, k], lambda k: y[m - 1, k]))[()]
    part: list[Any] = []

    def up(k: Any) -> Any:
        return sum((s[e, k] * f for e, f in enumerate(part)), gamma * down(k))

    for e in range(m):
        part.append(kb.value(f"part{e}", (), alpha[e] - dot(f"up{e}", lambda k, e=e: y[e, k], up) / bend[e])[()])
    kb.store("p", float64, (n,), (i,), -up(i))
    return kb.build()


C["lbfgs_direction"] = """
static double dot(const double *restrict u, const double *restrict v) {
  double s = 0;
  for (int i = 0; i < N; i++) s += u[i] * v[i];
  return s;
}
static void add(double *restrict u, double f, const double *restrict v) {
  for (int i = 0; i < N; i++) u[i] += f * v[i];
}
void kernel(const double (*restrict s)[N], const double (*restrict y)[N], const double *restrict g, double *restrict p) {
  double alpha[5], bend[5];
  for (int i = 0; i < N; i++) p[i] = -g[i];
  for (int e = 4; e >= 0; e--) {
    bend[e] = dot(s[e], y[e]);
    alpha[e] = dot(s[e], p) / bend[e];
    add(p, -alpha[e], y[e]);
  }
  double gamma = bend[4] / dot(y[4], y[4]);
  for (int i = 0; i < N; i++) p[i] *= gamma;
  for (int e = 0; e < 5; e++) add(p, alpha[e] - dot(y[e], p) / bend[e], s[e]);
}
"""


def lbfgs_direction_numpy(x: Arrays, s: Sizes) -> Arrays:
    """The two loops."""
    p, alpha = -x["g"], {}
    for e in reversed(range(5)):
        alpha[e] = x["s"][e] @ p / (x["s"][e] @ x["y"][e])
        p = p - alpha[e] * x["y"][e]
    p = p * (x["s"][4] @ x["y"][4]) / (x["y"][4] @ x["y"][4])
    for e in range(5):
        p = p + x["s"][e] * (alpha[e] - x["y"][e] @ p / (x["s"][e] @ x["y"][e]))
    return {"p": p}
