"""Matrix instructions as data: what a row multiplies, how operands lie in memory, what it computes, and what compilers call it.

A row computes C[m, n] += A[m, k] · B[k, n] for its tile. `step` is the meaning for one element of C: it takes C's element, k elements
of A's row and k elements of B's column and gives the new element, bit for bit as the processor does. It takes Python numbers, or
NumPy arrays of one shape for many elements at once; values are exactly representable in the operand types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.dtypes import DType, bfloat16, float32, int8, int32, uint8
from .target import Target

Step = Callable[[Any, Sequence[Any], Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row. `m`, `n`, `k` is the tile; `flag` the target feature it needs; `layout` the order in which B's tile lies in memory,
    outermost first, with `k%2` for the position inside a group of two; A's group of k elements is contiguous and broadcast to the lanes.

    `rate` is how many a core does in a cycle (an FMA of that width: 2), `latency` the cycles until the sum can be used again.
    `llvm` is the intrinsic's name there, and `word` the element type that it gives the two operand vectors; `call` is its name in C.
    With `word` i16 the instruction adds products of pairs of 16 bits: it is used twice, on the bytes at even and at odd places, which
    are widened first. `unless`: features that bring a better row for the same types."""

    name: str
    flag: str
    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    layout: tuple[str, ...]
    step: Step
    rate: float
    latency: int
    llvm: str
    word: str
    call: str
    unless: tuple[str, ...] = ()

    @property
    def operands(self) -> list[list[tuple[DType, int]]]:
        """The types and lanes of C's row, A and B in a Program: A is one group, in every lane, or has a group for each lane as B has."""
        whole = self.n * self.k
        return [[(self.c, self.n), (self.a, lanes), (self.b, whole)] for lanes in (self.k, whole)]

    @property
    def halves(self) -> int:
        """Vectors that each operand becomes."""
        return 2 if self.word == "i16" else 1


def _flush(x: Any, least: float = 2.0**-126) -> Any:
    """Numbers below `least` as zeros of the same sign."""
    import numpy as np

    return np.where(np.abs(x) < least, np.copysign(0.0, x), x)


def _fma_flushed(a: Any, b: Any, c: Any) -> Any:
    """a·b + c in float32 with one rounding, a and b bfloat16; subnormal operands and results count as zero."""
    import numpy as np

    a, b, c = (_flush(np.asarray(v, np.float64)) for v in (a, b, c))
    product = a * b  # 16 significant bits: exact
    near = np.atleast_1d(product + c)
    # what the sum lost (D. Knuth's two-sum); rounded to odd, a float64 rounds on to float32 as the exact sum does
    other = near - product
    lost = (product - (near - other)) + (c - other)
    bits = near.view(np.int64)
    odd = np.where(np.isfinite(near) & (lost != 0) & (bits % 2 == 0), np.where((lost > 0) == (near > 0), 1, -1), 0)
    exact = (bits + odd).view(np.float64).reshape(np.shape(product + c))
    # tininess is judged after rounding to 24 bits, as x86 does
    return _flush(exact, 2.0**-126 * (1 - 2.0**-25)).astype(np.float32)[()]


def _dpbf16(c: Any, a: Sequence[Any], b: Sequence[Any]) -> Any:
    # Intel's manual: two FMAs, the odd element first, round to nearest even, denormals are zero, MXCSR is not consulted
    import numpy as np

    with np.errstate(all="ignore"):
        return _fma_flushed(a[0], b[0], _fma_flushed(a[1], b[1], c))


def _dpbusd(c: Any, a: Sequence[Any], b: Sequence[Any]) -> Any:
    # four products summed exactly, added with wrap-around (the form without saturation)
    import numpy as np

    total = np.asarray(c, np.int64)
    for x, y in zip(a, b, strict=True):
        total = total + np.asarray(x, np.int64) * np.asarray(y, np.int64)
    return ((total + 2**31) % 2**32 - 2**31).astype(np.int32)[()]


_BF16, _BYTES = ("k/2", "n", "k%2"), ("k/4", "n", "k%4")
ROWS = tuple(Instruction(*row) for row in (
    # name, flag, m, n, k, a, b, c, layout, step, rate, latency, llvm, word, call, unless
    ("vdpbf16ps", "avx512bf16", 1, 16, 2, bfloat16, bfloat16, float32, _BF16, _dpbf16, 1.0, 6, "x86.avx512bf16.dpbf16ps.512", "bfloat", "_mm512_dpbf16_ps"),
    ("vpdpbusd", "avx512vnni", 1, 16, 4, uint8, int8, int32, _BYTES, _dpbusd, 2.0, 5, "x86.avx512.vpdpbusd.512", "i32", "_mm512_dpbusd_epi32"),
    ("vpdpbusd256", "avxvnni", 1, 8, 4, uint8, int8, int32, _BYTES, _dpbusd, 2.0, 5, "x86.avx512.vpdpbusd.256", "i32", "_mm256_dpbusd_avx_epi32"),
    ("vpmaddwd", "avx512", 1, 16, 4, uint8, int8, int32, _BYTES, _dpbusd, 0.45, 3, "x86.avx512.pmaddw.d.512", "i16", "_mm512_madd_epi16", ("avx512vnni",)),
    ("vpmaddwd256", "avx2", 1, 8, 4, uint8, int8, int32, _BYTES, _dpbusd, 0.45, 3, "x86.avx2.pmadd.wd", "i16", "_mm256_madd_epi16", ("avx512", "avxvnni")),
    # (of tiles, where the wider one is better: sums of short groups take it)
    ("vpdpbusd256vl", "avx512vnni", 1, 8, 4, uint8, int8, int32, _BYTES, _dpbusd, 2.0, 5, "x86.avx512.vpdpbusd.256", "i32", "_mm256_dpbusd_epi32", ("avx512vnni",)),
))  # fmt: skip
BY_NAME = {r.name: r for r in ROWS}


def available(target: Target) -> tuple[Instruction, ...]:
    """The rows that `target` can execute, but for those that its other features make pointless."""
    return tuple(r for r in ROWS if r.flag in target.features and target.features.isdisjoint(r.unless))
