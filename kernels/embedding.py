"""y[n, d] = table[ids[n], d]: rows gathered by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int64
from ..ir.kernel import Kernel
from .common import FLOATS, f64, ids_range
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """table (v, d), ids (n) int64 in [0, v) → y (n, d)."""
    v, n, d = s["v"], s["n"], s["d"]
    kb = KernelBuilder("embedding")
    i, j = kb.axis("n", n), kb.axis("d", d)
    table, ids = kb.input("table", (v, d), dtype), kb.input("ids", (n,), int64, range=ids_range(v))
    kb.store("y", dtype, (n, d), (i, j), table[ids[i], j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's take."""
    return {"y": f64(x["table"])[x["ids"]]}


def flops(s: Shape) -> int:
    """None."""
    return 0


def nbytes(s: Shape, dtype: DType) -> int:
    """As many rows read as can differ, the ids, and every output row."""
    return int((min(s["v"], s["n"]) + s["n"]) * s["d"] * dtype.size + s["n"] * int64.size)


DEF = KernelDef(
    "embedding",
    "y = table[ids]",
    ("v", "n", "d"),
    {"v": 32768, "n": 4096, "d": 1024},
    {"v": 23, "n": 31, "d": 19},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
