"""y[m] = Σₙ a[m, n] · x[n]."""

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
    """a (m, n), x (n) → y (m)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("matvec")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, x = kb.input("a", (m, n), dtype, range=span(dtype)), kb.input("x", (n,), dtype, range=span(dtype))
    acc = kb.sum("acc", (i,), j, cast(a[i, j], dtype.acc) * cast(x[j], dtype.acc))
    kb.store("y", sum_type(dtype), (m,), (i,), acc[i])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product."""
    return {"y": f64(x["a"]) @ f64(x["x"])}


def flops(s: Shape) -> int:
    """A multiply and an add for each term."""
    return int(2 * s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """a, x and y once."""
    return int((s["m"] * s["n"] + s["n"]) * dtype.size + s["m"] * sum_type(dtype).size)


DEF = KernelDef(
    "matvec", "y = a @ x", ("m", "n"), {"m": 4096, "n": 4096}, {"m": 31, "n": 67}, (*FLOATS, "int8"), make, reference, flops, nbytes
)
