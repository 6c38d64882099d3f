"""Making arrays: from data, by shape, by the protocols. `device` says where; without one it is the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from ..ir.dtypes import DType, DTypeLike, bool_
from ..tensor import Tensor
from ..tensor.frontends.exchange import imported
from ..tensor.graph.promotion import DEFAULT_INT, default_float, dtype_of
from ..tensor.leaves import array_class, array_leaf, as_array, from_numpy, gpu_of, lent, shares
from ..tensor.lift import lifted
from ..tensor.ops import creation as C
from ..tensor.running.buffers import small
from ..tensor.running.current_capture import thread
from ..tensor.running.pools import rooms_of

_lifted = cache(lifted)
_NUMBERS: dict[type, Callable[[], DType]] = {bool: lambda: bool_, int: lambda: DEFAULT_INT, float: default_float}
"""The types of Python's numbers."""
Kind: TypeAlias = "DTypeLike | None"
Scalar = bool | int | float | complex


def _made(function: Callable[..., Any], device: str | None, *args: Any, **kwargs: Any) -> Tensor:
    here = device in (None, "cpu")
    out: Tensor = _lifted(function, None, not here)(*args, **kwargs)
    return out if here or out.device == device else type(out).of(out.node, device or "cpu")


def asarray(obj: Any, /, *, dtype: Kind = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array, nested lists, numbers or anything with the buffer protocol. An array of NumPy's that is row-major
    is used where it lies, unless `copy`; with copy=False it must be so (ValueError)."""
    if isinstance(obj, Tensor):
        if dtype is None and copy is None and (device is None or device == obj.device):
            return obj
        return _of_tensor(obj, None if dtype is None else dtype_of(dtype), device, copy)
    kind = None if dtype is None else dtype_of(dtype)
    plain = type(obj) is array_class()
    if copy is None and (device is None or device == "cpu") and thread.capture is None:
        if plain and dtype is None and small(obj):
            return Tensor.of_array(obj)
        if (known := _known(obj, kind)) is not None:
            return Tensor.of_array(known)
    if plain and copy is not False and obj.dtype.kind != "c" and (kind is None or obj.dtype is kind.np):
        return Tensor.of(array_leaf(obj.copy() if copy else obj, device or "cpu"), device or "cpu")
    import numpy as np

    shared = shares(obj)
    if copy is False and not shared:
        raise ValueError("asarray: a list or number has no memory to share; leave copy as None")
    if shared or isinstance(obj, np.generic):
        array = as_array(obj)
        if copy:
            array = array.copy()
        paired = array.dtype.kind == "c" or (kind is not None and kind.kind == "c")
        out = Tensor(array, kind, device or "cpu") if paired else Tensor.of(from_numpy(array, kind), device or "cpu")
        if copy is False and not np.shares_memory(out.numpy(), array):
            raise ValueError(f"asarray: {array.dtype} of strides {array.strides} as {kind or array.dtype} needs a copy")
        return out
    return Tensor(_numbers(obj), kind, device or "cpu")


def _known(obj: Any, kind: DType | None) -> Any:
    """The array of a number, or of a list of numbers of one of Python's types, that its type can hold. None for anything else."""
    import numpy as np

    numbers = obj if type(obj) in (list, tuple) else (obj,)
    of = type(numbers[0]) if numbers else None
    if of not in _NUMBERS:
        array = np.array(obj) if isinstance(obj, np.generic) else None
        return array if array is not None and small(array) and kind in (None, dtype_of(array.dtype)) else None
    if kind is None:
        kind = _NUMBERS[of]()
    if (
        (numbers is obj and any(type(x) is not of for x in numbers))
        or kind.narrow
        or not (kind.is_float or (of is not float and kind.is_int) or (of is bool and kind is bool_))
    ):
        return None
    if of is int:
        low, high = kind.limits if kind.is_int else DEFAULT_INT.limits
        if not low <= min(numbers) <= max(numbers) <= high:
            return None
    return np.array(obj, kind.np)


def _of_tensor(x: Tensor, kind: DType | None, device: str | None, copy: bool | None) -> Tensor:
    if copy is False and (kind not in (None, x.dtype) or device not in (None, x.device)):
        raise ValueError(f"asarray: {x.dtype} on {x.device} as {kind or x.dtype} on {device or x.device} needs a copy")
    out = x.astype(kind or x.dtype, copy=bool(copy)) if copy or kind is not None else x
    return out if device is None else out.to_device(device)


def _numbers(obj: Any) -> Any:
    """Nested sequences. Raises OverflowError for integers of over 64 bits."""
    if isinstance(obj, (list, tuple)):
        return [_numbers(o) for o in obj]
    if type(obj) is int and not -(2**63) <= obj < 2**64:
        raise OverflowError(f"asarray: {obj} does not fit an integer of 64 bits")
    return obj


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array, by DLPack. One on an NVIDIA GPU stays there (device "cuda"), unless `device` says
    otherwise."""
    if isinstance(x, Tensor):
        return _of_tensor(x, None, device, copy)
    if gpu := gpu_of(x):
        place = device if device is not None and rooms_of(device) is not None else gpu
        return _of_tensor(Tensor.of(lent(x, place), place), None, device, copy)
    array, kind = imported(x)
    if copy:
        array = array.copy()
    if copy is False and not array.flags.c_contiguous:
        raise BufferError("from_dlpack: the array is not contiguous in row-major order, which needs a copy")
    return Tensor(array, None, device or "cpu") if array.dtype.kind == "c" else Tensor.of(from_numpy(array, kind), device or "cpu")


def arange(
    start: int | float, /, stop: int | float | None = None, step: int | float = 1, *, dtype: Kind = None, device: str | None = None
) -> Tensor:
    """start, start + step, … below stop."""
    return _made(C.arange, device, start, stop, step, dtype=dtype)


def empty(shape: int | Sequence[int], *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Zeros (nothing is left undefined)."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Zeros in the shape of `x`."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Ones where column = row + k."""
    return _made(C.eye, device, n_rows, n_cols, k=k, dtype=dtype)


def full(shape: int | Sequence[int], fill_value: Scalar, *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Every element the same number."""
    found: Tensor | None = _quick_full()(shape, fill_value, dtype) if device is None else None
    return _made(C.full, device, shape, fill_value, dtype=dtype) if found is None else found


@cache
def _quick_full() -> Callable[..., Any]:
    """What makes short tensors of equal numbers. (It imports NumPy.)"""
    from ..tensor.frontends.small_operations import quick_full

    return quick_full


def full_like(x: Tensor, /, fill_value: Scalar, *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Every element the same number, in the shape of `x`."""
    if x.complex_class:
        return _made(C.full_like, device, x, fill_value, dtype=dtype)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: int | float, stop: int | float, /, num: int, *, dtype: Kind = None, device: str | None = None, endpoint: bool = True
) -> Tensor:
    """`num` equally spaced numbers from start to stop, which is one of them if `endpoint`."""
    return _made(C.linspace, device, start, stop, num, dtype=dtype, endpoint=endpoint)


def logspace(
    start: int | float, stop: int | float, /, num: int, *, base: float = 10.0, dtype: Kind = None, device: str | None = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`base` to the power of each of the numbers that `linspace` gives."""
    kind = None if dtype is None else dtype_of(dtype)
    out: Tensor = base ** linspace(
        start, stop, num, dtype=kind if kind is None or kind.is_float else None, device=device, endpoint=endpoint
    )
    return out if kind is None else out.astype(kind, copy=False)


def ones(shape: int | Sequence[int], *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Ones."""
    return full(shape, 1, dtype=dtype or default_float(), device=device)


def ones_like(x: Tensor, /, *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Ones in the shape of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def zeros(shape: int | Sequence[int], *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Zeros."""
    return full(shape, 0, dtype=dtype or default_float(), device=device)


def zeros_like(x: Tensor, /, *, dtype: Kind = None, device: str | None = None) -> Tensor:
    """Zeros in the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def astype(x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Converted to another type, in memory of its own unless `copy` is False."""
    out: Tensor = x.astype(dtype, copy=copy)
    return out if device is None else out.to_device(device)


__all__ = [
    "arange", "asarray", "astype", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "logspace", "ones", "ones_like",
    "zeros", "zeros_like",
]  # fmt: skip
