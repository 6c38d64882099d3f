"""Causal attention that also stores lse, the logarithm of the sum of each query's exponentials: what its gradient needs. See `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import build, reference_of
from .attention import flops as forward_flops
from .attention import nbytes as forward_bytes
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d), lse (b, h, s) in the compute type."""
    return build("attention_lse", s, dtype, causal=True, sums=True)


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """lse by logaddexp over the whole score matrix."""
    import numpy as np

    scores = np.einsum("zhid,zhjd->zhij", f64(x["q"]), f64(x["k"])) / np.sqrt(s["d"])
    return {**reference_of(x, s, causal=True), "lse": np.logaddexp.reduce(np.where(np.tri(s["s"], dtype=bool), scores, -np.inf), axis=-1)}


def flops(s: Shape) -> int:
    """Attention's, and + for each query."""
    return forward_flops(s) + int(s["b"] * s["h"] * s["s"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Attention's, and lse."""
    return forward_bytes(s, dtype) + int(s["b"] * s["h"] * s["s"] * dtype.compute.size)


DEF = KernelDef(
    "attention_lse",
    "attention, with log sum exp of the scores stored",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 1, "h": 2, "s": 11, "d": 5},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
