"""Functions of NumPy arrays that `host` nodes call: sorting, searching, integer powers. None changes its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def integer_power(x: Array, y: Array) -> Array:
    """x^y of integers, wrapping. Raises UsageError for a negative exponent."""
    import numpy as np

    from ...ir.errors import UsageError

    if y.size and y.dtype.kind == "i" and int(y.min()) < 0:
        raise UsageError(f"pow of {x.dtype} by {int(y.min())}: integers have no negative powers; cast to a float type")
    out: Array = np.power(x, y)
    return out


def nextafter(x: Array, y: Array) -> Array:
    """The next number that x's type has, towards y."""
    import numpy as np

    out: Array = np.nextafter(x, y)
    return out


def sort(x: Array, axis: int, descending: bool) -> Array:
    """Sorted along an axis, NaN last; stable."""
    import numpy as np

    if not descending:
        return np.sort(x, axis=axis, kind="stable")
    out: Array = np.take_along_axis(x, argsort(x, axis, True), axis)
    return out


def argsort(x: Array, axis: int, descending: bool) -> Array:
    """The places that sort along an axis; equal elements keep their order, also when descending. NaN comes last in
    ascending order, and first in descending order."""
    import numpy as np

    if not descending:
        return np.argsort(x, axis=axis, kind="stable").astype(np.int64)
    back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    out: Array = np.flip(x.shape[axis] - 1 - back, axis).astype(np.int64)
    return out


def searchsorted(x: Array, v: Array, right: bool) -> Array:
    """Where elements of v go in the sorted x."""
    import numpy as np

    return np.asarray(np.searchsorted(x, v, side="right" if right else "left"), np.int64)
