"""Memory of realised tensors: on the host as NumPy arrays, on other devices as handles; counted, capped, and named in errors with the lines
that made it."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from ctypes import c_char
from functools import cache
from math import prod
from struct import calcsize
from typing import TYPE_CHECKING, Any

from ...devices.once import process_lock
from ...ir.dtypes import DType
from ...ir.dtypes import dtype as type_of
from ...ir.errors import MeasureError, TilewrightError, UsageError
from ...plan.array_arguments import address
from ..graph.source_lines import Line, show
from .pools import COUNTED, POOLED_FROM, SOLE_REFERENCES, LentRoom, SharedRoom, host_array, is_room, release, rooms_of

if TYPE_CHECKING:
    import numpy as np

    from ..graph.index_maps import Shape
    from .pools import DeviceRooms

    Array = np.ndarray[Any, Any]


class TensorMemoryError(TilewrightError, MemoryError):
    """There is no room for a tensor; the text lists the largest live ones and the lines that made them."""


class Account:
    """What live tensors hold, per process; an optional cap in bytes. The largest are known by name, small ones by their
    bytes. `evicting`: whether tensors on devices go to the host at the cap, those first that were used longest ago."""

    def __init__(self) -> None:
        self._held = self._peak = 0
        self.cap: int | None = None
        self.evicting = False
        self.notes: deque[int] = deque()
        self._buffers: dict[int, weakref.ref[Any]] = {}
        self._lock = process_lock()
        self._clock = 0

    @property
    def live(self) -> int:
        """Bytes that live tensors hold now."""
        self.settle()
        return self._held

    @property
    def peak(self) -> int:
        """The most bytes that they held."""
        self.settle()
        return self._peak

    @peak.setter
    def peak(self, nbytes: int) -> None:
        self.settle()
        self._peak = nbytes

    def settle(self) -> None:
        """Add up the notes: bytes that came, or went (negative). Finalisers run anywhere, so all that they do is leave one."""
        with self._lock:
            while self.notes:
                self._held += self.notes.popleft()
                if self._held > self._peak:
                    self._peak = self._held

    def room(self, nbytes: int, line: Line) -> None:
        """Raise TensorMemoryError where `nbytes` more would pass the cap."""
        if self.cap is None or self.live + nbytes <= self.cap:
            return
        if self.evicting:
            self.relieve(self.live + nbytes - self.cap)
        if self.live + nbytes > self.cap:
            raise TensorMemoryError(
                f"{mb(nbytes)} more{self._for(line)} would pass the cap of {mb(self.cap)}; live tensors hold {mb(self.live)}: "
                f"{self.largest()}. Free some of them (del, or a smaller batch), or raise the cap with tilewright.memory_cap"
            )

    @staticmethod
    def _for(line: Line) -> str:
        return f" (for {show(line)})" if line[0] else ""

    def relieve(self, nbytes: int) -> None:
        """Evict tensors of devices until so many bytes are free, if there are as many."""
        known = [b for r in list(self._buffers.values()) if (b := r()) is not None and b.evictable]
        for buffer in sorted(known, key=lambda b: b.used):
            if nbytes <= 0:
                return
            nbytes -= buffer.nbytes
            buffer.evict()

    def add(self, buffer: Any) -> None:
        """Count a buffer until it dies."""
        notes = self.notes
        notes.append(buffer.nbytes)
        if buffer.nbytes >= POOLED_FROM:
            self._buffers[id(buffer)] = weakref.ref(buffer)
        if len(notes) > 1024:
            self.settle()

    def named(self, buffer: Any) -> None:
        """A buffer has taken the memory of one that was counted."""
        if buffer.nbytes >= POOLED_FROM:
            self._buffers[id(buffer)] = weakref.ref(buffer)

    def unname(self, buffer: Any) -> None:
        """A buffer dies."""
        self._buffers.pop(id(buffer), None)

    def moved(self, nbytes: int) -> None:
        """So many bytes came to the device, or left it."""
        self.notes.append(nbytes)

    def touch(self, buffer: Any) -> None:
        """A buffer was used."""
        self._clock += 1
        buffer.used = self._clock

    def largest(self, count: int = 5) -> str:
        """The largest live tensors with the lines that made them."""
        live = [b for r in list(self._buffers.values()) if (b := r()) is not None]
        found = sorted(live, key=lambda b: -b.nbytes)[:count]
        return ", ".join(f"{b.dtype}{list(b.shape)} {mb(b.nbytes)} {show(b.line)}".rstrip() for b in found) or "none"


ACCOUNT = Account()


def memory_cap(nbytes: int | None, evict: bool = False) -> None:
    """The most bytes that tensors may hold together (None: as many as there are). At the cap an operation raises
    TensorMemoryError, which lists the largest live tensors and the lines that made them. With `evict`, tensors on
    devices with memory of their own go to the host before that, those first that were used longest ago."""
    if nbytes is not None and nbytes < 0:
        raise UsageError(f"a cap of {nbytes} bytes: give a number of bytes from 0 on, or None for no cap")
    ACCOUNT.cap, ACCOUNT.evicting = nbytes, evict


def mb(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes} bytes"


class Moves:
    """Counts how often a tensor's memory came to lie elsewhere: who keeps addresses looks for this."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = process_lock()

    def moved(self) -> None:
        """Count one more."""
        with self._lock:
            self.count += 1


