"""Attention, y = softmax(q·kᵀ / √d)·v, as a fold over keys in block form, and its gradients.

Over a tile of the keys the block computes M = max s, P = exp(s − M), L = Σ P and O = Σ P·v. Two tiles merge by rescaling to the larger M
(online softmax: Milakov and Gimelshein 2018; FlashAttention: Dao et al. 2022). A masked score is −∞. Where a whole tile is masked M is −∞
too, and −∞ − (−∞) would be NaN: every difference is taken from max(M, least finite number), which makes such a tile's P, L and O zero. P
is masked once more, as the normal form of a kernel with one mask would do (`ir.normal_form.masked_weights`). So it is seen that a tile of
keys which all come later does nothing, and such tiles are not run (`ir.skipped_tiles`). A masked key adds 0·v: nothing, unless v is infinite
or NaN there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.body import Value
from ..ir.buffer import Buffer, Extent
from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType, float64
from ..ir.errors import KernelError
from ..ir.functions import exp, log, maximum, sqrt, where
from ..ir.kernel import Kernel
from ..ir.node import Node, as_node, const
from ..ir.operators import cast
from .definition import FLOATS, Shape, definition

DEFAULT, ODD = {"b": 1, "h": 8, "s": 1024, "d": 64}, {"b": 2, "h": 3, "s": 13, "d": 11}
MASK_SIZES = {"causal": 1, "w": 0, "shared": 1}
"""Sizes that say which keys a query sees, with their defaults, for the kernels of the gradient: `causal` (0 or 1), `w` (the last w keys up
to its own; 0: all) and `shared`, the heads of queries that share one head of keys and values."""
MASK_MINIMUM = {"causal": 0, "w": 0}


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees: all, or with `causal` those up to its own place, of which the last `window`. `shared` heads of queries
    share one head of keys and values."""

    causal: bool
    window: Extent | None = None
    shared: int = 1

    @classmethod
    def of(cls, s: Shape) -> Mask:
        """From the sizes of a kernel of the gradient. Raises KernelError where they do not go together."""
        causal, w, shared = s["causal"], s["w"], s["shared"]
        if not isinstance(causal, int) or causal > 1:
            raise KernelError(f"causal={causal} must be 0 or 1")
        if not causal and w != 0:
            raise KernelError("a window (w) needs causal=1")
        if not isinstance(shared, int) or not isinstance(s["h"], int) or s["h"] % shared:
            raise KernelError(f"shared={shared} heads of queries must divide h={s['h']}, and both be ints")
        return cls(bool(causal), w if w != 0 else None, shared)

    def seen(self, i: Node, j: Node) -> Node | None:
        """Where query i sees key j; None: everywhere."""
        if not self.causal:
            return None
        return j <= i if self.window is None else (j <= i) & (j > i - self.window)

    def apply(self, i: Node, j: Node, x: Node, otherwise: float) -> Node:
        """`x` where query i sees key j."""
        seen = self.seen(i, j)
        return x if seen is None else where(seen, x, otherwise)


@dataclass(frozen=True)
class Heads:
    """The axes of batch and heads: `outer`, and the indices of a head of queries and of the keys and values that it sees."""

    outer: tuple[Node, ...]
    query: tuple[Node, Node]
    key: tuple[Node, Node]

    @classmethod
    def of(cls, kb: KernelBuilder, s: Shape, shared: int) -> Heads:
        """Where heads of keys are shared, h counts those, and their heads of queries have an axis g."""
        z, c = kb.axis("b", s["b"]), kb.axis("h", key_heads(s, shared))
        if shared == 1:
            return cls((z, c), (z, c), (z, c))
        g = kb.axis("g", shared)
        return cls((z, c, g), (z, c * shared + g), (z, c))


def key_heads(s: Shape, shared: int) -> Extent:
    """How many heads keys and values have."""
    heads: Extent = s["h"] // shared if shared > 1 else s["h"]
    return heads


