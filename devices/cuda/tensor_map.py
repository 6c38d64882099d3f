"""Tensor maps as NVIDIA's driver makes them: 128 bytes that tell the copy engine (TMA) where an array lies.

`cuTensorMapEncodeTiled` is a function of its arguments alone, which needs no open GPU; it goes by ctypes whichever package makes the
other calls (pycuda has none for it). The prototype and the numbers are those of cuda.h; `tests/devices/test_driver_stub.py`
compares the numbers with the package cuda-bindings."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

from ...ir.errors import BuildError, DeviceError, VerifyError
from ...program.maps import BYTES, MapNumbers
from .driver import NO_DRIVER
from .libcuda import LIBRARY

DTYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
"""CUtensorMapDataType. Bytes that are copied and not computed with go as unsigned ones, 8-bit floats too."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle."""
_NO_INTERLEAVE, _PROMOTE_256, _FILL_ZEROS = 0, 3, 0
"""CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE."""
_ALIGN = 64


@functools.cache
def _function() -> Any:
    try:
        found = ctypes.CDLL(LIBRARY).cuTensorMapEncodeTiled
    except OSError as e:
        raise DeviceError(f"{NO_DRIVER} ({e})") from e
    except AttributeError as e:
        raise DeviceError("the NVIDIA driver is older than CUDA 12 and has no tensor maps: update the driver") from e
    many, each = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
    enum = ctypes.c_int
    found.argtypes = [ctypes.c_void_p, enum, ctypes.c_uint32, ctypes.c_void_p, many, many, each, each, enum, enum, enum, enum]
    found.restype = ctypes.c_int
    return found


def encode(m: MapNumbers, address: int) -> bytes:
    """The map of the array that begins `m.offset` bytes behind `address` of the device's memory.

    Raises BuildError where the driver refuses it, DeviceError where there is no driver that makes tensor maps."""
    room = ctypes.create_string_buffer(BYTES + _ALIGN)
    at = -(-ctypes.addressof(room) // _ALIGN) * _ALIGN
    rank = len(m.dims)
    status = _function()(
        at,
        DTYPES.get(m.map.dtype.name, DTYPES["uint8"]),
        rank,
        address + m.offset,
        (ctypes.c_uint64 * rank)(*m.dims),
        (ctypes.c_uint64 * max(1, rank - 1))(*m.pitches),
        (ctypes.c_uint32 * rank)(*m.map.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        _NO_INTERLEAVE,
        SWIZZLES[m.map.swizzle],
        _PROMOTE_256,
        _FILL_ZEROS,
    )
    if status:
        raise BuildError(
            f"the driver refuses a tensor map of {m.dims} elements at address {address + m.offset:#x} (status {status}): leave out the "
            "options that copy by TMA"
        )
    return ctypes.string_at(at, BYTES)


def for_host(m: MapNumbers, address: int) -> bytes:
    """A tensor map as `host_hopper.hpp` reads it. Raises VerifyError where TMA could not address the array."""
    if address % 16:
        raise VerifyError(f"TMA wants an array at a multiple of 16 bytes, not at {address:#x}")
    rank, t = len(m.dims), m.map
    dims, pitches, box = (*m.dims, *[1] * (5 - rank)), (*m.pitches, *[0] * (5 - rank)), (*t.box, *[1] * (5 - rank))
    head = struct.pack("<Q5Q4Q5H4B", address + m.offset, *dims, *pitches, *box, rank, t.dtype.size, t.swizzle, 0)
    return head.ljust(BYTES, b"\0")
