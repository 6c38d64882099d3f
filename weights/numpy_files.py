"""NumPy's files: an array (npy), and arrays by name in a zip file (npz). Those that are not compressed are used where the file is mapped."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..ir.errors import UsageError
from ..tensor import Tensor
from .checkpoint import Checkpoint, StoredTensor
from .mapped_file import SHOWN, Array, MappedFile, shown

HEADER = 10_000
"""The most bytes of a header that is read."""
MAGIC = b"\x93NUMPY"
TEXT = re.compile(rb"\{'descr': '([<>|][biuf]\d)', 'fortran_order': (True|False), 'shape': \(((?:\d{1,19}(?:, ?|(?=\))))*)\),? ?\}\s*")
SIZES = {b"b": b"1", b"i": b"1248", b"u": b"1248", b"f": b"248"}
"""Bytes of the types of an array, by their letter."""
INFLATED = 1100
"""How much larger than its compressed bytes deflate can make something (1,032 times)."""
LOCAL = 30
"""Bytes of the header that stands before each file in a zip file, without its name and extra fields."""

DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What `zipfile` raises over a damaged file."""


def read_npy(path: str | os.PathLike[str]) -> Tensor:
    """The array of a file. Raises UsageError where it is damaged, or holds Python's objects."""
    file = MappedFile(path)
    stored = _array(file, "", 0, file.size)
    found: Tensor = stored.read()
    return found


def read_npz(path: str | os.PathLike[str]) -> Checkpoint:
    """The arrays of a file. Raises UsageError where it is damaged, or holds Python's objects."""
    file = MappedFile(path)
    stored: dict[str, StoredTensor] = {}
    try:
        with zipfile.ZipFile(file.path) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in stored:
                    file.wrong(f"it has the array {shown(name)} twice")
                stored[name] = _member(file, archive, info, name)
    except DAMAGE as e:
        if isinstance(e, UsageError):
            raise
        file.wrong(f"it is no npz file, or a damaged one ({str(e)[:100]})")
    return Checkpoint(file.path, stored, {})


def _member(file: MappedFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> StoredTensor:
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size:
        file.at = info.header_offset + 26
        names = sum(file.numbers("<HH"))
        return _array(file, name, info.header_offset + LOCAL + names, info.file_size)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file.wrong(f"array {shown(name)} is compressed in way {info.compress_type}; stored and deflated ones are read")
    if info.file_size > INFLATED * info.compress_size + 64:
        file.wrong(f"array {shown(name)} should have {info.file_size} bytes, more than {info.compress_size} compressed ones can be")
    with archive.open(info) as member:
        shape, _, dtype = _header(file, name, member.read(HEADER))[:3]
    return StoredTensor(shape, str(dtype), info.file_size, partial(_inflated, file, name, info.filename))


def _inflated(file: MappedFile, name: str, member: str) -> Tensor:
    try:
        with zipfile.ZipFile(file.path) as archive:
            data = archive.read(member)
        shape, fortran, dtype, begin = _header(file, name, data)
        return Tensor(_shaped(np.frombuffer(data, dtype, offset=begin), shape, fortran))
    except DAMAGE as e:
        file.wrong(f"array {shown(name)} is damaged ({str(e)[:100]})")


def _array(file: MappedFile, name: str, at: int, size: int) -> StoredTensor:
    """An array that lies in the file as it is, from byte `at`."""
    if at < 0 or at + size > file.size:
        file.wrong(f"array {shown(name)} should have {size} bytes at {at}, and the file has {file.size}: it is cut short or damaged")
    shape, fortran, dtype, header = _header(file, name, bytes(file.memory[at : at + min(size, HEADER)]))
    nbytes = prod(shape) * dtype.itemsize
    if nbytes != size - header:
        file.wrong(f"array {shown(name)} of {dtype}{list(shape)} needs {nbytes} bytes and has {size - header}: it is cut short or damaged")
    return StoredTensor(
        shape, str(dtype), nbytes, lambda: Tensor(_shaped(file.array(dtype, (nbytes // dtype.itemsize,), at + header), shape, fortran))
    )


def _shaped(flat: Array, shape: tuple[int, ...], fortran: bool) -> Array:
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _header(file: MappedFile, name: str, data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, whether the first index is the quickest, type, bytes of the header). The header is a text of Python's, which is not run."""
    if data[:6] != MAGIC or data[6:8] not in (b"\1\0", b"\2\0"):
        file.wrong(f"array {shown(name)} does not begin as NumPy's files of version 1.0 and 2.0 do")
    begin = 10 if data[6] == 1 else 12
    end = begin + int.from_bytes(data[8:begin], "little")
    parts = TEXT.fullmatch(data[begin:end]) if end <= min(len(data), HEADER) else None
    if parts is None:
        file.wrong(
            f"array {shown(name)} has the header {shown(data[begin : begin + SHOWN])}: arrays of integers, floats and bools are read"
        )
    shape = tuple(int(n) for n in parts[3].split(b",") if n.strip())
    if prod(shape) > 1 << 62 or parts[1][2:] not in SIZES[parts[1][1:2]]:
        file.wrong(f"array {shown(name)} has the type {shown(parts[1].decode())} and the shape {shown(shape)}")
    return shape, parts[2] == b"True", np.dtype(parts[1].decode()), end
