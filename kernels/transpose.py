"""y[n, m] = x[m, n]: no arithmetic, every element moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .common import FLOATS, f64, span
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (n, m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("transpose")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype, range=span(dtype))
    kb.store("y", dtype, (n, m), (j, i), x[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own."""
    return {"y": f64(x["x"]).T}


def flops(s: Shape) -> int:
    """None."""
    return 0


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(2 * s["m"] * s["n"] * dtype.size)


DEF = KernelDef(
    "transpose", "y = x.T", ("m", "n"), {"m": 4096, "n": 4096}, {"m": 31, "n": 67}, (*FLOATS, "int8"), make, reference, flops, nbytes
)
