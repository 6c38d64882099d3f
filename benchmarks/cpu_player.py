"""One contestant of `cpu_vs.py`: a process that prepares a kernel in one library, then runs bursts of calls when it is told to.

It imports nothing of Tilewright, so that a rival may live in an interpreter of its own. Talk is one JSON line each
way on stdin and stdout: {"folder", "library", "kernel", "shape", "dtype", "threads"} prepares, {"burst": seconds,
"most": calls, "cpu": whether of this thread alone} answers with the seconds of every call. Inputs are `{name}.npy` in
the folder (bfloat16 as float32), read into arrays that begin on a cache line; the output of the first call is left
there as `{library}.npy`."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

Call = Callable[[], Any]
EPSILON = {"layernorm": 1e-5, "rmsnorm": 1e-6}
"""As the kernels of the same names have it."""


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


def answer_bursts(call: Call | None, told: Mapping[str, Any], talk: IO[str]) -> None:
    """Say `told`, then the times of each burst that a line of stdin asks for, until it ends or there is nothing to call."""
    print(json.dumps(told), file=talk, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if call is None:
            break
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
    """The kernel in NumPy, as a careful user would write it: into given arrays, no temporaries that can be avoided."""
    import numpy as np

    if kernel in ("matmul", "batched_matmul"):
        if dtype != "float32":
            return None  # NumPy multiplies small integers one by one, and has no bfloat16
        a, b = x.values()
        c = empty((*a.shape[:-1], b.shape[-1]))
        return lambda: np.matmul(a, b, out=c)
    if kernel == "embedding_grad":
        table = empty((s["v"], s["d"]))

        def scatter() -> Any:
            table.fill(0)
            np.add.at(table, x["ids"], x["dy"])
            return table

        return scatter
    if kernel == "add":
        y = empty(x["a"].shape)
        return lambda: np.add(x["a"], x["b"], out=y)
    if kernel == "embedding":
        y = empty((s["n"], s["d"]))
        return lambda: np.take(x["table"], x["ids"], axis=0, out=y, mode="clip")
    if kernel not in ("softmax", "transpose", "sum_rows", "sum_cols", "sum_all", "rmsnorm", "layernorm", "cumsum", "argmax"):
        return None
    a = x["x"]
    y, t = empty(a.shape), empty(a.shape)

    def softmax() -> Any:
        np.subtract(a, a.max(axis=1, keepdims=True), out=y)
        np.exp(y, out=y)
        return np.multiply(y, 1 / y.sum(axis=1, keepdims=True), out=y)

    def rmsnorm() -> Any:
        np.multiply(a, a, out=t)
        np.multiply(a, 1 / np.sqrt(t.mean(axis=1, keepdims=True) + EPSILON[kernel]), out=y)
        return np.multiply(y, x["weight"], out=y)

    def layernorm() -> Any:
        np.subtract(a, a.mean(axis=1, keepdims=True), out=y)
        np.multiply(y, y, out=t)
        np.multiply(y, 1 / np.sqrt(t.mean(axis=1, keepdims=True) + EPSILON[kernel]), out=y)
        np.multiply(y, x["weight"], out=y)
        return np.add(y, x["bias"], out=y)

    def transpose() -> Any:
        np.copyto(y.reshape(a.shape[::-1]), a.T)
        return y.reshape(a.shape[::-1])

    calls: dict[str, Call] = {
        "softmax": softmax, "rmsnorm": rmsnorm, "layernorm": layernorm, "transpose": transpose,
        "sum_rows": lambda: a.sum(axis=1), "sum_cols": lambda: a.sum(axis=0), "sum_all": lambda: a.sum(),
        "cumsum": lambda: np.cumsum(a, axis=1, out=y), "argmax": lambda: a.argmax(axis=1),
    }  # fmt: skip
    return calls[kernel]


def torch_call(kernel: str, arrays: dict[str, Any], s: dict[str, int], dtype: str, threads: int) -> Call | None:
    """The kernel in PyTorch, with `out=` wherever it is taken."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    x = {k: torch.from_numpy(v) for k, v in arrays.items()}
    if dtype == "bfloat16":
        x = {k: v.bfloat16() if v.is_floating_point() else v for k, v in x.items()}
    ops = torch.ops.aten
    first = next(iter(x.values()))
    y = torch.empty_like(x["x"]) if "x" in x else None
    if kernel in ("matmul", "batched_matmul"):
        a, b = x.values()
        if dtype == "int8":
            return lambda: torch._int_mm(a, b)
        c = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype)
        return lambda: torch.matmul(a, b, out=c)
    if kernel == "add":
        total = torch.empty_like(first)
        return lambda: torch.add(x["a"], x["b"], out=total)
    if kernel == "transpose":
        turned = torch.empty(first.shape[::-1], dtype=first.dtype)
        return lambda: turned.copy_(first.t())
    if kernel == "embedding":
        picked = torch.empty((s["n"], s["d"]))
        return lambda: torch.index_select(x["table"], 0, x["ids"], out=picked)
    if kernel == "embedding_grad":
        table = torch.empty((s["v"], s["d"]))
        return lambda: table.zero_().index_add_(0, x["ids"], x["dy"])
    if kernel == "argmax":
        at = torch.empty(first.shape[0], dtype=torch.int64)
        return lambda: torch.argmax(first, dim=1, out=at)
    sums = {"sum_rows": 1, "sum_cols": 0, "sum_all": None}
    if kernel in sums:
        along = sums[kernel]
        total = torch.empty(() if along is None else first.shape[1 - along])
        if along is None:
            return lambda: first.sum()
        return lambda: torch.sum(first, dim=along, out=total)
    calls: dict[str, Call] = {
        "softmax": lambda: ops._softmax.out(first, 1, False, out=y),
        "log_softmax": lambda: ops._log_softmax.out(first, 1, False, out=y),
        "gelu": lambda: ops.gelu.out(first, out=y),
        "layernorm": lambda: F.layer_norm(first, (s["n"],), x["weight"], x["bias"], EPSILON[kernel]),
        "rmsnorm": lambda: F.rms_norm(first, (s["n"],), x["weight"], EPSILON[kernel]),
        "cross_entropy": lambda: F.cross_entropy(first, x["label"], reduction="none"),
        "cumsum": lambda: torch.cumsum(first, dim=1, out=y),
        "conv2d": lambda: F.conv2d(first, x["weight"], stride=s["stride"], padding=s["pad"], groups=s["groups"]),
        "max_pool2d": lambda: F.max_pool2d(first, (s["kh"], s["kw"]), s["stride"], s["pad"]),
        "attention": lambda: F.scaled_dot_product_attention(x["q"], x["k"], x["v"], is_causal=True),
        "attention_full": lambda: F.scaled_dot_product_attention(x["q"], x["k"], x["v"]),
    }
    return calls.get(kernel)


