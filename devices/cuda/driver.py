"""NVIDIA's driver behind one class (`Driver`): by the package cuda-bindings where it is installed, else pycuda, else ctypes.

Failures become errors that say what to do. After a fault in a kernel the driver refuses everything else in this process, which `lost`
tells."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ...ir.errors import BuildError, DeviceError, MeasureError, TilewrightError, UsageError
from ..once import once
from .libcuda import NO_DRIVER, LibCuda

CHOICE = "TILEWRIGHT_CUDA_DRIVER"
"""The environment variable that names the adapter to use."""
Sizes = int | tuple[int, int, int]
"""Groups of a grid, or threads of a group: along one dimension, or along three."""


@once
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


_ALIGN = 64
"""A tensor map (`CUtensorMap` of cuda.h) must begin at a multiple of so many bytes."""


def three(sizes: Sizes) -> tuple[int, int, int]:
    """The same along three dimensions."""
    return (sizes, 1, 1) if isinstance(sizes, int) else sizes


class PackedArguments:
    """Kernel arguments in memory of their own: words of 8 bytes (addresses and signed integers), tensor maps of 128, and scalars of
    other sizes as bytes, each at a multiple of its size. The driver reads them during the launch, either through an array of
    their addresses (`places`) or as they lie (`raw`)."""

    __slots__ = ("_memory", "_places", "base", "places", "size")

    def __init__(self, words: Sequence[int | bytes]) -> None:
        """`words`: ints, bytes of a map each, and bytes of a scalar."""
        sizes = [len(w) if isinstance(w, bytes) else 8 for w in words]
        self._memory = ctypes.create_string_buffer(sum(s + min(s, _ALIGN) for s in sizes) + _ALIGN)
        self.base = at = -(-ctypes.addressof(self._memory) // _ALIGN) * _ALIGN
        self._places = (ctypes.c_void_p * max(1, len(words)))()
        for i, (word, size) in enumerate(zip(words, sizes, strict=True)):
            at = -(-at // min(size, _ALIGN)) * min(size, _ALIGN)
            self._places[i] = at
            if isinstance(word, bytes):
                ctypes.memmove(at, word, size)
            else:
                ctypes.c_int64.from_address(at).value = word
            at += size
        self.size = at - self.base
        self.places = ctypes.addressof(self._places)
        """The address of the array of addresses."""

    @property
    def raw(self) -> bytes:
        """All of them in a row."""
        return ctypes.string_at(self.base, self.size)


_INIT = "see what nvidia-smi says; a driver that was updated needs its module reloaded or the machine restarted"
_OLDER = "update the driver, or install the nvidia-cuda-nvrtc of the driver's CUDA"
_DEVICE = {
    "NO_DEVICE": "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, and give a container its GPUs (--gpus all)",
    "INVALID_DEVICE": "there is no such GPU: nvidia-smi -L lists them",
    "DEVICE_UNAVAILABLE": "the GPU is in exclusive use by another process: end that process, or wait for it",
    "DEVICE_NOT_LICENSED": "the virtual GPU has no licence",
    "STUB_LIBRARY": "the libcuda.so that was found is a toolkit's stub: put the driver's before it on the library path",
    "NOT_INITIALIZED": _INIT,
    "SYSTEM_NOT_READY": "a multi-GPU system needs nvidia-fabricmanager to run: start that service",
    "SYSTEM_DRIVER_MISMATCH": _INIT,
    "COMPAT_NOT_SUPPORTED_ON_DEVICE": "remove the CUDA compatibility package, or update the driver",
    "OPERATING_SYSTEM": _INIT,
    "UNKNOWN": _INIT,
    "INVALID_IMAGE": _OLDER,
    "INVALID_PTX": _OLDER,
    "NO_BINARY_FOR_GPU": _OLDER,
    "UNSUPPORTED_PTX_VERSION": _OLDER,
}
_CANDIDATE = {
    "LAUNCH_OUT_OF_RESOURCES": "smaller groups, or fewer registers by GRID",
    "INVALID_VALUE": "smaller groups or less shared memory",
    "NOT_FOUND": "build it again",
}
FATAL = frozenset(
    {
        "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT", "LAUNCH_FAILED", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE", "INVALID_PC", "ECC_UNCORRECTABLE", "CONTEXT_IS_DESTROYED", "CONTAINED", "TENSOR_MEMORY_LEAK", "EXTERNAL_DEVICE",
    }
)  # fmt: skip
"""Failures after which every call of the process fails: a kernel's fault, which the driver may report at any later call."""
TEXTS = {
    "invalid argument": "INVALID_VALUE",
    "out of memory": "OUT_OF_MEMORY",
    "initialization error": "NOT_INITIALIZED",
    "no CUDA-capable device is detected": "NO_DEVICE",
    "invalid device ordinal": "INVALID_DEVICE",
    "CUDA-capable device(s) is/are busy or unavailable": "DEVICE_UNAVAILABLE",
    "device kernel image is invalid": "INVALID_IMAGE",
    "a PTX JIT compilation failed": "INVALID_PTX",
    "no kernel image is available for execution on the device": "NO_BINARY_FOR_GPU",
    "the provided PTX was compiled with an unsupported toolchain.": "UNSUPPORTED_PTX_VERSION",
    "uncorrectable ECC error encountered": "ECC_UNCORRECTABLE",
    "named symbol not found": "NOT_FOUND",
    "an illegal memory access was encountered": "ILLEGAL_ADDRESS",
    "too many resources requested for launch": "LAUNCH_OUT_OF_RESOURCES",
    "the launch timed out and was terminated": "LAUNCH_TIMEOUT",
    "device-side assert triggered": "ASSERT",
    "hardware stack error": "HARDWARE_STACK_ERROR",
    "an illegal instruction was encountered": "ILLEGAL_INSTRUCTION",
    "misaligned address": "MISALIGNED_ADDRESS",
    "operation not supported on global/shared address space": "INVALID_ADDRESS_SPACE",
    "invalid program counter": "INVALID_PC",
    "unspecified launch failure": "LAUNCH_FAILED",
    "context is destroyed": "CONTEXT_IS_DESTROYED",
    "system has unsupported display driver / cuda driver combination": "SYSTEM_DRIVER_MISMATCH",
    "system not yet initialized": "SYSTEM_NOT_READY",
    "unknown error": "UNKNOWN",
}
"""The driver's sentences, for the package that passes on nothing else, and the names of what they mean."""


