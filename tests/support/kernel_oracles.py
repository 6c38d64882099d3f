"""What the named kernels are compared with: `ORACLES[name]` has each one's result in float64 NumPy, and its cost by formula.

`flops` counts additions, multiplications, divisions, comparisons for max/min and square roots. A fused multiply-add is two; exp, log, tanh
and erf do not count. `bytes` is the compulsory traffic: every used input element is read once, every output element written once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright.ir.dtypes import DType

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Oracle:
    """`result(x, s)`: outputs by name from inputs by name, in float64, for sizes `s`. `flops(s)` and `bytes(s, dtype)`."""

    result: Callable[[Any, Any], dict[str, Any]]
    flops: Callable[[Any], int]
    bytes: Callable[[Any, DType], int]

    def reference(self, inputs: Arrays, s: Mapping[str, int]) -> dict[str, Array]:
        """The outputs for some inputs; integers that are indices stay integers."""
        return self.result({n: a if a.dtype == np.int64 else a.astype(np.float64) for n, a in inputs.items()}, Sizes(s))

    def cost(self, s: Mapping[str, int], dtype: DType) -> tuple[int, int]:
        """(flops, bytes)."""
        return int(self.flops(Sizes(s))), int(self.bytes(Sizes(s), dtype))


class Sizes(dict[str, int]):
    """Sizes by name, as keys and as attributes."""

    def __getattr__(self, name: str) -> int:
        return self[name]


def sum_type(t: DType) -> DType:
    """The type in which a sum of elements is stored."""
    return t.acc if t.is_int else t


# products -----------------------------------------------------------------------------------------------------------
def product(s: Sizes, t: DType) -> int:
    return (s.m * s.k + s.k * s.n) * t.size + s.m * s.n * sum_type(t).size


def with_bias(s: Sizes, t: DType) -> int:
    return (s.m * s.k + s.k * s.n + s.n + s.m * s.n) * t.size


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x * math.sqrt(0.5))))


def fp8_blocks(x: Arrays, s: Sizes) -> dict[str, Array]:
    a = x["a"] * x["scale_a"].repeat(s.block, 1)[:, : s.k]
    return {"c": a @ (x["b"] * x["scale_b"].repeat(s.block, 0)[: s.n].repeat(s.block, 1)[:, : s.k]).T}


def w4(x: Arrays, s: Sizes) -> dict[str, Array]:
    q = np.stack([x["w"] % 16, x["w"] // 16], axis=-1).reshape(s.n, -1)[:, : s.k]
    weights = (q - x["zero"].repeat(s.group, 1)[:, : s.k]) * x["scale"].repeat(s.group, 1)[:, : s.k]
    return {"y": x["x"] @ weights.T}


def groups(s: Sizes, size: int) -> int:
    return -(-s.k // size)


PRODUCTS = {
    "matmul": Oracle(lambda x, s: {"c": x["a"] @ x["b"]}, lambda s: 2 * s.m * s.n * s.k, product),
    "matmul_nt": Oracle(lambda x, s: {"c": x["a"] @ x["b"].T}, lambda s: 2 * s.m * s.n * s.k, product),
    "matmul_tn": Oracle(lambda x, s: {"c": x["a"].T @ x["b"]}, lambda s: 2 * s.m * s.n * s.k, product),
    "matmul_int8": Oracle(lambda x, s: {"c": x["a"] @ x["b"]}, lambda s: 2 * s.m * s.n * s.k, product),
    "matmul_mixed": Oracle(
        lambda x, s: {"c": x["a"] @ x["b"]},
        lambda s: 2 * s.m * s.n * s.k,
        lambda s, t: (s.m * s.k + s.k * s.n) * t.size + s.m * s.n * 4,
    ),
    "matmul_bias_relu": Oracle(
        lambda x, s: {"c": np.maximum(x["a"] @ x["b"] + x["bias"], 0.0)}, lambda s: 2 * s.m * s.n * s.k + 2 * s.m * s.n, with_bias
    ),
    "matmul_bias_gelu": Oracle(
        lambda x, s: {"c": gelu(x["a"] @ x["b"] + x["bias"])}, lambda s: 2 * s.m * s.n * s.k + 5 * s.m * s.n, with_bias
    ),
    "matmul_fp8": Oracle(
        lambda x, s: {"c": (x["a"] * x["scale_a"][:, None]) @ (x["b"] * x["scale_b"][:, None]).T},
        lambda s: 2 * s.m * s.n * (s.k + 1),
        lambda s, t: (s.m + s.n) * (s.k * t.size + 4) + s.m * s.n * 2,
    ),
    # terms past the end of k count
    "matmul_fp8_blocks": Oracle(
        fp8_blocks,
        lambda s: s.m * s.n * groups(s, s.block) * (2 * s.block + 3),
        lambda s, t: (s.m + s.n) * s.k * t.size + (s.m + -(-s.n // s.block)) * groups(s, s.block) * 4 + s.m * s.n * 2,
    ),
    "matmul_w8": Oracle(
        lambda x, s: {"y": x["x"] @ (x["w"] * x["scale"][:, None]).T},
        lambda s: s.m * s.n * (2 * s.k + 1),
        lambda s, t: s.m * (s.k + s.n) * t.size + s.n * (s.k + 4),
    ),
    "matmul_w4": Oracle(
        w4,
        lambda s: 2 * s.m * s.n * groups(s, s.group) * (s.group + 1) + s.n * groups(s, s.group) * s.group,
        lambda s, t: s.m * (s.k + s.n) * t.size + s.n * -(-s.k // 2) + s.n * groups(s, s.group) * (t.size + 1),
    ),
    "batched_matmul": Oracle(lambda x, s: {"c": x["x"] @ x["y"]}, lambda s: 2 * s.b * s.m * s.n * s.k, lambda s, t: s.b * product(s, t)),
    "matvec": Oracle(
        lambda x, s: {"y": x["a"] @ x["x"]}, lambda s: 2 * s.m * s.n, lambda s, t: (s.m * s.n + s.n) * t.size + s.m * sum_type(t).size
    ),
}


# rows and elements ---------------------------------------------------------------------------------------------------
def in_and_out(s: Sizes, t: DType) -> int:
    return 2 * s.m * s.n * t.size


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def layernorm(x: Arrays, s: Sizes) -> dict[str, Array]:
    mean, rstd = x["x"].mean(axis=1), 1.0 / np.sqrt(x["x"].var(axis=1) + 1e-5)
    return {"y": (x["x"] - mean[:, None]) * rstd[:, None] * x["weight"] + x["bias"], "mean_out": mean, "rstd_out": rstd}


def rmsnorm(x: Arrays, s: Sizes) -> dict[str, Array]:
    return {"y": x["x"] / np.sqrt((x["x"] ** 2).mean(axis=1, keepdims=True) + 1e-6) * x["weight"]}


def cross_entropy(x: Arrays, s: Sizes) -> dict[str, Array]:
    labelled = np.take_along_axis(x["x"], x["label"][:, None], axis=1)[:, 0]
    return {"loss": np.logaddexp.reduce(x["x"], axis=1) - labelled}


def embedding_grad(x: Arrays, s: Sizes) -> dict[str, Array]:
    out = np.zeros((s.v, s.d))
    np.add.at(out, x["ids"], x["dy"])
    return {"dtable": out}


ROWS = {
    "sum_rows": Oracle(
        lambda x, s: {"y": x["x"].sum(axis=1)}, lambda s: s.m * s.n, lambda s, t: s.m * s.n * t.size + s.m * sum_type(t).size
    ),
    "sum_cols": Oracle(
        lambda x, s: {"y": x["x"].sum(axis=0)}, lambda s: s.m * s.n, lambda s, t: s.m * s.n * t.size + s.n * sum_type(t).size
    ),
    "sum_all": Oracle(lambda x, s: {"y": np.asarray(x["x"].sum())}, lambda s: s.n, lambda s, t: s.n * t.size + sum_type(t).size),
    "cumsum": Oracle(lambda x, s: {"y": x["x"].cumsum(axis=1)}, lambda s: s.m * s.n, lambda s, t: s.m * s.n * (t.size + sum_type(t).size)),
    "argmax": Oracle(lambda x, s: {"y": x["x"].argmax(axis=1)}, lambda s: 2 * s.m * s.n, lambda s, t: s.m * s.n * t.size + s.m * 4),
    "softmax": Oracle(lambda x, s: {"y": softmax(x["x"])}, lambda s: 4 * s.m * s.n + s.m, in_and_out),
    "log_softmax": Oracle(
        lambda x, s: {"y": x["x"] - np.logaddexp.reduce(x["x"], axis=1, keepdims=True)}, lambda s: 4 * s.m * s.n, in_and_out
    ),
    "layernorm": Oracle(
        lambda x, s: {"y": layernorm(x, s)["y"]}, lambda s: 7 * s.m * s.n + 5 * s.m, lambda s, t: (2 * s.m * s.n + 2 * s.n) * t.size
    ),
    "layernorm_stats": Oracle(
        layernorm, lambda s: 7 * s.m * s.n + 5 * s.m, lambda s, t: (2 * s.m * s.n + 2 * s.n) * t.size + 2 * s.m * t.compute.size
    ),
    "rmsnorm": Oracle(rmsnorm, lambda s: 4 * s.m * s.n + 4 * s.m, lambda s, t: (2 * s.m * s.n + s.n) * t.size),
    "cross_entropy": Oracle(cross_entropy, lambda s: 3 * s.m * s.n + 2 * s.m, lambda s, t: s.m * s.n * t.size + s.m * (8 + t.size)),
    "gelu": Oracle(lambda x, s: {"y": gelu(x["x"])}, lambda s: 4 * s.m * s.n, in_and_out),
    "add": Oracle(lambda x, s: {"y": x["a"] + x["b"]}, lambda s: s.m * s.n, lambda s, t: 3 * s.m * s.n * t.size),
    "transpose": Oracle(lambda x, s: {"y": x["x"].T}, lambda s: 0, in_and_out),
    "embedding": Oracle(lambda x, s: {"y": x["table"][x["ids"]]}, lambda s: 0, lambda s, t: (min(s.v, s.n) + s.n) * s.d * t.size + s.n * 8),
    "embedding_grad": Oracle(embedding_grad, lambda s: s.n * s.d, lambda s, t: s.n * s.d * t.size + s.n * 8 + s.v * s.d * t.compute.size),
}


# convolutions --------------------------------------------------------------------------------------------------------
def output_size(s: Sizes) -> tuple[int, int]:
    return (s.h + 2 * s.pad - s.kh) // s.stride + 1, (s.w + 2 * s.pad - s.kw) // s.stride + 1


def phase_blocks(size: int, s: Sizes) -> int:
    """How many numbers from pad to size + pad − 1 have a multiple of the stride at or below them."""
    return (size - 1 + s.pad) // s.stride - s.pad // s.stride + 1


def windows(x: Array, s: Sizes, padding: float = 0.0) -> Array:
    pad = ((0, 0), (0, 0), (s.pad, s.pad), (s.pad, s.pad))
    padded = np.pad(x, pad, constant_values=padding)
    return np.lib.stride_tricks.sliding_window_view(padded, (s.kh, s.kw), axis=(2, 3))[:, :, :: s.stride, :: s.stride]


def by_group(subscripts: str, a: Array, b: Array, s: Sizes, axes: tuple[int, int], out: int) -> Array:
    pairs = zip(np.split(a, s.groups, axis=axes[0]), np.split(b, s.groups, axis=axes[1]), strict=True)
    return np.concatenate([np.einsum(subscripts, *pair) for pair in pairs], axis=out)


def conv2d_dx(x: Arrays, s: Sizes) -> dict[str, Array]:
    """Every tap's product is added where the tap was read."""
    oh, ow = output_size(s)
    padded = np.zeros((s.n, s.c, s.h + 2 * s.pad, s.w + 2 * s.pad))
    for r, t in np.ndindex(s.kh, s.kw):
        part = by_group("nopq,oc->ncpq", x["dy"], x["weight"][:, :, r, t], s, (1, 0), 1)
        padded[:, :, r : r + oh * s.stride : s.stride, t : t + ow * s.stride : s.stride] += part
    return {"dx": padded[:, :, s.pad : s.pad + s.h, s.pad : s.pad + s.w]}


