"""c[m, n] = Σₖ a[m, k] · b[n, k]: the second operand transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import FLOATS, FP8, f64, span, sum_type
from .definition import Arrays, KernelDef, Shape
from .matmul import flops, nbytes

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) → c (m, n)."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_nt")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a = kb.input("a", (m, k), dtype, range=span(dtype))
    b = kb.input("b", (n, k), dtype, range=span(dtype))
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], dtype.acc) * cast(b[j, l], dtype.acc))
    kb.store("c", sum_type(dtype), (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product."""
    return {"c": f64(x["a"]) @ f64(x["b"]).T}


DEF = KernelDef(
    "matmul_nt",
    "c = a @ b.T",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    (*FLOATS, "int8", *FP8),
    make,
    reference,
    flops,
    nbytes,
)
