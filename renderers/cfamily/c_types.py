"""Element types and constants as the C-like languages see them.

A value's *form* is the type its elements have in variables: floats of 16 and 8 bits are their bits, an int64 that is known to fit may be an
int32, and a bool in a vector is a signed integer of 0 or -1 (as comparisons of vectors give) of any size."""

from __future__ import annotations

import math
import struct
from typing import Any

from ...ir.dtypes import DType, bool_, float32, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ..llvm.llvm_emitter import literal as llvm_literal

MASKS = {1: int8, 2: int16, 4: int32, 8: int64}
"""Forms of bools in vectors, by size."""
UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


def form(dtype: DType) -> DType:
    """The form of a scalar of `dtype`: of floats of 16 and 8 bits their bits."""
    return UNSIGNED[dtype.size] if dtype.narrow else dtype


def memory(dtype: DType) -> DType:
    """The form of an element in memory: a bool is a byte."""
    return uint8 if dtype is bool_ else form(dtype)


def unsigned(dtype: DType) -> DType:
    """The unsigned integer of the same size."""
    return UNSIGNED[dtype.size]


def pieces(lanes: int, widest: int) -> tuple[int, ...]:
    """A vector as parts of powers of two up to `widest`, large ones first: 13 lanes are 8 + 4 + 1."""
    out = []
    while lanes:
        width = min(widest, 1 << (lanes.bit_length() - 1))
        out.append(width)
        lanes -= width
    return tuple(out)


def round_to(value: Any, dtype: DType) -> float:
    """A number rounded once to float32 or float64."""
    x = float(value)
    if dtype is not float32:
        return x
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:  # finite, but rounds to infinity
        return math.copysign(math.inf, x)


def bits_of(value: Any, dtype: DType) -> int:
    """The bits of a number rounded once to a float of 16 or 8 bits."""
    return int(llvm_literal(value, dtype)) & (1 << 8 * dtype.size) - 1


def wrap(value: Any, dtype: DType) -> int:
    """An integer wrapped into `dtype`."""
    if dtype.kind == "u":
        return int(value) & ((1 << 8 * dtype.size) - 1)
    half = 1 << (8 * dtype.size - 1)
    return (int(value) + half) % (2 * half) - half


def finite(value: float, suffix: str) -> str:
    """A finite float: decimal where that is short and exact, else hexadecimal."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.1f}{suffix}"
    if (value * 1024).is_integer() and abs(value) < 1000:
        return f"{value!r}{suffix}"
    mantissa, _, exponent = value.hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}{suffix}"
