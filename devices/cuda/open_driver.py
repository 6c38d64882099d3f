"""Opens NVIDIA's driver by whichever package is installed, or by none."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...ir.errors import DeviceError
from .driver import FATAL, NO_DRIVER, TEXTS, Driver, failure
from .launch import PackedArguments, Sizes, three

# pycuda adapter ---------------------------------------------------------------------------------------------
# NVIDIA's driver through the package pycuda, behind one face (`driver.Driver`).
#
# pycuda raises exceptions that carry the driver's sentence, and keeps Python objects for memory. Importing
# pycuda.driver without a driver is an ImportError.


class PyCuda:
    """By pycuda."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError where the package is missing, DeviceError where there is no driver."""
        package = importlib.import_module("pycuda")
        try:
            self._api: Any = importlib.import_module("pycuda.driver")
        except ModuleNotFoundError:
            raise
        except ImportError as e:  # the package is there and its library does not load
            raise DeviceError(f"{NO_DRIVER} ({e})") from e
        self.name = f"pycuda {package.VERSION_TEXT}"
        self.lost = ""
        self._memory: dict[int, Any] = {}
        self._mapped: dict[int, Any] = {}
        self._contexts: dict[int, Any] = {}
        self._thread = threading.local()
        self._call("cuInit", self._api.init)

    def _call(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except self._api.Error as e:
            self._failed(name, e)

    def _failed(self, name: str, e: Exception) -> NoReturn:
        # "cuMemAlloc failed: out of memory"
        text = str(e).partition(" failed: ")[2].split(" - ")[0].strip() or str(e)
        code = TEXTS.get(text, "OUT_OF_MEMORY" if isinstance(e, self._api.MemoryError) else "")
        if code in FATAL:
            self.lost = self.lost or f"{name}: {text}"
        raise failure(name, code, text) from e

    def version(self) -> tuple[int, int]:
        number = int(self._call("cuDriverGetVersion", self._api.get_driver_version))
        return number // 1000, number % 1000 // 10

    def count(self) -> int:
        return int(self._call("cuDeviceGetCount", self._api.Device.count))

    def card(self, device: int) -> str:
        return str(self._call("cuDeviceGetName", self._device(device).name))

    def bus(self, device: int) -> str:
        return str(self._call("cuDeviceGetPCIBusId", self._device(device).pci_bus_id))

    def attribute(self, device: int, name: str) -> int:
        return int(self._call("cuDeviceGetAttribute", self._device(device).get_attribute, getattr(self._api.device_attribute, name)))

    def _device(self, device: int) -> Any:
        return self._call("cuDeviceGet", self._api.Device, device)

    def open(self, device: int) -> None:
        if getattr(self._thread, "device", None) != device:
            context = self._contexts.get(device)
            if context is None:
                context = self._contexts[device] = self._call("cuDevicePrimaryCtxRetain", self._device(device).retain_primary_context)
            self._call("cuCtxPushCurrent", context.push)
            # pycuda aborts the process when a thread, or the program, ends with a context on its stack
            self._thread.pushed, self._thread.device = _Pushed(self._api, context), device
            if threading.current_thread() is threading.main_thread():
                atexit.register(self._thread.pushed.pop)

    def memory(self) -> tuple[int, int]:
        free, total = self._call("cuMemGetInfo", self._api.mem_get_info)
        return int(free), int(total)

    def load(self, cubin: bytes) -> Any:
        return self._call("cuModuleLoadData", self._api.module_from_buffer, cubin)

    def unload(self, module: Any) -> None:
        del module  # pycuda unloads it with its last reference, which functions hold too

    def function(self, module: Any, name: str) -> Any:
        return self._call("cuModuleGetFunction", module.get_function, name)

    def function_attribute(self, function: Any, name: str) -> int:
        return int(self._call("cuFuncGetAttribute", function.get_attribute, getattr(self._api.function_attribute, name)))

    def allow_shared(self, function: Any, nbytes: int) -> None:
        self._call("cuFuncSetAttribute", function.set_attribute, self._api.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes)

    def bind(self, function: Any, groups: Sizes, threads: Sizes, shared: int, words: Sequence[int | bytes]) -> Callable[[], None]:
        raw, grid, block = PackedArguments(words).raw, three(groups), three(threads)
        api, launch = self._api, function._launch_kernel

        def start() -> None:
            # what prepared_call ends in; before that it packs the words anew and makes a call that CUDA has deprecated
            try:
                launch(grid, block, raw, shared, None)
            except api.Error as e:
                self._failed("cuLaunchKernel", e)

        return start

    def mapped(self, nbytes: int) -> tuple[int, int]:
        flags = self._api.host_alloc_flags
        made = self._call("cuMemHostAlloc", self._api.pagelocked_empty, nbytes, "uint8", mem_flags=flags.DEVICEMAP | flags.PORTABLE)
        host = int(made.ctypes.data)
        self._mapped[host] = made
        return host, int(self._call("cuMemHostGetDevicePointer", made.base.get_device_pointer))

    def unmap(self, host: int) -> None:
        del self._mapped[host]

    def alloc(self, nbytes: int) -> int:
        found = self._call("cuMemAlloc", self._api.mem_alloc, nbytes)
        self._memory[int(found)] = found
        return int(found)

    def free(self, address: int) -> None:
        self._call("cuMemFree", self._memory.pop(address).free)

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self._call("cuMemcpyHtoD", self._api.memcpy_htod, address, _bytes(host, nbytes))

    def download(self, host: int, address: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoH", self._api.memcpy_dtoh, _bytes(host, nbytes), address)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoD", self._api.memcpy_dtod, to, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._call("cuMemsetD8", self._api.memset_d8, address, byte, nbytes)

    def event(self) -> Any:
        return self._call("cuEventCreate", self._api.Event)

    def record(self, event: Any) -> None:
        self._call("cuEventRecord", event.record)

    def seconds(self, start: Any, end: Any) -> float:
        return float(self._call("cuEventElapsedTime", end.time_since, start)) * 1e-3

    def wait(self) -> None:
        self._call("cuCtxSynchronize", self._api.Context.synchronize)


class _Pushed:
    """A context on this thread's stack, taken off at the thread's end."""

    def __init__(self, api: Any, context: Any) -> None:
        self._api, self._context = api, context

    def pop(self) -> None:
        """Take it off, once."""
        context, self._context = self._context, None
        if context is not None:
            with contextlib.suppress(self._api.Error):  # of a lost context, which is off the stack all the same
                context.pop()

    __del__ = pop


def _bytes(address: int, nbytes: int) -> Any:
    return _buffer(nbytes).from_address(address)


@functools.lru_cache(maxsize=64)
def _buffer(nbytes: int) -> Any:
    return ctypes.c_char * nbytes


# adapters ---------------------------------------------------------------------------------------------------
# NVIDIA's driver by its own calls, behind one face (`driver.Driver`): through the package cuda-bindings, or by ctypes.
#
# Both give a status with every result, and neither needs a toolkit. cuda-bindings fails in its first call where there
# is no driver. Memory, modules and events are plain handles.


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


# open driver ------------------------------------------------------------------------------------------------
CHOICE = "TILEWRIGHT_CUDA_DRIVER"
"""The environment variable that names the adapter to use."""
ADAPTERS: dict[str, Callable[[], Driver]] = {"cuda-bindings": CudaBindings, "pycuda": PyCuda, "ctypes": CtypesDriver}
"""In the order in which they are tried."""


@functools.cache
def open_driver() -> Driver:
    """The driver of this process, initialised. Raises DeviceError, with the fix, where there is none, or where the package that
    the variable names is missing."""
    chosen = os.environ.get(CHOICE, "")
    if chosen and chosen not in ADAPTERS:
        raise DeviceError(f"{CHOICE}={chosen}: use one of {', '.join(ADAPTERS)}")
    missing = []
    for name in (chosen,) if chosen else tuple(ADAPTERS):
        try:
            return ADAPTERS[name]()
        except ModuleNotFoundError as e:
            missing.append(f"{name}: {e}")
    raise DeviceError(f"{CHOICE}={chosen}, which is not installed ({'; '.join(missing)}): pip install {chosen}, or leave the variable out")
