"""c[m, n] = max(Σₖ a[m, k] · b[k, n] + bias[n], 0): a matmul with an epilogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import maximum
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (k, n), bias (n) → c (m, n)."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_bias_relu")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b, bias = kb.input("a", (m, k), dtype), kb.input("b", (k, n), dtype), kb.input("bias", (n,), dtype)
    acc = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
    kb.store("c", dtype, (m, n), (i, j), maximum(acc[i, j] + bias[j], 0.0))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy, then the epilogue."""
    import numpy as np

    return {"c": np.maximum(f64(x["a"]) @ f64(x["b"]) + f64(x["bias"]), 0.0)}


def flops(s: Shape) -> int:
    """The product, then 2 for each output."""
    return int(2 * s["m"] * s["n"] * s["k"] + 2 * s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Everything once."""
    m, n, k = s["m"], s["n"], s["k"]
    return int((m * k + k * n + n + m * n) * dtype.size)


DEF = KernelDef(
    "matmul_bias_relu",
    "c = relu(a @ b + bias)",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
