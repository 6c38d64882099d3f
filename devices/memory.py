"""Memory of a device that the host cannot address."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Memory(ABC):
    """Buffers of a device. A handle is a positive int that stands for a buffer's first byte, and is what
    `Executable.run` takes for a pointer. Sizes are bytes, `address` is host memory. Every call is complete when it
    returns. Raises MeasureError where the device has no room or is lost."""

    margin: int = 0
    """So many bytes before every buffer are its own too: `write`, `read` and `fill` reach them by negative offsets."""

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
