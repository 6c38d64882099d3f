"""Matrix instructions as data: what a row multiplies, how operands lie in memory, and exactly what it computes.

A row computes C[m, n] += A[m, k] · B[k, n] for its tile. `step` is the meaning for one element of C: it takes C's element, k elements
of A's row and k elements of B's column (Python numbers, exactly representable in the operand types) and gives the new element, bit
for bit as the processor does."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..ir.dtypes import DType, bfloat16, float32, int8, int32, uint8
from .target import Target

Number = int | float
Step = Callable[[Number, Sequence[Number], Sequence[Number]], Number]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row. `m`, `n`, `k` is the tile; `flag` the target feature it needs; `layout` the order in which B's tile lies in memory,
    outermost first, with `k%2` for the position inside a group of two; A's group of k elements is contiguous and broadcast to the lanes."""

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


def _to_float32(x: Fraction, sign: float) -> float:
    """`x` rounded to float32, nearest even, subnormal results flushed to zero; `sign` gives the sign of zero."""
    near = float(x)
    exact = Fraction(near)
    if exact != x and struct.unpack("<Q", struct.pack("<d", near))[0] % 2 == 0:
        # rounded to odd, a float64 rounds on to float32 as the exact value does
        near = math.nextafter(near, math.inf if x > exact else -math.inf)
    try:
        out = float(struct.unpack("<f", struct.pack("<f", near))[0])
    except OverflowError:
        return math.copysign(math.inf, near)
    return math.copysign(0.0, near if x else sign) if abs(out) < 2.0**-126 else out


def _fma_flushed(a: float, b: float, c: float) -> float:
    """a·b + c in float32 with one rounding; subnormal operands and results count as zero."""
    a, b, c = (math.copysign(0.0, v) if abs(v) < 2.0**-126 else v for v in (a, b, c))
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    # where the exact sum is zero, float64 gives its sign
    return _to_float32(Fraction(a) * Fraction(b) + Fraction(c), a * b + c)


def _dpbf16(c: Number, a: Sequence[Number], b: Sequence[Number]) -> Number:
    # Intel's manual: two FMAs, the odd element first, round to nearest even, denormals are zero, MXCSR is not consulted
    return _fma_flushed(float(a[0]), float(b[0]), _fma_flushed(float(a[1]), float(b[1]), float(c)))


def _dpbusd(c: Number, a: Sequence[Number], b: Sequence[Number]) -> Number:
    # four products summed exactly, added with wrap-around (the form without saturation)
    total = int(c) + sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    return (total + 2**31) % 2**32 - 2**31


ROWS = (
    Instruction("vdpbf16ps", "avx512bf16", 1, 16, 2, bfloat16, bfloat16, float32, ("k/2", "n", "k%2"), _dpbf16),
    Instruction("vpdpbusd", "avx512vnni", 1, 16, 4, uint8, int8, int32, ("k/4", "n", "k%4"), _dpbusd),
)


def available(target: Target) -> tuple[Instruction, ...]:
    """The rows that `target` can execute."""
    return tuple(r for r in ROWS if r.flag in target.features)
