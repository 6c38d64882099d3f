"""A spec's tables, as a TOML file or a program writes them: arguments, sizes, launch, check, parameters."""

from __future__ import annotations

import atexit
import difflib
import functools
import hashlib
import math
import os
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.text import read as read_text
from ..ir.dtypes import DType, dtype
from ..ir.errors import TilewrightError, UsageError
from . import expressions
from .arguments import MAKES, RANDOM, ROLES, SourceArgument
from .expressions import Expression

if TYPE_CHECKING:
    import numpy as np


# given ------------------------------------------------------------------------------------------------------
# Arguments that a Python program gives as NumPy arrays and numbers: their values lie in files that the measuring
# processes read.


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


# tables -----------------------------------------------------------------------------------------------------
_MOST = 1e300
"""The largest tolerance: results are numbers of at most 64 bits."""
SECTIONS = ("sizes", "args", "launch", "check", "params", "flag_params", "restrict", "flags", "function", "cold", "flops")
_ARGUMENT = ("name", "dtype", "shape", "role", "make", "low", "high", "fill", "file", "array", "value", "check")
_LAUNCH = ("block", "grid", "problem", "grid_div", "shared")
_CHECK = ("reference", "rtol", "atol", "deterministic")
_C_NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
    "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "unsigned": "uint32", "size_t": "uint64",
}  # fmt: skip


def read(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises UsageError for one that is not there, is no TOML, or has a section that means nothing."""
    try:
        found = tomllib.loads(read_text(path))
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise UsageError(f"{path} is no TOML file: {e}") from None
    known(found, SECTIONS, str(path))
    for arg in found.get("args", ()) if isinstance(found.get("args"), list) else ():
        if isinstance(arg, dict) and isinstance(arg.get("file"), str):  # what a file names lies beside it
            arg["file"] = str(Path(path).resolve().parent / arg["file"])
    check = found.get("check")
    if isinstance(check, dict) and isinstance(check.get("reference"), str) and ":" in check["reference"]:
        check["reference"] = str(Path(path).resolve().parent / check["reference"])
    return found


def known(table: Any, names: Collection[str], where: str) -> None:
    """Raise UsageError for a key that means nothing."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table")
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1)
            raise UsageError(f"{where}: unknown key {key!r}{f'; did you mean {near[0]}?' if near else ''} (keys: {', '.join(names)})")


def element_type(name: Any, where: str) -> DType:
    """An element type by our name or C's. Raises UsageError."""
    try:
        return dtype(_C_NAMES.get(name, name))
    except (TilewrightError, TypeError):
        names = "float64, float32, float16, bfloat16, int8 to int64, uint8 to uint64, bool"
        raise UsageError(f"{where}: unknown dtype {name!r}; use one of {names}") from None


def expression(given: Any, names: Mapping[str, bool], what: str) -> Expression:
    """An expression from text or a number."""
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise UsageError(f"{what} must be an expression or a number, not {given!r}")
    return expressions.parse(str(given), names, what)


def several(given: Any, names: Mapping[str, bool], what: str) -> tuple[Expression, ...]:
    """One to three expressions, one for each dimension."""
    items = [given] if isinstance(given, (str, int, float)) else given
    if not isinstance(items, Sequence) or not 1 <= len(items) <= 3:
        raise UsageError(f'{what} must be one to three expressions, such as ["block_size_x"], not {given!r}')
    return tuple(expression(x, names, what) for x in items)


