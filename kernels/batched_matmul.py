"""c[b, m, n] = Σₖ x[b, m, k] · y[b, k, n]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import FLOATS, f64, span, sum_type
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (b, m, k), y (b, k, n) → c (b, m, n)."""
    b, m, n, k = s["b"], s["m"], s["n"], s["k"]
    kb = KernelBuilder("batched_matmul")
    h, i, j, l = kb.axis("b", b), kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x = kb.input("x", (b, m, k), dtype, range=span(dtype))
    y = kb.input("y", (b, k, n), dtype, range=span(dtype))
    acc = kb.sum("acc", (h, i, j), l, cast(x[h, i, l], dtype.acc) * cast(y[h, l, j], dtype.acc))
    kb.store("c", sum_type(dtype), (b, m, n), (h, i, j), acc[h, i, j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product."""
    return {"c": f64(x["x"]) @ f64(x["y"])}


def flops(s: Shape) -> int:
    """A multiply and an add for each term."""
    return int(2 * s["b"] * s["m"] * s["n"] * s["k"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x, y and c once."""
    return int(s["b"] * ((s["m"] * s["k"] + s["k"] * s["n"]) * dtype.size + s["m"] * s["n"] * sum_type(dtype).size))


DEF = KernelDef(
    "batched_matmul",
    "c[b] = x[b] @ y[b]",
    ("b", "m", "n", "k"),
    {"b": 16, "m": 256, "n": 256, "k": 256},
    {"b": 3, "m": 7, "n": 19, "k": 11},
    (*FLOATS, "int8"),
    make,
    reference,
    flops,
    nbytes,
)
