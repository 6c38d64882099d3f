"""Memory of realised tensors: on the host as NumPy arrays, on other devices as handles; counted, capped and named."""

from __future__ import annotations

import threading
import weakref
from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.errors import TilewrightError, UsageError
from .lines import Line, show

if TYPE_CHECKING:
    import numpy as np

    from .maps import Shape

    Array = np.ndarray[Any, Any]


class TensorMemoryError(TilewrightError, MemoryError):
    """There is no room for a tensor; the text lists the largest live ones and the lines that made them."""


class TensorBuffer:
    """Row-major elements of one tensor. `array`: the host's view, for devices that use its memory. `range`: the
    inclusive range that integer elements were declared (and found) to lie in. `foreign`: memory that others made."""

    __slots__ = ("__weakref__", "array", "device", "dtype", "foreign", "line", "nbytes", "range", "shape")

    def __init__(
        self, array: Array, dtype: DType, device: str, line: Line, foreign: bool = False, range: tuple[int, int] | None = None
    ) -> None:
        self.array, self.dtype, self.device, self.line, self.foreign, self.range = array, dtype, device, line, foreign, range
        self.shape: Shape = tuple(array.shape)
        self.nbytes = prod(self.shape) * dtype.size

    @property
    def address(self) -> int:
        """Where the first element lies."""
        at: int = self.array.__array_interface__["data"][0]
        return at


class Account:
    """What live tensors hold, per process; an optional cap in bytes."""

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self.cap: int | None = None
        self._buffers: weakref.WeakSet[TensorBuffer] = weakref.WeakSet()
        self._lock = threading.Lock()

    def room(self, nbytes: int, line: Line) -> None:
        """Raise TensorMemoryError where `nbytes` more would pass the cap."""
        if self.cap is not None and self.live + nbytes > self.cap:
            raise TensorMemoryError(
                f"{mb(nbytes)} more would pass the cap of {mb(self.cap)}; live tensors hold {mb(self.live)}: {self.largest()}. "
                f"Free some of them (del, or a smaller batch), or raise the cap with tilewright.tensor.memory_cap"
            )

    def add(self, buffer: TensorBuffer) -> None:
        """Count a buffer until it dies."""
        with self._lock:
            self.live += buffer.nbytes
            self.peak = max(self.peak, self.live)
            self._buffers.add(buffer)
        weakref.finalize(buffer, self._drop, buffer.nbytes)

    def _drop(self, nbytes: int) -> None:
        with self._lock:
            self.live -= nbytes

    def largest(self, count: int = 5) -> str:
        """The largest live tensors with the lines that made them."""
        found = sorted(self._buffers, key=lambda b: -b.nbytes)[:count]
        return ", ".join(f"{b.dtype}{list(b.shape)} {mb(b.nbytes)} {show(b.line)}".rstrip() for b in found) or "none"


ACCOUNT = Account()


def mb(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes} bytes"


def new(shape: Shape, dtype: DType, device: str, line: Line) -> TensorBuffer:
    """Memory with undefined contents. Raises TensorMemoryError."""
    from ..plan import empty

    nbytes = prod(shape) * dtype.size
    ACCOUNT.room(nbytes, line)
    try:
        array = empty(shape, dtype.name)
    except (MemoryError, ValueError) as e:
        raise TensorMemoryError(f"no memory for {dtype}{list(shape)}, {mb(nbytes)}; live tensors: {ACCOUNT.largest()}") from e
    buffer = TensorBuffer(array, dtype, device, line)
    ACCOUNT.add(buffer)
    return buffer


def adopt(array: Array, dtype: DType, device: str, line: Line, range: tuple[int, int] | None = None) -> TensorBuffer:
    """An array of somebody else's, used where it lies: it must be row-major and aligned. Raises UsageError."""
    if not array.flags.c_contiguous:
        raise UsageError(f"the array is not contiguous in row-major order (strides {array.strides}); pass numpy.ascontiguousarray(x)")
    if array.dtype != dtype.np:
        raise UsageError(f"the array is {array.dtype}, not {dtype}")
    if range is not None and array.size and not (range[0] <= int(array.min()) and int(array.max()) <= range[1]):
        raise UsageError(f"elements lie in [{array.min()}, {array.max()}], outside of the declared range {list(range)}")
    buffer = TensorBuffer(array, dtype, device, line, True, range)
    ACCOUNT.add(buffer)
    return buffer
