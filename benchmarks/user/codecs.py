"""Coding and decoding, as users write them, with the same loops in C and NumPy's answers (stencils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, leading_zeros, maximum, minimum, round_even, uint8, uint16, uint32
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "yuv420_to_rgb": ("bytes", {"h": 6, "w": 20}),
    "dct_quantise": ("small products", {"h": 3, "w": 5}),
    "pack_bits": ("bytes", {"n": 37}),
    "unpack_10_bits": ("bytes", {"n": 37}),
    "run_lengths": ("scans", {"h": 5, "w": 37}),
    "crc_of_messages": ("gathers", {"m": 37, "n": 5}),
    "mu_law": ("bytes", {"n": 101}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def yuv420_to_rgb(h: int = 1080, w: int = 1920) -> Kernel:
    """A video's picture (brightness, and two colours at half the size) as red, green and blue, in whole numbers (BT.601)."""
    kb = KernelBuilder("yuv420_to_rgb")
    i, j = kb.axis("h", h), kb.axis("w", w)
    y, u, v = kb.input("y", (h, w), uint8), kb.input("u", (h // 2, w // 2), uint8), kb.input("v", (h // 2, w // 2), uint8)
    a = 298 * (cast(y[i, j], int32) - 16) + 128
    b, c = cast(u[i // 2, j // 2], int32) - 128, cast(v[i // 2, j // 2], int32) - 128
    for place, colour in enumerate((a + 409 * c, a - 100 * b - 208 * c, a + 516 * b)):
        byte = cast(minimum(maximum(colour >> 8, 0), 255), uint8)
        kb.store("rgb", uint8, (h, w, 3), (i, j), byte, (i, j, place))
    return kb.build()


C["yuv420_to_rgb"] = """
static unsigned char byte(int v) { v >>= 8; return v < 0 ? 0 : v > 255 ? 255 : v; }
void kernel(const unsigned char (*restrict y)[W], const unsigned char (*restrict u)[W / 2],
            const unsigned char (*restrict v)[W / 2], unsigned char (*restrict rgb)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int a = 298 * (y[i][j] - 16) + 128, b = u[i / 2][j / 2] - 128, c = v[i / 2][j / 2] - 128;
      rgb[i][j][0] = byte(a + 409 * c);
      rgb[i][j][1] = byte(a - 100 * b - 208 * c);
      rgb[i][j][2] = byte(a + 516 * b);
    }
}
"""


def yuv420_to_rgb_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Colours repeated to the size of the brightness."""
    import numpy as np

    a = 298 * (x["y"].astype(np.int64) - 16) + 128
    b, c = (x[k].astype(np.int64).repeat(2, axis=0).repeat(2, axis=1) - 128 for k in "uv")
    rgb = np.stack([a + 409 * c, a - 100 * b - 208 * c, a + 516 * b], axis=-1) >> 8
    return {"rgb": np.clip(rgb, 0, 255).astype(np.uint8)}


def dct_quantise(h: int = 96, w: int = 128) -> Kernel:
    """The 8 × 8 cosine transforms of a picture's blocks, each number divided by that of a table and rounded, as JPEG does."""
    kb = KernelBuilder("dct_quantise")
    i, j, u, v, k, l = (kb.axis(n, e) for n, e in (("h", h), ("w", w), ("u", 8), ("v", 8), ("k", 8), ("l", 8)))
    p = kb.axis("p", 8)
    x, basis = kb.input("x", (h * 8, w * 8), uint8), kb.input("basis", (8, 8), float32)
    scale = kb.input("scale", (8, 8), float32, range=(0.01, 0.1))
    rows = kb.sum("rows", (i, j, p, v), l, (cast(x[i * 8 + p, j * 8 + l], float32) - 128.0) * basis[v, l])
    both = kb.sum("both", (i, j, u, v), k, basis[u, k] * rows[i, j, k, v])
    kb.store("y", int16, (h, w, 8, 8), (i, j, u, v), cast(round_even(both[i, j, u, v] * scale[u, v]), int16))
    return kb.build()


C["dct_quantise"] = """
#include <math.h>
__attribute__((noinline)) static void row(const unsigned char (*restrict x)[W * 8], const float (*restrict basis)[8],
                                          const float (*restrict scale)[8], short (*restrict y)[8][8]) {
  for (int j = 0; j < W; j++) {
    float rows[8][8];
    for (int k = 0; k < 8; k++)
      for (int v = 0; v < 8; v++) {
        rows[k][v] = 0;
        for (int l = 0; l < 8; l++) rows[k][v] += (x[k][j * 8 + l] - 128.0f) * basis[v][l];
      }
    for (int u = 0; u < 8; u++)
      for (int v = 0; v < 8; v++) {
        float both = 0;
        for (int k = 0; k < 8; k++) both += basis[u][k] * rows[k][v];
        y[j][u][v] = rintf(both * scale[u][v]);
      }
  }
}
void kernel(const unsigned char (*restrict x)[W * 8], const float (*restrict basis)[8],
            const float (*restrict scale)[8], short (*restrict y)[W][8][8]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i * 8, basis, scale, y[i]);
}
"""


def dct_quantise_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Two products for each block."""
    import numpy as np

    a = (x["x"].astype(np.float64) - 128).reshape(s["h"], 8, s["w"], 8).transpose(0, 2, 1, 3)
    b = x["basis"].astype(np.float64)
    return {"y": np.rint(b @ a @ b.T * x["scale"]).astype(np.int16)}


def pack_bits(n: int = 1 << 20) -> Kernel:
    """Which numbers are above a threshold, eight of them in a byte."""
    kb = KernelBuilder("pack_bits")
    i, b = kb.axis("n", n), kb.axis("b", 8)
    x = kb.input("x", (n, 8), float32)
    byte = kb.sum("byte", (i,), b, cast(x[i, b] > 0.5, int32) << cast(b, int32))
    kb.store("y", uint8, (n,), (i,), byte[i])
    return kb.build()


C["pack_bits"] = """
__attribute__((noinline)) static void some(const float (*restrict x)[8], unsigned char *restrict y, int many) {
  for (int i = 0; i < many; i++) {
    int byte = 0;
    for (int b = 0; b < 8; b++) byte |= (x[i][b] > 0.5f) << b;
    y[i] = byte;
  }
}
void kernel(const float (*restrict x)[8], unsigned char *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 256) some(x + i, y + i, N - i < 256 ? N - i : 256);
}
"""


def pack_bits_numpy(x: Arrays, s: Sizes) -> Arrays:
    """packbits."""
    import numpy as np

    return {"y": np.packbits(x["x"] > 0.5, axis=1, bitorder="little")[:, 0]}


def unpack_10_bits(n: int = 1 << 19) -> Kernel:
    """A camera's numbers of ten bits, four in five bytes, as 16-bit numbers."""
    kb = KernelBuilder("unpack_10_bits")
    i = kb.axis("n", n)
    x = kb.input("x", (n, 5), uint8)
    low = cast(x[i, 4], uint16)
    for k in range(4):
        value = (cast(x[i, k], uint16) << 2) | ((low >> (2 * k)) & 3)
        kb.store("y", uint16, (n, 4), (i,), value, (i, k))
    return kb.build()


C["unpack_10_bits"] = """
void kernel(const unsigned char (*restrict x)[5], unsigned short (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int k = 0; k < 4; k++) y[i][k] = x[i][k] << 2 | (x[i][4] >> 2 * k & 3);
}
"""


def unpack_10_bits_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Shifts."""
    import numpy as np

    a = x["x"].astype(np.uint16)
    return {"y": a[:, :4] << 2 | a[:, 4:] >> np.arange(0, 8, 2, dtype=np.uint16) & 3}


def run_lengths(h: int = 1024, w: int = 1024) -> Kernel:
    """How long the run of equal bytes is in which each byte of a row lies, up to there."""
    kb = KernelBuilder("run_lengths")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), uint8, range=(0, 1))
    begins = x[i, j].ne(x[i, maximum(j - 1, 0)])
    start = kb.scan("max", "start", (i, j), j, cast(j, int32) * cast(begins, int32))
    kb.store("y", int32, (h, w), (i, j), cast(j, int32) + 1 - start[i, j])
    return kb.build()


C["run_lengths"] = """
void kernel(const unsigned char (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int run = 0;
    for (int j = 0; j < W; j++) y[i][j] = run = j && x[i][j] == x[i][j - 1] ? run + 1 : 1;
  }
}
"""


def run_lengths_numpy(x: Arrays, s: Sizes) -> Arrays:
    """maximum.accumulate of where runs begin."""
    import numpy as np

    a, j = x["x"], np.arange(s["w"])
    begins = np.concatenate([np.ones_like(a[:, :1], bool), a[:, 1:] != a[:, :-1]], axis=1)
    return {"y": j + 1 - np.maximum.accumulate(np.where(begins, j, 0), axis=1)}


def crc_of_messages(m: int = 1 << 17, n: int = 16) -> Kernel:
    """A checksum of 32 bits of each of many messages: what a byte adds depends on its place only, so a table has it."""
    kb = KernelBuilder("crc_of_messages")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, table = kb.input("x", (m, n), uint8), kb.input("table", (n, 256), uint32)
    crc = kb.reduce("xor", "crc", (i,), j, table[j, x[i, j]])
    kb.store("y", uint32, (m,), (i,), crc[i])
    return kb.build()


C["crc_of_messages"] = """
void kernel(const unsigned char (*restrict x)[N], const unsigned (*restrict table)[256], unsigned *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    unsigned crc = 0;
    for (int j = 0; j < N; j++) crc ^= table[j][x[i][j]];
    y[i] = crc;
  }
}
"""


def crc_of_messages_numpy(x: Arrays, s: Sizes) -> Arrays:
    """A byte of all messages at a time."""
    import numpy as np

    return {"y": np.bitwise_xor.reduce([x["table"][j][x["x"][:, j]] for j in range(s["n"])])}


def mu_law(n: int = 1 << 20) -> Kernel:
    """Sixteen-bit sound as bytes by the telephone's curve (G.711): which power of two, and four bits of what is left."""
    kb = KernelBuilder("mu_law")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), int16)
    sample = cast(x[i], int32)
    size = minimum(maximum(sample, -sample), 32635) + 132
    power = 31 - leading_zeros(size) - 7
    byte = (cast(sample < 0, int32) << 7) | (power << 4) | ((size >> (power + 3)) & 15)
    kb.store("y", uint8, (n,), (i,), cast(~byte & 255, uint8))
    return kb.build()


C["mu_law"] = """
void kernel(const short *restrict x, unsigned char *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int size = x[i] < 0 ? -x[i] : x[i];
    size = (size < 32635 ? size : 32635) + 132;
    int power = 31 - __builtin_clz(size) - 7;
    y[i] = ~((x[i] < 0) << 7 | power << 4 | (size >> (power + 3) & 15));
  }
}
"""


def mu_law_numpy(x: Arrays, s: Sizes) -> Arrays:
    """By the logarithm."""
    import numpy as np

    a = x["x"].astype(np.int64)
    size = np.minimum(abs(a), 32635) + 132
    power = np.log2(size).astype(np.int64) - 7
    return {"y": (~((a < 0) << 7 | power << 4 | size >> power + 3 & 15) & 255).astype(np.uint8)}
