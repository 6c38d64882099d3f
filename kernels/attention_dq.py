"""The gradient of attention with respect to the queries, as a fold over tiles of the keys (FlashAttention's backward
pass: Dao et al. 2022); `attention_mask` says which keys a query sees.

With P = exp(q·kᵀ/√d − lse), which are the weights themselves, dP = dy·vᵀ and delta = Σ_d dy·y (as Σ_j P·dP is), a
score's gradient is dS = P·(dP − delta) and dq = dS·k/√d. lse and delta are known from `attention_lse` and
`attention_delta`, so nothing is rescaled: tiles of keys add up, and no array of queries × keys exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.body import Value
from ..ir.buffer import Buffer
from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.functions import exp, where
from ..ir.kernel import Kernel
from ..ir.node import Node
from .attention import scale
from .attention_mask import DEFAULT, MINIMUM, SIZES, Mask, matrix, repeated
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Heads:
    """The axes of batch and heads: `outer`, and the indices of a head of queries and of the keys and values that it sees."""

    outer: tuple[Node, ...]
    query: tuple[Node, Node]
    key: tuple[Node, Node]

    @classmethod
    def of(cls, kb: KernelBuilder, s: Shape, shared: int) -> Heads:
        """Where heads of keys are shared, h counts those, and their heads of queries have an axis g."""
        z, c = kb.axis("b", s["b"]), kb.axis("h", s["h"] // shared if shared > 1 else s["h"])
        if shared == 1:
            return cls((z, c), (z, c), (z, c))
        g = kb.axis("g", shared)
        return cls((z, c, g), (z, c * shared + g), (z, c))


def parameters(kb: KernelBuilder, s: Shape, dtype: DType) -> tuple[Buffer, ...]:
    """q, k, v, dy (b, h, s, d), k and v with h / shared heads, and lse, delta (b, h, s) in the compute type."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    kept = (s["b"], s["h"] // s["shared"] if s["shared"] > 1 else s["h"], s["s"], s["d"])
    return (
        *(kb.input(t, shape, dtype) for t, shape in (("q", dims), ("k", kept), ("v", kept), ("dy", dims))),
        *(kb.input(t, dims[:3], dtype.compute) for t in ("lse", "delta")),
    )


def weights(kb: KernelBuilder, s: Shape, inputs: Sequence[Buffer], heads: Heads, fixed: str) -> tuple[Value, ...]:
    """Block values over (batch and heads, `fixed`, the other family), 'row' or 'key' being fixed: the products q·k
    and dy·v, the weights P and the gradients dS. For a fixed row only dS reads P, which then has no name of its own."""
    q, k, v, dy, lse, delta = inputs
    folded = "key" if fixed == "row" else "row"
    a, f = kb.axis(fixed, s["s"]), kb.axis(f"{folded}@in", s["s"])
    i, j = (a, f) if fixed == "row" else (f, a)
    l = kb.axis("d@in", s["d"])
    at = (*heads.outer, a, f)
    dot = kb.block_reduce("add", "dot", at, l, q[(*heads.query, i, l)] * k[(*heads.key, j, l)])
    dP = kb.block_reduce("add", "dP", at, l, dy[(*heads.query, i, l)] * v[(*heads.key, j, l)])
    weight, seen = exp(dot[at] * scale(s["d"], q.dtype) - lse[(*heads.query, i)]), Mask.of(s).seen(i, j)
    weight = weight if seen is None else where(seen, weight, 0.0)
    change = dP[at] - delta[(*heads.query, i)]
    if fixed == "row":
        return dot, dP, kb.block_value("dS", at, weight * change)
    P = kb.block_value("P", at, weight)
    return dot, dP, P, kb.block_value("dS", at, P[at] * change)


def make(s: Shape, dtype: DType) -> Kernel:
    """q, dy (b, h, s, d), k, v (b, h / shared, s, d), lse, delta (b, h, s) → dq (b, h, s, d)."""
    kb = KernelBuilder("attention_dq")
    heads = Heads.of(kb, s, Mask.of(s).shared)
    i, j, l = kb.axis("row", s["s"]), kb.axis("key@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = parameters(kb, s, dtype)
    block = weights(kb, s, inputs, heads, "row")
    at = (*heads.outer, i, l)
    total = kb.block_reduce("add", "total", at, j, block[-1][(*heads.outer, i, j)] * inputs[1][(*heads.key, j, l)])
    kb.fold("state", kb.axis("key", s["s"]), (*block, total), (total,), (0.0,), (kb.lhs(total) + kb.rhs(total),))
    kb.store("dq", dtype, (s["b"], s["h"], s["s"], s["d"]), at, total[at] * scale(s["d"], dtype), indices=(*heads.query, i, l))
    return kb.build()


def matrices(x: Arrays, s: Shape) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """P and dS/√d, all pairs at once."""
    import numpy as np

    q, dy, k, v = f64(x["q"]), f64(x["dy"]), repeated(x, "k", s), repeated(x, "v", s)
    lse, delta = (f64(x[t])[..., None] for t in ("lse", "delta"))
    p = np.where(matrix(s), np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(s["d"]) - lse), 0.0)
    return p, p * (dy @ v.swapaxes(-1, -2) - delta) / np.sqrt(s["d"])


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """From whole matrices."""
    return {"dq": matrices(x, s)[1] @ repeated(x, "k", s)}


def flops_of(s: Shape, sums: int) -> int:
    """2·d for q·k, for dy·v and for each of `sums` products; for dS: · and −, −, ·, all for each pair of a head that is not masked."""
    return int(s["b"] * s["h"] * Mask.of(s).pairs(s) * (2 * (2 + sums) * s["d"] + 4))


def flops(s: Shape) -> int:
    """As `flops_of`, and · for each output."""
    return flops_of(s, 1) + int(s["b"] * s["h"] * s["s"] * s["d"])


def bytes_of(s: Shape, dtype: DType, outputs: int) -> int:
    """q, dy and the outputs once, k and v of their heads, two numbers a query."""
    heads = (2 + outputs) * s["h"] + 2 * (s["h"] // s["shared"])
    return int(s["b"] * s["s"] * (heads * s["d"] * dtype.size + 2 * s["h"] * dtype.compute.size))


def nbytes(s: Shape, dtype: DType) -> int:
    """One output."""
    return bytes_of(s, dtype, 1)


DEF = KernelDef(
    "attention_dq",
    "gradient of attention's q from lse and delta",
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