def sizes(table: Any, where: str = "[sizes]") -> dict[str, int]:
    """Numbers by name. Raises UsageError."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table such as n = 1000000")
    for name, value in table.items():
        if not str(name).isidentifier() or not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{where}: {name} = {value!r} must be a name and a whole number")
    return dict(table)


def argument(table: Any, names: Mapping[str, bool], extents: Mapping[str, bool], at: int) -> SourceArgument:
    """One argument. `names`: what a scalar's value may use (sizes and parameters); `extents`: what a shape may (sizes). Raises UsageError."""
    known(table, _ARGUMENT, f"argument {at + 1}")
    name = table.get("name")
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f'argument {at + 1} needs a name, such as name = "x"; the order of arguments is that of the call')
    where = f"argument {name}"
    table = with_array(table, where)
    if "dtype" not in table:
        raise UsageError(f'{where} needs a dtype, such as dtype = "float32"')
    of = element_type(table["dtype"], where)
    if "value" in table:
        wrong = [k for k in table if k not in ("name", "dtype", "value")]
        if wrong:
            raise UsageError(f"{where} has a value, so it is a scalar, and {wrong[0]} is for arrays: leave one of them out")
        return SourceArgument(name, of, value=expression(table["value"], names, f"{where}: value"))
    return _array(dict(table), name, of, extents)


def _array(table: dict[str, Any], name: str, of: DType, extents: Mapping[str, bool]) -> SourceArgument:
    where = f"argument {name}"
    role = table.get("role", "in")
    if role not in ROLES:
        raise UsageError(f"{where}: role is one of {', '.join(ROLES)}, not {role!r}")
    path = table.get("file", "")
    how = table.get("make", "file" if path else "fill" if "fill" in table else "normal" if of.is_float else "integers")
    if how not in MAKES:
        raise UsageError(f"{where}: make is one of {', '.join(MAKES)}, not {how!r}")
    if (how in ("file", "raw")) != bool(path):
        raise UsageError(f'{where}: make = "{how}" {"needs" if not path else "does not go with"} file = "..."')
    shape = table.get("shape")
    if shape is None and how == "file":
        shape = _shape_of(path, where)
    if shape is None:
        raise UsageError(f'{where} needs a shape, such as shape = ["n"], or a value where it is a scalar')
    listed = [shape] if isinstance(shape, (str, int)) else shape
    if not isinstance(listed, (list, tuple)) or not listed:
        raise UsageError(f"{where}: shape must be a list of extents, not {shape!r}")
    low, high = (
        table.get(k, d) for k, d in (("low", -8 if how == "integers" and of.kind == "i" else 0), ("high", 8 if how == "integers" else 1))
    )
    for key, value in (("low", low), ("high", high), ("fill", table.get("fill", 0))):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{where}: {key} must be a number, not {value!r}")
        if not math.isfinite(value) and (key != "fill" or not of.is_float):
            raise UsageError(f"{where}: {key} is {value!r}; it must be finite")
    if low > high or (how in RANDOM and how != "normal" and not of.is_float and of.kind == "u" and low < 0):
        raise UsageError(f"{where}: values from {low} to {high} do not exist for {of.name}")
    check = table.get("check", True)
    if not isinstance(check, bool):
        raise UsageError(f"{where}: check is true or false")
    dims = tuple(expression(x, extents, f"{where}: shape") for x in listed)
    return SourceArgument(name, of, dims, role, how, float(low), float(high), float(table.get("fill", 0)), path, None, check)


def _shape_of(path: str, where: str) -> list[int]:
    import numpy as np

    try:
        return list(np.load(path, mmap_mode="r", allow_pickle=False).shape) or [1]
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"{where}: {path} is no .npy file that can be read: {e}") from None


def launch_table(table: Any) -> dict[str, Any]:
    """The [launch] table, its keys checked."""
    known(table, _LAUNCH, "[launch]")
    return dict(table)


def check_table(table: Any) -> dict[str, Any]:
    """The [check] table, its keys and types checked. Raises UsageError."""
    known(table, _CHECK, "[check]")
    kinds: dict[str, Any] = {"reference": str, "rtol": (int, float), "atol": (int, float), "deterministic": bool}
    for key, value in table.items():
        if key in ("rtol", "atol") and (isinstance(value, bool) or not isinstance(value, kinds[key]) or not 0 <= value <= _MOST):
            raise UsageError(f"[check]: {key} = {value!r} makes no sense: give a finite number that is not negative")
        if not isinstance(value, kinds[key]):
            raise UsageError(f"[check]: {key} = {value!r} makes no sense")
    return dict(table)
