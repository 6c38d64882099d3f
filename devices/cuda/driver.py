"""NVIDIA's driver behind one class (`Driver`): by the package cuda-bindings where it is installed, else by ctypes.

Failures become errors that say what to do. After a fault in a kernel the driver refuses everything else in this process, which `lost`
tells."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ...ir.errors import BuildError, DeviceError, MeasureError, TilewrightError
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
            return Driver(name)
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
    their addresses (`places`)."""

    __slots__ = ("_memory", "_places", "places")

    def __init__(self, words: Sequence[int | bytes]) -> None:
        """`words`: ints, bytes of a map each, and bytes of a scalar."""
        sizes = [len(w) if isinstance(w, bytes) else 8 for w in words]
        self._memory = ctypes.create_string_buffer(sum(s + min(s, _ALIGN) for s in sizes) + _ALIGN)
        at = -(-ctypes.addressof(self._memory) // _ALIGN) * _ALIGN
        self._places = (ctypes.c_void_p * max(1, len(words)))()
        for i, (word, size) in enumerate(zip(words, sizes, strict=True)):
            at = -(-at // min(size, _ALIGN)) * min(size, _ALIGN)
            self._places[i] = at
            if isinstance(word, bytes):
                ctypes.memmove(at, word, size)
            else:
                ctypes.c_int64.from_address(at).value = word
            at += size
        self.places = ctypes.addressof(self._places)
        """The address of the array of addresses."""


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


def failure(call: str, code: str, text: str = "") -> TilewrightError:
    """The error for a call that failed. `code`: the driver's name without CUDA_ERROR_; `text`: its sentence.

    DeviceError: nothing can run here, or not this code. BuildError: this candidate cannot be launched. MeasureError: out of
    memory, or a fault (`FATAL`) after which this process can only be replaced."""
    said = f"{call} failed: {text or code.lower().replace('_', ' ')}" + (f" ({code})" if text else "")
    if code in FATAL:
        return MeasureError(f"{said}: a kernel's fault ends the GPU's work for this process; measure the rest in a new one")
    if code == "OUT_OF_MEMORY":
        return MeasureError(f"{said}: the GPU's memory is in use or too small; end other programs on it or measure a smaller shape")
    if code in _CANDIDATE:
        return BuildError(f"{said}: {_CANDIDATE[code]}")
    if code in _DEVICE:
        return DeviceError(f"{said}: {_DEVICE[code]}")
    return MeasureError(f"{said}: see what nvidia-smi and the system's log say")


def _bindings() -> tuple[str, Any]:
    api = importlib.import_module("cuda.bindings.driver")  # without a driver its first call fails
    return f"cuda-bindings {importlib.import_module('cuda.bindings').__version__}", api


ADAPTERS: dict[str, Callable[[], tuple[str, Any]]] = {"cuda-bindings": _bindings, "ctypes": lambda: ("ctypes", LibCuda())}
"""(package and version, an object that has the driver's calls), in the order in which they are tried. Every call gives a status with its
result. Memory, modules and events are plain handles."""
_MAPPED, _PORTABLE = 2, 1
"""CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTALLOC_PORTABLE of cuda.h."""


class Driver:
    """One process's view of the driver. Addresses are ints of the device's memory, sizes are bytes, times are seconds. Any method may
    raise what `failure` makes. All work is on the default stream, in order. Methods may be called from any thread that has
    called `open`, one at a time."""

    name: str
    """Package and version."""
    lost: str
    """Why nothing works any more in this process, or ''."""

    def __init__(self, adapter: str) -> None:
        """`adapter`: of `ADAPTERS`. Raises ModuleNotFoundError where the package is missing, DeviceError where there is no driver."""
        self.lost = ""
        self._contexts: dict[int, Any] = {}
        try:
            self.name, self._api = ADAPTERS[adapter]()
            self._call("cuInit", 0)
        except (RuntimeError, OSError) as e:  # its loader finds no library
            raise DeviceError(f"{NO_DRIVER} ({e})") from e

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
