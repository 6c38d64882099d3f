"""NVIDIA's driver by its own calls, behind one face (`driver.Driver`): through the package cuda-bindings, or by ctypes.

Both give a status with every result, and neither needs a toolkit. cuda-bindings fails in its first call where there is no
driver. Memory, modules and events are plain handles."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...ir.errors import DeviceError
from .driver import FATAL, NO_DRIVER, failure
from .launch import PackedArguments, Sizes, three

_MAPPED, _PORTABLE = 2, 1
"""CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTALLOC_PORTABLE of cuda.h."""


class CudaBindings:
    """By NVIDIA's own package cuda-bindings."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError where the package is missing, DeviceError where there is no driver."""
        self.lost = ""
        self._contexts: dict[int, Any] = {}
        self._thread = threading.local()
        try:
            self.name, self._api = self._load()
            self._call("cuInit", 0)
        except (RuntimeError, OSError) as e:  # its loader finds no library
            raise DeviceError(f"{NO_DRIVER} ({e})") from e

    def _load(self) -> tuple[str, Any]:
        """(name, an object that has the calls)."""
        api = importlib.import_module("cuda.bindings.driver")
        return f"cuda-bindings {importlib.import_module('cuda.bindings').__version__}", api

    def _call(self, name: str, *args: Any) -> Any:
        """One call; its result (a tuple where there are several)."""
        status, *out = getattr(self._api, name)(*args)
        if int(status):
            self._failed(name, status)
        return out[0] if len(out) == 1 else tuple(out)

    def _failed(self, name: str, status: Any) -> NoReturn:
        code, text = (self._text(n, status) for n in ("cuGetErrorName", "cuGetErrorString"))
        code = code.removeprefix("CUDA_ERROR_")
        if code in FATAL:
            self.lost = self.lost or f"{name}: {text}"
        raise failure(name, code, text)

    def _text(self, call: str, status: Any) -> str:
        found = getattr(self._api, call)(status)[1]
        return found.decode() if isinstance(found, bytes) else str(found or status)

    def version(self) -> tuple[int, int]:
        number = int(self._call("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def count(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def card(self, device: int) -> str:
        return str(self._call("cuDeviceGetName", 256, self._device(device)).split(b"\0")[0].decode())

    def bus(self, device: int) -> str:
        return str(self._call("cuDeviceGetPCIBusId", 32, self._device(device)).split(b"\0")[0].decode())

    def attribute(self, device: int, name: str) -> int:
        which = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", which, self._device(device)))

    def _device(self, device: int) -> Any:
        return self._call("cuDeviceGet", device)

    def open(self, device: int) -> None:
        if getattr(self._thread, "device", None) != device:
            if device not in self._contexts:
                self._contexts[device] = self._call("cuDevicePrimaryCtxRetain", self._device(device))
            self._call("cuCtxSetCurrent", self._contexts[device])
            self._thread.device = device

    def memory(self) -> tuple[int, int]:
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def load(self, cubin: bytes) -> Any:
        return self._call("cuModuleLoadData", cubin)

    def unload(self, module: Any) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> Any:
        return self._call("cuModuleGetFunction", module, name.encode())

    def function_attribute(self, function: Any, name: str) -> int:
        return int(self._call("cuFuncGetAttribute", getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function))

    def allow_shared(self, function: Any, nbytes: int) -> None:
        which = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, which, nbytes)

    def bind(self, function: Any, groups: Sizes, threads: Sizes, shared: int, words: Sequence[int | bytes]) -> Callable[[], None]:
        arguments, launch, sizes = PackedArguments(words), self._api.cuLaunchKernel, (*three(groups), *three(threads))
        places = arguments.places

        def start() -> None:
            (status,) = launch(function, *sizes, shared, 0, places, 0)
            if status:
                self._failed("cuLaunchKernel", status)

        start.arguments = arguments  # type: ignore[attr-defined]  # they live as long as it does
        return start

    def mapped(self, nbytes: int) -> tuple[int, int]:
        host = int(self._call("cuMemHostAlloc", nbytes, _MAPPED | _PORTABLE))
        return host, int(self._call("cuMemHostGetDevicePointer", host, 0))

    def unmap(self, host: int) -> None:
        self._call("cuMemFreeHost", host)

    def alloc(self, nbytes: int) -> int:
        return int(self._call("cuMemAlloc", nbytes))

    def free(self, address: int) -> None:
        self._call("cuMemFree", address)

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self._call("cuMemcpyHtoD", address, host, nbytes)

    def download(self, host: int, address: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoH", host, address, nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoD", to, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._call("cuMemsetD8", address, byte, nbytes)

    def event(self) -> Any:
        return _Event(self, self._call("cuEventCreate", 0))

    def record(self, event: Any) -> None:
        self._call("cuEventRecord", event.handle, 0)

    def seconds(self, start: Any, end: Any) -> float:
        return float(self._call("cuEventElapsedTime", start.handle, end.handle)) * 1e-3

    def wait(self) -> None:
        self._call("cuCtxSynchronize")


class _Event:
    """Destroys its handle with itself."""

    def __init__(self, driver: CudaBindings, handle: Any) -> None:
        self._api, self.handle = driver._api, handle

    def __del__(self) -> None:
        self._api.cuEventDestroy(self.handle)  # a lost context has no events left, and says so: nothing to do about it


class CtypesDriver(CudaBindings):
    """By ctypes, where neither package is installed."""

    def _load(self) -> tuple[str, Any]:
        from .libcuda import LibCuda

        return "ctypes", LibCuda()
