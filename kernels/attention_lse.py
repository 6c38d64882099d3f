"""Attention that also stores lse, the logarithm of the sum of each query's exponentials: what its gradient needs. See
`attention`, and `attention_mask` for what queries see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import build, flops_of
from .attention_mask import DEFAULT, MINIMUM, SIZES, Mask, matrix, repeated
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q (b, h, s, d), k, v (b, h / shared, s, d) → y (b, h, s, d), lse (b, h, s) in the compute type."""
    mask = Mask.of(s)
    return build("attention_lse", s, dtype, causal=mask.causal, window=mask.window, shared=mask.shared, sums=True)


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """lse by logaddexp over the whole score matrix."""
    import numpy as np

    k, v = (repeated(x, t, s) for t in "kv")
    scores = np.where(matrix(s), np.einsum("zhid,zhjd->zhij", f64(x["q"]), k) / np.sqrt(s["d"]), -np.inf)
    lse = np.logaddexp.reduce(scores, axis=-1)
    return {"y": np.exp(scores - lse[..., None]) @ v, "lse": lse}


def flops(s: Shape) -> int:
    """Attention's, and + for each query."""
    return flops_of(s, Mask.of(s).pairs(s)) + int(s["b"] * s["h"] * s["s"])


def nbytes(s: Shape, dtype: DType) -> int:
    """q and y, k and v of their heads, lse."""
    heads = 2 * s["h"] + 2 * (s["h"] // s["shared"])
    return int(s["b"] * s["s"] * (heads * s["d"] * dtype.size + s["h"] * dtype.compute.size))


DEF = KernelDef(
    "attention_lse",
    "attention, with log sum exp of the scores stored",
    ("b", "h", "s", "d", *SIZES),
    {"b": 1, "h": 8, "s": 1024, "d": 64, **DEFAULT},
    {"b": 1, "h": 2, "s": 11, "d": 5, **DEFAULT},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
    MINIMUM,
)
