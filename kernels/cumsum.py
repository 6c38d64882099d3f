"""y[m, n] = Σ_{t ≤ n} x[m, t]: an inclusive prefix sum along rows; int8 sums in int32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .common import FLOATS, f64, span, sum_type
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("cumsum")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    prefix = kb.scan("add", "prefix", (i, j), j, x[i, j])
    kb.store("y", sum_type(dtype), (m, n), (i, j), prefix[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own."""
    return {"y": f64(x["x"]).cumsum(axis=1)}


def flops(s: Shape) -> int:
    """One addition an element."""
    return int(s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(s["m"] * s["n"] * (dtype.size + sum_type(dtype).size))


DEF = KernelDef(
    "cumsum",
    "y = x.cumsum(axis=1)",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 11, "n": 103},
    (*FLOATS, "int8"),
    make,
    reference,
    flops,
    nbytes,
)
