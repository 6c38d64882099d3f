"""A user's own kernel: `my.py:function`, a function that returns a Kernel, is called in a process of its own (`user_process`).

The process hands the Kernel back as data: the file may exit, print, close its output, fork or never return, and the caller goes on. That is
containment of mistakes, not a sandbox: the file can do whatever its user can, so nothing loads one that its user did not name. Reading the
answer makes objects of `ir` from their fields and nothing else: whatever a file writes in place of an answer, no name that it chooses is
called."""

from __future__ import annotations

import io
import numbers
import os
import pickle
import struct
import sys
from collections.abc import Mapping
from typing import Any

from ..files.child_process import ChildProcess
from ..ir import body, buffer, dtypes, errors, node
from ..ir import kernel as blocks
from ..ir.buffer import Extent
from ..ir.dtypes import DTypeLike
from ..ir.errors import KernelError, TilewrightError
from ..ir.kernel import Kernel
from .definition import split_path


def check_file(path: str) -> None:
    """Raise KernelError where there is no file of `my.py:function`."""
    file, _ = split_path(path)
    if "\0" in path or not os.path.isfile(file):
        raise KernelError(f"there is no file {file}; write --kernel PATH.py:function")


def load(path: str, shape: Mapping[str, Extent] | None = None, dtype: DTypeLike | str | None = None) -> Kernel:
    """Call the function behind `my.py:function` (default name: `make_kernel`) in a process of its own. What it prints
    goes to standard error.

    Sizes are passed as keyword arguments of the same name, `dtype` (a DType) where the function takes one. Raises
    KernelError when the file or function is not there, a size is not one of its arguments, it fails, exits, does not
    return in time, or returns something other than a Kernel."""
    check_file(path)
    answer = ask(path, (path, dict(shape or {}), dtype))
    try:
        kind, *parts = loads(answer)
        if kind == "kernel":
            return Kernel(*parts)
        raised, text = parts
    except TilewrightError:
        raise
    except Exception as e:  # whatever bytes the file put in place of an answer
        raise KernelError(f"{path} did not hand back a Kernel that can be read ({type(e).__name__}: {e})") from None
    known = getattr(errors, str(raised), KernelError)
    raise (known if isinstance(known, type) and issubclass(known, TilewrightError) else KernelError)(str(text))


# the process -------------------------------------------------------------------------------------------------------
DEADLINE_S = 120.0
"""How long a file and its function may take: imports of large libraries on a busy machine, not computations."""
_MOST_SAID = 1 << 16
"""Bytes of what a file prints that are passed on, to standard error."""


def ask(path: str, question: tuple[Any, ...], module: str = f"{__package__}.user_process", more_s: float = 0.0) -> bytes:
    """The answer (see `dumps`) of a fresh process to a question; when this returns, neither it nor what it started in
    its session's process group is left. `module` calls `user_process.serve`. `path` is what messages call the file, and `more_s` what it may
    take beside DEADLINE_S. Raises KernelError where there is no answer."""
    limit_s = DEADLINE_S + more_s
    try:
        child = ChildProcess(module, str(os.getpid()), question=pickle.dumps((list(sys.path), *question)))
    except OSError as e:
        raise KernelError(f"{path}: no process can be started to run it in ({e.strerror}); free some memory or processes") from None
    answer = child.answer(limit_s, lambda out: unframed(out) is not None or len(out) > MOST_BYTES)
    if answer.err and sys.stderr is not None:
        sys.stderr.write(answer.err[:_MOST_SAID].decode(errors="backslashreplace"))
    if answer.late:
        raise KernelError(f"{path} did not return within {limit_s:g} s; a kernel's file should import and describe, not compute")
    frame = unframed(answer.out)
    if frame is None:
        raise KernelError(f"{path} ended the process that ran it ({answer.ending}) and handed back no Kernel")
    return frame


# the answer --------------------------------------------------------------------------------------------------------
# A frame with the parts of a kernel, or with an error's class and text.

MOST_BYTES = 1 << 26
"""Bytes of an answer."""
_HEADER = struct.Struct("<8sQ")
_MAGIC = b"tw-kern1"


def whole(value: int) -> int:
    """A whole number, whatever type it had: extents are often NumPy's."""
    return int(value)


_KNOWN = {
    (t.__module__, t.__name__): t
    for t in (
        whole, dtypes._named, node.make, node.AxisInfo, node.SymInfo, buffer.Buffer, body.Reduce, body.SumOrder, body.Scan, body.Value, body.Monoid, body.Fold, body.Store, blocks.DecidedBlocks,
    )
}  # fmt: skip
"""All that an answer may name."""


class _PlainNumbers(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (whole, (int(value),)) if isinstance(value, numbers.Integral) and not isinstance(value, int) else NotImplemented


class _Strict(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a kernel") from None


def dumps(answer: tuple[Any, ...]) -> bytes:
    """A frame. `answer`: ("kernel", name, body, stores, buffers, blocks, fixed), ("error", class, text), or of
    what becomes several kernels ("graph", facts, [(name, body, stores, buffers, blocks, fixed) or None, ...]), or of a program that was timed ("whole", facts)."""
    out = io.BytesIO()
    _PlainNumbers(out, protocol=5).dump(answer)
    payload = out.getvalue()
    return _HEADER.pack(_MAGIC, len(payload)) + payload


def unframed(data: bytes | bytearray) -> bytes | None:
    """The payload of a frame that is all there, else None."""
    if len(data) < _HEADER.size:
        return None
    magic, size = _HEADER.unpack_from(data)
    whole = magic == _MAGIC and size <= MOST_BYTES and len(data) >= _HEADER.size + size
    return bytes(data[_HEADER.size : _HEADER.size + size]) if whole else None


def loads(payload: bytes) -> tuple[Any, ...]:
    """What `dumps` was given. Raises anything at all for other bytes."""
    answer = _Strict(io.BytesIO(payload)).load()
    if not isinstance(answer, tuple) or len(answer) != {"kernel": 7, "error": 3, "graph": 3, "whole": 2}.get(answer[0] if answer else ""):
        raise ValueError("not an answer")
    return answer
