"""The rest of the third set (images_and_models.py): samples of a receiver, and lines of an edit distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Kernel, KernelBuilder, float32, int16, int32, uint8
from tilewright.ir.functions import minimum
from tilewright.ir.operators import cast

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]
CASES = {
    "iq_filter": ("signals", {"n": 37, "k": 5}),
    "edit_rows": ("scans", {"b": 7, "n": 21}),
}
"""The class of each kernel, and sizes for tests."""
C: dict[str, str] = {}


def iq_filter(n: int = 1 << 18, k: int = 32) -> Kernel:
    """A filter with complex taps over interleaved 16-bit samples of a receiver."""
    kb = KernelBuilder("iq_filter")
    i, l, l2 = kb.axis("n", n), kb.axis("k@re", k), kb.axis("k@im", k)
    x, tap = kb.input("x", (n + k - 1, 2), int16), kb.input("tap", (k, 2), float32)

    def part(at: Any, c: int) -> Any:
        return cast(x[i + at, c], float32)

    re = kb.sum("re", (i,), l, part(l, 0) * tap[l, 0] - part(l, 1) * tap[l, 1])
    im = kb.sum("im", (i,), l2, part(l2, 0) * tap[l2, 1] + part(l2, 1) * tap[l2, 0])
    kb.store("y", float32, (n, 2), (i,), re[i], (i, 0))
    kb.store("y", float32, (n, 2), (i,), im[i], (i, 1))
    return kb.build()


C["iq_filter"] = """
void kernel(const short (*restrict x)[2], const float (*restrict tap)[2], float (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float re = 0, im = 0;
    for (int l = 0; l < K; l++) {
      float a = x[i + l][0], b = x[i + l][1];
      re += a * tap[l][0] - b * tap[l][1];
      im += a * tap[l][1] + b * tap[l][0];
    }
    y[i][0] = re;
    y[i][1] = im;
  }
}
"""


def iq_filter_numpy(x: Arrays, s: Sizes) -> Arrays:
    """Complex correlation."""
    import numpy as np

    a, tap = x["x"].astype(np.float64), x["tap"].astype(np.float64)
    y = np.correlate(a[:, 0] + 1j * a[:, 1], np.conj(tap[:, 0] + 1j * tap[:, 1]), mode="valid")
    return {"y": np.stack([y.real, y.imag], axis=1)}


def edit_rows(b: int = 4096, n: int = 256) -> Kernel:
    """The next row of the edit distances of many texts, given the one before: what is left is a running minimum."""
    kb = KernelBuilder("edit_rows")
    i, j = kb.axis("b", b), kb.axis("n", n)
    above = kb.input("above", (b, n + 1), int32, range=(0, 1000))
    text, letter = kb.input("text", (b, n), uint8, range=(97, 100)), kb.input("letter", (b,), uint8, range=(97, 100))
    change = above[i, j] + cast(text[i, j].ne(letter[i]), int32)
    way = minimum(above[i, j + 1] + 1, change) - cast(j, int32)
    least = kb.scan("min", "least", (i, j), j, way)
    start = above[i, 0] + 2
    kb.store("y", int32, (b, n), (i, j), minimum(least[i, j] + cast(j, int32), start + cast(j, int32)))
    return kb.build()


C["edit_rows"] = """
void kernel(const int (*restrict above)[N + 1], const unsigned char (*restrict text)[N],
            const unsigned char *restrict letter, int (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int left = above[i][0] + 1;
    for (int j = 0; j < N; j++) {
      int change = above[i][j] + (text[i][j] != letter[i]), gone = above[i][j + 1] + 1;
      int best = change < gone ? change : gone;
      left = left + 1 < best ? left + 1 : best;
      y[i][j] = left;
    }
  }
}
"""


def edit_rows_numpy(x: Arrays, s: Sizes) -> Arrays:
    """minimum.accumulate."""
    import numpy as np

    above, j = x["above"].astype(np.int64), np.arange(s["n"])
    change = above[:, :-1] + (x["text"] != x["letter"][:, None])
    way = np.minimum(above[:, 1:] + 1, change) - j
    return {"y": np.minimum(np.minimum.accumulate(way, axis=1), above[:, :1] + 2) + j}
