"""Arguments that a Python program gives as NumPy arrays and numbers: their values lie in files that the measuring processes read."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError

if TYPE_CHECKING:
    import numpy as np


def with_array(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """An argument's table whose `array` is a NumPy array, with what follows from it instead: dtype, shape, and, but for an 'out'
    array, a file of its values. A number of NumPy's in `value` says its dtype too. Raises UsageError."""
    import numpy as np

    found = dict(table)
    value = found.get("value")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        found["value"] = value.item()
        found.setdefault("dtype", value.dtype)
    if "array" not in found:
        return found
    array = found.pop("array")
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{where}: array is a NumPy array, not {type(array).__name__}; a file of values is named by file")
    wrong = [k for k in ("shape", "make", "low", "high", "fill", "file", "value") if k in found]
    if wrong:
        raise UsageError(f"{where} has an array, which says what {wrong[0]} would: leave one of them out")
    if not array.size:
        raise UsageError(f"{where}: the array is empty")
    if found.setdefault("dtype", array.dtype) != array.dtype and str(found["dtype"]) != array.dtype.name:
        raise UsageError(f"{where}: the array is {array.dtype}, and dtype says {found['dtype']}: leave dtype out, or convert the array")
    found["shape"] = list(array.shape) or [1]
    if found.get("role") != "out":
        found |= {"file": _kept(array), "make": "raw"}
    return found


def _kept(array: np.ndarray[Any, Any]) -> str:
    """The file of an array's values: as bytes, since .npy has no name for some element types. Equal arrays have one."""
    import numpy as np

    data = np.ascontiguousarray(array).tobytes()
    path = _folder(os.getpid()) / f"{hashlib.sha256(data).hexdigest()}.bin"
    if not path.exists():
        path.write_bytes(data)
    return str(path)


@functools.lru_cache(maxsize=1)
def _folder(process: int) -> Path:
    """A folder of this process, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-arrays-"))

    def remove() -> None:
        if os.getpid() == process:  # not where a child of it ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
