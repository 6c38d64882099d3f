"""The gradients of attention with respect to keys and values, as a fold over tiles of the queries: dv = Pᵀ·dy and dk
= dSᵀ·q/√d; see `attention_dq`.

Where heads of queries share keys, each gives a gradient of its own; those of the `shared` heads are still to be added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.kernel import Kernel
from .attention import scale
from .attention_dq import Heads, bytes_of, flops_of, matrices, parameters, weights
from .attention_mask import DEFAULT, MINIMUM, SIZES, Mask
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, dy (b, h, s, d), k, v (b, h / shared, s, d), lse, delta (b, h, s) → dk, dv (b, h, s, d)."""
    kb = KernelBuilder("attention_dkv")
    heads = Heads.of(kb, s, Mask.of(s).shared)
    j, i, l = kb.axis("key", s["s"]), kb.axis("row@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = parameters(kb, s, dtype)
    block = weights(kb, s, inputs, heads, "key")
    (P, dS), at, pair = block[2:], (*heads.outer, j, l), (*heads.outer, j, i)
    keys = kb.block_reduce("add", "keys", at, i, dS[pair] * inputs[0][(*heads.query, i, l)])
    values = kb.block_reduce("add", "values", at, i, P[pair] * inputs[3][(*heads.query, i, l)])
    merge = tuple(kb.lhs(x) + kb.rhs(x) for x in (keys, values))
    kb.fold("state", kb.axis("row", s["s"]), (*block, keys, values), (keys, values), (0.0, 0.0), merge)
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb.store("dk", dtype, dims, at, keys[at] * scale(s["d"], dtype), indices=(*heads.query, j, l))
    kb.store("dv", dtype, dims, at, values[at], indices=(*heads.query, j, l))
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
