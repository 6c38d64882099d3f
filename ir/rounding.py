"""Numbers as element types hold them: rounded once to nearest even, integers wrapped."""

from __future__ import annotations

import math
import struct
from typing import Any

from .dtypes import FORMATS, DType


def rounded(value: Any, dtype: DType) -> Any:
    """A Python number as its type holds it: floats are rounded once to nearest even (what is too large is infinite, or NaN where a type
    has no infinities), integers wrap."""
    if dtype.is_float:
        return _float(float(value), dtype)
    if dtype.is_int:
        bits = 8 * dtype.size
        value = int(value) & ((1 << bits) - 1)
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    return value


def _float(value: float, dtype: DType) -> float:
    if dtype.size == 8 or math.isnan(value):
        return value
    if math.isinf(value):
        return _beyond(value, dtype)
    if dtype.name in _CODES:
        try:
            found: float = struct.unpack(_CODES[dtype.name], struct.pack(_CODES[dtype.name], value))[0]
        except OverflowError:
            found = math.copysign(math.inf, value)
        return found
    mantissa, least, top = _LAYOUT[dtype.name]
    # scaled so that one unit is the last bit of the result; round() is to nearest even
    unit = max(math.frexp(value)[1] - 1 - mantissa, least) if value else least
    short = math.ldexp(round(math.ldexp(value, -unit)), unit)
    return math.copysign(short, value) if abs(short) <= top else _beyond(value, dtype)


def _beyond(value: float, dtype: DType) -> float:
    """What stands for a number that is too large."""
    form = FORMATS.get(dtype.name)
    return math.nan if form is not None and form.top == form.nan else math.copysign(math.inf, value)


_CODES = {"float32": "<f", "float16": "<e"}
_LAYOUT = {
    "bfloat16": (7, -133, 255.0 * 2.0**120),
    "float8_e4m3": (3, -9, 448.0),
    "float8_e5m2": (2, -16, 57344.0),
}
"""Bits after the point, the exponent of the least subnormal number, and the largest number."""
