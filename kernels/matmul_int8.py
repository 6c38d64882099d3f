"""c[m, n] = Σₖ a[m, k] · b[k, n] of bytes into int32, as quantised networks multiply: a uint8, b int8 (`matmul` has int8 by int8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int8, int32
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import f64, span
from .definition import Arrays, KernelDef, Shape
from .matmul import flops, nbytes

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k) in `dtype`, b (k, n) in int8 → c (m, n) in int32."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_int8")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a = kb.input("a", (m, k), dtype, range=(0, 255))
    b = kb.input("b", (k, n), int8, range=span(int8))
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], int32) * cast(b[l, j], int32))
    kb.store("c", int32, (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product: exact in float64."""
    return {"c": f64(x["a"]) @ f64(x["b"])}


DEF = KernelDef(
    "matmul_int8",
    "c = a @ b, a uint8, b int8, int32 output",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    ("uint8",),
    make,
    reference,
    flops,
    nbytes,
)
