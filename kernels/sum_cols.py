"""y[n] = Σₘ x[m, n]: each column summed."""

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
    """x (m, n) → y (n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("sum_cols")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    total = kb.sum("total", (j,), i, x[i, j])
    kb.store("y", sum_type(dtype), (n,), (j,), total[j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's sum in float64."""
    return {"y": f64(x["x"]).sum(axis=0)}


def flops(s: Shape) -> int:
    """One addition an element."""
    return int(s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(s["m"] * s["n"] * dtype.size + s["n"] * sum_type(dtype).size)


DEF = KernelDef(
    "sum_cols",
    "y = x.sum(axis=0)",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 31, "n": 67},
    (*FLOATS, "int8"),
    make,
    reference,
    flops,
    nbytes,
)