def tinygrad_call(kernel: str, arrays: dict[str, Any], s: dict[str, int], dtype: str) -> Call | None:
    """The kernel in tinygrad, captured by its JIT."""
    from tinygrad import Device, Tensor, TinyJit, dtypes

    x = {k: Tensor(v).realize() for k, v in arrays.items()}
    if dtype == "bfloat16":
        x = {k: v.cast(dtypes.bfloat16).realize() for k, v in x.items()}
    first = next(iter(x.values()))
    forms: dict[str, Callable[[], Tensor]] = {
        "matmul": lambda: first.matmul(x["b"], dtype=dtypes.int32 if dtype == "int8" else None),
        "batched_matmul": lambda: first @ x["y"],
        "add": lambda: first + x["b"],
        "transpose": lambda: first.T.contiguous(),
        "softmax": lambda: first.softmax(1),
        "gelu": lambda: first * 0.5 * (1 + (first * 0.5**0.5).erf()),
        "layernorm": lambda: first.layernorm(eps=EPSILON[kernel]) * x["weight"] + x["bias"],
        "rmsnorm": lambda: first * (first.square().mean(1, keepdim=True) + EPSILON[kernel]).rsqrt() * x["weight"],
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


def prepare(job: dict[str, Any]) -> Call | None:
    """The call to time; None where the library has no such kernel."""
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
        np.save(
            folder / f"{job['library']}.npy",
            out if isinstance(out, np.ndarray) else np.asarray(out) if not hasattr(out, "numpy") else out.numpy(),
        )
    return call


def main() -> None:
    """Answer lines until stdin ends."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    job = json.loads(sys.stdin.readline())
    try:
        call = prepare(job)
        answer = {"ready": call is not None}
    except Exception as e:  # a rival that cannot run here is a line of the table, not the end of it
        call, answer = None, {"error": f"{type(e).__name__}: {e}"[:300]}
    answer_bursts(call, answer, talk)


if __name__ == "__main__":
    main()
