"""Functions of two floats (`op_names.PAIRED`): the error of a result, and where it is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .algebra import Array
from .npmath import exp_error

LARGEST_QUOTIENT = 2.0**53
"""From here on a quotient that is rounded down, and what it leaves, are not computed exactly."""
_LEAST = 2.0**-149
Steps = Callable[[Array, Array, Callable[[Array], Array]], Array]


def error_of_two(op: str, v: Array, values: tuple[Array, Array], errors: tuple[Any, Any], steps: Steps) -> Array:
    """The error that `v`, `op` of two values with errors, inherits. `steps`: how far a step function can move."""
    (x, y), (ex, ey) = values, errors
    if op == "pow":
        base = np.maximum(np.abs(x) - ex, _LEAST)
        slope = np.abs(np.log(np.maximum(np.abs(x), _LEAST))) * ey + np.abs(y) * ex / base
        return exp_error(np.abs(v), np.array(np.broadcast_to(slope, v.shape)))
    quotient = x / y
    moved = steps(quotient, np.asarray((np.abs(quotient) * ey + ex) / np.maximum(np.abs(y) - ey, _LEAST)), np.floor)
    return np.asarray(moved if op == "floor_div" else ex + np.abs(quotient) * ey + np.abs(y) * moved)


def beyond(op: str, x: Array, y: Array) -> Array | None:
    """Where a quotient is too large to be rounded down exactly; None for a power."""
    return None if op == "pow" else np.asarray(np.abs(x / y) >= LARGEST_QUOTIENT)


def doubt_of_two(value: Array, exact: Array, near: Array) -> tuple[Array, Array]:
    """(loose, unsure) of a result. What is computed of `exact` operands is sure; special results of others, and those of what may be zero
    (`near`), are not."""
    return (~np.isfinite(value) | near) & ~exact, (value == 0) & ~exact
