"""Operators of `com.microsoft` that exports of language models use."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from .... import xp
from ....ir.errors import UsageError
from ....tensor import nn
from .products import heads, joined, rotated
from .table import OPERATORS, Call, along, elements, number, operators, type_of, wide
from .table import operator as _operator

operator = partial(_operator, domain="com.microsoft")


operators(
    {
        "Gelu": lambda call, x: x.gelu(),
        "FastGelu": lambda call, x, bias=None: (x if bias is None else x + bias).gelu("tanh"),
        "BiasGelu": lambda call, x, bias: (x + bias).gelu(),
        "QuickGelu": lambda call, x, alpha=1.702: x * (x * alpha).sigmoid(),
    },
    domain="com.microsoft",
)


@operator("FusedMatMul", "TransposeMatMul")
def fused_matmul(
    call: Call, a: Any, b: Any, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0
) -> Any:
    """alpha · a @ b, with either transposed: in its last two axes, or before that the first axis behind those of the batch."""

    def turned(x: Any, batch: int, last: int) -> Any:
        x = xp.moveaxis(x, 0, -2) if batch and x.ndim > 2 else x
        return x.mT if last else x

    y = turned(a, transBatchA, transA) @ turned(b, transBatchB, transB)
    return y if alpha == 1 else y * alpha


@operator("LayerNormalization")
def layer_norm(call: Call, x: Any, weight: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """The last axes by their own statistics."""
    return nn.layer_norm(x, *(v for v in (weight, bias) if v is not None), axis=tuple(range(axis % x.ndim, x.ndim)), eps=epsilon)


@operator("SimplifiedLayerNormalization")
def rms_norm(call: Call, x: Any, weight: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """The last axes by the root of their mean square."""
    return nn.rms_norm(x, weight, axis=tuple(range(axis % x.ndim, x.ndim)), eps=epsilon)


@operator("SkipLayerNormalization")
def skip_layer_norm(call: Call, x: Any, skip: Any, weight: Any, bias: Any = None, more: Any = None, epsilon: float = 1e-12) -> Any:
    """A layer norm of a sum; the sum is the fourth result."""
    total = x + skip if more is None else x + skip + more
    y = nn.layer_norm(total, *(v for v in (weight, bias) if v is not None), eps=epsilon)
    return (y, None, None, total)[: call.wanted]


@operator("SkipSimplifiedLayerNormalization")
def skip_rms_norm(call: Call, x: Any, skip: Any, weight: Any, more: Any = None, epsilon: float = 1e-12) -> Any:
    """An RMS norm of a sum; the sum is the fourth result."""
    total = x + skip if more is None else x + skip + more
    return (nn.rms_norm(total, weight, eps=epsilon), None, None, total)[: call.wanted]


@operator("EmbedLayerNormalization")
def embed_layer_norm(
    call: Call, words: Any, segments: Any, word_table: Any, place_table: Any, segment_table: Any = None, weight: Any = None, bias: Any = None,
    mask: Any = None, places: Any = None, epsilon: float = 1e-12, mask_index_type: int = 0,
) -> Any:  # fmt: skip
    """A layer norm of the sum of three embeddings."""
    total = word_table.take(words, axis=0)
    total = total + (place_table[: words.shape[1]] if places is None else place_table.take(places, axis=0))
    if segments is not None and segment_table is not None:
        total = total + segment_table.take(segments, axis=0)
    counted = xp.zeros((words.shape[0],), dtype="int32") if mask is None else mask.sum(axis=1).astype("int32")
    return (nn.layer_norm(total, weight, bias, eps=epsilon), counted, total)[: call.wanted]


@operator("RotaryEmbedding")
def rotary(
    call: Call, x: Any, places: Any, cos: Any, sin: Any, interleaved: int = 0, is_packed_batching: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Any:  # fmt: skip
    """Pairs of elements turned by angles that grow with the place."""
    flat = x.ndim == 3
    width = rotary_embedding_dim or 2 * cos.shape[-1]
    y = heads(x, num_heads or x.shape[-1] // width) if flat else x
    turned = rotated(y, cos, sin, _all_places(places, y.shape[0], y.shape[2]), bool(interleaved), width)
    return joined(turned) if flat else turned


def _all_places(places: Any, batch: int, length: int) -> Any:
    """Places of each element: from one first place on, where only that is given."""
    if elements(places.shape) == 1:
        return (places.reshape((1, 1)) + along(length, 2, 1)).expand((batch, length))
    return places


@operator("MatMulNBits")
def matmul_bits(
    call: Call, x: Any, packed: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None, K: int = 0, N: int = 0, accuracy_level: int = 0,
    bits: int = 4, block_size: int = 32, weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """x @ wᵀ, w being integers of so many bits with a scale a block."""
    if bits not in (2, 4, 8) or (groups is not None and elements(groups.shape)):
        raise UsageError(f"com.microsoft.MatMulNBits of {bits} bits{' with g_idx' if groups is not None else ''} is not supported")
    blocks = -(-K // block_size)
    values = unpacked(packed.reshape((N, blocks, -1)), bits).reshape((N, blocks, block_size)).astype("float32")
    scale = wide(scales).reshape((N, blocks, 1))
    if zeros is None:
        middle: Any = float(2 ** (bits - 1))
    elif zeros.dtype.is_float:
        middle = wide(zeros).reshape((N, blocks, 1))
    else:
        middle = unpacked(zeros.reshape((N, -1)), bits)[:, :blocks].reshape((N, blocks, 1)).astype("float32")
    w = ((values - middle) * scale).reshape((N, blocks * block_size))[:, :K]
    y = (wide(x) @ w.T).astype(type_of(x))
    return y if bias is None else y + bias


def unpacked(x: Any, bits: int) -> Any:
    """The numbers of so many bits that bytes hold along the last axis, the lowest bits first."""
    each = 8 // bits
    if each == 1:
        return x
    moved = x.unsqueeze(-1).astype("int32") >> (along(each, 1, 0) * bits).astype("int32")
    return (moved & (2**bits - 1)).reshape((*x.shape[:-1], x.shape[-1] * each))


@operator("MultiHeadAttention")
def multi_head(
    call: Call, q: Any, k: Any = None, v: Any = None, bias: Any = None, hidden: Any = None, added: Any = None, past_k: Any = None, past_v: Any = None,
    num_heads: int = 1, mask_filter_value: float = -10000.0, scale: float | None = None, unidirectional: int = 0,
) -> Any:  # fmt: skip
    """Attention by heads."""
    if k is None or v is None:
        raise UsageError("com.microsoft.MultiHeadAttention with packed operands is not supported")
    if bias is not None:
        width, inner = q.shape[-1], v.shape[-1]
        q = q + bias[:width]
        k, v = (t if t.ndim == 4 else t + part for t, part in ((k, bias[width : 2 * width]), (v, bias[2 * width : 2 * width + inner])))
    q, k, v = heads(q, num_heads), *(t if t.ndim == 4 else heads(t, num_heads) for t in (k, v))
    if past_k is not None:
        k, v = xp.concat([past_k, k], axis=2), xp.concat([past_v, v], axis=2)
    before = None if not unidirectional else 0 if past_k is None else past_k.shape[2]
    return (_attended(q, k, v, hidden, added, mask_filter_value, scale, before), k, v)[: call.wanted]


def _attended(q: Any, k: Any, v: Any, mask: Any, added: Any, hides: float, scale: float | None, before: Any) -> Any:
    """softmax(q · kᵀ · scale + what is hidden or added) · v of heads, joined. `before`: keys before the first query's own, where a query sees
    none behind its own; else None."""
    rows, n = q.shape[2], k.shape[2]
    scores = wide(q) @ wide(k).mT * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if added is None else scores + wide(added)
    if mask is not None:
        scores = scores + _hidden(mask, q.shape[0], rows, n, hides)
    if before is not None:
        seen = along(n, 2, 1) <= along(rows, 2, 0) + before
        if isinstance(n, int) and isinstance(rows, int) and n > rows + before:
            seen = seen | (along(rows, 2, 0) == rows - 1)  # (ONNX Runtime hides nothing from the last query)
        scores = xp.where(seen, scores, -math.inf)
    return joined((scores.softmax(-1) @ wide(v)).astype(type_of(q)))


def _hidden(mask: Any, batch: int, rows: int, n: int, hides: float) -> Any:
    """What is added to scores (batch, heads, rows, n) where keys are hidden: by the length of each sequence (and where it begins), or by
    zeros for each key, of all rows or of each."""
    if mask.ndim == 1:
        at, ends = along(n, 4, 3), mask[:batch].reshape((batch, 1, 1, 1))
        seen = at < ends
        if mask.shape[0] == 2 * batch:
            seen = seen & (at >= mask[batch:].reshape((batch, 1, 1, 1)))
    elif mask.ndim == 2:
        seen = mask.reshape((batch, 1, 1, n)) != 0
    elif mask.ndim == 3:
        seen = mask.reshape((batch, 1, rows, n)) != 0
    else:
        seen = mask[:, :, n - rows : n, :n] != 0
    return xp.where(seen, 0.0, hides)


@operator("Attention")
def attention(
    call: Call, x: Any, w: Any, bias: Any = None, mask: Any = None, past: Any = None, added: Any = None, past_length: Any = None,
    num_heads: int = 1, qkv_hidden_sizes: Any = None, scale: float | None = None, unidirectional: int = 0, mask_filter_value: float = -10000.0,
    do_rotary: int = 0, past_present_share_buffer: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """Attention of x with itself, by heads: x (batch, length, width) @ w + bias is queries, keys and values side by side. Without w, x is
    that already. The second result is keys and values with those of `past`."""
    if do_rotary or past_present_share_buffer:
        raise UsageError("com.microsoft.Attention with do_rotary or past_present_share_buffer is not supported")
    made = x if w is None else x @ w
    made = made if bias is None else made + bias
    sizes = list(qkv_hidden_sizes or (made.shape[-1] // 3,) * 3)
    ends = (sizes[0], sizes[0] + sizes[1])
    q, k, v = (heads(t, num_heads) for t in (made[..., : ends[0]], made[..., ends[0] : ends[1]], made[..., ends[1] :]))
    if past is not None:
        k, v = xp.concat([past[0], k], axis=2), xp.concat([past[1], v], axis=2)
    before = None if not unidirectional else 0 if past is None else past.shape[3]
    y = _attended(q, k, v, mask, added, mask_filter_value, scale, before)
    return y if call.wanted == 1 else (y, xp.stack([k, v], axis=0))


ACTIVATIONS = {
    "": (), "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max"),
}  # fmt: skip
"""What follows a fused product, and the names of its numbers."""


def _activated(call: Call, y: Any, kind: str, numbers: Any) -> Any:
    """A product after the operator that was fused with it."""
    if kind not in ACTIVATIONS:
        raise UsageError(f"com.microsoft.{call.kind} with the activation {kind} is not supported")
    if kind == "Clip":
        return y.clip(*numbers) if numbers else y
    return OPERATORS["", kind](call, y, **dict(zip(ACTIVATIONS[kind], numbers or ()))) if kind else y


@operator("FusedConv")
def fused_conv(
    call: Call, x: Any, w: Any, b: Any = None, z: Any = None, activation: str = "", activation_params: Any = None, **how: Any
) -> Any:
    """A convolution, plus z, and an activation."""
    y = OPERATORS["", "Conv"](call, x, w, b, **how)
    return _activated(call, y if z is None else y + z, activation, activation_params)


@operator("FusedGemm")
def fused_gemm(
    call: Call, a: Any, b: Any, c: Any = None, activation: str = "", activation_alpha: float | None = None, activation_beta: float | None = None,
    activation_gamma: float | None = None, **how: Any,
) -> Any:  # fmt: skip
    """A product, and an activation."""
    numbers = [n for n in (activation_alpha, activation_beta) if n is not None]
    return _activated(call, OPERATORS["", "Gemm"](call, a, b, c, **how), activation, numbers)


def _placed(old: Any, new: Any, first: Any, n: int) -> Any:
    """A cache of n places (batch, heads, n, size) with new elements from each sequence's first place on."""
    b, _, rows, _ = new.shape
    at = along(n, 2, 1) - first
    found = new.permute((0, 2, 1, 3))[along(b, 2, 0), at.clip(0, rows - 1)].permute((0, 2, 1, 3))
    wider = old.pad([(0, 0), (0, 0), (0, n - old.shape[2]), (0, 0)])
    return xp.where(((at >= 0) & (at < rows)).reshape((b, 1, n, 1)), found, wider)


