"""dtable[ids[n], d] += dy[n, d]: the gradient of `embedding`, rows scattered by index and added where they meet."""

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
    """dy (n, d), ids (n) int64 in [0, v) → dtable (v, d), in the compute type (sums are not rounded to 16 bits at each step)."""
    v, n, d = s["v"], s["n"], s["d"]
    kb = KernelBuilder("embedding_grad")
    i, j = kb.axis("n", n), kb.axis("d", d)
    dy, ids = kb.input("dy", (n, d), dtype), kb.input("ids", (n,), int64, range=ids_range(v))
    kb.store("dtable", dtype.compute, (v, d), (i, j), dy[i, j], indices=(ids[i], j), combine="add")
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's unbuffered add."""
    import numpy as np

    out = np.zeros((s["v"], s["d"]))
    np.add.at(out, x["ids"], f64(x["dy"]))
    return {"dtable": out}


def flops(s: Shape) -> int:
    """One addition an element."""
    return int(s["n"] * s["d"])


def nbytes(s: Shape, dtype: DType) -> int:
    """dy and ids read, the whole table's gradient written."""
    return int(s["n"] * s["d"] * dtype.size + s["n"] * int64.size + s["v"] * s["d"] * dtype.compute.size)


DEF = KernelDef(
    "embedding_grad",
    "dtable[ids] += dy",
    ("v", "n", "d"),
    {"v": 8192, "n": 4096, "d": 512},
    {"v": 23, "n": 31, "d": 19},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
