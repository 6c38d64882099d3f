"""y[m, n] = x − max − log Σ exp(x − max) along n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import exp, log
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n). The maximum and the logarithm are taken off one after the other: of large x their sum
    would round the logarithm away."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("log_softmax")
    i = kb.axis("m", m)
    j_max, j_sum, j_out = (kb.axis(f"n@{site}", n) for site in ("max", "sum", "out"))
    x = kb.input("x", (m, n), dtype)
    top = kb.max("top", (i,), j_max, x[i, j_max])
    total = kb.sum("total", (i,), j_sum, exp(x[i, j_sum] - top[i]))
    kb.store("y", dtype, (m, n), (i, j_out), (x[i, j_out] - top[i]) - log(total[i]))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's logaddexp along rows."""
    import numpy as np

    a = f64(x["x"])
    return {"y": a - np.logaddexp.reduce(a, axis=1, keepdims=True)}


def flops(s: Shape) -> int:
    """max, − and + for each element of the sum; one more − for each of the store, as the difference to the largest is known."""
    return int(4 * s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(2 * s["m"] * s["n"] * dtype.size)


DEF = KernelDef(
    "log_softmax",
    "y = log_softmax(x) along rows",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
