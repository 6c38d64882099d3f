"""c[m, n] = scale_a[m] · scale_b[n] · Σₖ a[m, k] · b[n, k] of 8-bit floats, accumulated in float32, bfloat16 out.

Both operands have k last, as the tensor cores of Hopper take 8-bit operands, and as linear layers keep their weights.
Each row of `a` (token) and each column of the result (channel) has a scale; the scale of a whole operand is the same
number in each. `matmul_fp8_blocks` has scales of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, bfloat16, float32
from ..ir.kernel import Kernel
from .common import FP8, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """a (m, k), b (n, k) in `dtype`, scale_a (m), scale_b (n) in float32 → c (m, n) in bfloat16."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_fp8")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("a", (m, k), dtype), kb.input("b", (n, k), dtype)
    scale_a, scale_b = kb.input("scale_a", (m,), float32), kb.input("scale_b", (n,), float32)
    acc = kb.sum("acc", (i, j), l, a[i, l] * b[j, l])
    kb.store("c", bfloat16, (m, n), (i, j), acc[i, j] * scale_a[i] * scale_b[j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product of the scaled operands."""
    return {"c": (f64(x["a"]) * f64(x["scale_a"])[:, None]) @ (f64(x["b"]) * f64(x["scale_b"])[:, None]).T}


def flops(s: Shape) -> int:
    """A multiply and an add for each term, and two products for each element."""
    return int(2 * s["m"] * s["n"] * (s["k"] + 1))


def nbytes(s: Shape, dtype: DType) -> int:
    """a, b, the scales and c once."""
    return int((s["m"] + s["n"]) * (s["k"] * dtype.size + float32.size) + s["m"] * s["n"] * bfloat16.size)


DEF = KernelDef(
    "matmul_fp8",
    "c = (a * scale_a) @ (b * scale_b).T, 8-bit floats, a scale a row",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    FP8,
    make,
    reference,
    flops,
    nbytes,
)
