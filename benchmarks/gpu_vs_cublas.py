"""On an NVIDIA GPU: fp32 matmul tuned from an empty cache against cuBLAS (no TF32), and row kernels against the GPU's own copy.

    python benchmarks/gpu_vs_cublas.py [--budget 120s] [--kernel matmul softmax layernorm] [--shape m=4096,n=4096,k=4096]

Both sides run on the same buffers of the device and are timed by its events, in bursts that take turns. cuBLAS comes from the pip package
nvidia-cublas or a toolkit, through ctypes. `ratio` is the median over rounds of cuBLAS' time over ours, or of our compulsory
bytes a second over those of the copy kernel, measured right before and after: 1.0 is as fast. Exit code 3 where there is no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # cuBLAS reads it when it is loaded

import numpy as np
import tilewright
from tilewright.devices import get
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.device import CudaDevice
from tilewright.devices.cuda.session import CudaSession
from tilewright.devices.cuda.timing import timed
from tilewright.ir import DeviceError, TilewrightError
from tilewright.kernels import make, parse_shape
from tilewright.plan import compile

CASES = {"matmul": "m=4096,n=4096,k=4096", "softmax": "m=8192,n=8192", "layernorm": "m=8192,n=8192"}
BURST = 10


class CuBlas:
    """sgemm for row-major matrices."""

    def __init__(self) -> None:
        """Raises DeviceError, with the fix, where the library is missing. A GPU must be open in this thread."""
        self._lib = _library()
        self._handle = ctypes.c_void_p()
        self._check(self._lib.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")
        self._check(self._lib.cublasSetMathMode(self._handle, 0), "cublasSetMathMode")  # the default: float32 is float32
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def queue(self, m: int, n: int, k: int) -> Callable[[Sequence[int]], None]:
        """What starts C (m, n) = A (m, k) · B (k, n) for device addresses (A, B, C)."""

        def start(pointers: Sequence[int]) -> None:
            a, b, c = (ctypes.c_void_p(p) for p in pointers)
            one, zero = ctypes.byref(self._one), ctypes.byref(self._zero)
            # cuBLAS has columns where we have rows: Cᵀ = Bᵀ · Aᵀ
            self._check(self._lib.cublasSgemm_v2(self._handle, 0, 0, n, m, k, one, b, n, a, k, zero, c, n), "cublasSgemm")

        return start

    def _check(self, status: int, call: str) -> None:
        if status:
            raise DeviceError(f"{call} failed with status {status}; see that the nvidia-cublas package fits the driver's CUDA")


def _library() -> Any:
    folders = [p / "lib" for p in nvrtc.packages()] + [p.parent / "cublas" / "lib" for p in nvrtc.packages()]
    folders += [h / "lib64" for h in nvrtc.toolkits()]
    for path in (*(str(f) for d in folders for f in sorted(d.glob("libcublas.so.*"), reverse=True)), "libcublas.so.13", "libcublas.so.12"):
        try:
            for companion in sorted(Path(path).parent.glob("libcublasLt.so.*")) if os.path.isabs(path) else ():
                ctypes.CDLL(str(companion), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DeviceError("cuBLAS is not installed: pip install 'nvidia-cublas==13.0.*', or set CUDA_HOME to a CUDA toolkit")


def tuned(device: CudaDevice, name: str, shape: dict[str, int], budget: str) -> tuple[Any, Any]:
    """(what the search says, the winner's executable, loaded in this process)."""
    with tempfile.TemporaryDirectory() as folder:
        result = tilewright.tune(name, shape=shape, dtype="float32", device=device, budget=budget, cache=Path(folder) / "cache.db")
    if result.t_min is None:
        raise DeviceError(f"{name}: {result.message}")
    built = compile(make(name, shape, "float32"), result.opts, device)
    return result, device.load(built.obj, built.signature, 1)


def matmul(device: CudaDevice, shape: dict[str, int], budget: str, rounds: int) -> dict[str, Any]:
    """Tune, then take turns with cuBLAS."""
    result, ours = tuned(device, "matmul", shape, budget)
    m, n, k = shape["m"], shape["n"], shape["k"]
    session: CudaSession = device._open()
    memory = device.memory()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = [np.empty((m, n), np.float32) for _ in range(2)]
    at = [memory.alloc(x.nbytes) for x in (a, b, *c)]
    for handle, x in zip(at, (a, b), strict=False):
        memory.write(handle, x.ctypes.data, x.nbytes)
    rival = CuBlas().queue(m, n, k)
    with session.lock:
        rival([at[0], at[1], at[3]])
    ours.run(at[:3])
    for handle, x in zip(at[2:], c, strict=True):
        memory.read(handle, x.ctypes.data, x.nbytes)
    pairs = []
    for r in range(rounds):
        got = {}
        for who in (("ours", "cublas"), ("cublas", "ours"))[r % 2]:
            if who == "ours":
                times = ours.time([at[:3]], (), BURST)
            else:
                with session.lock:
                    times = timed(session, rival, 1, [[at[0], at[1], at[3]]], BURST)
            got[who] = sorted(times[1:])[(BURST - 2) // 4]
        pairs.append((got["ours"], got["cublas"]))
    ratios = sorted(theirs / own for own, theirs in pairs)
    flops = 2e-9 * m * n * k
    return {
        "kernel": "matmul",
        "shape": shape,
        "ratio": round(ratios[len(ratios) // 2], 3),
        "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ours_gflops": round(flops / min(o for o, _ in pairs), 1),
        "cublas_gflops": round(flops / min(t for _, t in pairs), 1),
        "relative_difference": float(np.abs(c[0] - c[1]).max() / np.abs(c[1]).max()),
        **_search(result),
    }


def rows(device: CudaDevice, name: str, shape: dict[str, int], budget: str, rounds: int) -> dict[str, Any]:
    """Tune, then set against the copy kernel of the limits."""

    def copy() -> float:
        limits = device.limits(probe=True)
        assert limits is not None
        return max(limits.rates[1].copy, limits.rates[1].copy_nt)

    before = copy()
    result, ours = tuned(device, name, shape, budget)
    from tilewright.ir.cost import cost

    nbytes = cost(make(name, shape, "float32"), {}).bytes
    memory = device.memory()
    sizes = [int(np.prod([int(d) for d in p.shape])) * p.dtype.size for p in ours.signature.params]
    handles = [memory.alloc(size) for size in sizes]
    rng = np.random.default_rng(0)
    for handle, size in zip(handles, sizes, strict=True):
        x = rng.standard_normal(size // 4, np.float32)
        memory.write(handle, x.ctypes.data, size)
    medians = [sorted(ours.time([handles], (), BURST))[BURST // 2] for _ in range(rounds)]
    limit = max(before, copy())
    median = sorted(medians)[rounds // 2]
    return {
        "kernel": name,
        "shape": shape,
        "ratio": round(nbytes / median / limit, 3),
        "gbytes_s": round(nbytes / median / 1e9, 1),
        "copy_gbytes_s": round(limit / 1e9, 1),
        "us": round(median * 1e6, 1),
        **_search(result),
    }


def _search(result: Any) -> dict[str, Any]:
    return {"tuning_seconds": round(result.seconds, 1), "opts": [o.json for o in result.opts], "counts": dict(result.counts)}


def main() -> int:
    """Print one JSON line a kernel; the exit code."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--budget", default="120s")
    p.add_argument("--kernel", nargs="*", choices=list(CASES), default=list(CASES))
    p.add_argument("--shape", help="of the one kernel chosen")
    p.add_argument("--device", default="cuda", help="cuda, cuda:N, or file.py:factory of a device like it")
    p.add_argument("--rounds", type=int, default=10)
    args = p.parse_args()
    try:
        device = get(args.device)
        if not isinstance(device, CudaDevice):
            raise DeviceError(f"this benchmark runs on NVIDIA GPUs, not on {device.name}")
        device.check()
        about = {
            "device": device.name,
            "gpu": device.fingerprint()["cpu"],
            "driver": device.fingerprint()["driver"],
            "by": device.fingerprint()["by"],
        }
        if "matmul" in args.kernel:
            _library()  # to miss it after the search would be late
        for name in args.kernel:
            shape = parse_shape(args.shape or CASES[name])
            row = (
                matmul(device, shape, args.budget, args.rounds) if name == "matmul" else rows(device, name, shape, args.budget, args.rounds)
            )
            print(json.dumps({**row, **about}), flush=True)
    except TilewrightError as e:
        print(f"cannot run: {e}", file=sys.stderr)
        return 3 if isinstance(e, DeviceError) else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