def _scale(d: Extent, dtype: DType) -> Node:
    """1 / √d."""
    return const(d**-0.5, dtype.compute) if isinstance(d, int) else 1.0 / sqrt(cast(as_node(d), dtype.compute))


def _finite(m: Node) -> Node:
    """`m`, or the least finite number where it is −∞."""
    return maximum(m, -1.7976931348623157e308 if m.dtype is float64 else -3.4028234663852886e38)


def _attention(name: str, s: Shape, dtype: DType, mask: Mask, lse: bool = False) -> Kernel:
    """The kernel; families: b, h, row (queries), key, d. With `lse` it stores lse (b, h, s) = log Σ exp(score) of each query as well, in
    the compute type."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb = KernelBuilder(name)
    heads, i = Heads.of(kb, s, mask.shared), kb.axis("row", s["s"])
    outer = heads.outer
    j_dot, j_score, j_max, j_p, j_sum, j_out = (kb.axis(f"key@{site}", s["s"]) for site in ("dot", "score", "max", "p", "sum", "out"))
    d_dot, d_out = kb.axis("d@dot", s["d"]), kb.axis("d@out", s["d"])
    q = kb.input("q", dims, dtype)
    k, v = (kb.input(t, (s["b"], key_heads(s, mask.shared), s["s"], s["d"]), dtype) for t in "kv")
    dot = kb.block_reduce("add", "dot", (*outer, i, j_dot), d_dot, q[(*heads.query, i, d_dot)] * k[(*heads.key, j_dot, d_dot)])
    scaled = dot[(*outer, i, j_score)] * _scale(s["d"], dtype)
    score = kb.block_value("score", (*outer, i, j_score), mask.apply(i, j_score, scaled, float("-inf")))
    M = kb.block_reduce("max", "M", (*outer, i), j_max, score[(*outer, i, j_max)])
    P = kb.block_value("P", (*outer, i, j_p), mask.apply(i, j_p, exp(score[(*outer, i, j_p)] - _finite(M[(*outer, i)])), 0.0))
    L = kb.block_reduce("add", "L", (*outer, i), j_sum, P[(*outer, i, j_sum)])
    O = kb.block_reduce("add", "O", (*outer, i, d_out), j_out, P[(*outer, i, j_out)] * v[(*heads.key, j_out, d_out)])
    top = maximum(kb.lhs(M), kb.rhs(M))
    left, right = (exp(_finite(m) - _finite(top)) for m in (kb.lhs(M), kb.rhs(M)))
    merge = (top, kb.lhs(L) * left + kb.rhs(L) * right, kb.lhs(O) * left + kb.rhs(O) * right)
    kb.fold("state", kb.axis("key", s["s"]), (dot, score, M, P, L, O), (M, L, O), (float("-inf"), 0.0, 0.0), merge)
    kb.store("y", dtype, dims, (*outer, i, d_out), O[(*outer, i, d_out)] * (1.0 / L[(*outer, i)]), indices=(*heads.query, i, d_out))
    if lse:
        kb.store("lse", dtype.compute, dims[:3], (*outer, i), M[(*outer, i)] + log(L[(*outer, i)]), indices=(*heads.query, i))
    return kb.build()


@definition("y = softmax(causal(q @ k.T / sqrt(d))) @ v", DEFAULT, ODD)
def attention(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d); a query sees the keys up to its own place."""
    return _attention("attention", s, dtype, Mask(causal=True))


