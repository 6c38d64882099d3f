"""Memory of realised tensors: on the host as NumPy arrays, on other devices as handles; counted, capped and named."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.errors import MeasureError, TilewrightError, UsageError
from .account import ACCOUNT, TensorMemoryError, mb
from .devices import LEAST, host_room, release, rooms_of
from .lines import Line

if TYPE_CHECKING:
    import numpy as np

    from .devices import DeviceRooms
    from .maps import Shape

    Array = np.ndarray[Any, Any]


class Moves:
    """Counts how often a tensor's memory came to lie elsewhere: who keeps addresses looks for this."""

    def __init__(self) -> None:
        self.count = 0


MOVES = Moves()


class BufferCell:
    """Where captured functions find the buffer that a tensor has now."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: TensorBuffer) -> None:
        self.buffer = buffer


class TensorBuffer:
    """Row-major elements of one tensor. `range`: the inclusive range that integer elements were declared (and found) to
    lie in. `foreign`: memory that others made or see, which is never written in place. `cell`: where captured functions
    look for the buffer of a tensor that may be assigned to. `key`: what calls with it have in common: shape, type,
    device and range. `gone`: why it has no memory any more."""

    __slots__ = (
        "__weakref__", "_array", "_at", "_rooms", "cell", "device", "dtype", "foreign", "gone", "key", "line", "nbytes",
        "range", "shape", "used",
    )  # fmt: skip

    def __init__(
        self, array: Array | None, shape: Shape, dtype: DType, device: str, line: Line, foreign: bool = False,
        range: tuple[int, int] | None = None, handle: int = 0,
    ) -> None:  # fmt: skip
        self._array, self._at = array, handle
        self._rooms = rooms_of(device) if array is None else None
        self.shape, self.dtype, self.device, self.line, self.foreign, self.range = shape, dtype, device, line, foreign, range
        self.nbytes = prod(shape) * dtype.size
        self.cell: BufferCell | None = None
        self.used, self.gone = 0, ""
        self.key = (shape, dtype.name, device, range)
        if array is not None:
            self._at = array.__array_interface__["data"][0]

    @property
    def array(self) -> Array:
        """The values on the host: the memory itself, or a copy of what lies on a device."""
        if self._rooms is not None:
            return self.copied()
        if self._array is None:
            raise UsageError(self.gone)
        return self._array

    @property
    def address(self) -> int:
        """Where the first element lies; on a device with memory of its own a handle. What was evicted comes back."""
        if not self._at:
            if self.gone:
                raise UsageError(self.gone)
            self.prefetch()
        return self._at

    @property
    def evictable(self) -> bool:
        """Whether it lies on a device with memory of its own."""
        return self._rooms is not None and self._at != 0

    @property
    def evicted(self) -> bool:
        """Whether a device's tensor is on the host."""
        return not self._at

    def copied(self) -> Array:
        """A copy on the host. (The memory behind it is row-major and begins on a cache line.)"""
        from ..plan import empty

        out: Array = empty(self.shape, self.dtype.name)
        if self._rooms is None or not self._at:
            assert self._array is not None
            out[...] = self._array
        elif self.nbytes:
            self._rooms.read(self._at, out)
        return out

    def taken(self, why: str) -> TensorBuffer:
        """A buffer that has this one's memory from now on, in which new values were written. This one has none any more:
        whoever still reads it is told `why`."""
        new = TensorBuffer(self._array, self.shape, self.dtype, self.device, self.line, self.foreign, self.range, self._at)
        new.cell, new.used = self.cell, self.used
        if new.cell is not None:
            new.cell.buffer = new
        self._array, self._at, self._rooms, self.cell, self.gone = None, 0, None, None, why
        ACCOUNT.named(new)
        return new

    def evict(self) -> None:
        """Move a device's tensor to the host. It comes back where it is used. Nothing on devices that use the host's memory."""
        if self._rooms is None or not self._at:
            return
        array = self.copied()
        self._rooms.give(self._at, self.nbytes)
        self._array, self._at = array, 0
        ACCOUNT.moved(-self.nbytes)
        MOVES.count += 1

    def prefetch(self) -> None:
        """Move an evicted tensor back to its device. Raises TensorMemoryError."""
        if self._rooms is None or self._at:
            return
        ACCOUNT.room(self.nbytes, self.line)
        at = _handle(self._rooms, self.nbytes)
        assert self._array is not None
        if self.nbytes:
            self._rooms.write(at, self._array)
        self._array, self._at = None, at
        ACCOUNT.moved(self.nbytes)
        ACCOUNT.touch(self)
        MOVES.count += 1

    def __del__(self) -> None:
        array, rooms, handle = self._array, self._rooms, self._at
        if rooms is not None:
            if handle:
                rooms.give(handle, self.nbytes)
        elif not self.foreign and self.nbytes >= LEAST and array is not None:
            release(array, self.nbytes)
        ACCOUNT.dead.append((id(self), 0 if not handle else self.nbytes))


