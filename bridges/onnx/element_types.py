"""Element types of ONNX, as tensors and as NumPy arrays hold them.

Types of less than 8 bits and 8-bit floats that are no types of ours are stored: 2- and 4-bit integers as 8-bit ones, floats as their bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ... import xp
from ...ir.errors import UsageError
from ...tensor import Tensor

Array = np.ndarray[Any, Any]

PLAIN: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
}
"""Types that tensors have."""

NARROW_INTEGERS: dict[int, Any] = {
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
}
"""Integers that are stored as 8-bit ones."""

CODED_FLOATS: dict[int, Any] = {
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}
"""Floats that are stored as the 8 bits that hold them."""

NUMPY: dict[int, np.dtype[Any]] = {
    **{code: np.dtype(name) for code, name in PLAIN.items() if not name.startswith(("bfloat", "float8"))},
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    **{code: np.dtype(t) for code, t in (*NARROW_INTEGERS.items(), *CODED_FLOATS.items())},
}
"""The NumPy type of each, as callers give and get it."""
_CODE = {t: code for code, t in NUMPY.items()}

BITS: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4, TensorProto.INT2: 2, TensorProto.UINT2: 2}
"""Bits of an element in a file, where they are less than a byte."""


def type_name(code: int) -> str:
    """ONNX's word for a type."""
    return str(TensorProto.DataType.Name(code)) if code in TensorProto.DataType.values() else f"type {code}"


def storage(code: int) -> str:
    """The type of ours that stores elements of an ONNX type. Raises UsageError for text, complex numbers and unknown ones."""
    if code in PLAIN:
        return PLAIN[code]
    if code in NARROW_INTEGERS:
        return "int8" if code in (TensorProto.INT4, TensorProto.INT2) else "uint8"
    if code in CODED_FLOATS:
        return "uint8"
    raise UsageError(f"elements of {type_name(code)} are not supported")


def code_of(array: Array) -> int:
    """The ONNX type of an array's elements. Raises UsageError."""
    code = _CODE.get(array.dtype.newbyteorder("="))
    if code is None:
        raise UsageError(f"an array of {array.dtype} is no input of a model: convert it first")
    return code


def stored(array: Array) -> Array:
    """An array as its type is stored."""
    code = code_of(array)
    if code in NARROW_INTEGERS:
        return array.astype(storage(code))
    return array.view(np.uint8) if code in CODED_FLOATS else np.asarray(array, array.dtype.newbyteorder("="))


def unstored(array: Array, code: int) -> Array:
    """What `stored` was given."""
    if code in NARROW_INTEGERS:
        return array.astype(NUMPY[code])
    return array.view(NUMPY[code]) if code in CODED_FLOATS else array


def as_tensor(x: Any) -> Any:
    """An array as a tensor; tensors and None as they are. A single element is a number of the kernels that use it."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    array = np.asarray(x)
    if array.size == 1:
        array = stored(array)
        return xp.full(array.shape, array.reshape(-1)[0].item(), dtype=array.dtype)
    return in_memory(array)


def in_memory(x: Any) -> Any:
    """An array as a tensor on its memory, as an input of a captured function is; tensors and None as they are."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    array = stored(np.asarray(x))
    return Tensor(np.ascontiguousarray(array).reshape(array.shape))
