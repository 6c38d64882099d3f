"""Arrays of other libraries in a GPU's memory as a kernel's arguments, where they lie: PyTorch, CuPy, Numba, PyCUDA by the CUDA array
interface (version 3, https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html), others and types that it lacks by DLPack."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...ir.dtypes import bfloat16, float8_e4m3, float8_e5m2
from ...ir.errors import UsageError
from ..base import DeviceArrays, Executable
from .session import CudaSession

_CUDA = 2
"""kDLCUDA."""
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""DLDataTypeCode and NumPy's letter."""
_OTHERS = {(4, 16): bfloat16, (10, 8): float8_e4m3, (12, 8): float8_e5m2}
"""Codes and bits of types that NumPy lacks."""


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device", ctypes.c_int), ("ndim", ctypes.c_int), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


_TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Where a capsule's tensor begins; in the versioned form behind version, context, deleter and flags."""


@dataclass(frozen=True)
class _ArrayFacts:
    """An array as its library describes it. `strides`: bytes, None where it is row-major; `stream`: what its last writer was queued on (0: the
    default stream, or none that has to be waited for)."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool
    device: int | None
    stream: int


class CudaArrays(DeviceArrays):
    """Arrays on one GPU. A call is queued on the stream that their library works with (or on the device's own, `cuda.on`), and returns before
    it is done, without waiting for anything: it may be part of a CUDA graph that is being captured, once it was called before."""

    def __init__(self, session: CudaSession, stream: int | None, given: Sequence[Any]) -> None:
        self._s, self._index, self._given = session, session.index, list(given)
        self._seen = [_seen(a) for a in given]
        self.looks = [self._look(a, s) for a, s in zip(given, self._seen)]
        streams = {s.stream for s in self._seen} if stream is None else {stream}
        if len(streams) > 1:
            raise UsageError(
                "the arrays' libraries work on different streams: make them wait for each other, and ask for the kernel with "
                "device=tilewright.devices.cuda.on(stream)"
            )
        (self._stream,) = streams

    @classmethod
    def of(cls, session: CudaSession, stream: int | None, given: Sequence[Any]) -> CudaArrays | None:
        """None where none of them lies in a GPU's memory. Raises UsageError."""
        there = [_on_gpu(a) for a in given]
        if not any(there):
            return None
        for a, on_gpu in zip(given, there):
            if not on_gpu:
                raise UsageError(f"some arguments lie in a GPU's memory and a {type(a).__name__} does not: copy it to the GPU first")
        return cls(session, stream, given)

    def _look(self, a: Any, s: _ArrayFacts) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        name, nbytes = type(a).__name__, prod(s.shape) * s.dtype.itemsize
        if s.device not in (None, self._index):
            raise UsageError(
                f"a {name} lies on cuda:{s.device} and the kernel runs on cuda:{self._index}: move it, or ask for device='cuda:{s.device}'"
            )
        if s.strides is not None and nbytes and not _row_major(s):
            raise UsageError(
                f"a {name} of shape {s.shape} is not contiguous in row-major order (strides of {s.strides} bytes): pass a contiguous copy"
            )
        return s.shape, s.dtype, nbytes

    def add(self, shape: Sequence[int], dtype: Any) -> Any:
        made = _empty_like(self._given, tuple(shape), np.dtype(dtype))
        seen = _seen(made)
        self._given.append(made)
        self._seen.append(seen)
        self.looks = [*self.looks, self._look(made, seen)]
        return made

    def overlap(self, i: int, j: int, same: bool) -> bool:
        a, b = ((self._seen[k].address, self._seen[k].address + self.looks[k][2]) for k in (i, j))
        return a[0] < b[1] and b[0] < a[1] and not (same and a == b)

    def launch(self, executable: Executable, vars: Sequence[int], outputs: int) -> None:
        inner: Any = executable  # a CudaExecutable: this memory's
        for a, s in zip(self._given[-outputs:], self._seen[-outputs:]):
            if not s.writable:
                raise UsageError(f"an output is a read-only {type(a).__name__}: pass a writable array as out=")
        inner.launch([s.address for s in self._seen], vars, self._stream)

    def handles(self) -> list[int]:
        if self._stream:  # what tensors compute is queued on the default stream
            with self._s.lock, self._s.lent():
                self._s.wait()
        return [s.address for s in self._seen]


def stream_of(given: Any) -> int:
    """The handle of a stream: a number, or an object of PyTorch, CuPy, PyCUDA, Numba or cuda.core. Raises UsageError."""
    if isinstance(given, int):
        return given
    protocol = getattr(given, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(given, name):
            found = getattr(given, name)
            return int(getattr(found, "value", found) or 0)  # Numba's handle is a c_void_p, whose value is None for the default stream
    raise UsageError(f"a {type(given).__name__} is no CUDA stream: pass its handle, a torch.cuda.Stream, a cupy.cuda.Stream or such")


def _on_gpu(a: Any) -> bool:
    return _index(a) is not None or (not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__"))


def _index(a: Any) -> int | None:
    """The number of the GPU that an array lies on, as far as it says."""
    kind, index = a.__dlpack_device__() if hasattr(type(a), "__dlpack_device__") else (0, 0)
    return int(index) if kind == _CUDA else None


def _seen(a: Any) -> _ArrayFacts:
    device = _index(a)
    try:
        told = a.__cuda_array_interface__
        dtype = bfloat16.np if told["typestr"] in ("<V2", "|V2") else np.dtype(told["typestr"])  # as ml_dtypes writes it
    except (AttributeError, KeyError):  # no interface, or a type that it has no word for
        return _by_dlpack(a, device)
    except RuntimeError as e:  # PyTorch, of a tensor that requires a gradient
        raise UsageError(f"a {type(a).__name__} is not given: {e}") from None
    if told.get("mask") is not None:
        raise UsageError(f"a {type(a).__name__} has a mask, which kernels do not know: pass its data")
    address, read_only = told["data"]
    return _ArrayFacts(
        int(address or 0), tuple(told["shape"]), dtype, told.get("strides"), not read_only, device, _stream(a, told.get("stream"))
    )


def _by_dlpack(a: Any, device: int | None) -> _ArrayFacts:
    """The facts by a capsule, which is given back at once: the caller holds the array itself."""
    try:
        capsule = a.__dlpack__(stream=-1)  # the call is queued on its library's stream: nothing has to be waited for
    except BufferError as e:
        raise UsageError(f"a {type(a).__name__} is not given: {e}") from None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    t = _DLTensor.from_address(api.PyCapsule_GetPointer(capsule, name) + _TENSOR_AT[name])
    kind = _OTHERS.get((t.code, t.bits))
    if t.lanes != 1 or (kind is None and t.code not in _KINDS):
        raise UsageError(f"a {type(a).__name__} has elements of a type that kernels do not know")
    dtype = kind.np if kind is not None else np.dtype(f"{_KINDS[t.code]}{t.bits // 8}")
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] * dtype.itemsize for i in range(t.ndim)) if t.strides else None
    return _ArrayFacts((t.data or 0) + t.offset, shape, dtype, strides, True, device, _stream(a, None))


def _stream(a: Any, told: int | None) -> int:
    """The stream that an array's library works with now. 1 stands for the default stream (CUDA array interface)."""
    library = type(a).__module__.partition(".")[0]
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(a.device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0 if told in (None, 1) else int(told)


def _row_major(s: _ArrayFacts) -> bool:
    step = s.dtype.itemsize
    for extent, stride in zip(reversed(s.shape), reversed(s.strides or ())):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _empty_like(given: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array of the library of the first argument that can make one, by its own allocator, which knows its streams and captures."""
    for a in given:
        library = type(a).__module__.partition(".")[0]
        if library == "torch":
            torch = sys.modules["torch"]
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device=a.device)
        if library == "cupy":
            with a.device:
                return sys.modules["cupy"].empty(shape, dtype)
        if library == "numba":
            return sys.modules["numba"].cuda.device_array(shape, dtype)
        if library == "pycuda":
            return sys.modules["pycuda.gpuarray"].empty(shape, dtype)
    raise UsageError(f"an output cannot be made by the library of a {type(given[0]).__name__}: pass out=, an array that it may write into")
