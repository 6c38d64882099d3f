"""The gradients of causal attention with respect to keys and values, as a fold over tiles of the queries: dv = Pᵀ·dy and dk = dSᵀ·q/√d; see `attention_dq`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import scale
from .attention_dq import bytes_of, flops_of, matrices, parameters, weights
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v, dy (b, h, s, d), lse, delta (b, h, s) → dk, dv (b, h, s, d)."""
    kb = KernelBuilder("attention_dkv")
    z, c, j, i, l = kb.axis("b", s["b"]), kb.axis("h", s["h"]), kb.axis("key", s["s"]), kb.axis("row@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = parameters(kb, s, dtype)
    block = weights(kb, s, inputs, (z, c), "key")
    P, dS = block[2:]
    keys = kb.block_reduce("add", "keys", (z, c, j, l), i, dS[z, c, j, i] * inputs[0][z, c, i, l])
    values = kb.block_reduce("add", "values", (z, c, j, l), i, P[z, c, j, i] * inputs[3][z, c, i, l])
    merge = tuple(kb.lhs(x) + kb.rhs(x) for x in (keys, values))
    kb.fold("state", kb.axis("row", s["s"]), (*block, keys, values), (keys, values), (0.0, 0.0), merge)
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb.store("dk", dtype, dims, (z, c, j, l), keys[z, c, j, l] * scale(s["d"], dtype))
    kb.store("dv", dtype, dims, (z, c, j, l), values[z, c, j, l])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """From whole matrices."""
    p, ds = (m.swapaxes(-1, -2) for m in matrices(x, s))
    return {"dk": ds @ f64(x["q"]), "dv": p @ f64(x["dy"])}


def flops(s: Shape) -> int:
    """As `attention_dq.flops_of` with two sums, and · for each element of dk."""
    return flops_of(s, 2) + int(s["b"] * s["h"] * s["s"] * s["d"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Two outputs."""
    return bytes_of(s, dtype, 2)


DEF = KernelDef(
    "attention_dkv",
    "gradients of attention's k and v from lse and delta",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 1, "h": 2, "s": 11, "d": 5},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
