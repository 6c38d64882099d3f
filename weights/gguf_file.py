"""GGUF: what llama.cpp reads. Metadata as keys and values, then where each tensor lies, then the tensors.

Plain tensors are used where the file is mapped. PackedMatrix ones (Q8_0, Q4_0, Q4_K, Q6_K) are taken apart when they are asked for."""

from __future__ import annotations

import os
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..tensor import Tensor
from .checkpoint import Checkpoint, StoredTensor
from .mapped_file import FLOATS, MappedFile, shown
from .packed import BLOCKS, PackedMatrix, block_bytes, from_blocks

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""Types of single values in the metadata."""
STRING, ARRAY = 8, 9
DEEPEST = 4
"""Arrays in arrays."""
PLAIN: dict[str, Any] = {
    "F32": np.float32, "F16": np.float16, "BF16": FLOATS["bfloat16"], "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32,
    "I64": np.int64,
}  # fmt: skip
KINDS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K",
    15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16",
    26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""GGML's numbers of types."""
READ = (*PLAIN, *BLOCKS)
"""The types that are read."""


def read_gguf(path: str | os.PathLike[str]) -> Checkpoint:
    """The tensors and metadata of a file. Raises UsageError where it is damaged."""
    file = MappedFile(path)
    if file.size < 24 or file.bytes(4) != b"GGUF":
        file.wrong("it does not begin with GGUF: this is no GGUF file")
    version = file.number("<I")
    if version not in (2, 3):
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
        file.wrong("its numbers are big-endian, which is not read" if big else f"it is of version {version}; versions 2 and 3 are read")
    tensors, keys = file.numbers("<QQ")
    if tensors > file.size // 24 or keys > file.size // 12:  # each has at least so many bytes
        file.wrong(f"{tensors} tensors and {keys} keys do not fit into {file.size} bytes: it is damaged")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = _text(file)
        if key in metadata:
            file.wrong(f"its metadata has {shown(key)} twice")
        metadata[key] = _value(file, file.number("<I"))
    places = [_place(file) for _ in range(tensors)]
    align = metadata.get("general.alignment", 32)
    if type(align) is not int or align < 1 or align & (align - 1) or align > 1 << 20:
        file.wrong(f"its alignment is {shown(align)}, no power of two")
    begin = -(-file.at // align) * align
    stored: dict[str, StoredTensor] = {}
    end, before = 0, ""
    for name, shape, kind, at in sorted(places, key=lambda place: place[3]):
        nbytes = _bytes(file, name, shape, kind)
        if name in stored:
            file.wrong(f"it has the tensor {shown(name)} twice")
        if at % align or begin + at + (nbytes or 0) > file.size:
            file.wrong(
                f"tensor {shown(name)} of {kind}{list(shape)} should lie at {at}, and the file has {file.size - begin} bytes of tensors"
            )
        if at < end:
            file.wrong(f"tensors {shown(before)} and {shown(name)} overlap")
        end, before = at + (nbytes or 0), name
        stored[name] = StoredTensor(shape, kind, nbytes or 0, partial(_read, file, name, shape, kind, begin + at))
    return Checkpoint(file.path, stored, metadata)


def _text(file: MappedFile) -> str:
    return file.bytes(file.number("<Q")).decode("utf-8", "replace")


def _texts(file: MappedFile, count: int) -> list[str]:
    """Many texts, each as `_text` reads it: a tokenizer has hundreds of thousands."""
    found, at = [], file.at
    for _ in range(count):
        begin, at = at + 8, at + 8 + int.from_bytes(file.memory[at : at + 8], "little")
        if at > file.size:
            file.at = begin - 8
            _text(file)  # says what is wrong
        found.append(file.memory[begin:at].decode("utf-8", "replace"))
    file.at = at
    return found


def _value(file: MappedFile, kind: int, depth: int = 0) -> Any:
    if kind in SCALARS:
        return file.number(SCALARS[kind])
    if kind == STRING:
        return _text(file)
    if kind != ARRAY or depth == DEEPEST:
        file.wrong(f"its metadata has a value of type {kind}, {depth} arrays deep, at byte {file.at}: it is damaged")
    inner, count = file.numbers("<IQ")
    if inner in SCALARS:
        return file.array(np.dtype(SCALARS[inner]), (count,)).tolist()
    if count > (file.size - file.at) // 8:  # a text or an array has at least so many bytes
        file.wrong(f"its metadata has an array of {count} elements at byte {file.at}: more than the file can hold")
    return _texts(file, count) if inner == STRING else [_value(file, inner, depth + 1) for _ in range(count)]


def _place(file: MappedFile) -> tuple[str, tuple[int, ...], str, int]:
    name, rank = _text(file), file.number("<I")
    if rank > 8:
        file.wrong(f"tensor {shown(name)} has {rank} dimensions: it is damaged")
    sizes = file.numbers(f"<{rank}Q")
    kind, at = file.numbers("<IQ")
    if prod(sizes) > 1 << 62:
        file.wrong(f"tensor {shown(name)} has the sizes {list(sizes)}: it is damaged")
    return name, tuple(reversed(sizes)), KINDS.get(kind, f"number {kind}"), at


def _bytes(file: MappedFile, name: str, shape: tuple[int, ...], kind: str) -> int | None:
    """None for a type that is not read."""
    if kind in PLAIN:
        return prod(shape) * int(np.dtype(PLAIN[kind]).itemsize)
    if kind not in BLOCKS:
        return None
    size = BLOCKS[kind][1]
    if not shape or shape[-1] % size:
        file.wrong(f"tensor {shown(name)} of {list(shape)} is {kind}, whose blocks have {size} numbers: its rows are no whole blocks")
    return prod(shape) // size * block_bytes(kind)


def _read(file: MappedFile, name: str, shape: tuple[int, ...], kind: str, at: int) -> Tensor | PackedMatrix:
    if kind in PLAIN:
        return Tensor(file.array(PLAIN[kind], shape, at))
    if kind not in BLOCKS:
        file.wrong(f"tensor {shown(name)} has the type {kind}; the types that are read are {', '.join(READ)}")
    nbytes = _bytes(file, name, shape, kind) or 0
    found = from_blocks(kind, file.array(np.uint8, (nbytes,), at), shape, file.room.empty)
    file.forget(at, nbytes)
    return found