def new(shape: Shape, dtype: DType, device: str, line: Line, range: tuple[int, int] | None = None) -> TensorBuffer:
    """Memory with undefined contents. Raises TensorMemoryError."""
    import numpy as np

    nbytes = prod(shape) * dtype.size
    if ACCOUNT.cap is not None:
        ACCOUNT.room(nbytes, line)
    try:
        rooms = rooms_of(device)
        if rooms is not None:
            buffer = TensorBuffer(None, shape, dtype, device, line, False, range, _handle(rooms, nbytes))
            ACCOUNT.touch(buffer)
        elif nbytes < LEAST:
            buffer = TensorBuffer(np.empty(shape, dtype.np), shape, dtype, device, line, False, range)
        else:
            buffer = TensorBuffer(host_room(nbytes).view(dtype.np).reshape(shape), shape, dtype, device, line, False, range)
    except (MemoryError, ValueError, MeasureError) as e:
        if isinstance(e, TilewrightError) and not isinstance(e, MeasureError):
            raise
        raise TensorMemoryError(f"no memory for {dtype}{list(shape)}, {mb(nbytes)}; live tensors: {ACCOUNT.largest()}") from e
    ACCOUNT.add(buffer)
    return buffer


def _handle(rooms: DeviceRooms, nbytes: int) -> int:
    try:
        return rooms.take(nbytes)
    except MeasureError:
        if not ACCOUNT.evicting:
            raise
        ACCOUNT.relieve(nbytes)
        return rooms.take(nbytes)


def adopt(array: Array, dtype: DType, device: str, line: Line, range: tuple[int, int] | None = None) -> TensorBuffer:
    """An array of somebody else's, used where it lies: it must be row-major and aligned. Devices with memory of their own
    get a copy. Raises UsageError."""
    if not array.flags.c_contiguous:
        raise UsageError(f"the array is not contiguous in row-major order (strides {array.strides}); pass numpy.ascontiguousarray(x)")
    if array.dtype != dtype.np:
        raise UsageError(f"the array is {array.dtype}, not {dtype}")
    if range is not None and array.size and not (range[0] <= int(array.min()) and int(array.max()) <= range[1]):
        raise UsageError(f"elements lie in [{array.min()}, {array.max()}], outside of the declared range {list(range)}")
    rooms = rooms_of(device)
    if rooms is not None:
        buffer = new(array.shape, dtype, device, line, range)
        if array.nbytes:
            rooms.write(buffer.address, array)
        return buffer
    buffer = TensorBuffer(array, tuple(array.shape), dtype, device, line, True, range)
    ACCOUNT.add(buffer)
    return buffer


def fill(buffer: TensorBuffer, values: Any) -> None:
    """Write values (an array of the buffer's shape, or what NumPy broadcasts to it) into memory of our own."""
    import numpy as np

    if buffer._rooms is None:
        buffer.array[...] = values
    elif buffer.nbytes:
        array = np.ascontiguousarray(np.broadcast_to(np.asarray(values), buffer.shape), buffer.dtype.np)
        buffer._rooms.write(buffer.address, array)
