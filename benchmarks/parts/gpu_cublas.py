"""cuBLAS by ctypes: products of row-major matrices, timed in turns with an executable of ours on the same buffers.

The library comes from the pip package nvidia-cublas or from a toolkit. Numbers of types and modes are those of
library_types.h and cublas_api.h (NVIDIA's "cuBLAS Library User Guide", cublasGemmEx). TF32 is off: float32 is
float32."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # cuBLAS reads it when it is loaded

import numpy as np
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.device import CudaDevice
from tilewright.devices.cuda.executable import timed
from tilewright.ir import DeviceError

TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}
"""CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF."""
_COMPUTE_32F, _DEFAULT_ALGORITHM = 68, -1
_BURST = 10


class CuBlas:
    """One handle. A GPU must be open in this thread."""

    def __init__(self) -> None:
        """Raises DeviceError, with the fix, where the library is missing."""
        self._lib = library()
        self._handle = ctypes.c_void_p()
        self._check(self._lib.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")
        self._check(self._lib.cublasSetMathMode(self._handle, 0), "cublasSetMathMode")  # the default: float32 is float32
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def queue(self, m: int, n: int, k: int, dtype: str) -> Callable[[Sequence[int]], None]:
        """What starts C (m, n) = A (m, k) · B (k, n) for device addresses (A, B, C), with sums in float32."""
        kind = TYPES[dtype]

        def start(pointers: Sequence[int]) -> None:
            a, b, c = (ctypes.c_void_p(p) for p in pointers)
            one, zero = ctypes.byref(self._one), ctypes.byref(self._zero)
            # cuBLAS has columns where we have rows: Cᵀ = Bᵀ · Aᵀ
            status = self._lib.cublasGemmEx(
                self._handle,
                0,
                0,
                n,
                m,
                k,
                one,
                b,
                kind,
                n,
                a,
                kind,
                k,
                zero,
                c,
                kind,
                n,
                _COMPUTE_32F,
                _DEFAULT_ALGORITHM,
            )
            self._check(status, "cublasGemmEx")

        return start

    def _check(self, status: int, call: str) -> None:
        if status:
            raise DeviceError(f"{call} failed with status {status}; see that the nvidia-cublas package fits the driver's CUDA")


def library() -> Any:
    """cuBLAS, loaded. Raises DeviceError where it is missing."""
    folders = [p / "lib" for p in nvrtc.packages()] + [p.parent / "cublas" / "lib" for p in nvrtc.packages()]
    folders += [h / "lib64" for h in nvrtc.toolkits()]
    for path in (
        *(str(f) for d in folders for f in sorted(d.glob("libcublas.so.*"), reverse=True)),
        "libcublas.so.13",
        "libcublas.so.12",
    ):
        try:
            for companion in sorted(os.scandir(os.path.dirname(path)), key=lambda f: f.name) if os.path.isabs(path) else ():
                if companion.name.startswith("libcublasLt.so."):
                    ctypes.CDLL(companion.path, mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DeviceError("cuBLAS is not installed: pip install 'nvidia-cublas==13.0.*', or set CUDA_HOME to a CUDA toolkit")


def beside(device: CudaDevice, ours: Any, arrays: Sequence[Any], dtype: str, rounds: int) -> dict[str, Any]:
    """Our product and cuBLAS' in turns, on random a (m, k) and b (k, n): medians, the ratio of each round, and how
    the outputs differ. `ours`: a loaded executable. Raises DeviceError without cuBLAS."""
    a, b = arrays
    (m, k), n = a.shape, b.shape[1]
    session, memory = device._open(), device.memory()
    c = [np.empty((m, n), a.dtype) for _ in range(2)]
    at = [memory.alloc(x.nbytes) for x in (a, b, *c)]
    try:
        for handle, x in zip(at, (a, b), strict=False):
            memory.write(handle, x.ctypes.data, x.nbytes)
        rival = CuBlas().queue(m, n, k, dtype)
        mine, theirs = at[:3], [at[0], at[1], at[3]]
        with session.lock:
            rival(theirs)
        ours.run(mine)
        for handle, x in zip(at[2:], c, strict=True):
            memory.read(handle, x.ctypes.data, x.nbytes)
        pairs = []
        for r in range(rounds):
            got = {}
            for who in (("ours", "cublas"), ("cublas", "ours"))[r % 2]:
                if who == "ours":
                    times = ours.time([mine], (), _BURST)
                else:
                    with session.lock:
                        times = timed(session, rival, 1, [theirs], _BURST)
                got[who] = sorted(times[1:])[(_BURST - 2) // 4]
            pairs.append((got["ours"], got["cublas"]))
    finally:
        for handle in at:
            memory.free(handle)
    ratios = sorted(theirs / own for own, theirs in pairs)
    first, second = (x.astype(np.float32) for x in c)
    flops = 2e-12 * m * n * k
    return {
        "ratio": round(ratios[len(ratios) // 2], 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ours_tflops": round(flops / min(o for o, _ in pairs), 2),
        "tflops": round(flops / min(t for _, t in pairs), 2),
        "difference": float(np.abs(first - second).max() / np.abs(second).max()),
    }
