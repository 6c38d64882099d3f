"""Products of matrices, and attention."""

from __future__ import annotations

import math
from typing import Any

from .... import xp
from .table import Call, along, element_type, like, operator, type_of, wide


@operator("MatMul")
def matmul(call: Call, a: Any, b: Any) -> Any:
    """A product of matrices, one each of a batch."""
    return a @ b


@operator("Gemm")
def gemm(
    call: Call, a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 1
) -> Any:
    """alpha · a @ b + beta · c."""
    y = (a.mT if transA else a) @ (b.mT if transB else b)
    y = y if alpha == 1 else y * like(y, alpha)
    return y if c is None else y + (c if beta == 1 else c * like(c, beta))


@operator("Einsum")
def einsum(call: Call, *xs: Any, equation: str) -> Any:
    """A sum of products by letters."""
    return xp.einsum(equation.replace(" ", ""), *xs)


@operator("Det")
def det(call: Call, x: Any) -> Any:
    """The determinant."""
    return xp.linalg.det(x)


@operator("Attention")
def attention(
    call: Call, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None, past_v: Any = None, lengths: Any = None, is_causal: int = 0,
    kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> Any:  # fmt: skip
    """softmax(q · kᵀ · scale + mask) · v by heads, with what lies before k and v in a cache."""
    flat = q.ndim == 3
    if flat:
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    if past_k is not None:
        k, v = xp.concat([past_k, k], axis=2), xp.concat([past_v, v], axis=2)
    kept_k, kept_v = k, v
    kind, before = type_of(q), past_k.shape[2] if past_k is not None else 0
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat(groups, axis=1), v.repeat(groups, axis=1)
    scores = wide(q) @ wide(k).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    raw = scores
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    capped, rows, columns = scores, q.shape[2], k.shape[2]
    if mask is not None:
        short = columns - mask.shape[-1]
        if short > 0:
            mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, short)], False if type_of(mask) == "bool" else -math.inf)
        scores = xp.where(mask, scores, -math.inf) if type_of(mask) == "bool" else scores + wide(mask)
    if is_causal:
        offset = before if lengths is None else (lengths.reshape((-1, 1, 1, 1)) - rows)
        scores = xp.where(along(columns, 2, 1) <= along(rows, 2, 0) + offset, scores, -math.inf)
    if lengths is not None:
        scores = xp.where(along(columns, 1, 0) < lengths.reshape((-1, 1, 1, 1)), scores, -math.inf)
    weights = scores.softmax(-1)
    if softmax_precision is not None:
        weights = scores.astype(element_type(softmax_precision)).softmax(-1)
    empty = (scores == -math.inf).all(axis=-1, keepdims=True) if mask is not None or lengths is not None or is_causal else None
    weights = weights if empty is None else xp.where(empty, 0, weights)
    y = (weights.astype(kind) if call.wanted > 3 else weights) @ wide(v)
    y = y.astype(kind)
    shown = {0: raw, 1: scores, 2: capped, 3: weights}[qk_matmul_output_mode]
    y = joined(y) if flat else y
    return (y, kept_k, kept_v, shown.astype(kind))[: max(call.wanted, 1)]


def heads(x: Any, count: int) -> Any:
    """(batch, length, heads · size) as (batch, heads, length, size)."""
    b, n, width = x.shape
    return x.reshape((b, n, count, width // count)).permute((0, 2, 1, 3))


def joined(x: Any) -> Any:
    """What `heads` was given."""
    b, h, n, d = x.shape
    return x.permute((0, 2, 1, 3)).reshape((b, n, h * d))


@operator("RotaryEmbedding")
def rotary(
    call: Call, x: Any, cos: Any, sin: Any, places: Any = None, interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0
) -> Any:
    """Pairs of elements turned by angles that grow with the place."""
    flat = x.ndim == 3
    y = heads(x, num_heads) if flat else x
    turned = rotated(y, cos, sin, places, bool(interleaved), rotary_embedding_dim or y.shape[-1])
    return joined(turned) if flat else turned


def rotated(x: Any, cos: Any, sin: Any, places: Any, interleaved: bool, width: int) -> Any:
    """The first `width` elements of x (batch, heads, length, size), turned."""
    if places is not None:
        cos, sin = cos.take(places, axis=0), sin.take(places, axis=0)
    c, s = (t[..., : width // 2].unsqueeze(-3) for t in (cos, sin))
    turn, rest = x[..., :width], x[..., width:]
    if interleaved:
        pairs = turn.reshape((*turn.shape[:-1], width // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = turn[..., : width // 2], turn[..., width // 2 :]
    first, second = a * c - b * s, b * c + a * s
    y = xp.stack([first, second], axis=-1).reshape(turn.shape) if interleaved else xp.concat([first, second], axis=-1)
    return y if not rest.shape[-1] else xp.concat([y, rest], axis=-1)
