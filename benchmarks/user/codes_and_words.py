"""Parity checks of received bits, satellites in noise, suffixes, UTF-8, signatures of sets; a picture with less noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, absolute, cast, maximum, minimum, sqrt, where

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "ldpc_checks": ("gathers", {"m": 13, "d": 5, "n": 29}),
    "gps_correlator": ("correlations", {"k": 3, "n": 501}),
    "lcp_of_suffixes": ("bytes", {"n": 101, "l": 8}),
    "utf8_check": ("bytes", {"b": 7, "l": 37}),
    "minhash": ("bit operations", {"d": 7, "l": 13, "k": 2}),
    "pdhg_tv": ("stencil, clamped borders", {"h": 7, "w": 11}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def ldpc_checks(m: int = 20000, d: int = 7, n: int = 40001) -> Kernel:
    """Half a step of decoding an LDPC code by least magnitudes: what each check tells its d bits, and whether it fails."""
    kb = KernelBuilder("ldpc_checks")
    i, j, k, p, q = kb.axis("m", m), kb.axis("d", d), kb.axis("d@least", d), kb.axis("d@odd", d), kb.axis("d@hard", d)
    bit, total = kb.input("bit", (m, d), "int32", range=(0, n - 1)), kb.input("total", (n,), "int16", range=(-900, 900))
    old = kb.input("old", (m, d), "int8", range=(-127, 127))
    told = kb.value("told", (i, j), cast(total[bit[i, j]], "int32") - cast(old[i, j], "int32"))
    least = kb.min("least", (i, j), k, where(k.eq(j), 127, minimum(absolute(told[i, k]), 127)))
    odd = kb.reduce("xor", "odd", (i,), p, told[i, p] < 0)
    size = least[i, j] * 3 >> 2
    kb.store("new", "int8", (m, d), (i, j), cast(where(odd[i] ^ (told[i, j] < 0), -size, size), "int8"))
    kb.store("fails", "bool", (m,), (i,), kb.reduce("xor", "hard", (i,), q, total[bit[i, q]] < 0)[i])
    return kb.build()


C["ldpc_checks"] = """
void kernel(const int (*restrict bit)[D], const short *restrict total, const signed char (*restrict old)[D], signed char (*restrict new)[D],
            unsigned char *restrict fails) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int told[D], least = 127, second = 127, at = -1, odd = 0, hard = 0;
    for (int j = 0; j < D; j++) {
      int v = total[bit[i][j]];
      hard ^= v < 0;
      told[j] = v - old[i][j];
      odd ^= told[j] < 0;
      const int size = told[j] < 0 ? -told[j] : told[j];
      if (size < least) second = least, least = size, at = j;
      else if (size < second) second = size;
    }
    for (int j = 0; j < D; j++) new[i][j] = ((j == at ? second : least) * 3 >> 2) * (odd ^ (told[j] < 0) ? -1 : 1);
    fails[i] = hard;
  }
}
"""


def ldpc_checks_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By a sort of magnitudes."""
    import numpy as np

    v = x["total"][x["bit"]].astype(np.int32)
    told = v - x["old"]
    size = np.minimum(np.abs(told), 127)
    least, at = np.sort(size, axis=1), size.argmin(axis=1)[:, None]
    other = np.where(np.arange(s["d"]) == at, least[:, 1:2], least[:, :1]) * 3 >> 2
    odd = ((told < 0).sum(axis=1, keepdims=True) + (told < 0)) % 2
    return {"new": np.where(odd, -other, other).astype(np.int8), "fails": (v < 0).sum(axis=1) % 2 == 1}


