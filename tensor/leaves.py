"""Nodes on memory that has values, and the values of nodes: the way between NumPy's arrays and the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from . import buffers
from .lines import user_line
from .node import TensorNode, make
from .promotion import DEFAULT_FLOAT
from .run import realise

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_count = iter(range(1 << 62))


def leaf(buffer: buffers.TensorBuffer) -> TensorNode:
    """A node on memory that has values."""
    node = make("buffer", (), next(_count), buffer.shape, buffer.dtype)
    node.data = buffer
    return node


def from_numpy(array: Array, dtype: DType | None = None, device: str = "cpu", range: tuple[int, int] | None = None) -> TensorNode:
    """A node on an array's own memory where it is row-major, aligned and of the type; else on a copy."""
    import numpy as np

    kind = dtype or dtype_of(str(array.dtype))
    array = np.require(array, kind.np, ["C", "A"]).reshape(array.shape)
    return leaf(buffers.adopt(array, kind, device, user_line(), range))


def from_data(data: Any, dtype: str | DType | None = None, device: str = "cpu", range: tuple[int, int] | None = None) -> TensorNode:
    """A node of an array, a list or a number. Floats of lists are float32, as no type was given."""
    import numpy as np

    array = np.asarray(data)
    kind = None if dtype is None else dtype_of(dtype)
    if kind is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        kind = DEFAULT_FLOAT
    return from_numpy(array, kind, device, range)


def values(x: TensorNode) -> Array:
    """The values of a node, computed now. Raises UsageError while a function is captured that gets it as an argument."""
    realise([x])
    array: Array = x.data.array
    return array