@definition("y = softmax(q @ k.T / sqrt(d)) @ v", DEFAULT, ODD)
def attention_full(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d), without a mask."""
    return _attention("attention_full", s, dtype, Mask(causal=False))


@definition("y = softmax(band(q @ k.T / sqrt(d), w)) @ v", {**DEFAULT, "s": 4096, "w": 512}, {**ODD, "w": 5})
def attention_window(s: Shape, dtype: DType) -> Kernel:
    """q, k, v (b, h, s, d) → y (b, h, s, d); a query sees the last w keys up to its own place."""
    return _attention("attention_window", s, dtype, Mask(causal=True, window=s["w"]))


@definition(
    "y = softmax(causal(q @ k.T / sqrt(d))) @ v, hk heads of k and v",
    {"b": 1, "h": 8, "hk": 2, "s": 1024, "d": 64},
    {"b": 2, "h": 4, "hk": 2, "s": 13, "d": 11},
)
def attention_grouped(s: Shape, dtype: DType) -> Kernel:
    """q (b, h, s, d), k and v (b, hk, s, d) → y (b, h, s, d): h heads of queries share hk heads of keys and values (Ainslie et al. 2023)."""
    h, hk = s["h"], s["hk"]
    if not isinstance(h, int) or not isinstance(hk, int) or h % hk:
        raise KernelError(f"attention_grouped: hk={hk} must divide h={h}, and both be ints")
    return _attention("attention_grouped", s, dtype, Mask(causal=True, shared=h // hk))


# gradients ------------------------------------------------------------------------------------------------------
# With P = exp(q·kᵀ/√d − lse), which are the weights themselves, dP = dy·vᵀ and delta = Σ_d dy·y (as Σ_j P·dP is), a score's gradient is
# dS = P·(dP − delta), and dq = dS·k/√d, dk = dSᵀ·q/√d, dv = Pᵀ·dy. lse and delta are known from kernels of their own, so nothing is
# rescaled: tiles add up, and no array of queries × keys exists (FlashAttention's backward pass).

GRADIENT_DEFAULT, GRADIENT_ODD = {**DEFAULT, **MASK_SIZES}, {"b": 1, "h": 2, "s": 11, "d": 5, **MASK_SIZES}


@definition("attention, with log sum exp of the scores stored", GRADIENT_DEFAULT, GRADIENT_ODD, FLOATS, MASK_MINIMUM)
def attention_lse(s: Shape, dtype: DType) -> Kernel:
    """q (b, h, s, d), k, v (b, h / shared, s, d) → y (b, h, s, d), lse (b, h, s) in the compute type: the logarithm of the sum of each
    query's exponentials."""
    return _attention("attention_lse", s, dtype, Mask.of(s), lse=True)


