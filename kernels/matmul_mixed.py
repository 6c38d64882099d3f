"""c[m, n] = Σₖ a[m, k] · b[k, n] with inputs of 16 or 8 bits and a float32 output: the accumulator is stored unrounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float32
from ..ir.kernel import Kernel
from .common import FP8, f64
from .definition import Arrays, KernelDef, Shape
from .matmul import flops

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n) in `dtype` → c (m, n) in float32."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_mixed")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (k, n), dtype)
    acc = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
    kb.store("c", float32, (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product."""
    return {"c": f64(x["a"]) @ f64(x["b"])}


def nbytes(s: Shape, dtype: DType) -> int:
    """a, b and c once."""
    return int((s["m"] * s["k"] + s["k"] * s["n"]) * dtype.size + s["m"] * s["n"] * float32.size)


DEF = KernelDef(
    "matmul_mixed",
    "c = a @ b, 16- or 8-bit inputs, float32 output",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    ("bfloat16", "float16", *FP8),
    make,
    reference,
    flops,
    nbytes,
)