def outputs(s: Sizes) -> int:
    return math.prod(output_size(s))


def weights(s: Sizes) -> int:
    return s.oc * (s.c // s.groups) * s.kh * s.kw


def pixels(s: Sizes) -> int:
    """Input pixels of a channel that some window meets."""
    oh, ow = output_size(s)
    return min(s.h, oh * s.kh) * min(s.w, ow * s.kw)


def dx_flops(s: Sizes) -> int:
    """Taps beyond an edge count."""
    taps = -(-s.kh // s.stride) * -(-s.kw // s.stride) * (s.oc // s.groups)
    return 2 * s.n * s.c * phase_blocks(s.h, s) * phase_blocks(s.w, s) * s.stride**2 * taps


CONVOLUTIONS = {
    "conv2d": Oracle(
        lambda x, s: {"y": by_group("ncpqrt,ocrt->nopq", windows(x["x"], s), x["weight"], s, (1, 0), 1)},
        lambda s: 2 * s.n * outputs(s) * weights(s),
        lambda s, t: (s.n * s.c * pixels(s) + weights(s)) * t.size + s.n * s.oc * outputs(s) * sum_type(t).size,
    ),
    "conv2d_dw": Oracle(
        lambda x, s: {"dw": by_group("ncpqrt,nopq->ocrt", windows(x["x"], s), x["dy"], s, (1, 1), 0)},
        lambda s: 2 * s.n * outputs(s) * weights(s),
        lambda s, t: (s.n * s.c * pixels(s) + weights(s) + s.n * s.oc * outputs(s)) * t.size,
    ),
    "conv2d_dx": Oracle(conv2d_dx, dx_flops, lambda s, t: (s.n * s.oc * outputs(s) + weights(s) + s.n * s.c * s.h * s.w) * t.size),
    "max_pool2d": Oracle(
        lambda x, s: {"y": windows(x["x"], s, -np.inf).max(axis=(4, 5))},
        lambda s: s.n * s.c * outputs(s) * s.kh * s.kw,
        lambda s, t: s.n * s.c * (pixels(s) + outputs(s)) * t.size,
    ),
}


# attention -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mask:
    """With `causal` a query sees the keys up to its own, of which the last `window`; `shared` heads of queries have one head of keys."""

    causal: bool
    window: int | None = None
    shared: int = 1


def mask_of(s: Sizes) -> Mask:
    """The mask that the sizes of a kernel of the gradient mean, or those of a forward kernel."""
    return Mask(bool(s.get("causal", 1)), s.get("w") or None, s.get("shared", s.h // s.get("hk", s.h)))


def seen(s: Sizes, mask: Mask) -> Array:
    """Which query (row) sees which key, as booleans (s, s)."""
    every = np.tri(s.s, dtype=bool) if mask.causal else np.ones((s.s, s.s), bool)
    return every if mask.window is None else every & ~np.tri(s.s, k=-mask.window, dtype=bool)


def pairs(s: Sizes, mask: Mask) -> int:
    """Pairs of queries and keys of one head that are not masked."""
    if not mask.causal:
        return s.s**2
    w = s.s if mask.window is None else min(mask.window, s.s)
    return w * (w + 1) // 2 + (s.s - w) * w


def scores(x: Arrays, s: Sizes, mask: Mask) -> Array:
    """q·kᵀ / √d, a head of keys for each head of queries, −∞ where masked."""
    found = x["q"] @ heads(x["k"], mask).swapaxes(-1, -2) / np.sqrt(s.d)
    return np.where(seen(s, mask), found, -np.inf)


def heads(t: Array, mask: Mask) -> Array:
    return np.repeat(t, mask.shared, axis=1)


def forward(x: Arrays, s: Sizes, mask: Mask) -> dict[str, Array]:
    return {"y": softmax(scores(x, s, mask)) @ heads(x["v"], mask)}


def with_lse(x: Arrays, s: Sizes) -> dict[str, Array]:
    found = scores(x, s, mask_of(s))
    lse = np.logaddexp.reduce(found, axis=-1)
    return {"y": np.exp(found - lse[..., None]) @ heads(x["v"], mask_of(s)), "lse": lse}


def weights_and_gradients(x: Arrays, s: Sizes) -> tuple[Array, Array]:
    """P and dS/√d, all pairs at once."""
    p = np.exp(scores(x, s, mask_of(s)) - x["lse"][..., None])
    return p, p * (x["dy"] @ heads(x["v"], mask_of(s)).swapaxes(-1, -2) - x["delta"][..., None]) / np.sqrt(s.d)


def dkv(x: Arrays, s: Sizes) -> dict[str, Array]:
    p, ds = (m.swapaxes(-1, -2) for m in weights_and_gradients(x, s))
    return {"dk": ds @ x["q"], "dv": p @ x["dy"]}


def attention_flops(s: Sizes, mask: Mask) -> int:
    """2·d (q·k) + · + max + − + Σ + 2·d (P·v) for each pair of a head; max and / a row; · for each output."""
    return s.b * s.h * (pairs(s, mask) * (4 * s.d + 4) + s.s * (2 + s.d))


def gradient_flops(s: Sizes, sums: int) -> int:
    """2·d for q·k, for dy·v and for each of `sums` products; for dS: · and −, −, ·, all for each pair; · for each element of one output."""
    return s.b * s.h * (pairs(s, mask_of(s)) * (2 * (2 + sums) * s.d + 4) + s.s * s.d)


def gradient_bytes(s: Sizes, t: DType, outputs: int) -> int:
    """q, dy and the outputs once, k and v of their heads, two numbers a query."""
    return s.b * s.s * (((2 + outputs) * s.h + 2 * (s.h // s.shared)) * s.d * t.size + 2 * s.h * t.compute.size)


def qkvy(s: Sizes, t: DType) -> int:
    return 2 * s.b * (s.h + s.get("hk", s.h)) * s.s * s.d * t.size


def masked(mask: Callable[[Sizes], Mask]) -> Oracle:
    return Oracle(lambda x, s: forward(x, s, mask(s)), lambda s: attention_flops(s, mask(s)), qkvy)


ATTENTION = {
    "attention": masked(mask_of),
    "attention_full": masked(lambda s: Mask(causal=False)),
    "attention_window": masked(mask_of),
    "attention_grouped": masked(mask_of),
    "attention_lse": Oracle(
        with_lse,
        lambda s: attention_flops(s, mask_of(s)) + s.b * s.h * s.s,
        lambda s, t: s.b * s.s * ((2 * s.h + 2 * (s.h // s.shared)) * s.d * t.size + s.h * t.compute.size),
    ),
    "attention_delta": Oracle(
        lambda x, s: {"delta": (x["dy"] * x["y"]).sum(axis=-1)},
        lambda s: 2 * s.b * s.h * s.s * s.d,
        lambda s, t: s.b * s.h * s.s * (2 * s.d * t.size + t.compute.size),
    ),
    "attention_dq": Oracle(
        lambda x, s: {"dq": weights_and_gradients(x, s)[1] @ heads(x["k"], mask_of(s))},
        lambda s: gradient_flops(s, 1),
        lambda s, t: gradient_bytes(s, t, 1),
    ),
    "attention_dkv": Oracle(dkv, lambda s: gradient_flops(s, 2), lambda s, t: gradient_bytes(s, t, 2)),
}
ORACLES: dict[str, Oracle] = PRODUCTS | ROWS | CONVOLUTIONS | ATTENTION
