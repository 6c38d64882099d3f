"""Arrays that begin on a cache line, as compiled kernels like them best."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError
from ..targets.free_memory import require_room

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LINE = 64
SMALL = 1 << 14
"""Bytes below which it does not matter, and NumPy alone is quicker."""


def empty(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """An uninitialised row-major array that begins at a multiple of 64 bytes. NumPy's own large arrays begin 16 bytes
    into a line: every whole vector of them lies on two, and stores past the caches are not possible. That costs
    little where memory is waited for, a tenth in caches and half or more of a transpose. `dtype`: what `numpy.dtype`
    takes, an element type, or a name such as "bfloat16"."""
    import numpy as np

    kind = _type(dtype)
    shape = tuple(map(index, shape)) if isinstance(shape, Sequence) else (index(shape),)
    size = prod(shape) * kind.itemsize
    if size < SMALL or min(shape) < 0:
        return np.empty(shape, kind)
    require_room(size, f"an array of {size} bytes")
    room = np.empty(size + LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % LINE
    return room[start : start + size].view(kind).reshape(shape)


def _type(dtype: Any) -> np.dtype[Any]:
    import numpy as np

    if isinstance(dtype, DType):
        return dtype.np
    if not isinstance(dtype, str):
        given: np.dtype[Any] = np.dtype(dtype)
        return given
    try:
        named: np.dtype[Any] = dtype_of(dtype).np
        return named
    except KernelError:
        with suppress(TypeError):
            return np.dtype(dtype)  # "f4", "double"
        raise
