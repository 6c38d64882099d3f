"""Causal attention, y = softmax(q·kᵀ / √d)·v over the keys up to the query's own place, as a fold in block form.

Over a tile of the keys the block computes M = max s, P = exp(s − M), L = Σ P and O = Σ P·v; two tiles merge by
rescaling to the larger M (online softmax: Milakov and Gimelshein 2018; FlashAttention: Dao et al. 2022). A masked
score is −∞. Where a whole tile is masked M is −∞ too, and −∞ − (−∞) would be NaN: every difference is taken from
max(M, least finite number), which makes such a tile's P, L and O zero. P is masked once more, as the normal form of a
kernel with one mask would do (`ir.normal_form.masked_weights`): so it is seen that a tile of keys which all come later does
nothing, and such tiles are not run (`ir.skippable`). A masked key adds 0·v: nothing, unless v is infinite or NaN
there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.buffer import Extent
from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float64
from ..ir.functions import exp, log, maximum, sqrt, where
from ..ir.kernel import Kernel
from ..ir.node import Node, as_node, const
from ..ir.operators import cast
from .common import FLOATS, f64
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d)."""
    return build("attention", s, dtype, causal=True)


def build(name: str, shape: Shape, dtype: DType, causal: bool, window: Extent | None = None, shared: int = 1, sums: bool = False) -> Kernel:
    """The kernel; families: b, h, row (queries), key, d. A query sees the last `window` keys up to its own; `shared`
    heads of queries share one of keys and values (then h counts those, and their queries have an axis g). With `sums`
    it stores lse (b, h, s) = log Σ exp(score) of each query as well, in the compute type."""
    b, h, s, d = shape["b"], shape["h"], shape["s"], shape["d"]
    kb = KernelBuilder(name)
    z, c, i = kb.axis("b", b), kb.axis("h", h // shared if shared > 1 else h), kb.axis("row", s)
    g = kb.axis("g", shared) if shared > 1 else None
    outer, head = ((z, c), c) if g is None else ((z, c, g), c * shared + g)
    j_dot, j_score, j_max, j_p, j_sum, j_out = (kb.axis(f"key@{site}", s) for site in ("dot", "score", "max", "p", "sum", "out"))
    d_dot, d_out = kb.axis("d@dot", d), kb.axis("d@out", d)
    q = kb.input("q", (b, h, s, d), dtype)
    k, v = (kb.input(t, (b, h // shared if shared > 1 else h, s, d), dtype) for t in "kv")

    def seen(j: Node, x: Node, otherwise: float) -> Node:
        mask = visible(i, j, causal, window)
        return x if mask is None else where(mask, x, otherwise)

    dot = kb.block_reduce("add", "dot", (*outer, i, j_dot), d_dot, q[z, head, i, d_dot] * k[z, c, j_dot, d_dot])
    score = kb.block_value("score", (*outer, i, j_score), seen(j_score, dot[(*outer, i, j_score)] * scale(d, dtype), float("-inf")))
    M = kb.block_reduce("max", "M", (*outer, i), j_max, score[(*outer, i, j_max)])
    P = kb.block_value("P", (*outer, i, j_p), seen(j_p, exp(score[(*outer, i, j_p)] - _finite(M[(*outer, i)])), 0.0))
    L = kb.block_reduce("add", "L", (*outer, i), j_sum, P[(*outer, i, j_sum)])
    O = kb.block_reduce("add", "O", (*outer, i, d_out), j_out, P[(*outer, i, j_out)] * v[z, c, j_out, d_out])
    top = maximum(kb.lhs(M), kb.rhs(M))
    left, right = (exp(_finite(m) - _finite(top)) for m in (kb.lhs(M), kb.rhs(M)))
    merge = (top, kb.lhs(L) * left + kb.rhs(L) * right, kb.lhs(O) * left + kb.rhs(O) * right)
    kb.fold("state", kb.axis("key", s), (dot, score, M, P, L, O), (M, L, O), (float("-inf"), 0.0, 0.0), merge)
    kb.store("y", dtype, (b, h, s, d), (*outer, i, d_out), O[(*outer, i, d_out)] * (1.0 / L[(*outer, i)]), indices=(z, head, i, d_out))
    if sums:
        kb.store("lse", dtype.compute, (b, h, s), (*outer, i), M[(*outer, i)] + log(L[(*outer, i)]), indices=(z, head, i))
    return kb.build()


def visible(i: Node, j: Node, causal: bool, window: Extent | None = None) -> Node | None:
    """Where query i sees key j; None: everywhere."""
    if not causal:
        return None
    return j <= i if window is None else (j <= i) & (j > i - window)


def pairs(s: Shape, causal: bool, window: int | None = None) -> int:
    """Pairs of queries and keys of one head that are not masked."""
    if not causal:
        return int(s["s"] ** 2)
    w = s["s"] if window is None else min(window, s["s"])
    return int(w * (w + 1) // 2 + (s["s"] - w) * w)


def scale(d: Extent, dtype: DType) -> Node:
    """1 / √d."""
    return const(d**-0.5, dtype.compute) if isinstance(d, int) else 1.0 / sqrt(cast(as_node(d), dtype.compute))


def _finite(m: Node) -> Node:
    """`m`, or the least finite number where it is −∞."""
    return maximum(m, -1.7976931348623157e308 if m.dtype is float64 else -3.4028234663852886e38)


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """The whole score matrix at once."""
    return reference_of(x, s, causal=True)


def reference_of(x: Arrays, s: Shape, causal: bool, window: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """softmax(q·kᵀ / √d)·v with an optional triangular mask; fewer heads of keys and values are repeated."""
    import numpy as np

    q, k, v = (f64(x[t]) for t in "qkv")
    k, v = (np.repeat(t, q.shape[1] // max(1, t.shape[1]), axis=1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(s["d"])
    if causal:
        scores = np.where(np.tri(s["s"], dtype=bool), scores, -np.inf)
    if window is not None:
        scores = np.where(np.tri(s["s"], k=-window, dtype=bool), -np.inf, scores)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return {"y": p @ v / p.sum(axis=-1, keepdims=True)}


def flops(s: Shape) -> int:
    """As `flops_of`, over the pairs that are not masked."""
    return flops_of(s, pairs(s, causal=True))


def flops_of(s: Shape, pairs: int) -> int:
    """2·d (q·k) + · + max + − + Σ + 2·d (P·v) for each pair of a head; max and / a row; · for each output."""
    return int(s["b"] * s["h"] * (pairs * (4 * s["d"] + 4) + s["s"] * (2 + s["d"])))


def nbytes(s: Shape, dtype: DType) -> int:
    """q, k, v and y once."""
    return int(4 * s["b"] * s["h"] * s["s"] * s["d"] * dtype.size)


DEF = KernelDef(
    "attention",
    "y = softmax(causal(q @ k.T / sqrt(d))) @ v",
    ("b", "h", "s", "d"),
    {"b": 1, "h": 8, "s": 1024, "d": 64},
    {"b": 2, "h": 3, "s": 13, "d": 11},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
)
