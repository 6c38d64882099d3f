"""Arrays that begin on a cache line, as compiled kernels like them best."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import dtype as dtype_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LINE = 64
SMALL = 1 << 14
"""Bytes below which it does not matter, and NumPy alone is quicker."""


def empty(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """An uninitialised row-major array that begins at a multiple of 64 bytes. NumPy's own large arrays begin 16 bytes into a line: every whole vector of them
    lies on two, and stores past the caches are not possible. That costs little where memory is waited for, a tenth in caches and half or more of a
    transpose. `dtype`: what `numpy.dtype` takes, or a name such as "bfloat16"."""
    import numpy as np

    kind = dtype_of(dtype).np if isinstance(dtype, str) else np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = prod(shape) * kind.itemsize
    if size < SMALL:
        return np.empty(shape, kind)
    room = np.empty(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(kind).reshape(shape)