MOVES = Moves()


class BufferCell:
    """Where captured functions find the buffer that a tensor has now. `functions`: those whose calls go the quick way."""

    __slots__ = ("buffer", "functions")

    def __init__(self, buffer: TensorBuffer) -> None:
        self.buffer = buffer
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()

    def look_again(self) -> None:
        """The functions' next calls go the long way: more is to be known of the tensor than where it lies."""
        for function in list(self.functions):
            function.readers = ()


class BufferKind:
    """What calls with a buffer have in common: shape, name of the type, device and range. Equal kinds are one object, so that they are
    compared by identity."""

    __slots__ = ("__weakref__", "device", "dtype", "range", "shape")

    def __init__(self, shape: Shape, dtype: str, device: str, range: tuple[int, int] | None) -> None:
        self.shape, self.dtype, self.device, self.range = shape, dtype, device, range

    @staticmethod
    def of(shape: Shape, dtype: str, device: str, range: tuple[int, int] | None = None) -> BufferKind:
        """The kind with these fields."""
        key = shape, dtype, device, range
        found = _kinds.get(key)
        if found is None:
            with _kinds_lock:
                found = _kinds.get(key)
                if found is None:
                    found = _kinds[key] = BufferKind(*key)
        return found


_kinds: weakref.WeakValueDictionary[tuple[Any, ...], BufferKind] = weakref.WeakValueDictionary()
_kinds_lock = process_lock()


class BufferSpec:
    """What all buffers of one place of a call have in common."""

    __slots__ = ("device", "dtype", "kind", "line", "nbytes", "np", "range", "rooms", "shape")

    def __init__(self, shape: Shape, dtype: DType, device: str, line: Line, range: tuple[int, int] | None = None) -> None:
        self.shape, self.dtype, self.device, self.line, self.range = shape, dtype, device, line, range
        self.nbytes = prod(shape) * dtype.size
        self.np = dtype.np
        self.kind = BufferKind.of(shape, dtype.name, device, range)
        self.rooms = rooms_of(device)

    def sized(self, shape: Shape) -> BufferSpec:
        """The same of another shape."""
        new = BufferSpec.__new__(BufferSpec)
        new.shape, new.dtype, new.device, new.line, new.range, new.np, new.rooms = (
            shape, self.dtype, self.device, self.line, self.range, self.np, self.rooms,
        )  # fmt: skip
        new.nbytes, new.kind = prod(shape) * self.dtype.size, BufferKind.of(shape, self.dtype.name, self.device, self.range)
        return new


