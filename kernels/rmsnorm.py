"""y = x / √(mean(x²) + 1e-6) · weight along n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import sqrt
from ..ir.kernel import Kernel
from .common import FLOATS, as_float, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np

EPSILON = 1e-6


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n), weight (n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("rmsnorm")
    i, j_square, j_out = kb.axis("m", m), kb.axis("n@square", n), kb.axis("n@out", n)
    x, weight = kb.input("x", (m, n), dtype), kb.input("weight", (n,), dtype)
    square = kb.sum("square", (i,), j_square, x[i, j_square] * x[i, j_square])
    scale = 1.0 / sqrt(square[i] / as_float(n, dtype) + EPSILON)
    kb.store("y", dtype, (m, n), (i, j_out), x[i, j_out] * scale * weight[j_out])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """The formula in NumPy."""
    import numpy as np

    a = f64(x["x"])
    return {"y": a / np.sqrt((a * a).mean(axis=1, keepdims=True) + EPSILON) * f64(x["weight"])}


def flops(s: Shape) -> int:
    """· + (square) and · · (store) for each element; / + √ / a row."""
    return int(4 * s["m"] * s["n"] + 4 * s["m"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x and y once, weight once."""
    return int((2 * s["m"] * s["n"] + s["n"]) * dtype.size)


DEF = KernelDef(
    "rmsnorm",
    "y = x / sqrt(mean(x²) + 1e-6) * weight along rows",
    ("m", "n"),
    {"m": 4096, "n": 1024},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
