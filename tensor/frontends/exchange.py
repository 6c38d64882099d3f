"""DLPack of types that NumPy does not know: bfloat16 and 8-bit floats travel through NumPy as integers of their size, and the capsule says
what they are (DLPack 1.1: https://dmlc.github.io/dlpack/latest/c_api.html)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import DType, bfloat16, float8_e4m3, float8_e5m2

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CODES = {bfloat16: 4, float8_e4m3: 10, float8_e5m2: 12}
"""DLDataTypeCode of types that NumPy lacks."""
_INTEGER = 1
"""DLDataTypeCode of unsigned integers."""
_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Where the type of the elements lies: behind data, device and rank; of the versioned form behind version, context, deleter and flags."""


def _code(capsule: Any) -> ctypes.c_uint8:
    """The byte of a capsule that says the kind of its elements."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    return ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + _TYPE_AT[name])


def exported(array: Array, dtype: DType, **wanted: Any) -> Any:
    """An array's memory as a DLPack capsule; a copy where nobody may write to it and the consumer cannot be told so."""
    if not array.flags.writeable and wanted.get("max_version") is None and wanted.get("copy") is not False:
        array = array.copy()
    if dtype not in CODES:
        return array.__dlpack__(**wanted)
    capsule = array.view(f"u{dtype.size}").__dlpack__(**wanted)
    _code(capsule).value = CODES[dtype]
    return capsule


class _AsIntegers:
    """Another library's array, whose capsules are of integers where NumPy does not know the elements."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype: DType | None = None

    def __dlpack__(self, **wanted: Any) -> Any:
        capsule = self.array.__dlpack__(**wanted)
        code = _code(capsule)
        self.dtype = next((d for d, c in CODES.items() if c == code.value), None)
        if self.dtype is not None:
            code.value = _INTEGER
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def imported(array: Any) -> tuple[Array, DType | None]:
    """(The memory of another library's array, its type where NumPy lacks that: of the array's integers are its bits.)"""
    import numpy as np

    given = _AsIntegers(array)
    found = np.from_dlpack(given)
    return (found, None) if given.dtype is None else (found.view(given.dtype.np), given.dtype)
