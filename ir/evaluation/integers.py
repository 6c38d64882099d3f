"""Integer operators on NumPy arrays, as `ir.operators.integer` defines them: total, wrapping, without warnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def floordiv(a: Any, b: Any) -> Any:
    """⌊a / b⌋; 0 where b is 0, and the least number by −1 is itself."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.floor_divide(a, b)


def remainder(a: Any, b: Any) -> Any:
    """a − b·⌊a / b⌋, which has b's sign; 0 where b is 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.remainder(a, b)


def quotient(a: Any, b: Any) -> Any:
    """a / b rounded towards 0 (the operation `quot` of Programs); 0 where b is 0, and the least number by −1 is itself."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        down = np.floor_divide(a, b)
        rest = a - down * b
        return np.where((b != 0) & (rest != 0) & ((a < 0) != (b < 0)), down + np.ones_like(down), down).astype(down.dtype)[()]


def _unsigned(a: Any) -> Any:
    """The bits of integers as numbers without a sign."""
    a = np.asarray(a)
    return a.view(f"u{a.dtype.itemsize}")


def popcount(a: Any) -> Any:
    """Bits that are set."""
    return np.bitwise_count(_unsigned(a)).astype(np.asarray(a).dtype)[()]


def clz(a: Any) -> Any:
    """Bits above the highest that is set; all of 0."""
    x, kind = _unsigned(a), np.asarray(a).dtype
    for distance in (1, 2, 4, 8, 16, 32)[: kind.itemsize.bit_length() + 2]:  # every bit below the highest is set
        x = x | x >> x.dtype.type(distance)
    return np.bitwise_count(~x).astype(kind)[()]


COUNTS: dict[str, Callable[[Any], Any]] = {"popcount": popcount, "clz": clz}
"""Each takes an array of an integer type."""
INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "floordiv": floordiv,
    "remainder": remainder,
}
"""Each takes two arrays of one integer type; the first three take bools, too."""
