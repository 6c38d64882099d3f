"""A file as memory: what lies in it is used where it lies, and nothing outside of it is ever touched."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import threading
from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from ..ir.errors import UsageError

Array = np.ndarray[Any, Any]

SHOWN = 120
"""Characters of a file's own text that a message shows."""


def shown(text: object) -> str:
    """A file's text in a message: printable, and not too long."""
    told = repr(text)
    return told if len(told) <= SHOWN else told[: SHOWN - 3] + "..."


def _mapped(file: int) -> mmap.mmap:
    try:
        return mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
    except OSError as e:
        if e.errno != errno.ENOMEM:
            raise
        return mmap.mmap(
            file, 0, access=mmap.ACCESS_READ
        )  # larger than memory: it can be looked at, but copies of all pages could not be had


def zero_pages(shape: Sequence[int], dtype: Any) -> Array:
    """Zeros in pages of their own, which take memory as they are written: in small ones, for an array that is written here and there. Of huge
    pages these would soon be all."""
    kind = np.dtype(dtype)
    room = mmap.mmap(-1, max(1, prod(shape) * kind.itemsize), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # only a hint, which systems without huge pages refuse
            room.madvise(mmap.MADV_NOHUGEPAGE)
    found: Array = np.frombuffer(room, np.uint8)[: prod(shape) * kind.itemsize].view(kind).reshape(shape)
    return found


class Room:
    """Memory for what is copied out of a file: arrays begin on cache lines, in blocks so large that the system can use huge pages. A block is
    given back with the last of its arrays."""

    BLOCK, LINE, SMALL = 64 << 20, 64, 1 << 16

    def __init__(self) -> None:
        self._left, self._lock = np.empty(0, np.uint8), threading.Lock()

    def empty(self, count: int, dtype: Any) -> Array:
        """An array with undefined contents."""
        kind = np.dtype(dtype)
        nbytes = count * kind.itemsize
        with self._lock:
            if nbytes > len(self._left):
                block = np.empty(max(nbytes, self.BLOCK) + self.LINE, np.uint8)
                self._left = block[-block.ctypes.data % self.LINE :]
            found, self._left = self._left[:nbytes], self._left[-(-nbytes // self.LINE) * self.LINE :]
        return found.view(kind)

    def copied(self, array: Array) -> Array:
        """An array's contents here; the array itself where it is small, which would hold a block for little."""
        if array.nbytes < self.SMALL:
            return array
        found = self.empty(array.size, array.dtype).reshape(array.shape)
        found[...] = array
        return found


class MappedFile:
    """A file's bytes, mapped: pages are read when they are used, and what is written to them stays in this process. `at` is where the next
    number is read. Everything raises UsageError with the file's name where the file ends too early."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            if not os.path.isfile(self.path):
                raise UsageError(f"{self.path} is no file" if os.path.exists(self.path) else f"there is no file {self.path}")
            with open(self.path, "rb") as f:
                self.size = os.fstat(f.fileno()).st_size
                self.memory: Any = _mapped(f.fileno()) if self.size else b""
        except OSError as e:
            raise UsageError(f"cannot read {self.path}: {e.strerror or e}") from e
        self.at = 0
        self.room = Room()

    def wrong(self, what: str) -> NoReturn:
        """Raise the error that says what is wrong with this file."""
        raise UsageError(f"{self.path}: {what}")

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        if self.at < 0 or count > self.size - self.at:
            self.wrong(f"{count} bytes should follow byte {self.at}, and the file has {self.size} in all: it is cut short or damaged")
        self.at += count
        return bytes(self.memory[self.at - count : self.at])

    def numbers(self, form: str) -> tuple[Any, ...]:
        """The next numbers, as `struct` names them."""
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def number(self, form: str) -> Any:
        """The next number."""
        return self.numbers(form)[0]

    def array(self, dtype: Any, shape: Sequence[int], at: int | None = None) -> Array:
        """An array of the file's own memory, from byte `at` on, or from where the last one ended. A copy where it lies at an address that the
        type may not have."""
        kind = np.dtype(dtype)
        begin, nbytes = self.at if at is None else at, prod(shape) * kind.itemsize
        if begin < 0 or nbytes > self.size - begin:
            self.wrong(
                f"{nbytes} bytes of numbers should follow byte {begin}, and the file has {self.size} in all: it is cut short or damaged"
            )
        if at is None:
            self.at = begin + nbytes
        if not nbytes:
            return np.empty(shape, kind)
        try:
            found: Array = np.ndarray(tuple(shape), kind, buffer=self.memory, offset=begin)
        except ValueError as e:  # more dimensions than NumPy has
            self.wrong(f"no array has the shape {shown(list(shape))} ({e})")
        return found if found.flags.aligned else found.copy()

    def forget(self, at: int, nbytes: int) -> None:
        """Give back the memory of pages whose contents were copied elsewhere."""
        first, end = -(-at // mmap.PAGESIZE) * mmap.PAGESIZE, (at + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > first and hasattr(mmap, "MADV_DONTNEED"):
            self.memory.madvise(mmap.MADV_DONTNEED, first, end - first)


FLOATS = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}
"""Types of floating-point numbers in files, as NumPy has them."""
