"""Normalisations, as plain expressions: rows and their statistics fuse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, elementwise, expand, reshape
from ..graph.promotion import promote
from .elementwise import length, rsqrt, to_floats
from .reduction import mean, reduced


def layer_norm(
    x: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, axis: int | Sequence[int] = -1,
    eps: float = 1e-5,
) -> TensorNode:  # fmt: skip
    """(x − mean) / √(variance + eps) · weight + bias, statistics over dimensions (arXiv 1607.06450)."""
    return _scaled("layer_norm", _standard(x, axis, eps), weight, bias)


def rms_norm(x: TensorNode, weight: TensorNode | None = None, /, *, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> TensorNode:
    """x / √(mean of x² + eps) · weight (arXiv 1910.07467)."""
    x = to_floats(x)
    size = mean(x * x, axis, True)
    out = x * expand(rsqrt(size + eps), x.shape)
    return _scaled("rms_norm", out, weight, None)


def group_norm(
    x: TensorNode, groups: int, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, eps: float = 1e-5
) -> TensorNode:
    """x (batch, channels, …) with statistics over groups of channels and all that follows (arXiv 1803.08494)."""
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise UsageError(f"group_norm of {list(x.shape)}: {groups} groups do not divide its channels")
    rows = reshape(x, (x.shape[0], groups, x.shape[1] // groups * prod(x.shape[2:])))
    out = reshape(_standard(rows, -1, eps), x.shape)
    return _scaled("group_norm", out, _channels(weight, x), _channels(bias, x))


def instance_norm(x: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, eps: float = 1e-5) -> TensorNode:
    """`group_norm` with a group for each channel."""
    return group_norm(x, x.shape[1] if len(x.shape) > 1 else 0, weight, bias, eps=eps)


def batch_norm(
    x: TensorNode, mean: TensorNode, variance: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *,
    eps: float = 1e-5,
) -> TensorNode:  # fmt: skip
    """x (batch, channels, …) by statistics that are given, each of (channels)."""
    x = to_floats(x)
    inverse = rsqrt(variance + eps)
    away = x - expand(cast(_wide(mean, x), x.dtype), x.shape)
    out = away * expand(cast(_wide(inverse, x), x.dtype), x.shape)
    return _scaled("batch_norm", out, _channels(weight, x), _channels(bias, x))


def batch_statistics(x: TensorNode, /) -> tuple[TensorNode, TensorNode]:
    """(mean, variance) of each channel over the batch and all that follows: what training gives to `batch_norm`."""
    x = to_floats(x)
    over = (0, *range(2, len(x.shape)))
    middle = mean(x, over, True)
    away = x - expand(middle, x.shape)
    return reshape(middle, (x.shape[1],)), mean(away * away, over)


def _standard(x: TensorNode, axis: int | Sequence[int], eps: float) -> TensorNode:
    x = to_floats(x)
    away = x - expand(mean(x, axis, True), x.shape)
    size = mean(away * away, axis, True)
    return away * expand(rsqrt(size + eps), x.shape)


def _wide(v: TensorNode, x: TensorNode) -> TensorNode:
    if v.shape != (x.shape[1],):
        raise UsageError(f"a vector of {list(v.shape)} for the channels of {list(x.shape)}")
    return reshape(v, (1, v.shape[0], *(1 for _ in x.shape[2:])))


def _channels(v: TensorNode | None, x: TensorNode) -> TensorNode | None:
    return None if v is None else _wide(v, x)


def _scaled(name: str, x: TensorNode, weight: TensorNode | None, bias: TensorNode | None) -> TensorNode:
    for op, v in (("mul", weight), ("add", bias)):
        if v is None:
            continue
        lead = len(x.shape) - len(v.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(v.shape, x.shape[lead:])):
            raise UsageError(f"{name} of {list(x.shape)}: a weight or bias of {list(v.shape)} does not fit")
        kind = promote(x.dtype, v.dtype)
        x = elementwise(op, cast(x, kind), expand(cast(v, kind), x.shape))
    return x


def normalize(x: TensorNode, /, *, axis: int | Sequence[int] = -1, eps: float = 1e-12) -> TensorNode:
    """x divided by its Euclidean length along dimensions, which counts as `eps` at least."""
    x = to_floats(x)
    size = length(reduced("add", x * x, axis, True, "normalize"))
    return x / expand(elementwise("max", size, eps), x.shape)
