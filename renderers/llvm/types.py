"""LLVM's names for types and constants."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

from ...ir.dtypes import FORMATS, DType
from ...program.program import Val

# floats of 16 and 8 bits are stored as integers and widened by explicit code: arithmetic on LLVM's half and bfloat calls runtime functions
SCALAR = {
    "float64": "double",
    "float32": "float",
    "float16": "i16",
    "bfloat16": "i16",
    "float8_e4m3": "i8",
    "float8_e5m2": "i8",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "i64",
    "uint32": "i32",
    "uint16": "i16",
    "uint8": "i8",
    "bool": "i1",
}


@cache
def vector(scalar: str, lanes: int) -> str:
    """`float`, 16 → `<16 x float>`."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def type_of(v: Val) -> str:
    """The type a value has in registers."""
    return vector(SCALAR[v.dtype.name], v.lanes)


def memory(dtype: DType) -> str:
    """The element type in memory: a bool is a byte."""
    return "i8" if dtype.kind == "b" else SCALAR[dtype.name]


@cache
def suffix(scalar: str, lanes: int) -> str:
    """The type's name inside an intrinsic's: `v16f32`, `i64`."""
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal(value: Any, dtype: DType) -> str:
    """A scalar constant of `dtype`, rounded to it (nearest even) or wrapped."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        half = 1 << (8 * dtype.size - 1)
        return str((int(value) + half) % (2 * half) - half)
    value = float(value)
    if dtype.name == "float16":
        return str(_pack("<e", "<h", value))
    if dtype.name == "bfloat16":
        return str(_bfloat16(value))
    if dtype.name in FORMATS:
        bits = FORMATS[dtype.name].bits(value)
        return str(bits - ((bits & 0x80) << 1))
    if dtype.size == 4:
        value = struct.unpack("<f", struct.pack("<i", _pack("<f", "<i", value)))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(value: Any, dtype: DType, lanes: int) -> str:
    """A constant operand; a tuple gives one number a lane."""
    scalar = SCALAR[dtype.name]
    if lanes == 1:
        return literal(value[0] if isinstance(value, tuple) else value, dtype)
    if isinstance(value, tuple):
        return f"<{', '.join(f'{scalar} {literal(x, dtype)}' for x in value)}>"
    return splat(scalar, literal(value, dtype))


def splat(scalar: str, text: str) -> str:
    """The vector constant with `text` in every lane."""
    return "zeroinitializer" if text in ("0", "0x0000000000000000", "false") else f"splat ({scalar} {text})"


def _pack(code: str, as_int: str, value: float) -> int:
    try:
        packed = struct.pack(code, value)
    except OverflowError:  # finite, but rounds to infinity
        packed = struct.pack(code, math.copysign(math.inf, value))
    return int(struct.unpack(as_int, packed)[0])


def _bfloat16(value: float) -> int:
    """The bits of `value` rounded once to bfloat16 (as a signed 16-bit number)."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    sign, magnitude = bits >> 63, bits & (1 << 63) - 1
    if math.isnan(value):
        short = 0x7FC0
    elif math.isinf(value):
        short = 0x7F80
    else:
        # scaled so that one unit is the last bit of the result; round() is to nearest even, and a carry moves the exponent on
        exponent = max((magnitude >> 52) - 1023, -126)
        short = round(math.ldexp(abs(value), 7 - exponent)) + ((exponent + 126) << 7)
        short = min(short, 0x7F80)
    return short - (sign << 15)
