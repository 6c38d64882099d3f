"""Products of matrices, and attention."""

from __future__ import annotations

import math
from typing import Any

from .... import xp
from .table import Call, along, element_type, like, operator, operators, type_of, wide

operators(
    {
        "MatMul": lambda call, a, b: a @ b,
        "Einsum": lambda call, *xs, equation: xp.einsum(equation.replace(" ", ""), *xs),
        "Det": lambda call, x: xp.linalg.det(x),
    }
)


@operator("Gemm")
def gemm(
    call: Call, a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 1
) -> Any:
    """alpha · a @ b + beta · c."""
    y = (a.mT if transA else a) @ (b.mT if transB else b)
    y = y if alpha == 1 else y * like(y, alpha)
    return y if c is None else y + (c if beta == 1 else c * like(c, beta))


@operator("Attention")
def attention(
    call: Call, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None, past_v: Any = None, lengths: Any = None, is_causal: int = 0,
    kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = -1, right_window_size: int = -1,
) -> Any:  # fmt: skip
    """softmax(q · kᵀ · scale + mask) · v by heads, with what lies before k and v in a cache. Where no key may be seen, 0."""
    flat = q.ndim == 3
    if flat:
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    before = 0
    if past_k is not None:
        before = past_k.shape[2]
        k, v = xp.concat([past_k, k], axis=2), xp.concat([past_v, v], axis=2)
    kept, kind = (k, v), type_of(q)
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat(groups, axis=1), v.repeat(groups, axis=1)
    raw = wide(q) @ wide(k).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    capped = (raw / softcap).tanh() * softcap if softcap else raw
    scores, hides = _masked(capped, mask), mask is not None or lengths is not None or is_causal
    rows, columns = along(q.shape[2], 2, 0), along(k.shape[2], 2, 1)
    own = rows + (before if lengths is None else lengths.reshape((-1, 1, 1, 1)) - q.shape[2])
    for test in (
        columns <= own if is_causal else None,
        columns >= own - left_window_size if left_window_size >= 0 else None,
        columns <= own + right_window_size if right_window_size >= 0 else None,
        along(k.shape[2], 1, 0) < lengths.reshape((-1, 1, 1, 1)) if lengths is not None else None,
    ):
        scores, hides = (scores, hides) if test is None else (xp.where(test, scores, -math.inf), True)
    weights = (scores if softmax_precision is None else scores.astype(element_type(softmax_precision))).softmax(-1)
    if hides:
        weights = xp.where((scores == -math.inf).all(axis=-1, keepdims=True), 0, weights)
    y = (wide(weights) @ wide(v)).astype(kind)
    shown = (raw, capped, scores, weights)[qk_matmul_output_mode]
    return (joined(y) if flat else y, *kept, shown.astype(kind))[: max(call.wanted, 1)]


def _masked(scores: Any, mask: Any) -> Any:
    """Scores with a mask of truth values or numbers, which may be too short."""
    if mask is None:
        return scores
    holds = type_of(mask) == "bool"
    short = scores.shape[-1] - mask.shape[-1]
    if short > 0:
        mask = mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, short)], False if holds else -math.inf)
    return xp.where(mask, scores, -math.inf) if holds else scores + wide(mask)


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


@operator("LinearAttention")
def linear_attention(
    call: Call, q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None, kv_num_heads: int = 1, q_num_heads: int = 1,
    scale: float = 0.0, update_rule: str = "gated_delta", chunk_size: int = 64,
) -> Any:  # fmt: skip
    """Attention as a recurrence over a state of keys times values, step by step: each result, and the last state."""
    kind, shared = type_of(q), q_num_heads // kv_num_heads
    q, k, v = (wide(heads(t, h)) for t, h in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    batch, _, steps, size = q.shape
    factor = scale or 1 / math.sqrt(size)
    gate = None if decay is None or "gated" not in update_rule else wide(heads(decay, kv_num_heads)).exp()
    rate = None if beta is None or "delta" not in update_rule else wide(heads(beta, beta.shape[-1]))
    s = xp.zeros((batch, kv_num_heads, size, v.shape[-1])) if state is None else wide(state)
    made = []
    for t in range(steps):
        s = s if gate is None else s * gate[:, :, t].unsqueeze(-1)
        key, value = k[:, :, t].unsqueeze(-1), v[:, :, t].unsqueeze(-2)
        if rate is not None:
            value = (value - (key * s).sum(axis=-2, keepdims=True)) * rate[:, :, t].unsqueeze(-1)
        s = s + key * value
        seen = s if shared == 1 else s.repeat(shared, axis=1)
        made.append((q[:, :, t].unsqueeze(-1) * seen).sum(axis=-2) * factor)
    return joined(xp.stack(made, axis=2)).astype(kind), s.astype(kind if state is None else type_of(state))
