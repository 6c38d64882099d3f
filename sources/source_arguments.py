"""The arguments of a function: arrays and scalars, how large they are, and how their values are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.errors import UsageError
from ..search.expressions import Expression

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

ROLES = ("in", "out", "inout", "local")
VECTORS = (2, 3, 4, 8, 16)
"""Components of OpenCL's vectors; three lie in the room of four."""
MAKES = ("normal", "uniform", "integers", "zeros", "ones", "fill", "arange", "file", "raw")
"""How the values of an array may be made."""
RANDOM = ("normal", "uniform", "integers")


@dataclass(frozen=True)
class SourceArgument:
    """One argument, in the order of the call.

    An array has a `shape`, a `role` and a way in which its values are made: `how`, with `low` and `high` (of uniform and
    integers), `fill`, or `path` (a .npy file, or raw bytes). A scalar has no shape but a `value`: an expression of sizes and
    parameters; a vector of OpenCL's has `more` of them. A 'local' one is memory that the threads of a group share (OpenCL's __local),
    of a shape of sizes and parameters. An 'out' array begins as what no kernel would write, so every element must be written; an 'inout' one
    begins as it is made, each time. `check` false: what it holds afterwards is not looked at."""

    name: str
    dtype: DType
    shape: tuple[Expression, ...] | None = None
    role: str = "in"
    how: str = "normal"
    low: float = 0.0
    high: float = 1.0
    fill: float = 0.0
    path: str = ""
    value: Expression | None = None
    check: bool = True
    more: tuple[Expression, ...] = ()

    @property
    def local(self) -> bool:
        """Whether it is memory of each group, and no array of a call."""
        return self.role == "local"

    @property
    def scalar(self) -> bool:
        """Whether it is passed by value."""
        return self.shape is None

    @property
    def written(self) -> bool:
        """Whether the function writes it."""
        return not self.scalar and self.role in ("out", "inout")

    def extents(self, sizes: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape in numbers. Raises UsageError."""
        return tuple(e.whole(sizes, f"argument {self.name}: the extent", 1) for e in self.shape or ())

    def about(self) -> list[Any]:
        """Plain data that identifies it, file contents included by their hash."""
        shape = None if self.shape is None else [e.text for e in self.shape]
        value: Any = None if self.value is None else self.value.text
        if self.more:
            value = [value, *(e.text for e in self.more)]
        made = [self.how, self.low, self.high, self.fill, _digest(self.path) if self.path else ""]
        return [self.name, self.dtype.name, shape, self.role, made, value, self.check]


def _digest(path: str) -> str:
    import hashlib

    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None


def make(a: SourceArgument, position: int, sizes: Mapping[str, Any], seed: int) -> Array:
    """The array's first values, C-contiguous: the same for the same seed. Raises UsageError for a file that does not fit."""
    import numpy as np

    dims = a.extents(sizes)
    rng = np.random.default_rng([seed, position])
    found: Any
    if a.how == "normal":
        found = rng.standard_normal(dims, dtype=np.float64 if a.dtype.size == 8 else np.float32)
    elif a.how == "uniform":
        found = a.low + (a.high - a.low) * rng.random(dims, dtype=np.float64 if a.dtype.size == 8 else np.float32)
    elif a.how == "integers":
        found = rng.integers(int(a.low), int(a.high), dims, endpoint=True, dtype=np.int64)
    elif a.how == "arange":
        found = np.arange(int(np.prod(dims))).reshape(dims)
    elif a.how in ("file", "raw"):
        found = _from_file(a, dims)
    else:
        found = np.full(dims, {"zeros": 0, "ones": 1}.get(a.how, a.fill))
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(np.asarray(found).astype(a.dtype.np))


def _from_file(a: SourceArgument, dims: tuple[int, ...]) -> Array:
    import numpy as np

    try:
        raw = a.how == "raw"
        found: Array = np.fromfile(a.path, a.dtype.np) if raw else np.load(a.path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"argument {a.name}: {a.path} is no array that can be read: {e}") from None
    count = int(np.prod(dims))
    if found.size != count or (a.how == "file" and found.ndim > 1 and found.shape != dims):
        raise UsageError(f"argument {a.name}: {a.path} holds {found.shape}, and the argument is {dims}: give that shape")
    if a.how == "file" and found.dtype != a.dtype.np:
        raise UsageError(f"argument {a.name}: {a.path} holds {found.dtype}, and the argument is {a.dtype.name}: save it as that type")
    return found.reshape(dims)


def scalar(a: SourceArgument, values: Mapping[str, Any]) -> bytes:
    """The bytes of a scalar's value, or a vector's. Raises UsageError where its type does not hold it."""
    assert a.value is not None
    parts = [_number(a, e(values)) for e in (a.value, *a.more)]
    return b"".join(parts + parts[:1] * (len(parts) == 3))


def _number(a: SourceArgument, found: Any) -> bytes:
    import numpy as np

    if not isinstance(found, (int, float)):
        raise UsageError(f"argument {a.name}: its value {found!r} is no number")
    if a.dtype.is_int and (not math.isfinite(found) or found != int(found)):
        raise UsageError(f"argument {a.name}: its value is {found}, and {a.dtype.name} holds whole numbers only")
    try:
        wide = bool(found) if a.dtype.kind == "b" else found if a.dtype.is_float else int(found)
        return np.array([wide], dtype=None if a.dtype.is_float else a.dtype.np).astype(a.dtype.np).tobytes()
    except OverflowError:
        raise UsageError(f"argument {a.name}: {found} is more than {a.dtype.name} holds") from None
