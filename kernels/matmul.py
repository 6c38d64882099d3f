"""c[m, n] = Σₖ a[m, k] · b[k, n]; float16 and bfloat16 accumulate in float32, int8 in int32 (stored as int32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import FLOATS, FP8, f64, span, sum_type
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n) → c (m, n)."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a = kb.input("a", (m, k), dtype, range=span(dtype))
    b = kb.input("b", (k, n), dtype, range=span(dtype))
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], dtype.acc) * cast(b[l, j], dtype.acc))
    kb.store("c", sum_type(dtype), (m, n), (i, j), acc[i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product."""
    return {"c": f64(x["a"]) @ f64(x["b"])}


def flops(s: Shape) -> int:
    """A multiply and an add for each term."""
    return int(2 * s["m"] * s["n"] * s["k"])


def nbytes(s: Shape, dtype: DType) -> int:
    """a, b and c once."""
    return int((s["m"] * s["k"] + s["k"] * s["n"]) * dtype.size + s["m"] * s["n"] * sum_type(dtype).size)


DEF = KernelDef(
    "matmul",
    "c = a @ b",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    (*FLOATS, "int8", *FP8),
    make,
    reference,
    flops,
    nbytes,
)
