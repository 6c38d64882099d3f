"""The gradient of causal attention with respect to the queries, as a fold over tiles of the keys (FlashAttention's backward pass: Dao et al. 2022).

With P = exp(q·kᵀ/√d − lse), which are the weights themselves, dP = dy·vᵀ and delta = Σ_d dy·y (as Σ_j P·dP is), a score's gradient is dS = P·(dP − delta)
and dq = dS·k/√d. lse and delta are known from `attention_lse` and `attention_delta`, so nothing is rescaled: tiles of keys add up, and no array of queries × keys exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import exp, where
from ..ir.kernel import Buffer, Kernel, Value
from ..ir.node import Node
from .attention import scale
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def parameters(kb: KernelBuilder, s: Shape, dtype: DType) -> tuple[Buffer, ...]:
    """q, k, v, dy (b, h, s, d), and lse, delta (b, h, s) in the compute type."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    return (*(kb.input(t, dims, dtype) for t in ("q", "k", "v", "dy")), *(kb.input(t, dims[:3], dtype.compute) for t in ("lse", "delta")))


def weights(kb: KernelBuilder, s: Shape, inputs: Sequence[Buffer], outer: tuple[Node, Node], fixed: str) -> tuple[Value, Value, Value, Value]:
    """Block values over (b, h, `fixed`, the other family), 'row' or 'key' being fixed: the products q·k and dy·v, the weights P and the gradients dS."""
    q, k, v, dy, lse, delta = inputs
    folded = "key" if fixed == "row" else "row"
    a, f = kb.axis(fixed, s["s"]), kb.axis(f"{folded}@in", s["s"])
    i, j = (a, f) if fixed == "row" else (f, a)
    l = kb.axis("d@in", s["d"])
    at = (*outer, a, f)
    dot = kb.block_reduce("add", "dot", at, l, q[(*outer, i, l)] * k[(*outer, j, l)])
    dP = kb.block_reduce("add", "dP", at, l, dy[(*outer, i, l)] * v[(*outer, j, l)])
    P = kb.block_value("P", at, where(j <= i, exp(dot[at] * scale(s["d"], q.dtype) - lse[(*outer, i)]), 0.0))
    dS = kb.block_value("dS", at, P[at] * (dP[at] - delta[(*outer, i)]))
    return dot, dP, P, dS


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v, dy (b, h, s, d), lse, delta (b, h, s) → dq (b, h, s, d)."""
    kb = KernelBuilder("attention_dq")
    z, c, i, j, l = kb.axis("b", s["b"]), kb.axis("h", s["h"]), kb.axis("row", s["s"]), kb.axis("key@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = parameters(kb, s, dtype)
    block = weights(kb, s, inputs, (z, c), "row")
    total = kb.block_reduce("add", "total", (z, c, i, l), j, block[-1][z, c, i, j] * inputs[1][z, c, j, l])
    kb.fold("state", kb.axis("key", s["s"]), (*block, total), (total,), (0.0,), (kb.lhs(total) + kb.rhs(total),))
    kb.store("dq", dtype, (s["b"], s["h"], s["s"], s["d"]), (z, c, i, l), total[z, c, i, l] * scale(s["d"], dtype))
    return kb.build()


def matrices(x: Arrays, s: Shape) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """P and dS/√d, all pairs at once."""
    import numpy as np

    q, k, v, dy = (f64(x[t]) for t in ("q", "k", "v", "dy"))
    lse, delta = (f64(x[t])[..., None] for t in ("lse", "delta"))
    p = np.tril(np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(s["d"]) - lse))
    return p, p * (dy @ v.swapaxes(-1, -2) - delta) / np.sqrt(s["d"])


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """From whole matrices."""
    return {"dq": matrices(x, s)[1] @ f64(x["k"])}


def flops_of(s: Shape, sums: int) -> int:
    """2·d for q·k, for dy·v and for each of `sums` products; for dS: · and −, −, ·, all for each pair of a head that is not masked."""
    return int(s["b"] * s["h"] * (s["s"] * (s["s"] + 1) // 2) * (2 * (2 + sums) * s["d"] + 4))


def flops(s: Shape) -> int:
    """As `flops_of`, and · for each output."""
    return flops_of(s, 1) + int(s["b"] * s["h"] * s["s"] * s["d"])


def bytes_of(s: Shape, dtype: DType, outputs: int) -> int:
    """q, k, v, dy and the outputs once, two numbers a query."""
    return int(s["b"] * s["h"] * s["s"] * ((4 + outputs) * s["d"] * dtype.size + 2 * dtype.compute.size))


def nbytes(s: Shape, dtype: DType) -> int:
    """One output."""
    return bytes_of(s, dtype, 1)


DEF = KernelDef(
    "attention_dq",
    "gradient of attention's q from lse and delta",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 1, "h": 2, "s": 11, "d": 5},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
