"""NVIDIA's driver library by ctypes, where no package is installed: the calls that `adapters` makes, with the names, arguments and
results of the package cuda-bindings, so that one adapter serves both.

Prototypes and numbers are those of CUDA's header cuda.h (the reference "CUDA Driver API"); where a call has a newer version
under the same name there, the symbol with its suffix is used. `tests/devices/test_driver_stub.py` compares the numbers with the
package's. A call costs about a microsecond."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

LIBRARY = "libcuda.so.1"
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
