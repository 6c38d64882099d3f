"""Types of results: the promotion rules of the array API standard, with floats of 16 and 8 bits as storage types.

Mixed integers and floats (which the standard leaves open) give the float; where floats are float64 by default, the type that
NumPy gives: one that holds both. A Python number takes the kind it has and otherwise the type of the other operand:
`x_float32 * 2.5` stays float32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ...ir.dtypes import DType, DTypeLike, bool_, complex_named, float16, float32, float64, int8, int16, int32, int64, uint64
from ...ir.dtypes import dtype as _dtype
from ...ir.errors import DTypeError, UsageError
from .symbolic_sizes import SymbolicSize

Scalar = bool | int | float

DEFAULT_INT = int64
_default_float = [float32]


def default_float() -> DType:
    """The type of floats that nobody gave one."""
    return _here.default_float or _default_float[0]


class _Here(threading.local):
    default_float: DType | None = None


_here = _Here()


@contextmanager
def numpy_types(kind: DType = float64) -> Iterator[None]:
    """Floats that nobody gave a type are float64 in this thread, as NumPy's are; or of another kind."""
    before = _here.default_float
    _here.default_float = kind
    try:
        yield
    finally:
        _here.default_float = before


def set_default_float(dtype: DTypeLike) -> None:
    """Make float32, as at first, or float64 the type of lists and arrays of floats without a type, and of what is computed of integers.
    It holds for all threads, and for functions that are captured from now on. Raises UsageError for other types."""
    kind = dtype_of(dtype)
    if kind not in (float32, float64):
        raise UsageError(f"set_default_float: float32 or float64, not {kind}")
    _default_float[0] = kind


_SIGNED = (int8, int16, int32, int64)
_FLOATS = (float16, float32, float64)


def dtype_of(name: Any) -> DType:
    """The type of that name, or of a type of NumPy's or Python's: float is float64 and int is int64, as in NumPy. Raises DTypeError."""
    if name is float or name is int:
        return float64 if name is float else int64
    try:
        return _looked_up(name)
    except TypeError:  # (what cannot be hashed is no type)
        return _dtype(name)


@cache
def _looked_up(name: Any) -> DType:
    try:
        return complex_named(name) or _dtype(name)
    except DTypeError:
        spelled = _numpys(name) if isinstance(name, str) else None
        if spelled is None:
            raise
        return complex_named(spelled) or _dtype(spelled)


def _numpys(name: str) -> Any:
    """NumPy's type of a name of its own, such as "f8" and "<i4"; None for what is none, and for text and its like."""
    import numpy as np

    try:
        found = np.dtype(name)
    except TypeError:
        return None
    return found if found.kind in "biufc" else None


def promote(a: DType, b: DType) -> DType:
    """The type of an operation on `a` and `b`. Raises DTypeError where they have none (uint64 and a signed type, unless types are NumPy's)."""
    return a if a is b else _promoted(a, b, default_float() is float64)


@cache
def _promoted(a: DType, b: DType, numpys: bool) -> DType:
    if b is bool_:
        return a
    if a is bool_:
        return b
    if a.is_float or b.is_float:
        return _floats(a, b, numpys)
    if a.kind == b.kind:
        return a if a.size >= b.size else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if unsigned is uint64:
        if numpys:
            return float64
        raise DTypeError(f"{a} and {b} have no common type: cast one of them")
    return signed if signed.size > unsigned.size else next(d for d in _SIGNED if d.size > unsigned.size)


def _floats(a: DType, b: DType, numpys: bool) -> DType:
    if not (a.is_float and b.is_float):
        x, whole = (a, b) if a.is_float else (b, a)
        return max(x, _FLOATS[min(whole.size, 4) // 2], key=lambda d: d.size) if numpys and x in _FLOATS else x
    if a.size == b.size:  # float16 and bfloat16, or both 8-bit floats: neither holds the other
        return float32
    return a if a.size > b.size else b


def of_scalar(value: Scalar, like: DType) -> DType:
    """The type that a Python number takes in an operation with an array of type `like`."""
    if isinstance(value, bool):
        return like
    if isinstance(value, (int, SymbolicSize)):
        return like if like is not bool_ else DEFAULT_INT
    if like.is_float:
        return like
    return default_float() if like.kind == "b" or like.size < 8 else float64


def default_of(value: Scalar) -> DType:
    """The type of an array made of a Python number alone."""
    return bool_ if isinstance(value, bool) else DEFAULT_INT if isinstance(value, (int, SymbolicSize)) else default_float()


def to_float(a: DType) -> DType:
    """The type of a function that has no integer results (sqrt, mean): integers become the default float."""
    return a if a.is_float else default_float()


def sum_type(a: DType) -> DType:
    """The type of sums and products: small integers and bools become the default integer of their signedness."""
    if a.is_float or a.size == 8:
        return a
    return uint64 if a.kind == "u" else int64
