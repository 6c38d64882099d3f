"""y = a + b, element by element."""

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
    """a (m, n), b (m, n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("add")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a = kb.input("a", (m, n), dtype, range=span(dtype))
    b = kb.input("b", (m, n), dtype, range=span(dtype))
    kb.store("y", dtype, (m, n), (i, j), a[i, j] + b[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own."""
    return {"y": f64(x["a"]) + f64(x["b"])}


def flops(s: Shape) -> int:
    """One an element."""
    return int(s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Two read, one written."""
    return int(3 * s["m"] * s["n"] * dtype.size)


DEF = KernelDef(
    "add",
    "y = a + b",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 17, "n": 61},
    (*FLOATS, "int32"),
    make,
    reference,
    flops,
    nbytes,
)
