"""y[m] = the smallest n at which x[m, n] is largest: a fold of (value, index) with the index as tie-break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, int32
from ..ir.functions import maximum, minimum, where
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.operators import cast
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np

NOWHERE = 2**31 - 1
"""The index of no element: it loses against every real one."""


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, n) → y (m) int32. The first NaN of a row counts as its largest element, as in NumPy."""
    m, n = s["m"], s["n"]
    kb = KernelBuilder("argmax")
    i, j_top, j_at = kb.axis("m", m), kb.axis("n@top", n), kb.axis("n@at", n)
    x = kb.input("x", (m, n), dtype)
    top = kb.block_reduce("max", "top", (i,), j_top, x[i, j_top])

    def among(value: Node, largest: Node) -> Node:
        """Whether it is the largest, or NaN (which makes the largest NaN)."""
        return value.eq(largest) | value.ne(value)

    at = kb.block_reduce("min", "at", (i,), j_at, where(among(x[i, j_at], top[i]), cast(j_at, int32), NOWHERE))
    best = maximum(kb.lhs(top), kb.rhs(top))
    first = minimum(where(among(kb.lhs(top), best), kb.lhs(at), NOWHERE), where(among(kb.rhs(top), best), kb.rhs(at), NOWHERE))
    kb.fold("best", kb.axis("n", n), (top, at), (top, at), (float("-inf"), NOWHERE), (best, first))
    kb.store("y", int32, (m,), (i,), at[i])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's argmax takes the first maximum too."""
    return {"y": f64(f64(x["x"]).argmax(axis=1))}


def flops(s: Shape) -> int:
    """A max and a min for each element."""
    return int(2 * s["m"] * s["n"])


def nbytes(s: Shape, dtype: DType) -> int:
    """x read, an index a row written."""
    return int(s["m"] * s["n"] * dtype.size + s["m"] * int32.size)


DEF = KernelDef(
    "argmax",
    "y = x.argmax(axis=1), the first on a tie",
    ("m", "n"),
    {"m": 4096, "n": 4096},
    {"m": 11, "n": 103},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
