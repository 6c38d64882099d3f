"""Attention without a mask; see `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import build, flops_of, nbytes, reference_of
from .common import FLOATS
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d)."""
    return build("attention_full", s, dtype, causal=False)


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """softmax(q·kᵀ / √d)·v."""
    return reference_of(x, s, causal=False)


def flops(s: Shape) -> int:
    """As `flops_of`, over all pairs."""
    return flops_of(s, s["s"] * s["s"])


DEF = KernelDef(
    "attention_full",
    "y = softmax(q @ k.T / sqrt(d)) @ v",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 2, "h": 3, "s": 13, "d": 11},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
