"""Memory of a device that the host cannot address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..ir.dtypes import DType
from ..ir.errors import UsageError

SPECIAL, FREE, SIGNED = 1, 2, 4
"""Flags of an element that is compared: by kind, for it is not finite in its type; not at all; as a zero with a sign."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`count` elements of `dtype` at handle `result`, to be compared with those at `value`: float64 for floats, else the same type.

    An element's error is |result − value| · weight (`weight`: handle of float32s; 0: 0 where equal, else 2; floats have
    weights). Of floats, an infinite result where the value is finite counts as `overflow`, what rounds to infinity; NaN
    and errors above `most` are `most`. `flags`: handle of a byte an element (SPECIAL, FREE, SIGNED), or 0."""

    dtype: DType
    count: int
    result: int
    value: int
    weight: int = 0
    flags: int = 0
    overflow: float = float("inf")
    most: float = 1e30


@dataclass(frozen=True, slots=True)
class Found:
    """The largest error, the first element that has it (-1 where all are 0), how many errors are above 1, and how many of those
    elements are floats of 0xFF bytes."""

    worst: float
    at: int
    bad: int
    untouched: int


class Memory(ABC):
    """Buffers of a device. A handle is a positive int that stands for a buffer's first byte, and is what
    `Executable.run` takes for a pointer. Sizes are bytes, `address` is host memory. Every call is complete when it
    returns. Raises MeasureError where the device has no room or is lost."""

    compares: bool = False
    """Whether it has `copy` and `compare`, so that results need not travel to the host to be checked."""
    margin: int = 0
    """So many bytes before every buffer are its own too: `write`, `read` and `fill` reach them by negative offsets."""

    def prepare(self) -> None:
        """Compile and load what timing needs, so that no candidate's time goes into that."""
        return

    @abstractmethod
    def alloc(self, nbytes: int) -> int:
        """A new buffer of at least `nbytes` bytes, aligned to 128 or more, with undefined contents."""

    @abstractmethod
    def free(self, handle: int) -> None:
        """Release a buffer."""

    @abstractmethod
    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        """Copy host memory to byte `offset` of a buffer."""

    @abstractmethod
    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        """Copy from byte `offset` of a buffer to host memory."""

    @abstractmethod
    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        """Set `nbytes` bytes of a buffer from `offset` on to one value."""

    def sound(self) -> bool:
        """After an error: whether this process can go on with the device (False: nobody can say)."""
        return False

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy `nbytes` bytes of one buffer to another."""
        raise UsageError("this memory copies through the host")

    def compare(self, c: Comparison) -> Found:
        """Compare on the device. Raises DeviceError for an element type that it cannot."""
        raise UsageError("this memory is compared on the host")