class TensorBuffer:
    """Elements of one tensor, row-major as everybody sees them. `range`: the inclusive range that integer elements were declared (and found) to
    lie in. `foreign`: memory that others made or see, which is never written in place. `given`: somebody got it as an array. `cell`: where captured functions
    look for the buffer of a tensor that may be assigned to. `kind`: what calls with it have in common. `gone`: why it has
    no memory any more."""

    foreign = given = False
    cell: BufferCell | None = None
    used = 0
    gone = ""
    line: Line = ("", 0)
    _rooms: DeviceRooms | None = None

    def __init__(self, spec: BufferSpec, array: Array | None, at: int) -> None:
        """`array`: the memory on the host. `at`: its address (0: found when it is asked for), or the device's handle."""
        self.line = spec.line
        self.spec, self._array, self._at, self.kind, self.nbytes = spec, array, at, spec.kind, spec.nbytes
        if spec.rooms is not None:
            self._rooms = spec.rooms

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self.spec.dtype

    @property
    def device(self) -> str:
        """Where it lies."""
        return self.spec.device

    @property
    def range(self) -> tuple[int, int] | None:
        """What integer elements lie in."""
        return self.spec.range

    @property
    def array(self) -> Array:
        """The values on the host: the memory itself, or a copy of what lies on a device."""
        if self._rooms is not None:
            return self.copied()
        self.in_order()
        assert self._array is not None
        return self._array

    def in_order(self) -> None:
        """Make the memory row-major, of what NumPy computed in another order. Raises UsageError where there is none any more."""
        if self._array is None:
            raise UsageError(self.gone)
        if not self._array.flags.c_contiguous:
            self._array = self._array.copy(order="C")

    @property
    def address(self) -> int:
        """Where the first element lies; on a device with memory of its own a handle. What was evicted comes back."""
        if not self._at:
            if self.gone:
                raise UsageError(self.gone)
            if self._rooms is None:
                self._at = address(self.array)
            else:
                self.prefetch()
        return self._at

    @property
    def evictable(self) -> bool:
        """Whether it lies on a device with memory of its own, which nobody else sees."""
        return self._rooms is not None and self._at != 0 and not self.foreign

    @property
    def evicted(self) -> bool:
        """Whether a device's tensor is on the host."""
        return self._rooms is not None and not self._at

    @property
    def seen(self) -> bool:
        """Whether somebody else may see the memory: another tensor, an array of NumPy's or of the user's. (Counted are the buffer's reference,
        the name here, and the count's own.)"""
        array = self._array
        if self.foreign or array is None or self._rooms is not None:
            return self.foreign
        base: Any = array.base
        return not COUNTED or sys.getrefcount(array) > SOLE_REFERENCES or (base is not None and sys.getrefcount(base) > SOLE_REFERENCES)

    def interface(self) -> dict[str, Any]:
        """The memory by the CUDA array interface, which others may write from now on. Raises AttributeError where it is no GPU's."""
        told = self._rooms.memory.interface(self.address) if self._rooms is not None else None
        if told is None:
            raise AttributeError(f"a tensor on {self.device} has no __cuda_array_interface__: its memory is no NVIDIA GPU's")
        self.foreign = True
        return {"shape": self.shape, "typestr": self.spec.np.str, "strides": None, **told}

    def exported(self) -> Any:
        """The memory as an array of pyopencl's, which others may write from now on. Raises UsageError where it is no OpenCL device's."""
        made = None if self._rooms is None else self._rooms.exported(self.address, self.shape, self.spec.np)
        if made is None or self._rooms is None:
            raise UsageError(f"a tensor on {self.device} is no array of pyopencl's: x.to('opencl') is one")
        if not self.foreign:
            self._rooms, self.foreign = SharedRoom(self._rooms, self.address), True
        return made

    def copied(self) -> Array:
        """A copy on the host. (The memory behind it is row-major and begins on a cache line.)"""
        from ...plan import empty

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
        new = TensorBuffer(self.spec, self._array, self._at)
        new.cell, new.used, new.foreign, new._rooms = self.cell, self.used, self.foreign, self._rooms
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
        MOVES.moved()

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
        MOVES.moved()

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():  # names of modules are gone
            return
        at, nbytes = self._at, self.nbytes
        if nbytes >= POOLED_FROM:
            ACCOUNT.unname(self)
            if self._rooms is not None:
                if at:
                    self._rooms.give(at, nbytes)
            elif not self.foreign and self._array is not None:
                array, self._array = self._array, None
                ACCOUNT.notes.append(-nbytes)
                release(array, nbytes)
                return
        elif self._rooms is not None and at:
            self._rooms.give(at, nbytes)
        if at or (self._array is not None and self._rooms is None):
            ACCOUNT.notes.append(-nbytes)


def new(shape: Shape, dtype: DType, device: str, line: Line, range: tuple[int, int] | None = None) -> TensorBuffer:
    """Memory with undefined contents. Raises TensorMemoryError."""
    return made(BufferSpec(shape, dtype, device, line, range))


def made(spec: BufferSpec, array_of: Callable[..., Array] = host_array) -> TensorBuffer:
    """Memory with undefined contents; with what `array_of` fills it with, where it is the host's and long. Raises TensorMemoryError."""
    nbytes = spec.nbytes
    if ACCOUNT.cap is not None:
        ACCOUNT.room(nbytes, spec.line)
    try:
        if spec.rooms is not None:
            buffer = TensorBuffer(spec, None, _handle(spec.rooms, nbytes))
            ACCOUNT.touch(buffer)
        else:
            array = _empty()(spec.shape, spec.np) if nbytes < POOLED_FROM else array_of(spec.shape, spec.np, nbytes)
            buffer = TensorBuffer(spec, array, 0)
    except (MemoryError, ValueError, MeasureError) as e:
        what = f"no memory for {spec.dtype}{list(spec.shape)}, {mb(nbytes)}"
        raise TensorMemoryError(f"{what}; live tensors: {ACCOUNT.largest()}") from e
    ACCOUNT.add(buffer)
    return buffer