def failure(call: str, code: str, text: str = "") -> TilewrightError:
    """The error for a call that failed. `code`: the driver's name without CUDA_ERROR_, or '' where only its `text` is known.

    DeviceError: nothing can run here, or not this code. BuildError: this candidate cannot be launched. MeasureError: out of
    memory, or a fault (`FATAL`) after which this process can only be replaced."""
    code = code or TEXTS.get(text, "")
    said = f"{call} failed: {text or code.lower().replace('_', ' ')}" + (f" ({code})" if code and text else "")
    if code in FATAL:
        return MeasureError(f"{said}: a kernel's fault ends the GPU's work for this process; measure the rest in a new one")
    if code == "OUT_OF_MEMORY":
        return MeasureError(f"{said}: the GPU's memory is in use or too small; end other programs on it or measure a smaller shape")
    if code in _CANDIDATE:
        return BuildError(f"{said}: {_CANDIDATE[code]}")
    if code in _DEVICE:
        return DeviceError(f"{said}: {_DEVICE[code]}")
    return MeasureError(f"{said}: see what nvidia-smi and the system's log say")


# NVIDIA's driver by its own calls: through the package cuda-bindings, or by ctypes.
#
# Both give a status with every result, and neither needs a toolkit. cuda-bindings fails in its first call where there
# is no driver. Memory, modules and events are plain handles.