def gps_correlator(k: int = 9, n: int = 16368) -> Kernel:
    """A millisecond of noise against the codes of k satellites: early, prompt and late sums, by phases of 32 bits."""
    kb = KernelBuilder("gps_correlator")
    i, e = kb.axis("k", k), kb.axis("tap", 3)
    x, code = kb.input("x", (n, 2), "int8", range=(-3, 3)), kb.input("code", (k, 1024), "int8", range=(-1, 1))
    wave = kb.input("wave", (256, 2), "int8", range=(-16, 16))
    chip, rate, turn, speed = (kb.input(name, (k,), "uint32") for name in ("chip", "rate", "turn", "speed"))
    for c, name in enumerate(("in_phase", "quadrature")):
        j = kb.axis(f"n@{name}", n)
        t = cast(j, "uint32")
        at = (turn[i] + t * speed[i]) >> 24
        re, im, co, si = (cast(v, "int32") for v in (x[j, 0], x[j, 1], wave[at, 0], wave[at, 1]))
        mixed = re * co + im * si if c == 0 else im * co - re * si
        place = (chip[i] + t * rate[i] + (cast(e, "uint32") << 21)) >> 22
        total = kb.sum(name, (i, e), j, mixed * cast(code[i, place], "int32"))
        kb.store("y", "int32", (k, 3, 2), (i, e), total[i, e], (i, e, c))
    return kb.build()


C["gps_correlator"] = """
typedef unsigned u32;
void kernel(const signed char (*restrict x)[2], const signed char (*restrict code)[1024], const signed char (*restrict wave)[2],
            const u32 *restrict chip, const u32 *restrict rate, const u32 *restrict turn, const u32 *restrict speed, int (*restrict y)[3][2]) {
#pragma omp parallel for
  for (int i = 0; i < K; i++) {
    u32 c = chip[i], t = turn[i];
    int sum[3][2] = {0};
    for (int j = 0; j < N; j++, c += rate[i], t += speed[i]) {
      int co = wave[t >> 24][0], si = wave[t >> 24][1], re = x[j][0] * co + x[j][1] * si, im = x[j][1] * co - x[j][0] * si;
      for (int e = 0; e < 3; e++) {
        int v = code[i][(c + ((u32)e << 21)) >> 22];
        sum[e][0] += v * re;
        sum[e][1] += v * im;
      }
    }
    for (int e = 0; e < 3; e++) y[i][e][0] = sum[e][0], y[i][e][1] = sum[e][1];
  }
}
"""


def gps_correlator_numpy(x: Arrays, s: Sizes) -> Arrays:
    """In whole complex numbers, a satellite at a time."""
    import numpy as np

    t, noise, y = np.arange(s["n"], dtype=np.uint32), x["x"] @ [1, 1j], []
    for i in range(s["k"]):
        mixed = noise * np.conj((x["wave"] @ [1, 1j])[(x["turn"][i] + t * x["speed"][i]) >> 24])
        taps = [(x["chip"][i] + t * x["rate"][i] + np.uint32(e << 21)) >> 22 for e in range(3)]
        y.append([mixed @ x["code"][i][at] for at in taps])
    return {"y": np.stack([np.real(y), np.imag(y)], axis=-1).astype(np.int32)}


def lcp_of_suffixes(n: int = 60013, l: int = 16) -> Kernel:
    """How many letters (l at most) each suffix of a text has in common with the next one in a suffix array."""
    kb = KernelBuilder("lcp_of_suffixes")
    i, k = kb.axis("n", n - 1), kb.axis("l", l)
    text, order = kb.input("text", (n + l,), "uint8", range=(97, 99)), kb.input("order", (n,), "int32", range=(0, n - 1))
    apart = text[order[i] + cast(k, "int32")].ne(text[order[i + 1] + cast(k, "int32")])
    kb.store("lcp", "uint8", (n - 1,), (i,), kb.min("first", (i,), k, where(apart, cast(k, "uint8"), l))[i])
    return kb.build()


C["lcp_of_suffixes"] = """
void kernel(const unsigned char *restrict text, const int *restrict order, unsigned char *restrict lcp) {
#pragma omp parallel for
  for (int i = 0; i < N - 1; i++) {
    int k = 0, a = order[i], b = order[i + 1];
    while (k < L && text[a + k] == text[b + k]) k++;
    lcp[i] = k;
  }
}
"""


def lcp_of_suffixes_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By NumPy's windows."""
    import numpy as np

    word = np.lib.stride_tricks.sliding_window_view(x["text"], s["l"])[x["order"]]
    return {"lcp": np.minimum.accumulate(word[:-1] == word[1:], axis=1).sum(axis=1).astype(np.uint8)}


