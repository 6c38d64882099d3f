"""NVIDIA's driver library by ctypes: the calls of cuda-bindings that `driver.Driver` makes, with their names, arguments and results, so
that one class serves both; and tensor maps (`cuTensorMapEncodeTiled`), whichever package makes the other calls.

Prototypes and numbers are those of CUDA's header cuda.h (the reference "CUDA Driver API"). Where a call has a newer version under the same
name there, the symbol with its suffix is used. `tests/devices/test_driver_stub.py` compares the numbers with the package's. A call costs
about a microsecond."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ...ir.errors import BuildError, DeviceError, VerifyError
from ...program.hopper import BYTES, MapNumbers

LIBRARY = "libcuda.so.1"
NO_DRIVER = (
    "there is no NVIDIA driver here (libcuda.so.1 does not load): install the driver for the GPU, or start the container with its GPUs "
    "(--gpus all); building CUDA kernels needs none of it, only running them does"
)
_IN: dict[str, Any] = {
    "i": ctypes.c_int, "u": ctypes.c_uint, "b": ctypes.c_ubyte, "z": ctypes.c_size_t, "d": ctypes.c_uint64, "p": ctypes.c_void_p, "s": ctypes.c_char_p,
}  # fmt: skip
_OUT: dict[str, Any] = {
    "I": ctypes.c_int, "Z": ctypes.c_size_t, "D": ctypes.c_uint64, "P": ctypes.c_void_p, "F": ctypes.c_float, "S": ctypes.c_char_p,
}  # fmt: skip
CALLS = {
    "cuInit": ("", "u"),
    "cuDriverGetVersion": ("", "I"),
    "cuDeviceGetCount": ("", "I"),
    "cuDeviceGet": ("", "Ii"),
    "cuDeviceGetAttribute": ("", "Iii"),
    "cuDevicePrimaryCtxRetain": ("", "Pi"),
    "cuCtxSetCurrent": ("", "p"),
    "cuCtxGetCurrent": ("", "P"),
    "cuCtxSynchronize": ("", ""),
    "cuMemGetInfo": ("_v2", "ZZ"),
    "cuModuleLoadData": ("", "Pp"),
    "cuModuleUnload": ("", "p"),
    "cuModuleGetFunction": ("", "Pps"),
    "cuFuncGetAttribute": ("", "Iip"),
    "cuFuncSetAttribute": ("", "pii"),
    "cuLaunchKernel": ("", "puuuuuuuppp"),
    "cuMemAlloc": ("_v2", "Dz"),
    "cuMemFree": ("_v2", "d"),
    "cuMemcpyHtoD": ("_v2", "dpz"),
    "cuMemcpyDtoH": ("_v2", "pdz"),
    "cuMemcpyDtoD": ("_v2", "ddz"),
    "cuMemsetD8": ("_v2", "dbz"),
    "cuMemHostAlloc": ("", "Pzu"),
    "cuMemFreeHost": ("", "p"),
    "cuMemHostGetDevicePointer": ("_v2", "Dpu"),
    "cuEventCreate": ("", "Pu"),
    "cuEventDestroy": ("_v2", "p"),
    "cuEventRecord": ("", "pp"),
    "cuEventElapsedTime": ("", "Fpp"),
    "cuGetErrorName": ("", "iS"),
    "cuGetErrorString": ("", "iS"),
}
"""The suffix of each call's symbol and its parameters in C's order: small letters are given, capitals come back."""
DEVICE_ATTRIBUTES = {
    "CLOCK_RATE": 13, "MULTIPROCESSOR_COUNT": 16, "KERNEL_EXEC_TIMEOUT": 17, "ECC_ENABLED": 32, "MEMORY_CLOCK_RATE": 36, "GLOBAL_MEMORY_BUS_WIDTH": 37,
    "L2_CACHE_SIZE": 38, "COMPUTE_CAPABILITY_MAJOR": 75, "COMPUTE_CAPABILITY_MINOR": 76, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
}  # fmt: skip
FUNCTION_ATTRIBUTES = {
    "SHARED_SIZE_BYTES": 1, "LOCAL_SIZE_BYTES": 3, "NUM_REGS": 4, "MAX_DYNAMIC_SHARED_SIZE_BYTES": 8, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED": 14,
}  # fmt: skip


class LibCuda:
    """The library, loaded. Every call returns (status, result …), as cuda-bindings does."""

    CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{n}": v for n, v in DEVICE_ATTRIBUTES.items()})
    CUfunction_attribute = SimpleNamespace(**{f"CU_FUNC_ATTRIBUTE_{n}": v for n, v in FUNCTION_ATTRIBUTES.items()})

    def __init__(self) -> None:
        """Raises OSError where there is no driver."""
        self._library = ctypes.CDLL(LIBRARY)
        for name, (suffix, form) in CALLS.items():
            setattr(self, name, self._call(name + suffix, form))

    def _call(self, symbol: str, form: str) -> Callable[..., tuple[Any, ...]]:
        function = getattr(self._library, symbol)
        results = [_OUT[c] for c in form if c in _OUT]
        function.argtypes = [ctypes.POINTER(_OUT[c]) if c in _OUT else _IN[c] for c in form]
        function.restype = ctypes.c_int
        if not results:
            return lambda *args: (function(*args),)
        takes = [c in _OUT for c in form]

        def call(*args: Any) -> tuple[Any, ...]:
            made, given = [t() for t in results], iter(args)
            places = iter(made)
            status = function(*(ctypes.byref(next(places)) if out else next(given) for out in takes))
            return status, *(m.value for m in made)

        return call

    def cuDeviceGetName(self, size: int, device: int) -> tuple[int, bytes]:
        """(status, name, which may have zero bytes behind it)."""
        return self._string(self._library.cuDeviceGetName, size, device)

    def cuDeviceGetPCIBusId(self, size: int, device: int) -> tuple[int, bytes]:
        """(status, 'domain:bus:device.function')."""
        return self._string(self._library.cuDeviceGetPCIBusId, size, device)

    def _string(self, function: Any, size: int, device: int) -> tuple[int, bytes]:
        text = ctypes.create_string_buffer(size)
        return int(function(text, ctypes.c_int(size), ctypes.c_int(device))), text.value


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
