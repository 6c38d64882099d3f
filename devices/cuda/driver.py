"""What the cuda device asks of NVIDIA's driver: a handful of calls, which either of two packages makes, or ctypes.

`open_driver` takes cuda-bindings where it is installed, else pycuda, else ctypes (`adapters`, `pycuda_adapter`). Failures
become errors that say what to do; after a fault in a kernel the driver refuses everything else in this process, which
`lost` tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...ir.errors import BuildError, DeviceError, MeasureError, TilewrightError
from .launch import Sizes

NO_DRIVER = (
    "there is no NVIDIA driver here (libcuda.so.1 does not load): install the driver for the GPU, or start the container with its GPUs "
    "(--gpus all); building CUDA kernels needs none of it, only running them does"
)


class Driver(Protocol):
    """One process's view of the driver. Addresses are ints of the device's memory, sizes are bytes, times are seconds. Any method may
    raise what `failure` makes. All work is on the default stream, in order. Methods may be called from any thread that has
    called `open`, one at a time."""

    name: str
    """Package and version."""
    lost: str
    """Why nothing works any more in this process, or ''."""

    def version(self) -> tuple[int, int]:
        """The newest CUDA that the driver supports."""

    def count(self) -> int:
        """How many GPUs there are to see."""

    def card(self, device: int) -> str:
        """The marketing name of one."""

    def bus(self, device: int) -> str:
        """Where it is on the PCI bus, as 'domain:bus:device.function'."""

    def attribute(self, device: int, name: str) -> int:
        """A device attribute by the driver's name for it without its prefix, such as 'MULTIPROCESSOR_COUNT'."""

    def open(self, device: int) -> None:
        """Make a GPU the one that this thread works with."""

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""

    def load(self, cubin: bytes) -> Any:
        """A module of machine code."""

    def unload(self, module: Any) -> None:
        """Release a module."""

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""

    def function_attribute(self, function: Any, name: str) -> int:
        """Such as 'NUM_REGS' or 'LOCAL_SIZE_BYTES'."""

    def allow_shared(self, function: Any, nbytes: int) -> None:
        """Let launches ask for so much dynamic shared memory."""

    def bind(self, function: Any, groups: Sizes, threads: Sizes, shared: int, words: Sequence[int | bytes]) -> Callable[[], None]:
        """What starts a grid, as often as it is called. `words` are addresses and signed integers, and bytes of tensor maps and
        of other scalars; they are packed here, once."""

    def mapped(self, nbytes: int) -> tuple[int, int]:
        """(host address, device address) of host memory that kernels can read while they run."""

    def unmap(self, host: int) -> None:
        """Give such memory back."""

    def alloc(self, nbytes: int) -> int:
        """Device memory, aligned to 256."""

    def free(self, address: int) -> None:
        """Give it back."""

    def upload(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host memory and wait."""

    def download(self, host: int, address: int, nbytes: int) -> None:
        """Copy to host memory and wait."""

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy from one place in the device's memory to another."""

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set every byte."""

    def event(self) -> Any:
        """A point in time, to be recorded; released with its last reference."""

    def record(self, event: Any) -> None:
        """The time at which all work so far is done."""

    def seconds(self, start: Any, end: Any) -> float:
        """Between two events, once the second has happened."""

    def wait(self) -> None:
        """Until all work is done. Faults of kernels come up here."""


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
    "LAUNCH_OUT_OF_RESOURCES": "smaller groups, or fewer registers by LAUNCH",
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
