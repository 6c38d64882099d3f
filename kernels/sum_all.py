"""y = Σ x over everything; int8 sums in int32."""

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
    """x (n) → y ()."""
    n = s["n"]
    kb = KernelBuilder("sum_all")
    j = kb.axis("n", n)
    x = kb.input("x", (n,), dtype, range=span(dtype))
    total = kb.sum("total", (), j, x[j])
    kb.store("y", sum_type(dtype), (), (), total[()])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's sum in float64."""
    import numpy as np

    return {"y": np.asarray(f64(x["x"]).sum())}


def flops(s: Shape) -> int:
    """One addition an element."""
    return int(s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, one number written."""
    return int(s["n"] * dtype.size + sum_type(dtype).size)


DEF = KernelDef("sum_all", "y = x.sum()", ("n",), {"n": 1 << 26}, {"n": 1009}, (*FLOATS, "int8"), make, reference, flops, nbytes)
