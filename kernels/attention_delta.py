"""delta[b, h, i] = Σ_d dy·y: the part of attention's gradient that all keys of a query have in common; see `attention_dq`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """y, dy (b, h, s, d) → delta (b, h, s) in the compute type."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb = KernelBuilder("attention_delta")
    z, c, i, l = (kb.axis(name, size) for name, size in zip(("b", "h", "row", "d"), dims))
    y, dy = kb.input("y", dims, dtype), kb.input("dy", dims, dtype)
    total = kb.sum("total", (z, c, i), l, dy[z, c, i, l] * y[z, c, i, l])
    kb.store("delta", dtype.compute, dims[:3], (z, c, i), total[z, c, i])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's einsum."""
    import numpy as np

    return {"delta": np.einsum("zhid,zhid->zhi", f64(x["dy"]), f64(x["y"]))}


def flops(s: Shape) -> int:
    """· and + for each element."""
    return int(2 * s["b"] * s["h"] * s["s"] * s["d"])


def nbytes(s: Shape, dtype: DType) -> int:
    """y and dy read, delta written."""
    return int(s["b"] * s["h"] * s["s"] * (2 * s["d"] * dtype.size + dtype.compute.size))


DEF = KernelDef(
    "attention_delta",
    "delta = sum(dy * y) along d",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 2, "h": 2, "s": 13, "d": 11},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
