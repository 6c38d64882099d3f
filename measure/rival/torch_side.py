"""PyTorch's side of a comparison: a process that prepares a kernel in PyTorch, then times bursts of calls when it is
told to.

It imports nothing of Tilewright and runs as a script, so that PyTorch may live in an interpreter of its own. Talk is
one JSON line each way on stdin and stdout: {"folder", "kernel", "shape", "dtype", "inputs", "threads", "device",
"compiled", "tf32"} prepares, and answers {"ready", "version"} or {"error"}; {"calls": n} answers {"times": seconds of
each call}. Inputs are `NAME.npy` in the folder (types that NumPy lacks as float32). The output of the first call is
left there as `rival.npy`.

On a GPU the device's events are the clock, and calls are queued while it is held busy, so launching from Python is no
part of the time.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
_NAMES = """
matmul matmul_nt matmul_tn matmul_mixed matmul_bias_relu matmul_bias_gelu batched_matmul matvec sum_rows
sum_cols sum_all softmax log_softmax layernorm layernorm_stats rmsnorm cross_entropy gelu add transpose
conv2d conv2d_dx conv2d_dw max_pool2d argmax cumsum embedding embedding_grad attention attention_full
attention_window attention_grouped
"""
KERNELS = frozenset(_NAMES.split())
"""What has a twin in PyTorch: one call that computes the same from arrays of the same layout."""
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = {"matmul": ("int8",), "matmul_nt": ("int8",), "add": ("int32",), "transpose": ("int8",)}
"""What else some of them take."""
EPSILON = {"layernorm": 1e-5, "layernorm_stats": 1e-5, "rmsnorm": 1e-6}
"""As the kernels of the same names have it."""
_SHORT_S, _GROUP = 5e-5, 64
"""Calls on a GPU that are shorter are timed in groups of so many at most."""
_QUEUE_S, _LEAST_HOLD_S, _MOST_HOLD_S = 40e-6, 1e-3, 0.5
"""The time that Python may take to queue a call, and how long the GPU is held busy meanwhile."""
_CYCLES = 2.0e9
"""More than any GPU's clock: cycles a second of the wait."""


def has_twin(kernel: str, dtype: str) -> bool:
    """Whether PyTorch computes this in one call."""
    return kernel in KERNELS and (dtype in FLOATS or dtype in INTEGERS.get(kernel, ()))


