"""y = x·Φ(x), element by element, exact by erf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .common import FLOATS, f64, gelu, gelu_reference
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m, n)."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("gelu")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype)
    kb.store("y", dtype, (m, n), (i, j), gelu(x[i, j]))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Python's erf."""
    return {"y": gelu_reference(f64(x["x"]))}


def flops(s: Shape) -> int:
    """· · + · for each element (and one erf)."""
    return int(4 * s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, y written."""
    return int(2 * s["m"] * s["n"] * dtype.size)


DEF = KernelDef("gelu", "y = gelu(x)", ("m", "n"), {"m": 4096, "n": 4096}, {"m": 17, "n": 61}, FLOATS, make, reference, flops, nbytes)