def utf8_check(b: int = 6007, l: int = 480) -> Kernel:
    """How many characters each line of UTF-8 has, and where its first byte is that can't be there (l: nowhere)."""
    kb = KernelBuilder("utf8_check")
    i, j, k = kb.axis("b", b), kb.axis("l@count", l), kb.axis("l@bad", l)
    x = kb.input("x", (b, l), "uint8")

    def follows(at: Any) -> Any:
        return (x[i, at] & 0xC0).eq(0x80)

    due = (x.masked(k >= 1, i, k - 1) >= 0xC0) | (x.masked(k >= 2, i, k - 2) >= 0xE0) | (x.masked(k >= 3, i, k - 3) >= 0xF0)
    bad = (due ^ follows(k)) | (x[i, k] >= 0xF8)
    kb.store("characters", "int32", (b,), (i,), kb.sum("many", (i,), j, ~follows(j))[i])
    kb.store("bad", "int32", (b,), (i,), kb.min("first", (i,), k, where(bad, cast(k, "int32"), l))[i])
    return kb.build()


C["utf8_check"] = """
void kernel(const unsigned char (*restrict x)[L], int *restrict characters, int *restrict bad) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int many = 0, j = 0;
    for (int k = 0; k < L; k++) many += (x[i][k] & 0xc0) != 0x80;
    for (int left = 0; j < L; j++) {
      int v = x[i][j], follows = (v & 0xc0) == 0x80;
      if (follows != left > 0 || v >= 0xf8) break;
      left = follows ? left - 1 : v >= 0xf0 ? 3 : v >= 0xe0 ? 2 : v >= 0xc0 ? 1 : 0;
    }
    characters[i] = many;
    bad[i] = j;
  }
}
"""