def twin(torch: Any, kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    """The call on inputs `x` by name (of a kernel that `has_twin`), which returns the first output; into an output
    that is made here once, where PyTorch takes one."""
    F, ops = torch.nn.functional, torch.ops.aten
    first = next(iter(x.values()))
    if "matmul" in kernel or kernel == "matvec":
        return _product(torch, kernel, x)
    if kernel.startswith("attention"):
        return _attention(torch, kernel, x, s)
    if kernel in ("sum_rows", "sum_cols"):
        along = 1 if kernel == "sum_rows" else 0
        total = first.new_empty(first.shape[1 - along])
        return lambda: torch.sum(first, dim=along, out=total)
    epsilon = EPSILON.get(kernel, 0.0)
    y = torch.empty_like(first)
    turned = first.new_empty(first.shape[::-1])
    at = first.new_empty(first.shape[0], dtype=torch.int64)
    calls: dict[str, Call] = {
        "sum_all": lambda: first.sum(),
        "softmax": lambda: ops._softmax.out(first, 1, False, out=y),
        "log_softmax": lambda: ops._log_softmax.out(first, 1, False, out=y),
        "gelu": lambda: ops.gelu.out(first, out=y),
        "layernorm": lambda: F.layer_norm(first, (s["n"],), x["weight"], x["bias"], EPSILON[kernel]),
        "layernorm_stats": lambda: torch.native_layer_norm(first, (s["n"],), x["weight"], x["bias"], epsilon)[0],
        "rmsnorm": lambda: F.rms_norm(first, (s["n"],), x["weight"], EPSILON[kernel]),
        "cross_entropy": lambda: F.cross_entropy(first, x["label"], reduction="none"),
        "cumsum": lambda: torch.cumsum(first, dim=1, out=y),
        "add": lambda: torch.add(x["a"], x["b"], out=y),
        "transpose": lambda: turned.copy_(first.t()),
        "argmax": lambda: torch.argmax(first, dim=1, out=at),
        "conv2d": lambda: F.conv2d(first, x["weight"], stride=s["stride"], padding=s["pad"], groups=s["groups"]),
        "max_pool2d": lambda: F.max_pool2d(first, (s["kh"], s["kw"]), s["stride"], s["pad"]),
    }
    if kernel in ("conv2d_dx", "conv2d_dw"):
        return _convolution_gradient(torch, kernel, x, s)
    return calls[kernel] if kernel in calls else _table(torch, kernel, x, s)


def compiled(torch: Any, kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    """A row kernel as Inductor compiles it: on GPUs to Triton. Raises KeyError for any other."""
    F = torch.nn.functional
    first = next(iter(x.values()))
    forms: dict[str, Call] = {
        "softmax": lambda: F.softmax(first, 1),
        "log_softmax": lambda: F.log_softmax(first, 1),
        "layernorm": lambda: F.layer_norm(first, (s["n"],), x["weight"], x["bias"], EPSILON[kernel]),
        "rmsnorm": lambda: F.rms_norm(first, (s["n"],), x["weight"], EPSILON[kernel]),
        "cross_entropy": lambda: F.cross_entropy(first, x["label"], reduction="none"),
        "gelu": lambda: F.gelu(first),
        "add": lambda: first + x["b"],
        "transpose": lambda: first.t().contiguous(),
        "sum_rows": lambda: first.sum(1),
        "sum_cols": lambda: first.sum(0),
        "sum_all": lambda: first.sum(),
    }
    call: Call = torch.compile(forms[kernel])
    return call


def _product(torch: Any, kernel: str, x: dict[str, Any]) -> Call:
    F = torch.nn.functional
    a, b, *rest = x.values()
    if kernel == "matmul_nt":
        b = b.mT
    if kernel == "matmul_tn":
        a = a.mT
    if a.dtype == torch.int8:
        return lambda: torch._int_mm(a, b)
    if kernel == "matmul_mixed":
        return lambda: torch.mm(a, b, out_dtype=torch.float32)
    if kernel == "matmul_bias_relu":
        return lambda: torch._addmm_activation(rest[0], a, b)
    if kernel == "matmul_bias_gelu":  # by erf; the one call that PyTorch has for both takes tanh on GPUs
        return lambda: F.gelu(torch.addmm(rest[0], a, b))
    c = a.new_empty((*a.shape[:-1], *b.shape[1 if b.dim() < 3 else 2 :]))
    return lambda: torch.matmul(a, b, out=c)


def _attention(torch: Any, kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = x["q"], x["k"], x["v"]
    if kernel == "attention_full":
        return lambda: attend(q, k, v)
    if kernel == "attention_window":
        at = torch.arange(s["s"], device=q.device)
        seen = (at[:, None] >= at) & (at[:, None] < at + s["w"])
        return lambda: attend(q, k, v, attn_mask=seen)
    if kernel == "attention_grouped":
        return lambda: attend(q, k, v, is_causal=True, enable_gqa=True)
    return lambda: attend(q, k, v, is_causal=True)


def _convolution_gradient(torch: Any, kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    """One of the gradients of a convolution, by the call that autograd makes (and cuDNN does)."""
    dy = x["dy"]
    wants = [kernel == "conv2d_dx", kernel == "conv2d_dw", False]
    of = x["x"] if "x" in x else dy.new_empty((s["n"], s["c"], s["h"], s["w"]))
    weight = x["weight"] if "weight" in x else dy.new_empty((s["oc"], s["c"] // s["groups"], s["kh"], s["kw"]))
    how = (None, [s["stride"]] * 2, [s["pad"]] * 2, [1, 1], False, [0, 0], s["groups"], wants)
    which = wants.index(True)
    return lambda: torch.ops.aten.convolution_backward(dy, of, weight, *how)[which]


def _table(torch: Any, kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    if kernel == "embedding":
        picked = x["table"].new_empty((s["n"], s["d"]))
        return lambda: torch.index_select(x["table"], 0, x["ids"], out=picked)
    table = x["dy"].new_empty((s["v"], s["d"]))
    return lambda: table.zero_().index_add_(0, x["ids"], x["dy"])


def prepare(torch: Any, job: dict[str, Any]) -> Call:
    """The call of a job, run once; its output is written for comparison."""
    import numpy as np

    folder, device = Path(job["folder"]), job["device"]
    torch.set_grad_enabled(False)
    torch.set_num_threads(job["threads"])
    # float32 is float32, not TF32, unless ours may be lower too; cuDNN may try what it has
    torch.set_float32_matmul_precision("high" if job["tf32"] else "highest")
    torch.backends.cudnn.allow_tf32 = job["tf32"]
    torch.backends.cudnn.benchmark = True
    if device != "cpu" and not torch.cuda.is_available():
        raise RuntimeError(f"this PyTorch ({torch.__version__}) cannot use the GPU: install a build for CUDA")
    x = {}
    for name in job["inputs"]:
        kept = np.load(folder / f"{name}.npy")
        found = torch.from_numpy(kept).to(device)
        x[name] = found.to(getattr(torch, job["dtype"])) if found.is_floating_point() else found
    call = (compiled if job.get("compiled") else twin)(torch, job["kernel"], x, job["shape"])
    out = call()
    out = out.float() if out.dtype in (torch.bfloat16, torch.float16) else out
    np.save(folder / "rival.npy", out.cpu().numpy())
    return call


def timed(call: Call, calls: int) -> list[float]:
    """Seconds of each of so many calls on the processor."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def timed_by_events(torch: Any, call: Call, calls: int, typical: float) -> list[float]:
    """Seconds of each of so many calls on the GPU, where one takes about `typical` seconds; short ones share their
    group's mean."""
    group = max(1, min(_GROUP, calls, round(_SHORT_S / max(typical, 1e-6))))
    sizes = [min(group, calls - i) for i in range(0, calls, group)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(sizes) + 1)]
    torch.cuda._sleep(int(_CYCLES * max(_LEAST_HOLD_S, min(_MOST_HOLD_S, _QUEUE_S * (calls + len(events))))))
    events[0].record()
    for size, event in zip(sizes, events[1:]):
        for _ in range(size):
            call()
        event.record()
    torch.cuda.synchronize()
    spans = [a.elapsed_time(b) * 1e-3 for a, b in itertools.pairwise(events)]
    return [t / size for size, t in zip(sizes, spans) for _ in range(size)]


def answer_lines(library: str, prepared: Callable[[Any, dict[str, Any]], Call], on_gpu: Callable[..., list[float]] | None = None) -> None:
    """Answer lines until stdin ends. `prepared`: the call of a job, by the library; `on_gpu` times calls where the job's device is one."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    job = json.loads(sys.stdin.readline())
    lib: Any = None
    try:
        lib = importlib.import_module(library)
        call = prepared(lib, job)
        answer = {"ready": True, "version": lib.__version__}
    except Exception as e:  # a rival that cannot run is a line of the report, not the end of it
        answer = {"error": f"{type(e).__name__}: {e}"[:400]}
    print(json.dumps(answer), file=talk, flush=True)
    typical = 1e-3
    for line in sys.stdin if "ready" in answer else ():
        calls = json.loads(line)["calls"]
        if on_gpu is not None and job["device"] != "cpu":
            with lib.cuda.device(job["device"]):
                times = on_gpu(lib, call, calls, typical)
        else:
            times = timed(call, calls)
        typical = min(times)
        print(json.dumps({"times": times}), file=talk, flush=True)


if __name__ == "__main__":
    answer_lines("torch", prepare, timed_by_events)