@operator("GroupQueryAttention", known=(6,))
def grouped_attention(
    call: Call, q: Any, k: Any, v: Any, past_k: Any = None, past_v: Any = None, lengths: Any = None, total: Any = None, cos: Any = None, sin: Any = None,
    num_heads: int = 1, kv_num_heads: int = 1, do_rotary: int = 0, rotary_interleaved: int = 0, scale: float | None = None, softcap: float = 0.0,
    local_window_size: int = -1, smooth_softmax: int = 0,
) -> Any:  # fmt: skip
    """Causal attention of grouped heads, with a cache of keys and values. Each sequence has its own length; new keys follow its own old ones."""
    if smooth_softmax:
        raise UsageError("com.microsoft.GroupQueryAttention with smooth_softmax is not supported")
    if k is None or v is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        ends = (num_heads * size, (num_heads + kv_num_heads) * size)
        q, k, v = q[..., : ends[0]], q[..., ends[0] : ends[1]], q[..., ends[1] :]
    q, k, v = heads(q, num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    rows, before = q.shape[2], 0 if past_k is None else past_k.shape[2]
    last = lengths.reshape((-1, 1)).astype("int64")  # the last place of each sequence
    first = last - (rows - 1) if before else last * 0
    places = xp.where(first > 0, first, 0) + along(rows, 2, 1)
    if do_rotary:
        width = 2 * cos.shape[-1]
        q, k = (rotated(t, cos, sin, places, bool(rotary_interleaved), width) for t in (q, k))
    if before:
        n = max(before, int(number(total) or before + rows))
        k, v = (_placed(old, new, first, n) for old, new in ((past_k, k), (past_v, v)))
    kept_k, kept_v = k, v
    shared = num_heads // kv_num_heads
    b, _, n, d = k.shape
    grouped = wide(q).reshape((b, kv_num_heads, shared, rows, d))
    scores = grouped @ wide(k).unsqueeze(2).mT * (scale or 1 / math.sqrt(d))
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    at, own = along(n, 5, 4), places.reshape((b, 1, 1, rows, 1))
    seen = at <= own
    if local_window_size > 0:
        seen = seen & (at > own - local_window_size)
    y = xp.where(seen, scores, -math.inf).softmax(-1) @ wide(v).unsqueeze(2)
    y = y.reshape((b, num_heads, rows, d)).astype(type_of(q))
    return (joined(y), kept_k, kept_v)[: call.wanted]