@cache
def _empty() -> Any:
    import numpy as np

    return np.empty


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
    return _on(BufferSpec(tuple(array.shape), dtype, device, line, range), array)


def lend(x: Any, device: str, line: Line) -> TensorBuffer | None:
    """Another library's array in a device's memory, used where it lies; None where it lies elsewhere. Raises UsageError."""
    rooms = rooms_of(device)
    found = None if rooms is None else rooms.memory.arrays([x])
    if rooms is None or found is None:
        return None
    ((shape, dtype, _),) = found.looks
    if shape is None:
        raise UsageError(f"a {type(x).__name__} has no shape: give an array of it")
    spec = BufferSpec(shape, type_of(str(dtype)), device, line)
    (at,) = found.handles()
    if not at:  # an array without elements
        return made(spec)
    buffer = TensorBuffer(spec, None, at)
    buffer._rooms, buffer.foreign = LentRoom(rooms, at, x), True
    ACCOUNT.add(buffer)
    return buffer


def _on(spec: BufferSpec, array: Array) -> TensorBuffer:
    if spec.rooms is not None:
        buffer = made(spec)
        if array.nbytes:
            spec.rooms.write(buffer.address, array)
        return buffer
    buffer = TensorBuffer(spec, array, 0)
    buffer.foreign = True
    ACCOUNT.add(buffer)
    return buffer


_specs: dict[tuple[Any, ...], BufferSpec] = {}
_SPECS = 4096
"""Looks of arrays that are remembered."""


def known_look(array: Array, device: str, line: Line) -> TensorBuffer | None:
    """An array of NumPy's own class, used where it lies, if one that looks alike was adopted before (`remember_look`); None where it
    must be looked at."""
    spec = _specs.get((array.dtype, array.shape, device))
    if spec is None or spec.rooms is not None:
        return None
    flags = array.flags
    if not flags.c_contiguous or not flags.aligned:
        return None
    buffer = TensorBuffer(spec, array, 0)
    buffer.line, buffer.foreign = line, True
    ACCOUNT.add(buffer)
    return buffer


def remember_look(array: Array, buffer: TensorBuffer) -> None:
    """`buffer` is what an array became, whatever its values."""
    if buffer.range is None and buffer.dtype.np == array.dtype:
        if len(_specs) >= _SPECS:
            _specs.clear()
        _specs[array.dtype, array.shape, buffer.device] = buffer.spec


_LONG = 8 * calcsize("l")
TYPES = [type_of(name) for name in (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", f"int{_LONG}", f"uint{_LONG}", "int64", "uint64", "float32", "float64",
)]  # fmt: skip
"""Types by NumPy's numbers of them."""


def small(array: Array) -> bool:
    """Whether an array may be a tensor's that has no node yet: it is not counted as long."""
    kind = array.dtype
    return kind.num < len(TYPES) and kind.isnative and array.nbytes < POOLED_FROM and array.flags.aligned and ACCOUNT.cap is None


def computed(array: Array) -> TensorBuffer:
    """An array that NumPy made, as a tensor's memory: rows follow each other once somebody asks for it. A part of another array's is never
    written in place."""
    if not array.flags.writeable and array.flags.c_contiguous:
        array = array.copy()  # (NumPy's broadcasts and diagonals)
    spec = _specs.get((array.dtype, array.shape, "cpu"))
    if spec is None or ACCOUNT.cap is not None:
        ACCOUNT.room(array.nbytes, ("", 0))
        spec = BufferSpec(array.shape, TYPES[array.dtype.num], "cpu", ("", 0))
        if len(_specs) < _SPECS:
            _specs[array.dtype, array.shape, "cpu"] = spec
    buffer = TensorBuffer(spec, array, 0)
    buffer.foreign = not (is_room(array) if buffer.nbytes >= POOLED_FROM else array.flags.owndata)
    ACCOUNT.add(buffer)
    return buffer


def adopted(spec: BufferSpec, at: int) -> TensorBuffer:
    """Memory of the host that somebody else keeps, by its address: row-major elements of the spec's shape and type."""
    import numpy as np

    room = np.frombuffer(memoryview((c_char * spec.nbytes).from_address(at)), np.uint8) if spec.nbytes else np.empty(0, np.uint8)
    buffer = TensorBuffer(spec, room.view(spec.np).reshape(spec.shape), at)
    buffer.foreign = True
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
