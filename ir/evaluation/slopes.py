"""The error that a function's result inherits from its operand: by the function's slope, where that is steepest."""

from __future__ import annotations

import numpy as np

from .algebra import Array
from .npmath import exp_error

_LEAST = 2.0**-149


def inherited(op: str, at: tuple[Array, Array], e: Array, slack: float) -> Array:
    """The error of v = op(x), `at` = (x, v), of an x that is off by `e`. `slack`: what the bound will be multiplied by."""
    x, v = at
    if op in ("exp", "expm1"):
        return exp_error(v if op == "exp" else v + 1.0, e)
    if op in ("log", "log1p"):
        return np.asarray(e / np.maximum((np.abs(x) if op == "log" else 1.0 + x) - e, _LEAST))
    if op == "sqrt":
        return np.asarray(np.minimum(e / np.maximum(v, _LEAST), np.sqrt(e)))
    if op in ("sin", "cos"):
        return np.asarray(np.minimum(e, 2.0))
    if op == "atan":
        return np.asarray(e / (1.0 + _least(x, e, slack) ** 2))
    small = e.max(initial=0.0) < 1.0
    if op == "tanh":
        return np.asarray(e * np.minimum(1.0, 1.0 - v * v + e) if small else e * (1.0 - np.tanh(_least(x, e, slack)) ** 2))
    slope = 1.1284 * np.exp(-x * x) + e if small else 1.1284 * np.exp(-(_least(x, e, slack) ** 2))
    return np.asarray(e * (np.minimum(1.1284, slope) if small else slope))


def _least(x: Array, e: Array, slack: float) -> Array:
    """The smallest magnitude that a computed x may have, where functions that end flat are steepest."""
    return np.asarray(np.maximum(0.0, np.abs(x) - slack * e))
