"""Causal attention with grouped queries: h heads of queries share hk heads of keys and values (Ainslie et al. 2023); see `attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from .attention import build, flops_of, pairs, reference_of
from .common import FLOATS
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q (b, h, s, d), k and v (b, hk, s, d) → y (b, h, s, d)."""
    h, hk = s["h"], s["hk"]
    if not isinstance(h, int) or not isinstance(hk, int) or h % hk:
        raise KernelError(f"attention_grouped: hk={hk} must divide h={h}, and both be ints")
    return build("attention_grouped", s, dtype, causal=True, shared=h // hk)


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Keys and values repeated for each head of queries."""
    return reference_of(x, s, causal=True)


def flops(s: Shape) -> int:
    """As `flops_of`, over the pairs that are not masked."""
    return flops_of(s, pairs(s, causal=True))


def nbytes(s: Shape, dtype: DType) -> int:
    """q and y of h heads, k and v of hk, once."""
    return int(2 * s["b"] * (s["h"] + s["hk"]) * s["s"] * s["d"] * dtype.size)


DEF = KernelDef(
    "attention_grouped",
    "y = softmax(causal(q @ k.T / sqrt(d))) @ v, hk heads of k and v",
    ("b", "h", "hk", "s", "d"),
    {"b": 1, "h": 8, "hk": 2, "s": 1024, "d": 64},
    {"b": 2, "h": 4, "hk": 2, "s": 13, "d": 11},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
