"""safetensors: a JSON object that says where each tensor lies, and the tensors behind it. They are used where the file is mapped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, TypeGuard

import numpy as np

from ..ir.errors import UsageError
from ..tensor import Tensor
from .checkpoint import Checkpoint, StoredTensor
from .mapped_file import FLOATS, Array, MappedFile, shown

HEADER = 100_000_000
"""The most bytes of a header, as the format has it."""

TYPES: dict[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": FLOATS["bfloat16"], "F8_E4M3": FLOATS["float8_e4m3"],
    "F8_E5M2": FLOATS["float8_e5m2"], "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U64": np.uint64, "U32": np.uint32,
    "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def read_safetensors(path: str | os.PathLike[str]) -> Checkpoint:
    """The tensors of a file. Raises UsageError where it is damaged."""
    file = MappedFile(path)
    length = file.number("<Q")
    if length > min(HEADER, file.size - 8):
        file.wrong(
            f"its header should have {length} bytes, more than the file or the format has: this is no safetensors file, or a damaged one"
        )
    try:
        header = json.loads(file.bytes(length), object_pairs_hook=partial(_object, file))
    except (ValueError, RecursionError) as e:
        if isinstance(e, UsageError):
            raise
        file.wrong(f"its header is no JSON ({str(e)[:100]}): this is no safetensors file, or a damaged one")
    if not isinstance(header, dict):
        file.wrong("its header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        file.wrong("its __metadata__ is no object of texts")
    begin, at = file.at, 0
    stored = {}
    for name, entry in sorted(header.items(), key=lambda item: _place(file, *item)):
        kind, shape, (first, end) = _entry(file, name, entry)
        size = TYPES[kind](0).itemsize if kind in TYPES else None
        if first != at or end < first or (size is not None and end - first != prod(shape) * size):
            file.wrong(f"tensor {shown(name)} of {kind}{shape} lies from {first} to {end}, and should begin at {at} and have its own size")
        at = end
        stored[name] = StoredTensor(tuple(shape), kind, end - first, partial(_read, file, name, kind, tuple(shape), begin + first))
    if at != file.size - begin:
        file.wrong(f"its tensors have {at} bytes, and {file.size - begin} follow the header: it is cut short or damaged")
    return Checkpoint(file.path, stored, metadata)


def _object(file: MappedFile, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        file.wrong("its header has a name twice")
    return found


def _place(file: MappedFile, name: str, entry: Any) -> tuple[int, int]:
    _, _, (first, end) = _entry(file, name, entry)
    return first, end


def _entry(file: MappedFile, name: str, entry: Any) -> tuple[str, list[int], list[int]]:
    kind, shape, place = (entry.get(k) for k in ("dtype", "shape", "data_offsets")) if isinstance(entry, dict) else (None, None, None)
    if not isinstance(kind, str) or not _are_sizes(shape) or not _are_sizes(place) or len(place) != 2:
        file.wrong(f"tensor {shown(name)} is said to be {shown(entry)}: it needs a dtype, a shape and two data_offsets")
    return kind, shape, place


def _are_sizes(numbers: Any) -> TypeGuard[list[int]]:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in numbers)


def _read(file: MappedFile, name: str, kind: str, shape: tuple[int, ...], at: int) -> Tensor:
    if kind not in TYPES:
        file.wrong(f"tensor {shown(name)} has the type {kind}; the types that are read are {', '.join(TYPES)}")
    if kind == "BOOL":
        return Tensor(file.array(np.uint8, shape, at) != 0)
    return Tensor(file.array(TYPES[kind], shape, at))


def safetensors_bytes(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[bytes]:
    """A file's parts: the header, and each array. Raises UsageError for a type that the format does not have."""
    names = {np.dtype(t): name for name, t in TYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at, parts = 0, []
    for name, a in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):  # the widest first: all are aligned
        if a.dtype not in names:
            raise UsageError(f"safetensors has no type for {name!r}, which is {a.dtype}")
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        parts.append(np.ascontiguousarray(a).tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64)
    return [len(text).to_bytes(8, "little"), text, *parts]
