"""One contestant of `cpu_vs.py`: a process that prepares a kernel in one library, then runs bursts of calls when it is told to.

NumPy's and PyTorch's calls are those of `tilewright.measure.rival`. PyTorch and tinygrad may live in an interpreter that
lacks Tilewright: for them nothing of it is imported, and the file of PyTorch's calls is read by its path. Talk is one
JSON line each way on stdin and stdout: {"folder", "library", "kernel", "shape", "dtype", "threads"} prepares, {"burst":
seconds, "most": calls, "cpu": whether of this thread alone} answers with the seconds of every call. Inputs are
`{name}.npy` in the folder (bfloat16 as float32), read into arrays that begin on a cache line; the output of the first
call is left there as `{library}.npy`."""

from __future__ import annotations

import json
import math
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
Prepared = tuple[Call | None, dict[str, Any]]
"""What a burst calls (None: the library does not play), and what to tell."""
TORCH_SIDE = Path(__file__).parents[1] / "measure" / "rival" / "torch_side.py"


def burst(call: Call, seconds: float, most: int, cpu: bool = False) -> list[float]:
    """The times of at most `most` calls; no more are begun once `seconds` have gone by, but three are made in any
    case. `cpu`: time that this thread ran."""
    clock = time.thread_time if cpu else time.perf_counter
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < most and (len(times) < 3 or time.perf_counter() < end):
        begin = clock()
        call()
        times.append(clock() - begin)
    return times


def serve(prepare: Callable[[dict[str, Any]], Prepared]) -> None:
    """Prepare the job in the first line of stdin and tell how that went; then the times of each burst that a line asks for.

    {"raise": true} in the job: an error is raised and not told."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    job = json.loads(sys.stdin.readline())
    begin = time.perf_counter()
    call, told = None, {}
    try:
        call, told = prepare(job)
        told["ready"] = call is not None
    except Exception as e:  # who cannot run here is a line of the table, not the end of it
        if job.get("raise"):
            raise
        told = {"error": f"{type(e).__name__}: {e}"[:400]}
    told |= {
        "prepare_seconds": round(time.perf_counter() - begin, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(told), file=talk, flush=True)
    for line in sys.stdin if call is not None else ():
        order = json.loads(line)
        print(json.dumps(burst(call, order["burst"], order["most"], order["cpu"])), file=talk, flush=True)


def empty(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """A NumPy array that begins on a cache line, as those of PyTorch do by themselves."""
    import numpy as np

    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    room = np.empty(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(kind).reshape(shape)


def read(file: Path) -> Any:
    """The array of a file, on a cache line."""
    import numpy as np

    found = np.load(file)
    out = empty(found.shape, found.dtype)
    out[...] = found
    return out


def numpy_call(kernel: str, x: dict[str, Any], s: dict[str, int], dtype: str) -> Call | None:
    """The kernel in NumPy, as a careful user would write it."""
    from tilewright.measure.rival import numpy_side

    return numpy_side.twin(kernel, x, s) if numpy_side.has_twin(kernel, dtype) else None


def torch_call(kernel: str, arrays: dict[str, Any], s: dict[str, int], dtype: str, threads: int) -> Call | None:
    """The kernel in PyTorch."""
    import torch

    side = runpy.run_path(str(TORCH_SIDE))
    if not side["has_twin"](kernel, dtype):
        return None
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    x = {k: torch.from_numpy(v) for k, v in arrays.items()}
    x = {k: v.to(getattr(torch, dtype)) if v.is_floating_point() else v for k, v in x.items()}
    found: Call = side["twin"](torch, kernel, x, s)
    return found


def tinygrad_call(kernel: str, arrays: dict[str, Any], s: dict[str, int], dtype: str) -> Call | None:
    """The kernel in tinygrad, captured by its JIT."""
    from tinygrad import Device, Tensor, TinyJit, dtypes

    x = {k: Tensor(v).realize() for k, v in arrays.items()}
    if dtype == "bfloat16":
        x = {k: v.cast(dtypes.bfloat16).realize() for k, v in x.items()}
    first = next(iter(x.values()))
    epsilon = 1e-5 if kernel == "layernorm" else 1e-6  # as the kernels have it
    forms: dict[str, Callable[[], Tensor]] = {
        "matmul": lambda: first.matmul(x["b"], dtype=dtypes.int32 if dtype == "int8" else None),
        "batched_matmul": lambda: first @ x["y"],
        "add": lambda: first + x["b"],
        "transpose": lambda: first.T.contiguous(),
        "softmax": lambda: first.softmax(1),
        "gelu": lambda: first * 0.5 * (1 + (first * 0.5**0.5).erf()),
        "layernorm": lambda: first.layernorm(eps=epsilon) * x["weight"] + x["bias"],
        "rmsnorm": lambda: first * (first.square().mean(1, keepdim=True) + epsilon).rsqrt() * x["weight"],
        "sum_rows": lambda: first.sum(1),
        "sum_cols": lambda: first.sum(0),
        "sum_all": lambda: first.sum(),
        "conv2d": lambda: first.conv2d(x["weight"], groups=s["groups"], stride=s["stride"], padding=s["pad"]),
        "max_pool2d": lambda: first.max_pool2d((s["kh"], s["kw"]), s["stride"], padding=s["pad"]),
        "attention": lambda: first.scaled_dot_product_attention(x["k"], x["v"], is_causal=True),
        "attention_full": lambda: first.scaled_dot_product_attention(x["k"], x["v"]),
        "cumsum": lambda: first.cumsum(1),
        "argmax": lambda: first.argmax(1),
    }
    if kernel not in forms:
        return None
    device = Device[Device.DEFAULT]
    run = TinyJit(lambda: forms[kernel]().realize())
    for _ in range(2):  # a plain run, a captured one; from then on it is replayed
        run()

    def call() -> Any:
        out = run()
        device.synchronize()
        return out

    return call


def prepare(job: dict[str, Any]) -> Prepared:
    """What a job asks for; the output of the first call is kept."""
    import numpy as np

    folder = Path(job["folder"])
    arrays = {n: read(folder / f"{n}.npy") for n in job["inputs"]}
    shape, dtype, kernel = job["shape"], job["dtype"], job["kernel"].partition(":")[0]
    if job["library"] == "numpy":
        call = numpy_call(kernel, arrays, shape, dtype)
    elif job["library"] == "torch":
        call = torch_call(kernel, arrays, shape, dtype, job["threads"])
    else:
        call = tinygrad_call(kernel, arrays, shape, dtype)
    if call is not None:
        out = call()
        out = out.float() if dtype == "bfloat16" else out
        np.save(folder / f"{job['library']}.npy", out.numpy() if hasattr(out, "numpy") else np.asarray(out))
    return call, {}


if __name__ == "__main__":
    serve(prepare)
