"""y[m, n] = scale[n] · Σₖ x[m, k] · w[n, k]: activations in 16 bits, int8 weights with a scale for each output channel.

Weights have k last, as linear layers keep them. Every int8 is a bfloat16 and a float16 exactly, so the product is as
exact as one of floats, and the scale waits until the sum is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float32, int8
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import f64, span
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (m, k) in `dtype`, w (n, k) in int8, scale (n) in float32 → y (m, n) in `dtype`."""
    m, n, k = s["m"], s["n"], s["k"]
    kb = KernelBuilder("matmul_w8")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), dtype), kb.input("w", (n, k), int8, range=span(int8))
    scale = kb.input("scale", (n,), float32)
    acc = kb.sum("acc", (i, j), l, x[i, l] * cast(w[j, l], float32))
    kb.store("y", dtype, (m, n), (i, j), acc[i, j] * scale[j])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """NumPy's own product with the weights that are meant."""
    return {"y": f64(x["x"]) @ (f64(x["w"]) * f64(x["scale"])[:, None]).T}


def flops(s: Shape) -> int:
    """A multiply and an add for each term, and a product for each element."""
    return int(s["m"] * s["n"] * (2 * s["k"] + 1))


def nbytes(s: Shape, dtype: DType) -> int:
    """x, w, scale and y once."""
    return int(s["m"] * (s["k"] + s["n"]) * dtype.size + s["n"] * (s["k"] + float32.size))


DEF = KernelDef(
    "matmul_w8",
    "y = x @ (w * scale).T, int8 weights with a scale a channel",
    ("m", "n", "k"),
    {"m": 1024, "n": 1024, "k": 1024},
    {"m": 13, "n": 37, "k": 29},
    ("bfloat16", "float16"),
    make,
    reference,
    flops,
    nbytes,
)