@definition("delta = sum(dy * y) along d", DEFAULT, {"b": 2, "h": 2, "s": 13, "d": 11})
def attention_delta(s: Shape, dtype: DType) -> Kernel:
    """y, dy (b, h, s, d) → delta (b, h, s) in the compute type: the part of the gradient that all keys of a query have in common."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb = KernelBuilder("attention_delta")
    z, c, i, l = (kb.axis(name, size) for name, size in zip(("b", "h", "row", "d"), dims))
    y, dy = kb.input("y", dims, dtype), kb.input("dy", dims, dtype)
    total = kb.sum("total", (z, c, i), l, dy[z, c, i, l] * y[z, c, i, l])
    kb.store("delta", dtype.compute, dims[:3], (z, c, i), total[z, c, i])
    return kb.build()


def _parameters(kb: KernelBuilder, s: Shape, dtype: DType) -> tuple[Buffer, ...]:
    """q, k, v, dy (b, h, s, d), k and v with h / shared heads, and lse, delta (b, h, s) in the compute type."""
    dims = (s["b"], s["h"], s["s"], s["d"])
    key_dims = (s["b"], key_heads(s, s["shared"]), s["s"], s["d"])
    return (
        *(kb.input(t, shape, dtype) for t, shape in (("q", dims), ("k", key_dims), ("v", key_dims), ("dy", dims))),
        *(kb.input(t, dims[:3], dtype.compute) for t in ("lse", "delta")),
    )


def _weights(kb: KernelBuilder, s: Shape, inputs: Sequence[Buffer], heads: Heads, mask: Mask, fixed: str) -> tuple[Value, ...]:
    """Block values over (batch and heads, `fixed`, the other family), 'row' or 'key' being fixed: the products q·k and dy·v, the weights P
    and the gradients dS. For a fixed row only dS reads P, which then has no name of its own."""
    q, k, v, dy, lse, delta = inputs
    folded = "key" if fixed == "row" else "row"
    a, f = kb.axis(fixed, s["s"]), kb.axis(f"{folded}@in", s["s"])
    i, j = (a, f) if fixed == "row" else (f, a)
    l = kb.axis("d@in", s["d"])
    at = (*heads.outer, a, f)
    dot = kb.block_reduce("add", "dot", at, l, q[(*heads.query, i, l)] * k[(*heads.key, j, l)])
    dP = kb.block_reduce("add", "dP", at, l, dy[(*heads.query, i, l)] * v[(*heads.key, j, l)])
    weight = mask.apply(i, j, exp(dot[at] * _scale(s["d"], q.dtype) - lse[(*heads.query, i)]), 0.0)
    change = dP[at] - delta[(*heads.query, i)]
    if fixed == "row":
        return dot, dP, kb.block_value("dS", at, weight * change)
    P = kb.block_value("P", at, weight)
    return dot, dP, P, kb.block_value("dS", at, P[at] * change)


@definition("gradient of attention's q from lse and delta", GRADIENT_DEFAULT, GRADIENT_ODD, FLOATS, MASK_MINIMUM)
def attention_dq(s: Shape, dtype: DType) -> Kernel:
    """q, dy (b, h, s, d), k, v (b, h / shared, s, d), lse, delta (b, h, s) → dq (b, h, s, d), as a fold over tiles of the keys."""
    kb, mask = KernelBuilder("attention_dq"), Mask.of(s)
    heads = Heads.of(kb, s, mask.shared)
    i, j, l = kb.axis("row", s["s"]), kb.axis("key@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = _parameters(kb, s, dtype)
    block = _weights(kb, s, inputs, heads, mask, "row")
    at = (*heads.outer, i, l)
    total = kb.block_reduce("add", "total", at, j, block[-1][(*heads.outer, i, j)] * inputs[1][(*heads.key, j, l)])
    kb.fold("state", kb.axis("key", s["s"]), (*block, total), (total,), (0.0,), (kb.lhs(total) + kb.rhs(total),))
    kb.store("dq", dtype, (s["b"], s["h"], s["s"], s["d"]), at, total[at] * _scale(s["d"], dtype), indices=(*heads.query, i, l))
    return kb.build()


@definition("gradients of attention's k and v from lse and delta", GRADIENT_DEFAULT, GRADIENT_ODD, FLOATS, MASK_MINIMUM)
def attention_dkv(s: Shape, dtype: DType) -> Kernel:
    """q, dy (b, h, s, d), k, v (b, h / shared, s, d), lse, delta (b, h, s) → dk, dv (b, h, s, d), as a fold over tiles of the queries.

    Where heads of queries share keys, each gives a gradient of its own; those of the `shared` heads are still to be added up."""
    kb, mask = KernelBuilder("attention_dkv"), Mask.of(s)
    heads = Heads.of(kb, s, mask.shared)
    j, i, l = kb.axis("key", s["s"]), kb.axis("row@out", s["s"]), kb.axis("d@out", s["d"])
    inputs = _parameters(kb, s, dtype)
    block = _weights(kb, s, inputs, heads, mask, "key")
    (P, dS), at, pair = block[2:], (*heads.outer, j, l), (*heads.outer, j, i)
    keys = kb.block_reduce("add", "keys", at, i, dS[pair] * inputs[0][(*heads.query, i, l)])
    values = kb.block_reduce("add", "values", at, i, P[pair] * inputs[3][(*heads.query, i, l)])
    merge = tuple(kb.lhs(x) + kb.rhs(x) for x in (keys, values))
    kb.fold("state", kb.axis("row", s["s"]), (*block, keys, values), (keys, values), (0.0, 0.0), merge)
    dims = (s["b"], s["h"], s["s"], s["d"])
    kb.store("dk", dtype, dims, at, keys[at] * _scale(s["d"], dtype), indices=(*heads.query, j, l))
    kb.store("dv", dtype, dims, at, values[at], indices=(*heads.query, j, l))
    return kb.build()
