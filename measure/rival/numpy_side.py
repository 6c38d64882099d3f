"""NumPy's side of a comparison: `python -m tilewright.measure.rival.numpy_side` prepares a kernel in NumPy, then times
bursts of calls when it is told to.

It talks as `torch_side` does. A kernel is written as a careful user would write it: results go into arrays that are
there, and there are no temporaries that can be avoided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .torch_side import EPSILON, Call, answer_lines

FLOATS = ("float32", "float64")
"""What NumPy multiplies by a library; small integers and narrow floats it takes one by one."""
PRODUCTS = ("matmul", "matmul_nt", "matmul_tn", "batched_matmul", "matvec", "matmul_bias_relu")
ROWS = ("softmax", "log_softmax", "rmsnorm", "layernorm", "cumsum", "argmax")
SUMS = ("sum_rows", "sum_cols", "sum_all")
OTHERS = ("add", "transpose", "embedding", "embedding_grad")
KERNELS = frozenset((*PRODUCTS, *ROWS, *SUMS, *OTHERS))
"""What NumPy has in one call, or in the few that everybody writes."""


def has_twin(kernel: str, dtype: str) -> bool:
    """Whether NumPy computes this as a user would write it."""
    return kernel in KERNELS and dtype in FLOATS


def twin(kernel: str, x: dict[str, Any], s: dict[str, int]) -> Call:
    """The calls on inputs `x` by name (of a kernel that `has_twin`), which return the first output."""
    import numpy as np

    from ...plan import empty

    first = next(iter(x.values()))
    if kernel in PRODUCTS:
        return _product(kernel, x)
    if kernel in ROWS:
        return _rows(kernel, first, x)
    if kernel == "embedding_grad":
        table = empty((s["v"], s["d"]), first.dtype)

        def scatter() -> Any:
            table.fill(0)
            np.add.at(table, x["ids"], x["dy"])
            return table

        return scatter
    if kernel == "embedding":
        picked = empty((s["n"], s["d"]), x["table"].dtype)
        return lambda: np.take(x["table"], x["ids"], axis=0, out=picked, mode="clip")
    y = empty(first.shape[::-1] if kernel == "transpose" else first.shape, first.dtype)

    def transposed() -> Any:
        np.copyto(y, first.T)
        return y

    calls: dict[str, Call] = {
        "sum_rows": lambda: first.sum(axis=1),
        "sum_cols": lambda: first.sum(axis=0),
        "sum_all": lambda: first.sum(),
        "add": lambda: np.add(x["a"], x["b"], out=y),
        "transpose": transposed,
    }
    return calls[kernel]


def _product(kernel: str, x: dict[str, Any]) -> Call:
    import numpy as np

    from ...plan import empty

    a, b, *rest = x.values()
    a = a.swapaxes(-1, -2) if kernel == "matmul_tn" else a
    b = b.swapaxes(-1, -2) if kernel == "matmul_nt" else b
    c = empty((*a.shape[:-1], *b.shape[1 if b.ndim < 3 else 2 :]), a.dtype)

    def product() -> Any:
        np.matmul(a, b, out=c)
        if rest:
            np.add(c, rest[0], out=c)
            np.maximum(c, 0, out=c)
        return c

    return product


def _rows(kernel: str, a: Any, x: dict[str, Any]) -> Call:
    import numpy as np

    from ...plan import empty

    y, t = empty(a.shape, a.dtype), empty(a.shape, a.dtype)

    def shifted() -> Any:
        np.subtract(a, a.max(axis=1, keepdims=True), out=y)
        return np.exp(y, out=t).sum(axis=1, keepdims=True)

    def softmax() -> Any:
        return np.multiply(t, 1 / shifted(), out=y)

    def log_softmax() -> Any:
        return np.subtract(y, np.log(shifted()), out=y)

    def scaled(of: Any) -> Any:
        np.multiply(of, of, out=t)
        np.multiply(of, 1 / np.sqrt(t.mean(axis=1, keepdims=True) + EPSILON[kernel]), out=y)
        return np.multiply(y, x["weight"], out=y)

    def layernorm() -> Any:
        return np.add(scaled(np.subtract(a, a.mean(axis=1, keepdims=True), out=y)), x["bias"], out=y)

    calls: dict[str, Callable[[], Any]] = {
        "softmax": softmax,
        "log_softmax": log_softmax,
        "rmsnorm": lambda: scaled(a),
        "layernorm": layernorm,
        "cumsum": lambda: np.cumsum(a, axis=1, out=y),
        "argmax": lambda: a.argmax(axis=1),
    }
    return calls[kernel]


def prepare(np: Any, job: dict[str, Any]) -> Call:
    """The call of a job, run once; its output is written for comparison."""
    from ...plan import empty

    folder = Path(job["folder"])
    x = {}
    for name in job["inputs"]:
        kept = np.load(folder / f"{name}.npy")
        x[name] = empty(kept.shape, kept.dtype)
        x[name][...] = kept
    call = twin(job["kernel"], x, job["shape"])
    np.save(folder / "rival.npy", call())
    return call


if __name__ == "__main__":
    answer_lines("numpy", prepare)
