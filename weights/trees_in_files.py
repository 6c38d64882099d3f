"""Trees of tensors in files, by names such as `layers.0.q`: a model's parameters, an optimiser's state."""

from __future__ import annotations

import io
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..files.write_file import replace
from ..ir.errors import UsageError
from ..targets.free_memory import require_room
from ..tensor import Tensor, compute
from ..tensor.trees import flatten, unflatten, ways
from .c_checkpoints import GPT2C, LLAMA2C, read_llama2c, read_llmc
from .checkpoint import Checkpoint, StoredTensor
from .gguf_file import read_gguf
from .mapped_file import SHOWN, Array, MappedFile, shown
from .safetensors_file import read_safetensors, safetensors_bytes


def names_of(tree: Any) -> list[str]:
    """The name of each leaf, in the order of `tree_map`: keys, places and fields on the way to it, with dots between."""
    return [".".join(str(k) for _, k in way) for way in ways(flatten(tree)[1])]


def checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The tensors of a file by name, each made when it is asked for: safetensors, GGUF, npz, or a checkpoint of llama2.c or llm.c, as the
    file's first bytes say. Raises UsageError where it is none of them, or damaged."""
    try:
        with open(path, "rb") as f:
            first = f.read(16)
    except OSError as e:
        raise UsageError(f"cannot read {os.fspath(path)}: {e.strerror or e}") from e
    if first.startswith(b"GGUF"):
        return read_gguf(path)
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return read_npz(path)
    if first[:4] == GPT2C.to_bytes(4, "little"):
        return read_llmc(path)
    if first[8:9] == b"{":
        return read_safetensors(path)
    if first[:4] == LLAMA2C.to_bytes(4, "little") or os.fspath(path).endswith(".bin"):
        return read_llama2c(path)
    raise UsageError(
        f"{os.fspath(path)} is no file of weights that is read: safetensors, GGUF, npz, npy, or a .bin file of llama2.c or llm.c"
        + (
            "; PyTorch's pickled files are not, since reading them runs what is in them: save them as safetensors"
            if first[:1] == b"\x80"
            else ""
        )
    )


def load(path: str | os.PathLike[str], like: Any = None) -> Any:
    """What a file holds: of an npy file a tensor, of others a dict of tensors (or packed matrices) by name.

    `like`: a tree of tensors; the file's tensors in its structure. Names, shapes and types must be those of the tree, else UsageError says which
    are not. Arrays that lie in the file as they are in memory are used where the file is mapped: loading reads nothing, and the file must stay
    as it is as long as they live. What a program writes to them stays in that program."""
    with_magic = b""
    try:
        with open(path, "rb") as f:
            with_magic = f.read(6)
    except OSError as e:
        raise UsageError(f"cannot read {os.fspath(path)}: {e.strerror or e}") from e
    if with_magic == b"\x93NUMPY":
        found: Any = {"": read_npy(path)} if like is not None else read_npy(path)
    else:
        found = checkpoint(path)
    if like is None:
        return dict(found) if isinstance(found, Checkpoint) else found
    return _as(os.fspath(path), found, like)


def _as(path: str, found: Mapping[str, Any], like: Any) -> Any:
    leaves, structure = flatten(like)
    names = names_of(like)
    missing, more = [n for n in names if n not in found], sorted({*found} - {*names})
    if missing or more:
        told = [
            f"{what} {', '.join(map(repr, n[:5]))}{f' and {len(n) - 5} more' if len(n) > 5 else ''}"
            for what, n in (("lacks", missing), ("has", more))
            if n
        ]
        raise UsageError(f"{path} {' and '.join(told)}, unlike the tree that it is loaded into")
    made = []
    for name, leaf in zip(names, leaves):
        t = found[name]
        shape, dtype = tuple(np.shape(leaf)), str(leaf.dtype).removesuffix("fn") if hasattr(leaf, "dtype") else None
        if tuple(t.shape) != shape or (dtype is not None and str(t.dtype) != dtype):
            raise UsageError(f"{path} has {name!r} as {t.dtype}{list(t.shape)}, and the tree has {dtype}{list(shape)}")
        made.append(t)
    return unflatten(structure, made)


def save(path: str | os.PathLike[str], tree: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors, arrays and numbers to a file: `.safetensors`, `.npz`, or `.npy` for a single array. A file that was there is
    replaced at once, when the new one is whole. `metadata`: texts by name, for safetensors. Raises UsageError where the format cannot hold it."""
    name = os.fspath(path)
    names, (leaves, _) = names_of(tree), flatten(tree)
    compute(*(leaf for leaf in leaves if isinstance(leaf, Tensor)))
    arrays: dict[str, Array] = {n: leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(leaf) for n, leaf in zip(names, leaves)}
    if len(arrays) != len(leaves):
        twice = next(n for n in names if names.count(n) > 1)
        raise UsageError(f"two tensors of the tree have the name {twice!r}")
    if wrong := next((n for n, a in arrays.items() if a.dtype.kind not in "biufV" or a.dtype == np.dtype("V")), None):
        raise UsageError(f"{wrong!r} of the tree is {arrays[wrong].dtype}, not numbers")
    suffix = os.path.splitext(name)[1]
    if metadata and suffix != ".safetensors":
        raise UsageError("metadata= is for .safetensors files")
    if suffix == ".safetensors":
        content = b"".join(safetensors_bytes(arrays, metadata or {}))
    elif suffix in (".npz", ".npy"):
        content = _numpy_bytes(name, arrays, suffix)
    else:
        raise UsageError(f"{name}: a tree of tensors is written to .safetensors, .npz or .npy")
    try:
        replace(path, content)
    except OSError as e:
        raise UsageError(f"cannot write {name}: {e.strerror or e}") from e


def _numpy_bytes(name: str, arrays: Mapping[str, Array], suffix: str) -> bytes:
    for n, a in arrays.items():
        if a.dtype.kind == "V" or a.dtype.str[1:] != np.dtype(a.dtype.str).str[1:] or type(a.dtype.type(0)).__module__ != "numpy":
            raise UsageError(f"{name}: NumPy's files have no {a.dtype} ({n!r}); write .safetensors")
    out = io.BytesIO()
    if suffix == ".npy":
        if len(arrays) != 1:
            raise UsageError(f"{name}: an .npy file holds one array, and the tree has {len(arrays)}; write .npz or .safetensors")
        np.lib.format.write_array(out, next(iter(arrays.values())), allow_pickle=False)
        return out.getvalue()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for n, a in arrays.items():
            with archive.open(f"{n}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, a, allow_pickle=False)
    return out.getvalue()


# numpy files ----------------------------------------------------------------------------------------------------------
# NumPy's files: an array (npy), and arrays by name in a zip file (npz). Those that are not compressed are used where the file is mapped.


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
            require_room(
                archive.getinfo(member).file_size, f"{file.path}: array {shown(name)}", "it is compressed, and much larger than its file"
            )
            data = archive.read(member)
        shape, fortran, dtype, begin = _header(file, name, data)
        return Tensor(_shaped(np.frombuffer(data, dtype, offset=begin), shape, fortran))
    except DAMAGE as e:
        if isinstance(e, UsageError):
            raise
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
