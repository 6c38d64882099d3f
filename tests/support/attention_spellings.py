"""Ways in which frameworks write attention, each with NumPy's: flattened or not, scaled here or there, masked so or so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from tilewright import xp

FLATTENED = ("no", "all", "products", "softmax too")
"""Which parts have batch and heads as one dimension: none; all; the products alone; the products and the softmax, but not the mask."""
SCALES = ("after", "divided", "query", "both", "none")
MASKS = ("none", "added −∞", "added −1e9", "chosen −∞", "chosen least", "causal", "padding")
SAFE = (False, True)
LEAST = float(np.finfo(np.float32).min)


def arrays(b: int, h: int, s: int, d: int, dtype: str = "float32", seed: int = 0) -> dict[str, Any]:
    """Queries, keys and values, and a mask under which the second query of the last batch sees nothing."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {n: rng.standard_normal((b, h, s, d)).astype(dtype) for n in "qkv"}
    seen = rng.random((b, 1, s, s)) < 0.7
    seen[:, :, :, 0] = True
    seen[-1, :, min(1, s - 1)] = False
    return found | {"seen": seen}


def cases() -> Iterator[tuple[str, str, str, bool]]:
    """All ways."""
    return product(FLATTENED, SCALES, MASKS, SAFE)


def _mask(mask: str, scores: Any, seen: Any, where: Callable[..., Any], arange: Callable[[int], Any], added: Any) -> Any:
    s = scores.shape[-1]
    if mask == "none":
        return scores
    if mask == "causal":
        return where(arange(s).reshape((s, 1)) >= arange(s), scores, -math.inf)
    if mask == "padding":
        return added(scores, where(seen[:, :, :1, :], 0.0, LEAST))
    if mask.startswith("added"):
        return added(scores, where(seen, 0.0, -math.inf if mask.endswith("∞") else -1e9))
    return where(seen, scores, -math.inf if mask.endswith("∞") else LEAST)


def ours(flattened: str, scale: str, mask: str, safe: bool) -> Callable[..., Any]:
    """A function of q, k, v [b, h, s, d] and `seen` [b, 1, s, s], on tensors."""

    def attention(q: Any, k: Any, v: Any, seen: Any) -> Any:
        b, h, s, d = q.shape
        c = 1 / math.sqrt(d)
        flat, apart = (b * h, s), (b, h, s)
        kt = k.permute((0, 1, 3, 2))
        if scale in ("query", "both"):
            q = q * (c if scale == "query" else math.sqrt(c))
        if scale == "both":
            kt = kt * math.sqrt(c)
        if flattened != "no":
            q, kt, v = q.reshape((*flat, d)), kt.reshape((b * h, d, s)), v.reshape((*flat, d))
        scores = q @ kt
        if scale in ("after", "divided"):
            scores = scores * c if scale == "after" else scores / math.sqrt(d)
        if flattened != "no" and (mask not in ("none", "causal") or flattened != "all"):
            scores = scores.reshape((*apart, s))
        scores = _mask(mask, scores, seen, lambda c, x, y: xp.where(c, x, xp.asarray(y, dtype=q.dtype)), xp.arange, lambda x, y: x + y)
        if flattened in ("all", "softmax too"):
            scores = scores.reshape((*flat, s))
        p = scores.softmax(-1)
        if safe:
            p = xp.where((scores == -math.inf).all(axis=-1, keepdims=True), 0.0, p)
        if flattened == "products":
            p = p.reshape((*flat, s))
        return (p @ v).reshape((b, h, s, d))

    return attention


def _added(scores: Any, mask: Any) -> Any:
    """A large number is added in float32, where it hides the digits of a score."""
    return scores + mask if np.isinf(mask).any() else (scores.astype(np.float32) + mask.astype(np.float32)).astype(np.float64)


def numpys(mask: str, safe: bool, scale: bool = True) -> Callable[..., Any]:
    """The same in float64."""

    def attention(q: Any, k: Any, v: Any, seen: Any) -> Any:
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale else 1)
        scores = _mask(mask, scores, seen, np.where, np.arange, _added)
        with np.errstate(invalid="ignore"):
            e = np.exp(scores - scores.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return (np.where((scores == -np.inf).all(-1, keepdims=True), 0.0, p) if safe else p) @ v

    return attention
