"""Nodes on memory that has values, and the values of nodes: the way between NumPy's arrays and the graph."""

from __future__ import annotations

from functools import cache
from numbers import Number
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType, DTypeLike
from ..ir.errors import TilewrightError, UsageError
from ..plan.array_arguments import masked
from .graph.captured_numbers import captured, plain
from .graph.nodes import TensorNode
from .graph.nodes import leaf as bare_leaf
from .graph.primitives import const, number_of
from .graph.promotion import default_float, default_of, dtype_of
from .graph.source_lines import user_line, with_line
from .running import buffers
from .running.current_capture import thread
from .running.realise import realise

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def leaf(buffer: buffers.TensorBuffer) -> TensorNode:
    """A node on memory that has values. While a function is captured, it is one of those made there."""
    node = bare_leaf(buffer)
    if thread.capture is not None:
        thread.capture.table["leaf", node.arg] = node
    return node


def as_array(data: Any) -> Array:
    """What NumPy makes of `data`, in this machine's byte order. Raises UsageError for what is no array, and for masked
    arrays, whose masks would be lost."""
    import numpy as np

    if masked(data):
        raise with_line(UsageError("a masked array, whose mask would be lost: pass x.filled(value), and the mask as a tensor of its own"))
    try:
        array: Array = np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as e:  # (PyTorch's of a tensor that has a gradient)
        raise with_line(UsageError(f"a {type(data).__name__} that is no array of numbers: {e}")) from e
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def no_matrix(x: Any) -> None:
    """Raises UsageError for NumPy's matrices as operands: their * and ** are products of matrices, and sums keep their dimensions."""
    import numpy as np

    if isinstance(x, np.matrix):
        raise with_line(UsageError("a matrix, whose * and ** are other operations than an array's: pass np.asarray(x)"))


def from_numpy(array: Array, dtype: DType | None = None, device: str = "cpu", range: tuple[int, int] | None = None) -> TensorNode:
    """A node on an array's own memory where it is row-major, aligned and of the type; else on a copy."""
    import numpy as np

    if dtype is None and array.dtype.kind in "OUS":
        x = array.ravel()[0] if array.size else ""
        if array.dtype.kind != "O" or not (array.shape or isinstance(x, Number)):
            what = f"Value {str(x)!r:.60}" if isinstance(x, (str, bytes)) else f"a {type(x).__name__}"
            raise with_line(UsageError(f"{what} is no number, and no array of numbers"))
        raise UsageError(
            "an array of objects: its elements are no numbers, of different kinds, or too large; pass a dtype, or convert it with x.astype(float)"
        )
    kind = dtype or dtype_of(str(array.dtype))
    if dtype is None and kind.foreign and array.dtype != kind.np:
        raise UsageError(f"an array of ml_dtypes' {array.dtype}, which is another type than {kind}: convert it with .astype({kind.np})")
    try:
        array = np.require(array, kind.np, ["C", "A"]).reshape(array.shape)
    except (TypeError, ValueError, OverflowError) as e:
        raise UsageError(f"an array of {array.dtype} that cannot become {kind}: {e}") from e
    return leaf(buffers.adopt(array, kind, device, user_line(), range))


def shares(x: Any) -> bool:
    """Whether something has memory whose elements have a type: an array, or what has the buffer protocol (but text of bytes)."""
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return True
    if isinstance(x, (list, tuple, int, float, complex, bytes, str)):
        return False
    try:
        return memoryview(x).nbytes >= 0
    except TypeError:
        return False


def of_others(x: Any) -> bool:
    """Whether what is no tensor becomes an array where NumPy asks for one: a tensor of PyTorch's, a data frame."""
    kind = type(x)
    return (hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")) and not (isinstance(x, type) or captured(x))


def gpu_of(x: Any) -> str:
    """The device that another library's array lies on, where that is an NVIDIA GPU and it says so by DLPack, or where it is pyopencl's;
    else ''."""
    if type(x).__module__.startswith("pyopencl"):
        from ..devices.opencl import device_of

        return device_of(x)
    kind, index = x.__dlpack_device__() if hasattr(type(x), "__dlpack_device__") else (0, 0)
    return "" if kind != _CUDA else f"cuda:{index}" if index else "cuda"


def lent(x: Any, device: str) -> TensorNode:
    """A node on another library's array in a device's memory, where it lies. Raises UsageError."""
    buffer = buffers.lend(x, device, user_line())
    if buffer is None:
        raise UsageError(
            f"a {type(x).__name__} lies on {gpu_of(x)}, and {device} has no part in that: leave the device out, or give that one"
        )
    return leaf(buffer)


_CUDA = 2
"""kDLCUDA of DLPack."""


def from_data(data: Any, dtype: DTypeLike | None = None, device: str = "cpu", range: tuple[int, int] | None = None) -> TensorNode:
    """A node of an array, a list or a number. Floats of lists are float32, as no type was given."""
    if dtype is None and range is None and type(data) is array_class():
        return array_leaf(data, device)
    return _from_data(data, dtype, device, range)


def array_leaf(array: Array, device: str) -> TensorNode:
    """A node on an array of NumPy's own class, which is looked at closely unless one that looks alike was before."""
    buffer = buffers.known_look(array, device, user_line())
    if buffer is not None:
        return leaf(buffer)
    node = _from_data(array, None, device, None)
    buffers.remember_look(array, node.data)
    return node


@cache
def array_class() -> Any:
    """NumPy's own arrays."""
    import numpy as np

    return np.ndarray


def _from_data(data: Any, dtype: DTypeLike | None, device: str, range: tuple[int, int] | None) -> TensorNode:
    import numpy as np

    if captured(data):
        if dtype is None and range is None:
            return const(data, default_of(data))
        data = plain(data)
    if gpu_of(data):
        raise UsageError(f"this {type(data).__name__} lies on a device: xp.asarray(x) and jit take it where it lies; or copy it to NumPy")
    try:
        array = as_array(data)
        kind = None if dtype is None else dtype_of(dtype)
        if not shares(data):
            if kind is None and array.dtype == np.float64:
                array = _whole(data, array)
                kind = default_float() if array.dtype == np.float64 else None
            if kind is not None and array.dtype.kind in "iu" and array.size:
                number_of(array.min(), kind), number_of(array.max(), kind)
        return from_numpy(array, kind, device, range)
    except TilewrightError as e:
        raise with_line(e) from e.__cause__


def _whole(data: Any, array: Array) -> Array:
    """What NumPy made of whole numbers beside others of 2⁶³ and more, which is floats, as an array of uint64."""
    import numpy as np

    if not array.size or not array.max() >= 2.0**63:
        return array
    exact = np.asarray(data, object)
    if not all(type(x) is int for x in exact.flat):
        return array
    if min(exact.flat) < 0:
        raise UsageError(f"whole numbers from {min(exact.flat)} to {max(exact.flat)}: no integer type has all; pass a dtype")
    return exact.astype(np.uint64)


def values(x: TensorNode) -> Array:
    """The values of a node, computed now. Raises UsageError while a function is captured that gets it as an argument."""
    realise([x])
    array: Array = x.data.array
    return array
