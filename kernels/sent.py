"""How a Kernel travels from the process that ran a user's file: a frame with the parts of a kernel, or with an error's class and text.

Reading makes objects of `ir` from their fields and nothing else: whatever a file writes in place of an answer, no
name that it chooses is called."""

from __future__ import annotations

import io
import numbers
import pickle
import struct
from typing import Any

from ..ir import blocks, body, buffer, dtypes, node

MOST = 1 << 26
"""Bytes of an answer."""
_HEADER = struct.Struct("<8sQ")
_MAGIC = b"tw-kern1"


def whole(value: int) -> int:
    """A whole number, whatever type it had: extents are often NumPy's."""
    return int(value)


_KNOWN = {
    (t.__module__, t.__name__): t
    for t in (
        whole, dtypes.dtype, node.make, node.AxisInfo, node.SymInfo, buffer.Buffer, body.Reduce, body.Scan, body.Value, body.Monoid, body.Fold, body.Store, blocks.DecidedBlocks,
    )
}  # fmt: skip
"""All that an answer may name."""


class _Plain(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (whole, (int(value),)) if isinstance(value, numbers.Integral) and not isinstance(value, int) else NotImplemented


class _Strict(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a kernel") from None


def dumps(answer: tuple[Any, ...]) -> bytes:
    """A frame. `answer`: ("kernel", name, body, stores, buffers, blocks), ("error", class, text), or of
    what becomes several kernels ("graph", facts, [(name, body, stores, buffers) or None, ...])."""
    out = io.BytesIO()
    _Plain(out, protocol=5).dump(answer)
    payload = out.getvalue()
    return _HEADER.pack(_MAGIC, len(payload)) + payload


def unframed(data: bytes | bytearray) -> bytes | None:
    """The payload of a frame that is all there, else None."""
    if len(data) < _HEADER.size:
        return None
    magic, size = _HEADER.unpack_from(data)
    whole = magic == _MAGIC and size <= MOST and len(data) >= _HEADER.size + size
    return bytes(data[_HEADER.size : _HEADER.size + size]) if whole else None


def loads(payload: bytes) -> tuple[Any, ...]:
    """What `dumps` was given. Raises anything at all for other bytes."""
    answer = _Strict(io.BytesIO(payload)).load()
    if not isinstance(answer, tuple) or len(answer) != {"kernel": 6, "error": 3, "graph": 3}.get(answer[0] if answer else ""):
        raise ValueError("not an answer")
    return answer