_MAPPED, _PORTABLE = 2, 1
"""CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTALLOC_PORTABLE of cuda.h."""


class Driver:
    """One process's view of the driver. Addresses are ints of the device's memory, sizes are bytes, times are seconds. Any method may
    raise what `failure` makes. All work is on the default stream, in order. Methods may be called from any thread that has
    called `open`, one at a time. This one is by NVIDIA's own package
    cuda-bindings; the others take its place where that is missing."""

    name: str
    """Package and version."""
    lost: str
    """Why nothing works any more in this process, or ''."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError where the package is missing, DeviceError where there is no driver."""
        self.lost = ""
        self._contexts: dict[int, Any] = {}
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
        """The newest CUDA that the driver supports."""
        number = int(self._call("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def count(self) -> int:
        """How many GPUs there are to see."""
        return int(self._call("cuDeviceGetCount"))

    def card(self, device: int) -> str:
        """The marketing name of one."""
        return str(self._call("cuDeviceGetName", 256, self._device(device)).split(b"\0")[0].decode())

    def bus(self, device: int) -> str:
        """The place of a GPU on the PCI bus, as 'domain:bus:device.function'."""
        return str(self._call("cuDeviceGetPCIBusId", 32, self._device(device)).split(b"\0")[0].decode())

    def attribute(self, device: int, name: str) -> int:
        """A device attribute by the driver's name for it without its prefix, such as 'MULTIPROCESSOR_COUNT'."""
        which = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", which, self._device(device)))

    def _device(self, device: int) -> Any:
        return self._call("cuDeviceGet", device)

    def open(self, device: int) -> None:
        """Make a GPU the one that this thread works with."""
        # each time: another library may have made another GPU this thread's
        self._call("cuCtxSetCurrent", self._context(device))

    def _context(self, device: int) -> Any:
        if device not in self._contexts:
            self._contexts[device] = self._call("cuDevicePrimaryCtxRetain", self._device(device))
        return self._contexts[device]

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def load(self, cubin: bytes) -> Any:
        """A module of machine code."""
        return self._call("cuModuleLoadData", cubin)

    def unload(self, module: Any) -> None:
        """Release a module."""
        self._call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        return self._call("cuModuleGetFunction", module, name.encode())

    def function_attribute(self, function: Any, name: str) -> int:
        """An attribute of a kernel by the driver's name for it without its prefix, such as 'NUM_REGS' or 'LOCAL_SIZE_BYTES'."""
        return int(self._call("cuFuncGetAttribute", getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function))

    def allow_shared(self, function: Any, nbytes: int) -> None:
        """Let launches ask for so much dynamic shared memory."""
        which = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, which, nbytes)

    @contextlib.contextmanager
    def lend(self, device: int) -> Iterator[None]:
        """A GPU is this thread's while it is entered, and the one that was before is so again afterwards."""
        before = self._call("cuCtxGetCurrent")
        self._call("cuCtxSetCurrent", self._context(device))
        try:
            yield
        finally:
            self._call("cuCtxSetCurrent", before)

    def bind(
        self, function: Any, groups: Sizes, threads: Sizes, shared: int, words: Sequence[int | bytes], stream: int = 0
    ) -> Callable[[], None]:
        """What starts a grid on a stream (0: the default stream), as often as it is called. `words` are addresses and signed integers, and
        bytes of tensor maps and of other scalars; they are packed here, once."""
        arguments, launch, sizes = PackedArguments(words), self._api.cuLaunchKernel, (*three(groups), *three(threads))
        places = arguments.places

        def start() -> None:
            (status,) = launch(function, *sizes, shared, stream, places, 0)
            if status:
                self._failed("cuLaunchKernel", status)

        start.arguments = arguments  # type: ignore[attr-defined]  # they live as long as it does
        return start

    def mapped(self, nbytes: int) -> tuple[int, int]:
        """(host address, device address) of host memory that kernels can read while they run."""
        host = int(self._call("cuMemHostAlloc", nbytes, _MAPPED | _PORTABLE))
        return host, int(self._call("cuMemHostGetDevicePointer", host, 0))

    def unmap(self, host: int) -> None:
        """Give such memory back."""
        self._call("cuMemFreeHost", host)

    def alloc(self, nbytes: int) -> int:
        """Device memory, aligned to 256."""
        return int(self._call("cuMemAlloc", nbytes))

    def free(self, address: int) -> None:
        """Give it back."""
        self._call("cuMemFree", address)

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host memory and wait."""
        self._call("cuMemcpyHtoD", address, host, nbytes)

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copy to host memory and wait."""
        self._call("cuMemcpyDtoH", host, address, nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy from one place in the device's memory to another."""
        self._call("cuMemcpyDtoD", to, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set every byte."""
        self._call("cuMemsetD8", address, byte, nbytes)

    def event(self) -> Any:
        """A point in time, to be recorded; released with its last reference."""
        return _Event(self, self._call("cuEventCreate", 0))

    def record(self, event: Any) -> None:
        """The time at which all work so far is done."""
        self._call("cuEventRecord", event.handle, 0)

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two events, once the second has happened."""
        return float(self._call("cuEventElapsedTime", start.handle, end.handle)) * 1e-3

    def wait(self) -> None:
        """Until all work is done. Faults of kernels come up here."""
        self._call("cuCtxSynchronize")


class _Event:
    """Destroys its handle with itself."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self._api, self.handle = driver._api, handle

    def __del__(self) -> None:
        self._api.cuEventDestroy(self.handle)  # a lost context has no events left, and says so: nothing to do about it


class CtypesDriver(Driver):
    """By ctypes, where neither package is installed."""

    def _load(self) -> tuple[str, Any]:
        return "ctypes", LibCuda()


# NVIDIA's driver through the package pycuda.
#
# pycuda raises exceptions that carry the driver's sentence, and keeps Python objects for memory. Importing
# pycuda.driver without a driver is an ImportError.


class PyCuda(Driver):
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
        self._do("cuInit", self._api.init)

    def _do(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except self._api.Error as e:
            self._raise(name, e)

    def _raise(self, name: str, e: Exception) -> NoReturn:
        # "cuMemAlloc failed: out of memory"
        text = str(e).partition(" failed: ")[2].split(" - ")[0].strip() or str(e)
        code = TEXTS.get(text, "OUT_OF_MEMORY" if isinstance(e, self._api.MemoryError) else "")
        if code in FATAL:
            self.lost = self.lost or f"{name}: {text}"
        raise failure(name, code, text) from e

    def version(self) -> tuple[int, int]:
        number = int(self._do("cuDriverGetVersion", self._api.get_driver_version))
        return number // 1000, number % 1000 // 10

    def count(self) -> int:
        return int(self._do("cuDeviceGetCount", self._api.Device.count))

    def card(self, device: int) -> str:
        return str(self._do("cuDeviceGetName", self._device(device).name))

    def bus(self, device: int) -> str:
        return str(self._do("cuDeviceGetPCIBusId", self._device(device).pci_bus_id))

    def attribute(self, device: int, name: str) -> int:
        return int(self._do("cuDeviceGetAttribute", self._device(device).get_attribute, getattr(self._api.device_attribute, name)))

    def _device(self, device: int) -> Any:
        return self._do("cuDeviceGet", self._api.Device, device)

    def open(self, device: int) -> None:
        if getattr(self._thread, "device", None) != device:
            context = self._contexts.get(device)
            if context is None:
                context = self._contexts[device] = self._do("cuDevicePrimaryCtxRetain", self._device(device).retain_primary_context)
            self._do("cuCtxPushCurrent", context.push)
            # pycuda aborts the process when a thread, or the program, ends with a context on its stack
            self._thread.pushed, self._thread.device = _Pushed(self._api, context), device
            if threading.current_thread() is threading.main_thread():
                atexit.register(self._thread.pushed.pop)

    def memory(self) -> tuple[int, int]:
        free, total = self._do("cuMemGetInfo", self._api.mem_get_info)
        return int(free), int(total)

    def load(self, cubin: bytes) -> Any:
        return self._do("cuModuleLoadData", self._api.module_from_buffer, cubin)

    def unload(self, module: Any) -> None:
        del module  # pycuda unloads it with its last reference, which functions hold too

    def function(self, module: Any, name: str) -> Any:
        return self._do("cuModuleGetFunction", module.get_function, name)

    def function_attribute(self, function: Any, name: str) -> int:
        return int(self._do("cuFuncGetAttribute", function.get_attribute, getattr(self._api.function_attribute, name)))

    def allow_shared(self, function: Any, nbytes: int) -> None:
        self._do("cuFuncSetAttribute", function.set_attribute, self._api.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes)

    @contextlib.contextmanager
    def lend(self, device: int) -> Iterator[None]:
        self.open(device)  # it knows the context then
        self._do("cuCtxPushCurrent", self._contexts[device].push)
        try:
            yield
        finally:
            self._do("cuCtxPopCurrent", self._contexts[device].pop)

    def bind(
        self, function: Any, groups: Sizes, threads: Sizes, shared: int, words: Sequence[int | bytes], stream: int = 0
    ) -> Callable[[], None]:
        if stream:
            raise UsageError(f"pycuda launches on no stream of another library: pip install cuda-bindings, or set {CHOICE}=ctypes")
        raw, grid, block = PackedArguments(words).raw, three(groups), three(threads)
        api, launch = self._api, function._launch_kernel

        def start() -> None:
            # what prepared_call ends in; before that it packs the words anew and makes a call that CUDA has deprecated
            try:
                launch(grid, block, raw, shared, None)
            except api.Error as e:
                self._raise("cuLaunchKernel", e)

        return start

    def mapped(self, nbytes: int) -> tuple[int, int]:
        flags = self._api.host_alloc_flags
        made = self._do("cuMemHostAlloc", self._api.pagelocked_empty, nbytes, "uint8", mem_flags=flags.DEVICEMAP | flags.PORTABLE)
        host = int(made.ctypes.data)
        self._mapped[host] = made
        return host, int(self._do("cuMemHostGetDevicePointer", made.base.get_device_pointer))

    def unmap(self, host: int) -> None:
        del self._mapped[host]

    def alloc(self, nbytes: int) -> int:
        found = self._do("cuMemAlloc", self._api.mem_alloc, nbytes)
        self._memory[int(found)] = found
        return int(found)

    def free(self, address: int) -> None:
        self._do("cuMemFree", self._memory.pop(address).free)

    def upload(self, address: int, host: int, nbytes: int) -> None:
        self._do("cuMemcpyHtoD", self._api.memcpy_htod, address, _bytes(host, nbytes))

    def download(self, host: int, address: int, nbytes: int) -> None:
        self._do("cuMemcpyDtoH", self._api.memcpy_dtoh, _bytes(host, nbytes), address)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._do("cuMemcpyDtoD", self._api.memcpy_dtod, to, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._do("cuMemsetD8", self._api.memset_d8, address, byte, nbytes)

    def event(self) -> Any:
        return self._do("cuEventCreate", self._api.Event)

    def record(self, event: Any) -> None:
        self._do("cuEventRecord", event.record)

    def seconds(self, start: Any, end: Any) -> float:
        return float(self._do("cuEventElapsedTime", end.time_since, start)) * 1e-3

    def wait(self) -> None:
        self._do("cuCtxSynchronize", self._api.Context.synchronize)


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


ADAPTERS: dict[str, Callable[[], Driver]] = {"cuda-bindings": Driver, "pycuda": PyCuda, "ctypes": CtypesDriver}
"""In the order in which they are tried."""