def utf8_check_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By bytes before."""
    import numpy as np

    a = np.pad(x["x"], ((0, 0), (3, 0)))
    follows = x["x"] & 0xC0 == 0x80
    due = (a[:, 2:-1] >= 0xC0) | (a[:, 1:-2] >= 0xE0) | (a[:, :-3] >= 0xF0)
    bad = (due != follows) | (x["x"] >= 0xF8)
    return {"characters": (~follows).sum(axis=1).astype(np.int32), "bad": np.where(bad.any(axis=1), bad.argmax(axis=1), s["l"])}


def minhash(d: int = 1201, l: int = 60, k: int = 16) -> Kernel:
    """Signatures of sets of words (the least of 4 k hashes each), and a hash of each four of them to find near ones by."""
    kb = KernelBuilder("minhash")
    i, h, j, g = kb.axis("d", d), kb.axis("hash", 4 * k), kb.axis("l", l), kb.axis("k", k)
    word, many = kb.input("word", (d, l), "uint32"), kb.input("many", (d,), "int32", range=(1, l))
    a, b = kb.input("a", (4 * k,), "uint32"), kb.input("b", (4 * k,), "uint32")
    least = kb.min("least", (i, h), j, where(cast(j, "int32") < many[i], word[i, j] * (a[h] | 1) + b[h], 0xFFFFFFFF))
    band = least[i, g * 4]
    for e in range(1, 4):
        band = band * 31 + least[i, g * 4 + e]
    kb.store("signature", "uint32", (d, 4 * k), (i, h), least[i, h])
    kb.store("bands", "uint32", (d, k), (i, g), band ^ (band >> 15))
    return kb.build()


C["minhash"] = """
void kernel(const unsigned (*restrict word)[L], const int *restrict many, const unsigned *restrict a, const unsigned *restrict b,
            unsigned (*restrict signature)[4 * K], unsigned (*restrict bands)[K]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    unsigned *least = signature[i];
    for (int h = 0; h < 4 * K; h++) least[h] = ~0u;
    for (int j = 0; j < many[i]; j++)
      for (int h = 0; h < 4 * K; h++) {
        unsigned v = word[i][j] * (a[h] | 1) + b[h];
        least[h] = v < least[h] ? v : least[h];
      }
    for (int g = 0; g < K; g++) {
      unsigned v = least[4 * g];
      for (int e = 1; e < 4; e++) v = v * 31 + least[4 * g + e];
      bands[i][g] = v ^ v >> 15;
    }
  }
}
"""


def minhash_numpy(x: Arrays, s: Sizes) -> Arrays:
    """All hashes of all words."""
    import numpy as np

    h = x["word"][:, :, None] * (x["a"] | np.uint32(1)) + x["b"]
    h[np.arange(s["l"]) >= x["many"][:, None]] = 0xFFFFFFFF
    least = h.min(axis=1)
    v = least.reshape(s["d"], -1, 4)
    band = ((v[..., 0] * np.uint32(31) + v[..., 1]) * np.uint32(31) + v[..., 2]) * np.uint32(31) + v[..., 3]
    return {"signature": least, "bands": band ^ (band >> np.uint32(15))}


def pdhg_tv(h: int = 253, w: int = 317) -> Kernel:
    """A primal-dual step that takes a picture's noise away by its total variation: the dual field, the picture, what runs ahead."""
    kb = KernelBuilder("pdhg_tv")
    i, j = kb.axis("h", h), kb.axis("w", w)
    u, bar, g, p, q = (kb.input(name, (h, w), "float32") for name in ("u", "bar", "g", "p", "q"))
    down = where(i < h - 1, bar.masked(i < h - 1, i + 1, j) - bar[i, j], 0.0) * 0.35 + p[i, j]
    right = where(j < w - 1, bar.masked(j < w - 1, i, j + 1) - bar[i, j], 0.0) * 0.35 + q[i, j]
    size = maximum(sqrt(down * down + right * right), 1.0)
    a, b = kb.value("a", (i, j), down / size), kb.value("b", (i, j), right / size)
    flow = a[i, j] - a.masked(i > 0, i - 1, j) + b[i, j] - b.masked(j > 0, i, j - 1)
    new = kb.value("new", (i, j), (u[i, j] + (flow + g[i, j] * 8.0) * 0.35) * (1.0 / 3.8))
    for name, v in (("new_p", a[i, j]), ("new_q", b[i, j]), ("new_u", new[i, j]), ("new_bar", new[i, j] * 2.0 - u[i, j])):
        kb.store(name, "float32", (h, w), (i, j), v)
    return kb.build()


C["pdhg_tv"] = """
#include <math.h>
typedef float row[W];
void kernel(const row *restrict u, const row *restrict bar, const row *restrict g, const row *restrict p, const row *restrict q,
            row *restrict np, row *restrict nq, row *restrict nu, row *restrict nbar) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float a = p[i][j] + (i < H - 1 ? 0.35f * (bar[i + 1][j] - bar[i][j]) : 0);
      float b = q[i][j] + (j < W - 1 ? 0.35f * (bar[i][j + 1] - bar[i][j]) : 0), size = fmaxf(sqrtf(a * a + b * b), 1);
      np[i][j] = a / size;
      nq[i][j] = b / size;
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float flow = np[i][j] - (i > 0 ? np[i - 1][j] : 0) + nq[i][j] - (j > 0 ? nq[i][j - 1] : 0);
      nu[i][j] = (u[i][j] + 0.35f * (flow + 8 * g[i][j])) / 3.8f;
      nbar[i][j] = 2 * nu[i][j] - u[i][j];
    }
}
"""


def pdhg_tv_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By np.diff."""
    import numpy as np

    u, bar, g, p, q = (x[n].astype(np.float64) for n in ("u", "bar", "g", "p", "q"))
    a, b = p + 0.35 * np.diff(bar, axis=0, append=bar[-1:]), q + 0.35 * np.diff(bar, axis=1, append=bar[:, -1:])
    size = np.maximum(np.hypot(a, b), 1)
    a, b = a / size, b / size
    new = (u + 0.35 * (np.diff(a, axis=0, prepend=0) + np.diff(b, axis=1, prepend=0) + 8 * g)) / 3.8
    return {"new_p": a, "new_q": b, "new_u": new, "new_bar": 2 * new - u}
