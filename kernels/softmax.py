"""y[m, n] = exp(x − max) / Σ exp(x − max) along n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import exp
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n). `e` is named, so that it can be kept between the sum and the store."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("softmax")
    i = kb.axis("m", m)
    j_max, j_exp, j_sum, j_out = (kb.axis(f"n@{site}", n) for site in ("max", "exp", "sum", "out"))
    x = kb.input("x", (m, n), dtype)
    top = kb.max("top", (i,), j_max, x[i, j_max])
    e = kb.value("e", (i, j_exp), exp(x[i, j_exp] - top[i]))
    total = kb.sum("total", (i,), j_sum, e[i, j_sum])
    kb.store("y", dtype, (m, n), (i, j_out), e[i, j_out] * (1.0 / total[i]))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Shifted by the maximum, as the textbook has it."""
    import numpy as np

    a = f64(x["x"])
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def flops(s: Shape) -> int:
    """max, −, + and · for each element, one reciprocal a row."""
    return int(4 * s["m"] * s["n"] + s["m"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(2 * s["m"] * s["n"] * dtype.size)


DEF = KernelDef(
    "softmax",
    "y = softmax(x) along rows",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
