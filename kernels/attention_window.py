"""Causal attention in which a query sees only the last w keys up to its own place; see `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import build, flops_of, nbytes, pairs, reference_of
from .common import FLOATS
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d)."""
    return build("attention_window", s, dtype, causal=True, window=s["w"])


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """softmax(q·kᵀ / √d)·v over a band of the matrix."""
    return reference_of(x, s, causal=True, window=s["w"])


def flops(s: Shape) -> int:
    """As `flops_of`, over the pairs in the band."""
    return flops_of(s, pairs(s, causal=True, window=s["w"]))


DEF = KernelDef(
    "attention_window",
    "y = softmax(band(q @ k.T / sqrt(d), w)) @ v",
    ("b", "h", "s", "d", "w"),
    {"b": 1, "h": 8, "s": 4096, "d": 64, "w": 512},
    {"b": 2, "h": 3, "s": 13, "d": 11, "w": 5},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
